//! What `core_policy_explain`, `core_policy_test` and `core_policy_check` say of all that can be asked for, halted, held and
//! named.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, server, server_with, stopped, text_of};

use crate::halts::halt;

const TEAM: &str = r#"@id("ops") permit (principal in Group::"acme/ops", action == Action::"approve", resource);
@id("approvers") forbid (principal, action == Action::"approve", resource) unless { principal in Group::"acme/ops" };
@id("no-complete") forbid (principal, action == Action::"complete", resource in Server::"alpha");
@id("no-beta") forbid (principal, action == Action::"forward", resource == Server::"beta");
@id("odd") forbid (principal, action == Action::"forward", resource) when { context.method == "odd/method" };
@id("entry") @deny("said") forbid (principal, action == Action::"configure", resource == Entry::"parts");
@id("who") forbid (principal, action == Action::"call", resource == Tool::"alpha/pid") when { context.proof == "key" };
@id("door") forbid (principal, action == Action::"call", resource == Tool::"alpha/image") when { context.door == "rest" };
@id("client") forbid (principal in Client::"acme/editor", action == Action::"call", resource == Tool::"alpha/env");
@id("tenant") forbid (principal in Tenant::"acme/t2", action == Action::"call", resource == Tool::"alpha/env");
@id("late") forbid (principal, action == Action::"call", resource == Tool::"alpha/add") when { context.time > datetime("2026-06-01") };
@id("seen") forbid (principal, action == Action::"call", resource == Tool::"alpha/fail") when { context.labels.contains("data=secret") };"#;

fn policy(text: &str) -> File {
    ("policies/team.cedar".to_owned(), text.to_owned())
}

fn entry(name: &str) -> File {
    let text = format!("name: {name}\ntitle: T\ndescription: D\nruntime: {{command: never-started}}\n");
    (format!("registry/{name}.yaml"), text)
}

async fn answer(admin: &Client, operation: &str, arguments: &Value) -> Value {
    let answer = admin.call(operation, arguments).await;
    assert!(answer["isError"] != true, "{arguments}: {answer}");
    answer["structuredContent"].clone()
}

/// What explain says of a request: the decision and the policy.
async fn explained(admin: &Client, question: &Value) -> (String, String) {
    let answer = answer(admin, "core_policy_explain", question).await;
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    (text("decision"), text("by"))
}

fn with(question: &Value, more: &Value) -> Value {
    let mut question = question.clone();
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    question
}

#[tokio::test]
async fn explain_and_test_know_every_act_door_proof_and_moment() {
    let default = profile("default", "exposure: direct\ngroups: [load, admin]\nregistry: [parts, whole]");
    let files = [server("alpha", &[]), server("beta", &[]), entry("parts"), entry("whole"), default, policy(TEAM)];
    let house = TestGateway::settled(&files).await;
    let admin = house.modern("default").admin();
    let ann = json!({"as": "user:acme/ann"});
    let mut cases = Vec::new();
    for (question, decision, by) in [
        (json!({"approve": "alpha/pid"}), "hidden", ""),
        (json!({"approve": "alpha/pid", "role": "operator"}), "hidden", "approvers"),
        (json!({"approve": "alpha/pid", "groups": ["ops"]}), "permit", "ops"),
        (json!({"complete": "alpha/greet"}), "hidden", "no-complete"),
        (json!({"complete": "beta/greet"}), "permit", "baseline"),
        (json!({"complete": "beta fake://a/{b}"}), "permit", "baseline"),
        (json!({"forward": "beta any/method"}), "hidden", "no-beta"),
        (json!({"forward": "alpha any/method", "at": "2026-05-01T00:00:00Z"}), "permit", "baseline"),
        (json!({"forward": "alpha odd/method", "at": "2026-05-01T00:00:00Z"}), "deny", "odd"),
        (json!({"configure": "parts"}), "deny", "entry"),
        (json!({"configure": "whole"}), "permit", "baseline"),
        (json!({"resource": "alpha fake://text"}), "permit", "baseline"),
        (json!({"prompt": "alpha/greet"}), "permit", "baseline"),
        (json!({"tool": "alpha/pid"}), "permit", "baseline"),
        (json!({"tool": "alpha/pid", "proof": "key"}), "hidden", "who"),
        (json!({"tool": "alpha/pid", "as": "key:default/ci"}), "hidden", "who"),
        (json!({"tool": "alpha/image"}), "permit", "baseline"),
        (json!({"tool": "alpha/image", "door": "rest"}), "hidden", "door"),
        (json!({"tool": "alpha/env"}), "permit", "baseline"),
        (json!({"tool": "alpha/env", "client": "editor"}), "hidden", "client"),
        (json!({"tool": "alpha/env", "tenant": "t2"}), "hidden", "tenant"),
        (json!({"tool": "alpha/add"}), "open", ""),
        (json!({"tool": "alpha/add", "at": "2026-05-01T00:00:00Z"}), "permit", "baseline"),
        (json!({"tool": "alpha/add", "at": "2026-07-01T00:00:00Z"}), "deny", "late"),
        (json!({"tool": "alpha/fail", "labels": ["data=open"]}), "permit", "baseline"),
        (json!({"tool": "alpha/fail", "labels": ["data=secret"]}), "deny", "seen"),
    ] {
        let question = with(&ann, &question);
        let (found, policy) = explained(&admin, &question).await;
        // Which of the shipped ones permits it is another test's.
        let is_by = if by == "baseline" { policy.starts_with(by) } else { policy == by };
        assert!(found == decision && is_by, "{question}: {found} by {policy}");
        cases.push(with(&question, &json!({"name": question.to_string(), "expect": decision})));
    }
    let ran = answer(&admin, "core_policy_test", &json!({ "cases": cases })).await;
    assert_eq!((&ran["passed"], &ran["failed"]), (&json!(cases.len()), &json!(0)), "{ran}");
    for (wrong, expect) in [
        (json!({"door": "back", "tool": "alpha/pid"}), "door `back` is unknown; There are mcp, rest"),
        (json!({"proof": "word", "tool": "alpha/pid"}), "proof `word` is unknown"),
        (json!({"at": "noon", "tool": "alpha/pid"}), "`at: noon` is no time"),
        (json!({"labels": [1], "tool": "alpha/pid"}), "`labels` must be a list of texts"),
        (json!({"groups": "ops", "tool": "alpha/pid"}), "`groups` must be a list of texts"),
        (json!({"approve": "alpha/none"}), "tool `alpha/none` does not exist"),
        (json!({"configure": "none"}), "entry `none` does not exist"),
        (json!({"forward": "alpha"}), "write `server method`"),
        (json!({"complete": "alpha"}), "write `server/prompt` or `server uri`"),
        (json!({"tool": "alpha/pid", "approve": "alpha/pid"}), "name one of `tool`, `operation`"),
        (json!({"tool": "alpha/pid", "argument": {}}), "`argument` is no key of a case; Did you mean `arguments`?"),
    ] {
        let case = with(&with(&ann, &wrong), &json!({"name": "odd", "expect": "deny"}));
        let refused = admin.call("core_policy_test", &json!({"cases": [case]})).await;
        let said = text_of(&refused);
        let parts: Vec<&str> = expect.split("; ").collect();
        assert!(refused["isError"] == true && parts.iter().all(|it| said.contains(it)), "{wrong}: {said}");
    }
}

