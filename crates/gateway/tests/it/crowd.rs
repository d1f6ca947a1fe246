//! Many calls at one server: they wait for a place, take turns, and a tool that hangs takes nothing from the others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_base::{Limits, ManualClock, PrincipalId, ProfileName};
use toolcrib_protocol::{Id, Raw, Revision};
use toolcrib_session::{Principal, Sessions};
use toolcrib_testgateway::{Client, TestGateway, server, server_with};
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ReceivedMessage, Say, ScriptedServer, Speaks};
use toolcrib_upstream::places::Lane;

use crate::wire::{heard, over_http_with, over_stdio_with};

/// Calls that one tool may have running with `limits: {concurrent: 16}`.
const SHARE: usize = 14;

/// `hang` is never answered, `late` once the script is released, `good` at once.
fn script(heard: &ReceivedMessage, say: &mut Say<'_>) {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    match heard.method.as_str() {
        "tools/list" => say.result(&json!({"tools": [tool("hang"), tool("late"), tool("good")]}).to_string()),
        "tools/call" if called(heard) == "hang" => say.nothing(),
        "tools/call" => {
            if called(heard) == "late" {
                say.wait_for_release(1);
            }
            say.result(r#"{"content":[{"type":"text","text":"done"}]}"#);
        }
        _ => {}
    }
}

fn called(heard: &ReceivedMessage) -> String {
    heard.value()["name"].as_str().unwrap_or_default().to_owned()
}

fn count(heard: &[ReceivedMessage], tool: &str) -> usize {
    heard.iter().filter(|heard| heard.method == "tools/call" && called(heard) == tool).count()
}

/// A call of the tool that hangs: the client takes it back, or only goes away.
#[derive(Clone, Copy, PartialEq)]
enum GivenUp {
    Cancelled,
    Dropped,
}

