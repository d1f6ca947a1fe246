//! `/ui/workflows`: workflows and their runs.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Column, Filter, Look, Section, Table};

use super::json::{cell, level, link, pretty, rows, text, time};
use super::steps::{self, Outcomes};
use super::{Listing, Page, name, open_page, operation, rendered};
use crate::route::ui::PageRequest;

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
                operation("Create a workflow", "core_workflow_create", "/ui/workflows"),
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
    let call = format!("/ui/call/workflow_{}", encoded(&name));
    let page = |tool: &str, next: &str| format!("/ui/operations/{tool}?name={}&return={next}", encoded(&name));
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/workflows", "Workflows"),
        intro: text(&workflow["workflow"], "description"),
        actions: request.if_changing(|| {
            vec![
                open_page("Run it", &call, Look::Primary),
                open_page(
                    "Edit",
                    &page("core_workflow_update", &format!("/ui/workflows/{}", encoded(&name))),
                    Look::Plain,
                ),
                open_page("Remove", &page("core_workflow_delete", "/ui/workflows"), Look::Danger),
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
    let steps = rows(&one, "steps").iter().map(|step| {
        let status = text(step, "status");
        vec![
            Cell::Id(text(step, "step_id")),
            Cell::State { level: level(&status), word: status, note: text(step, "error") },
            cell(step, "tool"),
            time(step, "started_at"),
        ]
    });
    let columns =
        vec![Column::text("Step"), Column::text("Status"), Column::text("Tool"), Column::text("Started (UTC)")];
    let table = Table { label: "Steps".into(), columns, rows: steps.collect() };
    let status = text(&one, "status");
    let facts = vec![
        ("Status", Cell::State { level: level(&status), word: status.clone(), note: text(&one, "error") }),
        ("Workflow", link("/ui/workflows", &one, "workflow_name", "")),
        ("Started (UTC)", time(&one, "started_at")),
        ("Ended (UTC)", time(&one, "completed_at")),
    ];
    // As it is defined now, if it still is: a run keeps its steps, not how they were arranged.
    let definition = request.operate("core_workflow_get", json!({ "name": text(&one, "workflow_name") })).await;
    let definition = definition.map(|it| it.to_value()["workflow"].take()).unwrap_or_default();
    let drawn = steps::sections(&definition, &steps::outcomes(&one));
    let drawn = drawn.into_iter().filter(|section| matches!(section, Section::Graph(_)));
    let cancel =
        || super::run("Cancel", "core_workflow_execution_cancel", vec![("execution_id", id.clone())], &request.here());
    Ok(DetailPage {
        frame: request.frame(&format!("Run of {}", text(&one, "workflow_name"))),
        above: ("/ui/workflow-runs", "Runs of workflows"),
        intro: String::new(),
        actions: request.if_changing(|| if status == "inprogress" { vec![cancel()] } else { Vec::new() }),
        changing: [Section::Facts(facts)]
            .into_iter()
            .chain(drawn)
            .chain([
                Section::Table { title: "Steps".into(), table, empty: "No step has begun.".into() },
                Section::Pre { title: "Everything on record".into(), id: "record", text: pretty(&one) },
            ])
            .collect(),
        fixed: Vec::new(),
        live: request.live_path(),
        name: id.clone(),
    })
}
