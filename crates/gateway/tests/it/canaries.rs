//! Canaries: whoever sends one, or is sent one, is halted, by every door and in every listed form.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Secret;
use toolcrib_gateway::KeepSecrets;
use toolcrib_protocol::{Answer, Id, Raw};
use toolcrib_session::{Caller, Principal};
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, Setup, TestGateway, profile, server, text_of};
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::vault::Memory;
use crate::wire::over_stdio;

fn setup() -> Setup {
    Setup { vault: Some(Arc::<Memory>::default() as Arc<dyn KeepSecrets>), keep_arguments: true, ..Setup::default() }
}

fn admin(house: &TestGateway) -> Client {
    house.modern_of("root", "default").admin()
}

/// Mints a canary; its id and its token.
async fn mint(house: &TestGateway, kind: &str) -> (String, String) {
    let minted = admin(house).call("core_canary_mint", &json!({ "kind": kind })).await;
    let text = |key: &str| minted["structuredContent"][key].as_str().unwrap_or_else(|| panic!("{minted}")).to_owned();
    (text("id"), text("token"))
}

/// The halts in force, each with its subject and canary.
fn halts(house: &TestGateway) -> Vec<(String, String)> {
    let halts = house.gateway.path.halts.list();
    halts.iter().map(|it| (it.subject.name().to_owned(), it.canary.as_deref().unwrap_or_default().to_owned())).collect()
}

fn is_halted(answer: &Result<Value, toolcrib_protocol::RpcError>) -> bool {
    let text = match answer {
        Ok(result) if result["isError"] == true => text_of(result),
        Ok(_) => return false,
        Err(error) => error.message.clone(),
    };
    text.contains("is halted (`hlt_")
}

fn upper_hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02X}")).collect()
}

#[tokio::test]
async fn who_sends_a_canary_is_halted_by_every_door_before_the_server_hears_of_it() {
    let files = [server("alpha", &[]), profile("muster", "dialect: muster\n"), profile("direct", "exposure: direct\n")];
    let house = TestGateway::open(&files, setup());
    house.settle().await;
    let (id, token) = mint(&house, "url").await;
    let core = token.rsplit('/').next().unwrap().to_owned();
    let (upper, reversed) = (core.to_uppercase(), core.chars().rev().collect::<String>());
    let call = |arguments: Value| ("tools/call", json!({"name": "alpha_echo", "arguments": arguments}));
    let cases = [
        call(json!({ "text": token })),
        call(json!({ "text": upper })),
        call(json!({ "text": reversed })),
        call(json!({ "text": upper_hex(&core) })),
        call(json!({ (core.clone()): "as a key" })),
        call(json!({ "text": [&core[..8], &core[8..16], {"deep": &core[16..]}] })),
        ("tools/call", json!({"name": "call_tool", "arguments": {"name": "alpha/echo", "arguments": {"text": token}}})),
        ("tools/call", json!({"name": format!("alpha_{core}"), "arguments": {}})),
        ("resources/read", json!({"uri": format!("file:///{core}")})),
        ("prompts/get", json!({"name": "x", "arguments": {"a": core}})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": core}}),
        ),
        ("tools/list", json!({"_meta": {"note": core}})),
    ];
    for (number, (method, params)) in cases.iter().enumerate() {
        for era in ["modern", "legacy"] {
            let who = format!("{era}-{number}");
            let client =
                if era == "modern" { house.modern_of(&who, "default") } else { house.legacy_of(&who, "default") };
            let answer = client.ask(method, params).await;
            assert!(is_halted(&answer), "{who} {method} {params}: {answer:?}");
            assert!(!format!("{answer:?}").contains(&id), "who is halted does not learn why");
            assert!(is_halted(&client.ask("tools/list", &json!({})).await), "{who}");
            assert_eq!(halts(&house).last().map(|(_, canary)| canary.clone()), Some(id.clone()));
            assert!(halts(&house).iter().any(|(subject, _)| *subject == who), "{who}");
        }
    }
    let muster = json!({"name": "call_tool", "arguments": {"name": "x_alpha_echo", "arguments": {"text": token}}});
    assert!(is_halted(&house.modern_of("m", "muster").ask("tools/call", &muster).await));
    let rest = Caller { principal: Principal::member("rest"), door: Door::REST, ..house.modern("default").caller };
    let operation = house.gateway.operations.by_tool("core_tool_call");
    let operation = operation.expect("the operation that calls a tool");
    let snapshot = house.gateway.snapshot(&rest.profile).ok();
    let arguments = Raw::from_value(&json!({"name": "alpha/echo", "arguments": {"text": token}}));
    let refused = house.gateway.operate(operation, snapshot.as_ref(), &rest, arguments).await.unwrap_err();
    assert!(refused.message.contains("is halted"), "{refused:?}");

    // No event has the token, in any of these forms, and each names the canary by its id.
    let events = house.audited().await;
    let text = format!("{events:?}").to_lowercase();
    for form in [&core, &reversed, &upper_hex(&core).to_lowercase()] {
        assert!(!text.contains(form.as_str()), "the log has `{form}`");
    }
    let named = events.iter().filter(|event| event.canary.as_deref() == Some(id.as_str())).count();
    assert_eq!(named, 1 + 2 * cases.len() + 2, "mint, and each call");
    // Nothing came to the server.
    let client = house.modern_of("innocent", "default");
    assert!(!is_halted(&client.ask("tools/call", &json!({"name": "alpha_echo", "arguments": {"text": "x"}})).await));
    let calls = events.iter().filter(|event| &*event.target == "alpha/echo").count();
    assert_eq!(calls, 0);
}

