//! Runs of agents with the real program: by the command line, over a SIGKILL amid a write, and with a model over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::Value;
use toolcrib_model::{Script, Wire};
use toolcrib_testkit::eventually;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::launch::{Program, write};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::toolcrib::{run, toolcrib};

const TOOLS: &str = r#"{"tools":[
    {"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
    {"name":"send","inputSchema":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]},
     "annotations":{"readOnlyHint":false,"idempotentHint":false}}]}"#;
const KEY: &str = "tcb_agent-runs-test-key-0123456789abcdef";
/// Looks and sends in one turn, then says what came of it.
const SCRIPT: &str = r#"
name: script
wire: script
script:
  turns:
    - calls: [{name: post_look, arguments: {}}, {name: post_send, arguments: {to: ada}}]
    - calls: [{name: post_send, arguments: {to: ada}}]
    - say: It is done.
"#;

/// A server that counts: its first `send` waits for a release.
pub(crate) fn post() -> Arc<ScriptedServer> {
    Arc::new(ScriptedServer::start(Speaks::Both, |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(TOOLS),
        "tools/call" => {
            let value = heard.value();
            if value["name"] == "send" {
                say.wait_for_release(1);
            }
            if value["arguments"]["to"] == "nowhere" {
                return say.cut();
            }
            say.result(r#"{"content":[{"type":"text","text":"noted"}]}"#);
        }
        _ => say.result("{}"),
    }))
}

pub(crate) fn sends(post: &ScriptedServer) -> usize {
    post.heard_of("tools/call").iter().filter(|heard| heard.value()["name"] == "send").count()
}

pub(crate) async fn serve(home: &Path, servers: usize) -> Program {
    let mut program = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"]).env("TOOLCRIB_LOG", "info").start();
    program.logs(&format!("ready servers={servers}")).await;
    program
}

pub(crate) async fn json(home: &Path, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["-o", "json"]);
    let answer = run(home, &all, &[]).await;
    serde_json::from_str(&answer.stdout).unwrap_or_else(|_| panic!("{answer:?}"))
}

/// Waits until a run is in a state.
pub(crate) async fn until(home: &Path, id: &str, status: &str) -> Value {
    let mut shown = Value::Null;
    let reached = async {
        loop {
            shown = json(home, &["run", "show", id]).await;
            if shown["status"] == status {
                return;
            }
        }
    };
    eventually(&format!("run `{id}` to be {status}"), reached).await;
    shown
}

