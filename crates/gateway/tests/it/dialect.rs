//! Every dialect's names work in every profile, and the profile's own dialect decides what a shared name means.

use serde_json::{Value, json};
use toolcrib_catalog::Dialect;
use toolcrib_testgateway::{TestGateway, profile, server, stopped, strings, text_of};
use toolcrib_view::dialect::{META_NAMES, lookup};

const DIALECTS: [&str; 4] = ["native", "muster", "go-ent", "scooter"];

fn dialect(name: &str) -> Dialect {
    let all = [Dialect::Native, Dialect::Muster, Dialect::GoEnt, Dialect::Scooter];
    all.into_iter().find(|dialect| dialect.as_str() == name).unwrap()
}

async fn house() -> TestGateway {
    let mut files = vec![server("alpha", &[])];
    files.extend(DIALECTS.map(|dialect| profile(dialect, &format!("dialect: {dialect}"))));
    TestGateway::settled(&files).await
}

#[tokio::test]
async fn what_is_missing_is_named_as_the_schema_names_it() {
    let house = house().await;
    for own in DIALECTS {
        let client = house.legacy(own);
        for meta in META_NAMES.iter().filter(|meta| meta.dialect.as_str() == own) {
            let schema: Value = serde_json::from_str(meta.schema).unwrap();
            let Some(required) = schema["required"][0].as_str() else { continue };
            let result = client.call(meta.name, &json!({})).await;
            assert_eq!(result["isError"], true, "{}", meta.name);
            assert!(text_of(&result).contains(required), "{} wants `{required}`: {result}", meta.name);
        }
    }
}

#[tokio::test]
async fn every_name_of_every_dialect_is_answered_in_every_profile() {
    let house = house().await;
    for own in DIALECTS {
        let exposed = match own {
            "muster" => "x_alpha_pid",
            "scooter" => "pid",
            _ => "alpha_pid",
        };
        for client in house.both(own) {
            // Everything that a meta-tool of any dialect could ask for.
            let all = json!({
                "name": exposed, "tool": exposed, "names": [exposed], "tool_name": "alpha", "query": "process id",
                "uri": "fake://text", "arguments": {}, "intent": "process id",
            });
            // Loads come before what needs them, and unloading before is its own error.
            client.call("scooter_add", &all).await;
            for meta in META_NAMES {
                let mut arguments = all.clone();
                if meta.name.ends_with("_prompt") {
                    let prompts = client.text("list_prompts", &json!({})).await;
                    let prompts: Value = serde_json::from_str(&prompts).unwrap();
                    let prompts = prompts.get("prompts").unwrap_or(&prompts);
                    arguments["name"] =
                        strings(prompts, "name").into_iter().find(|name| name.ends_with("plain")).into();
                }
                // muster's take nothing that they do not know.
                let schema: Value = serde_json::from_str(lookup(meta.name, dialect(own)).unwrap().schema).unwrap();
                arguments.as_object_mut().unwrap().retain(|key, _| schema["properties"].get(key).is_some());
                if meta.name.contains("remove") || meta.name.contains("deactivate") {
                    client.call("scooter_add", &all).await;
                }
                if meta.name.ends_with("_call") || meta.name == "call_tool" {
                    client.call("scooter_add", &all).await;
                }
                let result = client.call(meta.name, &arguments).await;
                assert_ne!(result["isError"], true, "{} in {own}: {result}", meta.name);
                assert!(result["content"].is_array(), "{} in {own}", meta.name);
            }
        }
    }
}

#[tokio::test]
async fn the_menu_is_the_profile_s_own_dialect() {
    let house = house().await;
    for (own, count, first) in [
        ("native", 3, "find_tools"),
        ("muster", 11, "list_tools"),
        ("go-ent", 6, "tool_find"),
        ("scooter", 8, "scooter_find"),
    ] {
        for client in house.both(own) {
            let listed = client.listed().await;
            assert_eq!((listed.len(), listed[0].as_str()), (count, first), "{own}: {listed:?}");
        }
    }
}

