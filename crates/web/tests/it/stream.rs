//! Streams of events: progress before an answer, news of a session, and what happens when a client hangs up.

use serde_json::{Value, json};
use toolcrib_testgateway::{profile, server};
use toolcrib_testkit::eventually;

use crate::served::{Ask, Events, ServedGateway, stopped};

fn progress(steps: u64, millis: u64, token: &Value) -> Value {
    json!({"name": "alpha_progress", "arguments": {"steps": steps, "ms": millis}, "_meta": {"progressToken": token}})
}

/// The same call by a client of each era.
async fn both(house: &ServedGateway, params: &Value) -> [Ask; 2] {
    let session = house.session().await;
    [Ask::modern("tools/call", params.clone()), Ask::legacy(&session, "tools/call", params)]
}

#[tokio::test]
async fn progress_comes_as_events_and_the_answer_is_the_last_one() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    for token in [json!("t"), json!(7)] {
        for ask in both(&house, &progress(3, 0, &token)).await {
            let mut events = house.events(ask).await;
            assert_eq!(events.headers["x-accel-buffering"], "no");
            for step in 1..=3 {
                let message = events.next().await.unwrap();
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], token);
                assert_eq!(message["params"]["progress"], step);
            }
            let answer = events.next().await.unwrap();
            assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!("3 steps")));
            assert!(events.next().await.is_none(), "the stream ends with the answer");
        }
    }
}

#[tokio::test]
async fn an_answer_without_progress_is_one_json_body() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    for ask in both(&house, &progress(0, 0, &json!("t"))).await {
        let reply = house.ask(ask).await;
        assert_eq!(reply.headers["content-type"], "application/json");
        assert_eq!(reply.result()["content"][0]["text"], "0 steps");
    }
    for ask in both(&house, &progress(3, 0, &Value::Null)).await {
        assert_eq!(house.ask(ask).await.result()["content"][0]["text"], "3 steps");
    }
    let error = json!({"name": "no_such", "arguments": {}, "_meta": {"progressToken": 1}});
    for ask in both(&house, &error).await {
        house.ask(ask).await.error(200, -32_602);
    }
}

/// Asks the fake server how many cancellations it has seen, until there are `wanted`.
async fn until_cancelled(house: &ServedGateway, wanted: usize) {
    let waiting = async {
        loop {
            let ask = Ask::modern("tools/call", json!({"name": "alpha_cancelled", "arguments": {}}));
            let text = house.ask(ask).await.result()["content"][0]["text"].as_str().unwrap().to_owned();
            let seen: Vec<Value> = serde_json::from_str(&text).unwrap();
            if seen.len() >= wanted {
                assert_eq!(seen.len(), wanted, "{seen:?}");
                return;
            }
        }
    };
    eventually("a cancellation at the server", waiting).await;
}

/// Opens a call that would not end, and reads its first progress.
async fn endless(house: &ServedGateway, ask: Ask) -> Events {
    let mut events = house.events(ask).await;
    assert_eq!(events.next().await.unwrap()["params"]["progress"], 1);
    events
}

#[tokio::test]
async fn a_modern_client_that_hangs_up_cancels_and_a_legacy_one_comes_back() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    let session = house.session().await;
    let ask = Ask::legacy(&session, "tools/call", &progress(100_000, 5, &json!("t")));
    let mut legacy = house.events(ask).await;
    let (first, id) = legacy.next_with_id().await.unwrap();
    assert_eq!(first["params"]["progress"], 1);
    legacy.hang_up().await;
    let modern = Ask::modern("tools/call", progress(100_000, 5, &json!("t")));
    let modern = endless(&house, modern).await;
    modern.hang_up().await;
    until_cancelled(&house, 1).await;
    let mut again = house.events(resume(&session, &id.unwrap())).await;
    assert_eq!(again.next().await.unwrap()["params"]["progress"], 2, "it goes on where it broke");
    let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    house.ask(Ask::post(body.to_string()).header("mcp-session-id", &session)).await;
    until_cancelled(&house, 2).await;
    while again.next().await.is_some() {}
    let rows = async {
        loop {
            let list = house.ask(Ask::get("/api/v1/audit?target=alpha/progress").admin()).await.json();
            if list["total"] == 2 {
                return list;
            }
        }
    };
    let list = eventually("two events", rows).await;
    assert!(list["events"].as_array().unwrap().iter().all(|event| event["outcome"] == "cancelled"), "{list}");
}

#[tokio::test]
async fn a_legacy_client_that_hangs_up_before_it_heard_anything_cancels_nothing() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    let session = house.session().await;
    let params = json!({"name": "alpha_progress", "arguments": {"steps": 20, "ms": 5}});
    let alpha = house.gateway.servers().table().get("alpha").unwrap().server.clone();
    let begun = async {
        while alpha.running() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        reply = house.ask(Ask::legacy(&session, "tools/call", &params)) => panic!("too early: {reply:?}"),
        () = begun => {}
    }
    let rows = async {
        loop {
            let list = house.ask(Ask::get("/api/v1/audit?target=alpha/progress").admin()).await.json();
            if list["total"] == 1 {
                return list;
            }
        }
    };
    assert_eq!(eventually("the event", rows).await["events"][0]["outcome"], "ok");
}

fn resume(session: &str, event: &str) -> Ask {
    Ask::get("/mcp").header("mcp-session-id", session).header("last-event-id", event)
}

