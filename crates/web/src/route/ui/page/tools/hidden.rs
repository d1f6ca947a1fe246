//! Tools that a profile hides: by which rule, file and line, and the smallest change of the profile that shows one.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Filter, Level, Look, Section, Table, Target};

use super::super::json::{level, link, rows, text};
use super::super::{Listing, ROWS, open_page};
use super::{show_filter, steps};
use crate::route::ui::PageRequest;
use crate::route::ui::write::{sentence, with_details};

const COLUMNS: [Column; 4] =
    [Column::text("Tool"), Column::text("What it does"), Column::text("Hidden by"), Column::text("Server")];
/// The operation that shows a tool.
const ALLOW: &str = "core_profile_allow";
/// How many tools that come with it are named.
const NAMED: usize = 10;

/// The tools that a profile hides.
pub(super) async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let (server, query) = (request.value("server"), request.value("q"));
    let mut arguments = json!({ "query": query, "limit": ROWS, "offset": request.offset() });
    if !server.is_empty() {
        arguments["server"] = server.as_str().into();
    }
    arguments["profile"] = profile_of(request)?.into();
    let answer = request.operate("core_tool_hidden", arguments).await?.to_value();
    let profile = text(&answer, "profile");
    let servers = rows(&answer, "servers").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let table = rows(&answer, "tools").iter().map(|row| {
        let id = text(row, "id");
        vec![
            Cell::Link { path: path_of(&id, &profile), text: id, note: text(row, "title") },
            Cell::Summary(text(row, "description")),
            reason(row),
            link("/ui/servers", row, "server", ""),
        ]
    });
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of its name or description", value: query },
        Filter::Choice { name: "server", label: "Server", options: servers, value: server },
        show_filter(request),
        request.profile_filter(),
    ];
    let listing = Listing {
        title: "Hidden tools",
        intro: "What servers offer and this profile does not show. Open one to see why, and to allow it.",
        empty: ("This profile hides nothing.", "It shows all that servers offer."),
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset: request.offset(),
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

/// The page of a tool that the profile does not show. Who may not know of it reads what is said of a tool that is not
/// there.
pub(super) async fn one(request: &PageRequest, id: &str, unknown: Problem) -> Result<DetailPage, Problem> {
    let Ok(tool) = request.operate("core_tool_visibility", json!({ "name": id })).await else { return Err(unknown) };
    let tool = tool.to_value();
    let profile = profile_of(request)?;
    let explained = request.operate("core_tool_explain", json!({ "tool": id, "profile": profile })).await?.to_value();
    let state = text(&tool, "state");
    let facts = vec![
        ("Server", link("/ui/servers", &tool, "server", "")),
        ("State", Cell::state(level(&state), state)),
        (
            "In this profile",
            Cell::State { level: Level::Warn, word: "hidden".into(), note: text(&explained, "hiddenBy") },
        ),
    ];
    let mut fixed = Vec::new();
    if explained["visible"] != true {
        fixed.extend(proposal(request, id, &profile).await);
    }
    fixed.push(steps(&explained));
    fixed.push(table_of(&tool));
    let title = text(&tool, "title");
    Ok(DetailPage {
        frame: request.frame(if title.is_empty() { id } else { &title }),
        above: ("/ui/tools", "Tools"),
        name: id.to_owned(),
        intro: text(&tool, "description"),
        actions: Vec::new(),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: String::new(),
    })
}

/// How each profile treats a tool, where who asks may know.
pub(super) async fn profiles(request: &PageRequest, id: &str) -> Option<Section> {
    let tool = request.operate("core_tool_visibility", json!({ "name": id })).await.ok()?.to_value();
    Some(table_of(&tool))
}

fn table_of(tool: &Value) -> Section {
    let id = text(tool, "id");
    let rows = rows(tool, "profiles").iter().map(|row| {
        let profile = text(row, "profile");
        let seen = match row["visible"] == true {
            true => Cell::state(Level::Ok, "visible"),
            false => reason(row),
        };
        vec![Cell::link(path_of(&id, &profile), profile), seen]
    });
    let columns = vec![Column::text("Profile"), Column::text("There it is")];
    let table = Table { label: "Which profiles show it".into(), columns, rows: rows.collect() };
    Section::Table { title: "In each profile".into(), table, empty: "There are no profiles.".into() }
}

/// Why a tool is hidden, and where the rule stands.
fn reason(row: &Value) -> Cell {
    let (file, line) = (text(row, "file"), text(row, "line"));
    let place = if line.is_empty() { file } else { format!("{file}:{line}") };
    let note = text(row, "hiddenBy").replace(&format!(" ({place})"), "");
    let mut cells = vec![Cell::State { level: Level::Warn, word: "hidden".into(), note }];
    if !place.is_empty() {
        cells.push(Cell::Id(place));
    }
    Cell::Several(cells)
}

fn profile_of(request: &PageRequest) -> Result<String, Problem> {
    request.profile_named(request.parameter("profile")).map(|profile| profile.to_string())
}

fn path_of(id: &str, profile: &str) -> String {
    format!("/ui/tools/{}?profile={}", encoded(id), encoded(profile))
}

/// The smallest change of the profile's file that shows the tool, what else comes with it, and the button that writes it;
/// or why the profile is not what hides it.
async fn proposal(request: &PageRequest, id: &str, profile: &str) -> Vec<Section> {
    let title = format!("Allow it in profile `{profile}`");
    let arguments = json!({ "name": profile, "tool": id });
    let asked = json!({ "operation": ALLOW, "arguments": arguments });
    let shown = match request.operate("core_write_preview", asked).await {
        Ok(shown) => shown.to_value(),
        Err(problem) => {
            let (first, _) = with_details(&problem.message);
            let hint = problem.hint.as_deref().map(sentence).unwrap_or_default();
            return vec![
                Section::Prose {
                    title: "What would show it".into(),
                    text: format!("No rule of the profile alone. {} {hint}", sentence(first)),
                },
                Section::Actions(next_steps(id, profile)),
            ];
        }
    };
    let revision = request.operate("core_profile_get", json!({ "name": profile })).await;
    let revision = revision.map(|profile| text(&profile.to_value(), "revision")).unwrap_or_default();
    let mut sections = Vec::new();
    let others = with_it(request, id, profile).await;
    for file in rows(&shown, "files") {
        let note = format!("`{}`. {others}", text(file, "file"));
        sections.push(Section::Difference { title: title.clone(), note, text: text(file, "difference") });
    }
    sections.extend(request.if_changing(|| {
        let arguments = vec![("name", profile.to_owned()), ("tool", id.to_owned()), ("revision", revision)];
        let target = Target::Operation { tool: ALLOW, arguments, next: request.here() };
        let allow =
            Action { label: "Write this change".into(), about: format!("to allow {id}"), target, look: Look::Primary };
        let path = format!("/ui/operations/{ALLOW}?name={}&tool={}", encoded(profile), encoded(id));
        vec![Section::Actions(vec![allow, open_page("As command", &path, Look::Plain)])]
    }));
    sections
}

/// What else the change would show.
async fn with_it(request: &PageRequest, id: &str, profile: &str) -> String {
    let asked = json!({ "name": profile, "allow": id });
    let Ok(preview) = request.operate("core_profile_preview", asked).await else { return String::new() };
    let preview = preview.to_value();
    let others: Vec<String> = rows(&preview, "comes")
        .iter()
        .filter_map(Value::as_str)
        .filter(|other| *other != id)
        .map(|other| format!("`{other}`"))
        .collect();
    match others.len() {
        0 => "Nothing else changes for clients of this profile.".to_owned(),
        _ => {
            let total = preview["comesTotal"].as_u64().unwrap_or_default().saturating_sub(1);
            let named = others.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let many = if total == 1 { "comes 1 other".to_owned() } else { format!("come {total} others") };
            let end = if others.len() > NAMED { ", …" } else { "." };
            format!("With it {many}: {named}{end}")
        }
    }
}

fn next_steps(id: &str, profile: &str) -> Vec<Action> {
    let server = id.split('/').next().unwrap_or_default();
    vec![
        open_page("Its server", &format!("/ui/servers/{}", encoded(server)), Look::Plain),
        open_page("The profile", &format!("/ui/profiles/{}", encoded(profile)), Look::Plain),
        open_page("Policies", "/ui/policies", Look::Plain),
    ]
}
