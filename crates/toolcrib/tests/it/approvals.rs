//! Calls that wait for a yes, with the real program: by the command line, and over a SIGKILL at each state.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::eventually;
use toolcrib_testkit::launch::{Program, write};

use crate::serving::fake_server;
use crate::toolcrib::{CommandOutput, run, toolcrib};

const PROFILE: &str = "name: agents\nkeys:\n  - {name: bot, hash: 'HASH'}\ntools: {approve: ['try/*']}\n";
const KEY: &str = "tcb_approvals-test-key-0123456789abcdef";

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let server = format!("name: try\ncommand: {}\nstart: eager\n", json!(fake_server()));
    write(home.path(), "servers/try.yaml", &server);
    let hash = toolcrib_catalog::KeyHash::of(KEY).to_string();
    write(home.path(), "profiles/agents.yaml", &PROFILE.replace("HASH", &hash));
    write(home.path(), "config.toml", "approvals.wait = '100ms'\n");
    home
}

async fn serve(home: &Path) -> Program {
    let mut program = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"]).env("TOOLCRIB_LOG", "info").start();
    program.logs("ready servers=1").await;
    program
}

/// A call of the agent.
async fn call(home: &Path, tool: &str, argument: &str) -> CommandOutput {
    let arguments = ["call", "--profile", "agents", tool, argument];
    run(home, &arguments, &[("TOOLCRIB_TOKEN", KEY)]).await
}

async fn approvals(home: &Path) -> Vec<Value> {
    let listed = run(home, &["approval", "list", "-o", "json"], &[]).await;
    let value: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
    value["approvals"].as_array().unwrap().clone()
}

/// The id of the approval of a call that waits.
async fn asked(home: &Path, tool: &str, argument: &str) -> String {
    let waits = call(home, tool, argument).await;
    assert_eq!(waits.code, 3, "{waits:?}");
    let at = waits.stderr.find("apr_").unwrap_or_else(|| panic!("{waits:?}"));
    waits.stderr[at..].chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect()
}

async fn decide(home: &Path, word: &str, id: &str) {
    let decided = run(home, &["approval", word, id, "--reason", "as agreed"], &[]).await;
    assert!(decided.code == 0 && decided.stdout.contains(id), "{decided:?}");
}

async fn until(home: &Path, id: &str, state: &str) {
    let waiting = async { while !approvals(home).await.iter().any(|it| it["id"] == id && it["state"] == state) {} };
    eventually(&format!("`{id}` to be {state}"), waiting).await;
}

#[tokio::test]
async fn a_sigkill_at_any_state_loses_no_approval_and_repeats_no_call() {
    let home = home();
    let home = home.path();
    let mut gateway = serve(home).await;
    let open = asked(home, "try/echo", "text=open").await;
    let denied = asked(home, "try/echo", "text=denied").await;
    let done = asked(home, "try/echo", "text=done").await;
    let collected = asked(home, "try/echo", "text=collected").await;
    let running = asked(home, "try/slow", "ms=600000").await;
    decide(home, "deny", &denied).await;
    for id in [&done, &collected, &running] {
        decide(home, "approve", id).await;
    }
    for id in [&done, &collected] {
        until(home, id, "done").await;
    }
    until(home, &running, "running").await;
    call(home, "try/echo", "text=collected").await.prints("collected\n");
    gateway.signal(Signal::KILL);
    gateway.end().await;
    let mut gateway = serve(home).await;
    let states: Vec<(String, String)> = approvals(home)
        .await
        .iter()
        .map(|it| (it["id"].as_str().unwrap().to_owned(), it["state"].as_str().unwrap().to_owned()))
        .collect();
    let state = |id: &String| states.iter().find(|(known, _)| known == id).map(|(_, state)| state.as_str());
    assert_eq!(
        [&open, &denied, &done, &collected, &running].map(state),
        [Some("open"), Some("denied"), Some("done"), Some("done"), Some("unknown")]
    );
    let told = call(home, "try/echo", "text=denied").await;
    assert!(told.code != 0 && told.stderr.contains("denied by `admin`: as agreed"), "{told:?}");
    call(home, "try/echo", "text=done").await.prints("done\n");
    assert_ne!(asked(home, "try/echo", "text=collected").await, collected, "one yes is for one call");
    let cut_off = call(home, "try/slow", "ms=600000").await;
    assert!(cut_off.code != 0 && cut_off.stderr.contains("may have done its work"), "{cut_off:?}");
    let again = run(home, &["approval", "approve", &running], &[]).await;
    assert!(again.code != 0 && again.stderr.contains("the call is unknown"), "{again:?}");
    decide(home, "approve", &open).await;
    until(home, &open, "done").await;
    call(home, "try/echo", "text=open").await.prints("open\n");
    // What waits is encrypted with the key of the vault.
    let database = std::fs::read(home.join("state/toolcrib.db")).unwrap();
    let log = std::fs::read(home.join("state/toolcrib.db-wal")).unwrap_or_default();
    let holds = |part: &[u8]| [&database, &log].iter().any(|file| file.windows(part.len()).any(|it| it == part));
    assert!(!holds(b"600000") && !holds(b"text\":\"open"), "arguments are not readable in the database");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}
