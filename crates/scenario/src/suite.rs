//! Runs many scenarios, some at a time, and judges them against the list of expected failures.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{FutureExt, StreamExt, stream};

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
    let one = async |(index, scenario): (usize, &Scenario)| {
        if stopped.load(Ordering::Relaxed) {
            let reason = "not run: an earlier one failed and `--fail-fast` is set";
            return (index, Outcome::bare(&scenario.name, &scenario.file, Verdict::Skipped, reason));
        }
        progress.begins(&scenario.name);
        // A fault of ours in one scenario must not take the others with it.
        let ran = AssertUnwindSafe(run::run(scenario, config)).catch_unwind().await;
        let ran = ran.unwrap_or_else(|_| {
            Outcome::bare(
                &scenario.name,
                &scenario.file,
                Verdict::Error,
                "the runner broke down; see what it printed above",
            )
        });
        let outcome = expectations.judge(ran);
        if pace.fail_fast && matches!(outcome.verdict, Verdict::Failed | Verdict::Error) {
            stopped.store(true, Ordering::Relaxed);
        }
        progress.ended(&outcome);
        (index, outcome)
    };
    // Not in order: behind a slow scenario the others would wait for their turn to be reported.
    let running = stream::iter(scenarios.iter().enumerate().map(one)).buffer_unordered(pace.parallel.max(1));
    let mut outcomes: Vec<(usize, Outcome)> = running.collect().await;
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
