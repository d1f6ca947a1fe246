//! Learning from use: found, called, and found again.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Clock, ManualClock, Timestamp};
use toolcrib_store::Store;
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server};

/// Both servers have a tool that fits, and the two say the same.
const QUERY: &str = "returns the given text";
const FIRST: [&str; 2] = ["alpha/echo", "beta/echo"];
const TURNED: [&str; 2] = ["beta/echo", "alpha/echo"];

fn files() -> Vec<File> {
    vec![
        server("alpha", &[]),
        server("beta", &[]),
        profile("default", "learn: true\n"),
        profile("other", "learn: true\n"),
        profile("plain", ""),
        profile("admin", "groups: [admin]\n"),
    ]
}

async fn found(client: &Client) -> Vec<String> {
    let result = client.call("find_tools", &json!({"query": QUERY, "fold": false, "limit": 2})).await;
    assert_ne!(result["isError"], true, "{result}");
    let tools = result["structuredContent"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
}

/// Calls through the menu; `true` when it went well.
async fn call(client: &Client, tool: &str, arguments: Value) -> bool {
    client.call("call_tool", &json!({"name": tool, "arguments": arguments})).await["isError"] != true
}

/// Finds and calls what came second.
async fn teach(client: &Client) {
    found(client).await;
    assert!(call(client, "beta/echo", json!({"text": "x"})).await);
}

async fn operate(house: &TestGateway, name: &str, of: &str) -> Value {
    let result = house.modern("admin").admin().call(name, &json!({"profile": of})).await;
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

#[tokio::test]
async fn what_was_called_after_a_search_is_raised_where_the_profile_learns() {
    let house = TestGateway::settled(&files()).await;
    for client in house.both("default") {
        assert_eq!(found(&client).await, FIRST);
        teach(&client).await;
        assert_eq!(found(&client).await, TURNED);
        assert_eq!(found(&house.modern("other")).await, FIRST, "another profile learns for itself");

        let shown = operate(&house, "core_learning_show", "default").await;
        assert_eq!((&shown["learns"], &shown["total"]), (&json!(true), &json!(3)), "{shown}");
        assert_eq!(shown["rows"][0], json!({"word": "given", "tool": "beta/echo", "count": 1.0}));
        let exported = operate(&house, "core_learning_export", "default").await;
        assert_eq!((&exported["version"], exported["rows"].as_array().unwrap().len()), (&json!(1), 3));

        let forgotten = operate(&house, "core_learning_reset", "default").await;
        assert_eq!(forgotten, json!({"profile": "default", "tools": 1}));
        assert_eq!(found(&client).await, FIRST);
        assert_eq!(operate(&house, "core_learning_show", "default").await["total"], 0);
    }
    house.close().await;
}

#[tokio::test]
async fn nothing_is_learned_by_default() {
    let house = TestGateway::settled(&files()).await;
    let client = house.modern("plain");
    teach(&client).await;
    assert_eq!(found(&client).await, FIRST);
    let shown = operate(&house, "core_learning_show", "plain").await;
    assert_eq!(shown, json!({"profile": "plain", "learns": false, "rows": [], "total": 0}));
    let store = house.close().await;
    assert_eq!(store.facts().all("learned/plain").unwrap(), []);
}

#[tokio::test]
async fn only_good_calls_of_what_the_same_principal_has_found_count() {
    let house = TestGateway::settled(&files()).await;
    let client = house.modern("default");
    found(&client).await;
    assert!(!call(&client, "beta/echo", json!({"text": 7})).await, "its arguments do not fit");
    assert!(call(&client, "beta/pid", json!({})).await, "it was not found");
    assert!(call(&house.modern_of("another", "default"), "beta/echo", json!({"text": "x"})).await);
    client.call("find_tools", &json!({"query": "always fails, as a tool"})).await;
    assert!(!call(&client, "beta/fail", json!({})).await);
    assert_eq!(operate(&house, "core_learning_show", "default").await["total"], 0);
    assert!(call(&client, "beta/echo", json!({"text": "x"})).await);
    assert!(call(&client, "beta/echo", json!({"text": "x"})).await);
    let shown = operate(&house, "core_learning_show", "default").await;
    assert_eq!(shown["rows"][0]["count"], 1.0, "twice after one search: {shown}");
    house.close().await;
}

#[tokio::test]
async fn a_call_long_after_the_search_is_not_learned() {
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000_000_000)));
    let config = toolcrib_store::Config {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        audit_queue: 64,
        ..toolcrib_store::Config::default()
    };
    let ground = Setup {
        store: Store::in_memory(config).unwrap(),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..Setup::default()
    };
    let house = TestGateway::open(&files(), ground);
    house.settle().await;
    let client = house.modern("default");
    found(&client).await;
    clock.advance(11 * 60 * 1_000);
    assert!(call(&client, "beta/echo", json!({"text": "x"})).await);
    assert_eq!(operate(&house, "core_learning_show", "default").await["total"], 0);
    teach(&client).await;
    assert_eq!(operate(&house, "core_learning_show", "default").await["total"], 3);
    house.close().await;
}

#[tokio::test]
async fn what_was_learned_outlives_the_process_and_what_was_forgotten_does_not_come_back() {
    let house = TestGateway::settled(&files()).await;
    teach(&house.modern("default")).await;
    let store = house.close().await;
    let house = TestGateway::open(&files(), Setup { store, ..Setup::default() });
    house.settle().await;
    assert_eq!(found(&house.modern("default")).await, TURNED);
    teach(&house.modern("default")).await;
    operate(&house, "core_learning_reset", "default").await;
    let store = house.close().await;
    assert_eq!(store.facts().all("learned/default").unwrap(), []);
    let house = TestGateway::open(&files(), Setup { store, ..Setup::default() });
    house.settle().await;
    assert_eq!(found(&house.modern("default")).await, FIRST);
    house.close().await;
}

#[tokio::test]
async fn what_a_profile_hides_is_neither_found_nor_shown_because_it_was_learned() {
    let house = TestGateway::settled(&files()).await;
    teach(&house.modern("default")).await;
    house.apply(&[profile("default", "learn: true\ntools: {deny: ['beta/*']}\n")]).await;
    let hits = found(&house.modern("default")).await;
    assert!(hits.iter().all(|id| id.starts_with("alpha/")), "{hits:?}");
    for operation in ["core_learning_show", "core_learning_export"] {
        assert_eq!(operate(&house, operation, "default").await["rows"], json!([]), "{operation}");
    }
    house.close().await;
}
