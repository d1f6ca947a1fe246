//! What becomes of loaded tools: quotas, idling, new sessions, restarts; and who is notified.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Clock, ManualClock, ProfileName};
use toolcrib_protocol::{Id, Raw, Request};
use toolcrib_session::Principal;
use toolcrib_store::Store;
use toolcrib_testgateway::{Client, File, Setup, TestGateway, method_of, profile, stopped, strings, text_of};
use toolcrib_testkit::eventually;

const CHANGED: &str = "notifications/tools/list_changed";

fn two_servers() -> Vec<File> {
    vec![stopped("alpha", &["one", "two", "three"], ""), stopped("beta", &["four", "five"], "")]
}

fn with(lines: &str) -> Vec<File> {
    let mut files = two_servers();
    files.push(profile("default", lines));
    files
}

async fn active(client: &Client) -> Vec<String> {
    strings(&client.call("list_active_tools", &json!({})).await["structuredContent"]["tools"], "id")
}

async fn load(client: &Client, names: &[&str]) -> Value {
    client.call("load_tools", &json!({"names": names})).await
}

/// A gateway whose clock is the test's.
async fn timed(files: &[File]) -> (TestGateway, Arc<ManualClock>) {
    let time = Arc::new(ManualClock::default());
    let clock = Arc::clone(&time) as Arc<dyn Clock>;
    let config = toolcrib_store::Config { clock: Arc::clone(&clock), ..toolcrib_store::Config::default() };
    let house = TestGateway::open(files, Setup { store: Store::in_memory(config).unwrap(), clock, ..Setup::default() });
    house.settle().await;
    (house, time)
}

