//! Tool discovery as the go-ent dialect promises it, scenario by scenario: find, describe, load, active, old names.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, strings, text_of};

/// Tools of a server as go-ent has them, never started.
fn go_ent() -> Vec<File> {
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let tool = |name: &str, description: &str| json!({"name": name, "description": description, "inputSchema": schema});
    let mut tools = vec![
        tool("spec_validate", "Validate a spec against its rules"),
        tool("spec_create", "Create a new spec"),
        tool("spec_list", "List all specs"),
        tool("registry_list", "List the tasks of the registry"),
        tool("registry_next", "Recommend the next task"),
    ];
    tools[0]["annotations"] = json!({"readOnlyHint": true});
    tools[0]["examples"] = json!([{"id": "auth"}]);
    let server = format!(
        "name: ent\ncommand: never-started\nstart: manual\ncategory: specs\nkeywords: [openspec, proposal]\n\
         renamed: {{check_spec: verify_spec, verify_spec: spec_validate, secret_old: hidden}}\ntools: {}\n",
        json!(tools)
    );
    vec![("servers/ent.yaml".to_owned(), server), profile("default", "dialect: go-ent\nprefix: none")]
}

async fn house() -> TestGateway {
    TestGateway::settled(&go_ent()).await
}

async fn active(client: &Client) -> Vec<String> {
    let result = client.call("tool_active", &json!({})).await;
    let value = &result["structuredContent"];
    assert_eq!(value["count"], value["tools"].as_array().unwrap().len());
    strings(&value["tools"], "name")
}

async fn load(client: &Client, names: &[&str]) -> Value {
    client.call("tool_load", &json!({"names": names})).await
}

async fn found(client: &Client, arguments: Value) -> (String, Value) {
    let result = client.call("tool_find", &arguments).await;
    (text_of(&result), result["structuredContent"].clone())
}

