//! `/ui/tools`: the tools that a profile shows, and one of them: what it takes, who sees it and by which rule.

use std::collections::BTreeSet;

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Column, Filter, Level, Look, Section, Table};

use super::json::{level, link, pretty, rows, text};
use super::record::audit_of;
use super::{Listing, Page, name, open_page, rendered};
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

const COLUMNS: [Column; 4] =
    [Column::text("Tool"), Column::text("What it does"), Column::text("Server"), Column::text("State")];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let answer = request.operate("core_tool_list", request.in_profile(json!({}))).await?.to_value();
    let tools = rows(&answer, "tools");
    let servers: BTreeSet<String> = tools.iter().map(|row| text(row, "server")).collect();
    let states: BTreeSet<String> = tools.iter().map(|row| text(row, "state")).collect();
    let (server, state) = (request.value("server"), request.value("state"));
    let words = request.words("q");
    let wanted = tools.iter().filter(|row| {
        (server.is_empty() || row["server"] == server.as_str())
            && (state.is_empty() || row["state"] == state.as_str())
            && words.fit(&format!("{} {} {}", text(row, "id"), text(row, "title"), text(row, "description")))
    });
    let table = wanted.map(|row| {
        let word = text(row, "state");
        vec![
            link("/ui/tools", row, "id", "title"),
            Cell::Summary(text(row, "description")),
            link("/ui/servers", row, "server", ""),
            Cell::state(level(&word), word),
        ]
    });
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of its name or description", value: words.text() },
        Filter::Choice {
            name: "server",
            label: "Server",
            options: servers.into_iter().collect(),
            value: server.clone(),
        },
        Filter::Choice { name: "state", label: "State", options: states.into_iter().collect(), value: state.clone() },
        request.profile_filter(),
    ];
    let listing = Listing {
        title: "Tools",
        empty: ("This profile shows no tools.", "Add a server, or see what the profile allows at `/ui/profiles`."),
        actions: vec![open_page("Search as an agent does", "/ui/search", Look::Plain)],
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let id = name(request);
    let tool = request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await?.to_value();
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
    fixed.push(Section::Pre { title: "What it takes".into(), id: "input", text: pretty(&tool["inputSchema"]) });
    if !tool["outputSchema"].is_null() {
        fixed.push(Section::Pre { title: "What it answers".into(), id: "output", text: pretty(&tool["outputSchema"]) });
    }
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
