//! Reports for machines, by the file's ending: `.json` or `.xml` (JUnit).

mod junit;

use std::path::Path;

use serde_json::{Value, json};

use crate::outcome::{Outcome, Tally};

use junit::junit;

/// The report that belongs to a file's ending; `None` for others.
pub fn render(file: &Path, outcomes: &[Outcome]) -> Option<String> {
    match file.extension()?.to_str()? {
        "json" => serde_json::to_string_pretty(&json(outcomes)).ok().map(|text| text + "\n"),
        "xml" => Some(junit(outcomes)),
        _ => None,
    }
}

/// `{passed, failed, skipped, errors, scenarios}`.
pub fn json(outcomes: &[Outcome]) -> Value {
    let Tally { passed, failed, skipped, errors } = Tally::of(outcomes);
    let scenarios: Vec<Value> = outcomes.iter().map(scenario).collect();
    json!({ "passed": passed, "failed": failed, "skipped": skipped, "errors": errors, "scenarios": scenarios })
}

fn scenario(outcome: &Outcome) -> Value {
    let step = |step: &crate::outcome::StepOutcome| {
        json!({
            "id": step.id,
            "tool": step.tool,
            "result": step.verdict.as_str(),
            "reason": step.reason,
            "tries": step.tries,
            "duration_ms": millis(step.took),
        })
    };
    let mut value = json!({
        "name": outcome.name,
        "file": outcome.file,
        "result": outcome.verdict.as_str(),
        "reason": outcome.reason,
        "duration_ms": millis(outcome.took),
        "steps": outcome.steps.iter().map(step).collect::<Vec<_>>(),
        "warnings": outcome.warnings,
    });
    if !outcome.log.is_empty() {
        value["log"] = json!(outcome.log);
    }
    if let Some(home) = &outcome.home {
        value["home"] = json!(home);
    }
    value
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