#[tokio::test]
async fn finding_matches_words_and_ranks_the_best_first() {
    let house = house().await;
    for client in house.both("default") {
        let (text, value) = found(&client, json!({"query": "validate spec"})).await;
        assert_eq!(strings(&value["tools"], "name")[0], "spec_validate");
        let scores: Vec<f64> =
            value["tools"].as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
        assert!(scores.len() > 1 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
        assert!(text.contains("1. **spec_validate**") && text.contains("Validate a spec against its rules"), "{text}");
    }
}

#[tokio::test]
async fn finding_marks_active_tools() {
    let house = house().await;
    for client in house.both("default") {
        load(&client, &["spec_list"]).await;
        let (text, value) = found(&client, json!({"query": "spec"})).await;
        let marked = |hit: &&Value| hit["active"] == true;
        let hits = value["tools"].as_array().unwrap();
        assert_eq!(hits.iter().filter(marked).map(|hit| &hit["name"]).collect::<Vec<_>>(), ["spec_list"]);
        assert_eq!(text.matches("✓ (active)").count(), 1);
    }
}

#[tokio::test]
async fn finding_gives_at_most_as_many_as_asked_for() {
    let house = house().await;
    for client in house.both("default") {
        let (_, all) = found(&client, json!({"query": "spec"})).await;
        let (_, some) = found(&client, json!({"query": "spec", "limit": 2})).await;
        assert_eq!(strings(&some["tools"], "name"), strings(&all["tools"], "name")[..2]);
        let (text, none) = found(&client, json!({"query": "zzyzx"})).await;
        assert!(text.contains("No tools found") && none["tools"] == json!([]), "{text}");
        assert_eq!(client.call("tool_find", &json!({"query": ""})).await["isError"], true);
    }
}

#[tokio::test]
async fn describing_tells_all_of_a_tool() {
    let house = house().await;
    for client in house.both("default") {
        let described = client.call("tool_describe", &json!({"name": "spec_validate"})).await;
        let value = &described["structuredContent"];
        assert_eq!((&value["name"], &value["active"]), (&json!("spec_validate"), &json!(false)));
        assert_eq!((&value["category"], &value["keywords"]), (&json!("specs"), &json!(["openspec", "proposal"])));
        assert_eq!(value["inputSchema"]["required"], json!(["id"]));
        assert_eq!(value["annotations"]["readOnlyHint"], true);
        assert_eq!(value["examples"], json!([{"id": "auth"}]));
        assert_eq!(value["state"], "stopped");
        let text = text_of(&described);
        for part in
            ["# spec_validate", "**Active:** No", "**Category:** specs", "openspec, proposal", "\"id\"", "```json"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        load(&client, &["spec_validate"]).await;
        let described = client.call("tool_describe", &json!({"name": "spec_validate"})).await;
        assert_eq!(described["structuredContent"]["active"], true);
    }
}

#[tokio::test]
async fn describing_what_is_unknown_is_an_error_that_names_the_nearest_and_the_search() {
    let house = house().await;
    for client in house.both("default") {
        let failed = client.call("tool_describe", &json!({"name": "spec_validat"})).await;
        assert_eq!(failed["isError"], true);
        assert_eq!(failed["_meta"]["toolcrib/error"], "unknown-tool");
        let text = text_of(&failed);
        assert!(text.contains("`spec_validate`") && text.contains("tool_find"), "{text}");
    }
}

#[tokio::test]
async fn loading_makes_tools_active_and_tells_the_total() {
    let house = house().await;
    for client in house.both("default") {
        let loaded = load(&client, &["spec_list", "spec_create"]).await;
        assert_eq!(loaded["structuredContent"]["count"], 2);
        let text = text_of(&loaded);
        assert!(text.contains("Loaded 2 tool(s)") && text.contains("Total active: 2"), "{text}");
        let names = strings(&loaded["structuredContent"]["loaded"], "name");
        assert_eq!(names, ["spec_create", "spec_list"], "with their definitions");
        assert_eq!(active(&client).await, ["spec_create", "spec_list"]);
    }
}

#[tokio::test]
async fn loading_what_is_active_is_no_error() {
    let house = house().await;
    for client in house.both("default") {
        load(&client, &["spec_list"]).await;
        let again = load(&client, &["spec_list", "spec_create", "spec_list"]).await;
        assert_ne!(again["isError"], true);
        assert_eq!(again["structuredContent"]["count"], 2);
        assert_eq!(active(&client).await, ["spec_create", "spec_list"]);
    }
}

#[tokio::test]
async fn loading_an_unknown_tool_is_an_error_and_nothing_becomes_active() {
    let house = house().await;
    for client in house.both("default") {
        let failed = load(&client, &["spec_list", "spec_lost"]).await;
        assert_eq!(failed["isError"], true);
        let text = text_of(&failed);
        assert!(text.contains("`spec_lost`") && text.contains("nothing was loaded"), "{text}");
        assert_eq!(active(&client).await, Vec::<String>::new());
        assert_eq!(load(&client, &[]).await["isError"], true, "an empty list is a mistake");
    }
}

#[tokio::test]
async fn active_tools_are_listed_with_descriptions_or_a_message() {
    let house = house().await;
    for client in house.both("default") {
        let none = client.call("tool_active", &json!({})).await;
        assert_eq!(text_of(&none), "No tools are currently active.");
        assert_eq!(none["structuredContent"], json!({"count": 0, "tools": []}));
        load(&client, &["registry_next", "spec_list"]).await;
        let some = client.call("tool_active", &json!({})).await;
        let text = text_of(&some);
        assert!(text.starts_with("2 active tools:"), "{text}");
        assert!(text.contains("**registry_next** – Recommend the next task"), "{text}");
    }
}

#[tokio::test]
async fn the_index_is_there_from_the_start_and_a_rebuild_changes_no_result() {
    let house = house().await;
    let client = house.modern("default");
    let queries = ["validate spec", "registry list tasks", "list", "create a new spec", "next"];
    let mut before = Vec::new();
    for query in queries {
        before.push(found(&client, json!({"query": query})).await);
    }
    assert!(before.iter().all(|(_, value)| !value["tools"].as_array().unwrap().is_empty()));
    for _ in 0..2 {
        house.apply(&[profile("other", "")]).await;
        house.apply(&[("profiles/other.yaml".to_owned(), String::new())]).await;
    }
    for (query, before) in queries.iter().zip(before) {
        assert_eq!(found(&client, json!({"query": query})).await, before, "{query}");
    }
}

#[tokio::test]
async fn an_old_name_is_an_error_that_names_the_new_one() {
    let house = house().await;
    for client in house.both("default") {
        for (old, new) in [
            ("go_ent_spec_validate", "spec_validate"),
            ("go_ent_tool_find", "tool_find"),
            ("verify_spec", "spec_validate"),
            ("check_spec", "spec_validate"),
            ("ent/check_spec", "spec_validate"),
            ("ent_verify_spec", "spec_validate"),
        ] {
            let error = client.refused(old, &json!({"id": "a"})).await;
            assert_eq!(error.code, -32_602);
            let told = format!("tool not found: `{old}`; it was renamed to `{new}`");
            assert!(error.message.starts_with(&told) && error.message.contains("tool_find"), "{}", error.message);
            for (tool, arguments) in [
                ("tool_describe", json!({"name": old})),
                ("tool_call", json!({"name": old, "arguments": {}})),
                ("tool_load", json!({"names": [old]})),
            ] {
                let failed = client.call(tool, &arguments).await;
                assert_eq!(
                    (&failed["isError"], &failed["_meta"]["toolcrib/error"]),
                    (&json!(true), &json!("unknown-tool"))
                );
                assert!(text_of(&failed).contains(&told), "{tool} {old}: {failed}");
            }
        }
    }
}

#[tokio::test]
async fn an_old_name_of_what_a_profile_hides_means_nothing() {
    let mut files = go_ent();
    files.push(profile("narrow", "dialect: go-ent\nprefix: none\ntools: {deny: [ent/spec_validate]}"));
    let house = TestGateway::settled(&files).await;
    for client in house.both("narrow") {
        for name in ["verify_spec", "go_ent_spec_validate", "secret_old"] {
            let message = client.refused(name, &json!({})).await.message;
            assert!(!message.contains("renamed") && !message.contains("`spec_validate`"), "{message}");
        }
    }
}
