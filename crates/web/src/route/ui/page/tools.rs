//! `/ui/tools`: the tools that a profile shows or hides, and one of them: what it takes, who sees it and by which rule.

mod hidden;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_store::Door;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::json::Json;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Check, Column, Filter, Level, Look, ManyForm, Pick, Section, Table};
use toolcrib_ui::schema::SchemaTree;

use super::audit::audit_of;
use super::calls::Room;
use super::json::{level, link, number, rows, text};
use super::{Listing, Page, ROWS, name, open_page, rendered};
use crate::route::ui::{PageRequest, write};

pub(super) const PAGE: Page = Page {
    path: "/ui/tools",
    nav: Some(("Tools", "Tools")),
    needs: "core_tool_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/tools/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

const COLUMNS: [Column; 6] = [
    Column::text("Tool"),
    Column::text("What it does"),
    Column::text("Says that it is"),
    Column::number("Tokens"),
    Column::text("Server"),
    Column::text("State"),
];
/// How much of a description a page shows, in characters.
const DESCRIPTION: usize = 2_000;
/// How much of the JSON of a large schema a page shows, in characters.
const SCHEMA: usize = 6_000;
const EFFECTS: [&str; 3] = ["read-only", "destructive", "other"];
const SORTS: [&str; 3] = ["id", "size", "use"];
/// The form that acts on the chosen tools.
const MANY: &str = "many";

/// Whether the tools are listed that the profile shows, or those that it hides.
const SHOW: [&str; 2] = ["visible", "hidden"];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    if request.parameter("show") == Some(SHOW[1]) {
        return hidden::list(request).await;
    }
    let (server, state, query) = (request.value("server"), request.value("state"), request.value("q"));
    let mut arguments = json!({ "query": query, "limit": ROWS, "offset": request.offset() });
    let (effect, sort) = (request.value("effect"), request.value("sort"));
    for (key, value) in [("server", &server), ("state", &state), ("effect", &effect), ("sort", &sort)] {
        if !value.is_empty() {
            arguments[key] = value.as_str().into();
        }
    }
    let answer = request.operate("core_tool_list", request.in_profile(arguments)).await?.to_value();
    let options = |key: &str| rows(&answer, key).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let many = many(request);
    let is_by_use = sort == "use";
    let table = rows(&answer, "tools").iter().map(|row| {
        let word = text(row, "state");
        let tool = link("/ui/tools", row, "id", "title");
        let check = Check { form: MANY, argument: "tools", value: text(row, "id") };
        let mut cells = vec![
            if many.is_some() { Cell::Several(vec![Cell::Check(check), tool]) } else { tool },
            Cell::Summary(text(row, "description")),
            said_effect(row),
            number(row, "tokens"),
            link("/ui/servers", row, "server", ""),
            Cell::state(level(&word), word),
        ];
        if is_by_use {
            cells.insert(4, number(row, "calls"));
        }
        cells
    });
    let table = table.collect();
    let mut columns = COLUMNS.to_vec();
    if is_by_use {
        columns.insert(4, Column::number("Calls in 7 days"));
    }
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of its name or description", value: query },
        Filter::Choice { name: "server", label: "Server", options: options("servers"), value: server },
        Filter::Choice { name: "state", label: "State", options: options("states"), value: state },
        Filter::Choice {
            name: "effect",
            label: "Says that it is",
            options: EFFECTS.map(str::to_owned).into(),
            value: effect,
        },
        Filter::Switch { name: "sort", label: "Sorted by", options: SORTS.map(str::to_owned).into(), value: sort },
        show_filter(request),
        request.profile_filter(),
    ];
    let listing = Listing {
        title: "Tools",
        empty: ("This profile shows no tools.", "Add a server, or see what it hides: choose “hidden” above."),
        actions: vec![open_page("Search as an agent does", "/ui/search", Look::Plain)],
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset: request.offset(),
        many,
        ..Listing::new(&columns, filters, table)
    };
    Ok(request.list(listing))
}

/// The filter between what is visible and what is hidden.
fn show_filter(request: &PageRequest) -> Filter {
    let value = request.value("show");
    Filter::Switch { name: "show", label: "Show", options: SHOW.map(str::to_owned).into(), value }
}

/// What can be done with the chosen tools: shown or hidden in a profile.
fn many(request: &PageRequest) -> Option<ManyForm> {
    if !request.may_change() || !request.allows("core_profile_tools") {
        return None;
    }
    let profile = request.parameter("profile").map_or_else(|| request.profile().to_string(), str::to_owned);
    Some(ManyForm {
        id: MANY,
        tool: "core_profile_tools",
        pick: Some(Pick {
            argument: "name",
            label: "The chosen ones in profile",
            options: request.profiles(),
            value: profile,
        }),
        hidden: Vec::new(),
        argument: "visible",
        buttons: vec![("Hide them", "false", Look::Danger), ("Show them", "true", Look::Plain)],
        is_previewed: true,
        next: request.here(),
    })
}

