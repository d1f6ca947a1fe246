//! Approvals that end by time alone, or with a process: nobody has to ask for it to be known.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::{Clock, Kind, ManualClock, Role, Timestamp};
use toolcrib_store::{Config, Store};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server, text_of};
use toolcrib_testkit::eventually;

use crate::approvals::{approve, id_of, owner, patient, until};

const NOW: Timestamp = Timestamp(1_795_608_000_000);
const MINUTE: i64 = 60_000;

fn files() -> [File; 2] {
    let lines = "exposure: direct\ngroups: [admin]\ntools: {approve: [alpha/counter, alpha/slow]}";
    [server("alpha", &[]), profile("default", lines)]
}

async fn open(setup: Setup) -> TestGateway {
    let house = TestGateway::open(&files(), setup);
    house.settle().await;
    house
}

fn operator(house: &TestGateway) -> Client {
    let mut client = house.modern_of("user:acme/olga", "default");
    client.caller.principal.role = Role::Operator;
    client
}

/// Waits until what passes news on has heard that an approval is in a state.
async fn until_heard(news: &mut mpsc::Receiver<Value>, id: &str, state: &str) {
    let hearing =
        async { while news.recv().await.is_some_and(|event| event["id"] != id || event["state"] != state) {} };
    eventually(&format!("news that `{id}` is {state}"), hearing).await;
}

/// How often an approval has ended by these words: in the audit log, and as an event.
async fn ends(house: &TestGateway, id: &str, method: &str, reason: &str) -> [usize; 2] {
    let audited = house.audited().await;
    let audited = audited.iter().filter(|it| it.method == method && it.approval.as_deref() == Some(id)).count();
    let asked = json!({"resourceType": "Approval", "resourceName": id});
    let events = owner(house).operate("core_events", &asked).await.unwrap().to_string();
    [audited, events.matches(reason).count()]
}

/// Waits until the end of an approval is on record, once.
async fn until_ended(house: &TestGateway, id: &str, method: &str, reason: &str) {
    let recorded = async {
        while ends(house, id, method, reason).await.contains(&0) {
            tokio::task::yield_now().await;
        }
    };
    eventually(&format!("the end of `{id}` on record"), recorded).await;
    assert_eq!(ends(house, id, method, reason).await[0], 1, "`{id}` has ended once");
}

#[tokio::test]
async fn an_open_approval_ends_at_its_time_and_who_waits_for_it_reads_so_then() {
    let (news, mut heard) = mpsc::channel(64);
    let mut setup = Setup { approval_news: Some(news), ..patient() };
    setup.approval_times.expires = Duration::from_millis(100);
    // No look at the row for another reason than its end.
    setup.approval_times.progress = Duration::from_secs(600);
    let house = open(setup).await;
    for client in house.both("default") {
        let answer = client.call("alpha_counter", &json!({})).await;
        let text = text_of(&answer);
        assert!(answer["isError"] == true && text.contains("has expired, and the call has not run"), "{text}");
        let id = id_of(&answer);
        until_heard(&mut heard, &id, "expired").await;
        until_ended(&house, &id, "approval/expire", "ApprovalExpired").await;
        assert_eq!(approve(&operator(&house), &id).await.unwrap_err().kind, Kind::Conflict);
    }
    assert!(!house.audited().await.iter().any(|it| it.target == "alpha/counter" && it.outcome == "ok"));
}

#[tokio::test]
async fn what_ended_while_no_gateway_ran_is_known_at_the_next_start_without_anyone_asking() {
    let clock = Arc::new(ManualClock::at(NOW));
    let config = Config { clock: Arc::<ManualClock>::clone(&clock), ..Config::default() };
    let store = Store::in_memory(config).unwrap();
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let setup = || Setup { clock: Arc::clone(&shared), store: store.clone(), ..Setup::default() };
    let house = open(setup()).await;
    let client = house.modern("default");
    let late = id_of(&client.call("alpha_counter", &json!({})).await);
    let cut_off = id_of(&client.call("alpha_slow", &json!({"ms": 600_000})).await);
    approve(&operator(&house), &cut_off).await.unwrap();
    until(&operator(&house), &cut_off, "running").await;
    house.close().await;
    clock.advance(16 * MINUTE);
    let (news, mut heard) = mpsc::channel(64);
    let house = open(Setup { approval_news: Some(news), ..setup() }).await;
    until_heard(&mut heard, &cut_off, "unknown").await;
    until_heard(&mut heard, &late, "expired").await;
    until_ended(&house, &cut_off, "approval/cut-off", "ApprovalUnknown").await;
    until_ended(&house, &late, "approval/expire", "ApprovalExpired").await;
    // Not again with a further start.
    house.close().await;
    let house = open(setup()).await;
    let next = id_of(&house.modern("default").call("alpha_counter", &json!({})).await);
    assert_ne!(next, late);
    for (id, method) in [(&cut_off, "approval/cut-off"), (&late, "approval/expire")] {
        assert_eq!(ends(&house, id, method, "Approval").await[0], 1);
    }
}

#[tokio::test]
async fn a_clock_that_is_put_forward_or_back_between_the_call_and_the_yes_ends_what_waits() {
    let clock = Arc::new(ManualClock::at(NOW));
    let config = Config { clock: Arc::<ManualClock>::clone(&clock), ..Config::default() };
    let store = Store::in_memory(config).unwrap();
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let house = open(Setup { clock: shared, store, ..Setup::default() }).await;
    let client = house.modern("default");
    let mut runs = 0;
    for (number, (turn, counts)) in
        [(14 * MINUTE, true), (15 * MINUTE, false), (-MINUTE, true), (-2 * MINUTE, false)].into_iter().enumerate()
    {
        let arguments = json!({ "number": number });
        let id = id_of(&client.call("alpha_counter", &arguments).await);
        clock.advance(turn);
        match approve(&operator(&house), &id).await {
            Ok(_) => {
                assert!(counts, "{turn}");
                runs += 1;
                until(&operator(&house), &id, "done").await;
            }
            Err(refused) => {
                assert!(!counts && refused.kind == Kind::Conflict, "{turn}: {refused:?}");
                assert!(refused.message.contains("has expired"), "{turn}: {refused:?}");
                assert_ne!(id_of(&client.call("alpha_counter", &arguments).await), id, "{turn}: it asks again");
            }
        }
    }
    let ran = house.audited().await.iter().filter(|it| it.target == "alpha/counter" && it.outcome == "ok").count();
    assert_eq!(ran, runs);
}