/// Makes as many calls of `hang` as may run, and gives them up; those of legacy clients in either way.
async fn hang(house: &TestGateway, client: &Client, scripted: &Arc<ScriptedServer>, wave: usize, how: GivenUp) {
    let scope = Scope::new();
    let mut calls = Vec::new();
    for number in 0..SHARE {
        let client = client.clone();
        let id = Id::from_number(u64::try_from(1_000_000 + wave * SHARE + number).unwrap());
        let asked = Raw::from_value(&json!({"name": "alpha_hang", "arguments": {}}));
        calls.push(scope.spawn(async move { client.with_id(id, "tools/call", asked, None).await }));
    }
    let all = (wave + 1) * SHARE;
    heard(scripted, "calls that hang", move |heard| count(heard, "hang") >= all).await;
    assert_eq!(client.text("alpha_good", &json!({})).await, "done", "wave {wave}");
    for (number, call) in calls.into_iter().enumerate() {
        match &client.caller.session {
            Some(session) if how == GivenUp::Cancelled => {
                session.cancel(&Id::from_number(u64::try_from(1_000_000 + wave * SHARE + number).unwrap()));
                assert!(eventually("the end", call).await.unwrap().is_none(), "what is cancelled gets no answer");
            }
            _ => {
                call.abort();
                assert!(eventually("the end", call).await.is_err());
            }
        }
    }
    assert_eq!(house.server("alpha").places().load().running, 0, "wave {wave}: every place came back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_calls_that_hang_and_are_given_up_leave_the_others_alone() {
    const WAVES: usize = 22;
    for (speaks, stdio) in
        [(Speaks::Legacy, true), (Speaks::Legacy, false), (Speaks::Modern, true), (Speaks::Modern, false)]
    {
        let scripted = Arc::new(ScriptedServer::start(speaks, script));
        let limits = "limits: {concurrent: 16}\n";
        let file = if stdio {
            over_stdio_with("alpha", &scripted, limits)
        } else {
            over_http_with("alpha", &scripted, limits)
        };
        let house = TestGateway::settled(&[file]).await;
        let clients = house.both("default");
        for wave in 0..WAVES {
            let how = if wave % 4 < 2 { GivenUp::Cancelled } else { GivenUp::Dropped };
            hang(&house, &clients[wave % 2], &scripted, wave, how).await;
        }
        let unanswered = house.server("alpha").unanswered();
        if stdio {
            assert_eq!(unanswered, [("hang".into(), WAVES * SHARE)], "{speaks:?}");
            heard(&scripted, "cancellations", |heard| {
                heard.iter().filter(|heard| heard.method == "notifications/cancelled").count() >= WAVES * SHARE
            })
            .await;
        } else {
            assert!(unanswered.is_empty(), "over HTTP a call ends with its connection: {unanswered:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_after_its_call_was_given_up_is_expected() {
    let scripted = Arc::new(ScriptedServer::start(Speaks::Legacy, script));
    let house = TestGateway::settled(&[over_stdio_with("alpha", &scripted, "")]).await;
    let client = house.modern("default");
    let scope = Scope::new();
    let waiting = client.clone();
    let call = scope.spawn(async move { waiting.text("alpha_late", &json!({})).await });
    heard(&scripted, "the call", |heard| count(heard, "late") == 1).await;
    call.abort();
    assert!(eventually("the end", call).await.is_err());
    assert_eq!(house.server("alpha").unanswered(), [("late".into(), 1)]);
    for name in [Some("alpha"), None] {
        let patient = house.gateway.doctor(name).unwrap()["servers"][0].clone();
        assert_eq!(patient["unanswered"], json!({ "late": 1 }), "{patient}");
        assert!(patient["advice"].as_str().unwrap().contains("`toolcrib server restart alpha`"), "{patient}");
    }
    scripted.release();
    let forgotten = async {
        while !house.server("alpha").unanswered().is_empty() {
            // A round trip to the server, after which its earlier answers have been read.
            assert_eq!(client.text("alpha_good", &json!({})).await, "done");
        }
    };
    eventually("the late answer", forgotten).await;
    let patient = house.gateway.doctor(Some("alpha")).unwrap()["servers"][0].clone();
    assert!(patient["unanswered"].is_null() && patient["advice"] == "nothing: its tools answer", "{patient}");
}

/// Takes every place of a server.
async fn taken(house: &TestGateway, tool: &str) -> Vec<toolcrib_upstream::Place> {
    let server = house.server("alpha");
    let places = server.places();
    let mut taken = Vec::new();
    while places.load().running < places.load().concurrency.calls {
        taken.push(places.take(&PrincipalId::new("other"), Lane::tool(tool), Duration::ZERO).await.expect("a place"));
    }
    taken
}

#[tokio::test]
async fn a_call_that_gets_no_place_in_time_says_so_and_reaches_no_server() {
    let more = "limits: {concurrent: 1}\ntimeouts: {call: 200ms}\n";
    let house = TestGateway::settled(&[server_with("alpha", &[], more)]).await;
    let places = taken(&house, "echo").await;
    for client in house.both("default") {
        let failed = client.call("alpha_counter", &json!({})).await;
        let text = failed["content"][0]["text"].as_str().unwrap();
        assert_eq!(failed["isError"], true);
        assert!(text.contains("waited 0.2 s for a place at server `alpha`: all 1 are taken"), "{text}");
        assert!(text.contains("Nothing was sent") && text.contains("toolcrib get server alpha"), "{text}");
        let read = client.ask("resources/read", &json!({"uri": "fake://text"})).await.unwrap_err();
        assert!(read.message.contains("waited 0.2 s for a place"), "{}", read.message);
    }
    drop(places);
    assert_eq!(house.modern("default").text("alpha_counter", &json!({})).await, "1", "none of them was sent");
    let outcomes: Vec<String> = house.audited().await.into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, ["error:busy", "error:busy", "error:busy", "error:busy", "ok"]);
}

#[tokio::test]
async fn a_tool_that_may_have_so_many_calls_waits_alone() {
    let more = "limits: {concurrent: 8, per_tool: 1}\ntimeouts: {call: 200ms}\n";
    let house = TestGateway::settled(&[server_with("alpha", &[], more)]).await;
    let alpha = house.server("alpha");
    let _place = alpha.places().take(&PrincipalId::new("other"), Lane::tool("counter"), Duration::ZERO).await.unwrap();
    let client = house.modern("default");
    let failed = client.call("alpha_counter", &json!({})).await;
    let text = failed["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`counter` has 1 calls running, which is its share"), "{text}");
    assert_eq!(client.text("alpha_echo", &json!({"text": "x"})).await, "x");
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_waits_leaves_the_queue() {
    let house = TestGateway::settled(&[server_with("alpha", &[], "limits: {concurrent: 1}\n")]).await;
    let places = taken(&house, "echo").await;
    let scope = Scope::new();
    let (modern, legacy) = (house.modern("default"), house.legacy("default"));
    let params = Raw::from_value(&json!({"name": "alpha_counter", "arguments": {}}));
    let (client, asked) = (legacy.clone(), params.clone());
    let cancelled = scope.spawn(async move { client.with_id(Id::from_number(7), "tools/call", asked, None).await });
    let (client, asked) = (modern.clone(), params.clone());
    let dropped = scope.spawn(async move { client.with_id(Id::from_number(8), "tools/call", asked, None).await });
    let (client, asked) = (modern.clone(), params);
    let patient = scope.spawn(async move { client.with_id(Id::from_number(9), "tools/call", asked, None).await });
    let waiting = |count: usize| {
        let alpha = house.server("alpha");
        async move {
            while alpha.places().load().waiting != count {
                tokio::task::yield_now().await;
            }
        }
    };
    eventually("three in the queue", waiting(3)).await;
    legacy.caller.session.as_ref().unwrap().cancel(&Id::from_number(7));
    assert!(eventually("the end", cancelled).await.unwrap().is_none());
    dropped.abort();
    assert!(eventually("the end", dropped).await.is_err());
    eventually("one in the queue", waiting(1)).await;
    drop(places);
    let answer = eventually("its turn", patient).await.unwrap().unwrap().unwrap().to_value();
    assert_eq!(answer["content"][0]["text"], "1", "of the others nothing reached the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_thousand_clients_of_one_server_are_all_answered() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let scope = Scope::new();
    let begin = |number: usize| {
        let client =
            if number.is_multiple_of(2) { house.modern("default") } else { house.modern_of("another", "default") };
        scope.spawn(async move { client.call("alpha_echo", &json!({"text": number.to_string()})).await })
    };
    let calls: Vec<_> = (0..4_000).map(begin).collect();
    for (number, call) in calls.into_iter().enumerate() {
        let answer: Value = call.await.unwrap();
        assert_eq!(answer["content"][0]["text"], number.to_string(), "{answer}");
    }
}

/// On a machine of one person every client is the same principal: a bound on the sessions of one must allow them.
#[test]
fn one_principal_may_have_four_thousand_sessions() {
    let limits = Limits::default();
    let sessions = Sessions::new(limits.sessions, limits.session_idle, Arc::new(ManualClock::default()));
    for number in 0..4_000 {
        let who = Principal::member("local");
        let opened = sessions.open(who, ProfileName::new("default").unwrap(), Revision::LATEST_LEGACY);
        assert!(opened.is_ok(), "session {number}: {:?}", opened.err());
    }
}
