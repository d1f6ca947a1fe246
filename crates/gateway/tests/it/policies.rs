//! Policies decide at every door by one rule, also while their files are wrong.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_call::Source;
use toolcrib_flow::workflow::Workflows;
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server, server_with, text_of};

use crate::visibility::seen;

const EVERY_WAY: [&str; 7] = ["list", "find", "search", "describe", "direct", "call_tool", "load"];

fn policy(text: &str) -> File {
    ("policies/team.cedar".to_owned(), text.to_owned())
}

fn direct() -> File {
    profile("default", "exposure: direct\ngroups: [load, resources, prompts, admin]")
}

async fn house(text: &str) -> TestGateway {
    let files = [server("alpha", &[]), server_with("beta", &[], "labels: {env: prod}\n"), direct(), policy(text)];
    let house = TestGateway::settled(&files).await;
    assert_eq!(house.gateway.loaded().problems, [], "{text}");
    house
}

async fn check(text: &str, shown: &[&str], hidden: &[&str]) {
    let house = house(text).await;
    for client in house.both("default") {
        for id in shown {
            let ways = seen(&client, id).await;
            assert!(EVERY_WAY.iter().all(|way| ways.contains(way)) && ways.len() == 11, "{text}: {id} by {ways:?}");
        }
        for id in hidden {
            assert_eq!(seen(&client, id).await, Vec::<&str>::new(), "{text}: {id}");
        }
    }
}

