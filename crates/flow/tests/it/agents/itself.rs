//! Agents that run as themselves: their calls are a principal's of its own, in a profile of its own, on behalf of who has
//! called them; only administrators make such agents.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{Kind, PrincipalId, Role};
use toolcrib_call::{HaltCause, HaltSubject};
use toolcrib_testgateway::{Client, File, profile, server, text_of};

use super::{caller, ended, entries, results, run, until, whole};
use crate::gateway::Mill;

const ANN: &str = "user:acme/ann";
const AGENT: &str = "service:agent/keeper";

fn files(more: &[File]) -> Vec<File> {
    let mut files = vec![
        server("fake", &[]),
        profile("vault", "exposure: direct\ntools: {allow: [fake/*]}\n"),
        profile("default", "exposure: direct\ntools: {allow: [fake/echo, agent/*]}\n"),
    ];
    let keeper = json!({"profile": "vault", "runs_as": "agent"});
    files.extend(caller("keeper", &[("fake_counter", json!({}))], &keeper));
    files.extend_from_slice(more);
    files
}

fn policy(text: &str) -> File {
    ("policies/team.cedar".to_owned(), text.to_owned())
}

fn ann(mill: &Mill) -> Client {
    mill.house.modern_of(ANN, "default")
}

#[tokio::test]
async fn its_calls_are_its_own_and_its_run_the_caller_s() {
    let mill = whole(&[&files(&[])]).await;
    let client = ann(&mill);
    let done = ended(&client, "keeper").await;
    assert_eq!(results(&client, &done).await, ["1"], "the caller's profile does not have the tool: {done}");
    let expected = (&json!(ANN), &json!(AGENT), &json!("default"));
    assert_eq!((&done["principal"], &done["runs_as"], &done["profile"]), expected, "{done}");
    let listed = client.operate("core_run_list", &json!({})).await.unwrap();
    assert_eq!(listed["runs"][0]["runs_as"], AGENT, "{listed}");
    let started = &entries(&client, &done, "started").await[0];
    assert_eq!((&started["runs_as"], &started["profile"]), (&json!(AGENT), &json!("vault")));
    let agents = client.operate("core_agent_list", &json!({})).await.unwrap();
    assert_eq!(agents["agents"][0]["runs_as"], "agent", "{agents}");
    let audited = mill.house.audited().await;
    let call = audited.iter().find(|it| it.target == "fake/counter").expect("its call");
    assert_eq!((call.principal.as_str(), call.actor.as_deref()), (AGENT, Some(ANN)), "{call:?}");
    assert_eq!(call.profile.as_deref(), Some("vault"));
    // As a tool too.
    let called = client.call("agent_keeper", &json!({"task": "Count."})).await;
    assert_eq!(text_of(&called), "keeper is done.");
    // Another one does not see the run.
    let other = mill.house.modern_of("user:acme/bob", "default");
    let hidden = other.operate("core_run_get", &json!({"run": done["run"]})).await.unwrap_err();
    assert_eq!(hidden.kind, Kind::NotFound);
}

#[tokio::test]
async fn policies_see_the_agent_with_its_caller_as_actor() {
    let rules = r#"@id("not-for-ann") @reason("not for Ann")
forbid (principal == Service::"agent/keeper", action == Action::"call", resource == Tool::"fake/counter")
when { context.chain has actor && context.chain.actor == "user:acme/ann" };"#;
    let mill = whole(&[&files(&[policy(rules)])]).await;
    assert_eq!(mill.house.gateway.loaded().problems, []);
    let client = ann(&mill);
    let refused = ended(&client, "keeper").await;
    assert!(results(&client, &refused).await.concat().contains("not for Ann"), "{refused}");
    let bob = mill.house.modern_of("user:acme/bob", "default");
    let done = ended(&bob, "keeper").await;
    assert_eq!(results(&bob, &done).await, ["1"], "{done}");
}

