//! muster's lists: whole, in honest pages, filtered by every means, with what was asked for in the answer.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped, strings, text_of};

async fn ask(client: &Client, name: &str, arguments: Value) -> Value {
    let result = client.call(name, &arguments).await;
    assert_ne!(result["isError"], true, "{name}: {result}");
    serde_json::from_str(&text_of(&result)).unwrap()
}

async fn house() -> TestGateway {
    let tools = json!([
        { "name": "create_issue", "description": "Opens an issue\nwith a title", "inputSchema": { "type": "object" } },
        { "name": "Close_Issue", "description": "Closes", "inputSchema": { "type": "object" },
          "_meta": { "muster.giantswarm.io/labels": { "kind": "write" } } },
    ]);
    let desk = format!("name: desk\ncommand: x\nstart: manual\ntools: {tools}\nlabels: {{team: core}}\n");
    TestGateway::settled(&[profile("muster", "dialect: muster"), ("servers/desk.yaml".to_owned(), desk)]).await
}

#[tokio::test]
async fn filter_tools_echoes_what_was_asked_and_counts_what_there_is() {
    let house = house().await;
    let client = house.legacy("muster");
    let operations = house.gateway.operations.iter().count();
    let found = ask(&client, "filter_tools", json!({ "query": "create issue", "limit": 1 })).await;
    assert_eq!(
        found["filters"],
        json!({ "query": "create issue", "case_sensitive": false, "include_schema": false, "limit": 1, "offset": 0 })
    );
    assert_eq!(found["total_tools"], 2 + operations);
    assert_eq!((&found["filtered_count"], &found["truncated"]), (&json!(1), &json!(true)), "{found}");
    let first = &found["tools"][0];
    assert_eq!((&first["name"], &first["summary"]), (&json!("x_desk_create_issue"), &json!("Opens an issue")));
    assert!(first["score"].is_number() && first.get("inputSchema").is_none(), "{first}");
    let rest =
        ask(&client, "filter_tools", json!({ "query": "create issue", "limit": 100, "offset": found["next_offset"] }))
            .await;
    assert_eq!(rest["total"], found["total"]);
    assert_eq!(rest["filtered_count"].as_u64().unwrap() + 1, found["total"].as_u64().unwrap());
    assert_eq!(rest["truncated"], false);
}

#[tokio::test]
async fn every_filter_counts() {
    let house = house().await;
    let client = house.modern("muster");
    let names = async |arguments: Value| strings(&ask(&client, "filter_tools", arguments).await["tools"], "name");
    assert_eq!(names(json!({ "pattern": "x_desk_*" })).await, ["x_desk_Close_Issue", "x_desk_create_issue"]);
    assert_eq!(names(json!({ "pattern": "x_desk_close*" })).await, ["x_desk_Close_Issue"]);
    assert_eq!(names(json!({ "pattern": "x_desk_close*", "case_sensitive": true })).await, [""; 0]);
    assert_eq!(names(json!({ "description_filter": "WITH A TITLE" })).await, ["x_desk_create_issue"]);
    assert_eq!(names(json!({ "labels": { "kind": "write" } })).await, ["x_desk_Close_Issue"]);
    assert_eq!(names(json!({ "labels": { "team": "core" } })).await.len(), 2, "labels of the server count too");
    assert_eq!(names(json!({ "labels": { "team": "core", "kind": "read" } })).await, [""; 0]);
    assert_eq!(names(json!({ "pattern": "core_mcpserver_get" })).await, ["core_mcpserver_get"], "operations are found");
    assert_eq!(names(json!({ "query": "what happened events", "limit": 1 })).await, ["core_events"], "by a query too");
    let whole = ask(&client, "filter_tools", json!({ "pattern": "x_desk_cr*", "include_schema": true })).await;
    assert_eq!(whole["tools"][0]["description"], "Opens an issue\nwith a title");
    assert_eq!(whole["tools"][0]["inputSchema"], json!({ "type": "object" }));
    for (arguments, words) in [
        (json!({ "limit": 0 }), "limit must be at least 1"),
        (json!({ "limit": -1 }), "limit"),
        (json!({ "offset": "x" }), "offset"),
        (json!({ "labels": "x" }), "labels must be an object"),
        (json!({ "labels": { "a": 1 } }), "labels must be an object"),
        (json!({ "case_sensitive": "maybe" }), "case_sensitive"),
    ] {
        let told = client.call("filter_tools", &arguments).await;
        assert!(told["isError"] == true && text_of(&told).contains(words), "{arguments}: {told}");
    }
}

