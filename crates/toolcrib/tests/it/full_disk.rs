//! A disk without room, stood in for by a limit on the size of files: what was there stays, and nothing half is left.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use thirtyfour::By;
use toolcrib_model::{Script, Wire};
use toolcrib_testkit::eventually;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::launch::{Launch, Program, write};

use crate::agent_runs::{json, post, sends, until};
use crate::browser_pages::Browser;
use crate::toolcrib::run;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A shell whose program is told that there is no room, instead of being ended for it.
fn shell(script: &str, home: &Path) -> Launch {
    let script = format!("trap '' XFSZ; {script}");
    let launch = Launch::new("/bin/sh", &["-c", &script, env!("CARGO_BIN_EXE_toolcrib")]);
    launch.home(&home.join("toolcrib")).env("HOME", home)
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The record is whole, and the gateway ends as it should.
async fn ends_whole(mut gateway: Program, home: &Path) {
    assert_eq!(run(home, &["audit", "verify"], &[]).await.code, 0);
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
}

#[tokio::test]
async fn a_definition_that_cannot_be_written_leaves_the_old_one_and_the_gateway_goes_on() {
    let person = tempfile::tempdir().unwrap();
    let home = person.path().join("toolcrib");
    let launch = shell("exec \"$0\" serve --listen 127.0.0.1:0", person.path()).env("TOOLCRIB_LOG", "info");
    let mut gateway = launch.start();
    gateway.logs("serving url=").await;
    let pid = gateway.pid();
    let create =
        |name: &str| format!("{{\"name\": \"{name}\", \"definition\": {{\"command\": \"x\", \"start\": \"manual\"}}}}");
    let api = async |operation: &str, json: &str| run(&home, &["api", operation, "--json", json], &[]).await;
    assert_eq!(api("mcpserver_create", &create("one")).await.code, 0);
    let file = home.join("servers/one.yaml");
    let before = fs::read(&file).unwrap();
    let shown: serde_json::Value =
        serde_json::from_str(&api("mcpserver_get", "{\"name\": \"one\"}").await.stdout).unwrap();
    let revision = shown["revision"].as_str().unwrap();
    let update = format!(
        "{{\"name\": \"one\", \"revision\": \"{revision}\", \"definition\": {{\"command\": \"other\", \"start\": \"manual\"}}}}"
    );

    let room = prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    let mut waiting = pin!(api("mcpserver_update", &update));
    // It finds no room for the file, or is not begun at all because what happened before could not be recorded.
    let ran = tokio::select! {
        biased;
        line = gateway.logs("cannot write the audit log") => {
            assert!(line.contains("calls wait"), "{line}");
            None
        }
        ran = &mut waiting => Some(ran),
    };
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(listed(&home.join("servers")), ["one.yaml"]);
    prlimit(Some(pid), Resource::Fsize, room).unwrap();
    let ran = match ran {
        Some(ran) => ran,
        None => waiting.await,
    };
    if ran.code != 0 {
        ran.fails(1, &["cannot write `servers/one.yaml`", "hint: Check the free space on the disk"]);
        assert_eq!(fs::read(&file).unwrap(), before);
        assert_eq!(api("mcpserver_update", &update).await.code, 0);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "name: one\ncommand: other\nstart: manual\n");
    ends_whole(gateway, &home).await;
}

#[tokio::test]
async fn a_command_that_cannot_write_leaves_every_file_as_it_was() {
    let person = tempfile::tempdir().unwrap();
    let home = person.path().join("toolcrib");
    let full = async |arguments: &str, stdin: &str| {
        let script = format!("ulimit -f 0; printf '%s' '{stdin}' | \"$0\" {arguments}");
        let output = shell(&script, person.path()).run("").await;
        (output.code, output.stderr)
    };
    let settings = person.path().join(".cursor/mcp.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let before = "{ // mine\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}}\n}\n";
    fs::write(&settings, before).unwrap();
    fs::create_dir_all(home.join("profiles")).unwrap();
    fs::write(home.join("profiles/team.yaml"), "name: team\n").unwrap();
    assert_eq!(run(&home, &["secret", "set", "kept", "--from-env", "V"], &[("V", "one")]).await.code, 0);
    let vault = fs::read(home.join("state/vault")).unwrap();
    let state = listed(&home.join("state"));

    for (arguments, stdin) in [
        ("connect cursor --yes", ""),
        ("import cursor --yes", ""),
        ("secret set new", "two"),
        ("secret set kept", "two"),
        ("secret rm kept", ""),
        ("profile key add team ci", ""),
    ] {
        let (code, stderr) = full(arguments, stdin).await;
        assert_eq!(code, 1, "{arguments}: {stderr}");
        assert!(stderr.contains("File too large"), "{arguments}: {stderr}");
    }
    assert_eq!(fs::read_to_string(&settings).unwrap(), before);
    assert_eq!(listed(settings.parent().unwrap()), ["mcp.json"]);
    assert_eq!(fs::read_to_string(home.join("profiles/team.yaml")).unwrap(), "name: team\n");
    assert_eq!(listed(&home.join("profiles")), ["team.yaml"]);
    assert_eq!(fs::read(home.join("state/vault")).unwrap(), vault);
    assert_eq!(listed(&home.join("servers")), [""; 0]);
    let left: Vec<_> = listed(&home.join("state")).into_iter().filter(|name| !state.contains(name)).collect();
    assert!(left.iter().all(|name| name == "backups"), "{left:?}");
    assert_eq!(listed(&home.join("state/backups/cursor")), [""; 0]);
}

/// A provider of models over HTTP that answers from a script: each request first says that it is there, then waits.
struct Provider {
    server: HttpServer,
    asked: mpsc::Receiver<()>,
    answer: mpsc::Sender<()>,
}

impl Provider {
    fn start(script: &Value) -> Self {
        let script = Script::from_value(script).unwrap();
        let (asking, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let answers = Mutex::new(answers);
        let server = HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
            let said = script.answer(Wire::Messages, &request.body);
            let _ = asking.send(());
            let _ = answers.lock().unwrap().recv();
            reply.full(said.status, &[&format!("content-type: {}", said.content_type)], &said.body);
        });
        Self { server, asked, answer }
    }
}

#[tokio::test]
async fn a_run_sends_nothing_whose_intent_found_no_room_and_goes_on_when_there_is_room() {
    let person = tempfile::tempdir().unwrap();
    let home = person.path().join("toolcrib");
    let post = post();
    post.release();
    let send = json!({"name": "post_send", "arguments": {"to": "ada"}});
    let provider = Provider::start(&json!({"turns": [{"calls": [send]}, {"say": "It is done."}]}));
    let model = format!("name: large\nwire: messages\nurl: http://{}/v1\n", provider.server.address());
    write(&home, "models/large.yaml", &model);
    write(&home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url()));
    let launch = shell("exec \"$0\" serve --listen 127.0.0.1:0", person.path()).env("TOOLCRIB_LOG", "info");
    let mut gateway = launch.start();
    gateway.logs("ready servers=1").await;
    let begun = json(&home, &["run", "--detach", "--model", "large", "Send it."]).await;
    let id = begun["run"].as_str().unwrap();

    // The model answers while there is no room: neither its answer nor the intent of its call can be written.
    provider.asked.recv_timeout(TIMEOUT).unwrap();
    let room = prlimit(Some(gateway.pid()), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    provider.answer.send(()).unwrap();
    let line = gateway.logs("a run cannot go on").await;
    assert!(line.contains(id), "{line}");
    assert_eq!(sends(&post), 0, "a call was sent that stands nowhere");
    prlimit(Some(gateway.pid()), Resource::Fsize, room).unwrap();

    // It is asked again, and then once more with the result.
    provider.answer.send(()).unwrap();
    provider.answer.send(()).unwrap();
    let resumed = run(&home, &["run", "resume", id], &[]).await;
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let ended = until(&home, id, "ended").await;
    assert_eq!((ended["end"].as_str(), ended["output"].as_str()), (Some("done"), Some("It is done.")), "{ended}");
    assert_eq!(sends(&post), 1, "{ended}");
    let replayed = json(&home, &["run", "replay", id]).await;
    assert_eq!(replayed["follows"], true, "{replayed}");
    ends_whole(gateway, &home).await;
}

#[tokio::test]
async fn a_page_that_cannot_write_says_so_and_keeps_what_was_entered() {
    let person = tempfile::tempdir().unwrap();
    let home = person.path().join("toolcrib");
    let launch = shell("exec \"$0\" serve --listen 127.0.0.1:0", person.path()).env("TOOLCRIB_LOG", "info");
    let mut gateway = launch.start();
    gateway.logs("serving url=").await;
    let pid = gateway.pid();
    let create = "{\"name\": \"one\", \"definition\": {\"command\": \"x\", \"start\": \"manual\"}}";
    assert_eq!(run(&home, &["api", "mcpserver_create", "--json", create], &[]).await.code, 0);
    let file = home.join("servers/one.yaml");
    let before = fs::read(&file).unwrap();
    let at = home.clone();
    Browser::start()
        .await
        .signed_in_at(&at, |pages| async move {
            let send = "form[action='/ui/do/core_mcpserver_update'] button.danger";
            let confirm = "section form button";
            pages.go("/ui/operations/core_mcpserver_update?name=one&return=/ui/servers/one").await;
            let entered = "{\"name\": \"one\", \"command\": \"other\", \"start\": \"manual\"}";
            pages.types("[name='v:/definition']", entered).await;
            pages.click(send).await;
            pages.reads("- command: x").await;
            let room = prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
            let mut confirming = pin!(pages.click(confirm));
            // As above: it finds no room, or waits until what happens can be recorded again.
            let waits = tokio::select! {
                biased;
                _ = gateway.logs("cannot write the audit log") => true,
                () = &mut confirming => false,
            };
            assert_eq!(fs::read(&file).unwrap(), before);
            assert_eq!(listed(&home.join("servers")), ["one.yaml"]);
            if !waits {
                pages.reads("Cannot write servers/one.yaml").await;
                pages.reads("Check the free space on the disk").await;
            }
            prlimit(Some(pid), Resource::Fsize, room).unwrap();
            if waits {
                confirming.await;
            }
            eventually("it is written, or its form is sent again with what was entered", async {
                while !pages.text().await.contains("Done.") {
                    let is_form = pages.driver.find(By::Css(confirm)).await.is_err();
                    let next = if is_form { send } else { confirm };
                    if let Ok(button) = pages.driver.find(By::Css(next)).await {
                        // What is gone meanwhile is looked for again.
                        let _ = button.click().await;
                    }
                }
            })
            .await;
            assert_eq!(fs::read_to_string(&file).unwrap(), "name: one\ncommand: other\nstart: manual\n");
            gateway.signal(Signal::TERM);
            assert!(gateway.end().await.success());
        })
        .await;
}
