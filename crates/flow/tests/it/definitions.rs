//! Agents and models by their operations: written, shown without secrets, checked beside each other.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcrib_catalog::{DefinitionKind, schema};
use toolcrib_testgateway::{Client, File, profile, server};

use crate::gateway::{Mill, asked, failed};

fn file(path: &str, text: &str) -> File {
    (path.to_owned(), text.to_owned())
}

fn named(list: &Value, kind: &str) -> Vec<String> {
    list[kind].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

async fn whole() -> (Mill, Client) {
    let mill = Mill::whole(&[server("fake", &[]), profile("narrow", "tools: {deny: ['agent/*']}")]).await;
    let admin = mill.admin();
    (mill, admin)
}

#[tokio::test]
async fn a_model_is_written_shown_replaced_and_deleted() {
    let (mill, admin) = whole().await;
    let listed = asked(&admin, "core_model_list", &json!({})).await;
    assert_eq!((named(&listed, "models"), &listed["models"][0]["builtIn"]), (vec!["demo".to_owned()], &json!(true)));
    let definition = json!({
        "name": "big", "wire": "messages", "url": "https://api.example.com/v1", "key": "vault:provider",
        "headers": {"X-Team": "plain-words", "X-Org": "env:ORG"}, "prices": {"input": 3, "output": "15.00"},
    });
    let made = asked(&admin, "core_model_create", &definition).await;
    assert_eq!(made["message"], "created model `big`: an agent asks it with `model: big`");
    assert_eq!(made["file"], "models/big.yaml");
    failed(&admin, "core_model_create", &definition, &["model `big` already exists", "Update it"]).await;
    let listed = asked(&admin, "core_model_list", &json!({})).await;
    let row = &listed["models"][0];
    assert_eq!(
        row["prices"],
        json!({"input": "3", "cached": "3", "cache_write": "3", "cache_write_hour": "3", "output": "15"})
    );
    assert_eq!((&row["key"], &row["max_output"]), (&json!("vault:provider"), &json!(4096)));

    let shown = asked(&admin, "core_model_get", &json!({"name": "big"})).await;
    assert_eq!(shown["model"]["key"], "vault:provider");
    assert_eq!(shown["model"]["headers"], json!({"X-Team": "****", "X-Org": "env:ORG"}));
    assert!(!shown.to_string().contains("plain-words"), "{shown}");
    // Anyone who sends back what was shown does not write the mask.
    let mut back = shown["model"].clone();
    failed(&admin, "core_model_update", &back, &["got `****`, the placeholder of a hidden value"]).await;
    back["headers"] = json!({});
    back["revision"] = "0000".into();
    failed(&admin, "core_model_update", &back, &["has changed since it was read"]).await;
    back["revision"] = shown["revision"].clone();
    let replaced = asked(&admin, "core_model_update", &back).await;
    assert_eq!(replaced["message"], "updated model `big`");
    let gone = asked(&admin, "core_model_delete", &json!({"name": "big"})).await;
    assert_eq!(gone, json!({"name": "big", "message": "deleted model `big`"}));
    for (tool, name, parts) in [
        ("core_model_get", "big", &["model `big` not found"][..]),
        ("core_model_get", "deom", &["model `deom` not found", "Did you mean `demo`?"]),
        ("core_model_delete", "big", &["model `big` not found"]),
        ("core_model_delete", "../x", &["not found"]),
        ("core_model_delete", "demo", &["model `demo` is built in", "Create a model of another name."]),
    ] {
        failed(&admin, tool, &json!({ "name": name }), parts).await;
    }
    drop(mill);
}

#[tokio::test]
async fn what_is_wrong_with_a_model_is_named_and_never_written() {
    let (mill, admin) = whole().await;
    let url = "https://api.example.com/v1";
    for (definition, parts) in [
        (json!({"name": "x", "wire": "chat"}), &["url: expected the address"][..]),
        (
            json!({"name": "x", "wire": "chat", "url": url, "key": "hunter2"}),
            &["key: expected a reference", "secret set NAME"],
        ),
        (json!({"name": "x", "wire": "chat", "url": url, "prices": {"input": -1, "output": 1}}), &["prices.input"]),
        (json!({"name": "x", "wire": "soap", "url": url}), &["wire"]),
        (json!({"name": "x", "wire": "script", "script": {"turn": []}}), &["the script of the model is not valid"]),
        (json!({"name": "demo", "wire": "chat", "url": url}), &["built in"]),
    ] {
        for tool in ["core_model_validate", "core_model_create"] {
            failed(&admin, tool, &definition, parts).await;
        }
    }
    assert!(!mill.house.home().join("models").exists());
    let valid = json!({"name": "x", "wire": "script", "script": {"turns": [{"say": "Hello."}]}});
    let said = asked(&admin, "core_model_validate", &valid).await;
    assert_eq!(said, json!({"name": "x", "message": "the definition of the model `x` is valid"}));
    assert!(!mill.house.home().join("models").exists());
}

#[tokio::test]
async fn an_agent_is_a_tool_as_soon_as_it_is_written() {
    let (mill, admin) = whole().await;
    let definition = json!({
        "name": "clerk", "description": "Sorts letters", "model": "demo", "tools": ["fake/*"],
        "limits": {"rounds": 3}, "canary_tokens": ["CANARY-7f3a91", "vault:canary"],
    });
    let made = asked(&admin, "core_agent_create", &definition).await;
    assert_eq!(
        (&made["message"], &made["warnings"]),
        (&json!("created agent `clerk`: it is the tool agent_clerk"), &Value::Null)
    );
    let row = json!({
        "name": "clerk", "available": true, "description": "Sorts letters", "models": ["demo"], "tools": ["fake/*"],
        "tools_shown": "auto", "runs_as": "caller",
    });
    let user = mill.house.modern("default");
    assert_eq!(asked(&user, "core_agent_list", &json!({})).await, json!({"total": 1, "agents": [row]}));
    let shown = asked(&user, "core_agent_get", &json!({"name": "clerk"})).await;
    assert_eq!(shown["agent"]["canary_tokens"], json!(["****", "vault:canary"]));
    assert!(!shown.to_string().contains("CANARY-7f3a91") && shown["yaml"].as_str().unwrap().contains("name: clerk"));
    // Who may not call it does not know of it.
    let narrow = mill.house.modern("narrow");
    assert_eq!(asked(&narrow, "core_agent_list", &json!({})).await, json!({"total": 0, "agents": []}));
    failed(&narrow, "core_agent_get", &json!({"name": "clerk"}), &["agent `clerk` not found"]).await;
    failed(&user, "core_agent_get", &json!({"name": "clrek"}), &["not found", "Did you mean `clerk`?"]).await;
    failed(&user, "core_agent_delete", &json!({"name": "clerk"}), &["only admins"]).await;
    let changed = json!({"name": "clerk", "model": "demo", "tools": []});
    assert_eq!(asked(&admin, "core_agent_update", &changed).await["message"], "updated agent `clerk`");
    assert_eq!(asked(&user, "core_agent_list", &json!({})).await["agents"][0]["tools"], json!([]));
    assert_eq!(asked(&admin, "core_agent_delete", &json!({"name": "clerk"})).await["message"], "deleted agent `clerk`");
    failed(&admin, "core_agent_update", &changed, &["agent `clerk` not found"]).await;
}

#[tokio::test]
async fn agents_and_models_are_checked_beside_each_other() {
    let (_mill, admin) = whole().await;
    let agent = json!({"name": "a", "models": ["gone", "demo"], "limits": {"money": 1}});
    let made = asked(&admin, "core_agent_create", &agent).await;
    let warning = made["warnings"][0].as_str().unwrap();
    assert!(warning.contains("asks the model `gone`, which does not exist"), "{made}");
    assert!(warning.contains("toolcrib model add"), "{made}");
    let listed = asked(&admin, "core_agent_list", &json!({})).await;
    assert_eq!(listed["agents"][0]["warnings"].as_array().map(Vec::len), Some(1), "{listed}");
    // The model comes, and has no price.
    let free = json!({"name": "gone", "wire": "chat", "url": "http://127.0.0.1:9/v1"});
    let made = asked(&admin, "core_model_create", &free).await;
    assert_eq!(made["warnings"], json!(["agent `a` limits money, and this model has no `prices`"]));
    failed(&admin, "core_agent_update", &agent, &["its model `gone` has no `prices`", "models/gone.yaml"]).await;
    failed(&admin, "core_agent_validate", &agent, &["its model `gone` has no `prices`"]).await;
    let gone = asked(&admin, "core_model_delete", &json!({"name": "gone"})).await;
    assert_eq!(gone["warnings"], json!(["agent `a` asks it, and cannot run without it"]));
}

#[tokio::test]
async fn a_configure_document_of_valinor_is_an_agent() {
    let (mill, admin) = whole().await;
    let document = json!({
        "name": "v", "config": {"model": "demo"}, "tool_allowlist": null, "tool_policies": null,
        "connectors": [{"name": "tracker", "endpoint": "https://tracker.example.com/mcp", "tools": ["create_issue"]}],
    });
    asked(&admin, "core_agent_create", &document).await;
    let listed = asked(&admin, "core_agent_list", &json!({})).await;
    assert_eq!((&listed["agents"][0]["models"], &listed["agents"][0]["tools"]), (&json!(["demo"]), &json!([])));
    let open = json!({"name": "v", "config": {"model": "demo", "gateway": {"bind": "0.0.0.0"}}, "tool_allowlist": []});
    failed(&admin, "core_agent_update", &open, &["gateway.bind"]).await;
    let secret = json!({"name": "v", "model": "demo", "connectors": [
        {"name": "t", "endpoint": "https://t.example.com", "auth": {"api_key": "hunter2"}}]});
    failed(&admin, "core_agent_update", &secret, &["connectors[0].auth.api_key", "a reference to the vault"]).await;
    assert!(mill.house.home().join("agents/v.yaml").exists());
}

#[tokio::test]
async fn a_model_is_tested_and_each_check_can_fail() {
    let (_mill, admin) = whole().await;
    let works = |report: &Value, check: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|it| it["check"] == check).map_or(json!("missing"), |it| it["works"].clone())
    };
    let demo = asked(&admin, "core_model_test", &json!({"name": "demo"})).await;
    for check in ["answers", "stream", "tools", "results", "forced tool", "output by schema", "usage"] {
        assert_eq!(works(&demo, check), true, "{check}: {demo}");
    }
    assert_eq!(works(&demo, "window"), Value::Null, "{demo}");
    // It answers, and nothing else: no tools, no JSON, no counts.
    let script = json!({"rules": [{"say": "I do not know.", "usage": false}]});
    asked(&admin, "core_model_create", &json!({"name": "poor", "wire": "script", "script": script, "window": 32_000}))
        .await;
    let poor = asked(&admin, "core_model_test", &json!({"name": "poor"})).await;
    assert_eq!((&poor["works"], &poor["wire"]), (&json!(false), &json!("chat")));
    for (check, expected) in [
        ("answers", json!(true)),
        ("tools", json!(false)),
        ("forced tool", json!(false)),
        ("output by schema", json!(false)),
        ("usage", json!(false)),
        ("cache", Value::Null),
        ("results", json!("missing")),
    ] {
        assert_eq!(works(&poor, check), expected, "{check}: {poor}");
    }
    // Odd arguments, and a tool that was not offered.
    let script = json!({"rules": [
        {"user": "Use the tool", "calls": [{"name": "add_numbers", "arguments": "{\"a\": 1"}]},
        {"user": "Numbers", "calls": [{"name": "add_numbers", "arguments": {"a": "x"}}]},
        {"user": "capital", "say": "{\"city\": 5}"},
        {"say": "ready"},
    ]});
    asked(&admin, "core_model_create", &json!({"name": "odd", "wire": "script", "script": script})).await;
    let odd = asked(&admin, "core_model_test", &json!({"name": "odd"})).await;
    for part in ["arguments that are no JSON", "do not fit its schema", "is JSON and does not fit"] {
        assert!(odd.to_string().contains(part), "{part}: {odd}");
    }
    // One that is not there: the first check fails, with what to look at, and no other is made.
    let far = json!({"name": "far", "wire": "chat", "url": "http://127.0.0.1:9/v1"});
    asked(&admin, "core_model_create", &far).await;
    let far = asked(&admin, "core_model_test", &json!({"name": "far"})).await;
    assert_eq!((far["checks"].as_array().map(Vec::len), &far["works"]), (Some(1), &json!(false)));
    assert!(far["checks"][0]["detail"].as_str().unwrap().contains("check `url`"), "{far}");
    failed(&admin, "core_model_test", &json!({"name": "dem"}), &["not found", "Did you mean `demo`?"]).await;
}

