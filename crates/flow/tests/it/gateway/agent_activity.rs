//! What the audit log has of runs, and the ledger of it: each thing that happens under its name, with on whose behalf, which
//! agent and which run, and never what was said.

use serde_json::{Value, json};
use toolcrib_store::Verification;
use toolcrib_testgateway::{File, profile, server, strings};

use super::{Mill, asked, failed};

const SCRIPT: &str = r#"
name: script
wire: script
script:
  turns:
    - calls: [{name: fake_echo, arguments: {text: secret-words}}, {name: fake_nowhere, arguments: {}}]
    - say: All secret-words are said.
"#;

fn files() -> Vec<File> {
    let fake = "\nlabels: {risk: channel_sends}\n";
    let (name, text) = server("fake", &[]);
    vec![
        (name, text + fake),
        profile("default", "exposure: direct\n"),
        ("models/script.yaml".to_owned(), SCRIPT.to_owned()),
        ("agents/clerk.yaml".to_owned(), "name: clerk\nmodel: script\n".to_owned()),
        ("agents/short.yaml".to_owned(), "name: short\nmodel: script\nlimits: {rounds: 1}\n".to_owned()),
    ]
}

fn ledger(answer: &Value) -> Vec<(String, String)> {
    let events = answer["events"].as_array().unwrap().iter().rev();
    let word = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    events.map(|event| (word(event, "action"), word(event, "status"))).collect()
}

#[tokio::test]
async fn what_a_run_does_is_in_the_one_audit_chain_under_its_names() {
    let mill = Mill::whole(&files()).await;
    let ann = mill.house.modern_of("ann", "default");
    let started = json!({"agent": "clerk", "task": "Say secret-words.", "wait": true});
    let run = asked(&ann, "core_run_start", &started).await;
    assert_eq!(run["end"], "done", "{run}");
    let id = run["run"].as_str().unwrap();
    let audited = mill.house.audited().await;
    let of_run: Vec<_> = audited.iter().filter(|it| it.target == "agent/clerk" && it.request_id == id).collect();
    let names: Vec<&str> = of_run.iter().map(|it| it.method.as_str()).collect();
    let expected = [
        "message.sent",
        "run.started",
        "model.called",
        "tool.blocked",
        "tool.executed",
        "model.called",
        "run.completed",
    ];
    assert_eq!(names, expected);
    for event in &of_run {
        assert_eq!((event.principal.as_str(), event.profile.as_deref()), ("ann", Some("default")), "{event:?}");
        assert!(!format!("{event:?}").contains("secret-words"), "what was said is in no event: {event:?}");
    }
    let call = audited.iter().find(|it| it.target == "fake/echo" && it.request_id.contains(id));
    assert!(call.is_some(), "the call itself, by the path of every call, names the run");
    let verified = mill.house.gateway.store().audit().verify(None).unwrap();
    assert!(matches!(verified, Verification::Intact(_)), "{verified:?}");
}

#[tokio::test]
async fn the_ledger_is_filtered_paged_and_everyones_own() {
    let mill = Mill::whole(&files()).await;
    let (ann, bob, admin) =
        (mill.house.modern_of("ann", "default"), mill.house.modern_of("bob", "default"), mill.admin());
    let first = asked(&ann, "core_run_start", &json!({"agent": "clerk", "task": "Go.", "wait": true})).await;
    let second = asked(&bob, "core_run_start", &json!({"agent": "short", "task": "Go.", "wait": true})).await;
    assert_eq!((&first["end"], &second["end"]), (&json!("done"), &json!("limit of rounds")));
    let all = asked(&admin, "core_activity_list", &json!({})).await;
    assert_eq!((all["count"].as_u64(), all["has_more"].as_bool()), (Some(13), Some(false)), "{all}");
    let of = async |filter: Value| ledger(&asked(&admin, "core_activity_list", &filter).await);
    let pair = |action: &str, status: &str| (action.to_owned(), status.to_owned());
    for (filter, expected) in [
        (json!({"run": second["run"], "kind": "run.failed"}), vec![pair("run.failed", "failed")]),
        (json!({"agent": "sho*", "status": "failed"}), vec![pair("run.failed", "failed")]),
        (json!({"agent": "clerk", "tool": "fake/*"}), vec![pair("tool.executed", "completed")]),
        (json!({"connector": "fake", "principal": "bob"}), vec![pair("tool.executed", "completed")]),
        (json!({"risk_class": "channel_sends", "agent": "clerk"}), vec![pair("tool.executed", "completed")]),
        (json!({"risk_class": "external_writes"}), vec![]),
        (json!({"status": "blocked", "agent": "clerk"}), vec![pair("tool.blocked", "blocked")]),
        (json!({"action": "message.sent", "principal": "ann"}), vec![pair("message.sent", "sent")]),
        (json!({"action": "tools/call"}), vec![]),
        (json!({"until": "2001-01-01"}), vec![]),
        (json!({"agent": "unknown"}), vec![]),
    ] {
        assert_eq!(of(filter.clone()).await, expected, "{filter}");
    }
    // Pages meet without a gap and without a repetition.
    let (mut seen, mut before) = (Vec::new(), Value::Null);
    loop {
        let page = asked(&admin, "core_activity_list", &json!({"limit": 5, "before": before})).await;
        seen.extend(page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        if page["has_more"] == false {
            break;
        }
        before = page["next_before"].clone();
    }
    assert!(seen.len() == 13 && seen.windows(2).all(|pair| pair[0] > pair[1]), "{seen:?}");
    // Everyone else sees what was done on their behalf, whatever they ask for.
    let own = asked(&bob, "core_activity_list", &json!({"principal": "ann"})).await;
    assert!(strings(&own["events"], "principal").iter().all(|it| it == "bob"), "{own}");
    assert_eq!(own["count"], 6, "{own}");
    let executed = asked(&admin, "core_activity_list", &json!({"action": "tool.executed", "agent": "clerk"})).await;
    let event = &executed["events"][0];
    assert_eq!(
        (&event["tool"], &event["call"], &event["connector"]),
        (&json!("fake/echo"), &json!("1.1"), &json!("fake"))
    );
    failed(&admin, "core_activity_list", &json!({"since": "soon"}), &["`since` must be a time"]).await;
    failed(&admin, "core_activity_list", &json!({"limit": 201}), &["limit"]).await;
    failed(&admin, "core_activity_list", &json!({"status": "fine"}), &["status"]).await;
}