#[tokio::test]
async fn who_may_not_call_the_agent_starts_no_run_of_it() {
    let rules = r#"@id("no-agents") @reason("Ann calls no agents")
forbid (principal == User::"acme/ann", action == Action::"call", resource == Tool::"agent/keeper")
when { context.door != "" };"#;
    let held = r#"@id("ask") @approve("ops") @reason("ask first")
forbid (principal == User::"acme/bob", action == Action::"call", resource == Tool::"agent/keeper");"#;
    let mill = whole(&[&files(&[policy(&format!("{rules}\n{held}"))])]).await;
    assert_eq!(mill.house.gateway.loaded().problems, []);
    let start = json!({"agent": "keeper", "task": "Count."});
    let refused = ann(&mill).operate("core_run_start", &start).await.unwrap_err();
    assert!(matches!(refused.kind, Kind::Forbidden | Kind::UnknownTool | Kind::NotFound), "{refused:?}");
    let bob = mill.house.modern_of("user:acme/bob", "default");
    let refused = bob.operate("core_run_start", &start).await.unwrap_err();
    assert!(refused.message.contains("needs a yes") && refused.hint.unwrap().contains("agent_keeper"));
    let runs = mill.admin().operate("core_run_list", &json!({})).await.unwrap();
    assert_eq!(runs["total"], 0, "{runs}");
}

#[tokio::test]
async fn only_administrators_make_or_change_one_and_it_needs_a_profile() {
    let mill = whole(&[&files(&[])]).await;
    let definition = json!({"name": "own", "model": "keeper", "profile": "vault", "runs_as": "agent"});
    for tool in ["core_agent_create", "core_agent_update"] {
        let refused = ann(&mill).operate(tool, &definition).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Forbidden, "{tool}: {refused:?}");
    }
    let admin = mill.admin();
    let without = json!({"name": "own", "model": "keeper", "runs_as": "agent"});
    let refused = admin.operate("core_agent_create", &without).await.unwrap_err();
    assert!(refused.message.contains("needs a profile of its own"), "{refused:?}");
    admin.operate("core_agent_create", &definition).await.unwrap();
}

#[tokio::test]
async fn a_run_that_waits_does_no_more_when_the_agent_or_its_caller_lost_the_right() {
    let ask = "exposure: direct\ntools: {allow: [fake/*], approve: [fake/counter]}\n";
    let mill = whole(&[&files(&[profile("vault", ask)])]).await;
    let (client, admin) = (ann(&mill), mill.admin());
    let waiting = async || {
        let id = run(&client, "keeper").await["run"].as_str().unwrap().to_owned();
        let waits = until(&client, &id, "waiting").await;
        (id, waits["waits"][0]["what"].as_str().unwrap().to_owned())
    };
    let (first, approval) = waiting().await;
    // Its own caller gives no yes, whatever it may approve elsewhere.
    let mut operator = ann(&mill);
    operator.caller.principal.role = Role::Operator;
    operator.operate("core_approval_approve", &json!({"id": approval})).await.unwrap_err();
    let shown = admin.operate("core_approval_show", &json!({"id": approval})).await.unwrap();
    assert!(shown.to_string().contains(AGENT) && shown.to_string().contains(ANN), "{shown}");
    admin.operate("core_approval_approve", &json!({"id": approval})).await.unwrap();
    let done = until(&client, &first, "ended").await;
    assert_eq!(results(&client, &done).await, ["1"], "{done}");

    let (second, approval) = waiting().await;
    let plain = caller("keeper", &[("fake_counter", json!({}))], &json!({"profile": "vault"}));
    mill.house.apply(&plain).await;
    admin.operate("core_approval_approve", &json!({"id": approval})).await.unwrap();
    let ended = until(&client, &second, "ended").await;
    let told = admin.operate("core_run_export", &json!({"run": ended["run"], "format": "markdown"})).await.unwrap();
    assert!(told["text"].as_str().unwrap().contains("does not run as itself"), "{told}");

    mill.house
        .apply(&caller("keeper", &[("fake_counter", json!({}))], &json!({"profile": "vault", "runs_as": "agent"})))
        .await;
    let (third, approval) = waiting().await;
    let (gateway, subject) = (Arc::clone(&mill.house.gateway), HaltSubject::new("principal", ANN).unwrap());
    let cause = HaltCause { reason: "a test".to_owned(), canary: None, by: PrincipalId::new("admin") };
    gateway.path.halts.add(subject, cause).unwrap();
    let _ = admin.operate("core_approval_approve", &json!({"id": approval})).await;
    let ended = until(&admin, &third, "ended").await;
    let told = admin.operate("core_run_export", &json!({"run": ended["run"], "format": "markdown"})).await.unwrap();
    assert!(told["text"].as_str().unwrap().contains("halt `"), "{told}");
    let audited = mill.house.audited().await;
    let made = audited.iter().filter(|it| it.target == "fake/counter" && it.outcome == "ok").count();
    assert_eq!(made, 1, "neither of the later ones was made");
}
