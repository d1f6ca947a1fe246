//! Runs of agents: journals that only grow, rows in step with them, and what finds runs that wait.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use toolcrib_base::{Kind, PrincipalId, Problem, Role, Timestamp};
use toolcrib_store::{
    AgentDay, AgentDayLimits, AgentRunEntries, AgentRunQuery, AgentRunRecord, AgentRunState, Config, Retention, Store,
    StoreError,
};

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

/// Lines for the journal of a run that has so many.
fn entries<'a>(
    run: &'a str,
    before: u64,
    lines: &'a [String],
    state: &'a AgentRunState,
    sync: bool,
) -> AgentRunEntries<'a> {
    AgentRunEntries { run, before, lines, state, limits: AgentDayLimits::default(), sync }
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
    runs.append(&entries("r1", 1, &lines(&["two", "three"]), &state, true)).unwrap();
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
    let state = AgentRunState { status: "running".to_owned(), tokens: 75, money: 9, ..record("r1", 5).state };
    runs.append(&entries("r1", 3, &lines(&["four"]), &state, false)).unwrap();
    assert!(runs.waiting_on("approval:apr_1").unwrap().is_empty());
    assert_eq!(runs.interrupted().unwrap(), ["r1"]);
    assert_eq!(runs.today("clerk").unwrap(), AgentDay { runs: 1, tokens: 75, money: 9 });
    assert_eq!(runs.today("baker").unwrap(), AgentDay::default());
    assert!(runs.read("r2").unwrap().is_none() && runs.get("r2").unwrap().is_none());
}

#[test]
fn a_journal_is_read_from_a_number_and_runs_are_found_by_the_beginning_of_a_wait() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    runs.create(&record("r1", 5), &lines(&["one", "two", "three"])).unwrap();
    assert_eq!(runs.read_from("r1", 1, 10).unwrap(), ["two", "three"]);
    assert_eq!(runs.read_from("r1", 0, 1).unwrap(), ["one"]);
    assert_eq!(runs.read_from("r1", 3, u64::MAX).unwrap(), [""; 0]);
    assert_eq!(runs.read_from("gone", 0, 10).unwrap(), [""; 0]);
    assert_eq!((runs.count_entries("r1").unwrap(), runs.count_entries("gone").unwrap()), (3, 0));
    let state = AgentRunState { status: "waiting".to_owned(), waits: lines(&["person:1.1"]), ..record("r1", 5).state };
    runs.append(&entries("r1", 3, &lines(&["four"]), &state, true)).unwrap();
    assert_eq!(runs.waiting_on_any("person:").unwrap(), ["r1"]);
    assert_eq!(runs.waiting_on_any("login:").unwrap(), [""; 0]);
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
        let late = runs.append(&entries("r1", 0, &lines(&["late"]), &state, sync)).unwrap_err();
        assert_eq!(late.to_string(), "the journal of run `r1` has 1 entries and not 0");
        let unknown = runs.append(&entries("r9", 0, &lines(&["late"]), &state, sync)).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no run `r9`");
        assert_eq!(Problem::from(unknown).kind, Kind::Conflict);
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
fn ten_thousand_waiting_runs_are_found_by_an_index() {
    let home = Home::new();
    let store = home.open();
    let connection = home.shell();
    connection
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
             INSERT INTO agent_run SELECT 'r' || i, 'clerk', '', 'ada', 'member', 'default', NULL, NULL, i, 'demo', \
             'waiting', NULL, NULL, 0, 0, 0, 0, i, NULL, 1000 + i, 1 FROM n; \
             INSERT INTO agent_run_wait (wait, run) SELECT 'approval:' || substr(id, 2), id FROM agent_run",
        )
        .unwrap();
    for query in [
        "SELECT run FROM agent_run_wait WHERE wait = 'approval:77' ORDER BY run",
        "SELECT id FROM agent_run WHERE next_due <= 1003 ORDER BY next_due LIMIT 256",
        "SELECT next_due FROM agent_run WHERE next_due IS NOT NULL ORDER BY next_due LIMIT 1",
        "SELECT id FROM agent_run WHERE status = 'running' ORDER BY started_at, id",
        "SELECT id FROM agent_run WHERE id >= 'r77' AND id < 'r77z' ORDER BY id LIMIT 10",
    ] {
        let explain = format!("EXPLAIN QUERY PLAN {query}");
        let plan: String = connection.query_row(&explain, [], |row| row.get(3)).unwrap();
        let by_index = plan.starts_with("SEARCH") || plan.contains("USING INDEX") || plan.contains("COVERING INDEX");
        assert!(by_index, "{query}: {plan}");
    }
    let runs = store.agent_runs();
    assert_eq!(runs.waiting_on("approval:77").unwrap(), ["r77"]);
    assert_eq!(runs.due(Timestamp(1_003)).unwrap(), ["r1", "r2", "r3"]);
    assert_eq!(runs.due(Timestamp(900_000)).unwrap().len(), 256);
    assert_eq!(runs.next_due().unwrap(), Some(Timestamp(1_001)));
    assert!(runs.interrupted().unwrap().is_empty());
}

