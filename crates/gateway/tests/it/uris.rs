//! URIs that two servers have: wherever the second one points to its own, it does so by the name that leads there.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, server};

const DIRECT: &str = "exposure: direct";

/// All URIs in a result, in order.
fn uris(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, value)| match value.as_str() {
                Some(uri) if matches!(key.as_str(), "uri" | "resourceUri" | "ui/resourceUri") => vec![uri.to_owned()],
                _ => uris(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(uris).collect(),
        _ => Vec::new(),
    }
}

async fn interface(client: &Client, tool: &str) -> Value {
    let listed = client.ask("tools/list", &json!({})).await.unwrap();
    let tool = listed["tools"].as_array().unwrap().iter().find(|it| it["name"] == tool).unwrap();
    assert_eq!(tool["_meta"]["ui"]["visibility"], json!(["model"]));
    assert_eq!(tool["_meta"]["ui"]["resourceUri"], tool["_meta"]["ui/resourceUri"]);
    tool["_meta"]["ui"]["resourceUri"].clone()
}

#[tokio::test]
async fn results_point_to_resources_by_the_names_that_lead_there() {
    for flags in [&[][..], &["--modern"]] {
        let files = [server("alpha", &[]), server("beta", flags), profile("direct", DIRECT)];
        let house = TestGateway::settled(&files).await;
        for client in house.both("direct") {
            let first = client.call("alpha_mixed", &json!({})).await;
            assert_eq!(uris(&first), ["fake://text", "fake://binary", "fake://text"]);
            let second = client.call("beta_mixed", &json!({})).await;
            assert_eq!(uris(&second), ["beta+fake://text", "beta+fake://binary", "beta+fake://text"]);
            for uri in ["beta+fake://text", "beta+fake://item/7"] {
                let read = client.ask("resources/read", &json!({ "uri": uri })).await.unwrap();
                assert_eq!(uris(&read), [uri], "what is read has the name by which it was asked for");
            }
            let result = json!({ "content": [
                { "type": "resource_link", "uri": "fake://item/9", "name": "made by the template" },
                { "type": "resource_link", "uri": "https://example.com", "name": "leads nowhere here" },
                { "type": "text", "text": "fake://text" },
            ] });
            let raw = client.call("beta_raw", &json!({ "result": result.to_string() })).await;
            assert_eq!(uris(&raw), ["beta+fake://item/9", "https://example.com"]);
            assert_eq!(raw["content"][2]["text"], "fake://text", "texts are texts");
            let missing = client.ask("resources/read", &json!({ "uri": "beta+fake://no" })).await.unwrap_err();
            assert_eq!(missing.data.unwrap().to_value()["uri"], "beta+fake://no");
        }
    }
}

#[tokio::test]
async fn user_interfaces_keep_their_settings_and_lead_to_their_own_server() {
    let flags = ["--modern", "--ui", "ui://app/main"];
    let files = [
        server("alpha", &["--ui", "ui://app/main"]),
        server("beta", &flags),
        server("gamma", &["--ui", "ui://app/other"]),
        profile("direct", DIRECT),
    ];
    let house = TestGateway::settled(&files).await;
    for client in house.both("direct") {
        for (tool, uri) in
            [("alpha_app", "ui://app/main"), ("beta_app", "beta+ui://app/main"), ("gamma_app", "ui://app/other")]
        {
            assert_eq!(interface(&client, tool).await, uri);
            let called = client.call(tool, &json!({})).await;
            assert_eq!(called["_meta"]["ui"]["resourceUri"], uri, "{tool}");
            let read = client.ask("resources/read", &json!({ "uri": uri })).await.unwrap();
            assert_eq!(uris(&read), [uri], "unlisted, and yet readable");
        }
        let listed = client.ask("resources/list", &json!({})).await.unwrap();
        assert!(!uris(&listed).iter().any(|uri| uri.contains("ui://")), "what is not listed stays so");
    }
    let targets: Vec<_> = house.audited().await.into_iter().map(|event| event.target).collect();
    for target in ["alpha/ui://app/main", "beta/ui://app/main", "gamma/ui://app/other"] {
        assert_eq!(targets.iter().filter(|it| *it == target).count(), 2, "{target}: {targets:?}");
    }
}
