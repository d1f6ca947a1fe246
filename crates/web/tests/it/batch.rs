//! Batches: only in sessions of the one revision that has them.

use serde_json::{Value, json};

use crate::served::{Ask, ServedGateway};

fn batch(session: Option<&str>, messages: &Value) -> Ask {
    let ask = Ask::post(messages.to_string());
    match session {
        Some(session) => ask.header("mcp-session-id", session),
        None => ask,
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_the_revision_that_has_them() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session_of("/mcp", "2025-03-26").await;
    let messages = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/list"},
        {"id": 3, "method": "ping"},
        7,
        [],
        {"jsonrpc": "2.0", "id": 4, "method": "no/such"},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": 6, "method": "initialize", "params": {}},
    ]);
    let reply = house.ask(batch(Some(&session), &messages)).await;
    assert_eq!(reply.status, 200);
    let answers = reply.json();
    let short: Vec<_> =
        answers.as_array().unwrap().iter().map(|it| (it["id"].clone(), it["error"]["code"].as_i64())).collect();
    let expect = [
        (json!(1), None),
        (json!("b"), None),
        (json!(3), Some(-32_600)),
        (Value::Null, Some(-32_600)),
        (Value::Null, Some(-32_600)),
        (json!(4), Some(-32_601)),
        (json!(6), Some(-32_601)),
    ];
    assert_eq!(short, expect);
    let silent = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    let reply = house.ask(batch(Some(&session), &silent)).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (202, 0));
}

#[tokio::test]
async fn a_batch_is_refused_everywhere_else() {
    let house = ServedGateway::settled(&[]).await;
    let ping = json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]);
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = house.session_of("/mcp", revision).await;
        house.ask(batch(Some(&session), &ping)).await.error(400, -32_600);
    }
    house.ask(batch(None, &ping)).await.error(400, -32_600);
    house.ask(batch(None, &ping).header("mcp-protocol-version", "2026-07-28")).await.error(400, -32_600);
    house.ask(batch(Some("no-such"), &ping)).await.error(404, -32_602);
}

#[tokio::test]
async fn a_batch_is_bounded_and_not_empty() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session_of("/mcp", "2025-03-26").await;
    house.ask(batch(Some(&session), &json!([]))).await.error(400, -32_600);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let fits = house.ask(batch(Some(&session), &json!(vec![ping.clone(); 50]))).await;
    assert_eq!(fits.json().as_array().unwrap().len(), 50);
    house.ask(batch(Some(&session), &json!(vec![ping; 51]))).await.problem(413);
}