/// What the operations take is what files take, key by key.
#[tokio::test]
async fn operations_take_the_keys_of_the_files() {
    let (mill, _) = whole().await;
    let keys =
        |value: &Value| -> BTreeSet<String> { value["properties"].as_object().unwrap().keys().cloned().collect() };
    for (kind, word) in [(DefinitionKind::Agent, "agent"), (DefinitionKind::Model, "model")] {
        let of_file = keys(&schema(kind));
        for act in ["create", "validate", "update"] {
            let tool = format!("core_{word}_{act}");
            let operation = mill.house.gateway.operations.iter().find(|it| it.tool == tool).unwrap();
            let mut of_operation = keys(&operation.input_schema());
            assert_eq!(of_operation.remove("revision"), act == "update", "{tool}");
            assert_eq!(of_operation, of_file, "{tool}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_wrong_keeps_the_others() {
    let files = [
        server("fake", &[]),
        file("models/good.yaml", "name: good\nwire: script\nscript: {turns: [{say: Hello.}]}\n"),
        file("agents/a.yaml", "name: a\nmodel: good\n"),
    ];
    let mill = Mill::whole(&files).await;
    let admin = mill.admin();
    let bad = "name: bad\nwire: chat\nurl: http://127.0.0.1/v1\nkey: hunter2\n";
    std::fs::write(mill.house.home().join("models/bad.yaml"), bad).unwrap();
    assert_eq!(named(&asked(&admin, "core_model_list", &json!({})).await, "models"), ["good", "demo"]);
    assert_eq!(named(&asked(&admin, "core_agent_list", &json!({})).await, "agents"), ["a"]);
    failed(&admin, "core_model_get", &json!({"name": "bad"}), &["not found"]).await;
    // It can be removed all the same.
    asked(&admin, "core_model_delete", &json!({"name": "bad"})).await;
    assert!(!mill.house.home().join("models/bad.yaml").exists());
}
