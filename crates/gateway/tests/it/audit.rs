//! Each call leaves one event that says how it ended, and no server is reached without one.

use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_gateway::UiMode;
use toolcrib_protocol::{Id, Raw};
use toolcrib_session::Caller;
use toolcrib_store::{AuditRecord, Door};
use toolcrib_testgateway::{Client, Setup, TestGateway, audited, profile, server, server_with, stopped};
use toolcrib_testkit::eventually;

/// One row: method, target, decision, outcome.
fn row(event: &AuditRecord) -> [&str; 4] {
    [&event.method, &event.target, &event.decision, &event.outcome]
}

/// Asks one thing and expects exactly this one event, or none.
async fn check(house: &TestGateway, client: &Client, method: &str, params: &Value, expect: Option<[&str; 4]>) {
    let before = house.audited().await.len();
    let _ = client.ask(method, params).await;
    let events = house.audited().await;
    let new: Vec<_> = events[before..].iter().map(row).collect();
    assert_eq!(new, expect.into_iter().collect::<Vec<_>>(), "{method} {params}");
    let Some(event) = events.last().filter(|_| expect.is_some()) else { return };
    assert_eq!((event.principal.as_str(), event.door.as_str()), ("local", "mcp"));
    assert_eq!(event.profile.as_deref(), Some("default"));
    assert_eq!(event.session.is_some(), client.caller.session.is_some());
}

fn call(name: &str, arguments: &Value) -> (&'static str, Value) {
    ("tools/call", json!({"name": name, "arguments": arguments}))
}

#[tokio::test]
async fn each_call_leaves_one_event_with_its_decision_and_outcome() {
    let files = [
        server("alpha", &[]),
        stopped("gone", &["one"], ""),
        profile("default", "tools: {deny: [\"alpha/pid\"]}\ngroups: [admin]"),
    ];
    let house = TestGateway::settled(&files).await;
    let permit = "permit:tool-allowed";
    let call_tool = |name: &str, arguments: Value| call("call_tool", &json!({"name": name, "arguments": arguments}));
    for client in house.both("default") {
        let none = json!({});
        for ((method, params), expect) in [
            (call("alpha_image", &none), ["tools/call", "alpha/image", permit, "ok"]),
            (call("alpha/image", &none), ["tools/call", "alpha/image", permit, "ok"]),
            (call_tool("alpha_image", json!({})), ["tools/call", "alpha/image", permit, "ok"]),
            (call("tool_call", &json!({"name": "alpha/image"})), ["tools/call", "alpha/image", permit, "ok"]),
            (call("alpha_fail", &none), ["tools/call", "alpha/fail", permit, "tool_error"]),
            (call("alpha_rpc_error", &none), ["tools/call", "alpha/rpc_error", permit, "error:bad-server"]),
            (call("alpha_echo", &none), ["tools/call", "alpha/echo", permit, "error:invalid-params"]),
            (call_tool("alpha_echo", json!({})), ["tools/call", "alpha/echo", permit, "error:invalid-params"]),
            (call("gone_one", &none), ["tools/call", "gone/one", permit, "error:server-unavailable"]),
            (call("alpha_pid", &none), ["tools/call", "alpha_pid", "deny:unknown-tool", "denied"]),
            (call_tool("no-such", json!({})), ["tools/call", "no-such", "deny:unknown-tool", "denied"]),
            (call("find_tools", &none), ["tools/call", "find_tools", "permit:meta-tool", "ok"]),
            (
                call("describe_tool", &json!({"name": "no-such"})),
                ["tools/call", "describe_tool", "permit:meta-tool", "error:unknown-tool"],
            ),
            (call("core_tool_list", &none), ["tools/call", "core_tool_list", "permit:open-operation", "ok"]),
            (call("core_audit_list", &none), ["tools/call", "core_audit_list", "deny:needs-admin", "denied"]),
            (
                ("resources/read", json!({"uri": "fake://text"})),
                ["resources/read", "alpha/fake://text", "permit:server-allowed", "ok"],
            ),
            (
                call("read_resource", &json!({"uri": "fake://text"})),
                ["resources/read", "alpha/fake://text", "permit:server-allowed", "ok"],
            ),
            (
                ("prompts/get", json!({"name": "alpha_plain"})),
                ["prompts/get", "alpha/plain", "permit:server-allowed", "ok"],
            ),
            (
                ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "alpha_plain"}, "argument": {}})),
                ["completion/complete", "alpha/plain", "permit:server-allowed", "ok"],
            ),
        ] {
            check(&house, &client, method, &params, Some(expect)).await;
        }
        for method in ["tools/list", "resources/list", "prompts/list", "x/unknown"] {
            check(&house, &client, method, &json!({}), None).await;
        }
    }
}

