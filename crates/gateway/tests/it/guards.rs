//! Guards against secrets in calls, for every door and both eras.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Secret;
use toolcrib_gateway::{KeepSecrets, KeptSecret};
use toolcrib_testgateway::{Client, Setup, TestGateway, audited, profile, server_with};

use crate::vault::Memory;

const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// Each way in which a client can have `echo` say a text.
fn doors(house: &TestGateway, text: &str) -> Vec<(Client, &'static str, Value)> {
    let direct = json!({ "text": text });
    let by_meta = json!({ "name": "alpha/echo", "arguments": direct });
    let by_muster = json!({ "name": "x_alpha_echo", "arguments": direct });
    let [modern, legacy] = house.both("default");
    vec![
        (modern.clone(), "alpha_echo", direct.clone()),
        (legacy.clone(), "alpha_echo", direct),
        (modern, "call_tool", by_meta.clone()),
        (legacy, "call_tool", by_meta),
        (house.modern("muster"), "call_tool", by_muster),
    ]
}

async fn house(guards: &str) -> TestGateway {
    let files = [server_with("alpha", &[], guards), profile("muster", "dialect: muster\n")];
    TestGateway::settled(&files).await
}

/// What guards found in the calls of `echo` so far.
async fn notes(house: &TestGateway) -> Vec<Option<String>> {
    let events = house.audited().await.into_iter().filter(|event| event.target == "alpha/echo");
    events.map(|event| event.guard).collect()
}

#[tokio::test]
async fn without_any_setting_secrets_are_on_record_and_nothing_is_changed() {
    let house = house("").await;
    for (client, name, arguments) in doors(&house, TOKEN) {
        let answer = client.call(name, &arguments).await;
        assert!(answer["isError"] != true && answer.to_string().contains(TOKEN), "{name}: {answer}");
    }
    let found = "arguments github-token 1 recorded; result github-token 1 recorded";
    assert_eq!(notes(&house).await, vec![Some(found.to_owned()); 5]);
    assert_eq!(house.modern("default").text("alpha_echo", &json!({"text": "innocent"})).await, "innocent");
    assert_eq!(notes(&house).await.last(), Some(&None));
}

#[tokio::test]
async fn secrets_in_results_reach_no_client_where_they_are_redacted() {
    let house = house("limits: {result_bytes: 200}\nguards: {secrets: {results: redact}}\n").await;
    for (client, name, arguments) in doors(&house, TOKEN) {
        let answer = client.call(name, &arguments).await.to_string();
        assert!(answer.contains("[redacted:github-token#1]") && !answer.contains(TOKEN), "{name}: {answer}");
    }
    let long = format!("{} {TOKEN} {TOKEN}", "x".repeat(1_000));
    for (client, name, arguments) in doors(&house, &long) {
        let cut = client.call(name, &arguments).await;
        let blocks = cut["content"].as_array().unwrap();
        let uri = blocks.iter().find_map(|block| block["uri"].as_str()).unwrap();
        let whole = client.ask("resources/read", &json!({ "uri": uri })).await.unwrap().to_string();
        assert!(whole.contains("github-token#2") && !whole.contains(TOKEN), "{name}: {whole}");
    }
    let found = "arguments github-token 1 recorded; result github-token 1 redacted";
    assert_eq!(notes(&house).await[0].as_deref(), Some(found));
}

#[tokio::test]
async fn secrets_in_arguments_reach_no_server_where_they_are_redacted_or_denied() {
    let redacting = house("guards: {secrets: {arguments: redact}}\n").await;
    for (client, name, arguments) in doors(&redacting, TOKEN) {
        let echoed = client.call(name, &arguments).await.to_string();
        assert!(echoed.contains("[redacted:github-token#1]") && !echoed.contains(TOKEN), "{name}: {echoed}");
    }
    let denying = house("guards: {secrets: {arguments: deny, results: off}}\n").await;
    for (client, name, arguments) in doors(&denying, TOKEN) {
        let refused = client.call(name, &arguments).await;
        let text = refused.to_string();
        assert!(refused["isError"] == true && text.contains("a secret is in it (`github-token`)"), "{name}: {text}");
        assert!(!text.contains(TOKEN), "{text}");
    }
    assert_eq!(notes(&denying).await, vec![Some("arguments github-token 1 denied".to_owned()); 5]);
    let outcomes = denying.audited().await.into_iter().filter(|event| event.outcome == "error:forbidden").count();
    assert_eq!(outcomes, 5);
    // Other settings hold at once, and the server runs on.
    let pid = denying.modern("default").text("alpha_pid", &json!({})).await;
    denying.apply(&[server_with("alpha", &[], "")]).await;
    assert_eq!(denying.modern("default").text("alpha_pid", &json!({})).await, pid);
    assert_eq!(denying.modern("default").text("alpha_echo", &json!({"text": TOKEN})).await, TOKEN);
}

