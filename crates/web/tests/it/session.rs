//! Sessions of legacy clients, from their beginning to their end.

use http::Method;
use serde_json::json;
use toolcrib_testgateway::profile;

use crate::served::{Ask, IDLE, ServedGateway, stopped};

fn ping(session: &str) -> Ask {
    Ask::legacy(session, "ping", &json!({}))
}

fn delete(session: &str) -> Ask {
    Ask::new(Method::DELETE, "/mcp", "").header("mcp-session-id", session)
}

#[tokio::test]
async fn a_session_ends_by_delete_and_then_does_not_exist() {
    let house = ServedGateway::settled(&[]).await;
    let (one, two) = (house.session().await, house.session().await);
    assert!(one.len() >= 32 && one != two);
    house.ask(ping(&one)).await.result();
    assert_eq!(house.ask(delete(&one)).await.status, 204);
    for ask in [ping(&one), Ask::get("/mcp").header("mcp-session-id", &one), delete(&one)] {
        let answer = house.ask(ask).await.error(404, -32_602);
        assert!(answer["error"]["message"].as_str().unwrap().contains("initialize"), "{answer}");
    }
    assert_eq!(house.ask(ping(&one)).await.json()["id"], 1, "the error carries the id of its request");
    house.ask(ping(&two)).await.result();
}

#[tokio::test]
async fn a_session_of_another_profile_does_not_exist() {
    let house = ServedGateway::settled(&[profile("work", ""), stopped("alpha", &["one"])]).await;
    let (home, work) = (house.session().await, house.session_of("/mcp/p/work", "2025-11-25").await);
    house.ask(ping(&work).to("/mcp/p/work")).await.result();
    house.ask(ping(&work)).await.error(404, -32_602);
    house.ask(ping(&home).to("/mcp/p/work")).await.error(404, -32_602);
    house.ask(delete(&home).to("/mcp/p/work")).await.error(404, -32_602);
    house.ask(ping(&home).to("/mcp/p/default")).await.result();
    house.ask(ping(&home).to("/mcp/")).await.result();
}

#[tokio::test]
async fn an_idle_session_ends_and_a_used_one_does_not() {
    let house = ServedGateway::settled(&[]).await;
    let (idle, used, listening) = (house.session().await, house.session().await, house.session().await);
    let stream = house.events(Ask::get("/mcp").header("mcp-session-id", &listening)).await;
    let most = i64::try_from(IDLE.as_millis()).unwrap();
    house.time.advance(most - 1);
    house.ask(ping(&used)).await.result();
    house.time.advance(2);
    house.gateway.sessions.close_idle();
    house.ask(ping(&idle)).await.error(404, -32_602);
    house.ask(ping(&used)).await.result();
    house.ask(ping(&listening)).await.result();
    stream.hang_up().await;
}

#[tokio::test]
async fn each_revision_is_agreed_on_and_an_unknown_one_gets_the_newest_legacy_one() {
    let house = ServedGateway::settled(&[]).await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        house.session_of("/mcp", revision).await;
    }
    for (asked, expect) in [("2099-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("x", "2025-11-25")] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": asked}});
        let reply = house.ask(Ask::post(body.to_string())).await;
        let result = reply.result();
        assert_eq!(result["protocolVersion"], expect, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "toolcrib");
        assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    }
}

#[tokio::test]
async fn an_initialize_without_its_revision_opens_nothing() {
    let house = ServedGateway::settled(&[]).await;
    for params in [json!({}), json!({"protocolVersion": 7}), json!({"protocolVersion": null})] {
        let body = json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params});
        let reply = house.ask(Ask::post(body.to_string())).await;
        assert_eq!(reply.error(400, -32_602)["id"], "a");
        assert!(!reply.headers.contains_key("mcp-session-id"));
    }
    assert_eq!(house.gateway.sessions.count(), 0);
}

#[tokio::test]
async fn an_initialize_with_modern_headers_is_still_an_initialize() {
    let house = ServedGateway::settled(&[]).await;
    let mut ask = Ask::modern("initialize", json!({"protocolVersion": "2025-11-25"}));
    ask = ask.header("mcp-session-id", "old");
    let reply = house.ask(ask).await;
    reply.result();
    assert!(reply.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn notifications_and_answers_are_accepted_without_a_body() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session().await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let answer = json!({"jsonrpc": "2.0", "id": 5, "result": {}}).to_string();
    for body in [&notification, &answer] {
        let reply = house.ask(Ask::post(body.clone()).header("mcp-session-id", &session)).await;
        assert_eq!((reply.status.as_u16(), reply.body.len()), (202, 0));
    }
    let modern = Ask::post(notification.clone()).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(house.ask(modern).await.status, 202);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let params = json!({"requestId": 1, "_meta": meta});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string();
    assert_eq!(house.ask(Ask::post(cancelled)).await.status, 202, "it means nothing over HTTP");
    house.ask(Ask::post(notification.clone()).header("mcp-session-id", "no-such")).await.error(404, -32_602);
    house.ask(Ask::post(notification)).await.error(400, -32_600);
}

#[tokio::test]
async fn sessions_in_use_are_bounded() {
    let house = ServedGateway::settled(&[]).await;
    let mut streams = Vec::new();
    // Three quarters of the hundred: the rest is for other clients.
    for _ in 0..75 {
        let session = house.session().await;
        let news = Ask::get("/mcp").with("accept", "text/event-stream").header("mcp-session-id", &session);
        streams.push(house.events(news).await);
    }
    let params = json!({"protocolVersion": "2025-11-25"});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = house.ask(Ask::post(body.to_string())).await.error(400, -31_007);
    assert!(answer["error"]["message"].as_str().unwrap().contains("75 sessions"), "{answer}");
    house.ask(Ask::post(body.to_string()).admin()).await.result();
    house.ask(Ask::modern("tools/list", json!({}))).await.result();
}
