//! HTTP+SSE of 2024-11-05.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_testgateway::{profile, server};
use toolcrib_testkit::eventually;

use crate::served::{Ask, Events, ServedGateway, stopped};

/// Opens a stream and reads where to post.
async fn open(house: &ServedGateway, path: &str) -> (Events, String) {
    let mut events = house.events(Ask::get(path)).await;
    let first = events.event().await.unwrap();
    assert_eq!(first.event.as_deref(), Some("endpoint"));
    let place = String::from_utf8(first.data.to_vec()).unwrap();
    assert!(place.starts_with("/messages?session=") && place.len() >= 18 + 32, "{place}");
    (events, place)
}

fn initialize(revision: &str) -> Value {
    let params = json!({"protocolVersion": revision, "capabilities": {"roots": {}}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

async fn say(house: &ServedGateway, place: &str, message: &Value) {
    let reply = house.ask(Ask::post(message.to_string()).to(place)).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (202, 0), "{:?}", reply.body);
}

#[tokio::test]
async fn a_client_of_each_legacy_revision_is_served() {
    let house = ServedGateway::settled(&[server("alpha", &[]), profile("work", "exposure: direct")]).await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        for path in ["/sse", "/sse/p/work"] {
            let (mut events, place) = open(&house, path).await;
            assert_eq!(events.headers["x-accel-buffering"], "no");
            say(&house, &place, &initialize(revision)).await;
            let event = events.event().await.unwrap();
            assert_eq!(event.event.as_deref(), Some("message"));
            let answer: Value = serde_json::from_slice(&event.data).unwrap();
            assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(revision)));
            say(&house, &place, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
            let call = json!({
                "name": "alpha_progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "t"},
            });
            say(&house, &place, &request(2, "tools/call", &call)).await;
            for step in 1..=2 {
                assert_eq!(events.next().await.unwrap()["params"]["progress"], step);
            }
            assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "2 steps");
            events.hang_up().await;
        }
    }
    eventually("the end of the sessions", async {
        while house.gateway.sessions.count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_its_session() {
    let house = ServedGateway::settled(&[]).await;
    let (mut events, place) = open(&house, "/sse").await;
    say(&house, &place, &initialize("2024-11-05")).await;
    events.next().await.unwrap();
    assert_eq!(house.gateway.sessions.count(), 1);
    events.hang_up().await;
    let post = || Ask::post(request(2, "ping", &json!({})).to_string()).to(&place);
    eventually("the end", async { while house.ask(post()).await.status != 404 {} }).await;
    let text = house.ask(post()).await.problem(404)["hint"].to_string();
    assert!(text.contains("GET /sse"), "{text}");
    assert_eq!(house.gateway.sessions.count(), 0);
}

#[tokio::test]
async fn news_questions_and_batches_go_over_the_stream_too() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), profile("default", "exposure: direct")]).await;
    let (mut events, place) = open(&house, "/sse").await;
    say(&house, &place, &json!([request(1, "ping", &json!({}))])).await;
    assert_eq!(events.next().await.unwrap()["error"]["code"], -32_600, "no batch before the session");
    say(&house, &place, &initialize("2025-03-26")).await;
    events.next().await.unwrap();
    let batch = json!([request(1, "ping", &json!({})), 7, request(2, "no/such", &json!({}))]);
    say(&house, &place, &batch).await;
    let answers = events.next().await.unwrap();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &Value::Null, &json!(2)]);
    let session = house.gateway.sessions.of_profile(&"default".parse().unwrap()).pop().unwrap();
    let asking = {
        let session = Arc::clone(&session);
        async move { session.ask(None, "roots/list", Raw::empty_object(), Duration::from_secs(60)).await }
    };
    let answering = async {
        let question = events.next().await.unwrap();
        say(&house, &place, &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})).await;
    };
    let (answer, ()) = eventually("an answer", async { tokio::join!(asking, answering) }).await;
    assert_eq!(answer.unwrap().unwrap().as_str(), r#"{"roots":[]}"#);
    house.apply(&[stopped("beta", &["two"])]).await;
    assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
    house.gateway.sessions.close(&session);
    say(&house, &place, &request(9, "ping", &json!({}))).await;
    assert_eq!(events.next().await.unwrap()["id"], 9, "what is asked is always answered");
}

#[tokio::test]
async fn bad_input_to_the_older_door() {
    let house = ServedGateway::settled(&[]).await;
    let (mut events, place) = open(&house, "/sse").await;
    let ping = request(5, "ping", &json!({}));
    say(&house, &place, &ping).await;
    assert_eq!(events.next().await.unwrap()["error"]["code"], -32_600, "nothing before `initialize`");
    let modern = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    }});
    say(&house, &place, &request(6, "tools/list", &modern)).await;
    let refused = events.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(6), &json!(-32_600)), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("/mcp"));
    let reply = house.ask(Ask::post("{").to(&place)).await;
    assert_eq!(reply.status, 202);
    assert_eq!(events.next().await.unwrap()["error"]["code"], -32_700);
    let post = || Ask::post(ping.to_string());
    // To everyone else the session does not exist.
    house.ask(post().to(&place).admin()).await.problem(404);
    for wrong in ["/messages", "/messages?session=", "/messages?session=x", "/messages?x=1", "/messages?Session=1"] {
        house.ask(post().to(wrong)).await.problem(404);
    }
    assert_eq!(house.ask(post().to(&place).with("content-type", "text/plain")).await.status, 415);
    house.ask(post().to(&place).with("origin", "https://evil.example")).await.problem(403);
    house.ask(Ask::get("/sse").with("host", "evil.example")).await.problem(403);
    house.ask(Ask::get("/sse/p/no-such")).await.problem(404);
    house.ask(Ask::get("/sse/x")).await.problem(404);
    let reply = house.ask(post().to("/sse")).await;
    assert_eq!((reply.status.as_u16(), &reply.headers["allow"]), (405, &"GET".parse().unwrap()));
    let reply = house.ask(Ask::get(&place)).await;
    assert_eq!((reply.status.as_u16(), &reply.headers["allow"]), (405, &"POST".parse().unwrap()));
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(5_000_000));
    house.ask(Ask::post(large).to(&place)).await.problem(413);
}