#[tokio::test]
async fn names_are_exact() {
    let house = TestGateway::settled(&with("groups: [load]")).await;
    for client in house.both("default") {
        for name in
            [" alpha/one", "alpha/one ", "Alpha/one", "alpha/ONE", "alpha_ONE", "alpha-one", "alpha", "/one", ""]
        {
            assert_eq!(load(&client, &["alpha/two", name]).await["isError"], true, "`{name}`");
        }
        for server in [" alpha", "alpha ", "Alpha", "alph", "alpha/", "alpha_"] {
            for act in ["scooter_add", "scooter_activate", "scooter_remove", "scooter_deactivate"] {
                let answer = client.call(act, &json!({"tool_name": server})).await;
                assert_eq!(answer["isError"], true, "{act} `{server}`");
            }
        }
        assert_eq!(active(&client).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_full_set_says_what_is_active_and_how_to_unload() {
    let house = TestGateway::settled(&with("quota: {tools: 2}")).await;
    for client in house.both("default") {
        load(&client, &["alpha/one", "beta/four"]).await;
        let full = load(&client, &["alpha/two"]).await;
        assert_eq!(full["_meta"]["toolcrib/error"], "busy");
        let text = text_of(&full);
        for part in
            ["2 tools", "alpha/one, beta/four", "unload_tools {\"names\":[\"alpha/one\"]}", "nothing was loaded"]
        {
            assert!(text.contains(part), "{text}");
        }
        let more = text_of(&load(&client, &["alpha/one", "alpha/two", "alpha/three"]).await);
        assert!(more.contains("3 tools of 1 server(s)") && more.contains("profiles/default.yaml"), "{more}");
        assert_eq!(active(&client).await, ["alpha/one", "beta/four"]);
        client.call("unload_tools", &json!({"names": ["alpha/one"]})).await;
        assert_ne!(load(&client, &["alpha/two"]).await["isError"], true);
    }
}

#[tokio::test]
async fn what_was_used_least_recently_makes_room_and_that_is_told() {
    let house = TestGateway::settled(&with("quota: {tools: 3, policy: evict}\nexposure: dynamic")).await;
    for client in house.both("default") {
        for name in ["alpha/one", "alpha/two", "alpha/three"] {
            load(&client, &[name]).await;
        }
        // A call is a use, whatever comes of it; loading again is one too.
        client.call("alpha_one", &json!({})).await;
        client.call("call_tool", &json!({"name": "alpha/two"})).await;
        let loaded = load(&client, &["beta/four"]).await;
        assert_eq!(loaded["structuredContent"]["evicted"], json!(["alpha/three"]));
        assert!(text_of(&loaded).contains("to make room (the quota is 3 tools):\n- alpha/three"), "{loaded}");
        load(&client, &["alpha/one"]).await;
        let loaded = load(&client, &["beta/five", "alpha/three"]).await;
        assert_eq!(loaded["structuredContent"]["evicted"], json!(["alpha/two", "beta/four"]));
        assert_eq!(active(&client).await, ["alpha/one", "alpha/three", "beta/five"]);
        let fine = load(&client, &["alpha/one"]).await;
        assert!(fine["structuredContent"]["evicted"].is_null(), "{fine}");
    }
}

#[tokio::test]
async fn servers_have_a_quota_and_go_as_a_whole() {
    let mut files = with("dialect: scooter\nquota: {servers: 1, policy: evict}");
    files.push(profile("strict", "dialect: scooter\nquota: {servers: 1}"));
    let house = TestGateway::settled(&files).await;
    for client in house.both("default") {
        client.call("scooter_add", &json!({"tool_name": "alpha"})).await;
        let added = client.call("scooter_activate", &json!({"tool_name": "beta"})).await["structuredContent"].clone();
        assert_eq!((&added["status"], &added["evicted"]), (&json!("activated"), &json!(["alpha"])));
        assert!(added["message"].as_str().unwrap().contains("deactivated: alpha"), "{added}");
        let listed = client.call("scooter_list_active", &json!({})).await["structuredContent"].clone();
        let expected = json!([{"server": "beta", "tools": ["five", "four"], "count": 2}]);
        assert_eq!((&listed["count"], &listed["active_servers"]), (&json!(1), &expected));
    }
    for client in house.both("strict") {
        client.call("scooter_add", &json!({"tool_name": "alpha"})).await;
        let full = text_of(&client.call("scooter_add", &json!({"tool_name": "beta"})).await);
        assert!(full.contains("Active: alpha.") && full.contains("scooter_remove {\"tool_name\":\"alpha\"}"), "{full}");
    }
}

#[tokio::test]
async fn scooter_tells_all_that_a_model_needs() {
    let house = TestGateway::settled(&with("dialect: scooter")).await;
    for client in house.both("default") {
        let inactive = text_of(&client.call("four", &json!({})).await);
        assert!(inactive.contains("`beta`") && inactive.contains("scooter_add {\"tool_name\":\"beta\"}"), "{inactive}");
        for (act, status) in [("scooter_add", "activated"), ("scooter_activate", "already_active")] {
            let result = client.call(act, &json!({"tool_name": "beta"})).await;
            let value = &result["structuredContent"];
            let text: Value = serde_json::from_str(&text_of(&result)).unwrap();
            assert_eq!(text, *value);
            assert_eq!(value["status"], status);
            assert_eq!(value["backend_server"], "beta");
            assert_eq!(value["available_tools"], json!(["five", "four"]));
            assert_eq!(value["tool_count"], 2);
            assert_eq!(strings(&value["tool_schemas"], "name"), ["five", "four"]);
            assert_eq!(value["tool_schemas"][0]["inputSchema"], json!({"type": "object"}));
            for key in ["message", "usage", "important"] {
                assert!(!value[key].as_str().unwrap().is_empty(), "{key}");
            }
            assert!(value["usage"].as_str().unwrap().starts_with("scooter_call {"), "{value}");
        }
        for arguments in [json!({}), json!({"all": false}), json!({"tool_name": ""}), json!({"tool_name": null})] {
            let refused = text_of(&client.call("scooter_deactivate", &arguments).await);
            assert!(refused.contains("neither `tool_name` nor `all`"), "{refused}");
        }
        let not_active = text_of(&client.call("scooter_deactivate", &json!({"tool_name": "alpha"})).await);
        assert!(not_active.contains("server `alpha` is not active"), "{not_active}");
        let unknown = text_of(&client.call("scooter_deactivate", &json!({"tool_name": "alpa"})).await);
        assert!(unknown.contains("no server `alpa`") && unknown.contains("`alpha`"), "{unknown}");
        client.call("scooter_add", &json!({"tool_name": "alpha"})).await;
        let all = client.call("scooter_deactivate", &json!({"all": true})).await;
        assert_eq!(all["structuredContent"]["status"], "off");
        let none = client.call("scooter_list_active", &json!({})).await;
        assert_eq!(none["structuredContent"], json!({"active_servers": [], "count": 0}));
    }
}

#[tokio::test]
async fn a_hidden_server_is_answered_as_one_that_does_not_exist() {
    let alpha = || stopped("alpha", &["one"], "");
    let house = |files: Vec<File>| async move { TestGateway::settled(&files).await };
    let absent = house(vec![alpha(), profile("default", "dialect: scooter")]).await;
    let mut answers = Vec::new();
    for name in ["alphb", "beta"] {
        let hidden = stopped(name, &["four"], "");
        for lines in ["servers: [alpha]", "tools: {allow: ['alpha/*']}", &format!("tools: {{deny: ['{name}/*']}}")] {
            let file = profile("default", &format!("dialect: scooter\n{lines}"));
            let house = house(vec![alpha(), hidden.clone(), file]).await;
            for act in ["scooter_add", "scooter_activate", "scooter_remove", "scooter_deactivate"] {
                let asked = json!({"tool_name": name});
                let params = Raw::from_value(&json!({"name": act, "arguments": asked}));
                let (here, there) = (house.modern("default"), absent.modern("default"));
                let (here, there) = (here.raw("tools/call", &params).await, there.raw("tools/call", &params).await);
                assert_eq!(here.as_ref().unwrap().as_str(), there.unwrap().as_str(), "{act} {name} {lines}");
                answers.push(here.unwrap().to_value());
            }
        }
    }
    assert!(text_of(&answers[0]).contains("Nearest: `alpha`") && text_of(&answers[0]).contains("scooter_find"));
}

#[tokio::test]
async fn what_no_one_uses_is_unloaded_and_exactly_those_who_listed_it_are_told() {
    for kind in ["session", "durable"] {
        let lines = format!("exposure: dynamic\nunload_after: 10m\nactive_set: {kind}");
        let (house, time) = timed(&with(&lines)).await;
        let (client, other) = (house.legacy("default"), house.legacy_of("somebody", "default"));
        let modern = house.modern("default");
        load(&client, &["alpha/one", "alpha/two"]).await;
        load(&modern, &["beta/four"]).await;
        let mut other_notifications = other.stream();
        time.advance(400_000);
        house.gateway.unload_idle();
        client.call("alpha_one", &json!({})).await;
        let mut notifications = client.stream();
        time.advance(200_000);
        house.gateway.unload_idle();
        assert_eq!(active(&client).await, ["alpha/one"], "{kind}: the call kept it");
        assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), CHANGED);
        assert!(!active(&modern).await.contains(&"beta/four".to_owned()), "{kind}");
        house.gateway.unload_idle();
        assert!(
            notifications.try_recv().is_none() && other_notifications.try_recv().is_none(),
            "{kind}: one change, one word"
        );
        assert!(client.listed().await.contains(&"alpha_one".to_owned()));
        time.advance(400_000);
        house.gateway.unload_idle();
        assert_eq!(active(&client).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn without_the_key_nothing_idles() {
    let (house, time) = timed(&with("groups: [load]")).await;
    for client in house.both("default") {
        load(&client, &["alpha/one"]).await;
        time.advance(7 * 24 * 3_600_000);
        house.gateway.unload_idle();
        assert_eq!(active(&client).await, ["alpha/one"]);
    }
}

#[tokio::test]
async fn a_durable_set_is_there_after_a_restart_with_when_it_was_used() {
    let lines = "active_set: durable\nquota: {tools: 2, policy: evict}";
    let house = TestGateway::settled(&with(lines)).await;
    load(&house.legacy("default"), &["beta/four"]).await;
    load(&house.modern("default"), &["alpha/one"]).await;
    load(&house.modern_of("somebody", "default"), &["alpha/two"]).await;
    // Used after all others: it is not what makes room after the restart.
    house.legacy("default").call("beta_four", &json!({})).await;
    let store = house.close().await;

    let clock: Arc<dyn Clock> = Arc::new(toolcrib_base::SystemClock);
    let house = TestGateway::open(&with(lines), Setup { store, clock, ..Setup::default() });
    house.settle().await;
    for client in house.both("default") {
        assert_eq!(active(&client).await, ["alpha/one", "beta/four"]);
    }
    assert_eq!(active(&house.modern_of("somebody", "default")).await, ["alpha/two"]);
    assert_eq!(active(&house.modern_of("nobody", "default")).await, Vec::<String>::new());
    client_unloads_all(&house).await;
    let store = house.close().await;
    assert_eq!(store.active_sets().all().unwrap().len(), 1, "only somebody's");
}

async fn client_unloads_all(house: &TestGateway) {
    let answer = house.legacy("default").call("scooter_deactivate", &json!({"all": true})).await;
    assert_ne!(answer["isError"], true);
}

#[tokio::test]
async fn the_sets_of_sessions_end_with_them() {
    let house = TestGateway::settled(&with("groups: [load]")).await;
    load(&house.legacy("default"), &["beta/four"]).await;
    assert_eq!(house.close().await.active_sets().all().unwrap(), []);
}

#[tokio::test]
async fn a_new_session_begins_with_nothing_where_the_profile_says_so() {
    for (reset, expected) in [(true, vec![]), (false, vec!["alpha/one".to_owned()])] {
        let lines = format!("exposure: dynamic\nactive_set: durable\nreset_on_session: {reset}");
        let house = TestGateway::settled(&with(&lines)).await;
        let (client, other) = (house.legacy("default"), house.legacy_of("somebody", "default"));
        load(&client, &["alpha/one"]).await;
        load(&other, &["alpha/one"]).await;
        let mut notifications = client.stream();
        let params = Raw::from_value(&json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
        let request = Request { id: Id::from_number(1), method: "initialize".into(), params };
        let who = Principal::member("local");
        let snapshot = house.gateway.snapshot(&ProfileName::new("default").unwrap()).unwrap();
        let (_, session) = house.gateway.initialize(&snapshot, &request, &who, None);
        assert!(session.is_some());
        assert_eq!(active(&client).await, expected);
        assert_eq!(notifications.try_recv().map(|message| method_of(&message)), reset.then(|| CHANGED.to_owned()));
        assert_eq!(active(&other).await, ["alpha/one"], "everybody's own");
    }
}

#[tokio::test]
async fn who_has_loaded_what_changes_or_goes_is_told_and_no_one_else() {
    let house = TestGateway::settled(&with("exposure: dynamic")).await;
    let (one, other) = (house.legacy("default"), house.legacy("default"));
    load(&one, &["alpha/one", "alpha/two"]).await;
    load(&other, &["beta/four"]).await;
    let (mut notifications, mut other_notifications) = (one.stream(), other.stream());
    house.apply(&[stopped("alpha", &["one", "three"], "")]).await;
    assert_eq!(notifications.try_recv().map(|message| method_of(&message)), Some(CHANGED.to_owned()));
    assert!(one.listed().await.iter().all(|name| name != "alpha_two"));
    house.apply(&[stopped("alpha", &["one"], "")]).await;
    assert!(notifications.try_recv().is_none(), "`three` was not loaded");
    assert!(other_notifications.try_recv().is_none());
    // What is gone can still be taken out by its id, and nobody's list changes by that.
    let gone = one.call("unload_tools", &json!({"names": ["alpha/two"]})).await;
    assert_ne!(gone["isError"], true, "{gone}");
    assert!(notifications.try_recv().is_none());
}
