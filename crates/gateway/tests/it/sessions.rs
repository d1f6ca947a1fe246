//! Whose calls share a connection to a legacy server: the session policies, and the tools that open and close sessions.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, server, server_with, stopped, text_of};
use toolcrib_upstream::{IDLE, State};

const HANDLE: &str = "session: handle";
const OPEN: &str = "alpha_open_session";
const CLOSE: &str = "alpha_close_session";

fn alpha(flags: &[&str]) -> File {
    server_with("alpha", flags, HANDLE)
}

async fn open(client: &Client) -> Value {
    let opened = client.call(OPEN, &json!({})).await;
    let data = &opened["structuredContent"];
    assert_eq!(text_of(&opened).parse::<Value>().unwrap(), *data, "as text too");
    let session = data["session"].clone();
    assert_eq!(session.as_str().unwrap().len(), 32, "128 bits");
    session
}

async fn counted(client: &Client, session: &Value) -> String {
    client.text("alpha_counter", &json!({"session": session})).await
}

/// The answer to a handle that leads nowhere, with what to do.
async fn check_not_open(client: &Client, session: &Value) {
    let refused = client.call("alpha_counter", &json!({"session": session})).await;
    assert_eq!((&refused["isError"], &refused["_meta"]["toolcrib/error"]), (&json!(true), &json!("not-found")));
    let expect = "no such session with server `alpha` is open: it was closed, idled too long or ended with the server. \
                  Open one with `alpha_open_session`, or leave `session` out.";
    assert_eq!(text_of(&refused), expect);
    let refused = client.call(CLOSE, &json!({"session": session})).await;
    assert_eq!(refused["isError"], true, "nor can it be closed");
    assert!(text_of(&refused).ends_with("Open one with `alpha_open_session`."));
}

#[tokio::test]
async fn a_session_is_opened_used_and_closed_and_no_one_else_takes_part_in_it() {
    let house = TestGateway::settled(&[alpha(&[])]).await;
    for client in house.both("default") {
        let (one, other) = (open(&client).await, open(&client).await);
        assert_ne!(one, other);
        for (session, expect) in [(&one, "1"), (&one, "2"), (&other, "1"), (&one, "3"), (&other, "2")] {
            assert_eq!(counted(&client, session).await, expect);
        }
        let by_meta = json!({"name": "alpha/counter", "arguments": {"session": one}});
        assert_eq!(client.text("call_tool", &by_meta).await, "4");
        for foreign in [house.modern_of("somebody", "default"), house.legacy_of("somebody", "default")] {
            check_not_open(&foreign, &one).await;
        }
        let closed = client.call(CLOSE, &json!({"session": one})).await;
        assert_eq!(closed["structuredContent"], json!({"closed": true}));
        check_not_open(&client, &one).await;
        assert_eq!(counted(&client, &other).await, "3", "the other one goes on");
        client.call(CLOSE, &json!({"session": other})).await;
    }
    assert_eq!(house.server("alpha").extra_connections(), 0);
    let client = house.modern("default");
    assert_eq!(counted(&client, &Value::Null).await, "1", "the ordinary connection; null is left out");
    assert_eq!(client.text("alpha_counter", &json!({})).await, "2");
    for odd in [json!(""), json!("0".repeat(32)), json!("ü\u{0}"), json!("x".repeat(100_000))] {
        check_not_open(&client, &odd).await;
    }
    for odd in [json!(7), json!(["x"]), json!({})] {
        let refused = client.call("alpha_counter", &json!({"session": odd})).await;
        assert_eq!(refused["isError"], true, "{odd}");
    }
    assert_eq!(client.text("alpha_counter", &json!({})).await, "3", "none of these reached the server");
}

#[tokio::test]
async fn both_eras_of_one_principal_share_a_session_and_a_legacy_session_s_end_does_not_end_it() {
    let house = TestGateway::settled(&[alpha(&[])]).await;
    let [modern, legacy] = house.both("default");
    let session = open(&legacy).await;
    assert_eq!(counted(&legacy, &session).await, "1");
    house.gateway.sessions.close(legacy.caller.session.as_ref().unwrap());
    assert_eq!(counted(&modern, &session).await, "2");
}

