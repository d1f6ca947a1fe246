//! The state machine as tables.

use serde_json::json;

use super::*;

const THRESHOLDS: Thresholds = Thresholds { failure: 3, success: 2 };

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn well() -> Turn {
    Turn::Examined { with: "healthCheck", found: Ok(Map::new()) }
}

fn badly() -> Turn {
    Turn::Examined { with: "healthCheck", found: Err("no answer".to_owned()) }
}

fn started() -> Turn {
    Turn::Started { kept: map(&json!({"id": 7})), outputs: map(&json!({"url": "u"})) }
}

/// Plays the turns; after each: the state, the health, and the reasons of its events.
fn check(from: State, turns: Vec<(Turn, &str, &str, &[&str])>) -> Life {
    let mut life = Life { state: from, ..Life::new(Timestamp(0)) };
    for (at, (turn, state, health, reasons)) in (1..).zip(turns) {
        let text = format!("{at}: {turn:?}");
        let notes = life.take(turn, THRESHOLDS, Timestamp(at));
        assert_eq!((life.state.as_str(), life.health.as_str()), (state, health), "{text}");
        assert_eq!(notes.iter().map(|note| note.reason).collect::<Vec<_>>(), reasons, "{text}");
    }
    life
}

#[test]
fn a_service_lives() {
    let life = check(
        State::Stopped,
        vec![
            (Turn::Starts, "starting", "unknown", &["Starting"]),
            (started(), "running", "healthy", &["Started"]),
            (Turn::Restarts, "starting", "healthy", &["Restarting"]),
            (Turn::Restarted { kept: Map::new(), outputs: Map::new() }, "running", "healthy", &["Restarted"]),
            (Turn::Stops, "stopping", "healthy", &["Stopping"]),
            (Turn::Stopped { kept: map(&json!({"at": "noon"})) }, "stopped", "unknown", &["Stopped"]),
        ],
    );
    assert_eq!(Value::from(life.kept), json!({"start": {"id": 7}, "stop": {"at": "noon"}}));
    assert_eq!((life.updated, life.error), (Timestamp(6), None));
}

#[test]
fn what_fails_is_not_said_to_have_stopped() {
    for (runs, state, health) in
        [(None, "failed", "unhealthy"), (Some(false), "failed", "unhealthy"), (Some(true), "running", "healthy")]
    {
        let failed = Turn::StopFailed { error: "disk is busy".to_owned(), runs };
        let life = check(
            State::Stopped,
            vec![
                (started(), "running", "healthy", &["Started"]),
                (Turn::Stops, "stopping", "healthy", &["Stopping"]),
                (failed, state, health, &["Failed"]),
            ],
        );
        assert_eq!(life.error.as_deref(), Some("failed to stop: disk is busy"));
    }
    let failed = Turn::Failed { what: "start", error: "no".to_owned() };
    check(State::Starting, vec![(failed, "failed", "unhealthy", &["Failed"])]);
}

#[test]
fn health_changes_at_the_thresholds_and_not_before() {
    let life = check(
        State::Running,
        vec![
            (started(), "running", "healthy", &["Started"]),
            (badly(), "running", "degraded", &["HealthCheckFailed"]),
            (badly(), "running", "degraded", &["HealthCheckFailed"]),
            (badly(), "running", "unhealthy", &["HealthCheckFailed", "Unhealthy"]),
            (badly(), "running", "unhealthy", &["HealthCheckFailed"]),
            (well(), "running", "unhealthy", &[]),
            (badly(), "running", "unhealthy", &["HealthCheckFailed"]),
            (well(), "running", "unhealthy", &[]),
            (well(), "running", "healthy", &["HealthCheckRecovered", "Healthy"]),
            (well(), "running", "healthy", &[]),
        ],
    );
    assert_eq!((life.failures, life.successes, life.error), (0, 3, None));
    assert_eq!(life.checked, Some(Timestamp(10)));
}

#[test]
fn one_good_check_does_not_hide_that_it_is_degraded() {
    let life = check(
        State::Running,
        vec![
            (started(), "running", "healthy", &["Started"]),
            (badly(), "running", "degraded", &["HealthCheckFailed"]),
            (well(), "running", "degraded", &[]),
        ],
    );
    assert!(life.error.is_some());
}

#[test]
fn after_a_restart_of_the_gateway_nothing_is_taken_for_granted() {
    for (before, expected) in [
        (State::Running, State::Unknown),
        (State::Starting, State::Unknown),
        (State::Stopping, State::Unknown),
        (State::Waiting, State::Unknown),
        (State::Stopped, State::Stopped),
        (State::Failed, State::Failed),
    ] {
        let life = Life { state: before, health: Health::Healthy, ..Life::new(Timestamp(0)) }.after_restart();
        assert_eq!(life.state, expected, "{before:?}");
    }
    check(
        State::Unknown,
        vec![
            (Turn::Awaits("tool a".to_owned()), "waiting", "unknown", &["StateChanged"]),
            (Turn::Examining, "waiting", "checking", &[]),
            (well(), "running", "healthy", &["Healthy"]),
        ],
    );
    check(
        State::Unknown,
        vec![
            (Turn::Examining, "unknown", "checking", &[]),
            (badly(), "failed", "unhealthy", &["HealthCheckFailed", "Unhealthy"]),
        ],
    );
    check(State::Waiting, vec![(Turn::Lost("no tool".to_owned()), "unknown", "unknown", &["StateChanged"])]);
}

#[test]
fn words_and_states_agree() {
    for state in State::ALL {
        assert_eq!(State::of(state.as_str()), Some(state));
    }
    assert_eq!(State::of("on"), None);
}
