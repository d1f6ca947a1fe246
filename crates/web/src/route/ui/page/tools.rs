//! `/ui/tools`: the tools that a profile shows, and one of them: what it takes, who sees it and by which rule.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::json::Json;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Check, Column, Filter, Level, Look, ManyForm, Section, Table};
use toolcrib_ui::schema::SchemaTree;

use super::audit::audit_of;
use super::json::{level, link, number, rows, text};
use super::{Listing, Page, ROWS, name, open_page, rendered};
use crate::route::ui::PageRequest;

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
const EFFECTS: [&str; 3] = ["read-only", "destructive", "other"];
const SORTS: [&str; 3] = ["id", "size", "use"];
/// The form that acts on the chosen tools.
const MANY: &str = "many";

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
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
        request.profile_filter(),
    ];
    let listing = Listing {
        title: "Tools",
        empty: ("This profile shows no tools.", "Add a server, or see what the profile allows at `/ui/profiles`."),
        actions: vec![open_page("Search as an agent does", "/ui/search", Look::Plain)],
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset: request.offset(),
        many,
        ..Listing::new(&columns, filters, table)
    };
    Ok(request.list(listing))
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
        pick: ("name", "The chosen ones in profile", request.profiles(), profile),
        argument: "visible",
        buttons: vec![("Hide them", "false", Look::Danger), ("Show them", "true", Look::Plain)],
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
    let raw = request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await?;
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
    let mut fixed = Vec::new();
    if let Ok(explained) = explained {
        let explained = explained.to_value();
        let steps = rows(&explained, "steps").iter().map(|step| {
            let (level, word) = if step["ok"] == true { (Level::Ok, "yes") } else { (Level::Bad, "no") };
            vec![Cell::Text(text(step, "step")), Cell::state(level, word), Cell::Prose(text(step, "text"))]
        });
        let columns = vec![Column::text("Step"), Column::text("Passed"), Column::text("Why")];
        let (is_seen, profile) = (explained["visible"] == true, text(&explained, "profile"));
        let title = format!("{} in profile {profile}", if is_seen { "Visible" } else { "Hidden" });
        let table = Table { label: "Why it is there".into(), columns, rows: steps.collect() };
        fixed.push(Section::Table { title, table, empty: String::new() });
    }
    fixed.extend(schema(&raw, "inputSchema", "What it takes", "input"));
    fixed.extend(schema(&raw, "outputSchema", "What it answers", "output"));
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
        intro: text(&tool, "description"),
        actions: request.if_changing(|| vec![open_page("Call it", &call, Look::Primary)]),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: String::new(),
    })
}

/// A schema of a tool, from its text: a value would lose the digits of large numbers.
fn schema(tool: &Raw, key: &str, title: &str, id: &'static str) -> Option<Section> {
    let (raw, title) = (tool.get(key)?, title.to_owned());
    let Ok(json) = Json::parse(raw.as_str()) else {
        return Some(Section::Pre { title, id, text: raw.as_str().to_owned() });
    };
    let tree = SchemaTree::from(json.clone());
    Some(Section::Schema { title, id, tree, text: json.pretty() })
}
