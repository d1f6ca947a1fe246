//! `/ui/servers`: the servers, and one of them with what changed at it.

pub(super) mod changes;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Filter, Look, Section};

use super::editor;
use super::json::{cell, level, link, number, pretty, rows, state, text, time};
use super::logs::log_of;
use super::{Listing, Page, ROWS, name, open_page, rendered, run};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/servers",
    nav: Some(("Tools", "Servers")),
    needs: "core_mcpserver_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/servers/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&one(request).await?.as_live()) })),
};

const COLUMNS: [Column; 6] = [
    Column::text("Server"),
    Column::text("State"),
    Column::text("Transport"),
    Column::number("Tools"),
    Column::number("Restarts"),
    Column::text("Since (UTC)"),
];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let (chosen, query) = (request.value("state"), request.value("q"));
    let mut arguments = json!({ "query": query, "limit": ROWS, "offset": request.offset() });
    if !chosen.is_empty() {
        arguments["state"] = chosen.as_str().into();
    }
    let answer = request.operate("core_mcpserver_list", arguments).await?.to_value();
    let states = rows(&answer, "states").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let table = rows(&answer, "mcpServers").iter().map(|row| {
        let word = text(row, "state");
        let shown = Cell::State { level: level(&word), word, note: text(row, "lastError") };
        vec![
            link("/ui/servers", row, "name", "title"),
            shown,
            cell(row, "transport"),
            number(row, "tools"),
            number(row, "restarts"),
            time(row, "since"),
        ]
    });
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "name or title", value: query },
        Filter::Choice { name: "state", label: "State", options: states, value: chosen },
    ];
    let listing = Listing {
        title: "Servers",
        empty: ("There are no servers.", "Add one here, or take over those of your clients at `/ui/setup`."),
        actions: request.if_changing(|| {
            vec![
                open_page("Add from the registry", "/ui/registry", Look::Plain),
                open_page("Add a server", "/ui/edit/server", Look::Primary),
            ]
        }),
        is_live: true,
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset: request.offset(),
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let server = request.operate("core_mcpserver_get", json!({ "name": name })).await?.to_value();
    let is_compared = !request.is_live() && request.allows("core_mcpserver_changes");
    let changes = match is_compared {
        // What cannot be compared is no reason to show nothing.
        true => request.operate("core_mcpserver_changes", json!({ "name": name })).await.map(|it| it.to_value()).ok(),
        false => None,
    };
    let title = match text(&server, "title") {
        title if title.is_empty() => name.clone(),
        title => title,
    };
    let file = text(&server, "file");
    let mut fixed = Vec::new();
    if let Some(changes) = &changes {
        fixed.extend(changes::sections(request, &name, changes));
    }
    fixed.push(Section::Pre {
        title: if file.is_empty() { "Definition".to_owned() } else { format!("Definition: {file}") },
        id: "definition",
        text: server["yaml"].as_str().map_or_else(|| pretty(&server["definition"]), str::to_owned),
    });
    Ok(DetailPage {
        frame: request.frame(&title),
        above: ("/ui/servers", "Servers"),
        intro: String::new(),
        actions: actions(request, &name),
        changing: vec![Section::Facts(facts(&server, &name))],
        fixed,
        live: request.live_path(),
        name,
    })
}

fn actions(request: &PageRequest, name: &str) -> Vec<Action> {
    let button = |label: &str, tool: &'static str| run(label, tool, vec![("name", name.to_owned())], &request.here());
    let edit = editor::path_of("server", name);
    let remove = format!("/ui/operations/core_mcpserver_delete?name={}&return=/ui/servers", encoded(name));
    let log = request.allows("core_mcpserver_logs").then(|| open_page("Log", &log_of(name), Look::Plain));
    let changing = request.if_changing(|| {
        vec![
            button("Start", "core_mcpserver_start"),
            button("Restart", "core_mcpserver_restart"),
            button("Stop", "core_mcpserver_stop"),
            button("Verify", "core_mcpserver_verify"),
            open_page("Edit", &edit, Look::Plain),
            open_page("Edit as YAML", &format!("{edit}?as=yaml"), Look::Plain),
            open_page("Remove", &remove, Look::Danger),
        ]
    });
    log.into_iter().chain(changing).collect()
}

fn facts(server: &Value, name: &str) -> Vec<(&'static str, Cell)> {
    let mut facts = vec![("State", state(&text(server, "state"))), ("Since (UTC)", time(server, "since"))];
    for (label, key) in [("Failed", "lastError"), ("Next try", "nextRetry"), ("What to do", "next")] {
        if !server[key].is_null() {
            facts.push((label, Cell::Prose(text(server, key))));
        }
    }
    let tools = server["tools"].as_u64().unwrap_or_default();
    let offers = format!("{} resources, {} prompts", text(server, "resources"), text(server, "prompts"));
    let link = Cell::link(format!("/ui/tools?server={}", encoded(name)), format!("{tools} tools"));
    facts.push(("Offers", Cell::Several(vec![link, Cell::Text(offers)])));
    let calls = &server["calls"];
    let running = format!("{} running, {} waiting, {} places", calls["running"], calls["waiting"], calls["places"]);
    facts.push(("Calls", Cell::Figure(running)));
    facts.push(("Restarts", number(server, "restarts")));
    facts.push(("Transport", cell(server, "transport")));
    for warning in rows(server, "warnings") {
        facts.push(("Warning", Cell::Text(warning.as_str().map_or_else(|| warning.to_string(), str::to_owned))));
    }
    facts
}
