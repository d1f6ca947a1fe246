//! Runs many scenarios, some at a time, and judges them against the list of expected failures.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, stream};

use crate::expected::Expectations;
use crate::outcome::{Outcome, Verdict};
use crate::run::{self, Config};
use crate::scenario::Scenario;

/// Hears how it goes.
pub trait Progress: Send + Sync {
    /// A scenario begins.
    fn begins(&self, name: &str);
    /// A scenario has ended.
    fn ended(&self, outcome: &Outcome);
}

/// How many at a time, and when to stop.
#[derive(Debug, Clone)]
pub struct Pace {
    /// How many at a time.
    pub parallel: usize,
    /// Whether nothing more begins after a failure.
    pub fail_fast: bool,
}

/// Runs scenarios; the outcomes are in the order of the scenarios.
pub async fn run(
    scenarios: &[Scenario],
    config: &Config,
    pace: &Pace,
    expectations: &Expectations,
    progress: &dyn Progress,
) -> Vec<Outcome> {
    let stopped = AtomicBool::new(false);
    let one = async |scenario: &Scenario| {
        if stopped.load(Ordering::Relaxed) {
            let reason = "not run: an earlier one failed and `--fail-fast` is set";
            return Outcome::bare(&scenario.name, &scenario.file, Verdict::Skipped, reason);
        }
        progress.begins(&scenario.name);
        let outcome = expectations.judge(run::run(scenario, config).await);
        if pace.fail_fast && matches!(outcome.verdict, Verdict::Failed | Verdict::Error) {
            stopped.store(true, Ordering::Relaxed);
        }
        progress.ended(&outcome);
        outcome
    };
    stream::iter(scenarios.iter().map(one)).buffered(pace.parallel.max(1)).collect().await
}
