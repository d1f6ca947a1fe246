//! A client on a connection of its own, as over stdio, with queues in place of the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::ProfileName;
use toolcrib_gateway::duplex::{Duplex, OUT, Terms};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Raw, RequestTrace};
use toolcrib_session::{Principal, QuestionError, Session};
use toolcrib_testgateway::{TestGateway, server};
use toolcrib_testkit::{DEADLINE, eventually};

struct Line {
    duplex: Arc<Duplex>,
    heard: mpsc::Receiver<Bytes>,
}

impl Line {
    fn new(house: &TestGateway, takes_modern: bool) -> Self {
        let (out, heard) = mpsc::channel(OUT);
        let principal = Principal::member("local");
        let snapshot = house.gateway.snapshot(&ProfileName::new("default").unwrap()).unwrap();
        let rules = Rules::strict(64);
        let terms = Terms { principal, snapshot, is_owner: false, rules, takes_modern };
        Self { duplex: Arc::new(Duplex::new(Arc::clone(&house.gateway), terms, out)), heard }
    }

    async fn say(&self, message: &Value) {
        eventually("room", self.duplex.take(&message.to_string().into(), RequestTrace::default())).await;
    }

    async fn next(&mut self) -> Value {
        serde_json::from_slice(&eventually("a message", self.heard.recv()).await.unwrap()).unwrap()
    }

    async fn initialize(&mut self, revision: &str) {
        let params = json!({"protocolVersion": revision, "capabilities": {}});
        self.say(&request(0, "initialize", &params)).await;
        assert_eq!(self.next().await["result"]["protocolVersion"], revision);
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request(id, method, &params)
}

fn endless() -> Value {
    json!({"name": "alpha_progress", "arguments": {"steps": 100_000, "ms": 5}, "_meta": {"progressToken": 1}})
}

fn only(house: &TestGateway) -> Arc<Session> {
    house.gateway.sessions.of_profile(&ProfileName::new("default").unwrap()).pop().unwrap()
}

#[tokio::test]
async fn both_eras_are_served_on_one_connection() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let mut line = Line::new(&house, true);
    line.say(&request(1, "tools/list", &json!({}))).await;
    assert_eq!(line.next().await["error"]["code"], -32_600, "nothing before `initialize`");
    line.say(&modern(2, "tools/list", json!({}))).await;
    assert_eq!(line.next().await["result"]["resultType"], "complete");
    line.initialize("2025-11-25").await;
    line.say(&request(3, "tools/list", &json!({}))).await;
    assert_eq!(line.next().await["id"], 3);
    line.initialize("2025-06-18").await;
    assert_eq!(house.gateway.sessions.count(), 1, "another `initialize` ends the session before");
    drop(line);
    assert_eq!(house.gateway.sessions.count(), 0);
}

#[tokio::test]
async fn requests_of_both_eras_are_cancelled_by_a_notification() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let mut line = Line::new(&house, true);
    line.initialize("2025-11-25").await;
    for call in [modern(7, "tools/call", endless()), request(7, "tools/call", &endless())] {
        line.say(&call).await;
        assert_eq!(line.next().await["method"], "notifications/progress");
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        line.say(&cancelled).await;
        line.say(&request(8, "ping", &json!({}))).await;
        while line.next().await["id"] != 8 {}
    }
    let other = house.legacy("default");
    let seen = async {
        loop {
            let text = other.text("alpha_cancelled", &json!({})).await;
            if serde_json::from_str::<Vec<Value>>(&text).unwrap().len() == 2 {
                return;
            }
        }
    };
    eventually("two cancellations at the server", seen).await;
}

#[tokio::test]
async fn a_question_is_answered_on_the_same_connection() {
    let house = TestGateway::settled(&[]).await;
    let mut line = Line::new(&house, true);
    line.initialize("2025-03-26").await;
    for batch in [false, true] {
        let session = only(&house);
        let asking = session.ask(None, "roots/list", Raw::empty_object(), DEADLINE);
        let answering = async {
            let question = line.next().await;
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
            line.say(&if batch { json!([answer]) } else { answer }).await;
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer.unwrap().unwrap().as_str(), r#"{"roots":[]}"#);
    }
}

#[tokio::test]
async fn a_batch_is_answered_by_one_array_in_its_order() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let mut line = Line::new(&house, true);
    line.initialize("2025-03-26").await;
    let slow = json!({"name": "alpha_progress", "arguments": {"steps": 1}});
    let messages = json!([
        request(1, "tools/call", &slow), {"jsonrpc": "2.0", "method": "notifications/initialized"}, 7,
        request(2, "ping", &json!({})), request(3, "initialize", &json!({})),
    ]);
    line.say(&messages).await;
    let answers = line.next().await;
    let short: Vec<_> =
        answers.as_array().unwrap().iter().map(|it| (&it["id"], it["error"]["code"].as_i64())).collect();
    let (one, two, three) = (json!(1), json!(2), json!(3));
    assert_eq!(short, [(&one, None), (&Value::Null, Some(-32_600)), (&two, None), (&three, Some(-32_601))]);
    line.say(&json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    line.say(&json!(vec![request(1, "ping", &json!({})); 51])).await;
    assert_eq!(line.next().await["error"]["data"]["kind"], "too-large");
    line.say(&json!([])).await;
    assert_eq!(line.next().await["error"]["code"], -32_600);
    line.initialize("2025-11-25").await;
    line.say(&json!([request(1, "ping", &json!({}))])).await;
    assert_eq!(line.next().await["error"]["code"], -32_600, "only that revision has batches");
}

#[tokio::test]
async fn where_only_sessions_are_spoken_a_modern_request_is_shown_the_way() {
    let house = TestGateway::settled(&[]).await;
    let mut line = Line::new(&house, false);
    line.say(&modern(1, "tools/list", json!({}))).await;
    let refused = line.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32_600)));
    assert!(refused["error"]["message"].as_str().unwrap().contains("/mcp"), "{refused}");
}

#[tokio::test]
async fn the_last_answers_still_come_and_questions_are_waited_for_no_more() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let mut line = Line::new(&house, true);
    line.initialize("2025-11-25").await;
    let session = only(&house);
    let call = json!({"name": "alpha_progress", "arguments": {"steps": 50, "ms": 1}});
    line.say(&request(1, "tools/call", &call)).await;
    let Line { duplex, mut heard } = line;
    let asking = session.ask(None, "roots/list", Raw::empty_object(), DEADLINE);
    let closing = async {
        let question: Value = serde_json::from_slice(&eventually("a question", heard.recv()).await.unwrap()).unwrap();
        assert_eq!(question["method"], "roots/list");
        Arc::into_inner(duplex).unwrap().close(Duration::from_secs(30)).await;
    };
    let (asked, ()) = tokio::join!(asking, closing);
    assert_eq!(asked, Err(QuestionError::Gone));
    let answer: Value = serde_json::from_slice(&heard.recv().await.unwrap()).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "50 steps");
    assert!(heard.recv().await.is_none());
    assert!(session.is_closed());
}

#[tokio::test]
async fn a_flood_of_requests_is_refused_and_harms_no_one_else() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let mut line = Line::new(&house, true);
    line.initialize("2025-11-25").await;
    let hang = json!({"name": "alpha_progress", "arguments": {"steps": 100_000, "ms": 5}});
    for id in 0..257 {
        line.say(&request(id, "tools/call", &hang)).await;
    }
    let refused = line.next().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["kind"]), (&json!(256), &json!("busy")));
    assert_eq!(house.modern("default").listed().await.len(), 3);
}
