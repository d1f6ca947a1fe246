//! Exposed names: who owns a name keeps it, whoever comes and goes; and all names fit what clients accept.

use serde_json::json;
use toolcrib_store::Store;
use toolcrib_testgateway::{File, Setup, TestGateway, profile, server, stopped};

const BARE: &str = "prefix: none\nexposure: pinned\npinned: [\"*\"]";

async fn names(house: &TestGateway) -> Vec<String> {
    let mut listed = house.modern("default").listed().await;
    listed.retain(|name| !["find_tools", "describe_tool", "call_tool"].contains(&name.as_str()));
    listed
}

/// A house of these files over a store that was there before.
async fn over(store: Store, files: &[File]) -> TestGateway {
    let house = TestGateway::open(files, Setup { store, ..Setup::default() });
    house.settle().await;
    house
}

#[tokio::test]
async fn the_first_owner_of_a_bare_name_keeps_it_across_restarts_and_other_tools() {
    let alpha = || stopped("alpha", &["read"], "");
    let beta = || stopped("beta", &["read", "write"], "");
    let bare = || profile("default", BARE);
    // `beta` is alone at first, so it owns the name although `alpha` sorts before it.
    let house = TestGateway::settled(&[beta(), bare()]).await;
    assert_eq!(names(&house).await, ["read", "write"]);
    house.apply(&[alpha()]).await;
    let both = ["alpha_read", "read", "write"];
    assert_eq!(names(&house).await, both);
    house.apply(&[(beta().0, String::new())]).await;
    assert_eq!(names(&house).await, ["alpha_read"], "the newcomer does not inherit the name");
    house.apply(&[beta()]).await;
    assert_eq!(names(&house).await, both);

    let store = house.close().await;
    let house = over(store.clone(), &[alpha(), beta(), bare()]).await;
    assert_eq!(names(&house).await, both);
    drop(house.close().await);
    let house = over(store.clone(), &[alpha(), bare()]).await;
    assert_eq!(names(&house).await, ["alpha_read"]);
    drop(house.close().await);
    let house = over(store, &[beta(), alpha(), bare()]).await;
    assert_eq!(names(&house).await, both);
}