/// What a call answers, whether as a result or as an error.
async fn told(client: &Client, name: &str, arguments: &Value) -> String {
    match client.ask("tools/call", &json!({"name": name, "arguments": arguments})).await {
        Ok(result) => text_of(&result),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

#[tokio::test]
async fn what_a_policy_forbids_is_hidden_whichever_way_one_asks() {
    check(r#"forbid (principal, action, resource in Server::"beta");"#, &["alpha/pid"], &["beta/pid", "beta/image"])
        .await;
    check(r#"forbid (principal, action, resource in Label::"env=prod");"#, &["alpha/pid"], &["beta/pid"]).await;
    let writes = r#"forbid (principal, action == Action::"call", resource) unless { resource.readOnly };"#;
    check(writes, &["alpha/pid", "beta/image"], &["alpha/counter", "beta/counter"]).await;
    let by_name = r#"forbid (principal, action == Action::"call", resource) when { resource.name like "im*" };"#;
    check(by_name, &["alpha/pid", "beta/counter"], &["alpha/image", "beta/image"]).await;
}

#[tokio::test]
async fn a_hidden_thing_answers_as_one_that_does_not_exist() {
    let house = house(r#"forbid (principal, action, resource in Server::"beta");"#).await;
    for client in house.both("default") {
        for (hidden, missing) in [("beta_pid", "beto_pid"), ("beta/pid", "beto/pid")] {
            let (hidden_answer, missing_answer) =
                (told(&client, hidden, &json!({})).await, told(&client, missing, &json!({})).await);
            assert_eq!(hidden_answer.replace("beta", "beto"), missing_answer, "{hidden}");
        }
        let read = async |uri: &str| client.ask("resources/read", &json!({"uri": uri})).await.map_err(|it| it.message);
        let templates = client.ask("resources/templates/list", &json!({})).await.unwrap();
        let resources = client.ask("resources/list", &json!({})).await.unwrap();
        let prompts = client.ask("prompts/list", &json!({})).await.unwrap();
        for list in [templates, resources, prompts] {
            assert!(!list.to_string().contains("beta"), "{list}");
        }
        assert!(read("beta+file:///none").await.is_err());
    }
}

#[tokio::test]
async fn what_only_some_arguments_may_do_is_shown_and_refused_with_words() {
    let text = r#"@id("quiet") @reason("say less")
forbid (principal, action == Action::"call", resource == Tool::"alpha/echo")
when { context.arguments has text && context.arguments.text like "*secret*" };"#;
    let house = house(text).await;
    for client in house.both("default") {
        assert!(client.listed().await.contains(&"alpha_echo".to_owned()));
        assert!(told(&client, "alpha_echo", &json!({"text": "hello"})).await.contains("hello"));
        let refused = told(&client, "alpha_echo", &json!({"text": "a secret"})).await;
        assert!(refused.contains("say less") && !refused.contains("a secret"), "{refused}");
        let inner = json!({"name": "alpha/echo", "arguments": {"text": "a secret"}});
        let by_meta = client.call("call_tool", &inner).await;
        assert!(by_meta["isError"] == true && text_of(&by_meta).contains("say less"), "{by_meta}");
        // Of another type than the policy expects: it gets around nothing.
        let odd = told(&client, "alpha_echo", &json!({"text": ["a secret"]})).await;
        assert!(!odd.contains("a secret"), "{odd}");
    }
    let decisions: Vec<String> = house.audited().await.into_iter().map(|it| it.decision).collect();
    assert!(decisions.contains(&"deny:policy-forbids:quiet".to_owned()), "{decisions:?}");
    assert!(decisions.contains(&"permit:tool-allowed:baseline-viewer".to_owned()), "{decisions:?}");
}

#[tokio::test]
async fn principals_of_different_classes_see_different_things_in_one_profile() {
    let text = r#"
@id("no-beta") forbid (principal == User::"acme/ann", action, resource in Server::"beta");
@id("asks") @approve("ops") forbid (principal, action == Action::"call", resource == Tool::"alpha/counter");"#;
    let house = house(text).await;
    let [ann, bob] = ["user:acme/ann", "user:acme/bob"].map(|it| house.modern_of(it, "default"));
    assert!(!ann.listed().await.contains(&"beta_pid".to_owned()));
    assert!(bob.listed().await.contains(&"beta_pid".to_owned()));
    // A session that is open hears that its list is another one.
    let legacy = house.legacy_of("user:acme/ann", "default");
    assert!(!legacy.listed().await.contains(&"beta_pid".to_owned()));
    let refused = told(&bob, "alpha_counter", &json!({})).await;
    assert!(refused.contains("somebody of `ops` has to approve it"), "{refused}");
    assert!(bob.listed().await.contains(&"alpha_counter".to_owned()), "what can be asked for is shown");
    house.apply(&[policy("")]).await;
    assert!(
        ann.listed().await.contains(&"beta_pid".to_owned()) && legacy.listed().await.contains(&"beta_pid".to_owned())
    );
    assert!(!told(&bob, "alpha_counter", &json!({})).await.contains("approve"));
}

#[tokio::test]
async fn while_files_are_bad_the_last_good_ones_count_also_after_a_restart() {
    let good = r#"forbid (principal, action, resource in Server::"beta");"#;
    let house = house(good).await;
    let client = house.modern("default");
    house.apply_with_problems(&[policy("forbid (principal, action, resource in Servr::\"alpha\");")]).await;
    let problems = house.gateway.loaded().problems.clone();
    assert!(problems.iter().any(|it| it.to_string().starts_with("policies/team.cedar:1:1: ")), "{problems:?}");
    assert!(client.listed().await.contains(&"alpha_pid".to_owned()));
    assert!(!client.listed().await.contains(&"beta_pid".to_owned()));
    house.apply(&[policy(good)]).await;
    house.apply_with_problems(&[policy("forbid (principal, action, resource in Servr::\"alpha\");")]).await;
    let loads = house.audited().await.into_iter().filter(|event| event.method == "policies/load");
    let loads: Vec<_> = loads.map(|event| (event.target, event.decision, event.outcome, event.principal)).collect();
    let [first, bad, again, ..] = &loads[..] else { panic!("{loads:?}") };
    assert_eq!((first, &*first.1, &*first.2, &*first.3), (again, "permit:in-force", "ok", "gateway"));
    assert_eq!((&*bad.1, &*bad.2, loads.len()), ("deny:bad-policies", "error:bad-definition", 4));
    assert!(bad.0 != first.0 && first.0.starts_with("policies/"), "{loads:?}");
    let home = house.home_folder();
    house.close().await;
    let again = TestGateway::open(&[], Setup { home, ..Setup::default() });
    again.settle().await;
    let client = again.modern("default");
    assert!(client.listed().await.contains(&"alpha_pid".to_owned()));
    assert!(!client.listed().await.contains(&"beta_pid".to_owned()), "the last good policies outlive the process");
}

#[tokio::test]
async fn without_good_policies_only_administrators_act() {
    let files = [server("alpha", &[]), direct(), policy("permit (principal")];
    let house = TestGateway::settled(&files).await;
    for client in house.both("default") {
        assert!(!client.listed().await.contains(&"alpha_pid".to_owned()));
        assert!(told(&client, "alpha_pid", &json!({})).await.starts_with("-32602"));
    }
    let admin = house.modern("default").admin();
    assert!(admin.listed().await.contains(&"alpha_pid".to_owned()));
    let listed = admin.call("core_policy_list", &json!({})).await;
    assert!(listed.to_string().contains("team.cedar"), "{listed}");
}

#[tokio::test]
async fn policies_narrow_operations_and_say_so() {
    let text = r#"@id("no-removal") forbid (principal, action == Action::"mcpserver_delete", resource);"#;
    let house = house(text).await;
    let admin = house.modern("default").admin();
    let refused = admin.call("core_mcpserver_delete", &json!({"name": "alpha"})).await;
    assert!(text_of(&refused).contains("`no-removal` forbids it"), "{refused}");
    let listed = admin.call("core_mcpserver_list", &json!({})).await;
    assert!(listed["isError"] != true, "{listed}");
    // Roles are the floor: no policy gives more than they do.
    let member = house.modern("default");
    house.apply(&[policy(r#"permit (principal, action, resource);"#)]).await;
    let refused = member.call("core_mcpserver_delete", &json!({"name": "alpha"})).await;
    assert!(refused["isError"] == true, "{refused}");
}

#[tokio::test]
async fn a_step_of_a_workflow_comes_by_a_door_of_its_own() {
    let (scope, ground) = (Scope::new(), Setup::default());
    let workflows = Workflows::new(ground.store.runs(), &scope);
    let flow = ("workflows/flow.yaml".to_owned(), "name: flow\nsteps: [{id: a, tool: alpha/pid}]\n".to_owned());
    let sources = Arc::new([Arc::clone(&workflows) as Arc<dyn Source>]);
    let house = TestGateway::open(&[server("alpha", &[]), flow, direct()], Setup { sources, ..ground });
    workflows.enter(&house.gateway);
    house.settle().await;
    for (door, [direct, by_step]) in [("mcp", [false, true]), ("errand", [true, false])] {
        let text = format!(
            r#"@deny("said") forbid (principal, action == Action::"call", resource in Server::"alpha") when {{ context.door == "{door}" }};"#
        );
        house.apply(&[policy(&text)]).await;
        for client in house.both("default") {
            for (name, expect) in [("alpha_pid", direct), ("workflow_flow", by_step)] {
                let answer = client.call(name, &json!({})).await;
                assert_eq!(answer["isError"] != true, expect, "{door} {name}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_policy_that_only_records_is_named_in_the_audit_log() {
    let text =
        r#"@id("try") @mode("record") forbid (principal, action == Action::"call", resource in Server::"alpha");"#;
    let house = house(text).await;
    assert!(!told(&house.modern("default"), "alpha_pid", &json!({})).await.contains("denied"));
    let decisions: Vec<String> = house.audited().await.into_iter().map(|it| it.decision).collect();
    assert!(decisions.iter().any(|it| it.ends_with(" (recorded: try)")), "{decisions:?}");
}

#[tokio::test]
async fn explain_check_and_test_say_what_calls_do() {
    let text = r#"@id("big") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo") when { context.arguments has text && context.arguments.text == "x" };
@id("typo") forbid (principal, action, resource in Server::"betta");"#;
    let house = house(text).await;
    let admin = house.modern("default").admin();
    let answer = async |tool: &str, arguments: Value| -> Value {
        let answer = admin.call(tool, &arguments).await;
        assert!(answer["isError"] != true, "{answer}");
        answer["structuredContent"].clone()
    };
    let about = |more: Value| {
        let mut question = json!({"as": "user:acme/ann", "tool": "alpha/echo"});
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        question
    };
    let open = answer("core_policy_explain", about(json!({}))).await;
    assert_eq!(open["decision"], "open", "{open}");
    let no = answer("core_policy_explain", about(json!({"arguments": {"text": "x"}}))).await;
    assert_eq!((&no["decision"], &no["by"]), (&json!("deny"), &json!("big")), "{no}");
    let yes = answer("core_policy_explain", about(json!({"arguments": {"text": "y"}}))).await;
    assert_eq!((&yes["decision"], &yes["by"]), (&json!("permit"), &json!("baseline-viewer")), "{yes}");
    let checked = answer("core_policy_check", json!({})).await;
    assert_eq!(checked["ok"], true);
    assert!(checked["warnings"].to_string().contains("Did you mean `beta`?"), "{checked}");
    let bad =
        json!({"files": [{"name": "a.cedar", "text": "permit (principal, action == Action::\"cal\", resource);"}]});
    let checked = answer("core_policy_check", bad).await;
    assert!(checked["ok"] == false && checked["problems"][0]["line"] == 1, "{checked}");
    let cases = json!({"cases": [
        {"name": "quiet", "as": "user:acme/ann", "tool": "alpha/echo", "arguments": {"text": "x"}, "expect": "deny"},
        {"name": "loud", "as": "user:acme/ann", "tool": "alpha/echo", "arguments": {"text": "y"}, "expect": "deny"},
    ]});
    let ran = answer("core_policy_test", cases).await;
    assert_eq!((&ran["passed"], &ran["failed"]), (&json!(1), &json!(1)), "{ran}");
    for (wrong, expect) in [
        (json!({"as": "user:acme/ann"}), "name one of"),
        (json!({"as": "user:acme/ann", "tool": "alpha/none"}), "does not exist"),
        (json!({"as": "user:acme/ann", "tool": "alpha/echo", "role": "boss"}), "boss"),
    ] {
        let refused = admin.call("core_policy_explain", &wrong).await;
        assert!(refused["isError"] == true && text_of(&refused).contains(expect), "{refused}");
    }
    let member = house.modern("default").call("core_policy_list", &json!({})).await;
    assert!(member["isError"] == true, "policies are for administrators: {member}");
}

#[tokio::test]
async fn explain_says_what_the_call_does_and_what_is_needed() {
    let text = r#"@id("ask") @approve("ops") @expires("30m") forbid (principal, action == Action::"call", resource == Tool::"alpha/pid");
@id("no-echo") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo");"#;
    let work = "exposure: direct\ngroups: [load, admin]\ntools:\n  allow: ['*']\n  deny: [alpha/counter]\n  confirm: [alpha/image]";
    for with_policies in [true, false] {
        let mut files = vec![server("alpha", &[]), direct(), profile("work", work)];
        files.extend(with_policies.then(|| policy(text)));
        let house = TestGateway::settled(&files).await;
        assert_eq!(house.gateway.loaded().problems, []);
        let admin = house.modern("default").admin();
        let check = async |question: Value, decision: &str, needed: &[&str]| {
            let answer = admin.call("core_policy_explain", &question).await;
            let answer = &answer["structuredContent"];
            assert_eq!(answer["decision"], decision, "{question}: {answer}");
            let said = answer["needed"].to_string();
            assert!(needed.iter().all(|it| said.contains(it)), "{question}: {answer}");
            assert_eq!(needed.is_empty(), said == "[]", "{question}: {answer}");
        };
        let tool = |tool: &str| json!({"as": "user:acme/ann", "profile": "work", "tool": tool, "arguments": {}});
        check(tool("alpha/counter"), "hidden", &["tools.deny: alpha/counter", "profile `work`"]).await;
        check(tool("alpha/image"), "confirm", &["person has to confirm", "tools.confirm: alpha/image"]).await;
        let approval: &[&str] = &["somebody of `ops`", "within 1800 s", "`ask`"];
        check(
            tool("alpha/pid"),
            ["permit", "approve"][usize::from(with_policies)],
            if with_policies { approval } else { &[] },
        )
        .await;
        let forbidden: &[&str] = &["policy `no-echo` (team.cedar:2)"];
        check(
            tool("alpha/echo"),
            ["permit", "hidden"][usize::from(with_policies)],
            if with_policies { forbidden } else { &[] },
        )
        .await;
        let operation = json!({"as": "user:acme/ann", "operation": "core_policy_check"});
        check(operation, "deny", &["the role `operator`"]).await;
        let wrong = json!({"cases": [{"as": "user:acme/ann", "tool": "alpha/pid", "expect": "allow"}]});
        let refused = admin.call("core_policy_test", &wrong).await;
        assert!(refused["isError"] == true && text_of(&refused).contains("`expect: allow`"), "{refused}");
    }
}
