//! Arguments are checked before anything reaches a server.

use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_testgateway::{TestGateway, server, stopped, text_of};

#[tokio::test]
async fn wrong_arguments_are_answered_with_the_part_of_the_schema_that_says_so() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        for (arguments, parts) in [
            (json!({}), ["\"a\"", "required", "\"number\""]),
            (json!({"a": "x", "b": 2}), ["`/a`", "\"number\"", "x"]),
            (json!({"a": 1, "b": []}), ["`/b`", "\"number\"", "[]"]),
        ] {
            let direct = client.call("alpha_add", &arguments).await;
            let inner = client.call("call_tool", &json!({"name": "alpha/add", "arguments": arguments})).await;
            for result in [direct, inner] {
                assert_eq!(result["isError"], true);
                assert_eq!(result["_meta"]["toolcrib/error"], "invalid-params");
                let text = text_of(&result);
                assert!(text.contains("`alpha/add`") && parts.iter().all(|part| text.contains(part)), "{text}");
                assert!(text.len() < 2_000);
            }
        }
    }
}

#[tokio::test]
async fn nothing_reaches_the_server_when_the_arguments_are_wrong() {
    let house = TestGateway::settled(&[server("alpha", &["--list-changed-after", "1"])]).await;
    let client = house.legacy("default");
    for name in ["alpha_echo", "alpha_add", "alpha_env"] {
        assert_eq!(client.call(name, &json!({"text": 7, "name": 7})).await["isError"], true);
    }
    // A server that had seen any call would list one more tool.
    house.server("alpha").order_refresh();
    let count = |house: &TestGateway| house.server("alpha").inventory().tools.len();
    assert_eq!(client.text("alpha_counter", &json!({})).await, "1");
    house.until("the tool that comes after the first call", |_| count(&house) == 16).await;
    let outcomes: Vec<_> = house.audited().await.into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, ["error:invalid-params", "error:invalid-params", "error:invalid-params", "ok"]);
}

#[tokio::test]
async fn a_schema_that_does_not_compile_disables_the_check_and_the_call_works() {
    let house = TestGateway::settled(&[server("alpha", &["--bad-tool"])]).await;
    for client in house.both("default") {
        for name in ["alpha_bad_schema", "alpha_no_schema"] {
            // The fake server lists the tool and does not know it, so its own answer proves that it was asked.
            let error = client.refused(name, &json!({"text": 7})).await;
            assert!(error.message.contains("unknown tool"), "{name}: {error:?}");
            let described = client.call("describe_tool", &json!({"name": name})).await;
            assert_ne!(described["isError"], true);
        }
    }
}

#[tokio::test]
async fn arguments_of_the_wrong_form_are_refused_before_any_tool_is_looked_for() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        for params in [
            json!({}),
            json!({"name": 7}),
            json!({"name": null, "arguments": {}}),
            json!({"name": "alpha_pid", "arguments": []}),
            json!({"name": "alpha_pid", "arguments": "{}"}),
        ] {
            let error = client.ask("tools/call", &params).await.unwrap_err();
            assert_eq!(error.code, -32_602, "{params}");
            assert!(error.message.contains("params."), "{}", error.message);
        }
        for params in [json!({"name": "alpha_pid"}), json!({"name": "alpha_pid", "arguments": null})] {
            assert!(client.ask("tools/call", &params).await.is_ok(), "{params}");
        }
    }
}

#[tokio::test]
async fn call_tool_takes_arguments_as_an_object_or_as_its_json_text() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern("default");
    for arguments in [json!({"text": "a"}), json!("{\"text\": \"a\"}")] {
        assert_eq!(client.text("call_tool", &json!({"name": "alpha/echo", "arguments": arguments})).await, "a");
    }
    for arguments in [json!([]), json!(7), json!("[]"), json!("{"), json!("{\"text\":1,\"text\":2}")] {
        let result = client.call("call_tool", &json!({"name": "alpha/echo", "arguments": arguments})).await;
        assert_eq!(result["isError"], true, "{arguments}");
        assert!(text_of(&result).contains("must be a JSON object"), "{result}");
    }
    for (arguments, expect) in [
        (json!({}), "name argument is required"),
        (json!({"name": ""}), "name argument is required"),
        (json!({"name": 7}), "`name` must be a string"),
    ] {
        let result = client.call("call_tool", &arguments).await;
        assert!(text_of(&result).contains(expect), "{result}");
    }
}

