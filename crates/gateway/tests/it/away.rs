//! Slow, dead and hostile servers: nobody else waits for them, and what was known of them is still shown.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, Setup, TestGateway, profile, server, server_with, strings, text_of};
use toolcrib_testkit::eventually;
use toolcrib_upstream::State;

/// Everything that a client does with the healthy server `alpha`, while another one misbehaves.
async fn works(client: &Client, what: &str) {
    assert!(client.listed().await.contains(&"alpha_echo".to_owned()), "{what}");
    let found = client.found(&json!({"query": "adds two numbers"})).await;
    assert_eq!(found[0], "alpha/add", "{what}");
    let described = client.call("describe_tool", &json!({"name": "alpha/echo"})).await;
    assert_eq!(described["structuredContent"]["state"], "ready", "{what}");
    assert_eq!(client.text("alpha_echo", &json!({"text": "a"})).await, "a", "{what}");
    let called = client.text("call_tool", &json!({"name": "alpha/echo", "arguments": {"text": "b"}})).await;
    assert_eq!(called, "b", "{what}");
    client.ask("resources/read", &json!({"uri": "fake://text"})).await.unwrap();
    client.ask("prompts/get", &json!({"name": "alpha_plain"})).await.unwrap();
}

/// `alpha` works while `bad` has these flags, and before `bad` has been listed at all.
async fn check_beside(flags: &[&str]) {
    // Deadlines so long that waiting for one of them would end the test.
    let bad = server_with("bad", flags, "timeouts: {connect: 10m, list: 10m, call: 10m}\n");
    let direct = profile("default", "exposure: pinned\npinned: [\"*\"]");
    let house = TestGateway::open(&[server("alpha", &[]), bad, direct], Setup::default());
    house.until("the tools of alpha", |gateway| gateway.view("default").unwrap().tool("alpha/echo").is_some()).await;
    house.until_status("alpha", |status| status.state == State::Ready).await;
    for client in house.both("default") {
        works(&client, &format!("{flags:?}")).await;
    }
}

#[tokio::test]
async fn a_server_that_never_answers_delays_no_one() {
    check_beside(&["--never-answer"]).await;
    check_beside(&["--never-answer", "tools/list"]).await;
    check_beside(&["--never-answer", "initialize"]).await;
    check_beside(&["--slow-start", "600000"]).await;
}

