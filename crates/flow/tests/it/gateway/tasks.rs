//! Workflows as tasks of modern clients.

use serde_json::{Value, json};
use toolcrib_protocol::task::EXTENSION;
use toolcrib_store::RunQuery;
use toolcrib_testgateway::Client;
use toolcrib_testkit::eventually_finds;

use super::{ECHO, Mill, failed, server, text_of, workflow};

fn declared() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {} } },
    })
}

/// Calls a workflow as a client that knows tasks; the task.
async fn begin(client: &Client, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments, "_meta": declared() });
    let task = client.ask("tools/call", &params).await.unwrap();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    task["taskId"].clone()
}

async fn about(client: &Client, method: &str, id: &Value) -> Value {
    client.ask(method, &json!({ "taskId": id, "_meta": declared() })).await.unwrap()
}

/// Looks until the task is no longer at work.
async fn until_over(client: &Client, id: &Value) -> Value {
    eventually_finds("the end of a task", async || {
        let task = about(client, "tasks/get", id).await;
        if task["status"] == "working" { Err(task) } else { Ok(task) }
    })
    .await
}

#[tokio::test]
async fn a_modern_client_gets_a_task_and_looks_at_it_until_it_is_done() {
    let bad = "steps: [{id: f, tool: fake/fail, args: {message: out of luck}}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("say", ECHO), workflow("bad", bad)]).await;
    let client = mill.house.modern("default");
    let id = begin(&client, "workflow_say", json!({"message": "hello"})).await;
    let done = until_over(&client, &id).await;
    assert_eq!(done["status"], "completed", "{done}");
    let document: Value = serde_json::from_str(&text_of(&done["result"])).unwrap();
    assert_eq!((&document["status"], &document["steps"][0]["result"]), (&json!("completed"), &json!("hello")));
    let run = mill.until_ended(document["execution_id"].as_str().unwrap()).await;
    assert_eq!(run.status, "completed");

    // A run that fails is a result that says so: the call itself went well.
    let id = begin(&client, "workflow_bad", json!({})).await;
    let done = until_over(&client, &id).await;
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)), "{done}");
    assert!(text_of(&done["result"]).contains("out of luck"));

    // Who does not say that it knows tasks waits for the answer.
    let plain = client.call("workflow_say", &json!({"message": "now"})).await;
    assert_eq!(plain["resultType"], "complete");
    failed(&client, "workflow_say", &json!({}), &["required field `message` is missing"]).await;
}

#[tokio::test]
async fn a_task_that_is_cancelled_ends_its_run_and_the_call_under_way() {
    let slow = "steps: [{id: s, tool: fake/slow, args: {ms: 60000}}, {id: never, tool: fake/counter}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("slow", slow)]).await;
    let client = mill.house.modern("default");
    let id = begin(&client, "workflow_slow", json!({})).await;
    let run = eventually_finds("a run at work", async || {
        let (runs, _) = mill.store().runs().list(&RunQuery { limit: 1, ..RunQuery::default() }).unwrap();
        let at_work = runs.first().filter(|run| !mill.store().runs().steps(&run.id).unwrap().is_empty());
        at_work.cloned().ok_or(runs)
    })
    .await;
    assert_eq!(about(&client, "tasks/get", &id).await["status"], "working");
    about(&client, "tasks/cancel", &id).await;
    assert_eq!(about(&client, "tasks/get", &id).await["status"], "cancelled");
    let ended = mill.until_ended(&run.id).await;
    assert_eq!(ended.status, "failed");
    let steps = mill.store().runs().steps(&run.id).unwrap();
    assert_eq!(steps.iter().map(|step| step.step.as_str()).collect::<Vec<_>>(), ["s"]);
    eventually_finds("a cancellation at the server", async || {
        let heard = client.text("fake/cancelled", &json!({})).await;
        if heard == "[]" { Err(heard) } else { Ok(()) }
    })
    .await;
}
