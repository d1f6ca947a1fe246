//! Reads what the suite found and compares it with what a cell expects. A warning counts as a failure, as it does with
//! a baseline of the suite's own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::expected::ExpectedFailures;
use crate::tally::Tally;

/// Longer messages are cut in the summary; the folder of the cell has them whole.
const MESSAGE: usize = 400;

/// One scenario as it ran.
#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub failures: Vec<Failure>,
}

/// A check that failed or warned.
#[derive(Debug)]
pub struct Failure {
    pub check: String,
    pub message: String,
}

/// A cell's outcome.
#[derive(Debug, Default)]
pub struct CellOutcome {
    passed: usize,
    /// Scenarios whose failures are all expected.
    excused: usize,
    failed: Vec<Scenario>,
    /// Entries of the list that did not fail.
    stale: Vec<String>,
}

// === impl Scenario ===

impl Scenario {
    pub fn failed(name: &str, check: &str, message: String) -> Self {
        Self { name: name.to_owned(), failures: vec![Failure { check: check.to_owned(), message }] }
    }

    pub fn not_run(name: String) -> Self {
        let message = "the suite did not run it".to_owned();
        Self { name, failures: vec![Failure { check: "not-run".to_owned(), message }] }
    }

    pub fn passes(&self) -> bool {
        self.failures.is_empty()
    }

    fn from_checks(name: &str, checks: &Value) -> Self {
        let failed = |check: &&Value| matches!(check["status"].as_str(), Some("FAILURE" | "WARNING"));
        let failures = checks.as_array().into_iter().flatten().filter(failed).map(|check| {
            let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
            let message = if check["errorMessage"].is_string() { text("errorMessage") } else { text("description") };
            Failure { check: text("id"), message }
        });
        Self { name: name.to_owned(), failures: failures.collect() }
    }
}

/// Every scenario in the suite's output folder, whose folders are called `<prefix><scenario>-<time>`.
pub fn read(results: &Path, prefix: &str) -> Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    if !results.exists() {
        return Ok(scenarios);
    }
    for entry in fs::read_dir(results).with_context(|| format!("failed to list `{}`", results.display()))? {
        let entry = entry?;
        let folder = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = scenario_of(&folder, prefix) else { continue };
        // A scenario that broke off wrote nothing and is reported as not run.
        let Ok(text) = fs::read_to_string(entry.path().join("checks.json")) else { continue };
        let checks: Value = serde_json::from_str(&text).with_context(|| format!("the checks of `{name}`"))?;
        scenarios.push(Scenario::from_checks(name, &checks));
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

/// `server-tools-list-2026-11-20T15-46-42-397Z` → `tools-list`.
fn scenario_of<'a>(folder: &'a str, prefix: &str) -> Option<&'a str> {
    const TIME: usize = "-2026-11-20T15-46-42-397Z".len();
    let rest = folder.strip_prefix(prefix)?;
    let name = rest.get(..rest.len().checked_sub(TIME)?)?;
    rest.ends_with('Z').then_some(name)
}

pub fn judge(scenarios: Vec<Scenario>, expected: &ExpectedFailures) -> CellOutcome {
    let mut judged = CellOutcome::default();
    for entry in expected.entries() {
        let fails = |scenario: &Scenario| scenario.failures.iter().any(|f| entry.covers(&scenario.name, &f.check));
        if !scenarios.iter().any(fails) {
            judged.stale.push(entry.text());
        }
    }
    for mut scenario in scenarios {
        if scenario.passes() {
            judged.passed += 1;
            continue;
        }
        let name = scenario.name.clone();
        scenario.failures.retain(|f| !expected.entries().iter().any(|entry| entry.covers(&name, &f.check)));
        if scenario.passes() {
            judged.excused += 1;
        } else {
            judged.failed.push(scenario);
        }
    }
    judged
}

// === impl CellOutcome ===