#[tokio::test]
async fn explain_says_what_is_halted_held_or_confirmed_as_a_call_does() {
    let key = format!("keys:\n  - {{name: ci, hash: 'sha256:{}', user: 'user:acme/olga'}}\n", "1".repeat(64));
    let files = [
        server_with("alpha", &[], "confirm: [pid]\n"),
        stopped("later", &["read"], ""),
        profile("default", "exposure: direct\ngroups: [admin]"),
        profile("hold", "exposure: direct\nservers: [later]\nchanged_tools: hold"),
        profile("keyed", &format!("exposure: direct\n{key}")),
    ];
    let house = TestGateway::settled(&files).await;
    let admin = house.modern("default").admin();
    let ann = json!({"as": "user:acme/ann", "tool": "alpha/echo"});
    let asked = |more: &Value| with(&ann, more);
    let rest = asked(&json!({"profile": "hold", "tool": "later/read"}));
    assert_eq!(explained(&admin, &rest).await.0, "hidden", "it was not approved");
    let said = answer(&admin, "core_policy_explain", &rest).await;
    assert!(said["needed"].to_string().contains("`changed_tools: hold` of profile `hold`"), "{said}");
    let confirmed = answer(&admin, "core_policy_explain", &asked(&json!({"tool": "alpha/pid"}))).await;
    assert_eq!(confirmed["decision"], "confirm", "{confirmed}");
    assert!(confirmed["needed"].to_string().contains("confirm of server alpha"), "{confirmed}");

    let halts = [
        ("principal", "user:acme/ann", json!({})),
        ("principal", "user:acme/olga", json!({"as": "key:keyed/ci"})),
        ("client", "editor", json!({"client": "editor"})),
        ("session", "ses_1", json!({"session": "ses_1"})),
        ("profile", "keyed", json!({"profile": "keyed"})),
        ("run", "run_1", json!({"run": "run_1", "workflow": "w"})),
    ];
    for (kind, subject, more) in &halts {
        let question = asked(more);
        assert_eq!(explained(&admin, &question).await.0, "permit", "{kind} {subject}");
        let id = halt(&house, kind, subject).await;
        let said = answer(&admin, "core_policy_explain", &question).await;
        assert_eq!(said["decision"], "deny", "{kind} {subject}: {said}");
        assert!(said["needed"].to_string().contains(&format!("toolcrib halt lift {id}")), "{said}");
        let other = asked(&json!({"as": "user:acme/other"}));
        assert_eq!(explained(&admin, &other).await.0, "permit", "{kind} {subject}: another one");
        let case = with(&question, &json!({"expect": "deny"}));
        let ran = answer(&admin, "core_policy_test", &json!({"cases": [case]})).await;
        assert_eq!(ran["passed"], 1, "{ran}");
        let (gateway, caller) = (house.gateway.clone(), crate::halts::holder(&admin, None));
        tokio::task::spawn_blocking(move || gateway.path.halts.lift(&id, &caller).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn whoever_lifts_halts_with_the_token_file_is_not_halted_for_that() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", "groups: [admin]")]).await;
    let other = house.modern_of("bob", "other").admin();
    let id = halt(&house, "principal", "admin").await;
    let explained = async |question: Value| {
        let operation = house.gateway.operations.by_tool("core_policy_explain").unwrap();
        let caller = toolcrib_session::Caller { door: toolcrib_store::Door::REST, ..other.caller.clone() };
        let question = toolcrib_protocol::Raw::from_value(&question);
        house.gateway.operate(operation, None, &caller, question).await.unwrap().to_value()["decision"].clone()
    };
    for (operation, door, decision) in [
        ("halt_lift", "rest", "permit"),
        ("halt_list", "rest", "permit"),
        ("halt_add", "rest", "deny"),
        ("halt_lift", "mcp", "deny"),
    ] {
        let question = json!({"as": "admin", "role": "owner", "operation": operation, "door": door});
        assert_eq!(explained(question).await, decision, "{operation} {door}");
    }
    assert!(!id.is_empty());
}
