//! `/ui/approvals`: calls that wait for a yes, and one of them with its whole arguments.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Column, Filter, Look, OperationForm, Section};

use super::json::{cell, level, link, rows, text, time, words};
use super::{Listing, Page, name, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/approvals",
    nav: Some(("People", "Approvals")),
    needs: "core_approval_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/approvals/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&one(request).await?.as_live()) })),
};

const COLUMNS: [Column; 6] = [
    Column::text("Approval"),
    Column::text("State"),
    Column::text("Tool"),
    Column::text("For"),
    Column::text("Since (UTC)"),
    Column::text("Until (UTC)"),
];
/// What is said of a call where it is known, and what people read for it.
const LABELS: [(&str, &str); 11] = [
    ("targetType", "Changes"),
    ("targetLabel", "Target"),
    ("actionSummary", "Summary, made of the arguments"),
    ("askedBy", "Asked for by"),
    ("groups", "May be approved by"),
    ("door", "Door"),
    ("chain", "In the course of"),
    ("approver", "Decided by"),
    ("decidedAt", "Decided (UTC)"),
    ("endedAt", "Ended (UTC)"),
    ("outcome", "Outcome"),
];
const STATES: [&str; 7] = ["open", "approved", "running", "done", "denied", "expired", "unknown"];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let state = request.value("state");
    let known = STATES.contains(&state.as_str());
    let answer =
        request.operate("core_approval_list", if known { json!({ "state": state }) } else { json!({}) }).await?;
    let answer = answer.to_value();
    let table = rows(&answer, "approvals").iter().map(|row| {
        vec![
            link("/ui/approvals", row, "id", ""),
            shown_state(row),
            Cell::Id(text(row, "tool")),
            Cell::Id(text(row, "principal")),
            time(row, "createdAt"),
            time(row, "expiresAt"),
        ]
    });
    let options = STATES.iter().map(|state| (*state).to_owned()).collect();
    let filters = vec![Filter::Choice { name: "state", label: "State", options, value: state }];
    let listing = Listing {
        title: "Approvals",
        empty: ("No call waits for a yes.", "Policies and profiles say which calls need one."),
        is_live: true,
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

fn shown_state(row: &Value) -> Cell {
    let word = text(row, "state");
    Cell::State { level: level(&word), word, note: text(row, "reason") }
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let id = name(request);
    let approval = request.operate("core_approval_show", json!({ "id": id })).await?.to_value();
    let mut facts = vec![
        ("State", shown_state(&approval)),
        ("Tool", link("/ui/tools", &approval, "tool", "")),
        ("For", Cell::Id(text(&approval, "principal"))),
        ("Profile", cell(&approval, "profile")),
        ("Since (UTC)", time(&approval, "createdAt")),
        ("Until (UTC)", time(&approval, "expiresAt")),
    ];
    facts.extend(LABELS.iter().filter(|(key, _)| !approval[*key].is_null()).map(|(key, label)| {
        match &approval[*key] {
            Value::Array(_) => (*label, Cell::Text(words(&approval, key))),
            _ if key.ends_with("At") => (*label, time(&approval, key)),
            _ => (*label, cell(&approval, key)),
        }
    }));
    let mut fixed = vec![Section::Pre {
        title: "Arguments, whole".into(),
        id: "arguments",
        // As they are shown everywhere: secrets redacted, invisible characters visible.
        text: text(&approval, "arguments"),
    }];
    if approval["state"] == "open" {
        let form = |title: &str, tool, button, look| {
            Section::Form(OperationForm {
                title: title.to_owned(),
                tool,
                hidden: vec![("id", id.clone())],
                fields: vec![("reason", "Reason, for its caller and the audit log", false)],
                button,
                look,
                next: request.here(),
            })
        };
        // Another person says yes to it, or its own person where it is only to be confirmed.
        let is_mine_to_approve = approval["own"] != true || approval["kind"] == "confirm";
        fixed.extend(request.if_changing(|| {
            let yes = form("Say yes: the call runs once", "core_approval_approve", "Approve", Look::Primary);
            let no = form("Say no", "core_approval_deny", "Deny", Look::Danger);
            if is_mine_to_approve { vec![yes, no] } else { vec![no] }
        }));
    }
    Ok(DetailPage {
        frame: request.frame(&format!("Call of {}", text(&approval, "tool"))),
        above: ("/ui/approvals", "Approvals"),
        name: id,
        intro: String::new(),
        actions: Vec::new(),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: request.live_path(),
    })
}
