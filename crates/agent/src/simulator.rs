//! The loop against a simulated world, killed after every entry.
//!
//! By default some thousands of schedules; `TOOLCRIB_AGENT_SCHEDULES=100000` runs so many. Each planted bug
//! (`run/planted.rs`) must be found.

mod process;
mod random;
mod world;

use crate::run::Bug;
use process::{Kill, Simulation};

/// How many schedules are run if nothing else is asked for.
const SCHEDULES: u64 = 1_200;
/// A planted bug is found within so many.
const TO_FIND: u64 = 5_000;

fn schedules() -> u64 {
    std::env::var("TOOLCRIB_AGENT_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(SCHEDULES)
}

/// Runs `count` schedules: each seed once without a kill, once killed after each of its entries, and a few times killed
/// at random, the last of them by a cut of power. Gives the first fault.
fn first_fault(count: u64, bug: Option<Bug>) -> (u64, Option<String>) {
    let mut run = 0;
    let mut fault = None;
    let mut simulate = |seed, kill| {
        run += 1;
        let simulation = Simulation::run(seed, kill, bug);
        if let Some(what) = simulation.fault() {
            fault.get_or_insert_with(|| format!("seed {seed}, {kill:?}: {what}\n{}", simulation.lines()));
        }
        (simulation.entries(), run < count && fault.is_none())
    };
    for seed in 1.. {
        let (entries, goes_on) = simulate(seed, Kill::Never);
        let kills = (1..=entries).map(Kill::After).chain([Kill::Randomly, Kill::Randomly, Kill::PowerCuts]);
        if !goes_on || !kills.into_iter().all(|kill| simulate(seed, kill).1) {
            break;
        }
    }
    (run, fault)
}

#[test]
fn no_schedule_breaks_what_must_hold() {
    let (run, fault) = first_fault(schedules(), None);
    assert!(fault.is_none(), "{}", fault.unwrap_or_default());
    assert!(run >= schedules());
}

#[test]
fn each_planted_bug_is_found() {
    for bug in Bug::ALL {
        let (run, fault) = first_fault(TO_FIND, Some(bug));
        let fault = fault.unwrap_or_else(|| panic!("{bug:?} was not found in {run} schedules"));
        let first = fault.lines().next().unwrap_or_default();
        println!("{bug:?}: found in schedule {run}: {first}");
    }
}
