//! Service classes, services, workflows and runs from the command line, against a real gateway.

use std::path::Path;

use serde_json::Value;

use crate::serving::{Serving, fake_server};
use crate::toolcrib::run;

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

async fn said(home: &Path, arguments: &[&str]) -> String {
    let ran = run(home, arguments, &[]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}: {}", ran.stdout);
    ran.stdout
}

async fn gateway() -> Serving {
    let definition = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    Serving::start(&[("try", &definition)]).await
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
    run(home, &["create", "service", "third"], &[]).await.fails(1, &["`third` has no class", "hint: "]);
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