#[tokio::test]
async fn the_arguments_are_hashed_and_never_kept() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern("default");
    for (name, text) in [("alpha_echo", "hush"), ("alpha/echo", "hush"), ("alpha_echo", "other")] {
        client.call(name, &json!({"text": text})).await;
    }
    let events = house.audited().await;
    assert!(events[0].args_hash.is_some());
    assert_eq!(events[0].args_hash, events[1].args_hash, "equal arguments, equal hash");
    assert_ne!(events[0].args_hash, events[2].args_hash);
    assert!(!format!("{events:?}").contains("hush"));
}

#[tokio::test]
async fn a_timeout_is_one_event() {
    let file = server_with("alpha", &["--never-answer", "tools/call"], "timeouts: {call: 100ms}\n");
    let house = TestGateway::settled(&[file]).await;
    for client in house.both("default") {
        let (method, params) = call("alpha_pid", &json!({}));
        check(
            &house,
            &client,
            method,
            &params,
            Some(["tools/call", "alpha/pid", "permit:tool-allowed", "error:server-timeout"]),
        )
        .await;
    }
}

#[tokio::test]
async fn a_call_of_a_server_that_does_not_read_any_more_is_one_event() {
    // It reads nothing any more after the first call.
    let house = TestGateway::settled(&[server("alpha", &["--close-stdin"])]).await;
    let client = house.legacy("default");
    let expect = ["tools/call", "alpha/pid", "permit:tool-allowed", "ok"];
    let (method, params) = call("alpha_pid", &json!({}));
    check(&house, &client, method, &params, Some(expect)).await;
    let before = house.audited().await.len();
    let failed = client.ask("tools/call", &json!({"name": "alpha_pid", "arguments": {}})).await.unwrap();
    assert_eq!(failed["isError"], true);
    let events = house.audited().await;
    assert_eq!(events.len(), before + 1);
    assert!(events[before].outcome.starts_with("error:server-"), "{}", events[before].outcome);
}

#[tokio::test]
async fn a_full_queue_holds_calls_back_and_reaches_no_server() {
    let house = TestGateway::open(&[server("alpha", &[])], Setup::with_queue(1));
    house.settle().await;
    let scope = Scope::new();
    // Every place is taken, so the next call must wait before it reaches anybody.
    let places = all_places(&house).await;
    let client = house.legacy("default");
    let waiting = client.clone();
    let task = scope.spawn(async move { waiting.text("alpha_counter", &json!({})).await });
    // A whole round trip to the server, past the audit log, shows that the call had all the time it needed.
    let ping = toolcrib_upstream::Call::default();
    house.server("alpha").call("ping", &Raw::empty_object(), ping).await.unwrap().unwrap();
    assert!(!task.is_finished());
    assert!(audited_now(&house).is_empty());
    drop(places);
    assert_eq!(eventually("the call", task).await.unwrap(), "1");
    assert_eq!(house.audited().await.len(), 1);
}

/// All places of a log with a queue of one.
async fn all_places(house: &TestGateway) -> Vec<toolcrib_store::AuditSlot> {
    let mut places = Vec::new();
    for _ in 0..toolcrib_store::IN_FLIGHT {
        places.push(eventually("a place", house.gateway.store().audit().reserve()).await.unwrap());
    }
    places
}

fn audited_now(house: &TestGateway) -> Vec<AuditRecord> {
    let filter = toolcrib_store::AuditFilter { limit: 10, ..Default::default() };
    house.gateway.store().audit().list(&filter).unwrap()
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_waits_for_its_place_never_happened() {
    let house = TestGateway::open(&[server("alpha", &[])], Setup::with_queue(1));
    house.settle().await;
    let scope = Scope::new();
    let places = all_places(&house).await;
    let client = house.modern("default");
    let waiting = client.clone();
    let task = scope.spawn(async move { waiting.text("alpha_counter", &json!({})).await });
    tokio::task::yield_now().await;
    task.abort();
    assert!(eventually("the end", task).await.is_err());
    drop(places);
    assert_eq!(client.text("alpha_counter", &json!({})).await, "1");
    assert_eq!(house.audited().await.len(), 1);
}

#[tokio::test]
async fn nothing_is_called_once_the_audit_log_is_closed() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.legacy("default");
    assert_eq!(client.text("alpha_counter", &json!({})).await, "1");
    eventually("the log", house.gateway.store().close()).await.unwrap();
    for name in ["alpha_counter", "call_tool", "find_tools"] {
        let error = client.refused(name, &json!({"name": "alpha/counter"})).await;
        assert!(error.message.contains("shutting down"), "{name}: {}", error.message);
    }
    for (method, params) in
        [("resources/read", json!({"uri": "fake://text"})), ("prompts/get", json!({"name": "alpha_plain"}))]
    {
        assert!(client.ask(method, &params).await.is_err(), "{method}");
    }
    let counted = toolcrib_upstream::Call::default();
    let params = Raw::from_value(&json!({"name": "counter"}));
    let count = house.server("alpha").call("tools/call", &params, counted).await.unwrap().unwrap();
    assert!(count.as_str().contains("\"2\""), "{}", count.as_str());
}

