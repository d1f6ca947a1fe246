//! `/ui/events`: what happened to servers, workflows, services and runs.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Filter, Level};

use super::json::{text, time};
use super::{Listing, Page, rendered};
use crate::route::ui::PageRequest;

pub(super) const EVENTS: Page = Page {
    path: "/ui/events",
    nav: Some(("Record", "Events")),
    needs: "core_events",
    make: |request| Box::pin(async move { rendered(&events(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&events(request).await?.as_live()) })),
};

/// How many rows a page has.
const ROWS: usize = 100;

async fn events(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 4] =
        [Column::text("At (UTC)"), Column::text("About"), Column::text("What"), Column::text("Message")];
    let kind = request.value("type");
    let mut arguments = json!({ "limit": ROWS });
    if matches!(kind.as_str(), "Normal" | "Warning") {
        arguments["eventType"] = kind.as_str().into();
    }
    let answer = request.operate("core_events", arguments).await?.to_value();
    let all = answer.as_array().or_else(|| answer["events"].as_array()).map_or(&[][..], Vec::as_slice);
    let table = all.iter().map(|row| {
        let is_warning = row["type"] == "Warning";
        let about = format!("{} {}", text(row, "resource_type"), text(row, "resource_name"));
        vec![
            time(row, "at"),
            Cell::Id(about),
            Cell::state(if is_warning { Level::Warn } else { Level::Idle }, text(row, "reason")),
            Cell::Prose(text(row, "message")),
        ]
    });
    let options = vec!["Normal".to_owned(), "Warning".to_owned()];
    let filters = vec![Filter::Choice { name: "type", label: "Kind", options, value: kind }];
    let listing = Listing {
        title: "Events",
        empty: ("Nothing has happened.", "Changes of servers, workflows, services and runs appear here."),
        is_live: true,
        is_open_ended: true,
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}
