//! A server that speaks both eras in front of clients of both: each is asked in the way of its own era, at the same time.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_testgateway::{File, TestGateway, profile};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::wire::{Wire, declared, outcome, over_http_with, over_stdio_with};

/// What can be asked, and what a client answers.
fn questions() -> [(&'static str, Value, Value); 3] {
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let message = json!({"role": "user", "content": {"type": "text", "text": "?"}});
    let answer = json!({"role": "assistant", "content": {"type": "text", "text": "!"}, "model": "m"});
    [
        ("elicitation/create", form, json!({"action": "accept", "content": {}})),
        ("sampling/createMessage", json!({"messages": [message], "maxTokens": 9}), answer),
        ("roots/list", json!({}), json!({"roots": [{"uri": "file:///home/me"}]})),
    ]
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

/// Asks each client in the way of the era in which it is called, and says which that was.
fn asking(speaks: Speaks) -> Arc<ScriptedServer> {
    Arc::new(ScriptedServer::start(speaks, |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"ask"}]}"#),
        "tools/call" => {
            let params = heard.value();
            let number = usize::try_from(params["arguments"]["question"].as_u64().unwrap()).unwrap();
            let (method, question, _) = &questions()[number];
            let answered = |era: &str, answer: &Value| {
                let text = json!({"era": era, "answer": answer}).to_string();
                json!({"content": [{"type": "text", "text": text}]}).to_string()
            };
            if params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() {
                let asked = say.ask(method, &question.to_string());
                let answer: Value = serde_json::from_str(&say.wait_for_answer(&asked)).unwrap();
                return say.result(&answered("legacy", &answer));
            }
            if let Some(answer) = params["inputResponses"].get("key") {
                return say.result(&answered("modern", answer));
            }
            let asked = json!({"method": method, "params": question});
            let required =
                json!({"resultType": "input_required", "inputRequests": {"key": asked}, "requestState": "s"});
            say.result(&required.to_string());
        }
        _ => {}
    }))
}

fn files(server: &ScriptedServer, stdio: bool, more: &str) -> [File; 2] {
    let over = if stdio { over_stdio_with } else { over_http_with };
    [over("alpha", server, more), profile("default", "exposure: direct\nprefix: none")]
}

/// Makes one call and answers what it asks; gives the era in which the server was called.
async fn call(wire: &mut Wire, question: usize) -> String {
    let (asked, _, answer) = &questions()[question];
    let mut params = json!({"name": "ask", "arguments": {"question": question}});
    if wire.speaks == Speaks::Modern {
        params["_meta"] = declared(&capabilities());
    }
    let mut id = wire.begin("tools/call", &params.to_string()).await;
    loop {
        let message = wire.next().await;
        let Some(result) = outcome(&message, id) else {
            let question: Value = serde_json::from_str(&message).unwrap();
            assert_eq!(question["method"], *asked, "{message}");
            assert_eq!(wire.speaks, Speaks::Legacy, "a modern client is never sent a request");
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
            wire.say(&answer.to_string()).await;
            continue;
        };
        let result: Value = serde_json::from_str(&result).unwrap();
        if result["resultType"] == "input_required" {
            assert_eq!(wire.speaks, Speaks::Modern, "{result}");
            let keys: Vec<&String> = result["inputRequests"].as_object().unwrap().keys().collect();
            params["inputResponses"] = keys.iter().map(|key| ((*key).clone(), answer.clone())).collect();
            params["requestState"] = result["requestState"].clone();
            id = wire.begin("tools/call", &params.to_string()).await;
            continue;
        }
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        let told: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(told["answer"], *answer);
        return told["era"].as_str().unwrap().to_owned();
    }
}

