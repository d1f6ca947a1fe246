//! Guards against secrets in calls, for every door and both eras.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Secret;
use toolcrib_gateway::{KeepSecrets, KeptSecret};
use toolcrib_testgateway::{Client, Setup, TestGateway, audited, profile, server_with};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::vault::Memory;
use crate::wire::{Wire, declared, outcome, over_http_with};

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

#[tokio::test]
async fn a_guard_of_a_tool_counts_for_this_tool_beside_that_of_its_server() {
    let guards = "guards: {secrets: {results: redact}, tools: {'ec*': {secrets: {arguments: deny}, \
                  redact: {arguments: [/text]}}, counter: {secrets: {results: off}}}}\n";
    let house = house(guards).await;
    for (client, name, arguments) in doors(&house, TOKEN) {
        let refused = client.call(name, &arguments).await;
        assert!(refused["isError"] == true && refused.to_string().contains("a secret is in it"), "{name}: {refused}");
    }
    assert_eq!(notes(&house).await, vec![Some("arguments github-token 1 denied".to_owned()); 5]);
    let other = house.modern("default").call("alpha_received", &json!({ "note": TOKEN })).await.to_string();
    assert!(other.contains("[redacted:github-token#1]") && !other.contains(TOKEN), "the server's own holds: {other}");
    let counted = house.gateway.metrics.render();
    for line in [
        r#"toolcrib_guard_hits_total{kind="github-token",action="denied"} 5"#,
        r#"toolcrib_guard_hits_total{kind="github-token",action="recorded"} 1"#,
        r#"toolcrib_guard_hits_total{kind="github-token",action="redacted"} 1"#,
    ] {
        assert!(counted.contains(line), "{line} is not in\n{counted}");
    }
}

/// A server that says a secret in its progress, and asks with one, by its era.
fn talkative(speaks: Speaks) -> Arc<ScriptedServer> {
    let form = format!(r#"{{"message":"is it {TOKEN}?","requestedSchema":{{"type":"object","properties":{{}}}}}}"#);
    let asks = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"q":{{"method":"elicitation/create","params":{form}}}}},"requestState":"{TOKEN}"}}"#
    );
    Arc::new(ScriptedServer::start(speaks, move |heard, say| match heard.method.as_str() {
        "tools/list" => {
            say.result(r#"{"tools":[{"name":"ask","inputSchema":{"type":"object"}}],"resultType":"complete"}"#);
        }
        "tools/call" if speaks == Speaks::Legacy => {
            if let Some(token) = heard.value()["_meta"].get("progressToken") {
                let said = format!(r#"{{"progressToken":{token},"progress":1,"message":"with {TOKEN}"}}"#);
                say.notify("notifications/progress", &said);
            }
            let asked = say.ask("elicitation/create", &form);
            let answer = say.wait_for_answer(&asked);
            say.result(&format!(r#"{{"content":[],"structuredContent":{{"heard":{answer}}}}}"#));
        }
        "tools/call" if heard.params.contains("inputResponses") => {
            let (answers, state) = (&heard.value()["inputResponses"], &heard.value()["requestState"]);
            assert_eq!(*state, TOKEN, "what a server gives out comes back to it");
            say.result(&format!(
                r#"{{"resultType":"complete","content":[],"structuredContent":{{"heard":{answers}}}}}"#
            ));
        }
        "tools/call" => say.result(&asks),
        _ => {}
    }))
}

/// The text of all that a client hears of a call that asks it once, and the result.
async fn talk(wire: &mut Wire) -> (String, Value) {
    let answer = format!(r#"{{"action":"accept","content":{{"key":"{TOKEN}"}}}}"#);
    let mut params = json!({"name": "alpha_ask", "arguments": {}, "_meta": {"progressToken": 1}});
    if wire.speaks == Speaks::Modern {
        let meta = declared(&json!({"elicitation": {}}));
        params["_meta"].as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    }
    let (mut id, mut heard) = (wire.begin("tools/call", &params.to_string()).await, String::new());
    loop {
        let message = wire.next().await;
        heard += &message;
        let Some(result) = outcome(&message, id) else {
            let asked: Value = serde_json::from_str(&message).unwrap();
            if asked["method"] == "elicitation/create" {
                let question = &asked["id"];
                wire.say(&format!(r#"{{"jsonrpc":"2.0","id":{question},"result":{answer}}}"#)).await;
            }
            continue;
        };
        let result: Value = serde_json::from_str(&result).unwrap();
        let Some(asked) = result["inputRequests"].as_object() else { return (heard, result) };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let answers = asked.keys().map(|key| (key.clone(), answer.clone())).collect::<serde_json::Map<_, _>>();
        (params["inputResponses"], params["requestState"]) = (answers.into(), result["requestState"].clone());
        id = wire.begin("tools/call", &params.to_string()).await;
    }
}

#[tokio::test]
async fn questions_answers_and_progress_are_looked_at_in_every_era() {
    for server_speaks in [Speaks::Legacy, Speaks::Modern] {
        for client_speaks in [Speaks::Legacy, Speaks::Modern] {
            let case = format!("{client_speaks:?} client, {server_speaks:?} server");
            for (guards, in_question, in_answer) in [
                ("", true, true),
                ("guards: {secrets: {results: redact}}\n", false, false),
                ("guards: {tools: {ask: {secrets: {arguments: redact}}}}\n", true, false),
            ] {
                let server = talkative(server_speaks);
                let house = TestGateway::settled(&[over_http_with("alpha", &server, guards)]).await;
                let mut wire = Wire::open(&house, "default", client_speaks, &json!({"elicitation": {}})).await;
                let (heard, result) = talk(&mut wire).await;
                let asked = heard.contains(&format!("is it {TOKEN}?"));
                assert_eq!(asked, in_question, "{case}, {guards}: {heard}");
                assert!(asked || heard.contains("is it [redacted:github-token#1]?"), "{case}, {guards}: {heard}");
                assert_eq!(result.to_string().contains(TOKEN), in_answer, "{case}, {guards}: {result}");
                if server_speaks == Speaks::Legacy {
                    assert_eq!(heard.contains(&format!("with {TOKEN}")), in_question, "{case}, {guards}: {heard}");
                    assert!(heard.contains("notifications/progress"), "{case}, {guards}: {heard}");
                }
            }
            let denied = talkative(server_speaks);
            let files = [over_http_with("alpha", &denied, "guards: {secrets: {results: deny}}\n")];
            let house = TestGateway::settled(&files).await;
            let mut wire = Wire::open(&house, "default", client_speaks, &json!({"elicitation": {}})).await;
            let (heard, _) = talk(&mut wire).await;
            let question = format!("is it {TOKEN}?");
            assert!(!heard.contains(&question) && !heard.contains("notifications/progress"), "{case}: {heard}");
        }
    }
}

#[tokio::test]
async fn resources_prompts_and_completions_are_looked_at_like_calls() {
    let house = house("guards: {secrets: {arguments: deny}}\n").await;
    for client in house.both("default") {
        for (method, params) in [
            ("prompts/get", json!({"name": "alpha_greet", "arguments": {"name": TOKEN}})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "alpha_greet"}, "argument": {"name": "name", "value": TOKEN}}),
            ),
            ("resources/read", json!({"uri": "fake://text", "_meta": {"note": TOKEN}})),
        ] {
            let error = client.ask(method, &params).await.unwrap_err();
            assert!(error.message.contains("a secret is in it (`github-token`)"), "{method}: {error:?}");
        }
    }
    let found = house.audited().await.into_iter().filter(|event| event.guard.is_some()).count();
    assert_eq!(found, 6);
}
