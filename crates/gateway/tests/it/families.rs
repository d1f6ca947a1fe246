//! Tools that several servers have alike are shown as one in the muster dialect.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, server_with, strings, text_of};

const FAMILY: &str = "family: {name: clock, instance_arg: where}";

fn member(name: &str) -> File {
    server_with(name, &[], FAMILY)
}

/// What a meta-tool answers, as data.
async fn ask(client: &Client, name: &str, arguments: Value) -> Value {
    let result = client.call(name, &arguments).await;
    assert_ne!(result["isError"], true, "{name}: {result}");
    serde_json::from_str(&text_of(&result)).unwrap()
}

async fn call(client: &Client, name: &str, arguments: Value) -> Value {
    client.call("call_tool", &json!({ "name": name, "arguments": arguments })).await
}

#[tokio::test]
async fn a_family_s_tool_is_listed_once_and_called_on_the_server_that_is_named() {
    let house = TestGateway::settled(&[profile("muster", "dialect: muster"), member("east"), member("west")]).await;
    for client in house.both("muster") {
        let listed = strings(&ask(&client, "list_tools", json!({})).await["tools"], "name");
        let echoes: Vec<&String> = listed.iter().filter(|name| name.ends_with("_echo")).collect();
        assert_eq!(echoes, ["x_clock_echo"], "{listed:?}");
        let described = ask(&client, "describe_tool", json!({ "name": "x_clock_echo" })).await;
        let schema = &described["inputSchema"];
        assert_eq!(schema["properties"]["where"]["enum"], json!(["east", "west"]));
        assert_eq!(schema["required"], json!(["text", "where"]));
        let found = ask(&client, "filter_tools", json!({ "query": "process id", "limit": 50 })).await;
        let found = strings(&found["tools"], "name");
        assert_eq!(found.iter().filter(|name| name.ends_with("_pid")).count(), 1, "{found:?}");
        let mut pids = Vec::new();
        for place in ["east", "west"] {
            let result = call(&client, "x_clock_pid", json!({ "where": place })).await;
            assert_eq!(result["isError"], false, "{result}");
            let inner: Value = serde_json::from_str(&text_of(&result)).unwrap();
            pids.push(inner["content"][0]["text"].clone());
            let own = call(&client, &format!("x_{place}_pid"), json!({})).await;
            assert_eq!(text_of(&own), text_of(&result), "by its server's own name it is the same");
        }
        assert_ne!(pids[0], pids[1]);
        for (arguments, words) in [
            (json!({}), vec!["required field \"where\"", "`east`"]),
            (json!({ "where": "north" }), vec!["not available on server `north`", "`west`"]),
            (json!({ "where": 5 }), vec!["wrong type", "expected string"]),
        ] {
            let told = call(&client, "x_clock_pid", arguments.clone()).await;
            assert_eq!(told["isError"], true, "{arguments}");
            for word in words {
                assert!(text_of(&told).contains(word), "{arguments}: {word}: {told}");
            }
        }
    }
}

#[tokio::test]
async fn tools_that_are_not_alike_stay_with_their_servers() {
    let tool = |description: &str, properties: Value| json!([{ "name": "get", "description": description, "inputSchema": { "type": "object", "properties": properties } }]);
    let stopped = |name: &str, tools: &Value, family: &str| -> File {
        let text = format!("name: {name}\ncommand: never-started\nstart: manual\ntools: {tools}\nfamily: {family}\n");
        (format!("servers/{name}.yaml"), text)
    };
    let family = |name: &str, argument: &str| format!("{{name: {name}, instance_arg: {argument}}}");
    let (plain, with_where) = (tool("Gets", json!({})), tool("Gets", json!({ "where": { "type": "string" } })));
    let house = TestGateway::settled(&[
        profile("muster", "dialect: muster"),
        stopped("a1", &plain, &family("a", "where")),
        stopped("a2", &tool("Gets more", json!({})), &family("a", "where")),
        stopped("b1", &plain, &family("b", "where")),
        stopped("b2", &plain, &family("b", "which")),
        stopped("c1", &with_where, &family("c", "where")),
        stopped("c2", &with_where, &family("c", "where")),
        stopped("d1", &plain, &family("d", "where")),
    ])
    .await;
    let client = house.modern("muster");
    let listed = strings(&ask(&client, "list_tools", json!({})).await["tools"], "name");
    let listed: Vec<&str> = listed.iter().map(String::as_str).filter(|name| name.starts_with("x_")).collect();
    let expect = ["x_a1_get", "x_a2_get", "x_b1_get", "x_b2_get", "x_c1_get", "x_c2_get", "x_d_get"];
    assert_eq!(listed, expect, "descriptions, arguments' names and arguments differ; one server alone is a family");
}
