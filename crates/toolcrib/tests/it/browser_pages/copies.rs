//! What a page gives to copy does what its button does: as a command, with curl, and as a message of MCP.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Browser, Pages, gateway};
use crate::toolcrib::{Talk, run};

/// What is hard to say in a shell, in JSON or in a URL, and what no one sees.
const REASON: &str = "it's \"here\" & <there> $HOME `id` 100 % \u{200b}zwölf\\";

/// An operation that another one undoes.
struct ReversibleOperation {
    tool: &'static str,
    arguments: Value,
    /// Whether what it writes is shown first.
    is_shown_first: bool,
    /// What is read, and the part of it that is compared.
    read: (&'static str, Value, &'static str),
    undo: (&'static str, Value),
}

fn operations() -> Vec<ReversibleOperation> {
    let definition = json!({ "command": "./it's here", "start": "lazy", "description": REASON });
    vec![
        ReversibleOperation {
            tool: "core_halt_add",
            arguments: json!({ "kind": "run", "subject": "r 1/2", "reason": REASON }),
            is_shown_first: false,
            read: ("core_halt_list", json!({}), "/halts/0/reason"),
            undo: ("core_halt_lift", json!({ "id": "/halts/0/id" })),
        },
        ReversibleOperation {
            tool: "core_mcpserver_create",
            arguments: json!({ "name": "extra", "definition": definition }),
            is_shown_first: true,
            read: ("core_mcpserver_get", json!({ "name": "extra" }), "/definition"),
            undo: ("core_mcpserver_delete", json!({ "name": "extra" })),
        },
    ]
}

#[tokio::test]
async fn what_is_copied_does_what_its_button_does() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            for operation in operations() {
                let arguments = query(&operation.arguments);
                let path = format!("/ui/operations/{}?{arguments}&return=/ui/operations", operation.tool);
                pages.go(&path).await;
                let copied = copied(&pages).await;
                let form = format!("form[action='/ui/do/{}']", operation.tool);
                pages.click(&format!("{form} button.primary, {form} button.danger")).await;
                if operation.is_shown_first {
                    pages.reads("What would change").await;
                    pages.click("section form button").await;
                }
                pages.reads("Done.").await;
                let by_button = undone(&home, &operation).await;
                assert!(by_button.to_string().contains("zwölf"), "{by_button}");
                for (way, text) in ["command", "curl", "mcp"].into_iter().zip(&copied) {
                    match way {
                        "mcp" => send(&home, text).await,
                        _ => shell(&home, text).await,
                    }
                    assert_eq!(undone(&home, &operation).await, by_button, "{}: {way}: {text}", operation.tool);
                }
            }
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

/// Arguments as the query of the operation's page.
fn query(arguments: &Value) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in arguments.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        query.append_pair(name, &text);
    }
    query.finish()
}

/// The texts that the page's buttons copy.
async fn copied(pages: &Pages) -> Vec<String> {
    pages.until("#copy-mcp").await;
    let texts = "return ['copy-command', 'copy-curl', 'copy-mcp'].map((id) => document.getElementById(id).textContent)";
    serde_json::from_value(pages.eval(texts).await).unwrap()
}

/// What an operation answers.
async fn answer(home: &Path, tool: &str, arguments: &Value) -> Value {
    let done = run(home, &["api", tool, "--json", &arguments.to_string()], &[]).await;
    assert_eq!(done.code, 0, "{tool} {arguments}: {}", done.stderr);
    serde_json::from_str(&done.stdout).unwrap_or_default()
}

/// What was done, and then it is undone.
async fn undone(home: &Path, operation: &ReversibleOperation) -> Value {
    let (tool, arguments, part) = &operation.read;
    let seen = answer(home, tool, arguments).await;
    let done = seen.pointer(part).unwrap_or_else(|| panic!("{part} in {seen}")).clone();
    let mut arguments = operation.undo.1.clone();
    for value in arguments.as_object_mut().unwrap().values_mut() {
        if let Some(found) = value.as_str().and_then(|part| seen.pointer(part)) {
            *value = found.clone();
        }
    }
    answer(home, operation.undo.0, &arguments).await;
    done
}

/// Runs a line as a person does who pastes it into a shell, in the home folder.
async fn shell(home: &Path, line: &str) {
    let programs = Path::new(env!("CARGO_BIN_EXE_toolcrib")).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).current_dir(home).env("TOOLCRIB_HOME", home).env("PATH", path).stdin(Stdio::null());
    let done = command.output().await.unwrap();
    let (output, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && !output.contains("\"error\""), "{line}: {output} {errors}");
}

/// Sends a message as a client of the gateway.
async fn send(home: &Path, message: &str) {
    let mut talk = Talk::start(home, &["bridge"]);
    let client =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client });
    talk.ask(&hello.to_string()).await;
    let message: Value = serde_json::from_str(message).unwrap();
    let answer = talk.ask(&message.to_string()).await;
    assert!(answer["error"].is_null() && answer["result"]["isError"] != true, "{message}: {answer}");
}
