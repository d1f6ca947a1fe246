//! Calls that need a yes first: who gives it, how its caller gets the result, and that it runs once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::{Clock, Identity, Kind, ManualClock, PrincipalId, Problem, ProfileName, Proof, Role, Timestamp};
use toolcrib_call::{ApprovalTimes, ApprovalVerdict};
use toolcrib_gateway::duplex::{Duplex, OUT, Terms};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Id, Raw, RequestTrace};
use toolcrib_session::Principal;
use toolcrib_store::{Config, Store};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server, server_with, text_of};
use toolcrib_testkit::{eventually, eventually_sees};

const APPROVE: &str = r#"@id("asks") @approve("ops") @reason("counting is dear")
forbid (principal, action == Action::"call", resource == Tool::"alpha/counter");
@id("by-ops") permit (principal in Group::"acme/ops", action == Action::"approve", resource);"#;
const CONFIRM: &str = r#"@id("asks") @confirm("")
forbid (principal, action == Action::"call", resource == Tool::"alpha/counter");"#;
const REMEMBER: &str = r#"@id("asks") @confirm("") @remember("10m")
forbid (principal, action == Action::"call", resource == Tool::"alpha/counter");"#;

pub(crate) fn policy(text: &str) -> File {
    ("policies/team.cedar".to_owned(), text.to_owned())
}

pub(crate) fn direct() -> File {
    profile("default", "exposure: direct\ngroups: [admin]")
}

/// A gateway whose requests wait for a yes as long as a test does.
pub(crate) fn patient() -> Setup {
    let wait = Duration::from_secs(600);
    Setup { approval_times: ApprovalTimes { wait, ..ApprovalTimes::default() }, ..Setup::default() }
}

pub(crate) async fn house(policies: &str, setup: Setup) -> TestGateway {
    let house = TestGateway::open(&[server("alpha", &[]), direct(), policy(policies)], setup);
    house.settle().await;
    assert_eq!(house.gateway.loaded().problems, [], "{policies}");
    house
}

/// Somebody of these groups, by REST.
pub(crate) fn somebody(house: &TestGateway, name: &str, groups: &[&str]) -> Client {
    let mut client = house.modern_of(name, "default");
    let mut identity = Identity::by(Proof::AccessToken);
    (identity.issuer, identity.tenant) = (Some("acme".into()), Some("t1".into()));
    identity.groups = groups.iter().map(|group| (*group).into()).collect();
    client.caller.principal = Principal::new(PrincipalId::new(name), Role::Member, identity);
    client
}

pub(crate) fn ops(house: &TestGateway) -> Client {
    somebody(house, "user:acme/olga", &["ops"])
}

/// The owner of the gateway's token.
pub(crate) fn owner(house: &TestGateway) -> Client {
    let mut client = house.modern("default");
    client.caller.principal = Principal::admin("admin");
    client
}

pub(crate) async fn call(client: &Client, arguments: &Value) -> Value {
    client.call("alpha_counter", arguments).await
}

/// The id in an answer that says that the call waits.
pub(crate) fn id_of(answer: &Value) -> String {
    assert_eq!(answer["isError"], true, "{answer}");
    let text = text_of(answer);
    let at = text.find("apr_").unwrap_or_else(|| panic!("no id of an approval: {text}"));
    text[at..].chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect()
}

pub(crate) async fn approve(by: &Client, id: &str) -> Result<Value, Problem> {
    by.operate("core_approval_approve", &json!({ "id": id })).await
}

