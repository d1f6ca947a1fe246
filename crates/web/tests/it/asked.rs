//! A legacy client and a legacy server that asks, over a real connection.

use serde_json::{Value, json};
use toolcrib_testgateway::profile;
use toolcrib_testkit::script::ScriptedServer;

use crate::script::{asking, count, scripted, session};
use crate::served::{Ask, Events, ServedGateway};

async fn ground(stdio: bool) -> (std::sync::Arc<ScriptedServer>, ServedGateway) {
    let server = asking();
    let files = [scripted("alpha", &server, stdio), profile("default", "prefix: none")];
    let house = ServedGateway::settled(&files).await;
    (server, house)
}

fn call(session: &str, tool: &str) -> Ask {
    Ask::legacy(session, "tools/call", &json!({"name": tool, "arguments": {}}))
}

fn answer(session: &str, id: &Value, name: &str) -> Ask {
    let result = json!({"action": "accept", "content": {"name": name}});
    Ask::post(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).header("mcp-session-id", session)
}

/// The last message of a stream.
async fn last(events: &mut Events) -> Value {
    let mut last = Value::Null;
    while let Some(message) = events.next().await {
        last = message;
    }
    last
}

#[tokio::test]
async fn what_the_client_never_offered_is_refused_at_the_server() {
    for stdio in [false, true] {
        let (server, house) = ground(stdio).await;
        for (capabilities, tool, code) in [
            (json!({}), "ask", "-32601"),
            (json!({}), "sample", "-32601"),
            (json!({"roots": {}}), "ask", "-32601"),
            (json!({"elicitation": {"form": {}}}), "url", "-32602"),
        ] {
            let id = session(&house, &capabilities).await;
            let result = house.ask(call(&id, tool).with("accept", "application/json")).await.result();
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(code), "{capabilities} {tool}: {text}");
        }
        assert_eq!(count(&server, "tools/call"), 4);
    }
}

#[tokio::test]
async fn of_two_answers_to_one_question_the_first_counts() {
    for stdio in [false, true] {
        let (server, house) = ground(stdio).await;
        let id = session(&house, &json!({"elicitation": {}})).await;
        let mut events = house.events(call(&id, "ask")).await;
        let question = events.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create");
        for name in ["ann", "bob", "ann"] {
            assert_eq!(house.ask(answer(&id, &question["id"], name)).await.status, 202);
        }
        let text = last(&mut events).await["result"]["content"][0]["text"].to_string();
        assert!(text.contains("ann") && !text.contains("bob"), "{text}");
        assert_eq!(server.heard().iter().filter(|heard| heard.method.is_empty()).count(), 1);
    }
}

#[tokio::test]
async fn a_question_that_the_server_withdraws_is_taken_back_from_the_client() {
    for stdio in [false, true] {
        let (server, house) = ground(stdio).await;
        let id = session(&house, &json!({"elicitation": {}})).await;
        let mut events = house.events(call(&id, "withdraw")).await;
        let question = events.next().await.unwrap();
        server.release();
        let withdrawn = events.next().await.unwrap();
        assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
        assert_eq!(withdrawn["params"]["requestId"], question["id"]);
        assert_eq!(house.ask(answer(&id, &question["id"], "late")).await.status, 202);
        server.release();
        assert_eq!(last(&mut events).await["result"]["content"][0]["text"], "went on without it");
        assert_eq!(server.heard().iter().filter(|heard| heard.method.is_empty()).count(), 0);
    }
}