async fn detached(home: &Path, arguments: &[&str]) -> String {
    let mut all = vec!["run", "--detach"];
    all.extend(arguments);
    json(home, &all).await["run"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_becomes_calls_with_the_model_that_needs_no_key() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let server =
        format!("name: units\ncommand: {}\nargs: [example, units]\nstart: eager\n", env!("CARGO_BIN_EXE_toolcrib"));
    write(home, "servers/units.yaml", &server);
    let mut gateway = serve(home, 1).await;
    let task = "convert the length of 3 mile to metre";
    let told = run(home, &["run", "--model", "demo", task], &[]).await;
    assert!(told.code == 0 && told.stdout.contains("metre"), "{told:?}");
    assert!(told.stderr.contains("→ units_convert_length"), "{told:?}");
    let menu = run(home, &["run", "--model", "demo", "--tools", "menu", "--json", task], &[]).await;
    let lines: Vec<Value> = menu.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let called: Vec<&str> = lines.iter().filter_map(|line| line["calls"][0]["tool"].as_str()).collect();
    assert_eq!(called, ["find_tools", "describe_tool", "call_tool"]);
    let last = lines.last().unwrap();
    assert_eq!((last["status"].as_str(), last["end"].as_str()), (Some("ended"), Some("done")));
    let id = last["run"].as_str().unwrap();
    let listed = json(home, &["run", "list"]).await;
    assert_eq!(listed["total"], 2);
    run(home, &["run", "replay", &id[..8]], &[])
        .await
        .prints(&format!("{} entries, as the loop writes them\n", lines.len() - 1));
    let forked = json(home, &["run", "fork", id, "--at", "2"]).await;
    let ended = until(home, forked["run"].as_str().unwrap(), "ended").await;
    assert_eq!((ended["end"].as_str(), ended["calls"].as_u64()), (Some("done"), Some(1)), "{ended}");
    let more = run(home, &["run", "message", id, "convert the length of 5 mile to metre"], &[]).await;
    assert!(more.code == 0 && more.stdout.contains("5 mile"), "{more:?}");
    let spans = json(home, &["run", "export", id, "--format", "otlp"]).await;
    let names: Vec<&str> = spans["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert_eq!((names[0], names[1], names[2]), ("invoke_agent default", "chat demo", "execute_tool find_tools"));
    assert!(!spans.to_string().contains("metre"), "content is off by default");
    for (arguments, part) in [
        (vec!["run", "--model", "dmo", task], "Did you mean `demo`?"),
        (vec!["run", task], "no model is defined"),
        (vec!["run", "--agent", "clerk", task], "agent `clerk` not found"),
        (vec!["run", "--model", "demo", "--cost", "much", task], "`cost`"),
        (vec!["run", "show", "0000"], "run `0000` not found"),
        (vec!["run", "fork", id, "--at", "9"], "round 9 is not complete"),
        (vec!["run", "resume", id], "the run ended"),
        (vec!["run", "settle", id, "1.1", "repeat"], "is not one whose end is unknown"),
    ] {
        let refused = run(home, &arguments, &[]).await;
        assert!(refused.code != 0 && refused.stderr.contains(part), "{arguments:?}: {refused:?}");
    }
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_sigkill_amid_a_write_repeats_nothing_and_a_person_settles_it() {
    let (home, post) = (tempfile::tempdir().unwrap(), post());
    let home = home.path();
    write(home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url()));
    write(home, "models/script.yaml", SCRIPT);
    write(home, "agents/clerk.yaml", "name: clerk\nmodel: script\non_unknown: ask\n");
    let mut gateway = serve(home, 1).await;
    let told = detached(home, &["--model", "script", "Send it."]).await;
    let asked = detached(home, &["--agent", "clerk", "Send it."]).await;
    let watched = Arc::clone(&post);
    let both = tokio::task::spawn_blocking(move || {
        watched.wait(|heard| {
            heard.iter().filter(|heard| heard.method == "tools/call" && heard.value()["name"] == "send").count() == 2
        })
    });
    assert!(both.await.unwrap());
    gateway.signal(Signal::KILL);
    gateway.end().await;
    post.release();
    let mut gateway = serve(home, 1).await;
    // The model was told, and its second attempt at the same call was refused.
    let ended = until(home, &told, "ended").await;
    assert_eq!(
        (ended["end"].as_str(), ended["unsettled"].to_string()),
        (Some("done"), r#"["1.2"]"#.to_owned()),
        "{ended}"
    );
    let text = run(home, &["run", "export", &told, "--format", "markdown"], &[]).await.stdout;
    assert!(text.contains("It is not known whether call 1.2 happened"), "{text}");
    assert!(text.contains("Call 2.1 was refused: it is not known whether the same call 1.2 happened"), "{text}");
    // The other one waits for a person, who says that it happened.
    let waits = until(home, &asked, "waiting").await;
    assert_eq!(waits["waits"][0]["for"], "settlement", "{waits}");
    assert_eq!(sends(&post), 2, "nothing was sent twice");
    let settled = run(home, &["run", "settle", &asked, "1.2", "happened", "--result", "noted"], &[]).await;
    assert_eq!(settled.code, 0, "{settled:?}");
    let ended = until(home, &asked, "ended").await;
    assert_eq!(ended["end"], "done", "{ended}");
    // Its second turn sends once more, which is another call.
    assert_eq!(sends(&post), 3);
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_sub_agent_is_found_again_after_a_sigkill_amid_its_write() {
    let (home, post) = (tempfile::tempdir().unwrap(), post());
    let home = home.path();
    write(home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url()));
    write(home, "models/script.yaml", SCRIPT);
    write(home, "agents/clerk.yaml", "name: clerk\nmodel: script\n");
    let turns = "{turns: [{calls: [{name: agent_clerk, arguments: {task: Send it.}}]}, {say: The clerk is done.}]}";
    write(home, "models/chief.yaml", &format!("name: chief\nwire: script\nscript: {turns}\n"));
    write(home, "agents/chief.yaml", "name: chief\nmodel: chief\ntools_shown: all\nlimits: {tokens: 100000}\n");
    let mut gateway = serve(home, 1).await;
    let chief = detached(home, &["--agent", "chief", "Have it sent."]).await;
    let watched = Arc::clone(&post);
    let sending = tokio::task::spawn_blocking(move || {
        watched.wait(|heard| heard.iter().any(|it| it.method == "tools/call" && it.value()["name"] == "send"))
    });
    assert!(sending.await.unwrap());
    gateway.signal(Signal::KILL);
    gateway.end().await;
    post.release();
    let mut gateway = serve(home, 1).await;
    let ended = until(home, &chief, "ended").await;
    assert_eq!(
        (ended["end"].as_str(), ended["output"].as_str()),
        (Some("done"), Some("The clerk is done.")),
        "{ended}"
    );
    // The same run below went on: its write was not made again, and its model was told.
    let clerk = format!("{chief}-1.1");
    let below = until(home, &clerk, "ended").await;
    assert_eq!((below["parent"].as_str(), below["output"].as_str()), (Some(&*chief), Some("It is done.")), "{below}");
    assert_eq!(below["unsettled"].to_string(), r#"["1.2"]"#, "{below}");
    assert_eq!(sends(&post), 1, "nothing is sent twice");
    assert_eq!(json(home, &["run", "list"]).await["total"], 2, "no second run was begun");
    // The parent has the result once, and what the run below spent counts once beside what it spent itself.
    let exported = run(home, &["api", "run_export", &format!("run={chief}")], &[]).await;
    let journal: Value = serde_json::from_str(&exported.stdout).unwrap();
    let events = journal["journal"].as_array().unwrap().iter().map(|entry| &entry["event"]);
    let of = |kind: &str| events.clone().filter_map(|event| event.get(kind).cloned()).collect::<Vec<_>>();
    let (results, answers) = (of("result"), of("answered"));
    assert_eq!((results.len(), answers.len()), (1, 2), "{journal}");
    assert_eq!(results[0]["result"]["spent"]["tokens"], below["tokens"], "{journal}");
    let own: u64 = answers.iter().map(|it| it["answer"]["spent"]["tokens"].as_u64().unwrap()).sum();
    assert!(own > 0 && below["tokens"].as_u64() > Some(0));
    assert_eq!(ended["tokens"].as_u64(), below["tokens"].as_u64().map(|tokens| tokens + own), "{ended}");
    let replayed = json(home, &["run", "replay", &chief]).await;
    assert_eq!(replayed["follows"], true, "{replayed}");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

/// A provider that answers from a script, and first refuses, then cuts its stream.
fn provider(script: &'static str) -> (HttpServer, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let script = Script::from_value(&serde_json::from_str(script).unwrap()).unwrap();
    let server = HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
        assert_eq!(request.target, "/v1/messages");
        if request.header("x-api-key") != Some("secret-key-1") {
            return reply.full(
                401,
                &["content-type: application/json"],
                r#"{"type":"error","error":{"type":"authentication_error","message":"no"}}"#,
            );
        }
        let answer = script.answer(Wire::Messages, &request.body);
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => reply.full(429, &["retry-after: 0", "content-type: application/json"], "{}"),
            1 => {
                let half = answer.body.len() / 2;
                reply.head(200, &[&format!("content-type: {}", answer.content_type), "transfer-encoding: chunked"]);
                reply.chunk(&answer.body[..half]);
                reply.close();
            }
            _ => reply.full(answer.status, &[&format!("content-type: {}", answer.content_type)], &answer.body),
        }
    });
    (server, asked)
}

#[tokio::test]
async fn a_model_over_http_is_asked_again_and_runs_no_call_of_a_cut_answer() {
    let (home, post) = (tempfile::tempdir().unwrap(), post());
    let home = home.path();
    post.release();
    let (provider, asked) =
        provider(r#"{"turns": [{"calls": [{"name": "post_send", "arguments": {"to": "ada"}}]}, {"say": "Sent."}]}"#);
    write(home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url()));
    let model = format!("wire: messages\nurl: http://{}/v1\nprices: {{input: 3, output: 15}}\n", provider.address());
    write(home, "models/large.yaml", &format!("name: large\nkey: env:LARGE_KEY\n{model}"));
    write(home, "models/locked.yaml", &format!("name: locked\n{model}"));
    let mut gateway = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"])
        .env("TOOLCRIB_LOG", "info")
        .env("LARGE_KEY", "secret-key-1")
        .start();
    gateway.logs("ready servers=1").await;
    let told = run(home, &["run", "--model", "large", "Send it."], &[]).await;
    assert!(told.code == 0 && told.stdout.contains("Sent."), "{told:?}");
    assert_eq!((asked.load(Ordering::SeqCst), sends(&post)), (4, 1));
    let listed = json(home, &["run", "list"]).await;
    let cost = listed["runs"][0]["cost"].as_str().unwrap();
    assert!(cost.starts_with("$0.0") && cost != "$0.00", "{listed}");
    let locked = run(home, &["run", "--model", "locked", "Send it."], &[]).await;
    assert!(locked.code != 0 && locked.stderr.contains("refused the key"), "{locked:?}");
    let limited = run(home, &["run", "--model", "large", "--cost", "0.000001", "Send it."], &[]).await;
    assert!(limited.code != 0 && limited.stderr.contains("limit of money"), "{limited:?}");
    assert!(limited.stderr.contains("toolcrib run resume"), "{limited:?}");
    let dump = std::fs::read(home.join("state/toolcrib.db")).unwrap();
    let log = std::fs::read(home.join("state/toolcrib.db-wal")).unwrap_or_default();
    let key = b"secret-key-1";
    assert!(![&dump, &log].iter().any(|file| file.windows(key.len()).any(|part| part == key)), "no key is stored");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_connection_that_breaks_amid_a_write_leaves_it_unknown() {
    let (home, post) = (tempfile::tempdir().unwrap(), post());
    let home = home.path();
    post.release();
    write(home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url()));
    let script = SCRIPT.replace("ada", "nowhere");
    write(home, "models/script.yaml", &script);
    let mut gateway = serve(home, 1).await;
    let id = detached(home, &["--model", "script", "Send it."]).await;
    let ended = until(home, &id, "ended").await;
    assert_eq!(
        (ended["end"].as_str(), ended["unsettled"].to_string()),
        (Some("done"), r#"["1.2"]"#.to_owned()),
        "{ended}"
    );
    assert_eq!(sends(&post), 1, "the same call is refused until it is settled");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_run_waits_for_a_yes_over_a_restart_and_goes_on_with_the_result() {
    let (home, post) = (tempfile::tempdir().unwrap(), post());
    let home = home.path();
    post.release();
    write(home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {}\nstart: eager\n", post.url()));
    write(home, "models/script.yaml", SCRIPT);
    write(home, "agents/clerk.yaml", "name: clerk\nmodel: script\n");
    let hash = toolcrib_catalog::KeyHash::of(KEY).to_string();
    let profile = "name: agents\nkeys: [{name: bot, hash: 'HASH'}]\ntools: {approve: ['post/send']}\n";
    write(home, "profiles/agents.yaml", &profile.replace("HASH", &hash));
    let mut gateway = serve(home, 1).await;
    let alone = ["run", "--profile", "agents", "--model", "script", "Send it."];
    let alone = run(home, &alone, &[("TOOLCRIB_TOKEN", KEY)]).await;
    assert!(alone.code != 0 && alone.stderr.contains("only the owner and operators"), "{alone:?}");
    // Who asks may not approve: the run is one of a key.
    let started = ["run", "--detach", "--profile", "agents", "--agent", "clerk", "Send it.", "-o", "json"];
    let started = run(home, &started, &[("TOOLCRIB_TOKEN", KEY)]).await;
    let shown: Value = serde_json::from_str(&started.stdout).unwrap_or_else(|_| panic!("{started:?}"));
    let id = shown["run"].as_str().unwrap().to_owned();
    let waits = until(home, &id, "waiting").await;
    assert_eq!(waits["waits"][0]["for"], "approval", "{waits}");
    let first = waits["waits"][0]["what"].as_str().unwrap().to_owned();
    gateway.signal(Signal::KILL);
    gateway.end().await;
    let mut gateway = serve(home, 1).await;
    assert_eq!(until(home, &id, "waiting").await["waits"][0]["what"], first.as_str());
    assert_eq!(sends(&post), 0);
    let yes = run(home, &["approval", "approve", &first], &[]).await;
    assert_eq!(yes.code, 0, "{yes:?}");
    // The second turn sends once more: another call, which needs a yes of its own.
    let second = async {
        loop {
            let shown = json(home, &["run", "show", &id]).await;
            let what = shown["waits"][0]["what"].as_str().unwrap_or_default().to_owned();
            if !what.is_empty() && what != first {
                return what;
            }
        }
    };
    let mut other = String::new();
    eventually("another approval", async { other = second.await }).await;
    assert_eq!(sends(&post), 1);
    let no = run(home, &["approval", "deny", &other, "--reason", "once is enough"], &[]).await;
    assert_eq!(no.code, 0, "{no:?}");
    let ended = until(home, &id, "ended").await;
    assert_eq!((ended["end"].as_str(), sends(&post)), (Some("done"), 1), "{ended}");
    let text = run(home, &["run", "export", &id, "--format", "json"], &[]).await.stdout;
    assert!(text.contains("once is enough") && text.contains("noted"), "{text}");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn what_a_run_has_seen_is_context_of_its_calls_also_after_a_restart() {
    const SEEN: &str = r#"
name: script
wire: script
script:
  turns:
    - calls: [{name: post_look, arguments: {}}, {name: post_send, arguments: {to: first}}]
    - calls: [{name: post_send, arguments: {to: second}}]
    - calls: [{name: post_send, arguments: {to: third}}]
    - say: It is done.
"#;
    let (home, post) = (tempfile::tempdir().unwrap(), post());
    let home = home.path();
    post.release();
    let labels = "tool_labels: {look: {data: secret}}\n";
    let server = format!("name: post\ntransport: http\nurl: {}\nstart: eager\n{labels}", post.url());
    write(home, "servers/post.yaml", &server);
    write(home, "models/script.yaml", SEEN);
    write(home, "agents/clerk.yaml", "name: clerk\nmodel: script\n");
    let policy = r#"@id("leak") @reason("it has seen secrets") forbid (principal, action == Action::"call", resource == Tool::"post/send")
when { context.labels.contains("data=secret") && !(context.arguments has to && context.arguments.to == "second") };
@id("ask") @approve("") forbid (principal, action == Action::"call", resource == Tool::"post/send")
when { context.labels.contains("data=secret") && context.arguments has to && context.arguments.to == "second" };"#;
    write(home, "policies/team.cedar", policy);
    let hash = toolcrib_catalog::KeyHash::of(KEY).to_string();
    write(home, "profiles/agents.yaml", &format!("name: agents\nkeys: [{{name: bot, hash: '{hash}'}}]\n"));
    let mut gateway = serve(home, 1).await;
    let started = ["run", "--detach", "--profile", "agents", "--agent", "clerk", "Send it.", "-o", "json"];
    let started = run(home, &started, &[("TOOLCRIB_TOKEN", KEY)]).await;
    let shown: Value = serde_json::from_str(&started.stdout).unwrap_or_else(|_| panic!("{started:?}"));
    let id = shown["run"].as_str().unwrap().to_owned();
    // What was asked for in the same turn was asked for before the model had read it.
    let waits = until(home, &id, "waiting").await;
    assert_eq!(sends(&post), 1, "{waits}");
    let approval = waits["waits"][0]["what"].as_str().unwrap().to_owned();
    gateway.signal(Signal::KILL);
    gateway.end().await;
    let mut gateway = serve(home, 1).await;
    let yes = run(home, &["approval", "approve", &approval], &[]).await;
    assert_eq!(yes.code, 0, "{yes:?}");
    let ended = until(home, &id, "ended").await;
    assert_eq!((ended["end"].as_str(), sends(&post)), (Some("done"), 2), "{ended}");
    let text = run(home, &["run", "export", &id, "--format", "json"], &[]).await.stdout;
    assert!(text.contains("it has seen secrets"), "{text}");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_task_in_quarantine_waits_over_a_sigkill_until_a_person_releases_it() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    write(home, "models/calm.yaml", "name: calm\nwire: script\nscript: {turns: [{say: Here it is.}]}\n");
    let rule = "sentinel: {rules: [{name: payroll, words: [payroll], action: quarantine}]}";
    write(home, "agents/clerk.yaml", &format!("name: clerk\nmodel: calm\n{rule}\n"));
    let mut gateway = serve(home, 0).await;
    let held = detached(home, &["--agent", "clerk", "Show the payroll."]).await;
    until(home, &held, "waiting").await;
    // Reading the ledger waits for the disk: what a kill may lose is what the log has not written.
    let before = json(home, &["run", "activity", "--run", &held]).await;
    assert_eq!(before["events"].as_array().map(Vec::len), Some(4), "{before}");
    gateway.signal(Signal::KILL);
    gateway.end().await;
    let mut gateway = serve(home, 0).await;
    let waiting = until(home, &held, "waiting").await;
    assert_eq!((waiting["rounds"].as_u64(), waiting["waits"][0]["for"].as_str()), (Some(0), Some("review")));
    let shown = run(home, &["run", "show", &held], &[]).await;
    assert!(shown.stdout.contains(&format!("`toolcrib run release {held} 1`")), "{shown:?}");
    assert!(shown.stdout.contains("Show the payroll."), "{shown:?}");
    assert_eq!(run(home, &["run", "release", &held], &[]).await.code, 0);
    let ended = until(home, &held, "ended").await;
    assert_eq!((ended["end"].as_str(), ended["output"].as_str()), (Some("done"), Some("Here it is.")), "{ended}");
    let second = run(home, &["run", "refuse", &held], &[]).await;
    assert!(second.code != 0 && second.stderr.contains("nothing of run"), "{second:?}");
    let done = json(home, &["run", "activity", "--run", &held]).await;
    let actions: Vec<&str> =
        done["events"].as_array().unwrap().iter().rev().map(|it| it["action"].as_str().unwrap()).collect();
    let expected = ["message.quarantined", "message.sent", "run.started", "run.waiting"];
    assert_eq!(actions[..4], expected, "{actions:?}");
    // It is on record once who released it, before or after what the run did then.
    let (released, others): (Vec<&str>, Vec<&str>) = actions[4..].iter().partition(|it| **it == "message.released");
    assert_eq!((released.len(), others.last()), (1, Some(&"run.completed")), "{actions:?}");
    let listed = run(home, &["run", "activity", "--status", "completed", "--limit", "1"], &[]).await;
    assert!(listed.stdout.contains("run.completed") && listed.stdout.contains("clerk"), "{listed:?}");
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_model_that_is_busy_for_ever_ends_the_run_by_name() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let provider = HttpServer::start(move |_: &Request, reply: &mut Reply<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let head = ["retry-after: 0", "content-type: application/json"];
        reply.full(429, &head, r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#);
    });
    write(home, "models/busy.yaml", &format!("name: busy\nwire: messages\nurl: http://{}/v1\n", provider.address()));
    let mut gateway = serve(home, 0).await;
    let refused = run(home, &["run", "--model", "busy", "Say hello."], &[]).await;
    assert!(refused.code != 0 && refused.stderr.contains("slow down"), "{refused:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 5, "it is not asked without end");
    let listed = json(home, &["run", "list"]).await;
    assert_eq!((listed["runs"][0]["status"].as_str(), listed["runs"][0]["tokens"].as_u64()), (Some("ended"), Some(0)));
    gateway.signal(Signal::TERM);
    gateway.end().await;
}
