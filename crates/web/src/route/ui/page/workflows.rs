//! `/ui/workflows`: workflows and their runs. `editor` writes a workflow; `start` begins a run.

mod start;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Filter, Look, Section, StepRecord, Table, Target};
use toolcrib_ui::text::clipped;

use super::editor;
use super::json::{level, link, pretty, rows, text, time};
use super::steps::{self, Outcomes};
use super::{Listing, Page, name, open_page, rendered};
use crate::route::ui::PageRequest;

pub(super) use start::PAGE as START;
pub(in crate::route::ui) use start::{is_asked, post};

pub(super) const PAGE: Page = Page {
    path: "/ui/workflows",
    nav: Some(("Tools", "Workflows")),
    needs: "core_workflow_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/workflows/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&one(request).await?.as_live()) })),
};

pub(super) const RUNS: Page = Page {
    path: "/ui/workflow-runs",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&runs(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&runs(request).await?.as_live()) })),
};

pub(super) const RUN: Page = Page {
    path: "/ui/workflow-runs/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&run(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&run(request).await?.as_live()) })),
};

/// Characters of what a step was given or gave that a page shows.
const SHOWN: usize = 20_000;
const STATUSES: [&str; 3] = ["inprogress", "completed", "failed"];
const RUN_COLUMNS: [Column; 4] =
    [Column::text("Run"), Column::text("Status"), Column::text("Workflow"), Column::text("Started (UTC)")];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 2] = [Column::text("Workflow"), Column::text("Available")];
    let answer = request.operate("core_workflow_list", json!({})).await?.to_value();
    let table = rows(&answer, "workflows").iter().map(|row| {
        let is_there = row["available"] != false;
        let (state, word) = if is_there { ("ok", "yes") } else { ("failed", "no") };
        vec![link("/ui/workflows", row, "name", "description"), Cell::state(level(state), word)]
    });
    let listing = Listing {
        title: "Workflows",
        empty: ("There are no workflows.", "A workflow is a stored sequence of tool calls, and itself a tool."),
        actions: request.if_changing(|| {
            vec![
                open_page("Runs", "/ui/workflow-runs", Look::Plain),
                open_page("Create a workflow", "/ui/edit/workflow", Look::Primary),
            ]
        }),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let workflow = request.operate("core_workflow_get", json!({ "name": name })).await?.to_value();
    let runs = request.operate("core_workflow_execution_list", json!({ "workflow_name": name, "limit": 20 })).await?;
    let runs = runs.to_value();
    let table = Table { label: "Runs".into(), columns: RUN_COLUMNS.to_vec(), rows: run_rows(&runs) };
    let remove = format!("/ui/operations/core_workflow_delete?name={}&return=/ui/workflows", encoded(&name));
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/workflows", "Workflows"),
        intro: text(&workflow["workflow"], "description"),
        actions: request.if_changing(|| {
            vec![
                open_page("Run it", &start::path_of(&name), Look::Primary),
                open_page("Edit", &editor::path_of("workflow", &name), Look::Plain),
                open_page("Edit as YAML", &(editor::path_of("workflow", &name) + "?as=yaml"), Look::Plain),
                open_page("Remove", &remove, Look::Danger),
            ]
        }),
        changing: vec![Section::Table { title: "Latest runs".into(), table, empty: "It has not run.".into() }],
        fixed: steps::sections(&workflow["workflow"], &Outcomes::new())
            .into_iter()
            .chain([Section::Pre { title: "Definition".into(), id: "definition", text: text(&workflow, "yaml") }])
            .collect(),
        live: request.live_path(),
        name: name.clone(),
    })
}

fn run_rows(runs: &Value) -> Vec<Vec<Cell>> {
    let row = |row: &Value| {
        let status = text(row, "status");
        vec![
            link("/ui/workflow-runs", row, "execution_id", ""),
            Cell::State { level: level(&status), word: status, note: text(row, "error") },
            link("/ui/workflows", row, "workflow_name", ""),
            time(row, "started_at"),
        ]
    };
    rows(runs, "executions").iter().map(row).collect()
}

