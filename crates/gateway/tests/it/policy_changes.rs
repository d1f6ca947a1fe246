//! What a change of policies does is known before: by comparing files, and by playing the record against them.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, server, server_with, text_of};

fn policy(text: &str) -> File {
    ("policies/team.cedar".to_owned(), text.to_owned())
}

fn direct() -> File {
    profile("default", "exposure: direct\ngroups: [load, resources, prompts, admin]")
}

async fn answer(client: &Client, tool: &str, arguments: Value) -> Value {
    let answer = client.call(tool, &arguments).await;
    assert!(answer["isError"] != true, "{tool} {arguments}: {answer}");
    answer["structuredContent"].clone()
}

fn files(text: &str) -> Value {
    json!([{"name": "team.cedar", "text": text}])
}

/// The rows of a change, in few words: effect, from, to, policy, who, what.
fn rows(found: &Value) -> Vec<String> {
    let words = |list: &Value| list.as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let row = |it: &Value| {
        let text = |key: &str| it[key].as_str().unwrap_or_default();
        let (who, what) = (words(&it["who"]), words(&it["targets"]));
        format!("{} {}>{} {}: {who}: {what}", text("effect"), text("from"), text("to"), text("by"))
    };
    found["changes"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn a_diff_says_who_gains_or_loses_what() {
    let before = r#"@id("pid") forbid (principal, action == Action::"call", resource == Tool::"alpha/pid");
@id("big") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo") when { context.arguments has text && context.arguments.text == "x" };"#;
    let house = TestGateway::settled(&[server("alpha", &[]), direct(), policy(before)]).await;
    let admin = house.modern("default").admin();
    let same = answer(&admin, "core_policy_diff", json!({"files": files(before)})).await;
    assert_eq!((&same["gains"], &same["loses"], rows(&same)), (&json!(0), &json!(0), Vec::new()), "{same}");
    let after = r#"@id("image") forbid (principal in Group::"acme/dev", action == Action::"call", resource == Tool::"alpha/image");
@id("asks") @approve("ops") forbid (principal == User::"acme/ann", action == Action::"call", resource == Tool::"alpha/counter");
@id("big") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo") when { context.arguments has text && context.arguments.text == "y" };"#;
    let found = answer(&admin, "core_policy_diff", json!({"files": files(after), "profile": "default"})).await;
    let rows = rows(&found);
    let has = |parts: &[&str]| rows.iter().any(|row| parts.iter().all(|part| row.contains(part)));
    assert!(has(&["gains hidden>permit pid: ", "role member in profile default", ": alpha/pid"]), "{rows:#?}");
    assert!(has(&["loses permit>hidden image: Group::\"acme/dev\" with role ", ": alpha/image"]), "{rows:#?}");
    assert!(has(&["loses permit>approve asks: User::\"acme/ann\" with role ", ": alpha/counter"]), "{rows:#?}");
    assert!(has(&["changes open>open big: ", "role member in profile default", ": alpha/echo"]), "{rows:#?}");
    // A viewer cannot call it whatever policies say, so nothing changes.
    let asks = rows.iter().find(|row| row.contains("approve asks")).unwrap();
    assert!(!asks.contains("with role viewer"), "{asks}");
    assert!(!rows.iter().any(|row| row.contains("image: role")), "others lose nothing: {rows:#?}");
    assert_eq!(found["truncated"], false);
    for (wrong, expect) in [
        (json!({"files": files("permit (principal")}), "team.cedar:1"),
        (json!({"files": files(after), "profile": "none"}), "no profile `none`"),
    ] {
        let refused = admin.call("core_policy_diff", &wrong).await;
        assert!(refused["isError"] == true && text_of(&refused).contains(expect), "{refused}");
    }
    // Without policies before, what is shipped takes nothing.
    house.apply(&[policy("")]).await;
    let none = answer(&admin, "core_policy_diff", json!({"files": files("// nothing")})).await;
    assert_eq!(none["changes"], json!([]), "{none}");
}

#[tokio::test]
async fn a_diff_covers_prompts_resources_and_entries() {
    let entry = "name: parts\ntitle: T\ndescription: D\nruntime: {command: never-started}\n".to_owned();
    let default = profile("default", "exposure: direct\ngroups: [admin]\nregistry: [parts]");
    let house = TestGateway::settled(&[server("alpha", &[]), ("registry/parts.yaml".to_owned(), entry), default]).await;
    let admin = house.modern("default").admin();
    let text = r#"@id("prompt") forbid (principal, action == Action::"get", resource == Prompt::"alpha/greet");
@id("uri") forbid (principal in Group::"acme/dev", action == Action::"read", resource) when { resource.uri like "*binary" };
@id("entry") @deny("said") forbid (principal, action == Action::"configure", resource == Entry::"parts");"#;
    let found = answer(&admin, "core_policy_diff", json!({"files": files(text)})).await;
    let rows = rows(&found);
    let has = |parts: &[&str]| rows.iter().any(|row| parts.iter().all(|part| row.contains(part)));
    assert!(has(&["loses permit>hidden prompt: ", "role member", ": prompt alpha/greet"]), "{rows:#?}");
    assert!(has(&["loses permit>hidden uri: Group::\"acme/dev\" with", ": resource alpha fake://binary"]), "{rows:#?}");
    assert!(has(&["loses permit>deny entry: ", ": entry parts"]), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.contains("fake://text") || row.contains("alpha/plain")), "{rows:#?}");
    assert_eq!(found["truncated"], false, "{found}");
}

#[tokio::test]
async fn the_record_is_played_against_other_files() {
    let house = TestGateway::settled(&[server("alpha", &[]), direct(), policy("// nothing")]).await;
    let ann = house.modern_of("user:acme/ann", "default");
    for _ in 0..3 {
        ann.call("alpha_pid", &json!({})).await;
    }
    ann.call("alpha_echo", &json!({"text": "x"})).await;
    ann.call("alpha_counter", &json!({})).await;
    let _ = ann.ask("resources/read", &json!({"uri": "fake:///none"})).await;
    let admin = house.modern("default").admin();
    let played =
        async |text: &str| answer(&admin, "core_policy_simulate", json!({"since": 0, "files": files(text)})).await;
    let row = |found: &Value, target: &str| {
        let rows = found["changes"].as_array().unwrap();
        rows.iter().find(|row| row["target"] == target).cloned().unwrap_or_default()
    };
    let same = played("// nothing").await;
    assert_eq!(same["changes"], json!([]), "{same}");
    assert!(same["played"].as_u64() >= Some(5) && same["same"] == same["played"], "{same}");
    let text = r#"@id("pid") forbid (principal, action == Action::"call", resource == Tool::"alpha/pid");
@id("quiet") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo") when { context.arguments has text && context.arguments.text == "x" };
@id("dev") forbid (principal in Group::"acme/dev", action == Action::"call", resource == Tool::"alpha/counter");"#;
    let found = played(text).await;
    let pid = row(&found, "alpha/pid");
    assert_eq!(
        (&pid["from"], &pid["to"], &pid["by"], &pid["count"]),
        (&json!("permit"), &json!("hidden"), &json!("pid"), &json!(3))
    );
    assert_eq!(pid["principal"], "user:acme/ann");
    // The log keeps a hash of the arguments, which policies cannot read.
    let echo = row(&found, "alpha/echo");
    assert_eq!((&echo["to"], &echo["by"]), (&json!("depends on arguments"), &json!("quiet")), "{found}");
    let late = answer(&admin, "core_policy_simulate", json!({"since": "2999-01-01", "files": files(text)})).await;
    assert_eq!(late["played"], 0);
    let refused = admin.call("core_policy_simulate", &json!({"since": "soon"})).await;
    assert!(text_of(&refused).contains("`since` must be a time"), "{refused}");
}

#[tokio::test]
async fn recorded_arguments_are_played_and_groups_that_no_one_recorded_are_named() {
    let setup = toolcrib_testgateway::Setup { keep_arguments: true, ..Default::default() };
    let house = TestGateway::open(&[server("alpha", &[]), direct(), policy("// nothing")], setup);
    house.settle().await;
    let mut ann = house.modern_of("user:acme/ann", "default");
    let mut identity = toolcrib_base::Identity::by(toolcrib_base::Proof::AccessToken);
    identity.issuer = Some("acme".into());
    ann.caller.principal.identity = identity.into();
    for text in ["x", "y"] {
        ann.call("alpha_echo", &json!({"text": text})).await;
    }
    ann.call("alpha_counter", &json!({})).await;
    let admin = house.modern("default").admin();
    let text = r#"@id("quiet") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo") when { context.arguments has text && context.arguments.text == "x" };
@id("dev") forbid (principal in Group::"acme/dev", action == Action::"call", resource == Tool::"alpha/counter");"#;
    let found = answer(&admin, "core_policy_simulate", json!({"since": 0, "files": files(text)})).await;
    let rows: Vec<String> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {} {} {}", it["target"], it["to"], it["by"], it["count"]))
        .collect();
    assert_eq!(
        rows,
        [r#""alpha/counter" "depends on groups" "baseline-member dev" 1"#, r#""alpha/echo" "deny" "quiet" 1"#],
        "{found}"
    );
}

#[tokio::test]
async fn explaining_a_tool_names_the_policy() {
    let text = r#"@id("no-beta") forbid (principal, action == Action::"call", resource in Server::"beta");
@id("asks") @approve("ops") forbid (principal, action == Action::"call", resource == Tool::"alpha/counter");
@id("quiet") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo") when { context.arguments has text };
@id("said") @deny("said") forbid (principal, action == Action::"call", resource == Tool::"alpha/image");"#;
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[]), direct(), policy(text)]).await;
    let admin = house.modern("default").admin();
    for (tool, visible, expect) in [
        ("alpha/pid", true, "policy `baseline-viewer` permits it for members"),
        ("beta/pid", false, "policy `no-beta` (team.cedar:1) refuses it and hides it from members"),
        ("alpha/counter", true, "policy `asks` (team.cedar:2) refuses it for members until somebody says yes"),
        ("alpha/echo", true, "for members it depends on the call, by policy `quiet` (team.cedar:3)"),
        ("alpha/image", true, "policy `said` (team.cedar:4) refuses it with words for members"),
    ] {
        let found = answer(&admin, "core_tool_explain", json!({"tool": tool})).await;
        let step = found["steps"].as_array().unwrap().iter().find(|it| it["step"] == "policies").cloned().unwrap();
        assert!(step["text"].as_str().unwrap().starts_with(expect), "{tool}: {step}");
        assert_eq!(found["visible"], visible, "{tool}: {found}");
    }
    house.apply(&[policy("")]).await;
    let found = answer(&admin, "core_tool_explain", json!({"tool": "beta/pid"})).await;
    assert!(found["visible"] == true && !found.to_string().contains("policies"), "{found}");
}

