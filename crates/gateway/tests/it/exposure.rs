//! How a profile lists its tools: meta, direct, pinned, dynamic; and that only legacy lists change by loading.

use serde_json::json;
use toolcrib_testgateway::{TestGateway, method_of, profile, server, stopped};
use toolcrib_testkit::eventually;

const MENU: [&str; 3] = ["find_tools", "describe_tool", "call_tool"];

#[tokio::test]
async fn each_exposure_lists_what_it_says_and_every_allowed_tool_still_answers() {
    let files = [
        server("alpha", &[]),
        stopped("beta", &["one", "two"], ""),
        profile("meta", "exposure: meta"),
        profile("direct", "exposure: direct"),
        profile("pinned", "exposure: pinned\npinned: [\"beta/*\", \"alpha/pid\"]"),
        profile("dynamic", "exposure: dynamic"),
    ];
    let house = TestGateway::settled(&files).await;
    for (name, menu, listed) in [
        ("meta", &MENU[..], vec![]),
        ("pinned", &MENU[..], vec!["alpha_pid", "beta_one", "beta_two"]),
        ("dynamic", &[&MENU[..], &["load_tools", "unload_tools", "list_active_tools"]].concat(), vec![]),
    ] {
        for client in house.both(name) {
            assert_eq!(client.listed().await, [menu, &listed].concat(), "{name}");
        }
    }
    for client in house.both("direct") {
        let listed = client.listed().await;
        assert_eq!(listed.len(), 17, "{listed:?}");
        let servers: Vec<_> = listed.iter().map(|name| name.split('_').next().unwrap()).collect();
        assert!(servers.is_sorted(), "servers by name: {listed:?}");
        assert_eq!(listed[..2], ["alpha_echo", "alpha_add"], "the tools of each in its own order");
        assert_eq!(client.listed().await, listed);
    }
    for name in ["meta", "direct", "pinned", "dynamic"] {
        for client in house.both(name) {
            assert_eq!(client.text("alpha_echo", &json!({"text": "a"})).await, "a");
            let inner = json!({"name": "alpha/echo", "arguments": {"text": "b"}});
            assert_eq!(client.text("call_tool", &inner).await, "b");
        }
    }
}

#[tokio::test]
async fn loading_changes_the_list_of_the_legacy_client_and_never_that_of_the_modern_one() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", "exposure: dynamic")]).await;
    let (modern, legacy, other) = (house.modern("default"), house.legacy("default"), house.legacy("default"));
    let (mut notifications, mut other_notifications) = (legacy.stream(), other.stream());
    let before = modern.listed().await;
    let names = json!({"names": ["alpha/echo", "alpha_pid"]});

    let loaded = modern.call("load_tools", &names).await;
    assert_eq!(loaded["structuredContent"]["loaded"][0]["name"], "alpha_echo", "the definitions are returned");
    assert_eq!(loaded["structuredContent"]["loaded"][0]["inputSchema"]["required"], json!(["text"]));
    assert_eq!(modern.listed().await, before);
    assert_eq!(legacy.listed().await, before, "another client's loading is its own");

    legacy.call("load_tools", &names).await;
    // News of the server's first list of prompts may be still on its way.
    let prompts = |message: &_| method_of(message) == "notifications/prompts/list_changed";
    let mut message = eventually("news", notifications.recv()).await.unwrap();
    if prompts(&message) {
        message = eventually("news", notifications.recv()).await.unwrap();
    }
    assert_eq!(method_of(&message), "notifications/tools/list_changed");
    assert_eq!(legacy.listed().await, [before.clone(), vec!["alpha_echo".into(), "alpha_pid".into()]].concat());
    assert_eq!(modern.listed().await, before);
    assert_eq!(other.listed().await, before, "another session of the same person is not disturbed");
    assert!(other_notifications.try_recv().is_none_or(|message| prompts(&message)));

    legacy.call("unload_tools", &json!({"names": ["alpha_echo"]})).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    assert_eq!(legacy.listed().await, [before.clone(), vec!["alpha_pid".into()]].concat());
    assert_eq!(modern.listed().await, before);
    assert!(notifications.try_recv().is_none(), "one change, one word");
}