#[tokio::test]
async fn the_stricter_of_server_and_profile_counts() {
    let strict = "guards: {secrets: {results: deny}}\n";
    let files = [
        server_with("alpha", &[], "guards: {secrets: {results: redact}}\n"),
        server_with("beta", &[], ""),
        profile("strict", strict),
        profile("mild", "guards: {secrets: {results: off}}\n"),
    ];
    let house = TestGateway::settled(&files).await;
    let text = json!({ "text": TOKEN });
    for (profile, tool, expected) in [
        ("strict", "alpha_echo", "the result of the call held back"),
        ("strict", "beta_echo", "the result of the call held back"),
        ("mild", "alpha_echo", "[redacted:github-token#1]"),
        ("mild", "beta_echo", TOKEN),
        ("default", "beta_echo", TOKEN),
    ] {
        let answer = house.modern(profile).call(tool, &text).await.to_string();
        assert!(answer.contains(expected), "{profile} {tool}: {answer}");
    }
}

#[tokio::test]
async fn values_of_the_vault_are_found_by_their_names_and_from_when_on_they_are_there() {
    let vault = Arc::new(Memory::default());
    let kept = |name: &str| KeptSecret { name: name.into(), servers: vec![], profiles: vec![], set_at: String::new() };
    vault.set(&kept("mail"), &Secret::new("correct horse battery")).unwrap();
    let setup = Setup { vault: Some(Arc::clone(&vault) as Arc<dyn KeepSecrets>), ..Setup::default() };
    let house = TestGateway::open(&[server_with("alpha", &[], "guards: {secrets: {results: redact}}\n")], setup);
    house.settle().await;
    let client = house.modern("default");
    for (text, expected) in [
        ("it is correct horse battery", "it is [redacted:vault:mail#1]"),
        ("Y29ycmVjdCBob3JzZSBiYXR0ZXJ5", "[redacted:vault:mail#1]"),
        ("another-value-1", "another-value-1"),
    ] {
        let echoed = client.text("alpha_echo", &json!({ "text": text })).await;
        assert!(echoed.starts_with(expected), "{echoed}");
    }
    vault.set(&kept("other"), &Secret::new("another-value-1")).unwrap();
    let gateway = Arc::clone(&house.gateway);
    tokio::task::spawn_blocking(move || gateway.renew_secrets()).await.unwrap();
    let echoed = client.text("alpha_echo", &json!({"text": "another-value-1"})).await;
    assert_eq!(echoed, "[redacted:vault:other#1]");
}

#[tokio::test]
async fn values_at_pointers_are_stored_nowhere_and_go_on() {
    let guards = "guards: {redact: {arguments: [/text]}}\n";
    let setup = Setup { keep_arguments: true, ..Setup::default() };
    let store = setup.store.clone();
    let house = TestGateway::open(&[server_with("alpha", &[], guards)], setup);
    house.settle().await;
    let client = house.modern("default");
    assert_eq!(client.text("alpha_echo", &json!({"text": "my pin"})).await, "my pin");
    assert!(client.text("alpha_counter", &json!({"note": TOKEN})).await.len() < 10);
    let stored: Vec<_> = audited(&store).await.into_iter().filter_map(|event| event.arguments).collect();
    assert_eq!(stored, [r#"{"text":"[redacted]"}"#, r#"{"note":"[redacted:github-token#1]"}"#]);
}