async fn runs(request: &PageRequest) -> Result<ListPage, Problem> {
    let (status, offset) = (request.value("status"), request.offset());
    let mut arguments = json!({ "limit": 100, "offset": offset });
    if STATUSES.contains(&status.as_str()) {
        arguments["status"] = status.as_str().into();
    }
    let answer = request.operate("core_workflow_execution_list", arguments).await?.to_value();
    let options = STATUSES.iter().map(|status| (*status).to_owned()).collect();
    let filters = vec![Filter::Choice { name: "status", label: "Status", options, value: status }];
    let listing = Listing {
        title: "Runs of workflows",
        above: Some(("/ui/workflows", "Workflows")),
        empty: ("No workflow has run.", "Run one on its page."),
        is_live: true,
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset,
        size: 100,
        ..Listing::new(&RUN_COLUMNS, filters, run_rows(&answer))
    };
    Ok(request.list(listing))
}

async fn run(request: &PageRequest) -> Result<DetailPage, Problem> {
    let id = name(request);
    let one = request.operate("core_workflow_execution_get", json!({ "execution_id": id })).await?.to_value();
    let workflow = text(&one, "workflow_name");
    let status = text(&one, "status");
    let facts = vec![
        ("Status", Cell::State { level: level(&status), word: status.clone(), note: text(&one, "error") }),
        ("Workflow", link("/ui/workflows", &one, "workflow_name", "")),
        ("Started (UTC)", time(&one, "started_at")),
        ("Ended (UTC)", time(&one, "completed_at")),
    ];
    // As it is defined now, if it still is: a run keeps its steps, not how they were arranged.
    let definition = request.operate("core_workflow_get", json!({ "name": workflow })).await;
    let definition = definition.map(|it| it.to_value()["workflow"].take()).unwrap_or_default();
    let drawn = steps::sections(&definition, &steps::outcomes(&one));
    let drawn = drawn.into_iter().filter(|section| matches!(section, Section::Graph(_)));
    let records = Section::Records {
        title: "Steps".into(),
        rows: rows(&one, "steps").iter().map(record).collect(),
        empty: "No step has begun.".into(),
    };
    let whole = |title: &str, id, key: &str| {
        (!one[key].is_null()).then(|| Section::Pre { title: title.to_owned(), id, text: shown(&one[key]) })
    };
    let cut = one["truncated"] == true;
    let note = cut.then(|| Section::Prose { title: String::new(), text: cut_note(&id) });
    Ok(DetailPage {
        frame: request.frame(&format!("Run of {workflow}")),
        above: ("/ui/workflow-runs", "Runs of workflows"),
        intro: String::new(),
        actions: Vec::new(),
        // What can be done changes with the run.
        changing: [
            Section::Facts(facts),
            Section::Actions(request.if_changing(|| vec![action(&one, &id, &request.here())])),
        ]
        .into_iter()
        .chain(whole("Input", "input", "input"))
        .chain(drawn)
        .chain([records])
        .chain(note)
        .chain(whole("Result", "result", "result"))
        .collect(),
        fixed: Vec::new(),
        live: request.live_path(),
        name: id.clone(),
    })
}

/// What can be done with a run: end it while it runs, else begin one that gets the same.
fn action(run: &Value, id: &str, here: &str) -> Action {
    if run["status"] == "inprogress" {
        return super::run("Cancel", "core_workflow_execution_cancel", vec![("execution_id", id.to_owned())], here);
    }
    let fields = vec![("arguments".to_owned(), run["input"].to_string())];
    let target = Target::Send { path: start::path_of(&text(run, "workflow_name")), fields };
    Action { label: "Run again with the same input".into(), about: String::new(), target, look: Look::Primary }
}

fn cut_note(id: &str) -> String {
    format!(
        "Not all of it fits this page: `toolcrib api core_workflow_execution_get execution_id={id} step_id=…` shows one step whole."
    )
}

fn record(step: &Value) -> StepRecord {
    let status = text(step, "status");
    let mut about = vec![text(step, "started_at").get(11..19).unwrap_or_default().to_owned()];
    about.extend(step["duration_ms"].as_u64().map(|taken| format!("{taken} ms")));
    let part = |label, key: &str| (!step[key].is_null()).then(|| (label, shown(&step[key])));
    StepRecord {
        id: text(step, "step_id"),
        level: level(&status),
        word: status,
        tool: text(step, "tool"),
        about: about.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", "),
        error: text(step, "error"),
        parts: [part("Input", "input"), part("Result", "result")].into_iter().flatten().collect(),
    }
}

/// A value as it is shown: a text as it is, all else as JSON.
fn shown(value: &Value) -> String {
    match value.as_str() {
        Some(text) => clipped(text, SHOWN),
        None => clipped(&pretty(value), SHOWN),
    }
}
