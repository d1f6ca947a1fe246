//! Runs: what was written is there after a restart, can be listed and paged, and does not stay for ever.

use std::time::Duration;

use toolcrib_base::{PrincipalId, Role, Timestamp};
use toolcrib_store::{Config, Retention, RunQuery, RunRecord, RunStepRecord, Runs, Store, StoreError};

use crate::{Home, profile};

fn run(id: &str, workflow: &str, status: &str, at: i64) -> RunRecord {
    RunRecord {
        id: id.to_owned(),
        workflow: workflow.to_owned(),
        status: status.to_owned(),
        principal: PrincipalId::new("ada"),
        role: Role::Operator,
        profile: profile("default"),
        definition: "{}".to_owned(),
        input: "{\"a\":1}".to_owned(),
        result: None,
        error: None,
        truncated: false,
        step_count: 1,
        started_at: Timestamp(at),
        completed_at: None,
    }
}

fn step(place: u32, status: &str) -> RunStepRecord {
    RunStepRecord {
        place,
        step: format!("s{place}"),
        tool: "files_read".to_owned(),
        status: status.to_owned(),
        input: Some("{}".to_owned()),
        result: None,
        error: None,
        extra: None,
        stored_as: None,
        started_at: Timestamp(5),
        completed_at: None,
    }
}

#[test]
fn runs_and_their_steps_outlive_the_process() {
    let home = Home::new();
    let store = home.open();
    let now = store.runs().now().0;
    let begun = run("r1", "w", "inprogress", now);
    store.runs().put(&begun, &[step(0, "inprogress")]).unwrap();
    let ended = RunRecord {
        status: "completed".to_owned(),
        result: Some("{}".to_owned()),
        completed_at: Some(Timestamp(now + 9)),
        ..run("r2", "w", "", now)
    };
    store.runs().put(&run("r2", "w", "inprogress", now), &[]).unwrap();
    store.runs().put(&ended, &[step(0, "completed"), step(1, "skipped")]).unwrap();
    store.close_blocking().unwrap();
    drop(store);

    let store = home.open();
    let runs = store.runs();
    assert_eq!(runs.interrupted().unwrap(), [begun]);
    assert_eq!(runs.get("r2").unwrap(), Some(ended));
    assert_eq!(runs.steps("r2").unwrap(), [step(0, "completed"), step(1, "skipped")]);
    assert_eq!((runs.get("none").unwrap(), runs.steps("none").unwrap()), (None, Vec::new()));
}

#[test]
fn runs_are_filtered_and_paged_the_newest_first() {
    let home = Home::new();
    let store = home.open();
    let runs = store.runs();
    let now = runs.now().0;
    for at in 0..10 {
        let (workflow, status) =
            (if at % 2 == 0 { "even" } else { "odd" }, if at < 3 { "failed" } else { "completed" });
        runs.put(&run(&format!("r{at}"), workflow, status, now + at), &[]).unwrap();
    }
    let list = |workflow: Option<&str>, status: Option<&str>, limit, offset| {
        let query = RunQuery {
            workflow: workflow.map(str::to_owned),
            status: status.map(str::to_owned),
            owner: None,
            limit,
            offset,
        };
        let (found, total) = runs.list(&query).unwrap();
        (found.into_iter().map(|run| run.id).collect::<Vec<_>>().join(" "), total)
    };
    assert_eq!(list(None, None, 3, 0), ("r9 r8 r7".to_owned(), 10));
    assert_eq!(list(None, None, 3, 9), ("r0".to_owned(), 10));
    assert_eq!(list(Some("odd"), None, 2, 1), ("r7 r5".to_owned(), 5));
    assert_eq!(list(Some("even"), Some("failed"), 9, 0), ("r2 r0".to_owned(), 2));
    assert_eq!(list(Some("none"), None, 9, 0), (String::new(), 0));
    let count = |principal: &str, of: &str| {
        let owner = Some((PrincipalId::new(principal), profile(of)));
        runs.list(&RunQuery { owner, limit: 9, ..RunQuery::default() }).unwrap().1
    };
    let own = run("r", "w", "failed", now);
    let counts = [count(own.principal.as_str(), own.profile.as_str()), count("bob", own.profile.as_str())];
    assert_eq!(counts, [10, 0]);
    assert_eq!(count(own.principal.as_str(), "other"), 0, "a run belongs to the profile in which it ran");
}