#[tokio::test]
async fn muster_s_call_tool_is_json_in_a_text_followed_by_what_is_not_text() {
    let house = house().await;
    let native = house.legacy("native").call("call_tool", &json!({"name": "alpha/mixed"})).await;
    for client in house.both("muster") {
        let result = client.call("call_tool", &json!({"name": "x_alpha_mixed", "arguments": {}})).await;
        assert_eq!(result["isError"], false);
        let inner: Value = serde_json::from_str(&text_of(&result)).unwrap();
        assert_eq!(inner["isError"], false);
        assert_eq!(inner["structuredContent"], native["structuredContent"]);
        let image = &native["content"][1];
        let size = image["data"].as_str().unwrap().trim_end_matches('=').len() * 3 / 4;
        assert_eq!(inner["content"][1], json!({"type": "image", "mimeType": "image/png", "dataSize": size}));
        assert_eq!(inner["content"][2]["type"], "audio");
        assert!(inner["content"][2]["data"].is_null());
        let blocks = native["content"].as_array().unwrap();
        assert_eq!(
            result["content"].as_array().unwrap()[1..],
            blocks[1..],
            "image, audio, resources and unknown blocks"
        );
        assert_eq!(result["structuredContent"], native["structuredContent"]);
        assert_eq!(result["_meta"]["example.com/trace"], "abc");
    }
}

#[tokio::test]
async fn muster_s_outer_is_error_mirrors_the_inner_one() {
    let client = house().await.legacy("muster");
    let failed = client.call("call_tool", &json!({"name": "x_alpha_fail", "arguments": {"message": "no"}})).await;
    let inner: Value = serde_json::from_str(&text_of(&failed)).unwrap();
    assert_eq!((&failed["isError"], &inner["isError"]), (&json!(true), &json!(true)));
    assert_eq!(inner["content"][0]["text"], "no");
}

#[tokio::test]
async fn a_direct_call_in_the_muster_dialect_is_refused_with_the_way_that_works() {
    let house = house().await;
    for client in house.both("muster") {
        for name in ["x_alpha_pid", "alpha/pid"] {
            let error = client.refused(name, &json!({})).await;
            assert_eq!(error.code, -32_602);
            assert!(error.message.contains("call_tool") && error.message.contains("x_alpha_pid"), "{}", error.message);
        }
        let described = client.call("describe_tool", &json!({"name": "x_alpha_echo"})).await;
        let value: Value = serde_json::from_str(&text_of(&described)).unwrap();
        assert_eq!(value["inputSchema"]["required"], json!(["text"]));
        let core = client.call("core_list_tools", &json!({})).await;
        assert_ne!(core["isError"], true, "each meta-tool also has a `core_` name");
    }
}

#[tokio::test]
async fn muster_s_filter_tools_filters_and_counts() {
    let client = house().await.modern("muster");
    let found = client.call("filter_tools", &json!({"pattern": "x_alpha_*c*", "limit": 2})).await;
    let value: Value = serde_json::from_str(&text_of(&found)).unwrap();
    assert_eq!(value["filtered_count"], 2, "{value}");
    assert_eq!(value["truncated"], true);
    let rest = client.call("filter_tools", &json!({"pattern": "x_alpha_*c*", "limit": 100, "offset": 2})).await;
    let rest: Value = serde_json::from_str(&text_of(&rest)).unwrap();
    assert_eq!(rest["total"], value["total"]);
    assert_eq!(rest["filtered_count"].as_u64().unwrap() + 2, value["total"].as_u64().unwrap());
    let none = client.call("filter_tools", &json!({"limit": 0})).await;
    assert_eq!(none["isError"], true);
}

#[tokio::test]
async fn go_ent_s_answers_have_their_form() {
    let client = house().await.legacy("go-ent");
    let found = client.call("tool_find", &json!({"query": "adds two numbers"})).await;
    assert!(text_of(&found).starts_with("# Found ") && text_of(&found).contains("**alpha_add**"), "{found}");
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "alpha_add");
    assert_eq!(found["structuredContent"]["tools"][0]["active"], false);
    let loaded = client.call("tool_load", &json!({"names": ["alpha_add"]})).await;
    assert_eq!(loaded["structuredContent"]["count"], 1);
    let found = client.call("tool_find", &json!({"query": "adds two numbers"})).await;
    assert!(text_of(&found).contains("**alpha_add** ✓ (active)"), "{found}");
    let described = client.call("tool_describe", &json!({"name": "alpha_add"})).await;
    assert!(text_of(&described).starts_with("# alpha_add\n") && text_of(&described).contains("**Active:** Yes"));
    let sum = client.text("tool_call", &json!({"name": "alpha_add", "arguments": {"a": 1, "b": 2}})).await;
    assert_eq!(sum, "3");
    let active = client.call("tool_active", &json!({})).await;
    assert!(text_of(&active).contains("**alpha_add**"), "{active}");
    client.call("tool_unload", &json!({"names": ["alpha_add"]})).await;
    assert_eq!(text_of(&client.call("tool_active", &json!({})).await), "No tools are currently active.");
}

