//! `/ui/runs`: runs of agents, and one of them as it happens.

pub(super) mod compare;
pub(super) mod waits;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Filter, Look, OperationForm, Section, Table};

use super::json::{cell, link, number, rows, text, time};
use super::{Listing, Page, name, open_page, operation, rendered, run};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/runs",
    nav: Some(("Agents", "Runs")),
    needs: "core_run_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/runs/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&one(request).await?.as_live()) })),
};

const COLUMNS: [Column; 7] = [
    Column::text("Run"),
    Column::text("Status"),
    Column::text("Agent"),
    Column::number("Rounds"),
    Column::number("Calls"),
    Column::number("Tokens"),
    Column::text("Started (UTC)"),
];
const STATUSES: [&str; 4] = ["running", "waiting", "paused", "ended"];
/// How many rows a page has, and how many entries of a run are shown.
const ROWS: usize = 100;
const ENTRIES: usize = 500;

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let (status, offset) = (request.value("status"), request.offset());
    let mut arguments = json!({ "limit": ROWS, "offset": offset });
    if STATUSES.contains(&status.as_str()) {
        arguments["status"] = status.as_str().into();
    }
    let answer = request.operate("core_run_list", arguments).await?.to_value();
    let table = rows(&answer, "runs").iter().map(|row| {
        vec![
            link("/ui/runs", row, "run", "task"),
            status_of(row),
            cell(row, "agent"),
            number(row, "rounds"),
            number(row, "calls"),
            number(row, "tokens"),
            time(row, "started_at"),
        ]
    });
    let options = STATUSES.iter().map(|status| (*status).to_owned()).collect();
    let filters = vec![Filter::Choice { name: "status", label: "Status", options, value: status }];
    let listing = Listing {
        title: "Runs",
        empty: ("No agent has run.", "Start a run here, or with `toolcrib run \"…\" --model demo`."),
        actions: {
            let mut actions = request.if_changing(|| vec![operation("Start a run", "core_run_start", "/ui/runs")]);
            actions.push(open_page("Compare two runs", compare::PATH, Look::Plain));
            actions
        },
        is_live: true,
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset,
        size: ROWS,
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

fn status_of(row: &Value) -> Cell {
    let (status, end) = (text(row, "status"), text(row, "end"));
    super::json::state(if end.is_empty() { &status } else { &end })
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let id = name(request);
    let one = request.operate("core_run_get", json!({ "run": id })).await?.to_value();
    let entries = request.operate("core_run_entries", json!({ "run": id, "limit": ENTRIES })).await?.to_value();
    let mut facts = vec![
        ("Status", status_of(&one)),
        ("Agent", cell(&one, "agent")),
        ("Model", cell(&one, "model")),
        ("For", Cell::Id(text(&one, "principal"))),
        ("Profile", cell(&one, "profile")),
        (
            "Spent",
            Cell::Figure(format!(
                "{} rounds, {} calls, {} tokens, {}",
                text(&one, "rounds"),
                text(&one, "calls"),
                text(&one, "tokens"),
                text(&one, "cost")
            )),
        ),
        ("Started (UTC)", time(&one, "started_at")),
    ];
    if !one["ended_at"].is_null() {
        facts.push(("Ended (UTC)", time(&one, "ended_at")));
    }
    let mut changing = vec![Section::Facts(facts)];
    changing.extend(waits::sections(request, &one, &id));
    if !one["output"].is_null() {
        changing.push(Section::Pre { title: "Answer".into(), id: "answer", text: text(&one, "output") });
    }
    let columns = vec![Column::number("#"), Column::text("What"), Column::text("Detail"), Column::text("At (UTC)")];
    let happened = rows(&entries, "entries").iter().map(|entry| {
        vec![number(entry, "number"), Cell::Text(text(entry, "event")), Cell::Text(detail(entry)), time(entry, "at")]
    });
    let table = Table { label: "What happened".into(), columns, rows: happened.collect() };
    changing.push(Section::Table { title: "What happened".into(), table, empty: "Nothing yet.".into() });
    let status = text(&one, "status");
    Ok(DetailPage {
        frame: request.frame(&text(&one, "task")),
        above: ("/ui/runs", "Runs"),
        intro: String::new(),
        actions: {
            let mut all = request.if_changing(|| actions(request, &id, &status));
            all.push(comparison(&one, &id));
            all
        },
        changing,
        fixed: request.if_changing(|| {
            vec![Section::Form(OperationForm {
                title: "Say more".into(),
                tool: "core_run_message",
                hidden: vec![("run", id.clone())],
                fields: vec![("message", "Message", true)],
                button: "Send",
                look: Look::Plain,
                next: request.here(),
            })]
        }),
        live: request.live_path(),
        name: id,
    })
}

/// A fork is compared with what it was forked from, any other run with one that is chosen.
fn comparison(one: &Value, id: &str) -> Action {
    match one["forked_from"].as_str() {
        Some(from) => {
            let path = format!("{}?a={}&b={}", compare::PATH, encoded(from), encoded(id));
            open_page("Compare with what it was forked from", &path, Look::Plain)
        }
        None => open_page("Compare", &format!("{}?a={}", compare::PATH, encoded(id)), Look::Plain),
    }
}

fn actions(request: &PageRequest, id: &str, status: &str) -> Vec<Action> {
    let more = |tool: &str| format!("/ui/operations/{tool}?run={}&return={}", encoded(id), encoded(&request.here()));
    let mut actions = vec![
        open_page("Fork", &more("core_run_fork"), Look::Plain),
        open_page("Export", &format!("/ui/operations/core_run_export?run={}", encoded(id)), Look::Plain),
    ];
    if status == "ended" {
        actions.insert(0, open_page("Go on with more", &more("core_run_resume"), Look::Plain));
    } else {
        let arguments = || vec![("run", id.to_owned())];
        let (label, tool) =
            if status == "paused" { ("Resume", "core_run_resume") } else { ("Pause", "core_run_pause") };
        actions.insert(0, run(label, tool, arguments(), &request.here()));
        let cancel = run("Cancel", "core_run_cancel", arguments(), &request.here());
        actions.push(Action { look: Look::Danger, ..cancel });
    }
    actions
}

/// An entry in a few words.
fn detail(entry: &Value) -> String {
    let say = |key: &str| text(entry, key);
    match entry["event"].as_str().unwrap_or_default() {
        "started" => say("task"),
        "asked" => format!("request {} to the model", say("request")),
        "answered" => {
            let calls =
                rows(entry, "calls").iter().map(|call| format!("{}({})", text(call, "tool"), text(call, "arguments")));
            let parts = std::iter::once(say("text")).filter(|text| !text.is_empty()).chain(calls);
            parts.collect::<Vec<_>>().join("\n")
        }
        "decided" => format!("{} {}", say("call"), say("decision")),
        "called" => format!("{} attempt {}", say("call"), say("attempt")),
        "result" => {
            format!("{} {}{}", say("call"), if entry["is_error"] == true { "error: " } else { "" }, say("text"))
        }
        "ended" => format!("{} {}", say("end"), say("text")),
        _ => {
            let rest = entry.as_object().into_iter().flatten();
            let rest = rest.filter(|(key, _)| !matches!(key.as_str(), "event" | "number" | "at"));
            rest.map(|(key, value)| {
                format!("{key}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            })
            .collect::<Vec<_>>()
            .join(", ")
        }
    }
}