#[tokio::test]
async fn each_client_is_asked_in_its_own_era_whatever_the_session_policy() {
    for stdio in [true, false] {
        for session in ["shared", "principal", "handle", "request"] {
            let server = asking(Speaks::Both);
            let house = TestGateway::settled(&files(&server, stdio, &format!("session: {session}\n"))).await;
            let mut legacy = Wire::open(&house, "default", Speaks::Legacy, &capabilities()).await;
            let mut modern = Wire::open(&house, "default", Speaks::Modern, &json!({})).await;
            for question in 0..questions().len() {
                let eras = tokio::join!(call(&mut legacy, question), call(&mut modern, question));
                assert_eq!((&*eras.0, &*eras.1), ("legacy", "modern"), "{stdio} {session} {question}");
            }
            let opened = server.heard_of("initialize").len();
            assert_eq!(opened, if session == "request" { 3 } else { 1 }, "{stdio} {session}");
        }
    }
}

#[tokio::test]
async fn a_client_that_can_be_asked_nothing_is_served_in_its_own_era_too() {
    for stdio in [true, false] {
        let server = Arc::new(ScriptedServer::start(Speaks::Both, |heard, say| match heard.method.as_str() {
            "tools/list" => say.result(r#"{"tools":[{"name":"era"}]}"#),
            "tools/call" => {
                let modern = heard.params.contains("io.modelcontextprotocol/protocolVersion");
                let era = if modern { "modern" } else { "legacy" };
                say.result(&json!({"content": [{"type": "text", "text": era}]}).to_string());
            }
            _ => {}
        }));
        let house = TestGateway::settled(&files(&server, stdio, "")).await;
        let mut legacy = Wire::open(&house, "default", Speaks::Legacy, &json!({})).await;
        let (answer, _) = legacy.ask("tools/call", r#"{"name":"era"}"#).await;
        assert_eq!(answer, r#"{"content":[{"type":"text","text":"legacy"}]}"#, "untouched between two of one era");
        let mut modern = Wire::open(&house, "default", Speaks::Modern, &json!({})).await;
        let params = json!({"name": "era", "_meta": declared(&json!({}))});
        let (answer, _) = modern.ask("tools/call", &params.to_string()).await;
        assert!(answer.contains("modern"), "{answer}");
    }
}

#[tokio::test]
async fn a_definition_may_choose_one_era_and_the_other_clients_are_bridged() {
    for stdio in [true, false] {
        for era in ["legacy", "modern"] {
            let server = asking(Speaks::Both);
            let house = TestGateway::settled(&files(&server, stdio, &format!("era: {era}\n"))).await;
            for speaks in [Speaks::Legacy, Speaks::Modern] {
                let mut wire = Wire::open(&house, "default", speaks, &capabilities()).await;
                for question in 0..questions().len() {
                    assert_eq!(call(&mut wire, question).await, era, "{stdio} {speaks:?} {question}");
                }
            }
            let other = if era == "legacy" { "server/discover" } else { "initialize" };
            assert!(server.heard_of(other).is_empty(), "{era}: nothing of the other era is sent");
        }
    }
}

#[tokio::test]
async fn a_change_of_a_list_that_both_connections_tell_is_told_once() {
    let server = Arc::new(ScriptedServer::start(Speaks::Both, |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"change"}]}"#),
        "subscriptions/listen" => {
            let id = heard.id.clone().unwrap();
            let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
            let granted = r#""notifications":{"toolsListChanged":true}"#;
            say.notify("notifications/subscriptions/acknowledged", &format!("{{{granted},{meta}}}"));
            say.wait_for_release(1);
            say.notify("notifications/tools/list_changed", &format!("{{{meta}}}"));
            say.wait_for_release(2);
            say.nothing();
        }
        "tools/call" => {
            say.notify("notifications/tools/list_changed", "{}");
            say.result(r#"{"content":[]}"#);
        }
        _ => {}
    }));
    let house = TestGateway::settled(&files(&server, true, "")).await;
    let mut legacy = Wire::open(&house, "default", Speaks::Legacy, &json!({})).await;
    let lists = server.heard_of("tools/list").len();
    server.release();
    legacy.ask("tools/call", r#"{"name":"change"}"#).await;
    crate::wire::heard(&server, "another list", move |heard| {
        heard.iter().filter(|heard| heard.method == "tools/list").count() > lists
    })
    .await;
    let (_, told) = legacy.ask("ping", "{}").await;
    assert!(told.is_empty(), "nothing has changed after all: {told:?}");
    server.release();
}
