//! The door over stdin and stdout, with the real binary and a server behind it.

use std::path::Path;

use serde_json::{Value, json};

use crate::toolcrib::run_with_stdin;

/// Says these lines to the gateway, then ends stdin; gives everything that it said.
async fn said(home: &Path, lines: &[String]) -> Vec<Value> {
    let folder = home.join("servers");
    std::fs::create_dir_all(&folder).unwrap();
    let program = toolcrib_testkit::fake_server();
    std::fs::write(folder.join("alpha.yaml"), format!("name: alpha\ncommand: {}\n", json!(program))).unwrap();
    let ran = run_with_stdin(home, &["stdio"], &[], &format!("{}\n", lines.join("\n"))).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn initialize(revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "capabilities": {"roots": {}}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

/// The answer to a request, wherever it stands: requests run side by side.
fn answer<'a>(said: &'a [Value], id: &Value) -> &'a Value {
    let found = said.iter().filter(|message| message["id"] == *id).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{id}: {said:?}");
    found[0]
}

#[tokio::test]
async fn both_eras_progress_and_bad_lines_on_one_pipe() {
    let home = tempfile::tempdir().unwrap();
    let call = json!({"name": "alpha_progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "t"}});
    let mut stateless = call.clone();
    stateless["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    stateless["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let lines = [
        initialize("2025-11-25"),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).to_string(),
        json!({"jsonrpc": "2.0", "id": "m", "method": "tools/call", "params": stateless}).to_string(),
        json!({"jsonrpc": "2.0", "id": "toolcrib-1", "result": {"roots": []}}).to_string(),
        "[]".into(),
        "nonsense".into(),
    ];
    let said = said(home.path(), &lines).await;
    assert_eq!(answer(&said, &json!(1))["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer(&said, &json!(2))["result"]["content"][0]["text"], "2 steps");
    assert_eq!(answer(&said, &json!("m"))["result"]["resultType"], "complete");
    let progress = said.iter().filter(|message| message["method"] == "notifications/progress");
    assert_eq!(progress.count(), 4);
    let errors: Vec<_> = said.iter().filter_map(|message| message["error"]["code"].as_i64()).collect();
    assert_eq!(errors, [-32_600, -32_700], "an answer to nothing is no error");
}

#[tokio::test]
async fn a_batch_is_one_line_each_way() {
    let home = tempfile::tempdir().unwrap();
    let batch = json!([
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "alpha_progress", "arguments": {"steps": 1}}},
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
    ]);
    let said = said(home.path(), &[initialize("2025-03-26"), batch.to_string()]).await;
    let answers = said.iter().find(|message| message.is_array()).unwrap();
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(2), &json!(3)));
    assert_eq!(answers[0]["result"]["content"][0]["text"], "1 steps");
}
