//! Pages about what happened: the audit log and events.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Filter, Level, Look};

use super::json::{cell, level, rows, text, time};
use super::{Listing, Page, open_page, rendered};
use crate::route::ui::PageRequest;

pub(super) const AUDIT: Page = Page {
    path: "/ui/audit",
    nav: Some(("Record", "Audit log")),
    needs: "core_audit_list",
    make: |request| Box::pin(async move { rendered(&audit(request).await?) }),
    live: None,
};

pub(super) const EVENTS: Page = Page {
    path: "/ui/events",
    nav: Some(("Record", "Events")),
    needs: "core_events",
    make: |request| Box::pin(async move { rendered(&events(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&events(request).await?.as_live()) })),
};

/// How many rows a page has.
const ROWS: usize = 100;
const OUTCOMES: [&str; 5] = ["ok", "error", "denied", "timeout", "cancelled"];

async fn audit(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 8] = [
        Column::number("#"),
        Column::text("At (UTC)"),
        Column::text("Who"),
        Column::text("What"),
        Column::text("Outcome"),
        Column::text("Decided"),
        Column::number("Took"),
        Column::text("Door"),
    ];
    let mut arguments = json!({ "limit": ROWS });
    for key in ["target", "principal", "outcome", "since", "until"] {
        if let Some(value) = request.parameter(key) {
            arguments[key] = value.into();
        }
    }
    let before = request.parameter("before").and_then(|before| before.parse::<u64>().ok());
    if let Some(before) = before {
        arguments["before"] = before.into();
    }
    let answer = request.operate("core_audit_list", arguments).await?.to_value();
    let events = rows(&answer, "events");
    let table = events.iter().map(|row| {
        let outcome = text(row, "outcome");
        let took = row["duration_us"].as_u64().map_or_else(String::new, duration);
        vec![
            Cell::Figure(text(row, "seq")),
            time(row, "at"),
            Cell::Id(text(row, "principal")),
            Cell::Id(text(row, "target")),
            Cell::state(level(&outcome), outcome),
            Cell::Summary(text(row, "decision")),
            Cell::Figure(took),
            cell(row, "door"),
        ]
    });
    let search = |name, label, hint| Filter::Search { name, label, hint, value: request.value(name) };
    let filters = vec![
        search("target", "What", "files/*"),
        search("principal", "Who", "user:acme/ann"),
        Filter::Choice {
            name: "outcome",
            label: "Outcome",
            options: OUTCOMES.iter().map(|outcome| (*outcome).to_owned()).collect(),
            value: request.value("outcome"),
        },
        search("since", "Since", "2026-11-20"),
    ];
    let last = events.last().and_then(|row| row["seq"].as_u64()).filter(|_| answer["truncated"] == true);
    let after = last.map(|seq| request.with("before", &seq.to_string()));
    let listing = Listing {
        title: "Audit log",
        intro: "Who did what, and who decided. Each event holds the hash of the one before.",
        empty: ("Nothing is on record.", "Every call leaves an event here."),
        actions: vec![
            open_page("Verify", "/ui/operations/core_audit_verify", Look::Primary),
            open_page("Export", "/ui/operations/core_audit_export", Look::Plain),
        ],
        after,
        is_open_ended: true,
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

/// Microseconds in a unit that people read.
fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

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

/// Where the audit log is shown for one target.
pub(super) fn audit_of(target: &str) -> String {
    format!("/ui/audit?target={}", encoded(target))
}
