//! An earlier report, and what is worse than in it.

use std::path::Path;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_model::Money;

use super::Series;

/// The rows of an earlier report.
#[derive(Debug)]
pub(super) struct Baseline {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    scenario: String,
    variant: String,
    passed: u64,
    runs: u64,
    tokens: u64,
    cost: Money,
}

// === impl Baseline ===

impl Baseline {
    pub(super) fn read(file: &Path) -> Result<Self, Problem> {
        let wrong = |why: String| {
            Problem::new(Kind::InvalidParams, format!("`{}`: {why}", file.display()))
                .hint("write one with `toolcrib eval run FILE --format json`")
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("this is no JSON: {error}")))?;
        Self::of(&value).ok_or_else(|| wrong("this is no report of `toolcrib eval run`".to_owned()))
    }

    pub(super) fn of(value: &Value) -> Option<Self> {
        let row = |row: &Value| {
            let runs = row["runs"].as_array()?.len() as u64;
            Some(Row {
                scenario: row["scenario"].as_str()?.to_owned(),
                variant: row["variant"].as_str()?.to_owned(),
                passed: row["passed"].as_u64()?,
                runs,
                tokens: row["tokens"].as_u64()?,
                cost: Money::parse(row["cost"].as_str()?.trim_start_matches('$')).ok()?,
            })
        };
        let rows = value["scenarios"].as_array()?.iter().map(row).collect::<Option<Vec<_>>>()?;
        (!rows.is_empty()).then_some(Self { rows })
    }

    /// Writes what is worse into the series.
    pub(super) fn compare(&self, all: &mut [Series], tolerance: u32) -> Result<(), Problem> {
        let mut is_any = false;
        for series in all {
            let is_row = |row: &&Row| row.scenario == series.scenario && row.variant == series.variant;
            let Some(row) = self.rows.iter().find(is_row) else { continue };
            is_any = true;
            series.regressions = row.worse(series, tolerance);
        }
        if is_any {
            return Ok(());
        }
        let message = "the baseline has none of these scenarios, so nothing can be worse than in it";
        Err(Problem::new(Kind::InvalidParams, message)
            .hint("the ids of scenarios and `--compare` must be those of the baseline"))
    }
}

// === impl Row ===

impl Row {
    fn worse(&self, series: &Series, tolerance: u32) -> Vec<String> {
        let mut worse = Vec::new();
        let (passed, runs) = (series.passes() as u64, series.attempts.len() as u64);
        // As fractions: passed / runs below self.passed / self.runs.
        if u128::from(passed) * u128::from(self.runs) < u128::from(self.passed) * u128::from(runs) {
            worse.push(format!(
                "regression: {passed} of {runs} passed, {} of {} in the baseline",
                self.passed, self.runs
            ));
        }
        let is_above = |now: u64, then: u64| u128::from(now) * 100 > u128::from(then) * (100 + u128::from(tolerance));
        let tokens = series.mean(|attempt| attempt.trace.tokens);
        if is_above(tokens, self.tokens) {
            worse.push(format!("regression: {tokens} tokens, {} in the baseline", self.tokens));
        }
        let cost = Money(series.mean(|attempt| attempt.trace.cost.0));
        if is_above(cost.0, self.cost.0) {
            worse.push(format!("regression: {cost}, {} in the baseline", self.cost));
        }
        worse
    }
}
