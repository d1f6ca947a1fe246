//! The arguments of muster's meta-tools: what nobody knows, what has another type, what is out of bounds; and the
//! meta-tools themselves, described.

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile, server, stopped, text_of};
use toolcrib_view::dialect::META_NAMES;

async fn house() -> TestGateway {
    TestGateway::settled(&[profile("muster", "dialect: muster"), server("alpha", &[])]).await
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

#[tokio::test]
async fn a_meta_tool_that_is_called_through_call_tool_stands_in_its_result() {
    let house = house().await;
    let client = house.legacy("muster");
    for (name, arguments, part) in [
        ("filter_tools", json!({ "limit": 1 }), "total_tools"),
        ("core_list_resources", json!({}), "fake://text"),
        ("get_resource", json!({ "uri": "fake://text" }), "embedded"),
        ("core_get_prompt", json!({ "name": "x_alpha_plain" }), "role"),
    ] {
        let result = client.call("call_tool", &json!({ "name": name, "arguments": arguments })).await;
        let inner: Value = serde_json::from_str(&text_of(&result)).unwrap();
        assert_eq!((&result["isError"], &inner["isError"]), (&json!(false), &json!(false)), "{name}: {result}");
        assert!(inner["content"][0]["text"].as_str().unwrap().contains(part), "{name}: {inner}");
    }
    let failed = client.call("call_tool", &json!({ "name": "filter_tools", "arguments": { "limit": 0 } })).await;
    let inner: Value = serde_json::from_str(&text_of(&failed)).unwrap();
    assert_eq!((&failed["isError"], &inner["isError"]), (&json!(true), &json!(true)));
    for name in ["call_tool", "core_call_tool"] {
        let refused = client.call("call_tool", &json!({ "name": name, "arguments": { "name": "x_alpha_pid" } })).await;
        assert!(text_of(&refused).contains("`call_tool` cannot call itself"), "{refused}");
    }
}

#[tokio::test]
async fn arguments_of_prompts_are_texts_and_the_status_is_a_resource() {
    let house = house().await;
    let client = house.legacy("muster");
    let asked = json!({ "name": "x_alpha_greet", "arguments": { "who": 5, "style": null } });
    assert!(client.text("get_prompt", &asked).await.contains("Greet 5."));
    let refused = client.call("get_prompt", &json!({ "name": "x_alpha_greet", "arguments": { "who": ["x"] } })).await;
    assert!(text_of(&refused).contains("`arguments.who` must be a string"), "{refused}");
    let described = client.text("describe_resource", &json!({ "uri": "auth://status" })).await;
    assert!(described.contains("auth://status"), "{described}");
}

#[tokio::test]
async fn a_tool_is_called_by_its_name_in_full_where_another_is_exposed() {
    let long = "very_long_".repeat(8);
    let odd = stopped("odd", &["gr\u{fc}\u{df}e", &long, "gr_"], "");
    let house = TestGateway::settled(&[profile("muster", "dialect: muster"), odd]).await;
    let client = house.legacy("muster");
    for tool in ["gr\u{fc}\u{df}e", &long] {
        let described = client.text("describe_tool", &json!({ "name": format!("x_odd_{tool}") })).await;
        let described: Value = serde_json::from_str(&described).unwrap();
        let exposed = described["name"].as_str().unwrap();
        assert!(exposed.is_ascii() && exposed.len() <= 64, "{exposed}");
        assert_eq!(client.text("describe_tool", &json!({ "name": exposed })).await, described_text(&described));
    }
    // Only the tool whose name it is, and no other that is exposed alike.
    for name in ["x_odd_gr\u{fc}\u{e4}e", "x_odd_gr\u{fc}", &format!("x_odd_{long}x")] {
        let unknown = client.call("describe_tool", &json!({ "name": name })).await;
        assert!(text_of(&unknown).starts_with("Tool not found"), "{unknown}");
    }
}

fn described_text(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[tokio::test]
async fn a_tool_of_a_server_that_could_not_start_says_so() {
    let broken = ("servers/broken.yaml".to_owned(), "name: broken\ncommand: no-such-program-here\n".to_owned());
    let house = TestGateway::settled(&[profile("muster", "dialect: muster"), broken]).await;
    let client = house.legacy("muster");
    let unknown = client.call("call_tool", &json!({ "name": "x_broken_do" })).await;
    let text = text_of(&unknown);
    assert!(text.starts_with("tool not found: `x_broken_do`") && text.contains("`broken` is failed"), "{text}");
    let read = client.ask("resources/read", &json!({ "uri": "auth://status" })).await.unwrap();
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("\"failed\""), "{read}");
}

#[tokio::test]
async fn what_cannot_be_a_name_is_not_found() {
    let house = house().await;
    let client = house.legacy("muster").admin();
    for kind in [
        "mcpserver_get",
        "mcpserver_delete",
        "mcpserver_update",
        "mcpserver_start",
        "mcpserver_stop",
        "mcpserver_restart",
    ] {
        for name in ["No_Such", "../alpha", &"n".repeat(300)] {
            let mut arguments = json!({ "name": name });
            if kind == "mcpserver_update" {
                arguments["command"] = "x".into();
            }
            let called = json!({ "name": format!("core_{kind}"), "arguments": arguments });
            let refused = client.call("call_tool", &called).await;
            assert_eq!(refused["isError"], true, "{kind} {name}: {refused}");
            let text = text_of(&refused);
            assert!(text.contains("not found") && text.len() < 1_000, "{kind} {name}: {text}");
        }
    }
    let profile =
        client.call("call_tool", &json!({ "name": "core_profile_get", "arguments": { "name": "A b" } })).await;
    assert!(text_of(&profile).contains("profile `A b` not found"), "{profile}");
}

#[tokio::test]
async fn a_long_question_is_not_repeated_whole() {
    let client = house().await.legacy("muster");
    for key in ["query", "description_filter"] {
        let asked = client.text("filter_tools", &json!({ key: "\u{fc}".repeat(5_000) })).await;
        let value: Value = serde_json::from_str(&asked).unwrap();
        let told = value["filters"][key].as_str().unwrap();
        assert!(told.chars().count() == 201 && told.ends_with('\u{2026}'), "{key}: {told}");
        assert_eq!(value["total"], 0);
    }
}
