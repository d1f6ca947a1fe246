//! Results on their way to clients of other revisions: what these cannot read is told otherwise or left out, and a result
//! of a type that nobody knows never passes as complete. Capabilities and extensions of servers on their way to clients.

use serde_json::{Value, json};
use toolcrib_protocol::{Raw, Revision};
use toolcrib_testgateway::{TestGateway, profile, server, server_with, text_of};

const DIRECT: &str = "exposure: direct\nprefix: none";

fn raw(result: &Value) -> Value {
    json!({ "result": result.to_string() })
}

#[tokio::test]
async fn older_clients_get_what_their_revision_can_say() {
    for flags in [&[][..], &["--modern"]] {
        let house = TestGateway::settled(&[server("alpha", flags), profile("direct", DIRECT)]).await;
        for (revision, structured, link, audio) in [
            (Revision::V2024_11_05, false, false, false),
            (Revision::V2025_03_26, false, false, true),
            (Revision::V2025_06_18, true, true, true),
            (Revision::V2025_11_25, true, true, true),
        ] {
            let result = house.older("direct", revision).call("mixed", &json!({})).await;
            let kinds: Vec<_> =
                result["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
            assert_eq!(result.get("structuredContent").is_some(), structured, "{revision} {flags:?}");
            assert_eq!(kinds.contains(&"resource_link"), link, "{revision} {flags:?}");
            assert_eq!(kinds.contains(&"audio"), audio, "{revision} {flags:?}");
            assert_eq!(result["x-unknown"], json!({ "kept": true }));
            assert_eq!(result.get("resultType"), None, "{revision} {flags:?}");
        }
        let result = house.modern("direct").call("mixed", &json!({})).await;
        assert_eq!((&result["resultType"], result["content"].as_array().unwrap().len()), (&json!("complete"), 7));
    }
}

#[tokio::test]
async fn a_modern_server_s_words_do_not_reach_legacy_clients() {
    let house =
        TestGateway::settled(&[server("alpha", &["--modern-only", "--ui", "ui://app"]), profile("direct", DIRECT)])
            .await;
    let [modern, legacy] = house.both("direct");
    let words = ["resultType", "ttlMs", "cacheScope"];
    let read = legacy.ask("resources/read", &json!({ "uri": "ui://app" })).await.unwrap();
    assert!(words.iter().all(|word| read.get(word).is_none()), "{read}");
    let read = modern.ask("resources/read", &json!({ "uri": "ui://app" })).await.unwrap();
    assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(7), &json!("public")), "the server's own hints");
    for (method, params) in [
        ("prompts/get", json!({ "name": "plain" })),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "plain" }, "argument": {} })),
        ("tools/call", json!({ "name": "echo", "arguments": { "text": "t" } })),
    ] {
        let result = legacy.ask(method, &params).await.unwrap();
        assert!(words.iter().all(|word| result.get(word).is_none()), "{method}: {result}");
        let result = modern.ask(method, &params).await.unwrap();
        assert_eq!(result["resultType"], "complete", "{method}");
    }
}

#[tokio::test]
async fn caching_hints_of_a_legacy_server_or_odd_ones_do_not_count() {
    for flags in [&["--ui", "ui://app"][..], &["--modern", "--ui", "fake://text"]] {
        let house = TestGateway::settled(&[server("alpha", flags), profile("direct", DIRECT)]).await;
        let uri = if flags.len() == 2 { "ui://app" } else { "fake://binary" };
        let read = house.modern("direct").ask("resources/read", &json!({ "uri": uri })).await.unwrap();
        assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(0), &json!("private")), "{flags:?}");
    }
}

#[tokio::test]
async fn a_result_of_an_unknown_type_is_the_server_s_error() {
    let house = TestGateway::settled(&[server("alpha", &["--modern-only"]), profile("direct", DIRECT)]).await;
    for client in house.both("direct") {
        for odd in [json!("hologram"), json!("task"), json!(7), json!(null), json!({})] {
            let result = client.call("raw", &raw(&json!({ "content": [], "taskId": "t", "resultType": odd }))).await;
            assert_eq!((&result["isError"], &result["_meta"]["toolcrib/error"]), (&json!(true), &json!("bad-server")));
            assert!(text_of(&result).contains("a result of type"), "{result}");
        }
        let result = client.call("raw", &raw(&json!({ "content": [] }))).await;
        assert_eq!(result["isError"], Value::Null, "without a type it is complete: {result}");
    }
    let outcomes: Vec<_> = house.audited().await.iter().map(|event| event.outcome.clone()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.contains("bad-server")).count(), 10, "{outcomes:?}");
}

#[tokio::test]
async fn what_a_legacy_server_says_of_types_means_nothing() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("direct", DIRECT)]).await;
    let result = house.modern("direct").call("raw", &raw(&json!({ "content": [], "resultType": "task" }))).await;
    assert_eq!(result["resultType"], "complete");
    let legacy = house.legacy("direct").call("raw", &raw(&json!({ "content": [], "resultType": "task" }))).await;
    assert_eq!(legacy, json!({ "content": [], "resultType": "task" }), "between legacy ends it is an unknown field");
}

/// What each era reads of a profile's capabilities.
async fn declared(house: &TestGateway, profile: &str) -> [Value; 2] {
    let modern = house.modern(profile).ask("server/discover", &json!({})).await.unwrap();
    let view = house.gateway.view(profile).unwrap();
    let legacy: Raw = house.gateway.initialize_result(&view, Revision::V2025_11_25);
    [modern["capabilities"].clone(), legacy.to_value()["capabilities"].clone()]
}

#[tokio::test]
async fn extensions_of_all_servers_and_capabilities_of_the_only_one_are_passed_on() {
    let ui = "io.modelcontextprotocol/ui";
    let alpha = json!({
        "extensions": { ui: { "a": 1.0 }, "io.modelcontextprotocol/tasks": {}, "odd": 7 },
        "experimental": { "x": {} }, "future": [1], "tools": { "forged": true }, "tasks": { "list": {} },
    });
    let beta = json!({ "extensions": { ui: { "b": 2 }, "com.example/b": {} } });
    let files = [
        server("alpha", &["--modern", "--capabilities", &alpha.to_string()]),
        server_with("beta", &["--capabilities", &beta.to_string()], ""),
        profile("both", ""),
        profile("one", "servers: [alpha]"),
    ];
    let house = TestGateway::settled(&files).await;
    let [modern, legacy] = declared(&house, "both").await;
    let tasks = "io.modelcontextprotocol/tasks";
    assert_eq!(modern["extensions"], json!({ tasks: {}, ui: { "a": 1.0 }, "com.example/b": {} }));
    assert_eq!(legacy["extensions"], json!({ ui: { "a": 1.0 }, "com.example/b": {} }));
    assert_eq!((&modern["experimental"], &modern["future"]), (&Value::Null, &Value::Null), "whose would they be?");
    for capabilities in declared(&house, "one").await {
        assert_eq!((&capabilities["experimental"], &capabilities["future"]), (&json!({ "x": {} }), &json!([1])));
        assert_eq!(capabilities["tools"], json!({ "listChanged": true }), "of what we do ourselves we speak");
        assert_eq!(capabilities.get("tasks"), None);
    }
    let plain = TestGateway::settled(&[server("alpha", &[])]).await;
    let [modern, legacy] = declared(&plain, "default").await;
    assert_eq!((&modern["extensions"], legacy.get("extensions")), (&json!({ tasks: {} }), None));
}