#[tokio::test]
async fn the_chain_is_whole_after_many_calls_at_once() {
    let house = TestGateway::open(&[server("alpha", &[])], Setup::with_queue(4));
    house.settle().await;
    let scope = Scope::new();
    let client = house.modern("default");
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let client = client.clone();
            scope.spawn(async move {
                let params = Raw::from_value(&json!({"name": "alpha_echo", "arguments": {"text": "a"}}));
                client.with_id(Id::from_number(number), "tools/call", params, None).await.unwrap().is_ok()
            })
        })
        .collect();
    for task in tasks {
        assert!(eventually("a call", task).await.unwrap());
    }
    let store = house.close().await;
    let mut ids: Vec<u64> = audited(&store).await.iter().map(|event| event.request_id.parse().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
    let verified = store.audit().verify(None).unwrap();
    assert!(matches!(verified, toolcrib_store::Verification::Intact(_)), "{verified:?}");
}

#[tokio::test]
async fn an_export_is_in_the_formats_of_others_and_waits_for_events_of_others() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], ""), profile("default", "groups: [admin]")]).await;
    let admin = house.modern("default").admin();
    for _ in 0..3 {
        admin.call("core_status", &json!({})).await;
    }
    let exported =
        async |arguments: Value| admin.call("core_audit_export", &arguments).await["structuredContent"].clone();
    let first = exported(json!({"limit": 2})).await;
    assert_eq!((&first["next"], &first["truncated"]), (&json!(2), &json!(true)));
    let line: Value = serde_json::from_str(first["lines"][0].as_str().unwrap()).unwrap();
    assert_eq!((line["seq"].as_u64(), line["target"].as_str()), (Some(1), Some("core_status")));
    let rest = exported(json!({"after": first["next"], "format": "cef"})).await;
    assert!(rest["lines"][0].as_str().unwrap().starts_with("CEF:0|Toolcrib|"), "{rest}");
    assert_eq!(rest["lines"].as_array().unwrap().len(), 2, "the third call, and the first export: {rest}");
    let empty = exported(json!({"since": "2099-01-01T00:00:00Z"})).await;
    assert_eq!((&empty["lines"], &empty["next"]), (&json!([]), &json!(0)));
    let narrow = exported(json!({"target": "core_st*", "outcome": "ok"})).await;
    assert_eq!(narrow["lines"].as_array().unwrap().len(), 3, "as the list is narrowed: {narrow}");
    let after = house.audited().await.len();

    let waiting = async { exported(json!({"after": after, "wait": 30})).await };
    let others = async {
        // Exports alone do not end it: each would bring the next one.
        exported(json!({"after": after})).await;
        admin.call("core_status", &json!({})).await;
    };
    let (waited, ()) = tokio::join!(waiting, others);
    assert!(waited["lines"].to_string().contains("core_status"), "{waited}");
    let error = admin.call("core_audit_export", &json!({"format": "xml"})).await;
    assert!(error.to_string().contains("jsonl"), "{error}");
}

#[tokio::test]
async fn what_pages_that_only_show_refuse_is_on_record() {
    let house = TestGateway::open(&[server("alpha", &[])], Setup { ui: UiMode::Read, ..Setup::default() });
    house.settle().await;
    let client = house.modern("default");
    let operation = house.gateway.operations.by_tool("core_tool_call").unwrap();
    let caller = Caller { door: Door::UI, ..client.caller.clone() };
    let snapshot = house.gateway.snapshot(&caller.profile).ok();
    let arguments = Raw::from_value(&json!({"name": "alpha/counter"}));
    let refused = house.gateway.operate(operation, snapshot.as_ref(), &caller, arguments).await.unwrap_err();
    assert!(refused.hint.is_some_and(|hint| hint.contains("ui = ")));
    let events = house.audited().await;
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!(row(event), ["tools/call", "core_tool_call", "deny:ui-mode", "denied"]);
    assert!(event.door == "ui" && event.args_hash.is_none(), "{event:?}");
}
