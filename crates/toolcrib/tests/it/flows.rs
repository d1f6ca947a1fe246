//! Service classes, services, workflows and runs from the command line, against a real gateway.

use std::path::Path;

use serde_json::Value;

use crate::serving::{GatewayFixture, fake_server};
use crate::toolcrib::{run, run_with_stdin};

const CLASS_AND_SERVICE: &str = "\
kind: serviceclass
name: echoes
args:
  text: {type: string, required: true}
serviceConfig:
  serviceType: echo
  lifecycleTools:
    start: {tool: try/echo, args: {text: 'start {{ .text }}'}}
    stop: {tool: try/echo, args: {text: stop}}
---
kind: service
name: first
serviceClassName: echoes
args: {text: one}
";

const WORKFLOW: &str = "\
apiVersion: muster.giantswarm.io/v1alpha1
kind: Workflow
metadata: {name: say}
spec:
  description: Says something
  args:
    id: {type: string, required: true}
    dry_run: {type: boolean, default: false}
    count: {type: integer, default: 1}
  steps:
  - id: say
    tool: try/echo
    args: {text: 'it is {{ .input.id }}'}
    store: true
  - id: fail
    tool: try/fail
    args: {message: out of paper}
    condition: {template: '{{ eq .input.count 2 }}'}
";

async fn said(home: &Path, arguments: &[&str]) -> String {
    let ran = run(home, arguments, &[]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}: {}", ran.stdout);
    ran.stdout
}

async fn gateway() -> GatewayFixture {
    let definition = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    GatewayFixture::start(&[("try", &definition)]).await
}