#[tokio::test]
async fn labels_of_tools_decide_at_every_door() {
    let labelled = "labels: {env: prod}\ntool_labels: {image: {risk: destructive_actions}, counter: {risk: external_writes}, env: {risk: daring}, pid: {env: dev}}\n";
    let text = r#"@id("prod") forbid (principal, action == Action::"call", resource in Label::"env=prod") unless { resource.labels.contains("risk=destructive_actions") };"#;
    let house =
        TestGateway::settled(&[server("alpha", &[]), server_with("beta", &[], labelled), direct(), policy(text)]).await;
    for client in house.both("default") {
        let listed = client.listed().await;
        let of_beta: Vec<&str> = listed.iter().filter_map(|name| name.strip_prefix("beta_")).collect();
        assert_eq!(of_beta, ["image", "pid"], "the rest is labelled `env=prod`");
        let refused = client.call("call_tool", &json!({"name": "beta/image", "arguments": {}})).await;
        assert!(text_of(&refused).contains("the risk class `destructive_actions` is blocked"), "{refused}");
        assert!(client.call("beta_pid", &json!({})).await["isError"] != true);
    }
}

#[tokio::test]
async fn a_risk_class_counts_without_any_file_of_policies() {
    // Each row of Valinor's governance, at each door.
    let rows = [
        ("image", "destructive_actions", "`destructive_actions` is blocked"),
        ("mixed", "sensitive_data_access", "`sensitive_data_access` is blocked"),
        ("fail", "cross_scope_memory_access", "`cross_scope_memory_access` is blocked"),
        ("counter", "external_writes", "approve"),
        ("add", "credentialed_third_party_actions", "approve"),
        ("env", "daring", "its risk class is unknown"),
        ("echo", "channel_sends", ""),
    ];
    let labels: Vec<String> = rows.iter().map(|(tool, risk, _)| format!("{tool}: {{risk: {risk}}}")).collect();
    let labelled = format!("tool_labels: {{{}}}\n", labels.join(", "));
    let house = TestGateway::settled(&[server_with("alpha", &[], &labelled), direct()]).await;
    let client = house.modern("default");
    for (tool, _, expect) in rows {
        let arguments = json!({"name": "HOME", "text": "x", "a": 1, "b": 2});
        let (id, exposed) = (format!("alpha/{tool}"), format!("alpha_{tool}"));
        let by_meta = json!({"name": id, "arguments": arguments});
        let by_rest = client.operate("core_tool_call", &by_meta).await;
        let by_rest = by_rest.as_ref().err().map(|refused| refused.message.clone());
        assert_eq!(by_rest.as_ref().is_some_and(|it| it.contains(expect)), !expect.is_empty(), "{tool}: {by_rest:?}");
        let mut answers = Vec::new();
        for client in house.both("default") {
            answers.push(client.call("call_tool", &by_meta).await);
            answers.push(client.call(&exposed, &arguments).await);
        }
        for answer in answers {
            let is_refused = answer["isError"] == true && text_of(&answer).contains(expect);
            assert_eq!(is_refused, !expect.is_empty(), "{tool}: {answer}");
        }
    }
    assert!(client.call("alpha_pid", &json!({})).await["isError"] != true);
    house.apply(&[server("alpha", &[])]).await;
    assert!(client.call("alpha_image", &json!({})).await["isError"] != true, "without classes nothing is decided");
}

