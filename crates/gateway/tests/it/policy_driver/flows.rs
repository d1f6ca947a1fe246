//! Workflows, their steps and their runs.

use serde_json::{Value, json};
use toolcrib_base::Role;
use toolcrib_call::Invocation;
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, text_of};

use super::outcome;
use super::world::{Flow, Oracle, Step, WORKFLOWS};

/// One is there if it is not hidden itself and nothing that it uses is; it runs as far as its steps may.
pub(super) async fn check(oracle: &Oracle<'_>, client: &Client, world: &str) {
    for flow in &WORKFLOWS {
        let about = format!("{world}\nworkflow {}", flow.name);
        let own = oracle.decide(client, &oracle.flow(flow), &json!({}), Door::MCP);
        let steps: Vec<&str> = flow.steps.iter().map(|it| decided(oracle, client, it, Door::MCP)).collect();
        let about = format!("{about}: {own} {steps:?}");
        let is_shown = own != "hidden" && !steps.contains(&"hidden");
        let exposed = format!("workflow_{}", flow.name);
        assert_eq!(client.listed().await.contains(&exposed), is_shown, "{about}: listed");
        let found = client.found(&json!({"query": flow.name, "limit": 100})).await;
        assert_eq!(found.contains(&format!("workflow/{}", flow.name)), is_shown, "{about}: {found:?}");
        let operates = |tool: &str| oracle.operates(client, tool, Door::MCP);
        if client.caller.principal.role < Role::Admin && operates("core_workflow_list") {
            let all = operated(client, "core_workflow_list", &json!({})).await;
            assert_eq!(all.1.contains(&format!("\"{}\"", flow.name)), is_shown, "{about}: {all:?}");
        }
        if client.caller.principal.role < Role::Admin && operates("core_workflow_available") {
            let one = operated(client, "core_workflow_available", &json!({"name": flow.name})).await;
            assert_eq!(one.0, is_shown, "{about}: {one:?}");
        }
        check_run(oracle, client, flow, &about).await;
    }
}

fn decided(oracle: &Oracle<'_>, client: &Client, step: &Step, door: Door) -> &'static str {
    let arguments: Value = serde_json::from_str(step.arguments).unwrap();
    oracle.decide(client, &oracle.tool(step.tool), &arguments, door)
}

async fn check_run(oracle: &Oracle<'_>, client: &Client, flow: &Flow, about: &str) {
    let own = oracle.decide(client, &oracle.flow(flow), &json!({}), Door::MCP);
    let steps: Vec<&str> = flow.steps.iter().map(|it| decided(oracle, client, it, Door::MCP)).collect();
    let is_shown = own != "hidden" && !steps.contains(&"hidden");
    let params = json!({"name": format!("workflow_{}", flow.name), "arguments": {}});
    let before = runs(oracle, client).await;
    let ran = outcome(client, "tools/call", &params).await;
    // A step comes by a door of its own.
    let may = |it: &Step| decided(oracle, client, it, Invocation::DOOR) == "permit";
    let is_done = is_shown && own == "permit" && flow.steps.iter().all(may);
    assert_eq!(ran.0 == "ok", is_done, "{about}: {ran:?}");
    assert!(is_shown || ran.1.contains("not found"), "{about}: {ran:?}");
    // What was let through has a run, of which no one else knows.
    let is_run = is_shown && own == "permit";
    let (Some((before, _)), Some((after, id))) = (before, runs(oracle, client).await) else { return };
    assert_eq!(after, before + u64::from(is_run), "{about}: {ran:?}");
    let Some(id) = id.filter(|_| is_run) else { return };
    if !oracle.operates(client, "core_workflow_execution_get", Door::MCP) {
        return;
    }
    let asked = async |client: &Client, id: &str| {
        let got = client.call("core_workflow_execution_get", &json!({"execution_id": id})).await;
        (got["isError"] != true, text_of(&got).replace(id, "…"))
    };
    assert!(asked(client, &id).await.0, "{about}: {id}");
    let other = oracle.house.modern_of("user:acme/eve", client.caller.profile.as_str());
    let got = asked(&other, &id).await;
    let (begin, end) = id.split_at(id.len() - 1);
    let unknown = asked(&other, &format!("{begin}{}", if end == "0" { "1" } else { "0" })).await;
    assert!(!got.0 && got == unknown, "{about}: {got:?} {unknown:?}");
}

/// How many runs a client is shown, and the newest, where it may list them.
async fn runs(oracle: &Oracle<'_>, client: &Client) -> Option<(u64, Option<String>)> {
    let listed = client.call("core_workflow_execution_list", &json!({"limit": 1})).await;
    let operates = oracle.operates(client, "core_workflow_execution_list", Door::MCP);
    assert_eq!(listed["isError"] != true, operates, "{listed}");
    let listed: Value = serde_json::from_str(&text_of(&listed)).ok().filter(|_| operates)?;
    Some((listed["total"].as_u64().unwrap(), listed["executions"][0]["execution_id"].as_str().map(str::to_owned)))
}

/// Whether an operation was done, and what it answered.
async fn operated(client: &Client, tool: &str, arguments: &Value) -> (bool, String) {
    let got = client.call(tool, arguments).await;
    (got["isError"] != true, text_of(&got))
}