impl CellOutcome {
    /// A cell that could not run at all.
    pub fn broken(why: String) -> Self {
        Self { failed: vec![Scenario::failed("(the cell)", "broken", why)], ..Self::default() }
    }

    pub fn tally(&self) -> Tally {
        Tally { passed: self.passed, failed: self.failed.len() + self.stale.len(), skipped: self.excused }
    }

    pub fn failed_names(&self) -> Vec<String> {
        self.failed.iter().map(|scenario| scenario.name.clone()).chain(self.stale.iter().cloned()).collect()
    }

    /// One line for the cell, then one for each scenario that fails and its checks.
    pub fn describe(&self, cell: &str, folder: &Path) -> String {
        let word = if self.failed.is_empty() && self.stale.is_empty() { "ok" } else { "FAILED" };
        let mut text = format!("{word}: {cell}: {} passed, {} failed", self.passed, self.failed.len());
        if self.excused > 0 {
            text += &format!(", {} fail as expected", self.excused);
        }
        for scenario in &self.failed {
            text += &format!("\n    {}", scenario.name);
            for failure in &scenario.failures {
                text += &format!("\n        {}: {}", failure.check, cut(&failure.message));
            }
        }
        for entry in &self.stale {
            text += &format!("\n    {entry}: expected to fail, but it passes: take it out of the list");
        }
        if word == "FAILED" {
            text += &format!("\n    logs and results: {}", folder.display());
        }
        text
    }
}

fn cut(message: &str) -> String {
    let line = message.replace('\n', " ");
    match line.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(name: &str, checks: &[&str]) -> Scenario {
        let failure = |check: &&str| Failure { check: (*check).to_owned(), message: "why".to_owned() };
        Scenario { name: name.to_owned(), failures: checks.iter().map(failure).collect() }
    }

    #[test]
    fn folders_name_their_scenario() {
        assert_eq!(scenario_of("server-tools-list-2026-11-20T15-46-42-397Z", "server-"), Some("tools-list"));
        assert_eq!(scenario_of("tools_call-2026-11-20T15-46-42-397Z", ""), Some("tools_call"));
        assert_eq!(scenario_of("short", ""), None);
    }

    #[test]
    fn failures_and_warnings_count_and_skipped_checks_do_not() {
        let checks = json!([
            {"id": "a", "status": "SUCCESS"},
            {"id": "b", "status": "FAILURE", "errorMessage": "no"},
            {"id": "c", "status": "WARNING", "description": "hm"},
            {"id": "d", "status": "SKIPPED"},
        ]);
        let read = Scenario::from_checks("x", &checks);
        let found: Vec<_> = read.failures.iter().map(|f| (f.check.as_str(), f.message.as_str())).collect();
        assert_eq!(found, [("b", "no"), ("c", "hm")]);
    }

    #[test]
    fn what_is_expected_is_excused_and_what_passes_against_expectation_fails() {
        let folder = std::env::temp_dir().join(format!("expected-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let cell = super::super::cell::Cell::named("modern-to-legacy-http").unwrap();
        let text = "server:\n  # why\n  - one:a\n  # why\n  - two\n";
        fs::write(folder.join("modern-to-legacy-http.yaml"), text).unwrap();
        let expected = ExpectedFailures::read(&folder, cell).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        let judged = judge(vec![scenario("one", &["a"]), scenario("two", &[]), scenario("three", &["b"])], &expected);
        assert_eq!(judged.tally(), Tally { passed: 1, failed: 2, skipped: 1 });
        let text = judged.describe("cell", Path::new("folder"));
        assert!(text.starts_with("FAILED: cell: 1 passed, 1 failed, 1 fail as expected"), "{text}");
        assert!(text.contains("two: expected to fail") && text.contains("b: why"), "{text}");

        let judged = judge(vec![scenario("one", &["a", "other"])], &ExpectedFailures::default());
        assert_eq!(judged.tally(), Tally { passed: 0, failed: 1, skipped: 0 });
    }
}
