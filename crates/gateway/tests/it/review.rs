//! Defects that a review found; each stays fixed.

use serde_json::{Value, json};
use toolcrib_protocol::{Raw, Revision, meta, task};
use toolcrib_session::Introduction;
use toolcrib_testgateway::{TestGateway, server, server_with, text_of};

fn asking(kind: &str, capabilities: &Value) -> Value {
    json!({
        "name": "alpha_ask",
        "arguments": {"kind": kind},
        "_meta": {meta::CLIENT_CAPABILITIES: capabilities},
    })
}

#[tokio::test]
async fn a_retry_that_declares_less_finds_its_call() {
    let house = TestGateway::settled(&[server("alpha", &["--asks"])]).await;
    let client = house.modern("default");
    let first = client.ask("tools/call", &asking("roots", &json!({"roots": {}}))).await.unwrap();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let answers = json!({"question-1": {"roots": [{"uri": "file:///here"}]}});
    let retry = |capabilities: &Value| {
        let mut retry = asking("roots", capabilities);
        retry["requestState"] = first["requestState"].clone();
        retry["inputResponses"] = answers.clone();
        retry
    };
    let calls = |records: &[toolcrib_store::AuditRecord]| {
        records.iter().filter(|record| &*record.target == "alpha/ask").count()
    };
    // It leads back to the call that waits, and brings it the answer.
    let again = client.ask("tools/call", &retry(&json!({}))).await.unwrap();
    assert!(text_of(&again).contains("file:///here"), "{again}");
    let last = client.ask("tools/call", &retry(&json!({"roots": {}}))).await.unwrap();
    assert_eq!(text_of(&last), text_of(&again), "it ran once");
    assert_eq!(calls(&house.audited().await), 3, "each request is on record");
}

#[tokio::test]
async fn calls_that_were_answered_do_not_keep_others_out() {
    let house = TestGateway::settled(&[server("alpha", &["--asks"])]).await;
    let client = house.modern("default");
    for _ in 0..70 {
        let mut call = asking("roots", &json!({"roots": {}}));
        let first = client.ask("tools/call", &call).await.unwrap();
        assert_eq!(first["resultType"], "input_required", "{first}");
        call["requestState"] = first["requestState"].clone();
        call["inputResponses"] = json!({"question-1": {"roots": [{"uri": "file:///here"}]}});
        let result = client.ask("tools/call", &call).await.unwrap();
        assert!(text_of(&result).contains("file:///here"), "{result}");
    }
}

#[tokio::test]
async fn a_client_cannot_choose_how_many_processes_there_are() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern_of("somebody", "default");
    let mut pids = std::collections::BTreeSet::new();
    for number in 0..5 {
        let name = format!("x/{number}");
        let meta = json!({meta::CLIENT_CAPABILITIES: {"extensions": {name: {}}}});
        let result = client.ask("tools/call", &json!({"name": "alpha_pid", "arguments": {}, "_meta": meta})).await;
        pids.insert(text_of(&result.unwrap()));
    }
    assert_eq!((pids.len(), house.server("alpha").extra_connections()), (1, 1));
}

#[tokio::test]
async fn connections_for_one_call_end_with_it() {
    let house = TestGateway::settled(&[server_with("alpha", &[], "session: request\n")]).await;
    let client = house.modern("default");
    for _ in 0..70 {
        let result = client.call("alpha_echo", &json!({"text": "x"})).await;
        assert_eq!(text_of(&result), "x");
    }
}

#[tokio::test]
async fn what_is_between_us_and_the_server_is_not_the_client_s_to_fix() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for code in [-32_020, -32_022] {
        let error = house.modern("default").refused("alpha_rpc_error", &json!({"code": code})).await;
        assert_eq!(error.code, -32_603, "{code}");
    }
}

#[tokio::test]
async fn a_modern_server_is_told_of_tasks_by_modern_clients_only() {
    let files = [server("alpha", &["--modern-only", "--tasks"])];
    let house = TestGateway::settled(&files).await;
    let mut client = house.legacy("default");
    let introduction = Introduction {
        revision: Revision::LATEST_LEGACY,
        capabilities: Raw::from_value(&json!({"extensions": {task::EXTENSION: {}}})),
        client_info: None,
        address: None,
    };
    let principal = client.caller.principal.clone();
    let profile = client.caller.profile.clone();
    client.caller.session = Some(house.gateway.sessions.open(principal, profile, introduction).unwrap());
    let result = client.call("alpha_job", &json!({"mode": "done"})).await;
    assert!(!text_of(&result).contains("type \"task\""), "{result}");
}