#[tokio::test]
async fn loading_changes_no_list_where_the_profile_does_not_list_what_is_loaded() {
    for exposure in ["meta", "pinned", "direct"] {
        let lines = format!("exposure: {exposure}\ngroups: [load]");
        let house = TestGateway::settled(&[stopped("alpha", &["one", "two"], ""), profile("default", &lines)]).await;
        let legacy = house.legacy("default");
        let (mut notifications, before) = (legacy.stream(), legacy.listed().await);
        assert_ne!(legacy.call("load_tools", &json!({"names": ["alpha_one"]})).await["isError"], true);
        assert_eq!(legacy.listed().await, before, "{exposure}");
        assert!(notifications.try_recv().is_none(), "{exposure}");
    }
}

#[tokio::test]
async fn a_durable_set_is_one_for_all_sessions_of_a_principal_and_all_of_them_are_told() {
    let lines = "exposure: dynamic\nactive_set: durable";
    let house = TestGateway::settled(&[stopped("alpha", &["one", "two"], ""), profile("default", lines)]).await;
    let (first, second) = (house.legacy("default"), house.legacy("default"));
    let stranger = house.legacy_of("somebody", "default");
    let (mut notifications, mut stranger_notifications) = (second.stream(), stranger.stream());
    first.call("load_tools", &json!({"names": ["alpha_one"]})).await;
    assert!(second.listed().await.contains(&"alpha_one".to_owned()));
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    assert!(!stranger.listed().await.contains(&"alpha_one".to_owned()));
    assert!(stranger_notifications.try_recv().is_none());

    // A modern client of the same principal changes the legacy ones' list, never its own.
    let modern = house.modern("default");
    let before = modern.listed().await;
    modern.call("load_tools", &json!({"names": ["alpha_two"]})).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    assert!(second.listed().await.contains(&"alpha_two".to_owned()));
    assert_eq!(modern.listed().await, before);
}