/// Waits until an approval is in a state.
pub(crate) async fn until(by: &Client, id: &str, state: &str) -> Value {
    let waiting = async {
        loop {
            let shown = by.operate("core_approval_show", &json!({ "id": id })).await.expect("it can be looked at");
            if shown["state"] == state {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    };
    eventually(&format!("`{id}` to be {state}"), waiting).await
}

/// The ids of those that wait.
pub(crate) async fn open(by: &Client) -> Vec<String> {
    let listed = by.operate("core_approval_list", &json!({ "state": "open" })).await.expect("a list");
    let rows = listed["approvals"].as_array().expect("rows").clone();
    rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

pub(crate) async fn until_open(by: &Client) -> String {
    let waiting = async {
        loop {
            if let Some(id) = open(by).await.pop() {
                return id;
            }
            tokio::task::yield_now().await;
        }
    };
    eventually("an open approval", waiting).await
}

/// How often the tool has run.
pub(crate) async fn runs(house: &TestGateway) -> usize {
    let events = house.audited().await;
    events.iter().filter(|it| it.target == "alpha/counter" && it.outcome == "ok").count()
}

#[tokio::test]
async fn a_call_waits_for_somebody_else_and_the_same_call_gets_its_result() {
    let house = house(APPROVE, Setup::default()).await;
    for (era, client) in house.both("default").into_iter().enumerate() {
        let (before, arguments) = (runs(&house).await, json!({ "era": era }));
        let waits = call(&client, &arguments).await;
        let id = id_of(&waits);
        assert!(text_of(&waits).contains("counting is dear"), "{waits}");
        assert_eq!(id_of(&call(&client, &arguments).await), id, "the same call has the same approval");
        assert_eq!(runs(&house).await, before, "nothing runs before the yes");
        let decided = approve(&ops(&house), &id).await.expect("it is approved");
        assert_eq!((&decided["state"], &decided["approver"]), (&json!("approved"), &json!("user:acme/olga")));
        until(&ops(&house), &id, "done").await;
        let result = call(&client, &arguments).await;
        assert!(text_of(&result).parse::<usize>().is_ok(), "{result}");
        assert_eq!(runs(&house).await, before + 1);
        assert_ne!(id_of(&call(&client, &arguments).await), id, "one yes is for one call");
        let denied = ops(&house).operate("core_approval_deny", &json!({"id": until_open(&ops(&house)).await})).await;
        assert_eq!(denied.expect("it is denied")["state"], "denied");
    }
    let events = house.audited().await;
    let waited = events.iter().filter(|it| it.decision == "deny:policy-asks:asks");
    assert!(waited.clone().count() > 0 && waited.clone().all(|it| it.approval.is_some() && it.approver.is_none()));
    let ran: Vec<_> = events.iter().filter(|it| it.target == "alpha/counter" && it.outcome == "ok").collect();
    for event in ran {
        let (approval, approver) = (event.approval.as_deref(), event.approver.as_deref());
        assert!(approval.is_some_and(|id| id.starts_with("apr_")) && approver == Some("user:acme/olga"), "{event:?}");
    }
}

#[tokio::test]
async fn a_caller_that_waits_gets_the_result_itself_and_hears_how_it_goes() {
    let mut setup = patient();
    setup.approval_times.progress = Duration::from_millis(1);
    let house = house(APPROVE, setup).await;
    for client in house.both("default") {
        let before = runs(&house).await;
        let (heard, mut progress) = mpsc::channel::<Bytes>(64);
        let params = Raw::from_value(&json!({"name": "alpha_counter", "arguments": {}, "_meta": {"progressToken": 7}}));
        let asking = client.with_id(Id::from_number(77), "tools/call", params, Some(heard));
        let deciding = async {
            let message = eventually("progress", progress.recv()).await.expect("the call waits");
            let id = until_open(&ops(&house)).await;
            approve(&ops(&house), &id).await.expect("it is approved");
            message
        };
        let (answer, message) = tokio::join!(asking, deciding);
        let message: Value = serde_json::from_slice(&message).expect("JSON");
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], 7);
        let result = answer.expect("an answer").expect("a result").to_value();
        assert!(text_of(&result).parse::<usize>().is_ok(), "{result}");
        assert_eq!(runs(&house).await, before + 1);
    }
}

#[tokio::test]
async fn a_client_that_knows_tasks_gets_one_that_ends_with_the_call() {
    let house = house(APPROVE, Setup::default()).await;
    let client = house.modern("default");
    let meta =
        json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let params = json!({"name": "alpha_counter", "arguments": {}, "_meta": meta});
    let task = client.ask("tools/call", &params).await.expect("a task");
    assert_eq!(task["resultType"], "task", "{task}");
    let id = until_open(&ops(&house)).await;
    let look = async || {
        let params = json!({"taskId": task["taskId"], "_meta": meta});
        client.ask("tasks/get", &params).await.expect("the task")
    };
    assert_eq!(look().await["status"], "working");
    approve(&ops(&house), &id).await.expect("it is approved");
    let ended = async {
        loop {
            let now = look().await;
            if now["status"] != "working" {
                return now;
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = eventually("the end of the task", ended).await;
    assert_eq!((&ended["status"], text_of(&ended["result"])), (&json!("completed"), "1".to_owned()), "{ended}");
}

#[tokio::test]
async fn a_modern_client_that_opens_pages_shows_ours_and_comes_back() {
    let pages = Some("http://127.0.0.1:1/approval/".to_owned());
    let house = house(APPROVE, Setup { approval_pages: pages, ..Setup::default() }).await;
    let client = house.modern("default");
    let ask = async |more: Value| {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}});
        let mut params = json!({"name": "alpha_counter", "arguments": {}, "_meta": meta});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.ask("tools/call", &params).await.expect("a result")
    };
    let asked = ask(json!({})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let page = &asked["inputRequests"]["toolcrib-approval-page"]["params"];
    let id = page["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:1/approval/").unwrap().to_owned();
    assert_eq!((page["mode"].as_str(), open(&ops(&house)).await), (Some("url"), vec![id.clone()]));
    let back = json!({
        "requestState": asked["requestState"], "inputResponses": {"toolcrib-approval-page": {"action": "accept"}},
    });
    for state in [asked["requestState"].clone(), json!("AAAA")] {
        let again = ask(json!({"requestState": state, "inputResponses": back["inputResponses"]})).await;
        assert_eq!(again["resultType"], "input_required", "it still waits, also with a forged state");
    }
    approve(&ops(&house), &id).await.expect("it is approved");
    until(&ops(&house), &id, "done").await;
    // By its state it gets the one result, also where nothing asks any more, and no further run.
    house.apply(&[policy("")]).await;
    for _ in 0..2 {
        let result = ask(back.clone()).await;
        assert!(text_of(&result).parse::<usize>().is_ok(), "{result}");
    }
    assert_eq!(house.audited().await.iter().filter(|it| it.approver.is_some()).count(), 1);
}

#[tokio::test]
async fn nobody_approves_ones_own_call_nor_by_mcp_nor_without_the_right_to() {
    let keys = "exposure: direct\ngroups: [admin]\nkeys:\n  - {name: one, hash: HASH1, user: 'user:acme/olga'}\n  - {name: two, hash: HASH2, user: 'user:acme/olga'}";
    let hash = |digit: &str| format!("'sha256:{}'", digit.repeat(64));
    let keys = keys.replace("HASH1", &hash("1")).replace("HASH2", &hash("2"));
    let files = [server("alpha", &[]), direct(), policy(APPROVE), profile("keyed", &keys)];
    let house = TestGateway::settled(&files).await;
    let refused = async |by: &Client, id: &str, expect: (Kind, &str)| {
        let problem = approve(by, id).await.expect_err("it is refused");
        assert!(problem.kind == expect.0 && problem.message.contains(expect.1), "{problem:?}");
    };
    let olga = ops(&house);
    let own = id_of(&call(&olga, &json!({})).await);
    refused(&olga, &own, (Kind::Forbidden, "of your own call")).await;
    // A key of the same user is the same user.
    let mut key = somebody(&house, "key:keyed/one", &["ops"]);
    refused(&key, &own, (Kind::Forbidden, "of your own call")).await;
    key.caller.profile = ProfileName::new("keyed").unwrap();
    let by_key = id_of(&call(&key, &json!({})).await);
    refused(&somebody(&house, "key:keyed/two", &["ops"]), &by_key, (Kind::Forbidden, "of your own call")).await;
    refused(&olga, &by_key, (Kind::Forbidden, "of your own call")).await;
    // Who is not in the group, and another tenant, learn nothing: a forged id looks the same.
    let eve = somebody(&house, "user:acme/eve", &["dev"]);
    refused(&eve, &own, (Kind::NotFound, &format!("approval not found: `{own}`"))).await;
    assert_eq!(open(&eve).await, Vec::<String>::new());
    let mut other = somebody(&house, "user:acme/otto", &["ops"]);
    Arc::make_mut(&mut other.caller.principal.identity).tenant = Some("t2".into());
    refused(&other, &own, (Kind::NotFound, &format!("approval not found: `{own}`"))).await;
    refused(&olga, "apr_0123", (Kind::NotFound, "approval not found: `apr_0123`")).await;
    // A program with a token in the name of somebody who may does not decide.
    let mut agent = somebody(&house, "user:acme/oskar", &["ops"]);
    Arc::make_mut(&mut agent.caller.principal.identity).actors = vec!["agent".into()];
    refused(&agent, &own, (Kind::Forbidden, "acts in a person's name")).await;
    // By MCP not even the owner.
    for client in [owner(&house), ops(&house)] {
        let answer = client.call("core_approval_approve", &json!({ "id": own })).await;
        assert!(text_of(&answer).contains("not approved or denied by MCP"), "{answer}");
        let answer = client.call("core_approval_deny", &json!({ "id": own })).await;
        assert!(text_of(&answer).contains("not approved or denied by MCP"), "{answer}");
    }
    assert_eq!(runs(&house).await, 0);
    // Another one of the group, and who has the gateway's token, may.
    approve(&somebody(&house, "user:acme/oskar", &["ops"]), &own).await.expect("it is approved");
    approve(&owner(&house), &by_key).await.expect("it is approved");
    until(&olga, &own, "done").await;
}

#[tokio::test]
async fn a_thousand_deciders_make_one_run() {
    let house = house(APPROVE, patient()).await;
    let client = house.modern("default");
    let deciding = async {
        let id = until_open(&ops(&house)).await;
        let path = &house.gateway.path;
        let deciders = (0..1_000).map(|number| {
            let (by, id) = (PrincipalId::new(&format!("user:acme/o{number}")), id.clone());
            async move {
                let verdict = ApprovalVerdict { id: &id, says_yes: true, by: &by, reason: None };
                path.decide_approval(verdict).await.is_ok()
            }
        });
        futures_util::future::join_all(deciders).await.into_iter().filter(|won| *won).count()
    };
    let params = json!({"name": "alpha_counter", "arguments": {}});
    let callers = futures_util::future::join_all((0..10).map(|_| client.ask("tools/call", &params)));
    let (answers, won) = tokio::join!(callers, deciding);
    assert_eq!(won, 1);
    let results: Vec<String> = answers.iter().map(|answer| text_of(answer.as_ref().expect("a result"))).collect();
    assert!(results.iter().all(|text| text == "1"), "all who wait get the one result: {results:?}");
    assert_eq!(runs(&house).await, 1);
}

#[tokio::test]
async fn late_twice_and_denied_are_said() {
    let clock = Arc::new(ManualClock::at(Timestamp(1_795_608_000_000)));
    let config = Config { clock: Arc::<ManualClock>::clone(&clock), ..Config::default() };
    let store = Store::in_memory(config).unwrap();
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let text = APPROVE.replace("@reason", "@expires(\"30m\") @reason");
    let house = house(&text, Setup { clock: shared, store, ..Setup::default() }).await;
    let client = house.modern("default");
    let late = id_of(&call(&client, &json!({})).await);
    clock.advance(30 * 60_000);
    let refused = approve(&ops(&house), &late).await.expect_err("it is late");
    assert!(refused.kind == Kind::Conflict && refused.message.contains("has expired"), "{refused:?}");
    let next = id_of(&call(&client, &json!({})).await);
    assert_ne!(next, late, "the next call asks again");
    approve(&ops(&house), &next).await.expect("it is in time");
    let again = approve(&somebody(&house, "user:acme/oskar", &["ops"]), &next).await.expect_err("it was approved");
    assert!(again.kind == Kind::Conflict && again.message.contains("given by `user:acme/olga`"), "{again:?}");
    until(&ops(&house), &next, "done").await;
    assert_eq!(text_of(&call(&client, &json!({})).await), "1");
    let third = id_of(&call(&client, &json!({})).await);
    let no = json!({"id": third, "reason": "not today"});
    ops(&house).operate("core_approval_deny", &no).await.expect("it is denied");
    let told = call(&client, &json!({})).await;
    assert!(text_of(&told).contains("denied by `user:acme/olga`: not today"), "{told}");
    assert_eq!(runs(&house).await, 1);
}

#[tokio::test]
async fn what_was_changed_between_the_call_and_the_yes_is_not_run() {
    let forbids = format!("{APPROVE}\n@id(\"never\") forbid (principal == User::\"local\", action, resource);");
    // What is changed, and what whoever says yes reads.
    let changes: [(&str, File, &str); 4] = [
        (
            "the right",
            profile("default", "exposure: direct\ngroups: [admin]\ntools: {deny: [alpha/counter]}"),
            "not offered",
        ),
        ("the profile", profile("default", "exposure: direct\ngroups: [admin]\nread_only: true"), "not offered"),
        ("the policy", policy(&APPROVE.replace("dear", "dearer")), "ask for another yes"),
        ("the right by policy", policy(&forbids), "ask for another yes"),
    ];
    let house = house(APPROVE, Setup::default()).await;
    let client = house.modern("default");
    for (number, (what, file, expect)) in changes.into_iter().enumerate() {
        let id = id_of(&call(&client, &json!({ "number": number })).await);
        house.apply(&[direct(), file]).await;
        let refused = approve(&ops(&house), &id).await.expect_err(what);
        assert!(refused.message.contains(expect), "{what}: {refused:?}");
        assert_eq!(runs(&house).await, 0, "{what}");
        house.apply(&[direct()]).await;
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_between_the_call_and_the_yes_opens_nothing() {
    let keyed = |keys: &str| {
        let lines = format!("exposure: direct\ngroups: [admin]\ntools: {{approve: [alpha/counter]}}\n{keys}");
        profile("keyed", &lines)
    };
    let key = |name: &str, digit: &str| format!("  - {{name: {name}, hash: 'sha256:{}'}}\n", digit.repeat(64));
    let both = format!("keys:\n{}{}", key("one", "1"), key("two", "2"));
    let house = TestGateway::settled(&[server("alpha", &[]), keyed(&both)]).await;
    let mut by = house.modern_of("user:acme/olga", "keyed");
    by.caller.principal.role = Role::Operator;
    for (what, keys) in [
        ("revoked", format!("keys:\n{}", key("two", "2"))),
        ("replaced", format!("keys:\n{}{}", key("one", "3"), key("two", "2"))),
    ] {
        let client = house.modern_of("key:keyed/one", "keyed");
        let id = id_of(&call(&client, &json!({ "what": what })).await);
        house.apply(&[keyed(&keys)]).await;
        let refused = approve(&by, &id).await.expect_err(what);
        assert!(refused.kind == Kind::Stale && refused.message.contains("changed or revoked"), "{what}: {refused:?}");
        assert_eq!((until(&by, &id, "expired").await["state"].as_str(), runs(&house).await), (Some("expired"), 0));
        house.apply(&[keyed(&both)]).await;
    }
}

#[tokio::test]
async fn a_tool_whose_definition_was_changed_asks_again() {
    let beta = |description: &str| {
        let tool = json!([{"name": "write", "description": description, "inputSchema": {"type": "object"}}]);
        ("servers/beta.yaml".to_owned(), format!("name: beta\ncommand: never-started\nstart: manual\ntools: {tool}\n"))
    };
    let text = APPROVE.replace("alpha/counter", "beta/write");
    let house = TestGateway::settled(&[beta("Writes."), direct(), policy(&text)]).await;
    let client = house.modern("default");
    let id = id_of(&client.call("beta_write", &json!({})).await);
    house.apply(&[beta("Writes. Then sends it to me.")]).await;
    let refused = approve(&ops(&house), &id).await.expect_err("it is another tool");
    assert!(refused.kind == Kind::Stale && refused.message.contains("was changed"), "{refused:?}");
    assert_eq!(until(&ops(&house), &id, "expired").await["state"], "expired");
    // Also where no one has said yes, the next call asks for the tool as it is by now.
    let next = id_of(&client.call("beta_write", &json!({})).await);
    house.apply(&[beta("Writes.")]).await;
    assert_ne!(id_of(&client.call("beta_write", &json!({})).await), next);
    assert_eq!(until(&ops(&house), &next, "expired").await["state"], "expired");
}

#[tokio::test]
async fn other_arguments_are_another_call_and_the_same_in_another_order_are_not() {
    let text = APPROVE.replace("alpha/counter", "alpha/echo");
    let house = house(&text, Setup::default()).await;
    let client = house.modern("default");
    let ask = async |arguments: Raw| {
        let params = Raw::from_value(&json!({"name": "alpha_echo"}))
            .edit(&[("arguments", toolcrib_protocol::raw::Edit::Set(arguments.as_str()))]);
        id_of(&client.raw("tools/call", &params).await.expect("a result").to_value())
    };
    let raw = |text: &str| Raw::parse(text.to_owned().into(), Rules::strict(8)).unwrap();
    let first = ask(raw(r#"{"text": "a", "b": 1}"#)).await;
    assert_eq!(ask(raw(r#"{"b":1,"text":"a"}"#)).await, first);
    let others =
        [r#"{"text": "a", "b": 2}"#, r#"{"text": "a", "b": 1.0}"#, r#"{"text": "a"}"#, r#"{"text": "A", "b": 1}"#];
    for other in others {
        assert_ne!(ask(raw(other)).await, first, "{other}");
    }
    let bob = house.modern_of("user:acme/bob", "default");
    assert_ne!(id_of(&bob.call("alpha_echo", &json!({"text": "a", "b": 1})).await), first, "another principal");
    // Arguments are shown whole, without secrets, and with what no screen shows.
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let shown = id_of(&client.call("alpha_echo", &json!({"text": format!("a\u{200b}\u{202e} {secret}")})).await);
    let shown = ops(&house).operate("core_approval_show", &json!({ "id": shown })).await.unwrap();
    assert_eq!(shown["arguments"], r#"{"text":"a<U+200B><U+202E> [redacted:github-token#1]"}"#, "{shown}");
    // What does not fit the schema asks no one.
    let unfit = client.call("alpha_echo", &json!({"text": 1})).await;
    assert!(unfit["isError"] == true && !text_of(&unfit).contains("apr_"), "{unfit}");
}

#[tokio::test]
async fn what_waits_survives_the_process_and_what_was_cut_off_is_not_repeated() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let open_store = || Store::open(&home.path().join("state"), Config::default()).unwrap();
    let setup = |store| Setup { home: Arc::clone(&home), store, ..Setup::default() };
    let text = APPROVE.replace("alpha/counter", "alpha/slow");
    let first = house(&text, setup(open_store())).await;
    let slow =
        async |house: &TestGateway, ms: u64| house.modern("default").call("alpha_slow", &json!({ "ms": ms })).await;
    let (open_one, endless) = (id_of(&slow(&first, 1).await), id_of(&slow(&first, 600_000).await));
    approve(&ops(&first), &endless).await.expect("it is approved");
    until(&ops(&first), &endless, "running").await;
    let store = first.close().await;
    store.close().await.unwrap();
    drop(store);
    let second = house(&text, setup(open_store())).await;
    let cut_off = slow(&second, 600_000).await;
    assert!(text_of(&cut_off).contains("may have done its work"), "{cut_off}");
    assert_eq!(until(&ops(&second), &endless, "unknown").await["state"], "unknown");
    let again = approve(&ops(&second), &endless).await.expect_err("it is never repeated");
    assert_eq!(again.kind, Kind::Conflict);
    assert_eq!(id_of(&slow(&second, 1).await), open_one, "what was open is open");
    approve(&ops(&second), &open_one).await.expect("it can be approved");
    until(&ops(&second), &open_one, "done").await;
    assert_eq!(text_of(&slow(&second, 1).await), "waited 1 ms");
}

#[tokio::test]
async fn a_hundred_calls_of_one_principal_wait_and_no_more() {
    let house = house(&APPROVE.replace("alpha/counter", "alpha/echo"), Setup::default()).await;
    let client = house.modern("default");
    for number in 0..100 {
        id_of(&client.call("alpha_echo", &json!({"text": number.to_string()})).await);
    }
    let refused = client.call("alpha_echo", &json!({"text": "100"})).await;
    assert!(text_of(&refused).contains("100 of your calls wait"), "{refused}");
    id_of(&house.modern_of("user:acme/bob", "default").call("alpha_echo", &json!({"text": "100"})).await);
}

#[tokio::test]
async fn profiles_and_servers_ask_without_any_policy() {
    let lines = "exposure: direct\ngroups: [admin]\ntools: {confirm: [alpha/echo], approve: ['alpha/count*']}";
    let files = [server_with("alpha", &[], "confirm: [pid]\n"), profile("default", lines)];
    let house = TestGateway::settled(&files).await;
    let client = house.modern_of("user:acme/bob", "default");
    for (tool, kind, by) in [
        ("alpha_echo", "confirm", "tools.confirm: alpha/echo of profile default"),
        ("alpha_counter", "approve", "tools.approve: alpha/count* of profile default"),
        ("alpha_pid", "confirm", "confirm of server alpha"),
    ] {
        let id = id_of(&client.call(tool, &json!({"text": "a"})).await);
        let shown = owner(&house).operate("core_approval_show", &json!({ "id": id })).await.expect("it is shown");
        assert_eq!((&shown["kind"], &shown["askedBy"]), (&json!(kind), &json!([by])), "{shown}");
        // Without policies operators approve, and members do not.
        let mut other = house.modern_of("user:acme/eve", "default");
        assert_eq!(approve(&other, &id).await.expect_err("a member").kind, Kind::NotFound);
        other.caller.principal.role = Role::Operator;
        approve(&other, &id).await.expect("an operator");
        until(&other, &id, "done").await;
    }
}

// === confirm ===

const FORM: &str = r#"{"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}"#;

/// A modern call by a client that can be asked, perhaps with an answer.
async fn modern_call(client: &Client, more: Value) -> Value {
    let meta: Value = serde_json::from_str(FORM).unwrap();
    let mut params = json!({"name": "alpha_counter", "arguments": {}, "_meta": meta});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.ask("tools/call", &params).await.expect("a result")
}

fn answered(question: &Value, answer: &Value) -> Value {
    json!({"requestState": question["requestState"], "inputResponses": {"toolcrib-approval": answer}})
}

#[tokio::test]
async fn a_modern_client_asks_its_person_and_comes_back() {
    let house = house(CONFIRM, patient()).await;
    let client = house.modern("default");
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let question = modern_call(&client, json!({})).await;
    assert_eq!(question["resultType"], "input_required", "{question}");
    let asked = &question["inputRequests"]["toolcrib-approval"];
    assert_eq!(asked["method"], "elicitation/create");
    let message = asked["params"]["message"].as_str().unwrap();
    assert!(message.contains("Tool: alpha/counter\n") && message.ends_with("Arguments: {}"), "{message}");
    let result = modern_call(&client, answered(&question, &yes)).await;
    assert_eq!(text_of(&result), "1");
    // The answer is for one call, also when it comes twice, and for this one only.
    let again = modern_call(&client, answered(&question, &yes)).await;
    assert_eq!((text_of(&again), runs(&house).await), ("1".to_owned(), 1), "the same result and no further run");
    let second = modern_call(&client, json!({})).await;
    assert_eq!(second["resultType"], "input_required");
    let bob = house.modern_of("user:acme/bob", "default");
    let stolen = modern_call(&bob, answered(&second, &yes)).await;
    assert!(text_of(&stolen).contains("`requestState` is for another call"), "{stolen}");
    let no = modern_call(&client, answered(&second, &json!({"action": "decline"}))).await;
    assert!(text_of(&no).contains("denied by `local`"), "{no}");
    assert_eq!(runs(&house).await, 1);
}

#[tokio::test]
async fn a_client_that_cannot_ask_falls_to_the_inbox_where_its_person_confirms() {
    let house = house(CONFIRM, Setup::default()).await;
    for client in house.both("default") {
        let id = id_of(&call(&client, &json!({})).await);
        let by_mcp = client.clone().admin().call("core_approval_approve", &json!({ "id": id })).await;
        assert!(text_of(&by_mcp).contains("not approved or denied by MCP"), "{by_mcp}");
        let eve = somebody(&house, "user:acme/eve", &[]);
        assert_eq!(approve(&eve, &id).await.expect_err("another person").kind, Kind::NotFound);
        approve(&house.modern("default"), &id).await.expect("its own person confirms");
        until(&owner(&house), &id, "done").await;
        call(&client, &json!({})).await;
    }
    let id = id_of(&call(&house.modern("default"), &json!({})).await);
    approve(&owner(&house), &id).await.expect("the owner is one person, with the token and without");
}

#[tokio::test]
async fn a_remembered_confirmation_spares_the_second_question_for_the_same_tool() {
    let house = house(REMEMBER, patient()).await;
    let client = house.modern("default");
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let question = modern_call(&client, json!({})).await;
    let is_count = |answer: &Value| text_of(answer).parse::<usize>().is_ok();
    let first = modern_call(&client, answered(&question, &yes)).await;
    assert!(is_count(&first), "{first}");
    for answer in [modern_call(&client, json!({})).await, call(&client, &json!({})).await] {
        assert!(is_count(&answer), "not asked again: {answer}");
    }
    assert_eq!(runs(&house).await, 3);
    let bob = house.modern_of("user:acme/bob", "default");
    assert_eq!(modern_call(&bob, json!({})).await["resultType"], "input_required", "another person is asked");
    house.apply(&[policy(&REMEMBER.replace("10m", "9m"))]).await;
    assert_eq!(modern_call(&client, json!({})).await["resultType"], "input_required", "other policies ask again");
}

/// A client on a connection of its own, as over stdio, that answers what it is asked.
pub(crate) struct Line {
    duplex: Arc<Duplex>,
    heard: mpsc::Receiver<Bytes>,
}

impl Line {
    pub(crate) async fn open(house: &TestGateway) -> Self {
        let (out, heard) = mpsc::channel(OUT);
        let snapshot = house.gateway.snapshot(&ProfileName::new("default").unwrap()).unwrap();
        let (principal, rules) = (Principal::member("local"), Rules::strict(64));
        let terms = Terms { principal, snapshot, is_owner: false, rules, takes_modern: true };
        let mut line = Self { duplex: Arc::new(Duplex::new(Arc::clone(&house.gateway), terms, out)), heard };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}}});
        line.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        line.next().await;
        line
    }

    pub(crate) async fn say(&self, message: &Value) {
        eventually("room", self.duplex.take(&message.to_string().into(), RequestTrace::default())).await;
    }

    async fn next(&mut self) -> Value {
        serde_json::from_slice(&eventually("a message", self.heard.recv()).await.unwrap()).unwrap()
    }

    async fn call(&self, id: u64) {
        let params = json!({"name": "alpha_counter", "arguments": {}});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }
}

#[tokio::test]
async fn over_stdio_a_legacy_client_is_asked_while_its_call_waits() {
    let house = house(CONFIRM, patient()).await;
    let mut line = Line::open(&house).await;
    for (id, answer, expect) in [
        (1, json!({"action": "accept", "content": {"confirm": true}}), "1"),
        (2, json!({"action": "decline"}), "denied by `local`"),
    ] {
        line.call(id).await;
        let question = line.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        line.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        let answer = line.next().await;
        assert_eq!(answer["id"], id);
        assert!(text_of(&answer["result"]).contains(expect), "{answer}");
    }
    assert_eq!(runs(&house).await, 1);
}

#[tokio::test]
async fn over_stdio_a_call_waits_for_somebody_else() {
    let patient = house(APPROVE, patient()).await;
    let mut line = Line::open(&patient).await;
    for (id, tool, expect) in
        [(1, "core_approval_approve", "1"), (2, "core_approval_deny", "denied by `user:acme/olga`")]
    {
        line.call(id).await;
        let approval = until_open(&ops(&patient)).await;
        ops(&patient).operate(tool, &json!({ "id": approval })).await.expect("it is decided");
        let answer = line.next().await;
        assert_eq!(answer["id"], id, "its person was not asked: {answer}");
        assert!(text_of(&answer["result"]).contains(expect), "{answer}");
    }
    assert_eq!(runs(&patient).await, 1);
    // One that has waited in vain reads the next step, and gets the result by the same call.
    let hasty = house(APPROVE, Setup::default()).await;
    let mut line = Line::open(&hasty).await;
    line.call(1).await;
    let waits = line.next().await;
    let id = id_of(&waits["result"]);
    assert!(text_of(&waits["result"]).contains("Somebody else approves it"), "{waits}");
    approve(&ops(&hasty), &id).await.expect("it is approved");
    until(&ops(&hasty), &id, "done").await;
    line.call(2).await;
    assert_eq!(text_of(&line.next().await["result"]), "1");
}

#[tokio::test]
async fn a_call_that_is_taken_back_waits_no_more() {
    let house = house(CONFIRM, patient()).await;
    let mut line = Line::open(&house).await;
    line.call(1).await;
    let question = line.next().await;
    let id = until_open(&owner(&house)).await;
    line.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    until(&owner(&house), &id, "expired").await;
    assert_eq!(approve(&owner(&house), &id).await.expect_err("it is taken back").kind, Kind::Conflict);
    line.say(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"confirm": true}}}),
    )
    .await;
    assert_eq!(runs(&house).await, 0);
}

#[tokio::test]
async fn what_happens_is_an_event_without_arguments() {
    let house = house(APPROVE, Setup::default()).await;
    let id = id_of(&call(&house.modern("default"), &json!({})).await);
    approve(&ops(&house), &id).await.expect("it is approved");
    until(&ops(&house), &id, "done").await;
    let mut status = house.server("alpha").watch_status();
    eventually_sees("the server", &mut status, |status| status.listed).await;
    let listed = async {
        loop {
            let events =
                owner(&house).operate("core_events", &json!({"resourceType": "Approval"})).await.expect("events");
            if events.to_string().contains("ApprovalDone") {
                return events.to_string();
            }
            tokio::task::yield_now().await;
        }
    };
    let listed = eventually("the events", listed).await;
    for word in ["ApprovalRequested", "ApprovalApproved", "ApprovalRunning", "ApprovalDone", "user:acme/olga"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let member = house.modern("default").operate("core_events", &json!({})).await.expect("events");
    assert!(!member.to_string().contains(&id), "what others do is for administrators: {member}");
}

#[tokio::test]
async fn an_open_approval_ends_when_its_caller_is_halted() {
    let house = house(APPROVE, Setup::default()).await;
    let (ann, owner) = (somebody(&house, "user:acme/ann", &[]), owner(&house));
    let id = id_of(&call(&ann, &json!({})).await);
    let halt = json!({"kind": "principal", "subject": "user:acme/ann", "reason": "a test"});
    owner.operate("core_halt_add", &halt).await.expect("a halt");
    until(&owner, &id, "expired").await;
}
