//! What a profile hides is hidden by one rule, whichever way one asks, and is as if it were not there.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped, text_of};

/// By which ways of asking a tool can be seen.
pub(crate) async fn seen(client: &Client, id: &str) -> Vec<&'static str> {
    let mut ways = Vec::new();
    let exposed = id.replacen('/', "_", 1);
    if client.listed().await.contains(&exposed) {
        ways.push("list");
    }
    let (server, tool) = id.split_once('/').unwrap();
    let all = json!({"server": server, "limit": 100, "fold": false});
    if client.found(&all).await.contains(&id.to_owned()) {
        ways.push("find");
    }
    let words = json!({"query": tool, "limit": 100, "fold": false});
    if client.found(&words).await.contains(&id.to_owned()) {
        ways.push("search");
    }
    for name in [id, &exposed] {
        if client.call("describe_tool", &json!({"name": name})).await["isError"] != true {
            ways.push("describe");
        }
        if client.ask("tools/call", &json!({"name": name, "arguments": {}})).await.is_ok() {
            ways.push("direct");
        }
        if client.call("call_tool", &json!({"name": name, "arguments": {}})).await["isError"] != true {
            ways.push("call_tool");
        }
        if client.call("load_tools", &json!({"names": [name]})).await["isError"] != true {
            ways.push("load");
        }
    }
    ways
}

async fn check(rules: &str, shown: &[&str], hidden: &[&str]) {
    let direct = profile("default", &format!("exposure: direct\n{rules}"));
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[]), direct]).await;
    for client in house.both("default") {
        for id in shown {
            let ways = seen(&client, id).await;
            let every = ["list", "find", "search", "describe", "direct", "call_tool", "load"];
            assert!(every.iter().all(|way| ways.contains(way)) && ways.len() == 11, "{rules}: {id} by {ways:?}");
        }
        for id in hidden {
            assert_eq!(seen(&client, id).await, Vec::<&str>::new(), "{rules}: {id}");
        }
    }
}

#[tokio::test]
async fn allow_and_deny_decide_every_way_of_asking() {
    let rules = "tools: {allow: [\"alpha/*\", \"beta/pid\"], deny: [\"alpha/counter\"]}";
    check(rules, &["alpha/pid", "alpha/image", "beta/pid"], &["alpha/counter", "beta/image"]).await;
}

#[tokio::test]
async fn servers_decide_every_way_of_asking() {
    check("servers: [\"al*\"]", &["alpha/pid"], &["beta/pid"]).await;
    check("servers: []", &[], &["alpha/pid", "beta/pid"]).await;
}

#[tokio::test]
async fn a_read_only_profile_shows_only_what_says_that_it_reads() {
    check("read_only: true", &["alpha/pid", "beta/image"], &["alpha/counter", "beta/counter"]).await;
}

#[tokio::test]
async fn an_empty_allow_list_allows_nothing() {
    check("tools: {allow: []}", &[], &["alpha/pid", "beta/counter"]).await;
}

/// Everything that a client can ask about a name, as one text.
pub(crate) async fn everything_about(client: &Client, id: &str) -> String {
    let exposed = id.replacen('/', "_", 1);
    let (server, tool) = id.split_once('/').unwrap();
    let mut all = String::new();
    for name in [id, &exposed] {
        let arguments = json!({"name": name, "arguments": {"text": "x"}});
        for (meta, arguments) in [
            (name, json!({"text": "x"})),
            ("call_tool", arguments.clone()),
            ("describe_tool", arguments.clone()),
            ("load_tools", json!({"names": [name]})),
            ("unload_tools", json!({"names": [name]})),
            ("tool_call", arguments.clone()),
            ("tool_describe", arguments),
            ("tool_load", json!({"names": [name]})),
            ("scooter_call", json!({"tool": name})),
            ("scooter_add", json!({"tool_name": server})),
            ("scooter_remove", json!({"tool_name": server})),
            ("scooter_find", json!({"query": name})),
            ("find_tools", json!({"query": format!("{server} {tool}"), "limit": 100})),
            ("find_tools", json!({"server": server, "limit": 100})),
            ("filter_tools", json!({"query": tool, "limit": 100})),
            ("list_tools", json!({})),
            ("list_resources", json!({})),
            ("list_prompts", json!({})),
            ("core_tool_list", json!({"server": server})),
        ] {
            let params = json!({"name": meta, "arguments": arguments});
            all.push_str(&format!("{meta}: {:?}\n", client.ask("tools/call", &params).await));
        }
    }
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        all.push_str(&format!("{method}: {:?}\n", client.ask(method, &json!({})).await));
    }
    let prompt = json!({"name": format!("{server}_plain")});
    all.push_str(&format!("prompt: {:?}\n", client.ask("prompts/get", &prompt).await));
    all
}

