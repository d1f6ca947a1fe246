//! `/ui/logs/<server>`: what a server's program wrote, and what the gateway saw of it, as it happens.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Filter, Level, Look};

use super::json::{rows, text, time};
use super::{Listing, Page, name, open_page, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/logs/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

const COLUMNS: [Column; 3] = [Column::text("At (UTC)"), Column::text("Level"), Column::text("Line")];
const LEVELS: [&str; 3] = ["INFO", "WARN", "ERROR"];
/// How many lines are shown, the newest.
const ROWS: usize = 200;

/// Where the log of a server is shown.
pub(super) fn log_of(server: &str) -> String {
    format!("/ui/logs/{}", encoded(server))
}

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let (server, words, level) = (name(request), request.value("q"), request.value("level"));
    let mut arguments = json!({ "name": server, "limit": ROWS, "query": words });
    if LEVELS.contains(&level.as_str()) {
        arguments["level"] = level.as_str().into();
    }
    let answer = request.operate("core_mcpserver_logs", arguments).await?.to_value();
    let table = rows(&answer, "lines").iter().rev().map(|line| {
        vec![time(line, "at"), Cell::state(severity(line), text(line, "level")), Cell::Id(text(line, "line"))]
    });
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of a line", value: words },
        Filter::Choice {
            name: "level",
            label: "From level",
            options: LEVELS[1..].iter().map(ToString::to_string).collect(),
            value: level,
        },
    ];
    let mut page = request.list(Listing {
        title: "Log",
        intro: "What its program wrote to stderr, and what the gateway saw of it. The newest lines stand first.",
        empty: ("The log is empty.", "A server's first line comes when it starts."),
        actions: vec![open_page("The server", &format!("/ui/servers/{}", encoded(&server)), Look::Plain)],
        is_live: true,
        is_open_ended: true,
        ..Listing::new(&COLUMNS, filters, table.collect())
    });
    page.frame.title = format!("Log of {server}");
    page.above = Some((format!("/ui/servers/{}", encoded(&server)), format!("Servers / {server}")));
    Ok(page)
}

fn severity(line: &Value) -> Level {
    match line["level"].as_str().unwrap_or_default() {
        "ERROR" => Level::Bad,
        "WARN" => Level::Warn,
        _ => Level::Idle,
    }
}
