//! Runs of agents: journals that only grow, rows in step with them, and what finds runs that wait.

use std::time::Duration;

use toolcrib_base::{PrincipalId, Role, Timestamp};
use toolcrib_store::{AgentDay, AgentRunQuery, AgentRunRecord, AgentRunState, Config, Retention, Store, StoreError};

use crate::{Home, profile};

fn record(id: &str, at: i64) -> AgentRunRecord {
    AgentRunRecord {
        id: id.to_owned(),
        agent: "clerk".to_owned(),
        task: "Do it.".to_owned(),
        principal: PrincipalId::new("ada"),
        role: Role::Member,
        profile: profile("default"),
        parent: None,
        fork_of: None,
        started_at: Timestamp(at),
        state: AgentRunState { model: "demo".to_owned(), ..AgentRunState::default() },
    }
}

fn lines(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_journal_and_its_row_outlive_the_process() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    runs.create(&record("r1", 5), &lines(&["one"])).unwrap();
    let state = AgentRunState {
        status: "waiting".to_owned(),
        rounds: 1,
        tokens: 70,
        money: 9,
        waits: lines(&["approval:apr_1", "time:900"]),
        next_due: Some(Timestamp(900)),
        ..record("r1", 5).state
    };
    runs.append("r1", 1, &lines(&["two", "three"]), &state, true).unwrap();
    store.close_blocking().unwrap();
    drop((runs, store));
    let store = home.open();
    let runs = store.agent_runs();
    assert_eq!(runs.read("r1").unwrap().unwrap(), ["one", "two", "three"]);
    let read = runs.get("r1").unwrap().unwrap();
    assert_eq!(
        (read.state.status.as_str(), read.state.tokens, read.state.next_due),
        ("waiting", 70, Some(Timestamp(900)))
    );
    assert_eq!(runs.waiting_on("approval:apr_1").unwrap(), ["r1"]);
    assert!(runs.waiting_on("approval:apr_2").unwrap().is_empty());
    assert!(runs.due(Timestamp(899)).unwrap().is_empty());
    assert_eq!(runs.due(Timestamp(900)).unwrap(), ["r1"]);
    assert!(runs.interrupted().unwrap().is_empty());
    let state = AgentRunState { status: "running".to_owned(), tokens: 75, ..record("r1", 5).state };
    runs.append("r1", 3, &lines(&["four"]), &state, false).unwrap();
    assert!(runs.waiting_on("approval:apr_1").unwrap().is_empty());
    assert_eq!(runs.interrupted().unwrap(), ["r1"]);
    assert_eq!(runs.today("clerk").unwrap(), AgentDay { runs: 1, tokens: 75, money: 9 });
    assert_eq!(runs.today("baker").unwrap(), AgentDay::default());
    assert!(runs.read("r2").unwrap().is_none() && runs.get("r2").unwrap().is_none());
}

#[test]
fn two_who_go_on_with_one_run_do_not_interleave() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    let state = record("r1", 5).state;
    runs.create(&record("r1", 5), &lines(&["one"])).unwrap();
    let again = runs.create(&record("r1", 6), &lines(&["other"])).unwrap_err();
    assert!(matches!(again, StoreError::Conflict { .. }), "{again}");
    for sync in [true, false] {
        let late = runs.append("r1", 0, &lines(&["late"]), &state, sync).unwrap_err();
        assert!(late.to_string().contains("has not 0 entries"), "{late}");
        let unknown = runs.append("r9", 0, &lines(&["late"]), &state, sync).unwrap_err();
        assert!(matches!(unknown, StoreError::Conflict { .. }), "{unknown}");
    }
    assert_eq!(runs.read("r1").unwrap().unwrap(), ["one"]);
    assert_eq!(runs.get("r1").unwrap().unwrap().started_at, Timestamp(5));
}

#[test]
fn runs_are_listed_found_by_their_beginning_and_deleted_only_when_they_ended() {
    let home = Home::new();
    home.turn_clock(Timestamp(90_000_000));
    let short = Retention { age: Duration::from_secs(3_600), ..Retention::RUNS };
    let store = Store::open(&home.state, Config { runs: short, ..home.config() }).unwrap();
    let runs = store.agent_runs();
    let now = store.runs().now().0;
    for (id, at, status) in [("aa1", now - 9, "ended"), ("aa2", now - 8, "waiting"), ("ab3", now - 7_200_000, "ended")]
    {
        let mut run = record(id, at);
        status.clone_into(&mut run.state.status);
        run.state.ended_at = Some(Timestamp(at)).filter(|_| status == "ended");
        runs.create(&run, &lines(&["one"])).unwrap();
    }
    let ids = |runs: Vec<AgentRunRecord>| runs.into_iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(ids(runs.beginning_with("aa").unwrap()), ["aa1", "aa2"]);
    assert!(runs.beginning_with("%").unwrap().is_empty());
    let all = AgentRunQuery { limit: 2, ..AgentRunQuery::default() };
    let (page, total) = runs.list(&all).unwrap();
    assert_eq!((ids(page), total), (vec!["aa2".to_owned(), "aa1".to_owned()], 3));
    let ended = AgentRunQuery { status: Some("ended".to_owned()), ..all.clone() };
    assert_eq!(ids(runs.list(&ended).unwrap().0), ["aa1", "ab3"]);
    let other = AgentRunQuery { owner: Some((PrincipalId::new("eve"), profile("default"))), ..all };
    assert_eq!(runs.list(&other).unwrap().1, 0);
    assert_eq!(runs.prune().unwrap(), 1);
    assert!(runs.read("ab3").unwrap().is_none() && runs.read("aa2").unwrap().is_some());
}

#[test]
fn ten_thousand_waiting_runs_are_found_by_what_they_wait_for() {
    let home = Home::new();
    let store = home.open();
    let connection = home.shell();
    connection
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
             INSERT INTO agent_run_wait (wait, run) SELECT 'approval:' || i, 'r' || i FROM n",
        )
        .unwrap();
    let plan: String = connection
        .query_row(
            "EXPLAIN QUERY PLAN SELECT run FROM agent_run_wait WHERE wait = 'approval:77' ORDER BY run",
            [],
            |row| row.get(3),
        )
        .unwrap();
    assert!(plan.starts_with("SEARCH"), "{plan}");
    assert_eq!(store.agent_runs().waiting_on("approval:77").unwrap(), ["r77"]);
}
