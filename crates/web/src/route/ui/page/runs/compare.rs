//! `/ui/runs/compare?a=RUN&b=RUN`: two runs side by side. Without one of them, the runs to choose from.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_base::nearest::prefix;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ComparePage;
use toolcrib_ui::page::compare::{RunTurn, TurnCall, TurnPair};
use toolcrib_ui::part::{Cell, Column, Table};

use super::super::json::{cell, number, rows, text, time};
use super::super::{Page, rendered};
use super::status_of;
use crate::route::ui::PageRequest;

pub(in crate::route::ui::page) const PAGE: Page = Page {
    path: PATH,
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&page(request).await?) }),
    live: None,
};

pub(super) const PATH: &str = "/ui/runs/compare";
/// How many runs are there to choose from.
const CHOICE: usize = 50;
/// How many entries of a run are compared, and how much of a text is shown, in bytes.
const ENTRIES: usize = 1_000;
const TEXT: usize = 4_000;

async fn page(request: &PageRequest) -> Result<ComparePage, Problem> {
    let (first, second) = (request.value("a"), request.value("b"));
    if first.is_empty() || second.is_empty() {
        let question = match first.is_empty() {
            true => "Choose the first run.".to_owned(),
            false => format!("Choose the run to compare `{}` with.", prefix(&first, 64)),
        };
        let choice = (question, choice(request, &first).await?);
        let frame = request.frame("Compare two runs");
        return Ok(ComparePage { frame, choice, facts: Table::default(), turns: Vec::new(), missing: String::new() });
    }
    let (first, second) = (ComparedRun::read(request, &first).await?, ComparedRun::read(request, &second).await?);
    let missing = match first.is_cut || second.is_cut {
        true => format!("The first {ENTRIES} entries of each run are compared."),
        false => String::new(),
    };
    Ok(ComparePage {
        frame: request.frame("Compare two runs"),
        choice: (String::new(), Table::default()),
        facts: facts(&first.shown, &second.shown),
        turns: TurnPair::all(first.turns, second.turns),
        missing,
    })
}

/// Recent runs, each of which leads on.
async fn choice(request: &PageRequest, first: &str) -> Result<Table, Problem> {
    let answer = request.operate("core_run_list", json!({ "limit": CHOICE })).await?.to_value();
    let columns = vec![
        Column::text("Run"),
        Column::text("Status"),
        Column::text("Agent"),
        Column::number("Tokens"),
        Column::text("Started (UTC)"),
    ];
    let others = rows(&answer, "runs").iter().filter(|row| text(row, "run") != first);
    let rows = others.map(|row| {
        let run = text(row, "run");
        let path = match first.is_empty() {
            true => format!("{PATH}?a={}", encoded(&run)),
            false => format!("{PATH}?a={}&b={}", encoded(first), encoded(&run)),
        };
        let link = Cell::Link { path, text: run, note: text(row, "task") };
        vec![link, status_of(row), cell(row, "agent"), number(row, "tokens"), time(row, "started_at")]
    });
    Ok(Table { label: "Runs".into(), columns, rows: rows.collect() })
}

/// What is said of both as a whole.
fn facts(first: &Value, second: &Value) -> Table {
    let both = |name: &str, of: &dyn Fn(&Value) -> Cell| vec![Cell::Text(name.to_owned()), of(first), of(second)];
    let run = |shown: &Value| {
        let id = text(shown, "run");
        Cell::Link { path: format!("/ui/runs/{}", encoded(&id)), text: id, note: text(shown, "task") }
    };
    let forked = |shown: &Value| Cell::Id(text(shown, "forked_from"));
    let mut rows = vec![
        both("Run", &run),
        both("Status", &status_of),
        both("Agent", &|shown| cell(shown, "agent")),
        both("Rounds", &|shown| number(shown, "rounds")),
        both("Calls", &|shown| number(shown, "calls")),
        both("Tokens", &|shown| number(shown, "tokens")),
        both("Money", &|shown| Cell::Figure(text(shown, "cost"))),
        both("Started (UTC)", &|shown| time(shown, "started_at")),
    ];
    if [first, second].iter().any(|shown| !shown["forked_from"].is_null()) {
        rows.push(both("Forked from", &forked));
    }
    let columns = vec![Column::text("What"), Column::text("First run"), Column::text("Second run")];
    Table { label: "Both runs".into(), columns, rows }
}