#[tokio::test]
async fn a_stream_that_broke_is_taken_up_to_its_answer() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = house.session_of("/mcp", revision).await;
        let ask = || Ask::legacy(&session, "tools/call", &progress(3, 0, &json!("t")));
        let mut events = house.events(ask()).await;
        let mut all = Vec::new();
        while let Some(event) = events.event().await {
            all.push(event);
        }
        let primed = all[0].data.is_empty();
        assert_eq!((primed, all[0].retry.is_some()), (revision == "2025-11-25", revision == "2025-11-25"));
        for (index, event) in all.iter().enumerate() {
            let mut again = house.events(resume(&session, event.id.as_ref().unwrap())).await;
            for expect in &all[index + 1..] {
                assert_eq!(again.event().await.as_ref(), Some(expect));
            }
            assert_eq!(again.event().await, None);
        }
        // The other streams of the session are not replayed on this one, and this one not in another session.
        let mut other = house.events(ask()).await;
        let first = other.next_with_id().await.unwrap().1.unwrap();
        assert_ne!(first.split('-').next(), all[0].id.as_ref().unwrap().split('-').next());
        let foreign = house.session_of("/mcp", revision).await;
        for (session, event) in [(&foreign, &*first), (&session, "x"), (&session, "0-1"), (&session, "-1")] {
            let error = house.ask(resume(session, event)).await.error(400, -32_600);
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.contains("Open a new stream without `Last-Event-ID`"), "{message}");
        }
        let twice = resume(&session, &first).header("last-event-id", &first);
        assert_eq!(house.ask(twice).await.status, 400);
    }
    let session = house.session_of("/mcp", "2024-11-05").await;
    let mut events = house.events(Ask::legacy(&session, "tools/call", &progress(1, 0, &json!("t")))).await;
    assert_eq!(events.event().await.unwrap().id, None, "a revision without resumption has no ids");
    let mut modern = house.events(Ask::modern("tools/call", progress(1, 0, &json!("t")))).await;
    assert_eq!(modern.event().await.unwrap().id, None);
}

#[tokio::test]
async fn a_session_s_own_stream_is_taken_up_with_what_was_said_meanwhile() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), profile("default", "exposure: direct")]).await;
    let session = house.session().await;
    let mut events = house.events(Ask::get("/mcp").header("mcp-session-id", &session)).await;
    let primed = events.event().await.unwrap();
    assert!(primed.data.is_empty());
    events.hang_up().await;
    let own = house.gateway.sessions.of_profile(&"default".parse().unwrap()).pop().unwrap();
    eventually("the end of the stream", async {
        while own.is_listening() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    house.apply(&[stopped("beta", &["two"])]).await;
    let mut again = house.events(resume(&session, &primed.id.unwrap())).await;
    assert_eq!(again.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_client_that_takes_no_streams_gets_one_body() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    for ask in both(&house, &progress(3, 0, &json!("t"))).await {
        let reply = house.ask(ask.with("accept", "application/json")).await;
        assert_eq!(reply.headers["content-type"], "application/json");
        assert_eq!(reply.result()["content"][0]["text"], "3 steps");
    }
    let listen = Ask::modern("subscriptions/listen", json!({"notifications": {}})).with("accept", "application/json");
    assert_eq!(house.ask(listen).await.status, 406);
}

#[tokio::test]
async fn a_legacy_client_cancels_by_a_notification_and_its_stream_ends_without_an_answer() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    let session = house.session().await;
    let ask = Ask::legacy(&session, "tools/call", &progress(100_000, 5, &json!("t")));
    let mut events = endless(&house, ask).await;
    let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let reply = house.ask(Ask::post(body.to_string()).header("mcp-session-id", &session)).await;
    assert_eq!(reply.status, 202);
    let rest = async {
        while let Some(message) = events.next().await {
            assert_eq!(message["method"], "notifications/progress", "{message}");
        }
    };
    eventually("the end of the stream", rest).await;
    until_cancelled(&house, 1).await;
}

#[tokio::test]
async fn a_session_s_stream_tells_that_a_list_has_changed() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), profile("default", "exposure: direct")]).await;
    let session = house.session().await;
    let mut events = house.events(Ask::get("/mcp").header("mcp-session-id", &session)).await;
    assert_eq!(events.headers["cache-control"], "no-cache, no-transform");
    house.apply(&[stopped("beta", &["two"])]).await;
    let message = events.next().await.unwrap();
    assert_eq!(message, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}));
    let list = house.ask(Ask::legacy(&session, "tools/list", &json!({}))).await.result();
    assert_eq!(list["tools"].as_array().unwrap().len(), 2);
    let delete = Ask::new(http::Method::DELETE, "/mcp", "").header("mcp-session-id", &session);
    assert_eq!(house.ask(delete).await.status, 204);
    assert!(events.next().await.is_none(), "the stream ends with its session");
}

#[tokio::test]
async fn loading_is_told_on_the_session_s_own_stream() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), profile("default", "exposure: dynamic")]).await;
    let (session, other) = (house.session().await, house.session().await);
    let mut events = house.events(Ask::get("/mcp").header("mcp-session-id", &session)).await;
    let names = json!({"name": "load_tools", "arguments": {"names": ["alpha/one"]}});
    house.ask(Ask::legacy(&other, "tools/call", &names)).await.result();
    house.ask(Ask::modern("tools/call", names.clone())).await.result();
    house.ask(Ask::legacy(&session, "tools/call", &names)).await.result();
    assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
    house.ask(Ask::new(http::Method::DELETE, "/mcp", "").header("mcp-session-id", &session)).await;
    assert!(events.next().await.is_none(), "it was told once, for its own loading");
}

#[tokio::test]
async fn streams_of_one_session_are_bounded() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session().await;
    let get = || Ask::get("/mcp").header("mcp-session-id", &session);
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(house.events(get()).await);
    }
    house.ask(get()).await.problem(429);
    open.pop().unwrap().hang_up().await;
    let again = async { while house.try_ask_status(get()).await != 200 {} };
    eventually("the place of the one that hung up", again).await;
}
