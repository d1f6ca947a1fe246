//! What runs ask people, with the real program: over a SIGKILL, and in a terminal.

use std::path::Path;
use std::sync::Arc;

use rustix::process::Signal;
use toolcrib_testkit::eventually;
use toolcrib_testkit::launch::{Program, write};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::agent_runs::{json, until};
use crate::terminal::Terminal;
use crate::toolcrib::{run, toolcrib};

const TOOLS: &str = r#"{"tools":[
    {"name":"book","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":false}},
    {"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
    {"name":"send","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":false}}]}"#;
const FORM: &str = r#"{"mode":"form","message":"Which day?","requestedSchema":{"type":"object","properties":{"day":{"type":"string"}},"required":["day"]}}"#;

/// A server whose `book` and `look` ask in their course, and whose `send` waits for a release.
fn desk() -> Arc<ScriptedServer> {
    Arc::new(ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(TOOLS),
        "tools/call" if heard.value()["name"] == "send" => {
            say.wait_for_release(1);
            say.result(r#"{"content":[{"type":"text","text":"sent"}]}"#);
        }
        "tools/call" => {
            let asked = say.ask("elicitation/create", FORM);
            let answer = say.wait_for_answer(&asked);
            let text = serde_json::to_string(&answer).unwrap();
            say.result(&format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#));
        }
        _ => say.result("{}"),
    }))
}

fn calls(desk: &ScriptedServer, tool: &str) -> usize {
    desk.heard_of("tools/call").iter().filter(|heard| heard.value()["name"] == tool).count()
}

/// A home with the server and one model for each tool, which calls it and says the end.
fn furnish(home: &Path, desk: &ScriptedServer) {
    write(home, "servers/desk.yaml", &format!("name: desk\ntransport: http\nurl: {}\nstart: eager\n", desk.url()));
    for tool in ["book", "look", "send"] {
        let script = format!("{{turns: [{{calls: [{{name: desk_{tool}, arguments: {{}}}}]}}, {{say: It is done.}}]}}");
        write(home, &format!("models/{tool}.yaml"), &format!("name: {tool}\nwire: script\nscript: {script}\n"));
    }
}

async fn serve(home: &Path) -> Program {
    let mut program = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"]).env("TOOLCRIB_LOG", "info").start();
    program.logs("ready servers=1").await;
    program
}

async fn end(mut gateway: Program, signal: Signal) {
    gateway.signal(signal);
    gateway.end().await;
}