/// A run with its turns.
struct ComparedRun {
    shown: Value,
    turns: Vec<RunTurn>,
    is_cut: bool,
}

impl ComparedRun {
    async fn read(request: &PageRequest, id: &str) -> Result<Self, Problem> {
        let shown = request.operate("core_run_get", json!({ "run": id })).await?.to_value();
        // What was given may be the beginning of an id.
        let asked = json!({ "run": text(&shown, "run"), "limit": ENTRIES });
        let answer = request.operate("core_run_entries", asked).await?.to_value();
        let entries = rows(&answer, "entries");
        Ok(Self { shown, turns: turns(entries), is_cut: entries.len() >= ENTRIES })
    }
}

/// The turns that entries of a run are.
fn turns(entries: &[Value]) -> Vec<RunTurn> {
    let (mut turns, mut said, mut is_summary): (Vec<RunTurn>, Vec<String>, bool) = (Vec::new(), Vec::new(), false);
    let (mut models, mut model): (&[Value], String) = (&[], String::new());
    for entry in entries {
        match entry["event"].as_str().unwrap_or_default() {
            "started" => {
                models = rows(entry, "models");
                said.push(cut(&text(entry, "task")));
            }
            "said" => said.push(cut(&text(entry, "text"))),
            "asked" => {
                is_summary = entry["purpose"] == "summary";
                let place = entry["model"].as_u64().and_then(|place| usize::try_from(place).ok());
                let name = place.and_then(|place| models.get(place)).and_then(Value::as_str);
                name.unwrap_or_default().clone_into(&mut model);
            }
            "answered" if !is_summary => turns.push(turn(entry, &model, std::mem::take(&mut said))),
            "decided" if entry["decision"] == "refused" => put(&mut turns, entry, "refused", "why"),
            "unknown" => put(&mut turns, entry, "not known", "why"),
            "settled" => put(&mut turns, entry, settled(entry), "text"),
            "result" if entry["is_error"] == true => put(&mut turns, entry, "error", "text"),
            "result" => put(&mut turns, entry, "result", "text"),
            _ => {}
        }
    }
    turns
}

/// What a person said of a call that may have happened.
fn settled(entry: &Value) -> &'static str {
    match entry["settlement"].as_str() {
        Some("happened") => "it happened, as a person says",
        Some("did_not") => "it did not happen, as a person says",
        _ => "a person lets it be made once more",
    }
}

fn turn(entry: &Value, model: &str, said: Vec<String>) -> RunTurn {
    let calls = rows(entry, "calls").iter().map(|call| TurnCall {
        tool: cut(&text(call, "tool")),
        arguments: cut(&text(call, "arguments")),
        ..TurnCall::default()
    });
    let spent =
        format!("{}, {} tokens, {}", cut(model), text(&entry["spent"], "tokens"), text(&entry["spent"], "cost"));
    RunTurn { said, text: cut(&text(entry, "text")), calls: calls.collect(), spent }
}

/// What came of a call: `3.1` is the first call of the third turn.
fn put(turns: &mut [RunTurn], entry: &Value, outcome: &'static str, key: &str) {
    let id = text(entry, "call");
    let place = |part: Option<&str>| part?.parse::<usize>().ok()?.checked_sub(1);
    let mut parts = id.split('.');
    let (Some(round), Some(at)) = (place(parts.next()), place(parts.next())) else { return };
    if let Some(call) = turns.get_mut(round).and_then(|turn| turn.calls.get_mut(at)) {
        (call.outcome, call.text) = (outcome, cut(&text(entry, key)));
    }
}

/// The beginning of a text, which says that it is one. Texts that differ behind it still differ by their length.
fn cut(text: &str) -> String {
    match text.len() > TEXT {
        true => format!("{}… ({} bytes)", prefix(text, TEXT), text.len()),
        false => text.to_owned(),
    }
}
