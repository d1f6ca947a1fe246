//! What a run may do: what its agent's profile and its caller's own both let it, and a yes that the caller needs.

use serde_json::json;
use toolcrib_testgateway::{Client, File, profile, server, strings};
use toolcrib_testkit::eventually_finds;

use super::{Mill, caller, ended, entries, model, results, run, until, whole};

/// The agent's tools are those of `desk`, and its caller comes in `default`.
fn files(default: &str, calls: &[(&str, serde_json::Value)], more: &serde_json::Value) -> Vec<File> {
    let mut files = vec![
        server("fake", &[]),
        profile("desk", "exposure: direct\n"),
        profile("default", &format!("exposure: direct\n{default}")),
    ];
    let mut agent = json!({"profile": "desk"});
    agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    files.extend(caller("clerk", calls, &agent));
    files
}

/// Who approves: it is not who calls.
fn olga(mill: &Mill) -> Client {
    mill.house.modern_of("user:acme/olga", "default").admin()
}

#[tokio::test]
async fn a_run_has_what_both_profiles_have() {
    let calls = [("fake_echo", json!({"text": "hello"})), ("fake_counter", json!({}))];
    let mill = whole(&[&files("tools: {allow: [fake/echo, fake/add, agent/*]}\n", &calls, &json!({}))]).await;
    let client = mill.house.modern("default");
    let done = ended(&client, "clerk").await;
    let started = &entries(&client, &done, "started").await[0];
    assert_eq!(started["tools"], json!(["fake_add", "fake_echo", "read_result"]), "{started}");
    let told = results(&client, &done).await.concat();
    assert!(told.contains("hello") && told.contains("there is no `fake_counter`"), "{told}");
    assert_eq!(done["principal"], "local");
}

#[tokio::test]
async fn a_search_finds_and_describes_only_what_the_run_may_use() {
    let calls = [
        ("find_tools", json!({"query": "count"})),
        ("find_tools", json!({"query": "add two numbers"})),
        ("find_tools", json!({"limit": 100})),
        ("describe_tool", json!({"name": "fake_counter"})),
        ("describe_tool", json!({"name": "fake_add"})),
        ("call_tool", json!({"name": "fake_add", "arguments": {"a": 2, "b": 3}})),
    ];
    let menu = json!({"tools_shown": "menu", "tools": ["fake/add", "fake/echo"]});
    let mill = whole(&[&files("", &calls, &menu)]).await;
    let client = mill.house.modern("default");
    let done = ended(&client, "clerk").await;
    let results: Vec<String> =
        entries(&client, &done, "result").await.iter().map(|it| it["text"].to_string()).collect();
    assert!(results[0].contains("No tool matches") || results[0].contains("nothing fits"), "{}", results[0]);
    assert!(results.iter().all(|text| !text.contains("fake/counter") && !text.contains("clerk")), "{results:#?}");
    assert!(results[1].contains("fake/add") && results[2].contains("2 tools:"), "{results:#?}");
    let refused = entries(&client, &done, "decided").await;
    assert!(refused[3]["why"].as_str().unwrap().contains("fake_counter"), "{refused:#?}");
    assert_eq!(results.len(), 5, "{results:#?}");
    // The same search by the client itself finds it.
    let found =
        client.ask("tools/call", &json!({"name": "find_tools", "arguments": {"query": "count"}})).await.unwrap();
    assert!(strings(&found["structuredContent"]["tools"], "id").contains(&"fake/counter".to_owned()), "{found}");
}