/// What a tool's server says that it does.
fn said_effect(row: &Value) -> Cell {
    let said = [("readOnly", Level::Ok, "read-only"), ("destructive", Level::Warn, "destructive")];
    let said = said.into_iter().find(|(key, ..)| row[*key] == true);
    said.map_or(Cell::Nothing, |(_, level, word)| Cell::Tags(vec![(level, word.to_owned())]))
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let id = name(request);
    let raw = match request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await {
        Err(problem) if problem.kind == Kind::UnknownTool => return hidden::one(request, &id, problem).await,
        answer => answer?,
    };
    let tool = raw.to_value();
    let explained = request.operate("core_tool_explain", request.in_profile(json!({ "tool": id }))).await;
    let mut tags = Vec::new();
    for (key, word, level) in [
        ("readOnlyHint", "read-only", Level::Ok),
        ("destructiveHint", "destructive", Level::Warn),
        ("idempotentHint", "idempotent", Level::Idle),
        ("openWorldHint", "reaches elsewhere", Level::Idle),
    ] {
        if tool["annotations"][key] == true {
            tags.push((level, word.to_owned()));
        }
    }
    let mut facts = vec![
        ("Name for clients", Cell::Id(text(&tool, "name"))),
        ("Server", link("/ui/servers", &tool, "server", "")),
        ("State", Cell::state(level(&text(&tool, "state")), text(&tool, "state"))),
        ("On record", Cell::link(audit_of(&id), "calls of it")),
    ];
    if !tags.is_empty() {
        facts.push(("It says that it is", Cell::Tags(tags)));
    }
    let is_all = request.parameter("all").is_some();
    let mut room = Room::new(if is_all { usize::MAX } else { DESCRIPTION });
    let intro = room.take(text(&tool, "description"));
    if room.is_cut {
        facts.push(("Description", Cell::link(request.with("all", "1"), "show all of it")));
    }
    let mut fixed = Vec::new();
    if let Ok(explained) = explained {
        fixed.push(steps(&explained.to_value()));
        fixed.extend(hidden::profiles(request, &id).await);
    }
    fixed.extend(schema(request, &raw, "inputSchema", "What it takes"));
    fixed.extend(schema(request, &raw, "outputSchema", "What it answers"));
    let profile = request.parameter("profile").map_or_else(String::new, |it| format!("?profile={}", encoded(it)));
    let call = format!("/ui/call/{}{profile}", encoded(&id));
    let title = match text(&tool, "title") {
        title if title.is_empty() => id.clone(),
        title => title,
    };
    Ok(DetailPage {
        frame: request.frame(&title),
        above: ("/ui/tools", "Tools"),
        name: id,
        intro,
        actions: request.if_changing(|| vec![open_page("Call it", &call, Look::Primary)]),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: String::new(),
    })
}

/// The way of a tool to a profile, step by step.
fn steps(explained: &Value) -> Section {
    let steps = rows(explained, "steps").iter().map(|step| {
        let (level, word) = if step["ok"] == true { (Level::Ok, "yes") } else { (Level::Bad, "no") };
        vec![Cell::Text(text(step, "step")), Cell::state(level, word), Cell::Prose(text(step, "text"))]
    });
    let columns = vec![Column::text("Step"), Column::text("Passed"), Column::text("Why")];
    let (is_seen, profile) = (explained["visible"] == true, text(explained, "profile"));
    let title = format!("{} in profile {profile}", if is_seen { "Visible" } else { "Hidden" });
    let table = Table { label: "Why it is there or not".into(), columns, rows: steps.collect() };
    Section::Table { title, table, empty: String::new() }
}

/// A schema of a tool, from its text: a value would lose the digits of large numbers.
fn schema(request: &PageRequest, tool: &Raw, key: &str, title: &str) -> Option<Section> {
    let id = if key == "inputSchema" { "input" } else { "output" };
    let (raw, title) = (schema_text(request, tool, key)?, title.to_owned());
    let Ok(json) = Json::parse(raw.as_str()) else {
        let text = Room::new(SCHEMA).take(raw.as_str().to_owned());
        return Some(Section::Pre { title, id, text });
    };
    let (tree, text) = (SchemaTree::from(json.clone()), json.pretty());
    if request.parameter("all").is_some() || !write::is_large(&format!("{tree}{text}")) {
        return Some(Section::Schema { title, id, tree, text, whole: String::new() });
    }
    let (tree, text) = (SchemaTree::beginning(&json), Room::new(SCHEMA).take(text));
    Some(Section::Schema { title, id, tree, text, whole: request.with("all", "1") })
}

/// The very text of a schema of a tool that an operation described: its answer has lost the digits of large numbers.
pub(super) fn schema_text(request: &PageRequest, tool: &Raw, key: &str) -> Option<Raw> {
    let answered = tool.get(key).filter(|schema| schema.as_str() != "null")?;
    let exact = || {
        let profile = request.profile_named(request.parameter("profile")).ok()?;
        let snapshot = request.site.gateway.snapshot(&profile).ok()?.seen_by(request.principal()?, Door::UI);
        let known = snapshot.view().tool(&tool.text("id")?)?;
        known.entry.raw.get(key)
    };
    // Of the same tool, unless it has just changed.
    Some(exact().filter(|exact| exact.to_value() == answered.to_value()).unwrap_or(answered))
}