#[tokio::test]
async fn a_hidden_tool_is_byte_identical_to_one_that_is_not_there() {
    for (rules, hidden) in [
        ("servers: [alpha]", "beta/secret_thing"),
        ("tools: {deny: [\"beta/*\"]}", "beta/secret_thing"),
        ("tools: {deny: [\"alpha/quiet\"]}", "alpha/quiet"),
        ("read_only: true", "alpha/quiet"),
    ] {
        let rules = profile("default", rules);
        let alpha = |tools: &[&str]| stopped("alpha", tools, "");
        let without = if hidden.starts_with("alpha/") { &["loud"][..] } else { &["loud", "quiet"] };
        let mut real = vec![rules.clone(), alpha(&["loud", "quiet"])];
        let mut bare = vec![rules.clone(), alpha(without)];
        let beta = stopped("beta", &["secret_thing"], "");
        if hidden.starts_with("beta/") {
            real.push(beta);
            // The deny rule hides the tools and leaves the server, so on the other side it hides another one.
            if !rules.1.contains("servers:") {
                bare.push(stopped("beta", &["other"], ""));
            }
        }
        if rules.1.contains("read_only") {
            bare = vec![rules.clone(), alpha(&["other"])];
        }
        let (with, without) = (TestGateway::settled(&real).await, TestGateway::settled(&bare).await);
        for (with, without) in with.both("default").into_iter().zip(without.both("default")) {
            let (got, expect) = (everything_about(&with, hidden).await, everything_about(&without, hidden).await);
            assert_eq!(got, expect, "{rules:?}");
        }
    }
}

#[tokio::test]
async fn the_answer_for_a_hidden_name_differs_from_one_for_a_name_of_its_length_only_by_the_name() {
    let rules = profile("default", "tools: {deny: [\"alpha/counter\"]}");
    let house = TestGateway::settled(&[server("alpha", &[]), rules]).await;
    for client in house.both("default") {
        let mut answers = Vec::new();
        // Nothing visible is near to either name.
        for tool in ["counter", "qqqqqqq"] {
            let name = format!("alpha/{tool}");
            let direct = client.refused(&name, &json!({})).await;
            let called = client.call("call_tool", &json!({"name": name})).await;
            let described = client.call("describe_tool", &json!({"name": name})).await;
            answers.push(format!("{direct:?} {called} {described}").replace(tool, "…"));
        }
        assert_eq!(answers[0], answers[1]);
    }
}

#[tokio::test]
async fn a_hidden_tool_is_not_reached_and_its_refusal_is_on_record() {
    let rules = profile("closed", "tools: {deny: [\"alpha/counter\"]}");
    let house = TestGateway::settled(&[server("alpha", &[]), rules]).await;
    let client = house.legacy("closed");
    client.refused("alpha_counter", &json!({})).await;
    client.call("call_tool", &json!({"name": "alpha/counter"})).await;
    let open = house.legacy("default");
    assert_eq!(open.text("alpha_counter", &json!({})).await, "1", "no call came through");
    let outcomes: Vec<_> = house.audited().await.into_iter().map(|event| (event.target, event.outcome)).collect();
    assert_eq!(
        outcomes,
        [
            ("alpha_counter".to_owned(), "denied".to_owned()),
            ("alpha/counter".to_owned(), "denied".to_owned()),
            ("alpha/counter".to_owned(), "ok".to_owned())
        ]
    );
}

#[tokio::test]
async fn an_unknown_name_is_answered_with_the_nearest_ones_and_how_to_search() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern("default");
    let error = client.refused("alpha_ecko", &json!({})).await;
    assert_eq!(error.code, -32_602);
    assert!(error.message.contains("`alpha_echo`") && error.message.contains("find_tools"), "{}", error.message);
    let result = client.call("call_tool", &json!({"name": "alpha_ecko"})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(text_of(&result), error.message.replace(" (Nearest", ". Nearest").trim_end_matches(')'));
}

#[tokio::test]
async fn operations_need_an_administrator_and_a_read_only_profile_still_has_them() {
    let house = TestGateway::settled(&[stopped("alpha", &["loud"], ""), profile("reads", "read_only: true")]).await;
    for name in ["default", "reads"] {
        let client = house.modern(name);
        let denied = client.call("core_audit_list", &json!({})).await;
        assert_eq!((denied["isError"].clone(), &denied["_meta"]["toolcrib/error"]), (json!(true), &json!("forbidden")));
        let open = client.call("core_tool_list", &json!({})).await;
        assert_eq!(open["structuredContent"]["total"], if name == "reads" { 0 } else { 1 }, "{open}");
        let admin = client.admin();
        let listed: Value = admin.call("core_mcpserver_list", &json!({})).await;
        assert_eq!(listed["structuredContent"]["mcpServers"][0]["name"], "alpha");
    }
}