#[tokio::test]
async fn a_call_by_the_menu_has_the_effects_of_its_tool() {
    let turns = json!([
        {"calls": [
            {"name": "call_tool", "arguments": {"name": "fake_echo", "arguments": {"text": "one"}}},
            {"name": "call_tool", "arguments": {"name": "fake_counter", "arguments": {}}},
        ]},
        {"say": "Done."},
    ]);
    let mut files = files("", &[], &json!({"tools_shown": "menu"}));
    files.retain(|(name, _)| name != "models/clerk.yaml");
    files.push(model("clerk", &turns));
    let mill = whole(&[&files]).await;
    let client = mill.house.modern("default");
    let done = ended(&client, "clerk").await;
    let journal = client.operate("core_run_export", &json!({"run": done["run"]})).await.unwrap();
    let decided: Vec<String> = journal["journal"]
        .as_array()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .filter(|line| line.contains("allowed_as"))
        .collect();
    assert_eq!(decided.len(), 2, "{journal}");
    let reads = |line: &String| line.contains("\"read_only\":true");
    assert!(!decided.iter().all(reads), "a counter changes something: {decided:?}");
}

#[tokio::test]
async fn a_yes_that_the_caller_needs_in_its_own_profile_is_waited_for() {
    let calls = [("fake_counter", json!({}))];
    let mill = whole(&[&files("tools: {approve: [fake/counter]}\n", &calls, &json!({}))]).await;
    let client = mill.house.modern("default");
    let started = run(&client, "clerk").await;
    let id = started["run"].as_str().unwrap();
    let waits = until(&client, id, "waiting").await;
    let approval = waits["waits"][0]["what"].as_str().unwrap().to_owned();
    assert_eq!(waits["waits"][0]["for"], "approval", "{waits}");
    let shown = olga(&mill).operate("core_approval_show", &json!({"id": approval})).await.unwrap();
    assert_eq!((&shown["profile"], &shown["tool"]), (&json!("default"), &json!("fake/counter")), "{shown}");
    olga(&mill).operate("core_approval_approve", &json!({"id": approval})).await.unwrap();
    let done = until(&client, id, "ended").await;
    assert_eq!(done["end"], "done", "{done}");
    assert_eq!(results(&client, &done).await, ["1"]);
    let audited = mill.house.audited().await;
    let made: Vec<_> = audited.iter().filter(|it| it.target == "fake/counter" && it.outcome == "ok").collect();
    assert_eq!((made.len(), made[0].profile.as_deref()), (1, Some("desk")), "made once, in the agent's profile");
}

#[tokio::test]
async fn a_no_in_the_caller_s_profile_is_told_and_a_yes_in_the_agent_s_is_another_one() {
    let calls = [("fake_counter", json!({}))];
    let both = "tools: {approve: [fake/counter]}\n";
    let mut of_both = files(both, &calls, &json!({}));
    of_both.push(profile("desk", &format!("exposure: direct\n{both}")));
    let mill = whole(&[&of_both]).await;
    let (client, admin) = (mill.house.modern("default"), olga(&mill));
    let waiting_for = async |id: &str, known: &str| {
        eventually_finds("the approval", async || {
            let shown = client.operate("core_run_get", &json!({"run": id})).await.unwrap();
            let what = shown["waits"][0]["what"].as_str().map(str::to_owned);
            what.filter(|what| what != known).ok_or(shown)
        })
        .await
    };
    let denied = run(&client, "clerk").await["run"].as_str().unwrap().to_owned();
    let approval = waiting_for(&denied, "").await;
    admin.operate("core_approval_deny", &json!({"id": approval, "reason": "too dear"})).await.unwrap();
    let shown = until(&client, &denied, "ended").await;
    assert_eq!(shown["end"], "done", "{shown}");
    let told = entries(&client, &shown, "approval").await;
    assert!(told[0]["note"].as_str().unwrap().contains("too dear"), "{told:?}");

    let id = run(&client, "clerk").await["run"].as_str().unwrap().to_owned();
    let own = waiting_for(&id, "").await;
    admin.operate("core_approval_approve", &json!({"id": own})).await.unwrap();
    let of_agent = waiting_for(&id, &own).await;
    let shown = admin.operate("core_approval_show", &json!({"id": of_agent})).await.unwrap();
    assert_eq!(shown["profile"], "desk", "{shown}");
    admin.operate("core_approval_approve", &json!({"id": of_agent})).await.unwrap();
    let done = until(&client, &id, "ended").await;
    assert_eq!(results(&client, &done).await, ["1"], "{done}");
}
