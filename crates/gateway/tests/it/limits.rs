//! The limits of servers and their tools, for every door and every principal.

use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Id, Raw};
use toolcrib_testgateway::{Client, TestGateway, profile, server_with};
use toolcrib_testkit::eventually;

/// The text of a refused call.
async fn refused(client: &Client, name: &str, arguments: &Value) -> String {
    let answer = client.call(name, arguments).await;
    assert_eq!(answer["isError"], true, "{name}: {answer}");
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn calls_a_minute_are_counted_by_user_over_all_doors_and_eras() {
    let limits = "limits: {per_minute: 5, tools: {ech*: {per_minute: 3}, '*': {per_minute: 4}}}\n";
    let files = [server_with("alpha", &[], limits), profile("muster", "dialect: muster\n")];
    let house = TestGateway::settled(&files).await;
    let (modern, legacy) = (house.modern_of("ann", "default"), house.legacy_of("ann", "default"));
    let muster = house.modern_of("ann", "muster");
    let text = json!({"text": "a"});
    let (by_meta, by_muster) =
        (json!({"name": "alpha/echo", "arguments": text}), json!({"name": "x_alpha_echo", "arguments": text}));
    assert_eq!(modern.text("alpha_echo", &text).await, "a");
    assert_eq!(legacy.text("call_tool", &by_meta).await, "a");
    assert_ne!(muster.call("call_tool", &by_muster).await["isError"], true);
    for (client, name, arguments) in [
        (&modern, "alpha_echo", &text),
        (&modern, "call_tool", &by_meta),
        (&legacy, "alpha_echo", &text),
        (&muster, "call_tool", &by_muster),
    ] {
        let why = refused(client, name, arguments).await;
        let expected =
            "`limits.per_minute` of tool `alpha/echo`: you have made 3 calls in the last minute. try again in";
        assert!(why.contains(expected), "{why}");
    }
    // What was refused counts for nothing else: of five calls of the server two are left.
    assert_eq!(modern.text("alpha_counter", &json!({})).await, "1");
    assert!(legacy.ask("resources/read", &json!({"uri": "fake://text"})).await.is_ok());
    let read = modern.ask("resources/read", &json!({"uri": "fake://text"})).await.unwrap_err();
    assert!(read.message.contains("`limits.per_minute` of server `alpha`: you have made 5 calls"), "{}", read.message);
    assert_eq!(house.modern_of("bob", "default").text("alpha_echo", &text).await, "a", "others are not affected");
    let admin = house.modern("default").admin();
    let shown = admin.call("core_mcpserver_get", &json!({"name": "alpha"})).await["structuredContent"].clone();
    assert_eq!(shown["limited"], json!({"per_minute": 5}), "{shown}");
    assert_eq!(shown["limits"]["tools"]["ech*"], json!({"per_minute": 3}), "{shown}");
    let explained = admin.call("core_tool_explain", &json!({"tool": "alpha/echo", "profile": "default"})).await;
    let step = "calls are held to those of server `alpha` {per_minute: 5}, of its tools `*` {per_minute: 4}, of its \
                tools `ech*` {per_minute: 3}";
    assert!(explained.to_string().contains(step), "{explained}");
    house.gateway.metrics.set_calls(house.gateway.servers().table().values().map(|running| &running.server));
    let metrics = house.gateway.metrics.render();
    let counted = r#"toolcrib_calls_limited_total{server="alpha",limit="per_minute"} 5"#;
    assert!(metrics.contains(counted), "{metrics}");
    let busy = house.audited().await.into_iter().filter(|event| event.outcome == "error:busy").count();
    assert_eq!(busy, 5, "refusals are on record");
}

#[tokio::test]
async fn the_keys_of_one_user_are_counted_together() {
    let key = |name: &str, digit: &str, user: &str| {
        format!("  - {{name: {name}, hash: \"sha256:{}\"{user}}}\n", digit.repeat(64))
    };
    let ann = ", user: \"user:acme/ann\"";
    let keys = [key("laptop", "1", ann), key("phone", "2", ann), key("ci", "3", ""), key("cd", "4", "")].concat();
    let limits = "limits: {tools: {echo: {per_minute: 2}}}\n";
    let work = format!("limits: {{per_minute: 3}}\nkeys:\n{keys}");
    let house = TestGateway::settled(&[server_with("alpha", &[], limits), profile("work", &work)]).await;
    let text = json!({"text": "a"});
    let of = |name: &str| house.modern_of(name, "work");
    assert_eq!(of("key:work/laptop").text("alpha_echo", &text).await, "a");
    assert_eq!(of("key:work/phone").text("alpha_echo", &text).await, "a");
    for name in ["key:work/laptop", "key:work/phone", "user:acme/ann"] {
        let why = refused(&of(name), "alpha_echo", &text).await;
        assert!(why.contains("of tool `alpha/echo`"), "{name}: {why}");
    }
    assert_eq!(of("key:work/phone").text("alpha_counter", &json!({})).await, "1");
    let why = refused(&of("key:work/laptop"), "alpha_counter", &json!({})).await;
    assert!(why.contains("`limits.per_minute` of profile `work`: you have made 3 calls"), "{why}");
    for name in ["key:work/ci", "key:work/cd", "key:other/laptop", "user:acme/bob"] {
        assert_eq!(of(name).text("alpha_echo", &text).await, "a", "{name} is somebody else");
    }
}

#[tokio::test]
async fn arguments_that_are_too_large_reach_no_server() {
    let limits = "limits: {argument_bytes: 1KiB, tools: {counter: {argument_bytes: 10}}}\n";
    let house = TestGateway::settled(&[server_with("alpha", &[], limits)]).await;
    for client in house.both("default") {
        let why = refused(&client, "alpha_echo", &json!({"text": "x".repeat(1_100)})).await;
        let expected = "`limits.argument_bytes` of server `alpha`: the arguments have 1111 bytes, 1KiB are allowed";
        assert!(why.contains(expected), "{why}");
        let why = refused(&client, "alpha_counter", &json!({"padding": "xxxxxxxx"})).await;
        assert!(why.contains("of tool `alpha/counter`"), "{why}");
    }
    let client = house.modern("default");
    assert_eq!(client.text("alpha_echo", &json!({"text": "x".repeat(900)})).await.len(), 900);
    assert_eq!(client.text("alpha_counter", &json!({})).await, "1", "none of them was sent");
}

#[tokio::test]
async fn a_large_result_is_cut_with_notice_and_whole_as_a_resource_of_its_caller() {
    let limits = "limits: {result_bytes: 1KiB}\n";
    let house =
        TestGateway::settled(&[server_with("alpha", &[], limits), profile("muster", "dialect: muster\n")]).await;
    let text = json!({"text": "x".repeat(5_000)});
    for client in [house.modern_of("ann", "default"), house.legacy_of("ann", "default")] {
        let by_meta = json!({"name": "alpha/echo", "arguments": text});
        for (name, arguments) in [("alpha_echo", &text), ("call_tool", &by_meta)] {
            let cut = client.call(name, arguments).await;
            let part = cut["content"][0]["text"].as_str().unwrap();
            assert!((900..1_024).contains(&part.len()), "{}", part.len());
            let notice = cut["content"][1]["text"].as_str().unwrap();
            assert!(notice.contains("`limits.result_bytes` of server `alpha`: the result has"), "{notice}");
            assert!(notice.contains("1KiB are passed on"), "{notice}");
            let uri = cut["content"][2]["uri"].as_str().unwrap();
            assert!(cut["content"][2]["type"] == "resource_link" && notice.contains(uri), "{cut}");
            let whole = client.ask("resources/read", &json!({"uri": uri})).await.unwrap();
            assert_eq!(whole["contents"][0]["text"].as_str().map(str::len), Some(5_000));
            let same = client.call("read_resource", &json!({"uri": uri})).await;
            assert!(same.to_string().len() > 5_000, "the whole is not cut again: {same}");
            for other in [house.modern_of("bob", "default"), house.modern_of("ann", "muster")] {
                let refused = other.ask("resources/read", &json!({"uri": uri})).await.unwrap_err();
                let unknown = "toolcrib://results/00000000000000000000000000000000";
                let nothing = other.ask("resources/read", &json!({"uri": unknown})).await.unwrap_err();
                assert_eq!(refused.message.replace(uri, unknown), nothing.message);
            }
        }
    }
    let muster = house.modern_of("ann", "muster");
    let cut = muster.call("call_tool", &json!({"name": "x_alpha_echo", "arguments": text})).await;
    assert!(cut.to_string().len() < 3_000 && cut.to_string().contains("resource_link"), "{cut}");
    assert_eq!(house.modern("default").text("alpha_echo", &json!({"text": "small"})).await, "small");
}

#[tokio::test]
async fn other_limits_hold_at_once_and_the_server_runs_on() {
    let with = |limits: &str| server_with("alpha", &[], limits);
    let house = TestGateway::settled(&[with("limits: {concurrent: 1}\n")]).await;
    let client = house.modern("default");
    let pid = client.text("alpha_pid", &json!({})).await;
    let scope = Scope::new();
    let waiting = client.clone();
    let sleeps = Raw::from_value(&json!({"name": "alpha_slow", "arguments": {"ms": 2_000}}));
    let sleeping = scope.spawn(async move { waiting.with_id(Id::from_number(7), "tools/call", sleeps, None).await });
    let running = async {
        while house.server("alpha").places().load().running == 0 {
            tokio::task::yield_now().await;
        }
    };
    eventually("the call", running).await;
    house.apply(&[with("limits: {concurrent: 2, per_minute: 3}\n")]).await;
    assert_eq!(client.text("alpha_pid", &json!({})).await, pid, "the second place is there, and the process the same");
    let slept = eventually("the call that ran meanwhile", sleeping).await.unwrap().unwrap().unwrap().to_value();
    assert_ne!(slept["isError"], true, "{slept}");
    client.text("alpha_pid", &json!({})).await;
    client.text("alpha_pid", &json!({})).await;
    let why = refused(&client, "alpha_pid", &json!({})).await;
    assert!(why.contains("of server `alpha`: you have made 3 calls"), "what was made before does not count: {why}");
    house.apply(&[with("")]).await;
    assert_eq!(client.text("alpha_pid", &json!({})).await, pid);
    assert_eq!(house.server("alpha").places().load().concurrency.calls, 256);
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let limits = "limits: {concurrent: 1, queue: 0, tools: {echo: {queue: 0}}}\n";
    let house = TestGateway::settled(&[server_with("alpha", &[], limits)]).await;
    let alpha = house.server("alpha");
    let other = toolcrib_base::PrincipalId::new("other");
    let lane = toolcrib_upstream::places::Lane::tool("counter");
    let place = alpha.places().take(&other, lane, std::time::Duration::ZERO).await.unwrap();
    let client = house.modern("default");
    let why = refused(&client, "alpha_counter", &json!({})).await;
    assert!(why.contains("`limits.queue` of server `alpha`: 0 calls may wait, and as many do"), "{why}");
    assert!(why.contains("Nothing was sent to the server"), "{why}");
    let why = refused(&client, "alpha_echo", &json!({"text": "a"})).await;
    assert!(why.contains("`limits.queue` of tool `alpha/echo`: 0 of its calls may wait"), "{why}");
    drop(place);
    assert_eq!(client.text("alpha_counter", &json!({})).await, "1");
}
