//! One client that takes what it can get, and the others, who are served anyway.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_base::Limits;
use toolcrib_testkit::eventually;

use crate::served::{Ask, ServedGateway};

const KIBI: usize = 1024;

/// Sends the head of a request of `length` bytes and so many of them.
async fn hold(house: &ServedGateway, length: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
        house.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // One that is refused may close the connection before all is written.
    let _ = stream.write_all(&vec![b' '; sent]).await;
    stream
}

fn list() -> Ask {
    Ask::modern("tools/list", json!({}))
}

#[tokio::test]
async fn held_bodies_take_no_more_than_their_budget_and_leave_room() {
    let limits = Limits { request_bytes: 400 * KIBI, bodies_bytes: 1_000 * KIBI, ..Limits::default() };
    let house = ServedGateway::open(&[], limits).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(hold(&house, 400 * KIBI, 399 * KIBI).await);
    }
    // The first has nearly all of the client's share.
    let mut answer = [0; 4_096];
    let length = eventually("a refusal", held[1].read(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
    assert!(answer.contains("bodies_bytes"), "{answer}");
    // Small requests of the same client go through, and large ones of the administrator.
    house.ask(list()).await.result();
    let large = json!({"_meta": {"padding": "x".repeat(300 * KIBI)}});
    house.ask(Ask::modern("tools/list", large.clone()).admin()).await.result();
    drop(held);
    // The connections end a moment later; until then their bodies count.
    eventually("room", async { while house.ask(Ask::modern("tools/list", large.clone())).await.status != 200 {} })
        .await;
}

#[tokio::test]
async fn bodies_without_a_length_count_as_they_grow() {
    let limits = Limits { request_bytes: 400 * KIBI, bodies_bytes: 200 * KIBI, ..Limits::default() };
    let house = ServedGateway::open(&[], limits).await;
    let large = json!({"_meta": {"padding": "x".repeat(300 * KIBI)}});
    let ask = Ask::modern("tools/list", large).header("transfer-encoding", "chunked");
    let reply = house.try_ask(ask).await;
    // The refusal may overtake what is still being sent.
    if let Ok(reply) = reply {
        assert_eq!(reply.problem(503)["code"], "busy");
    }
    house.ask(list()).await.result();
}

#[tokio::test]
async fn a_flood_of_sessions_ends_none_that_is_used() {
    let house = ServedGateway::settled(&[]).await;
    let used = house.session().await;
    let alive = async || house.ask(Ask::legacy(&used, "tools/list", &json!({}))).await;
    alive().await.result();
    for _ in 0..300 {
        house.session().await;
    }
    alive().await.result();
    assert!(house.gateway.sessions.count() <= 100);
    let shake = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let shake = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": shake}).to_string();
    house.ask(Ask::post(shake).admin()).await.result();
}

#[tokio::test]
async fn a_flood_of_streams_ends_its_own() {
    let house = ServedGateway::open(&[], Limits { sessions: 8, ..Limits::default() }).await;
    let mut used = house.events(Ask::get("/sse")).await;
    let place = String::from_utf8(used.event().await.unwrap().data.to_vec()).unwrap();
    let shake = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    let shake = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": shake}).to_string();
    assert_eq!(house.ask(Ask::post(shake).to(&place)).await.status, 202);
    assert_eq!(used.next().await.unwrap()["id"], 1);
    let mut flood = Vec::new();
    for _ in 0..20 {
        flood.push(house.events(Ask::get("/sse")).await);
    }
    let mut first = flood.remove(0);
    assert!(first.event().await.is_some(), "it says where to post");
    assert!(first.event().await.is_none(), "and makes room for others");
    // The one that is used continues, and the administrator gets in.
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
    assert_eq!(house.ask(Ask::post(ping).to(&place)).await.status, 202);
    assert_eq!(used.next().await.unwrap()["id"], 2);
    house.events(Ask::get("/sse").admin()).await;
}
