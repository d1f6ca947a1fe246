//! Keys of profiles: who comes in with one, where, and what ends when it is revoked.

use http::Method;
use serde_json::json;
use toolcrib_base::{Clock as _, SystemClock, Timestamp};
use toolcrib_catalog::{GatewayKey, KeyName};
use toolcrib_testgateway::{File, profile};
use toolcrib_testkit::eventually;

use crate::served::{Ask, ServedGateway, stopped, without_time};

pub(crate) struct Key {
    pub(crate) secret: String,
    pub(crate) line: String,
}

pub(crate) fn key(name: &str) -> Key {
    let (secret, key) = GatewayKey::generate(KeyName::new(name).unwrap(), None);
    Key { secret: secret.expose().to_owned(), line: format!("- {{name: {name}, hash: '{}'}}\n", key.hash) }
}

pub(crate) fn locked(keys: &[&Key]) -> File {
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

    // By the change itself, which is read within a second: `catalog::watch` says how.
    let ended = without_time("the end of the streams", async {
        house.apply(&[locked(&[&bob])]).await;
        let last = news.next().await;
        // News may come before the end; the end itself is an answer.
        while listening.next().await.is_some_and(|message| message.get("result").is_none()) {}
        last
    });
    assert_eq!(ended.await, None, "the stream has ended");
    house.ask(with(list(), &ours)).await.problem(401);
    let ping = Ask::legacy(&his, "ping", &json!({})).to("/mcp/p/locked");
    house.ask(with(ping, &bob)).await.result();
    house
        .apply(&[stopped("beta", &["two"]), profile("locked", &format!("exposure: direct\nkeys:\n{}", bob.line))])
        .await;
    assert_eq!(his_news.next().await.unwrap()["method"], "notifications/tools/list_changed", "he is not disturbed");
}

#[tokio::test]
async fn a_halted_key_is_refused_and_what_it_opened_ends() {
    let (ours, bob) = (key("ci"), key("bob"));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&ours, &bob])]).await;
    let id = session(&house, &ours).await;
    let mut news = house.events(with(Ask::get("/mcp/p/locked").header("mcp-session-id", &id), &ours)).await;
    let listen = Ask::modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut listening = house.events(with(listen.to("/mcp/p/locked"), &ours)).await;
    assert!(listening.next().await.unwrap()["method"].as_str().unwrap().contains("acknowledged"));
    let mut followed = house.events(Ask::get("/api/v1/events").admin()).await;

    let halt = |subject: &str| json!({"kind": "principal", "subject": subject, "reason": "a test"}).to_string();
    let added = house.ask(Ask::new(Method::POST, "/api/v1/halts", halt("key:locked/ci")).admin()).await;
    assert_eq!(added.status, 201);
    let id = added.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(news.next().await, None, "the stream has ended");
    while listening.next().await.is_some_and(|message| message.get("result").is_none()) {}
    let refused = house.ask(with(list(), &ours)).await.json();
    assert!(refused["error"]["message"].as_str().unwrap().contains(&id), "{refused}");
    house.ask(with(list(), &bob)).await.result();
    let lifted = house.ask(Ask::new(Method::DELETE, &format!("/api/v1/halts/{id}"), "").admin()).await;
    assert_eq!(lifted.status, 200);
    house.ask(with(list(), &ours)).await.result();

    house.ask(Ask::new(Method::POST, "/api/v1/halts", halt("admin")).admin()).await;
    eventually("the end of the stream", async { while followed.event().await.is_some() {} }).await;
    for path in ["/api/v1/servers", "/api/v1/events"] {
        house.ask(Ask::get(path).admin()).await.problem(403);
    }
}

/// The same key with more in its line.
fn with_more(key: &Key, more: &str) -> Key {
    Key { secret: key.secret.clone(), line: key.line.replace('}', &format!(", {more}}}")) }
}

/// So many milliseconds from now, as the file has it.
fn moment(millis: i64) -> String {
    Timestamp(SystemClock.now().0 + millis).to_string()
}

