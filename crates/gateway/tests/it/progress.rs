//! Progress and cancellation from end to end.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Id, Raw};
use toolcrib_testgateway::{Client, TestGateway, server};
use toolcrib_testkit::eventually;

/// Reads the progress of one call until its sender is gone.
async fn read(mut queue: mpsc::Receiver<Bytes>) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some(message) = eventually("progress", queue.recv()).await {
        messages.push(serde_json::from_slice(&message).unwrap());
    }
    messages
}

#[tokio::test]
async fn progress_comes_with_the_client_s_own_token() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        for token in [json!("my-token"), json!(7), json!(-1.5), json!("")] {
            for (name, arguments) in [
                ("alpha_progress", json!({"steps": 3})),
                ("call_tool", json!({"name": "alpha/progress", "arguments": {"steps": 3}})),
            ] {
                let (sender, queue) = mpsc::channel(64);
                let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": token}});
                let asked = client.with_id(Id::from_number(1), "tools/call", Raw::from_value(&params), Some(sender));
                let result = asked.await.unwrap().unwrap().to_value();
                assert_eq!(result["content"][0]["text"], "3 steps");
                let messages = read(queue).await;
                assert_eq!(messages.len(), 3, "{name} {token}: {messages:?}");
                for (step, message) in messages.iter().enumerate() {
                    assert_eq!(message["method"], "notifications/progress");
                    assert_eq!(message["params"]["progressToken"], token);
                    assert_eq!(message["params"]["progress"], step + 1);
                    assert_eq!(message["params"]["message"], format!("step {}", step + 1));
                }
            }
        }
    }
}

#[tokio::test]
async fn without_a_token_the_server_is_not_asked_for_progress() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        for token in [Value::Null, json!({"a": 1}), json!([1]), json!(true)] {
            let (sender, queue) = mpsc::channel(64);
            let params = json!({"name": "alpha_received", "arguments": {}, "_meta": {"progressToken": token}});
            let asked = client.with_id(Id::from_number(1), "tools/call", Raw::from_value(&params), Some(sender));
            let result = asked.await.unwrap().unwrap().to_value();
            let received: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert!(received["_meta"]["progressToken"].is_null(), "{received}");
            assert!(read(queue).await.is_empty());
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_progress_still_gets_its_answer() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.legacy("default");
    let (sender, queue) = mpsc::channel(1);
    let params = json!({"name": "alpha_progress", "arguments": {"steps": 500}, "_meta": {"progressToken": 1}});
    let asked = client.with_id(Id::from_number(1), "tools/call", Raw::from_value(&params), Some(sender));
    assert!(asked.await.unwrap().is_ok());
    assert_eq!(read(queue).await.len(), 1, "what does not fit is missed, not kept");
}

/// Starts a call that only ends when it is cancelled, and waits until the server has begun it. The call's task says
/// whether there was an answer.
async fn start_endless(client: &Client, id: u64, scope: &Scope) -> tokio::task::JoinHandle<bool> {
    let (sender, mut queue) = mpsc::channel(64);
    let params = json!({
        "name": "alpha_progress", "arguments": {"steps": 100_000, "ms": 5}, "_meta": {"progressToken": 1},
    });
    let client = client.clone();
    let task = scope.spawn(async move {
        let asked = client.with_id(Id::from_number(id), "tools/call", Raw::from_value(&params), Some(sender));
        asked.await.is_some()
    });
    eventually("the first step", queue.recv()).await.unwrap();
    task
}

/// How many cancellations the server has seen: asked until there are `wanted`.
async fn until_cancelled(client: &Client, wanted: usize) {
    let waiting = async {
        loop {
            let text = client.text("alpha_cancelled", &json!({})).await;
            let seen: Vec<Value> = serde_json::from_str(&text).unwrap();
            if seen.len() >= wanted {
                assert_eq!(seen.len(), wanted);
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    eventually("a cancellation at the server", waiting).await;
}

#[tokio::test]
async fn a_cancellation_by_a_legacy_client_reaches_the_server_and_ends_the_call() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let scope = Scope::new();
    let (client, other) = (house.legacy("default"), house.legacy("default"));
    let task = start_endless(&client, 100, &scope).await;
    // The same id of another session, an unknown id and a wrong one cancel nothing.
    other.notify("notifications/cancelled", &json!({"requestId": 100}));
    client.notify("notifications/cancelled", &json!({"requestId": "100"}));
    client.notify("notifications/cancelled", &json!({"requestId": {}}));
    client.notify("notifications/cancelled", &json!({}));
    assert_eq!(other.text("alpha_cancelled", &json!({})).await, "[]");
    assert!(!task.is_finished());
    client.notify("notifications/cancelled", &json!({"requestId": 100, "reason": "enough"}));
    assert!(!eventually("the end", task).await.unwrap(), "what was cancelled has no answer");
    until_cancelled(&other, 1).await;
    let events = house.audited().await;
    let cancelled: Vec<_> = events.iter().filter(|event| event.outcome == "cancelled").collect();
    assert_eq!(cancelled.len(), 1);
    assert_eq!((cancelled[0].target.as_str(), cancelled[0].request_id.as_str()), ("alpha/progress", "100"));
}

#[tokio::test]
async fn a_request_that_is_dropped_is_taken_back_in_either_era() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let [modern, legacy] = house.both("default");
    let scope = Scope::new();
    // Whoever holds a legacy client's connection keeps its request for a while; what it drops is over.
    let task = start_endless(&legacy, 1, &scope).await;
    task.abort();
    assert!(eventually("the end", task).await.unwrap_err().is_cancelled());
    let task = start_endless(&modern, 2, &scope).await;
    task.abort();
    assert!(eventually("the end", task).await.unwrap_err().is_cancelled());
    until_cancelled(&legacy, 2).await;
    let events = house.audited().await;
    let dropped: Vec<_> = events.iter().filter(|event| event.target == "alpha/progress").collect();
    assert_eq!(dropped.len(), 2);
    assert!(dropped.iter().all(|event| event.outcome == "cancelled" && event.decision.starts_with("permit:")));
}

#[tokio::test]
async fn the_end_of_a_session_cancels_what_runs_in_it() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let scope = Scope::new();
    let (client, other) = (house.legacy("default"), house.legacy("default"));
    let task = start_endless(&client, 5, &scope).await;
    house.gateway.sessions.close(client.caller.session.as_ref().unwrap());
    assert!(!eventually("the end", task).await.unwrap(), "what was cancelled has no answer");
    until_cancelled(&other, 1).await;
}
