//! Reloading definitions: servers and profiles that are added, changed and removed.

use serde_json::json;
use toolcrib_protocol::{Id, Raw};
use toolcrib_testgateway::{TestGateway, method_of, profile, server, server_with, stopped, text_of};
use toolcrib_testkit::eventually;
use toolcrib_upstream::State;

const DIRECT: &str = "exposure: direct";

#[tokio::test]
async fn an_added_server_is_there_and_the_others_run_on() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", DIRECT)]).await;
    let legacy = house.legacy("default");
    let mut notifications = legacy.stream();
    let pid = legacy.text("alpha_pid", &json!({})).await;
    house.apply(&[server("beta", &[])]).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    for client in [&legacy, &house.modern("default")] {
        assert!(client.listed().await.contains(&"beta_echo".to_owned()));
        assert_eq!(client.text("beta_echo", &json!({"text": "a"})).await, "a");
        assert_eq!(client.text("alpha_pid", &json!({})).await, pid, "the same process");
    }
}

#[tokio::test]
async fn a_removed_server_is_gone_with_its_snapshot_and_its_metrics() {
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[]), profile("default", DIRECT)]).await;
    let client = house.legacy("default");
    house.until_status("beta", |status| status.state == State::Ready).await;
    let snapshots = house.gateway.store().snapshots();
    let name = toolcrib_base::ServerName::new("beta").unwrap();
    // The snapshot is written before the views are built of it.
    house.until("a snapshot", |_| snapshots.get(&name).unwrap().is_some()).await;
    house.apply(&[(server("beta", &[]).0, String::new())]).await;
    assert!(client.listed().await.iter().all(|name| !name.starts_with("beta_")));
    assert_eq!(client.refused("beta_echo", &json!({"text": "a"})).await.code, -32_602);
    assert!(client.found(&json!({"query": "echo", "fold": false})).await.iter().all(|id| !id.starts_with("beta/")));
    assert!(snapshots.get(&name).unwrap().is_none());
    // Its last events may still be on their way: they bring nothing of it back.
    tokio::task::yield_now().await;
    let ready = "toolcrib_server_ready{server=\"beta\"}";
    assert!(!house.gateway.metrics.render().contains(ready), "{}", house.gateway.metrics.render());
}

#[tokio::test]
async fn a_changed_server_is_restarted_and_only_that_one() {
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[]), profile("default", DIRECT)]).await;
    let client = house.modern("default");
    let (alpha, beta) = (client.text("alpha_pid", &json!({})).await, client.text("beta_pid", &json!({})).await);
    house.apply(&[server("beta", &["--tools", "3"])]).await;
    let listed = client.listed().await;
    assert_eq!(listed.iter().filter(|name| name.starts_with("beta_")).count(), 3, "{listed:?}");
    assert_eq!(client.text("alpha_pid", &json!({})).await, alpha);
    house.apply(&[server("beta", &[])]).await;
    assert_ne!(client.text("beta_pid", &json!({})).await, beta);
    assert_eq!(client.text("alpha_pid", &json!({})).await, alpha);
}

#[tokio::test]
async fn a_server_whose_text_changed_keeps_its_tools_from_its_snapshot() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", DIRECT)]).await;
    house.apply(&[server_with("alpha", &[], "title: Zebrafish archive\n")]).await;
    let client = house.modern("default");
    assert!(client.listed().await.contains(&"alpha_echo".to_owned()));
    assert!(!client.found(&json!({"query": "zebrafish"})).await.is_empty(), "the new title is searched");
}

#[tokio::test]
async fn profiles_are_added_changed_and_removed() {
    let house = TestGateway::settled(&[stopped("alpha", &["one", "two"], "")]).await;
    assert!(house.gateway.view("work").is_none());
    house.apply(&[profile("work", "exposure: direct\ntools: {deny: [\"alpha/two\"]}")]).await;
    let [modern, legacy] = house.both("work");
    let mut notifications = legacy.stream();
    for client in [&modern, &legacy] {
        assert_eq!(client.listed().await, ["alpha_one"]);
    }
    house.apply(&[profile("work", "exposure: direct")]).await;
    assert_eq!(method_of(&eventually("news", notifications.recv()).await.unwrap()), "notifications/tools/list_changed");
    for client in [&modern, &legacy] {
        assert_eq!(client.listed().await, ["alpha_one", "alpha_two"]);
    }
    house.apply(&[profile("work", "dialect: go-ent")]).await;
    assert_eq!(modern.listed().await[0], "tool_find");
    house.apply(&[(profile("work", "").0, String::new())]).await;
    for client in [&modern, &legacy] {
        let error = client.ask("tools/list", &json!({})).await.unwrap_err();
        assert_eq!((error.code, error.message.contains("`work`")), (-32_602, true), "{error:?}");
    }
    assert_eq!(house.modern("default").listed().await.len(), 3, "the others are as before");
}

#[tokio::test]
async fn the_same_definitions_again_change_nothing() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", DIRECT)]).await;
    let legacy = house.legacy("default");
    let mut notifications = legacy.stream();
    let pid = legacy.text("alpha_pid", &json!({})).await;
    house.apply(&[]).await;
    assert_eq!(legacy.text("alpha_pid", &json!({})).await, pid);
    assert!(notifications.try_recv().is_none(), "nothing changed, so nothing is said");
}

#[tokio::test]
async fn a_call_that_runs_when_its_server_is_removed_ends_with_an_error() {
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[])]).await;
    let scope = toolcrib_base::task::Scope::new();
    let client = house.legacy("default");
    let (sender, mut queue) = tokio::sync::mpsc::channel(64);
    let slow = client.clone();
    let task = scope.spawn(async move {
        let params = json!({
            "name": "beta_progress", "arguments": {"steps": 100_000, "ms": 5}, "_meta": {"progressToken": 1},
        });
        let params = Raw::from_value(&params);
        let id = Id::from_number(900);
        slow.with_id(id, "tools/call", params, Some(sender)).await
    });
    eventually("the first step", queue.recv()).await.unwrap();
    house.apply(&[(server("beta", &[]).0, String::new())]).await;
    let ended = eventually("the end", task).await.unwrap().unwrap().unwrap().to_value();
    assert_eq!(ended["isError"], true);
    assert!(text_of(&ended).contains("`beta`"), "{ended}");
    let events = house.audited().await;
    assert_eq!(events.iter().filter(|event| event.request_id == "900").count(), 1);
}

#[tokio::test]
async fn a_manual_server_waits_for_its_order() {
    let house = TestGateway::settled(&[server_with("alpha", &[], "start: manual\n")]).await;
    let client = house.modern("default");
    assert_eq!(house.server("alpha").status().state, State::Stopped);
    house.server("alpha").order_start();
    house.until("its tools", |gateway| gateway.view("default").unwrap().tool("alpha/echo").is_some()).await;
    assert_eq!(client.text("alpha_echo", &json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn what_was_read_before_an_operation_wrote_does_not_take_its_server_away() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", DIRECT)]).await;
    let home = house.home().to_owned();
    let before = std::sync::Arc::new(toolcrib_catalog::load(&home));
    house.apply(&[server("beta", &[])]).await;
    let gateway = std::sync::Arc::clone(&house.gateway);
    tokio::task::spawn_blocking(move || gateway.apply(before)).await.unwrap();
    assert!(house.modern("default").listed().await.contains(&"beta_echo".to_owned()));
}