#[test]
fn runs_are_listed_by_when_they_started() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    for at in [10, 20, 30] {
        runs.create(&record(&format!("r{at}"), at), &lines(&["one"])).unwrap();
    }
    let found = |since: Option<i64>, until: Option<i64>| {
        let query = AgentRunQuery {
            since: since.map(Timestamp),
            until: until.map(Timestamp),
            limit: 9,
            ..AgentRunQuery::default()
        };
        let (page, total) = runs.list(&query).unwrap();
        assert_eq!(page.len() as u64, total);
        page.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(found(Some(20), None), ["r30", "r20"]);
    assert_eq!(found(None, Some(20)), ["r10"]);
    assert_eq!(found(Some(11), Some(30)), ["r20"]);
}

#[test]
fn an_ended_run_waits_for_nothing_and_only_it_is_deleted() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    let waits = |status: &str| AgentRunState {
        status: status.to_owned(),
        waits: lines(&["time:7"]),
        next_due: Some(Timestamp(7)),
        ..record("r1", 5).state
    };
    runs.create(&record("r1", 5), &lines(&["one"])).unwrap();
    runs.append(&entries("r1", 1, &lines(&["two"]), &waits("waiting"), false)).unwrap();
    let refused = runs.delete("r1").unwrap_err();
    assert_eq!(refused.to_string(), "the run `r1` has not ended: cancel it first");
    assert_eq!(runs.waiting_on("time:7").unwrap(), ["r1"]);
    runs.append(&entries("r1", 2, &lines(&["three"]), &waits("ended"), false)).unwrap();
    assert!(runs.waiting_on("time:7").unwrap().is_empty() && runs.due(Timestamp(9)).unwrap().is_empty());
    assert_eq!(runs.next_due().unwrap(), None);
    assert!(runs.delete("r1").unwrap() && !runs.delete("r1").unwrap());
    assert!(runs.read("r1").unwrap().is_none() && runs.get("r1").unwrap().is_none());
    let left: i64 = home.shell().query_row("SELECT count(*) FROM agent_run_entry", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn of_many_who_start_runs_at_once_no_more_start_than_may_on_a_day() {
    let home = Home::new();
    let store = home.open();
    let limits = AgentDayLimits { runs: Some(5), ..AgentDayLimits::default() };
    let started = std::thread::scope(|scope| {
        let start = |thread: u32| {
            let runs = store.agent_runs();
            let create = move |n: u32| {
                let created = runs.create_within(&record(&format!("r{thread}.{n}"), 5), &lines(&["one"]), limits);
                created.map_err(|error| error.to_string())
            };
            scope.spawn(move || (0..4).map(create).collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..4).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(started.iter().filter(|it| it.is_ok()).count(), 5);
    let words = "agent `clerk` has reached its limit of 5 runs per day";
    assert!(started.iter().filter_map(|it| it.as_ref().err()).all(|error| error == words), "{started:?}");
    let runs = store.agent_runs();
    assert_eq!(runs.today("clerk").unwrap().runs, 5);
    assert_eq!(runs.list(&AgentRunQuery { limit: 99, ..AgentRunQuery::default() }).unwrap().1, 5);
    // The next day they may start again.
    home.turn_clock(Timestamp(90_000_000));
    runs.create_within(&record("r9", 5), &lines(&["one"]), limits).unwrap();
}

#[test]
fn what_a_request_may_cost_is_reserved_within_the_day_and_given_back() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    let limits = AgentDayLimits { tokens: Some(1_000), money: Some(50), ..AgentDayLimits::default() };
    let spent = |tokens: u64, money: u64, at: i64| AgentRunState {
        tokens,
        money,
        changed_at: Timestamp(at),
        ..record("r", 5).state
    };
    let add = |run: &str, before: u64, state: &AgentRunState, sync: bool| {
        let line = lines(&["more"]);
        runs.append(&AgentRunEntries { run, before, lines: &line, state, limits, sync })
    };
    for id in ["a", "b"] {
        runs.create_within(&record(id, 5), &lines(&["one"]), limits).unwrap();
    }
    add("a", 1, &spent(700, 10, 60_000), false).unwrap();
    for sync in [true, false] {
        let beyond = add("b", 1, &spent(301, 0, 60_000), sync).unwrap_err();
        assert_eq!(beyond.to_string(), "agent `clerk` has reached its limit of 1000 tokens per day");
        let beyond = add("b", 1, &spent(0, 41, 60_000), sync).unwrap_err();
        assert_eq!(beyond.to_string(), "agent `clerk` has reached its limit of 50 picodollars per day");
        let problem = Problem::from(beyond);
        assert_eq!(problem.kind, Kind::Busy);
        assert!(problem.hint.unwrap().contains("limits.per_day"));
    }
    assert_eq!(runs.read("b").unwrap().unwrap(), ["one"]);
    // The answer of `a` used less than was reserved: there is room for `b`.
    add("a", 2, &spent(500, 5, 60_001), false).unwrap();
    add("b", 1, &spent(301, 41, 60_002), true).unwrap();
    assert_eq!(runs.today("clerk").unwrap(), AgentDay { runs: 2, tokens: 801, money: 46 });
    // What is given back after midnight was reserved the day before.
    home.turn_clock(Timestamp(90_000_000));
    add("b", 2, &spent(201, 40, 90_000_000), false).unwrap();
    assert_eq!(runs.today("clerk").unwrap(), AgentDay::default());
    assert_eq!(runs.day("clerk", Timestamp(60_000)).unwrap(), AgentDay { runs: 2, tokens: 701, money: 45 });
    let full = AgentDayLimits { tokens: Some(0), ..limits };
    assert!(matches!(runs.create_within(&record("c", 5), &[], full), Err(StoreError::DayLimit { .. })));
}

#[test]
fn a_statement_that_fails_leaves_nothing_half_written() {
    let home = Home::new();
    let store = home.open();
    let runs = store.agent_runs();
    runs.create(&record("r1", 5), &lines(&["one"])).unwrap();
    let state = AgentRunState { tokens: 9, waits: lines(&["time:7"]), ..record("r1", 5).state };
    let before = (runs.get("r1").unwrap(), runs.today("clerk").unwrap());
    for broken in [
        "INSERT ON agent_run_entry WHEN NEW.line = 'three'",
        "UPDATE ON agent_run",
        "INSERT ON agent_run_wait",
        "UPDATE ON agent_day",
    ] {
        let trigger = format!("CREATE TRIGGER broken BEFORE {broken} BEGIN SELECT RAISE(ABORT, 'broken'); END");
        home.shell().execute_batch(&trigger).unwrap();
        for sync in [true, false] {
            let failed = runs.append(&entries("r1", 1, &lines(&["two", "three"]), &state, sync)).unwrap_err();
            assert!(failed.to_string().starts_with("cannot write the journal of a run in"), "{failed}");
            assert_eq!(runs.read("r1").unwrap().unwrap(), ["one"], "{broken}");
            assert_eq!((runs.get("r1").unwrap(), runs.today("clerk").unwrap()), before, "{broken}");
            assert!(runs.waiting_on("time:7").unwrap().is_empty(), "{broken}");
        }
        home.shell().execute_batch("DROP TRIGGER broken").unwrap();
    }
    runs.append(&entries("r1", 1, &lines(&["two", "three"]), &state, true)).unwrap();
    assert_eq!(runs.read("r1").unwrap().unwrap().len(), 3);
}

/// Tells the test below that it is the process to be killed, and where to write.
const CHILD: &str = "TOOLCRIB_STORE_TEST_RUN_CHILD";
const NAME: &str = "agent_runs::a_killed_process_loses_no_entry_that_it_acknowledged";

#[test]
fn a_killed_process_loses_no_entry_that_it_acknowledged() {
    if let Some(state) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&state));
    }
    let home = Home::new();
    for killed_after in [1, 7, 60] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, &home.state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reports = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reports = reports.filter_map(|line| line.unwrap().rsplit_once("has ")?.1.parse::<usize>().ok());
        let reported = reports.nth(killed_after).expect("the child writes until it is killed");
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        let acknowledged = reports.last().unwrap_or(reported);

        let store = home.open();
        let runs = store.agent_runs();
        let entries = runs.read("r1").unwrap().unwrap();
        assert!((acknowledged..=acknowledged + 2).contains(&entries.len()), "{acknowledged}: {}", entries.len());
        assert!(
            entries.iter().enumerate().all(|(place, line)| *line == place.to_string()),
            "none is missing in between"
        );
        let row = runs.get("r1").unwrap().unwrap();
        assert_eq!(row.state.tokens, entries.len() as u64, "the row is in step");
        assert_eq!(runs.today("clerk").unwrap().tokens, row.state.tokens, "the day is in step");
        assert_eq!(runs.interrupted().unwrap(), ["r1"]);
        store.close_blocking().unwrap();
    }
}

/// Adds two lines at a time, on disk now and then, and says how many there are.
fn write_until_killed(state: &Path) {
    let clock = std::sync::Arc::new(toolcrib_base::ManualClock::at(Timestamp(50_000)));
    let store = Store::open(state, Config { clock, ..Config::default() }).unwrap();
    let runs = store.agent_runs();
    let mut count = runs.read("r1").unwrap().map_or(0, |lines| lines.len() as u64);
    if count == 0 {
        runs.create(&record("r1", 5), &[]).unwrap();
    }
    loop {
        let state = AgentRunState { tokens: count + 2, ..record("r1", 5).state };
        let two = [count.to_string(), (count + 1).to_string()];
        runs.append(&entries("r1", count, &two, &state, count.is_multiple_of(10))).unwrap();
        count += 2;
        let mut out = std::io::stdout().lock();
        if writeln!(out, "has {count}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