#[tokio::test]
async fn scooter_loads_by_server_and_calls_bare_names() {
    let client = house().await.legacy("scooter");
    let found = client.call("scooter_find", &json!({"query": "process id"})).await;
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "alpha", "{found}");
    let early = client.call("scooter_call", &json!({"tool": "echo", "arguments": {"text": "a"}})).await;
    assert_eq!(early["isError"], true);
    assert!(text_of(&early).contains("`alpha`") && text_of(&early).contains("scooter_add"), "{early}");
    let added = client.call("scooter_add", &json!({"tool_name": "alpha"})).await;
    assert_eq!(added["structuredContent"]["status"], "activated");
    assert_eq!(added["structuredContent"]["tool_count"], 15);
    let again = client.call("scooter_activate", &json!({"tool_name": "alpha"})).await;
    assert_eq!(again["structuredContent"]["status"], "already_active");
    let echoed = client.text("scooter_call", &json!({"tool": "echo", "arguments": {"text": "a"}})).await;
    assert_eq!(echoed, "a");
    let active = client.call("scooter_list_active", &json!({})).await;
    assert_eq!(active["structuredContent"]["active_servers"][0]["server"], "alpha");
    client.call("scooter_remove", &json!({"tool_name": "alpha"})).await;
    let late = client.call("scooter_call", &json!({"tool": "echo", "arguments": {"text": "a"}})).await;
    assert_eq!(late["isError"], true);
    let twice = client.call("scooter_deactivate", &json!({"tool_name": "alpha"})).await;
    assert_eq!(twice["isError"], true);
    let all = client.call("scooter_deactivate", &json!({"all": true})).await;
    assert_ne!(all["isError"], true, "taking everything out of nothing is fine");
}

#[tokio::test]
async fn own_meta_tools_win_over_server_tools_and_these_over_names_of_other_dialects() {
    let tools = ["find_tools", "tool_find", "scooter_find"];
    let lines = "prefix: none\nexposure: direct";
    for exposure in ["direct", "pinned\npinned: [\"*\"]"] {
        let house = TestGateway::settled(&[
            stopped("alpha", &tools, ""),
            profile("default", &lines.replace("direct", exposure)),
        ])
        .await;
        let client = house.modern("default");
        let listed = client.listed().await;
        assert!(listed.contains(&"alpha_find_tools".to_owned()), "{exposure}: {listed:?}");
        assert!(listed.contains(&"tool_find".to_owned()), "{exposure}: {listed:?}");
        assert_eq!(listed.iter().filter(|name| *name == "find_tools").count(), usize::from(exposure != "direct"));
        let found = client.call("find_tools", &json!({})).await;
        assert_eq!(found["structuredContent"]["total"], 3, "the own meta-tool answers");
        // The server's own tool answers: the server is stopped, and says so.
        let away = client.call("tool_find", &json!({"query": "x"})).await;
        assert!(text_of(&away).contains("server `alpha` is stopped"), "{away}");
        let away = client.call("alpha_find_tools", &json!({})).await;
        assert!(text_of(&away).contains("server `alpha` is stopped"), "{away}");
    }
}

#[tokio::test]
async fn a_call_of_a_call_is_not_a_call() {
    let client = house().await.modern("native");
    let inner = json!({"name": "call_tool", "arguments": {"name": "alpha/pid"}});
    let result = client.call("call_tool", &inner).await;
    assert_eq!(result["isError"], true);
    assert!(text_of(&result).contains("tool not found: `call_tool`"), "{result}");
    let described = json!({"name": "describe_tool", "arguments": {"name": "alpha/pid"}});
    assert_eq!(client.call("call_tool", &described).await["structuredContent"]["id"], "alpha/pid");
}