async fn detached(home: &Path, model: &str) -> String {
    json(home, &["run", "--detach", "--model", model, "Do it."]).await["run"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_run_waits_for_a_confirmation_over_a_sigkill_and_goes_on_with_the_result() {
    let (home, desk) = (tempfile::tempdir().unwrap(), desk());
    let home = home.path();
    furnish(home, &desk);
    desk.release();
    write(home, "profiles/default.yaml", "name: default\ntools: {confirm: ['desk/send']}\n");
    let gateway = serve(home).await;
    let (yes, no) = (detached(home, "send").await, detached(home, "send").await);
    for id in [&yes, &no] {
        until(home, id, "waiting").await;
    }
    end(gateway, Signal::KILL).await;
    let gateway = serve(home).await;
    let waits = until(home, &yes, "waiting").await["waits"][0].clone();
    let message = waits["questions"]["confirm"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("make this call?") && message.contains("desk/send"), "{waits}");
    assert_eq!(waits["next"], format!("toolcrib run resume {yes} --answer '{{\"confirm\":true}}'"));
    for (answer, part) in [("sure", "`--answer` is not JSON"), ("[]", "not an object"), ("{}", "confirm")] {
        let refused = run(home, &["run", "resume", &yes, "--answer", answer], &[]).await;
        assert!(refused.code != 0 && refused.stderr.contains(part), "{answer}: {refused:?}");
    }
    assert_eq!(calls(&desk, "send"), 0);
    for (id, answer) in [(&yes, r#"{"confirm":true}"#), (&no, r#"{"confirm":false}"#)] {
        let answered = run(home, &["run", "resume", id, "--answer", answer], &[]).await;
        assert_eq!(answered.code, 0, "{answered:?}");
        assert_eq!(until(home, id, "ended").await["end"], "done");
    }
    assert_eq!(calls(&desk, "send"), 1, "made once, and only after the yes");
    let told = run(home, &["run", "export", &no, "--format", "markdown"], &[]).await.stdout;
    assert!(told.contains("denied by `"), "{told}");
    let again = run(home, &["run", "resume", &yes, "--answer", r#"{"confirm":true}"#], &[]).await;
    assert!(again.code != 0 && again.stderr.contains("the run ended"), "{again:?}");
    end(gateway, Signal::TERM).await;
}

#[tokio::test]
async fn a_question_that_a_sigkill_took_is_asked_again_only_by_a_call_that_may_be_repeated() {
    let (home, desk) = (tempfile::tempdir().unwrap(), desk());
    let home = home.path();
    furnish(home, &desk);
    let gateway = serve(home).await;
    let (book, look) = (detached(home, "book").await, detached(home, "look").await);
    for id in [&book, &look] {
        let waits = until(home, id, "waiting").await["waits"][0].clone();
        assert_eq!((waits["for"].as_str(), waits["what"].as_str()), (Some("person"), Some("1.1")), "{waits}");
    }
    end(gateway, Signal::KILL).await;
    let gateway = serve(home).await;
    // The model is told, and nothing is repeated that may have happened.
    let ended = until(home, &book, "ended").await;
    assert_eq!((ended["end"].as_str(), ended["unsettled"].to_string()), (Some("done"), r#"["1.1"]"#.to_owned()));
    let asks_again = async {
        while calls(&desk, "look") < 2 {
            tokio::task::yield_now().await;
        }
    };
    eventually("the read to be made again", asks_again).await;
    until(home, &look, "waiting").await;
    let answered = run(home, &["run", "resume", &look, "--answer", r#"{"day":"Monday"}"#], &[]).await;
    assert_eq!(answered.code, 0, "{answered:?}");
    assert_eq!(until(home, &look, "ended").await["end"], "done");
    let told = run(home, &["run", "export", &look, "--format", "markdown"], &[]).await.stdout;
    assert!(told.contains("Monday"), "{told}");
    assert_eq!((calls(&desk, "book"), calls(&desk, "look")), (1, 2));
    end(gateway, Signal::TERM).await;
}

#[tokio::test]
async fn a_person_at_the_terminal_answers_and_pauses_with_ctrl_c() {
    let (home, desk) = (tempfile::tempdir().unwrap(), desk());
    let home = home.path();
    furnish(home, &desk);
    let gateway = serve(home).await;
    let mut terminal = Terminal::start(home, &["run", "--model", "book", "Do it."], "true");
    let answering = tokio::task::spawn_blocking(move || {
        terminal.reads("Which day?");
        terminal.reads("day");
        terminal.types("Monday");
        terminal.finish("no secret")
    });
    let printed = answering.await.unwrap();
    assert!(printed.contains("It is done."), "{printed}");

    let mut terminal = Terminal::start(home, &["run", "--model", "send", "Do it."], "true");
    let watched = Arc::clone(&desk);
    let id = tokio::task::spawn_blocking(move || {
        terminal.reads("desk_send");
        assert!(watched.wait(|heard| heard.iter().any(|it| it.method == "tools/call" && it.value()["name"] == "send")));
        terminal.interrupt();
        terminal.reads("press Ctrl-C again to leave");
        watched.release();
        let line = terminal.reads("the run is paused; go on with `toolcrib run resume ");
        terminal.finish("no secret");
        line.split("run resume ").nth(1).unwrap().split('`').next().unwrap().to_owned()
    })
    .await
    .unwrap();
    let paused = until(home, &id, "paused").await;
    assert_eq!(paused["rounds"], 1, "what was under way ended, and nothing else began: {paused}");
    end(gateway, Signal::KILL).await;
    let gateway = serve(home).await;
    assert_eq!(until(home, &id, "paused").await["waits"][0]["for"], "resume");
    let resumed = run(home, &["run", "resume", &id], &[]).await;
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(until(home, &id, "ended").await["end"], "done");
    assert_eq!(calls(&desk, "send"), 1);
    end(gateway, Signal::TERM).await;
}
