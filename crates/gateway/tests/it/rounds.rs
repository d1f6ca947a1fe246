//! A modern server that asks by its results, in front of clients of both eras.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::wire::{Wire, declared, outcome, over};

/// A question and a state in the oddest spelling.
const ASKED: &str = r#"{"resultType":"input_required","inputRequests":{"k\u0065y":{"method":"elicitation/create","params":{ "message" : "\ud800" , "requestedSchema":{"type":"object","properties":{},"x":1.10},"n":9007199254740993}}},"requestState":"st\u0061te \ud800","x":{ "y" : 1e400 }}"#;
const ANSWER: &str = r#"{ "action" : "accept" , "content":{"n":9007199254740993,"t":"\ud800"},"x":1.10}"#;

async fn ground(stdio: bool, forever: bool) -> (Arc<ScriptedServer>, TestGateway) {
    let server = Arc::new(ScriptedServer::start(Speaks::Modern, move |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"ask"}],"resultType":"complete"}"#),
        "tools/call" if forever || !heard.params.contains("inputResponses") => say.result(ASKED),
        "tools/call" => say.result(r#"{"resultType":"complete","content":[]}"#),
        _ => {}
    }));
    let files = [over("alpha", &server, stdio), profile("default", "exposure: direct\nprefix: none")];
    let house = TestGateway::settled(&files).await;
    (server, house)
}

/// A legacy client calls and answers all that it is asked; gives the result and how often it was asked.
async fn call(wire: &mut Wire) -> (Value, usize) {
    let id = wire.begin("tools/call", r#"{"x":{ "y" : 1.10 },"name":"ask","arguments":{"z":1e400}}"#).await;
    let mut asked = 0;
    loop {
        let message = wire.next().await;
        if let Some(result) = outcome(&message, id) {
            return (serde_json::from_str(&result).unwrap(), asked);
        }
        asked += 1;
        assert!(message.contains(r#""params":{"message":"\ud800","requestedSchema":{"type":"object","properties":{},"x":1.10},"n":9007199254740993}"#), "{message}");
        let start = message.find(r#""id":"#).unwrap() + 5;
        let question = &message[start..start + message[start..].find(',').unwrap()];
        wire.say(&format!(r#"{{"jsonrpc":"2.0","id":{question},"result":{ANSWER}}}"#)).await;
    }
}

#[tokio::test]
async fn questions_states_and_answers_pass_between_modern_ends_as_they_are_written() {
    for stdio in [true, false] {
        let (server, house) = ground(stdio, false).await;
        let mut wire = Wire::open(&house, "default", Speaks::Modern, &json!({})).await;
        let meta = declared(&json!({"elicitation": {}}));
        let (answer, _) = wire.ask("tools/call", &format!(r#"{{"name":"ask","arguments":{{}},"_meta":{meta}}}"#)).await;
        let until = answer.find(r#","_meta""#).unwrap();
        assert_eq!(answer[..until], ASKED[..ASKED.len() - 1]);
        let rest =
            r#""inputResponses":{"k\u0065y":ANSWER},"requestState":"st\u0061te \ud800""#.replace("ANSWER", ANSWER);
        wire.ask("tools/call", &format!(r#"{{"name":"ask",{rest},"arguments":{{}},"_meta":{meta}}}"#)).await;
        let got = server.heard_of("tools/call").pop().unwrap().params;
        assert!(got.starts_with(&format!(r#"{{"name":"ask",{rest},"arguments":{{}}"#)), "{got}");
    }
}

#[tokio::test]
async fn a_legacy_client_is_asked_and_the_call_is_made_again_with_its_exact_answers() {
    for stdio in [true, false] {
        let (server, house) = ground(stdio, false).await;
        let mut wire = Wire::open(&house, "default", Speaks::Legacy, &json!({"elicitation": {}})).await;
        let (result, asked) = call(&mut wire).await;
        assert_eq!((result, asked), (json!({"content": []}), 1));
        let got = server.heard_of("tools/call").pop().unwrap().params;
        let answers = format!(r#""inputResponses":{{"key":{ANSWER}}},"requestState":"st\u0061te \ud800""#);
        assert!(got.contains(&answers) && got.contains(r#""x":{ "y" : 1.10 }"#) && got.contains("1e400"), "{got}");
    }
}

#[tokio::test]
async fn a_server_that_asks_forever_is_given_up() {
    let (server, house) = ground(true, true).await;
    let mut wire = Wire::open(&house, "default", Speaks::Legacy, &json!({"elicitation": {}})).await;
    let (result, asked) = call(&mut wire).await;
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("asked 16 times"), "{result}");
    assert_eq!((asked, server.heard_of("tools/call").len()), (16, 17), "the last answers are used too");
}

#[tokio::test]
async fn what_a_client_never_offered_it_is_not_asked() {
    let (_server, house) = ground(true, false).await;
    let mut wire = Wire::open(&house, "default", Speaks::Legacy, &json!({"roots": {}})).await;
    let (error, asked) = call(&mut wire).await;
    assert_eq!((&error["code"], asked), (&json!(-32_602), 0), "a code that a legacy client knows");
    assert!(error["message"].as_str().unwrap().contains("elicitation"), "{error}");
    let meta = declared(&json!({"roots": {}}));
    let mut wire = Wire::open(&house, "default", Speaks::Modern, &json!({})).await;
    let (answer, _) = wire.ask("tools/call", &format!(r#"{{"name":"ask","arguments":{{}},"_meta":{meta}}}"#)).await;
    let error: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(error["code"], -32_021);
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
}