#[tokio::test]
async fn wrong_arguments_of_meta_tools_and_operations_are_named() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], "")]).await;
    let client = house.modern("default").admin();
    for (name, arguments, part) in [
        ("find_tools", json!({"query": 7}), "`query` must be a string"),
        ("find_tools", json!({"limit": 0}), "`limit` must be from 1 to 100"),
        ("find_tools", json!({"limit": 1e30}), "`limit`"),
        ("find_tools", json!({"detail": "all"}), "`detail`"),
        ("describe_tool", json!({}), "name argument is required"),
        ("load_tools", json!({"names": "alpha_one"}), "`names` must be a list"),
        ("load_tools", json!({"names": []}), "`names` must be a list"),
        ("load_tools", json!({"names": [7]}), "`names` must be a list"),
        ("read_resource", json!({}), "uri argument is required"),
        ("core_tool_list", json!({"no_such": 1}), "no_such"),
        ("core_tool_list", json!({"pattern": "["}), "not a glob"),
        ("core_audit_list", json!({"limit": "x"}), "`/limit`"),
    ] {
        let result = client.call(name, &arguments).await;
        assert_eq!(result["isError"], true, "{name} {arguments}");
        assert!(text_of(&result).contains(part), "{name} {arguments}: {}", text_of(&result));
    }
}

/// A schema may be as hostile as it likes: the check must end, and must not take the process with it.
#[tokio::test]
async fn a_schema_that_refers_to_itself_or_explodes_does_not_hang_or_crash_the_gateway() {
    let mut bomb = serde_json::Map::new();
    for level in 0..40 {
        let next = format!("#/$defs/d{}", level + 1);
        bomb.insert(format!("d{level}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
    }
    bomb.insert("d40".into(), json!({"type": "object"}));
    let mut chain = serde_json::Map::new();
    for link in 0..5_000 {
        chain.insert(format!("d{link}"), json!({"$ref": format!("#/$defs/d{}", link + 1)}));
    }
    chain.insert("d5000".into(), json!({"type": "object"}));
    let hostile = [
        ("itself", json!({"$ref": "#"})),
        (
            "loop",
            json!({"type": "object", "allOf": [{"$ref": "#/$defs/a"}],
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
        ),
        ("dynamic", json!({"$dynamicRef": "#here", "$dynamicAnchor": "here"})),
        ("nothing", json!({"not": {"$ref": "#"}})),
        ("chain", json!({"$ref": "#/$defs/d0", "$defs": chain})),
        ("bomb", json!({"type": "object", "$ref": "#/$defs/d0", "$defs": bomb})),
    ];
    let tools: Vec<Value> = hostile.iter().map(|(name, schema)| json!({"name": name, "inputSchema": schema})).collect();
    let file = format!("name: alpha\ncommand: never-started\nstart: manual\ntools: {}\n", json!(tools));
    let house = TestGateway::settled(&[("servers/alpha.yaml".to_owned(), file)]).await;
    let client = house.legacy("default");
    assert_eq!(client.found(&json!({"limit": 8, "detail": "schemas"})).await.len(), hostile.len());
    for (name, _) in hostile {
        let described = client.call("describe_tool", &json!({"name": format!("alpha/{name}")})).await;
        assert_ne!(described["isError"], true, "{name}");
        let params = Raw::from_value(&json!({"name": format!("alpha/{name}"), "arguments": {"a": {"a": {}}}}));
        let result = client.raw("tools/call", &params).await.unwrap().to_value();
        // What a schema that contradicts itself says of arguments is anybody's guess.
        assert!(name == "nothing" || text_of(&result).contains("server `alpha` is stopped"), "{name}: {result}");
    }
}