#[tokio::test]
async fn a_server_that_ends_or_floods_or_talks_nonsense_delays_no_one() {
    check_beside(&["--exit-at-start"]).await;
    check_beside(&["--exit-after", "1"]).await;
    check_beside(&["--flood-stderr", "5000000"]).await;
    check_beside(&["--garbage"]).await;
    check_beside(&["--bad-tool"]).await;
    check_beside(&["--duplicate-tools"]).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_delays_no_one_and_is_named() {
    let missing = ("servers/bad.yaml".to_owned(), "name: bad\ncommand: /no/such/program\n".to_owned());
    let house = TestGateway::settled(&[server("alpha", &[]), missing]).await;
    let status = house.until_status("bad", |status| status.state == State::Failed).await;
    assert!(status.last_error.unwrap().contains("/no/such/program"));
    assert_eq!(house.modern("default").text("alpha_echo", &json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn a_server_that_prints_garbage_is_understood_all_the_same() {
    let house = TestGateway::settled(&[server("bad", &["--garbage"])]).await;
    for client in house.both("default") {
        assert_eq!(client.text("bad_echo", &json!({"text": "a"})).await, "a");
    }
}

#[tokio::test]
async fn a_call_that_is_never_answered_delays_no_other_call_of_the_same_server() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let scope = toolcrib_base::task::Scope::new();
    let client = house.modern("default");
    let slow = client.clone();
    let task = scope.spawn(async move { slow.call("alpha_slow", &json!({"ms": 500_000})).await });
    for _ in 0..20 {
        assert_eq!(client.text("alpha_echo", &json!({"text": "a"})).await, "a");
    }
    assert!(!task.is_finished());
    task.abort();
}

#[tokio::test]
async fn while_one_server_is_still_being_listed_the_answers_say_so() {
    let bad = server_with("bad", &["--never-answer"], "timeouts: {connect: 10m}\n");
    let house = TestGateway::open(&[server("alpha", &[]), bad], Setup::default());
    house.until("alpha", |gateway| gateway.view("default").unwrap().tool("alpha/echo").is_some()).await;
    let client = house.modern("default");
    let found = client.call("find_tools", &json!({"query": "echo"})).await;
    assert!(text_of(&found).contains("still being listed: bad"), "{found}");
    let unknown = client.refused("no_such_thing", &json!({})).await;
    assert!(unknown.message.contains("`bad`"), "{}", unknown.message);
}

#[tokio::test]
async fn a_call_waits_for_the_first_listing_of_the_server_that_it_names() {
    for call in ["alpha_echo", "alpha/echo", "call_tool"] {
        let house = TestGateway::open(&[server("alpha", &[])], Setup::default());
        for client in house.both("default") {
            let arguments = json!({"text": "a"});
            let inner = json!({"name": "alpha/echo", "arguments": {"text": "a"}});
            let arguments = if call == "call_tool" { &inner } else { &arguments };
            assert_eq!(client.text(call, arguments).await, "a", "{call}");
        }
    }
}

#[tokio::test]
async fn no_one_waits_for_a_server_that_is_not_being_started() {
    let more = "start: manual\ntimeouts: {connect: 10m, list: 10m}\n";
    let house = TestGateway::open(&[server("alpha", &[]), server_with("beta", &[], more)], Setup::default());
    house.settle().await;
    for client in house.both("default") {
        assert_eq!(client.refused("beta_echo", &json!({})).await.code, -32_602);
        assert_eq!(client.call("call_tool", &json!({"name": "beta/echo"})).await["isError"], true);
    }
}

#[tokio::test]
async fn bad_tool_entries_take_nothing_from_the_good_ones() {
    let direct = profile("default", "exposure: direct");
    let house = TestGateway::settled(&[server("alpha", &["--bad-tool"]), server("beta", &[]), direct]).await;
    for client in house.both("default") {
        let listed = client.listed().await;
        assert_eq!(listed.iter().filter(|name| name.starts_with("alpha_")).count(), 17, "{listed:?}");
        assert_eq!(listed.iter().filter(|name| name.starts_with("beta_")).count(), 15);
        let servers = client.clone().admin().call("core_mcpserver_list", &json!({})).await;
        let alpha = &servers["structuredContent"]["mcpServers"][0];
        assert_eq!(alpha["warnings"].as_array().unwrap().len(), 3, "{alpha}");
    }
}

#[tokio::test]
async fn of_two_tools_with_one_name_the_first_stays() {
    let direct = profile("default", "exposure: direct");
    let house = TestGateway::settled(&[server("alpha", &["--duplicate-tools"]), direct]).await;
    let client = house.legacy("default");
    let listed = client.listed().await;
    assert_eq!(listed.iter().filter(|name| *name == "alpha_echo").count(), 1, "{listed:?}");
    let described = client.call("describe_tool", &json!({"name": "alpha_echo"})).await;
    assert_eq!(described["structuredContent"]["description"], "Returns the text it is given");
}

/// A server that was listed and is away now: which, since when, why, and when it is tried again.
async fn check_away(client: &Client, name: &str, parts: &[&str]) {
    for asked in
        [client.call(name, &json!({})).await, client.call("call_tool", &json!({"name": name, "arguments": {}})).await]
    {
        assert_eq!(asked["isError"], true);
        assert_eq!(asked["_meta"]["toolcrib/error"], "server-unavailable");
        let text = text_of(&asked);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    // The other server has the same tool: the name of the server says which is meant.
    let query = format!("{} process id", name.split('_').next().unwrap_or_default());
    let found = client.call("find_tools", &json!({ "query": query })).await;
    let first = &found["structuredContent"]["tools"][0];
    assert_eq!(first["name"], name);
    assert_ne!(first["state"], "ready");
}

#[tokio::test]
async fn known_tools_are_served_from_the_snapshot_before_anything_runs() {
    let first = TestGateway::settled(&[server("alpha", &[]), profile("default", "exposure: direct")]).await;
    let before = first.modern("default").ask("tools/list", &json!({})).await.unwrap();
    let store = first.close().await;
    // A lazy server with a snapshot is not started to be listed.
    let house = TestGateway::open(
        &[server("alpha", &[]), profile("default", "exposure: direct")],
        Setup { store, ..Setup::default() },
    );
    let client = house.modern("default");
    let after = client.ask("tools/list", &json!({})).await.unwrap();
    assert_eq!(strings(&after["tools"], "name"), strings(&before["tools"], "name"), "known before anything runs");
    assert_eq!(house.server("alpha").status().state, State::Idle);
    assert_eq!(client.text("alpha_echo", &json!({"text": "a"})).await, "a", "and started by the first call");
}

#[tokio::test]
async fn a_server_that_fails_after_it_was_listed_keeps_its_tools_and_says_why() {
    // Six answers: the handshake, the four lists and one call.
    let files = [server("alpha", &["--exit-after", "6"]), server("beta", &[])];
    let house = TestGateway::settled(&files).await;
    let [modern, legacy] = house.both("default");
    legacy.call("alpha_pid", &json!({})).await;
    let status = house.until_status("alpha", |status| status.state == State::Failed).await;
    assert!(status.next_retry.is_some() && status.last_error.is_some());
    // Stopped at once, so that the server is away for as long as the test looks at it.
    house.server("alpha").order_stop();
    house.until_status("alpha", |status| status.state == State::Stopped).await;
    for client in [&modern, &legacy] {
        check_away(client, "alpha_pid", &["server `alpha` is stopped since ", "Other servers"]).await;
        assert_eq!(client.text("beta_echo", &json!({"text": "a"})).await, "a");
    }
}

#[tokio::test]
async fn a_call_of_a_failed_server_answers_at_once_with_its_next_attempt() {
    // A first snapshot in the definition, and a program that cannot start.
    let tools: Value = json!([{"name": "pid", "description": "process id", "inputSchema": {"type": "object"}}]);
    let more = format!("start: eager\ntools: {tools}\n");
    let house = TestGateway::open(&[server_with("alpha", &["--exit-at-start"], &more)], Setup::default());
    house.until_status("alpha", |status| status.restarts >= 2 && status.state == State::Failed).await;
    let client = house.legacy("default");
    let waiting = async {
        loop {
            let text = text_of(&client.call("alpha_pid", &json!({})).await);
            if text.contains("is failed since") {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = eventually("an answer between two attempts", waiting).await;
    for part in ["server `alpha` is failed since 20", "last error: ", "no license for the moon", "next attempt at 20"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_comes_back_answers_again() {
    let house = TestGateway::settled(&[server("alpha", &["--exit-after", "7"])]).await;
    // What it answers: the probe, the handshake, four lists, one call.
    let client = house.modern("default");
    let first = client.text("alpha_pid", &json!({})).await;
    house.until_status("alpha", |status| status.state == State::Ready && status.restarts == 1).await;
    assert_ne!(client.text("alpha_pid", &json!({})).await, first, "a new process");
}

#[tokio::test]
async fn an_answer_with_the_wrong_id_is_no_answer() {
    let bad = server_with("bad", &["--wrong-id"], "timeouts: {call: 200ms}\n");
    let house = TestGateway::settled(&[server("alpha", &[]), bad]).await;
    let client = house.modern("default");
    let result = client.call("bad_pid", &json!({})).await;
    assert_eq!(result["_meta"]["toolcrib/error"], "server-timeout");
    assert_eq!(client.text("alpha_echo", &json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn a_line_over_the_limit_harms_only_what_it_stands_for() {
    let house = TestGateway::settled(&[server("bad", &["--long-line", "50000000"])]).await;
    let client = house.legacy("default");
    assert_eq!(client.text("bad_echo", &json!({"text": "a"})).await, "a", "the line beside it is skipped");
}

#[tokio::test]
async fn a_tool_of_a_server_that_never_came_up_says_so() {
    let gone = ("servers/gone.yaml".into(), "name: gone\ncommand: no-such-program-here\n".into());
    let house = TestGateway::open(&[gone], Setup::default());
    house.until_status("gone", |status| status.state == State::Failed).await;
    let error = house.modern("default").refused("gone/x", &json!({})).await;
    for part in ["server `gone` is failed since 20", "no-such-program-here", "next attempt at 20"] {
        assert!(error.message.contains(part), "{}", error.message);
    }
}
