//! Runs one scenario: home, mock servers, gateway, steps, cleanup, end.

mod harness;
mod login;
mod people;
mod step;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Map;
use toolcrib_base::task::Scope;

use crate::drive::Drive;
use crate::outcome::{Outcome, StepOutcome, Verdict};
use crate::scenario::{Scenario, Step};

pub(crate) use world::{SessionKey, World};

/// How long all cleanups of a scenario may take. They have time of their own: the scenario's may be used up.
const CLEANUP: Duration = Duration::from_secs(60);
/// How long the end of mock servers may take.
const GRACE: Duration = Duration::from_millis(200);

/// How scenarios are run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The binary `toolcrib`.
    pub program: PathBuf,
    /// Whether this process is that binary too, so that it can guard the gateway.
    pub guarded: bool,
    /// How long the steps of a scenario may take that does not say.
    pub timeout: Duration,
    /// Whether homes are kept.
    pub keep_home: bool,
    /// Opens sessions with the gateway.
    pub drive: Arc<dyn Drive>,
}

/// What the steps of one scenario have seen so far.
pub(crate) struct Course<'a> {
    pub(crate) world: World,
    pub(crate) results: Map<String, serde_json::Value>,
    pub(crate) ids: Vec<&'a str>,
}

/// Runs a scenario.
pub(crate) async fn run(scenario: &Scenario, config: &Config) -> Outcome {
    if let Some(reason) = scenario.skip.clone().or_else(|| missing(scenario)) {
        return Outcome::bare(&scenario.name, &scenario.file, Verdict::Skipped, reason);
    }
    let begun = Instant::now();
    let scope = Scope::new();
    let mut outcome = match World::build(scenario, config, &scope).await {
        Ok(world) => walk(scenario, config, world).await,
        Err(reason) => Outcome::bare(&scenario.name, &scenario.file, Verdict::Error, reason),
    };
    scope.close(GRACE).await;
    outcome.took = begun.elapsed();
    outcome.warnings.splice(0..0, scenario.remarks.iter().cloned());
    outcome
}

/// What of the machine's things the scenario lacks.
fn missing(scenario: &Scenario) -> Option<String> {
    let is_set = |name: &String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = scenario.needs.env.iter().find(|name| !is_set(name)) {
        return Some(format!("needs the environment variable `{name}`"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &String| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let program = scenario.needs.programs.iter().find(|name| !is_there(name));
    program.map(|name| format!("needs the program `{name}`"))
}

async fn walk(scenario: &Scenario, config: &Config, world: World) -> Outcome {
    let mut outcome = Outcome { reason: None, ..Outcome::bare(&scenario.name, &scenario.file, Verdict::Passed, "") };
    let ids = scenario.all_steps().map(|step| step.id.as_str()).collect();
    let mut course = Course { world, results: Map::new(), ids };
    let limit = scenario.timeout.unwrap_or(config.timeout);
    let until = Instant::now() + limit;
    let mut begun = Vec::new();
    for step in &scenario.steps {
        begun.push(step);
        let told = step::run(step, &mut course, until).await;
        let failed = told.verdict != Verdict::Passed;
        if failed {
            fail(&mut outcome, step, &told);
        }
        outcome.steps.push(told);
        if failed && Instant::now() >= until {
            outcome.reason =
                Some(format!("the scenario took longer than {limit:?}: {}", outcome.reason.unwrap_or_default()));
            break;
        }
        if failed && !step.continues {
            break;
        }
    }
    clean(scenario, &begun, &mut course, &mut outcome).await;
    course.world.end(config, &mut outcome).await;
    outcome
}

/// Every cleanup: first the scenario's own, which finds what the steps have left, then that of the steps in reverse
/// order.
async fn clean(scenario: &Scenario, begun: &[&Step], course: &mut Course<'_>, outcome: &mut Outcome) {
    let until = Instant::now() + CLEANUP;
    for step in &scenario.cleanup {
        let told = step::run(step, course, until).await;
        if told.verdict != Verdict::Passed {
            // Where the steps have failed it is no news that there is less to clean up.
            if step.continues || outcome.verdict != Verdict::Passed {
                outcome.warnings.push(warning(&told));
            } else {
                fail(outcome, step, &told);
            }
        }
        outcome.steps.push(told);
    }
    for step in begun.iter().rev().flat_map(|step| &step.cleanup) {
        let told = step::run(step, course, until).await;
        if told.verdict != Verdict::Passed {
            outcome.warnings.push(warning(&told));
        }
        outcome.steps.push(told);
    }
}

fn warning(told: &StepOutcome) -> String {
    format!("cleanup `{}` ({}): {}", told.id, told.tool, told.reason.as_deref().unwrap_or_default())
}

/// The first failure is the scenario's reason.
fn fail(outcome: &mut Outcome, step: &Step, told: &StepOutcome) {
    outcome.verdict = Verdict::Failed;
    let reason = told.reason.as_deref().unwrap_or("no reason");
    outcome.reason.get_or_insert_with(|| format!("step `{}` ({}, line {}): {reason}", told.id, told.tool, step.line));
}

/// The temporary home of a scenario.
pub(crate) fn folder(name: &str) -> std::io::Result<tempfile::TempDir> {
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
    tempfile::Builder::new().prefix(&format!("toolcrib-{plain}-")).tempdir()
}
