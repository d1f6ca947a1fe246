//! The end of the doors: nothing that is idle holds it up.

use serde_json::json;
use toolcrib_testgateway::server;

use crate::served::{Ask, ServedGateway};

#[tokio::test]
async fn idle_streams_end_with_the_doors() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session().await;
    let news = Ask::get("/mcp").header("mcp-session-id", &session).with("accept", "text/event-stream");
    let mut streams = vec![
        house.events(news).await,
        house.events(Ask::get("/sse")).await,
        house.events(Ask::get("/api/v1/events").admin()).await,
    ];
    let read = async {
        for stream in &mut streams {
            while stream.event().await.is_some() {}
        }
    };
    let (ended, ()) = tokio::join!(house.end(), read);
    assert!(ended, "something had to be cut off");
}

#[tokio::test]
async fn a_request_that_runs_is_answered_before_the_doors_end() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    let mut events = house.events(Ask::get("/sse")).await;
    let place = String::from_utf8(events.event().await.unwrap().data.to_vec()).unwrap();
    let say = async |message: serde_json::Value| house.ask(Ask::post(message.to_string()).to(&place)).await;
    let shake = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    say(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": shake})).await;
    assert_eq!(events.next().await.unwrap()["id"], 1);
    let call = json!({"name": "alpha_progress", "arguments": {"steps": 1}, "_meta": {"progressToken": "t"}});
    say(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})).await;
    assert_eq!(events.next().await.unwrap()["params"]["progress"], 1);
    let ended = house.end();
    let answered = async {
        let mut last = None;
        while let Some(message) = events.next().await {
            last = Some(message);
        }
        last
    };
    let (ended, last) = tokio::join!(ended, answered);
    assert!(ended, "something had to be cut off");
    assert_eq!(last.unwrap()["id"], 2, "the stream ends after the answer");
}
