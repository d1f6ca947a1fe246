//! The arguments of muster's meta-tools: what nobody knows, what has another type, what is out of bounds; and the
//! meta-tools themselves, described.

use serde_json::{Value, json};
use toolcrib_gateway::dialect::META_NAMES;

use crate::house::{House, profile, server, text_of};

async fn house() -> House {
    House::settled(&[profile("muster", "dialect: muster"), server("alpha", &[])]).await
}

#[tokio::test]
async fn arguments_that_no_meta_tool_knows_are_named_with_the_nearest() {
    let house = house().await;
    for client in house.both("muster") {
        for (name, arguments, words) in [
            ("filter_tools", json!({ "patern": "x" }), vec!["unknown argument `patern`", "Did you mean `pattern`?"]),
            ("core_filter_tools", json!({ "limits": 3 }), vec!["unknown argument `limits`", "`limit`"]),
            ("filter_tools", json!({ "server": "alpha" }), vec!["unknown argument `server`", "`query`"]),
            ("list_tools", json!({ "pattern": "x" }), vec!["unknown argument `pattern`", "`offset`"]),
            ("list_core_tools", json!({ "include_schemas": true }), vec!["unknown argument", "`include_schema`"]),
            ("describe_tool", json!({ "name": "x_alpha_echo", "nam": 1 }), vec!["unknown argument `nam`", "`name`"]),
            ("call_tool", json!({ "name": "x_alpha_pid", "argument": {} }), vec!["`argument`", "`arguments`"]),
            ("call_tool", json!({ "name": "x_alpha_pid", "tool": "x" }), vec!["unknown argument `tool`"]),
            ("list_resources", json!({ "x": 1 }), vec!["unknown argument `x`", "There are no arguments here."]),
            ("list_prompts", json!({ "limit": 1 }), vec!["unknown argument `limit`"]),
            ("describe_resource", json!({ "url": "fake://text" }), vec!["unknown argument `url`", "`uri`"]),
            ("get_resource", json!({ "uri": "fake://text", "range": 1 }), vec!["unknown argument `range`"]),
            ("describe_prompt", json!({ "names": ["x"] }), vec!["unknown argument `names`", "`name`"]),
            ("get_prompt", json!({ "name": "x_alpha_plain", "args": {} }), vec!["unknown argument `args`"]),
        ] {
            let refused = client.call(name, &arguments).await;
            assert_eq!(refused["isError"], true, "{name} {arguments}: {refused}");
            for word in words {
                assert!(text_of(&refused).contains(word), "{name} {arguments}: {word}: {refused}");
            }
        }
        // What stands for the name in scooter's words is understood.
        let called = client.call("call_tool", &json!({ "tool": "x_alpha_pid" })).await;
        assert_eq!(called["isError"], false, "{called}");
    }
}

#[tokio::test]
async fn arguments_of_another_type_and_out_of_bounds_are_named() {
    let client = house().await.legacy("muster");
    for (name, arguments, expect) in [
        ("describe_tool", json!({ "name": 5 }), "`name` must be a string"),
        ("describe_tool", json!({ "name": "" }), "name argument is required"),
        ("describe_tool", json!({ "name": null }), "name argument is required"),
        ("call_tool", json!({ "name": ["x"] }), "`name` must be a string"),
        ("call_tool", json!({}), "name argument is required"),
        ("call_tool", json!({ "name": "x_alpha_pid", "arguments": "no" }), "arguments must be a JSON object"),
        ("call_tool", json!({ "name": "x_alpha_pid", "arguments": [1] }), "arguments must be a JSON object"),
        ("get_resource", json!({ "uri": {} }), "`uri` must be a string"),
        ("describe_resource", json!({}), "uri argument is required"),
        ("get_prompt", json!({ "name": true }), "`name` must be a string"),
        ("get_prompt", json!({ "name": "x_alpha_plain", "arguments": 5 }), "arguments must be a JSON object"),
        ("describe_prompt", json!({ "name": 1 }), "`name` must be a string"),
        ("filter_tools", json!({ "pattern": 5 }), "`pattern` must be a string"),
        ("filter_tools", json!({ "query": ["a"] }), "`query` must be a string"),
        ("filter_tools", json!({ "description_filter": {} }), "`description_filter` must be a string"),
        ("filter_tools", json!({ "labels": "team=a" }), "labels must be an object of texts"),
        ("filter_tools", json!({ "labels": { "team": 1 } }), "labels must be an object of texts"),
        ("filter_tools", json!({ "case_sensitive": "maybe" }), "`case_sensitive` must be true or false"),
        ("filter_tools", json!({ "include_schema": 1 }), "`include_schema` must be true or false"),
        ("list_core_tools", json!({ "include_schema": "yes" }), "`include_schema` must be true or false"),
        ("filter_tools", json!({ "limit": 0 }), "limit must be at least 1"),
        ("filter_tools", json!({ "limit": -1 }), "`limit` must be a whole number"),
        ("filter_tools", json!({ "limit": 1.5 }), "`limit` must be a whole number"),
        ("filter_tools", json!({ "limit": "many" }), "`limit` must be a whole number"),
        ("filter_tools", json!({ "offset": -1 }), "`offset` must be a whole number"),
        ("list_tools", json!({ "limit": 0 }), "limit must be at least 1"),
        ("list_tools", json!({ "offset": [] }), "`offset` must be a whole number"),
    ] {
        let refused = client.call(name, &arguments).await;
        assert_eq!(refused["isError"], true, "{name} {arguments}: {refused}");
        assert!(text_of(&refused).contains(expect), "{name} {arguments}: {refused}");
    }
}

#[tokio::test]
async fn a_limit_above_the_most_is_lowered_and_says_so() {
    let client = house().await.legacy("muster");
    for name in ["filter_tools", "list_tools"] {
        let page = client.call(name, &json!({ "limit": 100_000 })).await;
        let page: Value = serde_json::from_str(&text_of(&page)).unwrap();
        assert!(page["hint"].as_str().unwrap().contains("limit is at most 1000"), "{name}: {page}");
        let page = client.call(name, &json!({ "limit": 1_000.0 })).await;
        let page: Value = serde_json::from_str(&text_of(&page)).unwrap();
        assert_eq!((page["truncated"].clone(), page.get("hint")), (json!(false), None), "{name}: {page}");
    }
}

#[tokio::test]
async fn meta_tools_are_described_by_each_of_their_names() {
    let house = house().await;
    let client = house.legacy("muster");
    for meta in META_NAMES.iter().filter(|meta| meta.dialect.as_str() == "muster") {
        for name in [meta.name.to_owned(), format!("core_{}", meta.name)] {
            let described = client.call("describe_tool", &json!({ "name": name })).await;
            let value: Value = serde_json::from_str(&text_of(&described)).unwrap();
            assert_eq!((&value["name"], &value["description"]), (&json!(meta.name), &json!(meta.description)));
            assert_eq!(value["inputSchema"], serde_json::from_str::<Value>(meta.schema).unwrap(), "{name}");
        }
    }
    let native = house.legacy("default").call("describe_tool", &json!({ "name": "find_tools" })).await;
    assert_eq!(native["structuredContent"]["name"], "find_tools");
    assert!(native["structuredContent"]["inputSchema"]["properties"]["query"].is_object(), "{native}");
}