#[tokio::test]
async fn what_a_server_answers_is_cut_where_a_canary_is_in_it() {
    let token = "k3q7zd9xw5mtb2ra6hcvy4ne";
    let server = ScriptedServer::start(Speaks::Legacy, move |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"leak"},{"name":"fail"}]}"#),
        "resources/list" => say.result(r#"{"resources":[{"uri":"file:///leak","name":"leak"}]}"#),
        "prompts/list" => say.result(r#"{"prompts":[{"name":"leak"}]}"#),
        "tools/call" if heard.value()["name"] == "fail" => {
            say.error(-32_000, &format!("no {token}"));
        }
        "tools/call" => say.result(&format!(r#"{{"content":[{{"type":"text","text":"see {token}"}}]}}"#)),
        "resources/read" => say.result(&format!(r#"{{"contents":[{{"uri":"file:///leak","text":"{token}"}}]}}"#)),
        "prompts/get" => {
            let text = format!(r#"{{"role":"user","content":{{"type":"text","text":"{token}"}}}}"#);
            say.result(&format!(r#"{{"messages":[{text}]}}"#));
        }
        _ => {}
    });
    let house = TestGateway::open(&[over_stdio("alpha", &server)], setup());
    house.settle().await;
    house.gateway.path.canaries.look_for(&[("can_1".into(), Secret::new(token))]);
    for (number, (method, params)) in [
        ("tools/call", json!({"name": "alpha_leak", "arguments": {}})),
        ("tools/call", json!({"name": "alpha_fail", "arguments": {}})),
        ("resources/read", json!({"uri": "file:///leak"})),
        ("prompts/get", json!({"name": "alpha_leak"})),
    ]
    .iter()
    .enumerate()
    {
        let client = house.modern_of(&format!("p{number}"), "default");
        let answer = client.ask(method, params).await;
        assert!(is_halted(&answer) && !format!("{answer:?}").contains(token), "{method}: {answer:?}");
        assert!(is_halted(&client.ask("tools/list", &json!({})).await));
    }
    let events = house.audited().await;
    let named = events.iter().filter(|event| event.canary.as_deref() == Some("can_1") && event.halt.is_some());
    assert_eq!(named.filter(|event| event.outcome == "error:forbidden").count(), 4);
    assert!(!format!("{events:?}").contains(token));
}

#[tokio::test]
async fn half_a_canary_per_call_is_one_and_the_profile_says_who_is_halted() {
    let files = [server("alpha", &[]), profile("mild", "exposure: direct\ncanary_halts: session\n")];
    let house = TestGateway::open(&files, setup());
    house.settle().await;
    let (_, token) = mint(&house, "text").await;
    let echo = |text: &str| json!({"name": "alpha_echo", "arguments": {"text": text}});
    let ann = house.modern_of("ann", "default");
    assert!(!is_halted(&ann.ask("tools/call", &echo(&token[..10])).await), "a part proves little");
    assert!(is_halted(&ann.ask("tools/call", &echo(&token[10..])).await));

    let (one, other) = (house.legacy_of("bob", "mild"), house.legacy_of("bob", "mild"));
    assert!(is_halted(&one.ask("tools/call", &echo(&token)).await));
    assert!(!is_halted(&other.ask("tools/call", &echo("x")).await), "only the session");
    assert!(is_halted(&house.modern_of("carol", "mild").ask("tools/call", &echo(&token)).await));
    assert!(is_halted(&house.legacy_of("carol", "mild").ask("tools/list", &json!({})).await), "who has no session");
}

#[tokio::test]
async fn an_answer_to_a_question_of_a_server_is_looked_through() {
    let house = TestGateway::open(&[server("alpha", &[])], setup());
    house.settle().await;
    let (id, token) = mint(&house, "text").await;
    let client = house.legacy_of("ann", "default");
    let answer = |text: &str| Answer::ok(Id::from_number(1), Raw::from_value(&json!({"content": {"name": text}})));
    house.gateway.take_answer(client.caller.session.as_ref().unwrap(), answer("Ann"));
    assert_eq!(halts(&house), []);
    let mut changes = house.gateway.path.halts.watch();
    house.gateway.take_answer(client.caller.session.as_ref().unwrap(), answer(&token));
    let halted = async {
        while halts(&house).is_empty() {
            let _ = changes.changed().await;
        }
    };
    eventually("the halt", halted).await;
    assert_eq!(halts(&house), [("ann".to_owned(), id.clone())]);
    let recorded = async { while house.audited().await.iter().all(|event| event.method != "answer") {} };
    eventually("the event", recorded).await;
}

#[tokio::test]
async fn canaries_are_sealed_listed_without_their_tokens_and_forgotten() {
    let setup = setup();
    let (store, vault) = (setup.store.clone(), setup.vault.clone());
    let house = TestGateway::open(&[server("alpha", &[])], setup);
    house.settle().await;
    let mut minted = Vec::new();
    for kind in ["url", "aws", "email", "text"] {
        minted.push(mint(&house, kind).await);
    }
    let listed = admin(&house).call("core_canary_list", &json!({})).await;
    let rows = listed["structuredContent"]["canaries"].as_array().unwrap().clone();
    assert!(rows.iter().all(|row| row["lookedFor"] == true) && rows.len() == 4, "{listed}");
    for ((id, token), record) in minted.iter().zip(store.canaries().all().unwrap()) {
        assert!(!listed.to_string().contains(token));
        assert_eq!(record.id, *id);
        assert!(!String::from_utf8_lossy(&record.sealed).contains(&token[token.len() - 8..]), "sealed");
    }
    let removed = admin(&house).call("core_canary_remove", &json!({ "id": minted[3].0 })).await;
    assert_ne!(removed["isError"], true, "{removed}");
    let again = admin(&house).call("core_canary_remove", &json!({ "id": minted[3].0 })).await;
    assert_eq!(again["isError"], true);
    house.close().await;

    let house = TestGateway::open(&[server("alpha", &[])], Setup { store, vault, ..Setup::default() });
    house.settle().await;
    for (number, (_, token)) in minted.iter().enumerate() {
        let client = house.modern_of(&format!("p{number}"), "default");
        let answer = client.ask("tools/call", &json!({"name": "alpha_echo", "arguments": {"text": token}})).await;
        assert_eq!(is_halted(&answer), number != 3, "{number}: {answer:?}");
    }
    let refused = admin(&house).call("core_canary_mint", &json!({"kind": "gif"})).await;
    assert_eq!(refused["isError"], true);
}

#[tokio::test]
async fn without_a_vault_no_canary_is_minted() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let refused = admin(&house).call("core_canary_mint", &json!({"kind": "text"})).await;
    assert!(text_of(&refused).contains("no vault"), "{refused}");
}

/// The alphabet of base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// As images and other bytes travel in JSON.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

const TOKEN: &str = "k3q7zd9xw5mtb2ra6hcvy4ne";

/// Parts of messages that carry a canary in something else than a text.
fn carriers() -> Vec<(&'static str, Value)> {
    let mut parts = vec![
        ("link", json!({"type": "resource_link", "uri": format!("https://example.com/{TOKEN}?a=b"), "name": "x"})),
        ("name of a link", json!({"type": "resource_link", "uri": "https://example.com/", "name": TOKEN})),
        ("uri", json!({"type": "resource", "resource": {"uri": format!("file:///{TOKEN}"), "text": ""}})),
        ("note", json!({"type": "text", "text": "", "annotations": {"note": TOKEN}})),
    ];
    for offset in 0..3 {
        // As a comment in an image that is not compressed there.
        let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\x20tEXtComment\0".to_vec();
        image.extend(std::iter::repeat_n(b' ', offset));
        image.extend(TOKEN.as_bytes());
        image.extend(b"\0\xff\xfe\x80 and so on");
        let data = base64(&image);
        parts.push(("image", json!({"type": "image", "mimeType": "image/png", "data": data})));
        parts.push(("audio", json!({"type": "audio", "mimeType": "audio/wav", "data": data})));
        let blob = json!({"uri": "file:///x", "mimeType": "image/png", "blob": data});
        parts.push(("blob", json!({"type": "resource", "resource": blob})));
    }
    parts
}

#[tokio::test]
async fn a_canary_in_an_image_a_link_or_a_blob_is_found_on_both_ways() {
    let parts: Vec<(&'static str, String)> =
        carriers().into_iter().map(|(what, part)| (what, part.to_string())).collect();
    let served = parts.clone();
    let server = ScriptedServer::start(Speaks::Both, move |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"show","inputSchema":{"type":"object"}}]}"#),
        "tools/call" => {
            let number = heard.value()["arguments"]["number"].as_u64().unwrap_or(u64::MAX);
            let part = usize::try_from(number).ok().and_then(|number| served.get(number));
            say.result(&format!(r#"{{"content":[{}]}}"#, part.map_or("", |(_, part)| part)));
        }
        _ => {}
    });
    let house = TestGateway::open(&[over_stdio("alpha", &server)], setup());
    house.settle().await;
    house.gateway.path.canaries.look_for(&[("can_1".into(), Secret::new(TOKEN))]);
    let show = |arguments: Value| json!({"name": "alpha_show", "arguments": arguments});
    for (number, (what, part)) in parts.iter().enumerate() {
        for (way, arguments) in [
            ("sends", json!({"parts": [serde_json::from_str::<Value>(part).unwrap()]})),
            ("reads", json!({ "number": number })),
        ] {
            let client = house.modern_of(&format!("{way}-{number}"), "default");
            let answer = client.ask("tools/call", &show(arguments)).await;
            assert!(is_halted(&answer) && !format!("{answer:?}").contains(TOKEN), "{way} {what}: {answer:?}");
        }
    }
    let innocent = house.modern_of("innocent", "default");
    assert!(!is_halted(&innocent.ask("tools/call", &show(json!({"number": 1_000}))).await));
}

#[tokio::test]
async fn a_canary_in_a_header_halts_who_writes_it_by_mcp_and_no_one_else() {
    let with_header = |name: &str| {
        let text = format!(
            "name: {name}\ntransport: http\nurl: http://127.0.0.1:9/mcp\nstart: manual\nheaders: {{X-Team: {TOKEN}}}\n\
             tools: [{{name: x, inputSchema: {{type: object}}}}]\n"
        );
        (format!("servers/{name}.yaml"), text)
    };
    let house = TestGateway::open(&[server("alpha", &[])], setup());
    house.settle().await;
    house.gateway.path.canaries.look_for(&[("can_1".into(), Secret::new(TOKEN))]);
    // Who writes files, or uses the control API as an administrator, puts canaries where they belong.
    house.apply(&[with_header("beta")]).await;
    let definition = json!({"transport": "http", "url": "http://127.0.0.1:9/mcp", "start": "manual",
        "headers": {"X-Team": TOKEN}});
    let by_rest = json!({"name": "gamma", "definition": definition});
    let created = admin(&house).operate("core_mcpserver_create", &by_rest).await;
    created.expect("it is created");
    let client = house.modern("default");
    let called = client.ask("tools/call", &json!({"name": "beta_x", "arguments": {}})).await;
    assert!(!is_halted(&called), "headers are not looked at: {called:?}");
    assert_eq!(halts(&house), []);
    let by_mcp = json!({"name": "core_mcpserver_create", "arguments": by_rest});
    assert!(is_halted(&admin(&house).ask("tools/call", &by_mcp).await));
    assert_eq!(halts(&house), [("root".to_owned(), "can_1".to_owned())]);
}