#[tokio::test]
async fn the_server_does_not_see_the_argument() {
    let house = TestGateway::settled(&[alpha(&[])]).await;
    let client = house.legacy("default");
    for session in [open(&client).await, Value::Null] {
        let received = client.text("alpha_received", &json!({"a": 1, "session": session, "b": 2})).await;
        let received: Value = received.parse().unwrap();
        assert_eq!(received["arguments"].to_string(), r#"{"a":1,"b":2}"#);
    }
}

#[tokio::test]
async fn the_tools_and_the_parameter_are_listed_described_and_found() {
    let files = [
        alpha(&[]),
        server("beta", &[]),
        profile("direct", "exposure: direct"),
        profile("muster", "dialect: muster"),
        profile("bare", "exposure: direct\nprefix: none"),
        profile("pinned", "exposure: pinned\npinned: [\"alpha/open_*\"]"),
    ];
    let house = TestGateway::settled(&files).await;
    for client in house.both("direct") {
        let listed = client.listed().await;
        assert_eq!(listed.len(), 32);
        assert_eq!(listed[15..17], [OPEN, CLOSE], "after the server's own");
        let tools = client.ask("tools/list", &json!({})).await.unwrap()["tools"].clone();
        for tool in tools.as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let has = !tool["inputSchema"]["properties"]["session"].is_null();
            assert_eq!(has, name.starts_with("alpha_") && name != OPEN, "{tool}");
        }
        let echo = &tools[0]["inputSchema"];
        assert_eq!(echo["required"], json!(["text"]));
        let words = "A session opened with alpha_open_session; without it, the ordinary connection";
        assert_eq!(echo["properties"]["session"], json!({"type": "string", "description": words}));
    }
    let client = house.modern("default");
    let described = client.call("describe_tool", &json!({"name": "alpha/echo"})).await;
    assert_eq!(described["structuredContent"]["inputSchema"]["properties"]["session"]["type"], "string");
    let found = client.call("find_tools", &json!({"query": "echo", "server": "alpha"})).await;
    let echo = &found["structuredContent"]["tools"][0];
    assert_eq!(echo["id"], "alpha/echo");
    assert!(echo["signature"].as_str().unwrap().contains("session?"), "{echo}");
    let found = client.found(&json!({"query": "open a session"})).await;
    assert_eq!(found[0], "alpha/open_session");
    assert!(client.found(&json!({"server": "alpha", "limit": 100})).await.contains(&"alpha/close_session".to_owned()));
    assert_eq!(house.modern("pinned").listed().await.last().unwrap(), OPEN);
    let bare = house.modern("bare");
    let session = bare.call("open_session", &json!({})).await["structuredContent"]["session"].clone();
    assert_eq!(bare.text("counter", &json!({"session": session})).await, "1", "`beta/counter` has the longer name");
    let muster = house.legacy("muster");
    let inner = json!({"name": "x_alpha_open_session", "arguments": {}});
    let opened: Value = muster.text("call_tool", &inner).await.parse().unwrap();
    assert!(opened["structuredContent"]["session"].is_string(), "{opened}");
}

#[tokio::test]
async fn what_the_server_has_itself_keeps_its_name() {
    let tools = json!([
        {"name": "open_session", "inputSchema": {"type": "object", "properties": {"session": {"type": "integer"}}}},
        {"name": "toolcrib_open_session"},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]);
    let text = format!("name: alpha\ncommand: never-started\nstart: manual\nsession: handle\ntools: {tools}\n");
    let house =
        TestGateway::settled(&[("servers/alpha.yaml".to_owned(), text), profile("default", "exposure: direct")]).await;
    let client = house.modern("default");
    let ours = "alpha_toolcrib_open_session_2";
    let expect = [OPEN, "alpha_toolcrib_open_session", "alpha_plain", ours, CLOSE];
    assert_eq!(client.listed().await, expect);
    let tools = client.ask("tools/list", &json!({})).await.unwrap()["tools"].clone();
    let names = |index: usize| -> Vec<String> {
        let properties = tools[index]["inputSchema"]["properties"].as_object();
        properties.unwrap().keys().cloned().collect()
    };
    assert_eq!([names(0), names(1), names(2)], [vec!["session", "toolcrib_session"], vec!["session"], vec!["session"]]);
    let session = client.call(ours, &json!({})).await["structuredContent"]["session"].clone();
    let own = client.call(OPEN, &json!({"session": 7, "toolcrib_session": session})).await;
    assert_eq!(own["_meta"]["toolcrib/error"], "server-unavailable", "asked of the server: {own}");
    let own = client.call(OPEN, &json!({"toolcrib_session": "no"})).await;
    assert!(text_of(&own).ends_with("Open one with `alpha_toolcrib_open_session_2`, or leave `toolcrib_session` out."));
}

