//! Questions to legacy clients: asked on a stream, answered by a POST.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_session::{QuestionError, Session};
use toolcrib_testgateway::server;
use toolcrib_testkit::eventually;

use crate::served::{Ask, ServedGateway};

const LONG: Duration = Duration::from_secs(60);

/// The only session of the house.
fn only(house: &ServedGateway) -> Arc<Session> {
    house.gateway.sessions.of_profile(&"default".parse().unwrap()).pop().unwrap()
}

fn post(session: &str, body: &Value) -> Ask {
    Ask::post(body.to_string()).header("mcp-session-id", session)
}

#[tokio::test]
async fn a_question_comes_on_the_stream_and_its_answer_by_a_post_of_the_same_principal() {
    let house = ServedGateway::settled(&[]).await;
    for (revision, batch) in [("2025-11-25", false), ("2025-03-26", true)] {
        let id = house.session_of("/mcp", revision).await;
        let session = house.gateway.sessions.of_profile(&"default".parse().unwrap());
        let session = session.into_iter().find(|it| it.revision.as_str() == revision).unwrap();
        let mut events = house.events(Ask::get("/mcp").header("mcp-session-id", &id)).await;
        let asking = session.ask(None, "roots/list", Raw::empty_object(), LONG);
        let answering = async {
            let question = events.next().await.unwrap();
            assert_eq!((&question["method"], &question["id"]), (&json!("roots/list"), &json!("toolcrib-1")));
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
            // Neither another principal nor another session answers in its place.
            house.ask(post(&id, &answer).admin()).await.error(404, -32_602);
            let other = house.session_of("/mcp", revision).await;
            assert_eq!(house.ask(post(&other, &answer)).await.status, 202);
            let wrong = json!({"jsonrpc": "2.0", "id": "toolcrib-2", "result": {}});
            assert_eq!(house.ask(post(&id, &wrong)).await.status, 202, "an answer to nothing is ignored");
            let answer = if batch { json!([answer]) } else { answer };
            for _ in 0..2 {
                let reply = house.ask(post(&id, &answer)).await;
                assert_eq!((reply.status.as_u16(), reply.body.len()), (202, 0));
            }
        };
        let (answer, ()) = eventually("an answer", async { tokio::join!(asking, answering) }).await;
        assert_eq!(answer.unwrap().unwrap().as_str(), r#"{"roots":[]}"#);
    }
}

#[tokio::test]
async fn a_client_that_listens_nowhere_is_not_asked() {
    let house = ServedGateway::settled(&[]).await;
    let id = house.session().await;
    let asked = only(&house).ask(None, "roots/list", Raw::empty_object(), LONG).await;
    assert_eq!(asked, Err(QuestionError::NoStream));
    let mut events = house.events(Ask::get("/mcp").header("mcp-session-id", &id)).await;
    let session = only(&house);
    let asking = session.ask(None, "roots/list", Raw::empty_object(), LONG);
    let ending = async {
        events.next().await.unwrap();
        house.ask(Ask::new(http::Method::DELETE, "/mcp", "").header("mcp-session-id", &id)).await;
        assert!(events.next().await.is_none());
    };
    let (asked, ()) = eventually("the end", async { tokio::join!(asking, ending) }).await;
    assert_eq!(asked, Err(QuestionError::Gone), "the end of the session is an answer");
}

#[tokio::test]
async fn what_a_client_says_of_itself_is_kept_within_bounds() {
    let house = ServedGateway::settled(&[]).await;
    let initialize = |capabilities: Value| {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "n"}});
        Ask::post(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string())
    };
    for (capabilities, kept) in [
        (json!({"roots": {}, "x/unknown": [1]}), json!({"roots": {}, "x/unknown": [1]})),
        (json!({"x": "y".repeat(20_000)}), json!({})),
        (json!(7), json!({})),
    ] {
        let reply = house.ask(initialize(capabilities)).await;
        reply.result();
        let session = only(&house);
        assert_eq!(session.capabilities.to_value(), kept);
        assert_eq!(session.client_info.as_ref().unwrap().as_str(), r#"{"name":"n"}"#);
        house.gateway.sessions.close(&session);
    }
}

#[tokio::test]
async fn a_server_s_question_comes_on_the_stream_of_the_call_and_is_answered_in_its_course() {
    let house = ServedGateway::settled(&[server("alpha", &["--asks"])]).await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let params = json!({"protocolVersion": revision, "capabilities": {"roots": {}}});
        let reply = house.ask(Ask::post(request(0, "initialize", &params).to_string())).await;
        let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let call = json!({"name": "alpha_ask", "arguments": {"kind": "roots"}});
        let mut events = house.events(post(&id, &request(1, "tools/call", &call))).await;
        let (question, event) = events.next_with_id().await.unwrap();
        assert_eq!(question["method"], "roots/list");
        // The connection breaks while the person thinks; the answer comes anyway.
        events.hang_up().await;
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///here"}]}});
        assert_eq!(house.ask(post(&id, &answer)).await.status, 202);
        let resume = Ask::get("/mcp").header("mcp-session-id", &id).header("last-event-id", &event.unwrap());
        let mut again = house.events(resume).await;
        let answer = again.next().await.unwrap();
        assert_eq!(answer["id"], 1, "{answer}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("file:///here"), "{answer}");
        assert!(again.next().await.is_none());
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
