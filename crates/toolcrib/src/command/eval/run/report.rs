//! Reports: a table for people, Markdown, JSON, JUnit.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_model::Money;
use toolcrib_scenario::{Outcome, Verdict, render_report};

use super::{ReportFormat, Series};
use crate::output::Output;
use crate::output::table::{Column, field};
use crate::text::line;

const COLUMNS: &[Column] = &[
    Column::new("SCENARIO", |row| field(row, "scenario")),
    Column::new("VARIANT", |row| field(row, "variant")),
    Column::new("RESULT", |row| field(row, "result")),
    Column::new("PASSED", |row| field(row, "share")),
    Column::new("ROUNDS", |row| field(row, "rounds")),
    Column::new("CALLS", |row| field(row, "calls")),
    Column::new("TOKENS", |row| field(row, "tokens")),
    Column::new("COST", |row| field(row, "cost")),
    Column::new("MS", |row| field(row, "duration_ms")),
];

/// The report whole.
pub(super) fn render(series: &[Series], format: ReportFormat, output: Output) -> String {
    match format {
        ReportFormat::Json => format!("{:#}\n", report(series)),
        ReportFormat::Junit => junit(series),
        ReportFormat::Markdown => markdown(series),
        ReportFormat::Table => table(series, output),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn row(series: &Series) -> Value {
    let runs: Vec<Value> = series
        .attempts
        .iter()
        .map(|attempt| {
            json!({
                "run": attempt.trace.run, "passed": attempt.wrong.is_empty(), "problems": attempt.wrong,
                "end": attempt.trace.end, "rounds": attempt.trace.rounds, "tokens": attempt.trace.tokens,
                "cost": attempt.trace.cost.to_string(), "duration_ms": millis(attempt.took),
                "calls": attempt.trace.calls.iter().map(|call| &call.tool).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "scenario": series.scenario, "file": series.file, "variant": series.variant,
        "result": if series.is_passed() { "passed" } else { "failed" },
        "passed": series.passes(), "share": format!("{}/{}", series.passes(), series.attempts.len()),
        "rounds": series.mean(|attempt| attempt.trace.rounds),
        "calls": series.mean(|attempt| attempt.trace.calls.len() as u64),
        "tokens": series.mean(|attempt| attempt.trace.tokens),
        "cost": Money(series.mean(|attempt| attempt.trace.cost.0)).to_string(),
        "duration_ms": series.mean(|attempt| millis(attempt.took)),
        "regressions": series.regressions, "runs": runs,
    })
}

/// The sums of one variant: what a task costs there.
fn sums(series: &[Series]) -> Vec<Value> {
    let mut names: Vec<&str> = Vec::new();
    for one in series {
        if !names.contains(&one.variant.as_str()) {
            names.push(&one.variant);
        }
    }
    let sum = |name: &str| {
        let all: Vec<&Series> = series.iter().filter(|one| one.variant == name).collect();
        let attempts = || all.iter().flat_map(|one| &one.attempts);
        let runs = attempts().count() as u64;
        let tokens: u64 = attempts().map(|attempt| attempt.trace.tokens).sum();
        let cost = attempts().fold(Money(0), |sum, attempt| sum.plus(attempt.trace.cost));
        json!({
            "variant": name, "scenarios": all.len(), "runs": runs,
            "scenarios_passed": all.iter().filter(|one| one.is_passed()).count(),
            "runs_passed": all.iter().map(|one| one.passes()).sum::<usize>(),
            "tokens": tokens, "tokens_per_task": tokens / runs.max(1),
            "cost": cost.to_string(), "cost_per_task": Money(cost.0 / runs.max(1)).to_string(),
        })
    };
    names.into_iter().map(sum).collect()
}

fn report(series: &[Series]) -> Value {
    json!({
        "passed": series.iter().all(Series::is_passed),
        "scenarios": series.iter().map(row).collect::<Vec<_>>(),
        "variants": sums(series),
    })
}

/// The sums of a variant in words.
fn words(sum: &Value) -> String {
    let variant = field(sum, "variant");
    format!(
        "{}{} of {} scenarios passed, {} of {} runs; per task {} tokens, {}",
        if variant.is_empty() { variant } else { format!("{variant}: ") },
        sum["scenarios_passed"],
        sum["scenarios"],
        sum["runs_passed"],
        sum["runs"],
        sum["tokens_per_task"],
        field(sum, "cost_per_task"),
    )
}

fn table(series: &[Series], output: Output) -> String {
    let rows: Vec<Value> = series.iter().map(row).collect();
    let mut text = output.table(COLUMNS, output.headers).render(&rows);
    for one in series {
        for problem in one.problems() {
            let _ = writeln!(text, "{}: {}", line(&one.name()), line(&problem));
        }
    }
    for sum in sums(series) {
        let _ = writeln!(text, "{}", line(&words(&sum)));
    }
    text
}

fn markdown(series: &[Series]) -> String {
    let mut text = String::from("# Evaluation\n\n|");
    let titles: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
    let _ = writeln!(text, " {} |\n|{}", titles.join(" | "), " --- |".repeat(titles.len()));
    for one in series {
        let row = row(one);
        let cells: Vec<String> = COLUMNS.iter().map(|column| cell(&(column.cell)(&row))).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let problems: Vec<String> = series
        .iter()
        .flat_map(|one| {
            one.problems().into_iter().map(|problem| format!("- **{}**: {}\n", cell(&one.name()), cell(&problem)))
        })
        .collect();
    if !problems.is_empty() {
        let _ = write!(text, "\n## Problems\n\n{}", problems.concat());
    }
    text.push_str("\n## Cost\n\n");
    for sum in sums(series) {
        let _ = writeln!(text, "- {}", cell(&words(&sum)));
    }
    text
}

/// Text of a model or a server in a cell: none of it is markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in line(text).chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '[' | ']' | '<' | '>' | '#' | '\\' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn junit(series: &[Series]) -> String {
    let outcomes: Vec<Outcome> = series.iter().map(outcome).collect();
    render_report(Path::new("report.xml"), &outcomes).unwrap_or_default()
}

fn outcome(series: &Series) -> Outcome {
    Outcome {
        name: series.name(),
        file: PathBuf::from(&series.file),
        verdict: if series.is_passed() { Verdict::Passed } else { Verdict::Failed },
        reason: (!series.is_passed()).then(|| series.problems().join("\n")),
        steps: Vec::new(),
        warnings: Vec::new(),
        took: series.attempts.iter().map(|attempt| attempt.took).sum(),
        log: Vec::new(),
        home: None,
    }
}