#[tokio::test]
async fn a_server_with_new_lists_changes_them_for_both_eras_and_notifies_the_legacy_one() {
    let files = [server("alpha", &["--list-changed-after", "1"]), profile("default", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    let (modern, legacy) = (house.modern("default"), house.legacy("default"));
    let mut notifications = legacy.stream();
    legacy.text("alpha_pid", &json!({})).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    for client in [&modern, &legacy] {
        assert!(client.listed().await.contains(&"alpha_late".to_owned()));
    }
    assert_eq!(modern.text("alpha_late", &json!({})).await, "late");
}

#[tokio::test]
async fn auto_lists_few_tools_directly_and_many_by_search_with_the_pinned_ones() {
    let few = ["one", "two", "three"];
    let house = TestGateway::settled(&[
        stopped("alpha", &few, ""),
        profile("few", "exposure: auto"),
        profile("many", "exposure: auto\nauto: {tools: 2}\npinned: [alpha/two]"),
        profile("costly", "exposure: auto\nauto: {tokens: 20}"),
    ])
    .await;
    let direct = ["alpha_one", "alpha_two", "alpha_three"].map(str::to_owned);
    for client in house.both("few") {
        assert_eq!(client.listed().await, direct);
    }
    for client in house.both("many") {
        assert_eq!(client.listed().await, [&MENU[..], &["alpha_two"]].concat());
        assert_eq!(client.found(&json!({"query": "one"})).await[0], "alpha/one");
    }
    for client in house.both("costly") {
        assert_eq!(client.listed().await, MENU);
    }

    // The catalogue grows: both eras are told, and nobody's list depends on who else is there.
    let legacy = house.legacy("few");
    let mut notifications = legacy.stream();
    let names: Vec<String> = (0..60).map(|n| format!("tool_{n}")).collect();
    house.apply(&[stopped("beta", &names.iter().map(String::as_str).collect::<Vec<_>>(), "")]).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    for client in house.both("few") {
        assert_eq!(client.listed().await, MENU);
    }
}

#[tokio::test]
async fn auto_lists_everything_to_legacy_clients_that_search_long_lists_themselves() {
    let house = TestGateway::settled(&[
        stopped("alpha", &["one", "two", "three"], ""),
        profile("default", "exposure: auto\nauto: {tools: 1}"),
        profile("named", "exposure: auto\nauto: {tools: 1, deferring: [searcher]}"),
        profile("meta", "auto: {tools: 1}"),
    ])
    .await;
    let whole = [&MENU[..], &["alpha_one", "alpha_two", "alpha_three"]].concat();
    assert_eq!(house.legacy_named("claude-code", "default").listed().await, whole);
    assert_eq!(house.legacy_named("searcher", "named").listed().await, whole);
    for (client, profile) in [("searcher", "default"), ("claude-code", "named"), ("claude-code", "meta")] {
        assert_eq!(house.legacy_named(client, profile).listed().await, MENU, "{client} in {profile}");
    }
    assert_eq!(house.modern("default").listed().await, MENU, "modern clients choose by the profile's URL");

    let deferring = house.legacy_named("claude-code", "default");
    let mut notifications = deferring.stream();
    house.apply(&[stopped("beta", &["four"], "")]).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    assert!(deferring.listed().await.contains(&"beta_four".to_owned()));
}

#[tokio::test]
async fn a_profile_s_limits_hold_for_each_principal_and_each_door() {
    let limits = "exposure: direct\nlimits: {per_minute: 2}\n";
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", limits)]).await;
    let (ann, bob) = (house.modern_of("ann", "default"), house.modern_of("bob", "default"));
    let text = json!({"text": "a"});
    assert_eq!(ann.text("alpha_echo", &text).await, "a");
    let by_meta = json!({"name": "alpha/echo", "arguments": text});
    assert_ne!(ann.call("call_tool", &by_meta).await["isError"], true);
    for (name, arguments) in [("alpha_echo", &text), ("call_tool", &by_meta)] {
        let busy = ann.call(name, arguments).await;
        assert!(
            busy["isError"] == true && busy.to_string().contains("`limits.per_minute` of profile `default`"),
            "{busy}"
        );
    }
    assert_eq!(bob.text("alpha_echo", &text).await, "a");
    let refused = house.audited().await.into_iter().filter(|event| event.outcome.to_string().contains("busy")).count();
    assert_eq!(refused, 2);
}

#[tokio::test]
async fn a_profile_chooses_its_ranking_and_scores_are_explained() {
    let files = [
        stopped("alpha", &["convert_currency", "list_rates"], ""),
        profile("default", "exposure: direct"),
        profile("plain", "ranking: tfidf"),
        profile("ent", "dialect: go-ent"),
        profile("mine", "dialect: go-ent\nranking: blend"),
    ];
    let house = TestGateway::settled(&files).await;
    // Plain TF-IDF knows no slips of the keyboard.
    for (name, finds) in [("default", true), ("plain", false), ("ent", false), ("mine", true)] {
        let arguments = json!({"query": "curency", "explain": true});
        let found = house.modern_of("ann", name).admin().call("core_tool_find", &arguments).await;
        let best = &found["structuredContent"]["tools"][0];
        assert_eq!(best["id"] == "alpha/convert_currency", finds, "{name}: {found}");
        if finds {
            let why = &best["explanation"];
            assert_eq!(why["corrections"], json!([{"from": "curency", "to": "currency"}]), "{why}");
            let shares = ["words", "alike", "meaning", "server"].map(|part| why[part]["share"].as_f64().unwrap());
            let sum: f64 = shares.iter().sum::<f64>() + why["exact"].as_f64().unwrap();
            assert!((sum - best["score"].as_f64().unwrap()).abs() < 1e-3, "{best}");
        }
    }
}