#[tokio::test]
async fn rules_hide_the_tools_of_sessions_like_any_other() {
    let files = [
        alpha(&[]),
        profile("none", "exposure: direct\nservers: []"),
        profile("denied", "exposure: direct\ntools: {deny: [\"alpha/open_session\"]}"),
        profile("no-tools", "exposure: direct\ntools: {allow: [\"alpha/*_session\"]}"),
        profile("stays", "exposure: direct\ntools: {deny: [\"*/close_session\"]}"),
        profile("reads", "exposure: direct\nread_only: true"),
    ];
    let house = TestGateway::settled(&files).await;
    let session = open(&house.modern("default")).await;
    for (name, tools) in [("none", 0), ("denied", 15), ("no-tools", 0), ("stays", 16), ("reads", 14)] {
        for client in house.both(name) {
            let text = client.ask("tools/list", &json!({})).await.unwrap().to_string();
            assert_eq!(client.listed().await.len(), tools, "{name}");
            assert_eq!(text.contains("session"), name == "stays", "{name}");
            assert!(
                client.ask("tools/call", &json!({"name": CLOSE, "arguments": {"session": session}})).await.is_err()
            );
            let opened = client.ask("tools/call", &json!({"name": OPEN, "arguments": {}})).await;
            assert_eq!(opened.is_ok(), name == "stays", "{name}");
        }
    }
    let received = house.modern("denied").text("alpha_received", &json!({"session": "x"})).await;
    assert!(received.contains(r#""session":"x""#), "where no session can be opened, the argument is the server's");
}

#[tokio::test]
async fn a_hidden_tool_of_the_server_does_not_show_in_the_names_of_ours() {
    for hidden in ["open_session", "close_session"] {
        let rules = format!("exposure: direct\ntools: {{deny: [\"alpha/{hidden}\"]}}");
        let mut seen = Vec::new();
        for tools in [&["one", hidden][..], &["one"]] {
            let house = TestGateway::settled(&[stopped("alpha", tools, HANDLE), profile("default", &rules)]).await;
            let client = house.legacy("default");
            let listed = client.ask("tools/list", &json!({})).await.unwrap();
            let found = client.call("find_tools", &json!({"query": "session", "limit": 100})).await;
            let called = client.refused(&format!("alpha_toolcrib_{hidden}"), &json!({})).await;
            seen.push(format!("{listed} {found} {called:?}"));
        }
        assert_eq!(seen[0], seen[1], "{hidden}");
    }
}

#[tokio::test]
async fn a_principal_has_a_bound_and_closing_makes_room() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], HANDLE)]).await;
    let client = house.modern("default");
    let mut sessions = Vec::new();
    for _ in 0..32 {
        sessions.push(open(&client).await);
    }
    let refused = client.call(OPEN, &json!({})).await;
    assert_eq!(refused["_meta"]["toolcrib/error"], "busy");
    assert!(text_of(&refused).contains("the limit of 32 open sessions"), "{refused}");
    open(&house.modern_of("somebody", "default")).await;
    client.call(CLOSE, &json!({"session": sessions[0]})).await;
    open(&client).await;
    assert_eq!(client.call(OPEN, &json!({})).await["isError"], true);
}

#[tokio::test]
async fn a_session_that_is_never_used_is_over_after_a_while() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], HANDLE)]).await;
    let client = house.modern("default");
    let away = async |session: &Value| {
        client.call("alpha_one", &json!({"session": session})).await["_meta"]["toolcrib/error"].clone()
    };
    tokio::time::pause();
    let (named, other) = (open(&client).await, open(&client).await);
    tokio::time::advance(IDLE - Duration::from_secs(1)).await;
    assert_eq!(away(&named).await, "server-unavailable", "it is open, and its server is away");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(away(&other).await, "not-found");
    assert_eq!(away(&named).await, "server-unavailable", "it was named meanwhile");
    tokio::time::advance(IDLE).await;
    for _ in 0..32 {
        open(&client).await;
    }
    assert_eq!(away(&named).await, "not-found");
}

#[tokio::test]
async fn a_session_ends_with_its_server() {
    let house = TestGateway::settled(&[alpha(&[])]).await;
    let client = house.modern("default");
    let session = open(&client).await;
    assert_eq!(counted(&client, &session).await, "1");
    house.server("alpha").order_restart();
    house.until_status("alpha", |status| status.restarts == 1 && status.state == State::Ready).await;
    check_not_open(&client, &session).await;

    let [used, unused] = [open(&client).await, open(&client).await];
    counted(&client, &used).await;
    house.apply(&[alpha(&["--instructions", "another one"])]).await;
    check_not_open(&client, &used).await;
    check_not_open(&client, &unused).await;
    let session = open(&client).await;
    assert_eq!(counted(&client, &session).await, "1");
}