#[tokio::test]
async fn a_tool_whose_definition_changed_is_another_one_for_policies() {
    let house = TestGateway::settled(&[server("alpha", &[]), direct()]).await;
    let admin = house.modern("default").admin();
    let entry = house.server("alpha").inventory().tools.iter().find(|tool| tool.key == "pid").cloned().unwrap();
    let digest = toolcrib_view::view::digest(&entry).to_string();
    let pinned = |digest: &str| {
        format!(
            r#"forbid (principal, action == Action::"call", resource == Tool::"alpha/pid") unless {{ resource has digest && resource.digest == "{digest}" }};"#
        )
    };
    house.apply(&[policy(&pinned(&digest))]).await;
    assert!(house.modern("default").call("alpha_pid", &json!({})).await["isError"] != true);
    let explained = answer(&admin, "core_policy_explain", json!({"as": "user:acme/ann", "tool": "alpha/pid"})).await;
    assert_eq!(explained["decision"], "permit", "{explained}");
    house.apply(&[policy(&pinned(&digest.replace(|it: char| it.is_ascii_digit(), "0")))]).await;
    for client in house.both("default") {
        assert!(!client.listed().await.contains(&"alpha_pid".to_owned()));
        assert!(client.refused("alpha_pid", &json!({})).await.message.contains("not found"));
    }
}