#[tokio::test]
async fn colliding_tools_are_both_reached_by_id_and_by_their_exposed_names() {
    let files = [
        server("alpha", &["--tag", "names-alpha"]),
        server("beta", &["--tag", "names-beta"]),
        profile("default", BARE),
    ];
    let house = TestGateway::settled(&files).await;
    for client in house.both("default") {
        let ids = ["alpha/pid", "beta/pid"];
        let mut by_id = Vec::new();
        for id in ids {
            by_id.push(client.text(id, &json!({})).await);
            let described = client.call("describe_tool", &json!({"name": id})).await;
            let name = described["structuredContent"]["name"].as_str().unwrap().to_owned();
            assert_eq!(client.text(&name, &json!({})).await, by_id[by_id.len() - 1], "{id} as {name}");
            let called = client.text("call_tool", &json!({"name": id})).await;
            assert_eq!(called, by_id[by_id.len() - 1]);
        }
        assert_ne!(by_id[0], by_id[1]);
        let listed = client.listed().await;
        assert_eq!(listed.len(), 33);
        assert!(listed.iter().filter(|name| name.ends_with("pid")).count() == 2, "{listed:?}");
        let prompts = client.ask("prompts/list", &json!({})).await.unwrap();
        assert_eq!(prompts["prompts"].as_array().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn a_server_s_prefix_that_is_another_server_s_name_collides_with_no_one() {
    // `alpha` calls itself `beta`: both want `beta_read`.
    let alpha = || stopped("alpha", &["read"], "prefix: beta\n");
    let beta = || stopped("beta", &["read"], "");
    let direct = || profile("default", "exposure: direct");
    let house = TestGateway::settled(&[alpha(), beta(), direct()]).await;
    let both = names(&house).await;
    assert_eq!(both.len(), 2);
    assert_ne!(both[0], both[1], "no name stands twice");
    assert!(both.contains(&"beta_read".to_owned()), "{both:?}");
    for client in house.both("default") {
        for (id, name) in [("alpha/read", &both[0]), ("beta/read", &both[1])] {
            let described = client.call("describe_tool", &json!({"name": name})).await;
            assert_eq!(described["structuredContent"]["id"], id, "{name}");
        }
    }
}

#[tokio::test]
async fn the_owner_of_a_prefixed_name_keeps_it_when_a_server_of_that_name_comes() {
    let house =
        TestGateway::settled(&[stopped("alpha", &["read"], "prefix: beta\n"), profile("default", "exposure: direct")])
            .await;
    assert_eq!(names(&house).await, ["beta_read"]);
    house.apply(&[stopped("beta", &["read"], "")]).await;
    let described = house.modern("default").call("describe_tool", &json!({"name": "beta_read"})).await;
    assert_eq!(described["structuredContent"]["id"], "alpha/read");
}

#[tokio::test]
async fn the_owner_of_its_own_name_keeps_it_when_a_server_with_that_prefix_comes() {
    let house = TestGateway::settled(&[stopped("beta", &["read"], ""), profile("default", "exposure: direct")]).await;
    assert_eq!(names(&house).await, ["beta_read"]);
    house.apply(&[stopped("alpha", &["read"], "prefix: beta\n")]).await;
    let described = house.modern("default").call("describe_tool", &json!({"name": "beta_read"})).await;
    assert_eq!(described["structuredContent"]["id"], "beta/read");
}

#[tokio::test]
async fn long_and_odd_names_are_exposed_so_that_clients_accept_them_and_stay_apart() {
    let long = "x".repeat(90);
    let longer = "x".repeat(91);
    let tools = [long.as_str(), &longer, "read file", "read_file", "lesen/ä", "a/b/c", "-", "😀"];
    for lines in ["exposure: direct", "exposure: direct\nprefix: none", "dialect: muster\nexposure: direct"] {
        let house = TestGateway::settled(&[stopped("alpha", &tools, ""), profile("default", lines)]).await;
        let client = house.modern("default");
        let mut listed = client.listed().await;
        if lines.contains("muster") {
            listed.drain(..11);
        }
        assert_eq!(listed.len(), tools.len(), "{listed:?}");
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        for name in &listed {
            assert!((1..=64).contains(&name.len()) && name.chars().all(fits), "{lines}: {name}");
            assert_eq!(listed.iter().filter(|other| *other == name).count(), 1, "{lines}: {name}");
            let described = client.call("describe_tool", &json!({"name": name})).await;
            assert_eq!(described["isError"], json!(null), "{lines}: {name}: {described}");
        }
        for tool in tools {
            let described = client.call("describe_tool", &json!({"name": format!("alpha/{tool}")})).await;
            assert!(listed.contains(&described["structuredContent"]["name"].as_str().unwrap().to_owned()), "{tool}");
        }
    }
}

#[tokio::test]
async fn each_profile_has_its_own_owners() {
    let files = [stopped("alpha", &["read"], ""), stopped("beta", &["read"], ""), profile("default", BARE)];
    let house = TestGateway::settled(&files).await;
    assert_eq!(names(&house).await, ["read", "beta_read"]);
    house.apply(&[profile("other", &format!("servers: [beta]\n{BARE}"))]).await;
    let listed = house.modern("other").listed().await;
    assert!(listed.contains(&"read".to_owned()), "{listed:?}");
}

#[tokio::test]
async fn a_server_cannot_answer_in_the_place_of_an_operation() {
    let bare = profile("default", BARE);
    let house = TestGateway::settled(&[
        stopped("alpha", &["core_audit_verify"], ""),
        stopped("core", &["audit_verify"], ""),
        bare,
    ])
    .await;
    assert_eq!(names(&house).await, ["alpha_core_audit_verify", "audit_verify"]);
    let client = house.modern("default").admin();
    for answer in [
        client.call("core_audit_verify", &json!({})).await,
        client.call("call_tool", &json!({"name": "core_audit_verify", "arguments": {}})).await,
    ] {
        assert_eq!(answer["structuredContent"]["intact"], true, "{answer}");
    }
}
