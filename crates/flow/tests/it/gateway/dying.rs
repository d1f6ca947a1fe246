//! Servers in the middle of a run: one that dies, and one that is told that no one waits any longer.

use serde_json::{Value, json};
use toolcrib_store::RunStepRecord;
use toolcrib_testkit::eventually_finds;

use super::{Mill, asked, failed, server, workflow};

const LONG: &str = "steps:
- {id: who, tool: fake/pid}
- {id: wait, tool: fake/slow, args: {ms: 60000}}
- {id: never, tool: other/echo, args: {text: never}}
onFailure: [{id: undo, tool: other/echo, args: {text: \"after {{ .vars.failed_step }}\"}}]
";

/// The steps of a run, once the one that waits has begun.
async fn waiting(mill: &Mill, id: &str) -> Vec<RunStepRecord> {
    eventually_finds("the second step of the run", async || {
        let steps = mill.store().runs().steps(id).unwrap();
        if steps.iter().any(|step| step.step == "wait") { Ok(steps) } else { Err(steps) }
    })
    .await
}

#[tokio::test]
async fn the_run_fails_with_the_server_s_name_and_nothing_is_left() {
    let mill = Mill::open(&[server("fake", &[]), server("other", &[]), workflow("long", LONG)]).await;
    let admin = mill.admin();
    let begun = asked(&admin, "workflow_long", &json!({"_detach": true})).await;
    let id = begun["execution_id"].as_str().unwrap();
    let steps = waiting(&mill, id).await;
    let pid: Value = serde_json::from_str(steps[0].result.as_deref().unwrap()).unwrap();
    let pid: i32 = pid.as_str().unwrap().parse().unwrap();
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();

    let ended = mill.until_ended(id).await;
    let error = ended.error.unwrap();
    assert_eq!(ended.status, "failed");
    assert!(error.contains("step `wait` failed") && error.contains("server `fake`"), "{error}");
    let steps = mill.store().runs().steps(id).unwrap();
    let shown: Vec<_> = steps.iter().map(|step| (step.step.as_str(), step.status.as_str())).collect();
    assert_eq!(shown, [("who", "completed"), ("wait", "failed"), ("undo", "completed")]);
    assert_eq!(steps[2].result.as_deref(), Some("\"after wait\""));
    assert!(steps.iter().all(|step| step.completed_at.is_some()), "{steps:?}");

    failed(&admin, "core_workflow_execution_cancel", &json!({"execution_id": id}), &["is not running"]).await;
    assert!(mill.store().runs().interrupted().unwrap().is_empty());
    assert!(rustix::process::test_kill_process(process).is_err(), "the process is reaped");
    let audited = mill.house.audited().await;
    let waits: Vec<_> = audited.iter().filter(|event| event.target == "fake/slow").collect();
    assert_eq!(waits.len(), 1, "the call is on record once: nobody repeats it");
    assert_ne!(waits[0].outcome, "ok");
}

#[tokio::test]
async fn a_step_whose_time_is_over_is_taken_back_at_its_server() {
    let text = "steps: [{id: s, tool: fake/slow, args: {ms: 60000}, timeout: 300ms}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("short", text)]).await;
    // Whatever the era of anyone who has called the workflow.
    for (told, client) in mill.house.both("default").into_iter().enumerate() {
        failed(&client, "workflow_short", &json!({}), &["step `s` failed", "timeout of 300ms"]).await;
        eventually_finds("one more cancellation at the server", async || {
            let heard = client.text("fake/cancelled", &json!({})).await;
            let count = serde_json::from_str::<Vec<Value>>(&heard).unwrap().len();
            if count > told { Ok(()) } else { Err(heard) }
        })
        .await;
    }
}