#[tokio::test]
async fn a_key_gives_its_role_in_its_profile() {
    let roles = ["viewer", "member", "operator", "admin"].map(|role| with_more(&key(role), &format!("role: {role}")));
    let lines: String = roles.iter().map(|key| key.line.as_str()).collect();
    let files =
        [stopped("alpha", &["one"]), profile("default", &format!("keys:\n{lines}")), profile("locked", "keys: []\n")];
    let house = ServedGateway::settled(&files).await;
    let audit = |key: &Key| with(Ask::get("/api/v1/audit"), key);
    let write = |key: &Key| with(Ask::new(http::Method::DELETE, "/api/v1/servers/alpha", ""), key);
    let [viewer, member, operator, admin] = &roles;
    for (key, reads, writes) in [(viewer, 403, 403), (member, 403, 403), (operator, 200, 403)] {
        assert_eq!(house.ask(audit(key)).await.status, reads, "{}", key.line);
        assert_eq!(house.ask(write(key)).await.status, writes, "{}", key.line);
    }
    assert_eq!(house.ask(audit(admin)).await.status, 200);
    // A viewer calls only what says that it reads; what it may not call it is told.
    let call = |key: &Key| with(Ask::modern("tools/call", json!({"name": "alpha_one", "arguments": {}})), key);
    let refused = String::from_utf8(house.ask(call(viewer)).await.body.to_vec()).unwrap();
    assert!(refused.contains("the role `viewer`"), "{refused}");
    let by_name = json!({"name": "call_tool", "arguments": {"name": "alpha_one", "arguments": {}}});
    let refused = house.ask(with(Ask::modern("tools/call", by_name), viewer)).await.result();
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("the role `viewer`"), "{refused}");
    let member = String::from_utf8(house.ask(call(member)).await.body.to_vec()).unwrap();
    assert!(!member.contains("the role `viewer`"), "{member}");
    // Nowhere else.
    for role in &roles {
        house.ask(with(list(), role)).await.problem(401);
    }
}

#[tokio::test]
async fn a_key_that_has_expired_opens_nothing_and_what_it_opened_ends() {
    let (ours, other) = (key("ci"), key("bob"));
    let soon = with_more(&ours, &format!("expires: '{}'", moment(3_000)));
    let gone = with_more(&other, &format!("expires: '{}'", moment(-1)));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&soon, &gone])]).await;
    let problem = house.ask(with(list(), &gone)).await.problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("key `bob` has expired"), "{problem}");
    let session = session(&house, &soon).await;
    let listed = || with(Ask::legacy(&session, "tools/list", &json!({})).to("/mcp/p/locked"), &soon);
    house.ask(listed()).await.result();
    let mut stream = house.events(with(Ask::get("/mcp/p/locked").header("mcp-session-id", &session), &soon)).await;
    // It ends without a request and without a change of the file.
    toolcrib_testkit::eventually("the stream of the key to end", async { while stream.event().await.is_some() {} })
        .await;
    house.ask(listed()).await.problem(401);
    assert_eq!(house.gateway.sessions.count(), 0);
}

#[tokio::test]
async fn a_key_with_less_power_begins_anew() {
    let ours = key("ci");
    let (admin, member) = (with_more(&ours, "role: admin"), with_more(&ours, "role: member"));
    let house = ServedGateway::settled(&[stopped("alpha", &["one"]), locked(&[&admin])]).await;
    let session = session(&house, &admin).await;
    let mut stream = house.events(with(Ask::get("/mcp/p/locked").header("mcp-session-id", &session), &admin)).await;
    house.apply(&[locked(&[&member])]).await;
    toolcrib_testkit::eventually("the stream of the key to end", async { while stream.event().await.is_some() {} })
        .await;
    house.ask(with(list(), &ours)).await.result();
}

#[tokio::test]
async fn a_key_makes_no_key_with_more_power_than_its_own() {
    let roles = ["viewer", "member", "operator", "admin"].map(|role| with_more(&key(role), &format!("role: {role}")));
    let lines: String = roles.iter().map(|key| key.line.as_str()).collect();
    let files = [stopped("alpha", &["one"]), profile("default", &format!("keys:\n{lines}")), locked(&[])];
    let house = ServedGateway::settled(&files).await;
    let made = with_more(&key("new"), "role: member");
    let definition =
        |name: &str, lines: &str| json!({"name": name, "yaml": format!("name: {name}\nkeys:\n{lines}")}).to_string();
    for maker in &roles[..3] {
        for (method, path, name) in
            [(Method::POST, "/api/v1/profiles", "fresh"), (Method::PUT, "/api/v1/profiles/locked?revision=x", "locked")]
        {
            let status =
                house.ask(with(Ask::new(method.clone(), path, definition(name, &made.line)), maker)).await.status;
            assert_eq!(status, 403, "{method} {path}: {}", maker.line);
        }
    }
    // No key is an owner's, whoever writes it.
    let owner = with_more(&key("root"), "role: owner");
    let create = |line: &str| with(Ask::new(Method::POST, "/api/v1/profiles", definition("fresh", line)), &roles[3]);
    let refused = house.ask(create(&owner.line)).await;
    assert!(refused.status.is_client_error(), "{}", refused.status);
    let said = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(said.contains("expected `viewer`") && said.contains("`admin`"), "{said}");
    assert_eq!(house.ask(create(&made.line)).await.status, 201);
}
