//! Runners of agent runs: processes that are killed beside a server that counts.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::eventually_finds;
use toolcrib_testkit::launch::{GatewayProgram, Program, write};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::toolcrib::{run, toolcrib};

/// Calls of the run, each in an answer of its own; the third one waits until the test lets it go.
const CALLS: usize = 6;
const SETTINGS: &str = "[runners]\nlisten = [\"unix:state/runners.sock\"]\n";

/// A server with one tool that changes something. Each call is heard by the test, whatever becomes of the gateway.
fn post() -> ScriptedServer {
    ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let schema = json!({"type": "object", "properties": {"number": {"type": "integer"}}});
            say.result(&json!({"tools": [{"name": "send", "inputSchema": schema}]}).to_string());
        }
        "tools/call" => {
            if heard.value()["arguments"]["number"] == 3 {
                say.wait_for_release(1);
            }
            say.result(r#"{"content": [{"type": "text", "text": "sent"}]}"#);
        }
        _ => {}
    })
}

fn home(post: &ScriptedServer) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let turn = |number: usize| json!({"calls": [{"name": "post_send", "arguments": {"number": number}}]});
    let mut turns: Vec<Value> = (1..=CALLS).map(turn).collect();
    turns.push(json!({"say": "All is sent."}));
    let model = json!({"name": "scripted", "wire": "script", "script": {"turns": turns}});
    write(home.path(), "models/scripted.yaml", &model.to_string());
    let agent = "name: clerk\ninstructions: Send the letters.\nmodel: scripted\ntools_shown: all\n";
    write(home.path(), "agents/clerk.yaml", agent);
    let server = format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url());
    write(home.path(), "servers/post.yaml", &server);
    write(home.path(), "config.toml", SETTINGS);
    home
}

async fn gateway(home: &Path) -> GatewayProgram {
    toolcrib(home, &["serve"]).with_path().serve().await
}

/// A runner that takes runs.
async fn runner(home: &Path) -> Program {
    let socket = format!("unix:{}", home.join("state/runners.sock").display());
    let mut runner = toolcrib(home, &["runner", "--connect", &socket]).start();
    runner.logs("the gateway's runs are executed here").await;
    runner
}

/// The numbers of the calls that the server heard, sorted.
fn sent(post: &ScriptedServer) -> Vec<u64> {
    let calls = post.heard_of("tools/call");
    let mut numbers: Vec<u64> =
        calls.iter().map(|call| call.value()["arguments"]["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

async fn third_call(post: &ScriptedServer) {
    eventually_finds("the third call", async || {
        let sent = sent(post);
        if sent.len() == 3 { Ok(()) } else { Err(sent) }
    })
    .await;
}

/// Starts the run and gives its id.
async fn begun(home: &Path) -> String {
    let begun = run(home, &["run", "--agent", "clerk", "--detach", "Send six letters."], &[]).await;
    assert_eq!(begun.code, 0, "{}", begun.stderr);
    let id = begun.stdout.lines().find_map(|line| line.strip_prefix("Run "));
    id.unwrap_or_else(|| panic!("{}", begun.stdout)).trim().to_owned()
}

async fn ends(home: &Path, id: &str) -> String {
    let followed = run(home, &["run", "follow", id], &[]).await;
    assert!(followed.stdout.contains("All is sent."), "{}{}", followed.stdout, followed.stderr);
    followed.stderr
}

#[tokio::test]
async fn a_killed_runner_loses_nothing() {
    let post = post();
    let home = home(&post);
    let gateway = gateway(home.path()).await;
    let mut runner = runner(home.path()).await;
    let id = begun(home.path()).await;
    third_call(&post).await;
    runner.signal(Signal::KILL);
    runner.end().await;
    post.release();
    let told = ends(home.path(), &id).await;
    assert!(!told.contains("unknown"), "{told}");
    assert_eq!(sent(&post), [1, 2, 3, 4, 5, 6]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_killed_gateway_and_its_runner_make_no_write_twice() {
    let post = post();
    let home = home(&post);
    let mut first = gateway(home.path()).await;
    let mut old = runner(home.path()).await;
    let id = begun(home.path()).await;
    third_call(&post).await;
    first.program().signal(Signal::KILL);
    old.signal(Signal::KILL);
    first.program().end().await;
    old.end().await;
    post.release();
    let second = gateway(home.path()).await;
    let new = runner(home.path()).await;
    ends(home.path(), &id).await;
    // The third one happened, and its end is not known; it is not made again.
    assert_eq!(sent(&post), [1, 2, 3, 4, 5, 6]);
    drop(new);
    second.stop().await;
}

#[tokio::test]
async fn a_runner_that_cannot_be_one_says_why() {
    let home = tempfile::tempdir().unwrap();
    let refused = run(home.path(), &["runner", "--connect", "nowhere"], &[]).await;
    refused.fails(64, &["`nowhere` is no address of a runner", "`tcp:HOST:PORT`"]);
    let refused = run(home.path(), &["runner"], &[]).await;
    refused.fails(64, &["--connect <ADDRESS>"]);
    let refused = run(home.path(), &["runner", "--connect", "unix:x", "--listen", "unix:y"], &[]).await;
    refused.fails(64, &["--listen"]);
    let refused = run(home.path(), &["runner", "--connect", "unix:x"], &[]).await;
    refused.fails(2, &["there is no secret of runners in", "runner-secret", "runners.listen"]);
    let refused = run(home.path(), &["runner", "--connect", "unix:x", "--secret", "hunter2hunter2"], &[]).await;
    refused.fails(1, &["`--secret` takes a reference"]);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    let variable = [("SHORT", "hunter2")];
    let refused = run(home.path(), &["runner", "--connect", "unix:x", "--secret", "env:SHORT"], &variable).await;
    refused.fails(1, &["needs at least 32"]);
    let secret = [("SECRET", "0123456789abcdef0123456789abcdef")];
    let refused =
        run(home.path(), &["runner", "--connect", "tcp:localhost:1", "--secret", "env:SECRET"], &secret).await;
    refused.fails(1, &["TCP needs a certificate", "--cert"]);
}

#[tokio::test]
async fn a_runner_with_another_secret_ends_with_the_reason() {
    let post = post();
    let home = home(&post);
    let gateway = gateway(home.path()).await;
    let socket = format!("unix:{}", home.path().join("state/runners.sock").display());
    let secret = [("SECRET", "0123456789abcdef0123456789abcdef")];
    let refused = run(home.path(), &["runner", "--connect", &socket, "--secret", "env:SECRET"], &secret).await;
    refused.fails(2, &["does not prove that it knows the secret", "runners.secret"]);
    gateway.stop().await;
}