#[tokio::test]
async fn each_of_these_calls_is_on_record_and_no_handle_is() {
    let house = TestGateway::settled(&[alpha(&[])]).await;
    let client = house.modern("default");
    let session = open(&client).await;
    counted(&client, &session).await;
    client.text("alpha_counter", &json!({})).await;
    client.call("alpha_counter", &json!({"session": "no"})).await;
    client.call(CLOSE, &json!({"session": session})).await;
    client.call(CLOSE, &json!({"session": session})).await;
    let events = house.audited().await;
    let rows: Vec<_> = events.iter().map(|event| (event.target.as_str(), event.outcome.as_str())).collect();
    let expect = [
        ("alpha/open_session", "ok"),
        ("alpha/counter", "ok"),
        ("alpha/counter", "ok"),
        ("alpha/counter", "error:not-found"),
        ("alpha/close_session", "ok"),
        ("alpha/close_session", "error:not-found"),
    ];
    assert_eq!(rows, expect);
    assert!(events.iter().all(|event| event.decision == "permit:tool-allowed"));
    assert_eq!(events[1].args_hash, events[2].args_hash, "what is written down is what the server gets");
    assert_eq!(events[4].args_hash, None);
}

#[tokio::test]
async fn a_modern_server_has_no_sessions_to_open() {
    let house = TestGateway::settled(&[alpha(&["--modern"]), profile("default", "exposure: direct")]).await;
    let shows = |name: &str| house.gateway.view("default").unwrap().tool(name).is_some();
    house.until("it is known to be modern", |_| shows("alpha_echo") && !shows(OPEN)).await;
    let client = house.modern("default");
    assert!(!client.ask("tools/list", &json!({})).await.unwrap().to_string().contains("session"));
}

#[tokio::test]
async fn a_parked_call_belongs_to_its_session() {
    let house = TestGateway::settled(&[alpha(&["--asks"])]).await;
    let client = house.modern("default");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let ask = async |mut params: Value| {
        params["_meta"] = meta.clone();
        client.ask("tools/call", &params).await
    };
    let opened = ask(json!({"name": OPEN})).await.unwrap();
    let session = &opened["structuredContent"]["session"];
    let call = json!({"name": "alpha_ask", "arguments": {"session": session}});
    let asked = ask(call.clone()).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "what the client could be asked when it opened counts: {asked}");
    let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let retry = |mut call: Value| {
        call["requestState"] = asked["requestState"].clone();
        call["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "me"}}});
        call
    };
    let error = ask(retry(json!({"name": "alpha_ask", "arguments": {}}))).await.unwrap_err();
    assert!(error.message.contains("belongs to another call"), "{}", error.message);
    let done = ask(retry(call)).await.unwrap();
    assert!(text_of(&done).contains("accept"), "{done}");
    // The ordinary connection has counted nothing, that of the session is still there.
    assert_eq!(counted(&client, session).await, "1");
}

#[tokio::test]
async fn each_policy_shares_what_it_says() {
    let files = [
        server_with("alpha", &["--tasks"], "session: request"),
        server_with("beta", &[], "session: principal"),
        server_with("gamma", &[], "session: shared"),
    ];
    let house = TestGateway::settled(&files).await;
    let somebody = house.modern_of("somebody", "default");
    for (number, client) in house.both("default").into_iter().chain([somebody]).enumerate() {
        let principal = if number == 2 { 1 } else { number + 1 };
        for (tool, expect) in [("alpha_counter", 1), ("beta_counter", principal), ("gamma_counter", number + 1)] {
            assert_eq!(client.text(tool, &json!({})).await, expect.to_string(), "{tool} of client {number}");
        }
        assert!(!client.found(&json!({"limit": 100})).await.iter().any(|id| id.ends_with("_session")));
        // A task of 2025-11-25 takes several calls, which stay together.
        let job = client.text("alpha_job", &json!({})).await;
        assert!(job.starts_with("job-1 is done"), "{job}");
    }
    assert_eq!(house.server("alpha").extra_connections(), 0);
    assert_eq!(house.server("gamma").extra_connections(), 0);
}

#[tokio::test]
async fn a_handle_never_becomes_an_example() {
    let house = TestGateway::settled(&[alpha(&[]), profile("team", "examples: shared\nlearn: true")]).await;
    let [ann, bob] = ["ann", "bob"].map(|name| house.modern_of(name, "team"));
    let session = open(&ann).await;
    let counting = json!({"name": "alpha_counter", "arguments": {"session": session}});
    ann.call("call_tool", &counting).await;
    ann.call(CLOSE, &json!({"session": session})).await;
    for tool in [OPEN, CLOSE] {
        let described = bob.call("describe_tool", &json!({"name": tool})).await;
        assert_ne!(described["isError"], true, "{described}");
        assert_eq!(described["structuredContent"]["examples"], Value::Null, "{tool}");
    }
    let described = bob.call("describe_tool", &json!({"name": "alpha_counter"})).await;
    assert_eq!(described["structuredContent"]["examples"], json!([{}]), "without the handle");
}
