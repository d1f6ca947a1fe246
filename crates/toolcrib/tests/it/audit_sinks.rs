//! Sinks of the audit log, with the real binary: killed, ended, with a disk that is full; and exports.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_testkit::launch::{Launch, Program, write};

use crate::toolcrib::{run, toolcrib};

/// A gateway whose audit log goes to a file, and what it logs.
fn start(home: &Path) -> Program {
    // A program whose disk is full is told so, instead of being ended for it.
    let script = "trap '' XFSZ; exec \"$0\" serve --listen 127.0.0.1:0";
    let launch = Launch::new("/bin/sh", &["-c", script, env!("CARGO_BIN_EXE_toolcrib")]).home(home);
    launch.env("TOOLCRIB_LOG", "info").env("SECRET", "s3cret").start()
}

fn file(home: &Path) -> String {
    write(home, "config.toml", "[[audit.sink]]\nname = 'archive'\ntype = 'file'\npath = 'logs/audit.jsonl'\n");
    home.join("logs/audit.jsonl").to_str().unwrap().to_owned()
}

/// The numbers of the events in a file; whole lines only, and no checkpoints, which have numbers of their own.
fn seqs(path: &str) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let rows = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row.get("number").is_none()).map(|row| row["seq"].as_u64().unwrap()).collect()
}

/// A call that leaves an event.
async fn call(home: &Path) {
    assert_ne!(run(home, &["call", "no/such"], &[]).await.code, 0);
}

async fn has_written(path: &str, least: usize) {
    eventually_holds("events in the file", || seqs(path).len() >= least).await;
}

#[tokio::test]
async fn every_event_is_in_the_file_once_through_a_kill_and_an_end() {
    let home = tempfile::tempdir().unwrap();
    let path = file(home.path());
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    for _ in 0..5 {
        call(home.path()).await;
    }
    has_written(&path, 5).await;
    gateway.signal(Signal::KILL);
    gateway.end().await;
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    for _ in 0..5 {
        call(home.path()).await;
    }
    // What was recorded a moment ago is delivered before the process ends.
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
    let written = seqs(&path);
    assert_eq!(written, (1..=written.len() as u64).collect::<Vec<_>>());
    assert!(written.len() >= 10, "{written:?}");
}

#[tokio::test]
async fn a_full_disk_loses_no_event_of_a_file() {
    let home = tempfile::tempdir().unwrap();
    let path = file(home.path());
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    call(home.path()).await;
    has_written(&path, 1).await;
    let room = prlimit(Some(gateway.pid()), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    let waiting = run(home.path(), &["call", "no/such"], &[]);
    let freed = async {
        gateway.logs("cannot write the audit log").await;
        prlimit(Some(gateway.pid()), Resource::Fsize, room).unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, freed);
    assert!(waited.stderr.contains("tool not found"), "it was answered once there was room: {}", waited.stderr);
    call(home.path()).await;
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
    let written = seqs(&path);
    assert_eq!(written, (1..=written.len() as u64).collect::<Vec<_>>());
    assert!(written.len() >= 3, "{written:?}");
}

#[tokio::test]
async fn a_collector_gets_events_with_a_secret_that_is_shown_nowhere() {
    let home = tempfile::tempdir().unwrap();
    let (seen, kept) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let (headers, answered) = (Arc::clone(&seen), Arc::clone(&kept));
    let server = HttpServer::start(move |request, reply| {
        headers.lock().unwrap().push(request.header("authorization").unwrap_or_default().to_owned());
        if answered.lock().unwrap().is_empty() {
            return reply.full(503, &[], "");
        }
        reply.json(&[], &json!({}));
    });
    let settings = format!(
        "[[audit.sink]]\nname = 'collector'\ntype = 'otlp'\nurl = 'http://{}/v1/logs'\n\
         headers = {{Authorization = 'env:SECRET'}}\n",
        server.address()
    );
    write(home.path(), "config.toml", &settings);
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    call(home.path()).await;
    gateway.logs("cannot deliver audit events").await;
    let status = run(home.path(), &["status"], &[]).await;
    assert!(status.stdout.contains("the collector answered 503 Service Unavailable"), "{}", status.stdout);
    let sinks = run(home.path(), &["status", "--json"], &[]).await.stdout;
    let sinks: Value = serde_json::from_str(&sinks).unwrap();
    let sink = &sinks["audit"]["sinks"][0];
    assert_eq!((sink["name"].as_str(), sink["type"].as_str()), (Some("collector"), Some("otlp")));
    assert!(sink["lag"].as_u64().unwrap() > 0 && sink["failingSince"].as_str().unwrap().ends_with('Z'), "{sink}");
    let config = run(home.path(), &["api", "config_get"], &[]).await.stdout;
    assert!(config.contains("env:SECRET") && !config.contains("s3cret"), "{config}");
    kept.lock().unwrap().push("answer".to_owned());
    gateway.logs("the audit sink gets events again").await;
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
    assert!(seen.lock().unwrap().iter().all(|header| header == "s3cret"));
    assert!(!gateway.log().contains("s3cret"));
}

#[tokio::test]
async fn an_export_prints_formats_and_follows() {
    let home = tempfile::tempdir().unwrap();
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    call(home.path()).await;
    let lines = async |arguments: &[&str]| {
        let arguments = [&["audit", "export"], arguments].concat();
        let ran = run(home.path(), &arguments, &[]).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = lines(&[]).await;
    let first: Value = serde_json::from_str(&all[0]).unwrap();
    assert_eq!(first["seq"], 1);
    let listed = run(home.path(), &["audit", "list", "--limit", "1000", "-o", "json"], &[]).await.stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["events"].as_array().unwrap().last().unwrap(), &first, "the object of `audit list`");
    assert!(lines(&["--format", "cef", "--since", "1d"]).await[0].starts_with("CEF:0|Toolcrib|toolcrib|"));
    assert!(lines(&["--format", "otlp"]).await[0].starts_with("{\"resourceLogs\":["));
    assert!(lines(&["--since", "2099-01-01"]).await.is_empty());
    let later: Value = serde_json::from_str(&lines(&["--after", "1"]).await[0]).unwrap();
    assert_eq!(later["seq"], 2);

    let mut follower = toolcrib(home.path(), &["audit", "export", "--follow", "--format", "cef"]).start();
    let first = follower.line().await;
    assert!(first.contains(" externalId=1 "), "{first}");
    run(home.path(), &["call", "no/other"], &[]).await;
    let line = follower.reads("cs1=no/other").await;
    assert!(line.contains("outcome=denied"), "{line}");
    follower.signal(Signal::INT);
    assert_eq!(follower.end().await.code(), Some(130));
}

#[tokio::test]
async fn an_export_that_follows_goes_on_after_a_restart_and_ends_with_its_reader() {
    let home = tempfile::tempdir().unwrap();
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    call(home.path()).await;
    let mut follower = toolcrib(home.path(), &["audit", "export", "--follow"]).start();
    let mut lines = follower.line().await + "\n";
    gateway.signal(Signal::KILL);
    gateway.end().await;
    follower.logs("waiting for the gateway, to continue after event").await;
    // At another port.
    let mut gateway = start(home.path());
    gateway.logs("serving url=").await;
    run(home.path(), &["call", "no/later"], &[]).await;
    lines += &follower.reads_to("no/later").await;
    let seqs: Vec<u64> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "nothing twice, nothing missing");
    // The next line finds that no one reads.
    follower.close_output();
    call(home.path()).await;
    assert_eq!(follower.end().await.code(), Some(0));
    assert!(!follower.log().contains("error"), "{}", follower.log());
}