#[tokio::test]
async fn a_services_life_by_verbs() {
    let serving = gateway().await;
    let home = serving.home();
    std::fs::write(home.join("all.yaml"), CLASS_AND_SERVICE).unwrap();
    let file = home.join("all.yaml");
    assert_eq!(
        said(home, &["create", "-f", file.to_str().unwrap()]).await,
        "Successfully created serviceclass 'echoes'\nSuccessfully created service 'first' (running)\n"
    );
    assert_eq!(said(home, &["check", "serviceclass", "echoes"]).await, "✅ serviceclass 'echoes' is available\n");
    // A text stays a text, and flags of the gateway are none of the service's arguments.
    said(home, &["create", "service", "second", "echoes", "--text", "007", "--timeout", "30s"]).await;
    let got: Value = serde_json::from_str(&said(home, &["get", "service", "second", "-o", "json"]).await).unwrap();
    assert_eq!(got["args"].to_string(), r#"{"text":"007"}"#);
    run(home, &["create", "service", "third", "echoes"], &[]).await.fails(1, &["missing required argument", "text"]);
    run(home, &["create", "service", "third"], &[])
        .await
        .fails(1, &["no service class given for the service `third`", "hint: "]);
    run(home, &["create", "service", "third", "none"], &[]).await.fails(1, &["`none` not found"]);
    assert_eq!(said(home, &["stop", "service", "first"]).await, "Successfully stopped service 'first'\n");
    run(home, &["check", "service", "first"], &[]).await.fails(1, &["❌ service 'first' is not available (stopped"]);
    assert!(said(home, &["start", "service", "first", "second"]).await.contains("'second' is already running"));
    assert_eq!(said(home, &["restart", "service", "first"]).await, "Successfully restarted service 'first'\n");
    assert!(said(home, &["status", "service", "first"]).await.contains("state                       running"));
    let listed = said(home, &["list", "services", "-o", "wide", "--filter", "first"]).await;
    assert!(listed.starts_with("NAME    HEALTH    STATE     SERVICE_TYPE   CLASS"), "{listed}");
    assert!(listed.contains("first   healthy   running   echo           echoes"), "{listed}");
    assert!(
        said(home, &["delete", "service", "first", "second"]).await.starts_with("Successfully deleted service 'first'")
    );
    run(home, &["get", "service", "first"], &[]).await.fails(1, &["not found"]);
    run(home, &["delete", "service", "try"], &[]).await.fails(1, &["try"]);
    serving.stop().await;
}

#[tokio::test]
async fn workflows_run_with_the_types_that_they_want() {
    let serving = gateway().await;
    let home = serving.home();
    std::fs::write(home.join("w.yaml"), WORKFLOW).unwrap();
    let file = home.join("w.yaml");
    said(home, &["create", "-f", file.to_str().unwrap()]).await;
    assert_eq!(said(home, &["check", "workflow", "say"]).await, "✅ workflow 'say' is available\n");
    let lame = "name: lame\nsteps: [{id: a, tool: nowhere/none}]\n";
    assert_eq!(run_with_stdin(home, &["create", "workflow", "-f", "-"], &[], lame).await.code, 0);
    run(home, &["check", "workflow", "lame"], &[]).await.fails(1, &["missing tools: nowhere/none"]);
    said(home, &["delete", "workflow", "lame"]).await;
    run_with_stdin(home, &["create", "-f", "-"], &[], "kind: [")
        .await
        .fails(1, &["error: nothing was created", "stdin:2:1: "]);
    let ran = said(home, &["start", "workflow", "say", "--id", "007", "--dry-run", "--timeout", "30s"]).await;
    for part in ["Workflow Execution Completed", "  id: 007\n", "  dry_run: true\n", "it is 007", "skipped"] {
        assert!(ran.contains(part), "no `{part}` in {ran}");
    }
    assert!(!ran.contains("timeout"), "a flag of the gateway is no input: {ran}");
    let ran = run(home, &["start", "workflow", "say", "--id", "x", "--endpoint", "http://127.0.0.1:1"], &[]).await;
    ran.fails(1, &["cannot reach the gateway"]);
    run(home, &["start", "wf", "say", "--id", "1", "--count", "many"], &[]).await.fails(1, &["`count`", "integer"]);
    run(home, &["start", "wf", "say"], &[]).await.fails(1, &["`id`"]);
    run(home, &["start", "wf", "say", "--id", "x", "--moon", "x"], &[]).await.fails(1, &["unknown argument `moon`"]);
    run(home, &["start", "workflow", "none"], &[]).await.fails(1, &["workflow `none` not found"]);
    let failed = run(home, &["start", "workflow", "say", "--id", "1", "--json", r#"{"count": 2}"#], &[]).await;
    failed.fails(1, &["workflow `say` failed", "out of paper", "toolcrib get workflow-execution "]);
    let id = said(home, &["start", "workflow", "say", "--id", "y", "--detach", "-o", "name"]).await;
    let run_of = said(home, &["get", id.trim()]).await;
    assert!(run_of.contains("workflow_name") && run_of.contains("say"), "{run_of}");
    let runs = said(home, &["list", "runs", "--no-headers"]).await;
    assert_eq!((runs.lines().count(), runs.contains("failed")), (3, true), "{runs}");
    let ran = run(home, &["list", "runs", "--limit", "2", "-o", "json"], &[]).await;
    let some: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((some["executions"].as_array().map(Vec::len), &some["total"]), (Some(2), &Value::from(3)), "{some}");
    assert_eq!(run(home, &["list", "runs", "--limit", "2"], &[]).await.stderr, "2 of 3 workflow executions\n");
    said(home, &["delete", "workflow", "say"]).await;
    assert_eq!(said(home, &["list", "workflows"]).await, "No workflows found\n");
    serving.stop().await;
}

#[tokio::test]
async fn a_workflow_is_told_of_by_its_name_its_doubts_and_its_answer() {
    let serving = gateway().await;
    let home = serving.home();
    let missing = run(home, &["start", "workflow", "greet"], &[]).await;
    missing.fails(1, &["workflow `greet` not found", "hint: see all with `toolcrib list workflows`"]);
    let greet = "steps:\n- {id: say, tool: try/echo, args: {text: '{{ .results.sey }}'}, allowFailure: true}\n\
                 output: {said: hello}\n";
    std::fs::write(home.join("greet.yaml"), greet).unwrap();
    let file = home.join("greet.yaml");
    let file = ["greet", "-f", file.to_str().unwrap()];
    for dry in [&["--dry-run"][..], &[]] {
        let arguments = [&["create", "workflow"][..], &file, dry].concat();
        let made = run(home, &arguments, &[]).await;
        assert_eq!((made.code, made.stderr.as_str()), (0, "warning: steps[0].args: no step named `sey`\n"));
    }
    let ran = said(home, &["start", "workflow", "greet"]).await;
    assert!(ran.starts_with("Workflow Execution Completed\n") && ran.contains("said: hello"), "{ran}");
}
