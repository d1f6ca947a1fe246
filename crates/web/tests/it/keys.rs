//! Keys of profiles: who comes in with one, where, and what ends when it is revoked.

use serde_json::json;
use toolcrib_catalog::{GatewayKey, KeyName};
use toolcrib_testgateway::{File, profile};

use crate::served::{Ask, ServedGateway, stopped};

pub(crate) struct Key {
    pub(crate) secret: String,
    pub(crate) line: String,
}

pub(crate) fn key(name: &str) -> Key {
    let (secret, key) = GatewayKey::generate(KeyName::new(name).unwrap(), None);
    Key { secret: secret.expose().to_owned(), line: format!("- {{name: {name}, hash: '{}'}}\n", key.hash) }
}

fn locked(keys: &[&Key]) -> File {
    let lines: String = keys.iter().map(|key| key.line.as_str()).collect();
    profile("locked", &if keys.is_empty() { "keys: []\n".to_owned() } else { format!("keys:\n{lines}") })
}

fn list() -> Ask {
    Ask::modern("tools/list", json!({})).to("/mcp/p/locked")
}

pub(crate) fn with(ask: Ask, key: &Key) -> Ask {
    ask.with("authorization", &format!("Bearer {}", key.secret))
}

/// A session that was opened with a key.
async fn session(house: &ServedGateway, key: &Key) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = house.ask(with(Ask::post(body.to_string()).to("/mcp/p/locked"), key)).await;
    reply.result();
    reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_profile_with_keys_is_closed_to_everyone_else() {
    let (ours, other) = (key("ci"), key("ci"));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&ours]), profile("open", "")]).await;
    house.ask(with(list(), &ours)).await.result();
    house.ask(list().admin()).await.result();
    for refused in [list(), with(list(), &other), list().header("authorization", "Bearer ")] {
        let reply = house.ask(refused).await;
        let problem = reply.problem(401);
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
        assert!(problem["hint"].as_str().unwrap().contains("key of the profile"), "{problem}");
    }
    house.ask(with(list(), &ours).to("/mcp/p/locked/")).await.result();
    house.ask(list().to("/mcp/p/locked/")).await.problem(401);
    house.ask(Ask::get("/sse/p/locked")).await.problem(401);
    // It opens nothing else, and nothing else has become shut.
    house.ask(with(list(), &ours).to("/mcp/p/open")).await.problem(401);
    house.ask(with(Ask::get("/api/v1/tools"), &ours)).await.problem(401);
    house.ask(list().to("/mcp/p/open")).await.result();
    house.apply(&[locked(&[])]).await;
    house.ask(with(list(), &ours)).await.problem(401);
    house.ask(list()).await.problem(401);
    house.ask(list().admin()).await.result();
}

#[tokio::test]
async fn the_default_profile_s_keys_also_shut_what_shows_it_by_other_doors() {
    let ours = key("ci");
    let (path, lines) = profile("default", &format!("keys:\n{}", ours.line));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), (path, lines)]).await;
    for path in ["/mcp", "/mcp/", "/mcp/p/default", "/sse", "/api/v1/tools"] {
        house.ask(Ask::get(path)).await.problem(401);
    }
    // It is admitted, and it administers nothing.
    house.ask(with(Ask::get("/api/v1/secrets"), &ours)).await.problem(403);
    assert_eq!(house.ask(Ask::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn a_profile_that_the_query_names_is_opened_by_its_own_keys() {
    let (ours, other) = (key("ci"), key("other"));
    let (path, lines) = profile("default", &format!("keys:\n{}", other.line));
    let house =
        ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&ours]), profile("open", ""), (path, lines)])
            .await;
    let tools = |query: &str| Ask::get(&format!("/api/v1/tools{query}"));
    let seen = house.ask(with(tools("?profile=locked"), &ours)).await.json();
    assert_eq!(seen["tools"][0]["id"], "alpha/one", "{seen}");
    house.ask(tools("?profile=open")).await.json();
    for (query, key) in [
        ("?profile=locked", Some(&other)),
        ("?profile=locked", None),
        ("", Some(&ours)),
        ("", None),
        // Whichever of two is taken, it is opened by its own keys or not at all.
        ("?profile=open&profile=locked", None),
        ("?profile=open&profile=default", None),
        ("?profile=locked&profile=default", Some(&ours)),
        ("?profile=open&pro%66ile=locked", None),
    ] {
        let asked = tools(query);
        let status = house.ask(key.map_or_else(|| tools(query), |key| with(asked, key))).await.status;
        assert!(matches!(status.as_u16(), 400 | 401), "{query}: {status}");
    }
}

#[tokio::test]
async fn two_keys_of_one_name_are_one_principal_and_names_differ() {
    let (old, new, bob) = (key("ci"), key("ci"), key("bob"));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&old, &new, &bob])]).await;
    let id = session(&house, &old).await;
    let ping = || Ask::legacy(&id, "ping", &json!({})).to("/mcp/p/locked");
    house.ask(with(ping(), &new)).await.result();
    house.ask(with(ping(), &bob)).await.error(404, -32_602);
    house.ask(ping()).await.problem(401);
}

#[tokio::test]
async fn a_revoked_key_is_refused_and_what_it_opened_ends() {
    let (ours, bob) = (key("ci"), key("bob"));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&ours, &bob])]).await;
    let (id, his) = (session(&house, &ours).await, session(&house, &bob).await);
    let stream = |id: &str, key| with(Ask::get("/mcp/p/locked").header("mcp-session-id", id), key);
    let (mut news, mut his_news) = (house.events(stream(&id, &ours)).await, house.events(stream(&his, &bob)).await);
    let mut listen = Ask::modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    listen = with(listen.to("/mcp/p/locked"), &ours);
    let mut listening = house.events(listen).await;
    assert!(listening.next().await.unwrap()["method"].as_str().unwrap().contains("acknowledged"));

    house.apply(&[locked(&[&bob])]).await;
    assert_eq!(news.next().await, None, "the stream has ended");
    // News may come before the end; the end itself is an answer.
    while listening.next().await.is_some_and(|message| message.get("result").is_none()) {}
    house.ask(with(list(), &ours)).await.problem(401);
    let ping = Ask::legacy(&his, "ping", &json!({})).to("/mcp/p/locked");
    house.ask(with(ping, &bob)).await.result();
    house
        .apply(&[stopped("beta", &["two"]), profile("locked", &format!("exposure: direct\nkeys:\n{}", bob.line))])
        .await;
    assert_eq!(his_news.next().await.unwrap()["method"], "notifications/tools/list_changed", "he is not disturbed");
}