#[test]
fn old_runs_and_too_many_are_forgotten_but_none_that_is_under_way() {
    let home = Home::new();
    let store = home.open();
    let runs = store.runs();
    let now = runs.now().0;
    let days = |days: i64| now - days * 24 * 3600 * 1000;
    runs.put(&run("old", "w", "completed", days(22)), &[step(0, "completed")]).unwrap();
    runs.put(&run("running", "w", "inprogress", days(30)), &[]).unwrap();
    for at in 0..4 {
        runs.put(&run(&format!("r{at}"), "w", "failed", days(at + 1)), &[step(0, "failed")]).unwrap();
    }
    assert_eq!(runs.prune().unwrap(), 1);
    assert_eq!((runs.get("old").unwrap(), runs.steps("old").unwrap().len()), (None, 0));
    assert_eq!(runs.prune().unwrap(), 0);
    store.close_blocking().unwrap();
    drop((runs, store));
    let few = Retention { most: 2, ..Retention::RUNS };
    let store = Store::open(&home.state, Config { runs: few, ..home.config() }).unwrap();
    let runs = store.runs();
    assert_eq!(runs.prune().unwrap(), 2);
    let (left, total) = runs.list(&RunQuery { limit: 9, ..RunQuery::default() }).unwrap();
    assert_eq!(total, 3);
    assert_eq!(left.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["r0", "r1", "running"]);
    assert_eq!(runs.steps("r0").unwrap().len(), 1);
    store.close_blocking().unwrap();
    drop((runs, store));
    let short = Retention { age: Duration::from_secs(36 * 3600), ..Retention::RUNS };
    let store = Store::open(&home.state, Config { runs: short, ..home.config() }).unwrap();
    assert_eq!(store.runs().prune().unwrap(), 1);
    assert!(store.runs().get("r0").unwrap().is_some() && store.runs().get("running").unwrap().is_some());
}

#[test]
fn what_is_listed_and_shown_is_bounded() {
    let home = Home::new();
    let store = home.open();
    let runs = store.runs();
    let long = |place: u32| RunStepRecord { result: Some("x".repeat(1_000)), ..step(place, "completed") };
    let run = RunRecord { result: Some("{}".to_owned()), error: Some("e".repeat(9_000)), ..run("r", "w", "failed", 1) };
    runs.put(&run, &[long(0), long(1), long(2)]).unwrap();
    let (listed, _) = runs.list(&RunQuery { limit: 9, ..RunQuery::default() }).unwrap();
    assert_eq!((listed[0].definition.as_str(), listed[0].input.as_str(), &listed[0].result), ("", "", &None));
    assert_eq!(listed[0].error.as_ref().unwrap().len(), 2_000);
    let (steps, cut) = runs.steps_within("r", 2_100).unwrap();
    assert!(cut && steps.len() == 3);
    assert_eq!(steps.iter().map(|step| step.result.is_some()).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(runs.steps_within("r", 9_000).unwrap(), (vec![long(0), long(1), long(2)], false));
    assert_eq!(runs.step("r", "s1").unwrap(), Some(long(1)));
    assert_eq!(runs.step("r", "none").unwrap(), None);
}

#[test]
fn too_large_runs_are_refused() {
    let home = Home::new();
    let store = home.open();
    let runs = store.runs();
    let large = RunRecord { input: "x".repeat(Runs::TEXT_MAX + 1), ..run("r", "w", "completed", 1) };
    assert!(matches!(runs.put(&large, &[]), Err(StoreError::TooLarge { .. })));
    assert_eq!(runs.get("r").unwrap(), None);
}