#[tokio::test]
async fn list_tools_of_a_large_catalogue_comes_in_pages_that_can_be_read() {
    let names: Vec<String> = (0..3_000).map(|number| format!("tool_{number:04}_{}", "x".repeat(40))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let house = TestGateway::settled(&[profile("muster", "dialect: muster"), stopped("large", &names, "")]).await;
    let client = house.modern("muster");
    let (mut seen, mut offset, mut pages) = (BTreeSet::new(), json!(0), 0);
    loop {
        let result = client.call("list_tools", &json!({ "offset": offset })).await;
        assert!(text_of(&result).len() < 256 * 1024, "{} bytes", text_of(&result).len());
        let page: Value = serde_json::from_str(&text_of(&result)).unwrap();
        assert_eq!(page["total"], 3_000 + house.gateway.operations.iter().count());
        for name in strings(&page["tools"], "name") {
            assert!(seen.insert(name), "no tool stands in two pages");
        }
        pages += 1;
        assert_eq!(page["truncated"] == true, page.get("next_offset").is_some());
        match page.get("next_offset") {
            Some(next) => offset = next.clone(),
            None => break,
        }
    }
    assert!(pages > 1 && seen.len() == 3_000 + house.gateway.operations.iter().count(), "{pages} {}", seen.len());
}

#[tokio::test]
async fn list_core_tools_is_whole_and_unknown_tools_are_told_in_muster_s_words() {
    let house = house().await;
    let client = house.legacy("muster");
    for name in ["list_core_tools", "core_list_core_tools"] {
        let core = ask(&client, name, json!({})).await;
        assert_eq!(core["filters"]["pattern"], "core*");
        assert_eq!(core["filtered_count"], core["total"]);
        let tools = core["tools"].as_array().unwrap();
        assert_eq!(tools.len(), house.gateway.operations.iter().count());
        assert!(tools.iter().all(|tool| tool["inputSchema"].is_object() && tool["description"].is_string()));
    }
    let short = ask(&client, "list_core_tools", json!({ "include_schema": false })).await;
    assert!(short["tools"][0].get("inputSchema").is_none());
    let unknown = client.call("describe_tool", &json!({ "name": "x_desk_nothing" })).await;
    assert!(text_of(&unknown).starts_with("Tool not found: x_desk_nothing"), "{unknown}");
    let nameless = client.call("describe_tool", &json!({})).await;
    assert!(text_of(&nameless).contains("name argument is required"), "{nameless}");
    let nothing = client.call("call_tool", &json!({ "name": "x_desk_create_issue", "arguments": [1] })).await;
    assert!(text_of(&nothing).contains("arguments must be a JSON object"), "{nothing}");
}

#[tokio::test]
async fn natively_there_is_one_resource_and_the_rest_is_reached_by_meta_tools() {
    let house = TestGateway::settled(&[profile("muster", "dialect: muster"), server("alpha", &[])]).await;
    for client in house.both("muster") {
        let listed = client.ask("resources/list", &json!({})).await.unwrap();
        assert_eq!(strings(&listed["resources"], "uri"), ["auth://status"]);
        assert_eq!(client.ask("resources/templates/list", &json!({})).await.unwrap()["resourceTemplates"], json!([]));
        assert_eq!(client.ask("prompts/list", &json!({})).await.unwrap()["prompts"], json!([]));
        let read = client.ask("resources/read", &json!({ "uri": "auth://status" })).await.unwrap();
        let status: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(status, json!({ "servers": [{ "name": "alpha", "status": "connected" }] }));
        let resources = ask(&client, "list_resources", json!({})).await;
        assert!(strings(&resources, "uri").contains(&"fake://text".to_owned()), "{resources}");
        let described = ask(&client, "describe_resource", json!({ "uri": "fake://text" })).await;
        assert_eq!(described["uri"], "fake://text");
        let prompts = ask(&client, "list_prompts", json!({})).await;
        assert!(prompts.as_array().unwrap().iter().all(|prompt| prompt["name"].is_string()), "{prompts}");
    }
    let native = house.legacy("default");
    assert!(native.ask("resources/read", &json!({ "uri": "auth://status" })).await.is_err());
    let status = house.audited().await;
    assert!(status.iter().any(|event| event.target == "auth://status"), "it is on record");
}

#[tokio::test]
async fn an_empty_catalogue_is_told_in_words() {
    let house = TestGateway::settled(&[profile("muster", "dialect: muster")]).await;
    let client = house.legacy("muster");
    for (name, words) in [("list_resources", "No resources available"), ("list_prompts", "No prompts available")] {
        assert_eq!(text_of(&client.call(name, &json!({})).await), words);
    }
}
