//! `toolcrib demo`: what it prints, and that it leaves nothing behind.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpListener;
use toolcrib_testkit::launch::{Launch, Program};

use crate::toolcrib::{CommandOutput, run};

/// Runs the demo with `temporary` as the folder for temporary files.
async fn demo(temporary: &Path, arguments: &[&str]) -> CommandOutput {
    let arguments: Vec<&str> = ["demo"].iter().chain(arguments).copied().collect();
    let home = temporary.join("own");
    run(&home, &arguments, &[("TMPDIR", temporary.to_str().unwrap())]).await
}

/// No file is in the folder and no process that was started with it is there.
#[track_caller]
fn check_nothing_is_left(temporary: &Path) {
    let left: Vec<_> = std::fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    if cfg!(target_os = "linux") {
        let processes = processes_with(temporary);
        assert!(processes.is_empty(), "{processes:?}");
    }
}

/// The command lines of the processes whose `TMPDIR` is the folder.
fn processes_with(temporary: &Path) -> Vec<String> {
    let variable = format!("TMPDIR={}", temporary.display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mine = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair == variable.as_bytes())
    });
    mine.map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default()).collect()
}

#[tokio::test]
async fn without_a_folder_for_temporary_files_it_says_which_and_what_to_do() {
    let temporary = tempfile::tempdir().unwrap();
    // A file in the place of the folder: as good as a file system that cannot be written, for root too.
    let file = temporary.path().join("file");
    std::fs::write(&file, "").unwrap();
    let ran = demo(&file, &["--once"]).await;
    ran.fails(1, &["cannot create a temporary home in `", "/file`", "Set TMPDIR to a folder that can be written"]);
}

#[tokio::test]
async fn the_walk_is_shown_once() {
    let temporary = tempfile::tempdir().unwrap();
    let ran = demo(temporary.path(), &["--once", "--listen", "127.0.0.1:0"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    for part in [
        "one endpoint in front of 3 servers with 30 tools",
        "clock    10 tools   a child process",
        "> find_tools {\"query\":\"convert miles to kilometres\"}",
        "- units/convert_length(value: number, from: ",
        "> describe_tool {\"name\":\"units/convert_length\"}",
        "inputSchema: {\"type\":\"object\"",
        "26.2 mile = 42.1648128 kilometre",
        "299 days from 2026-03-01 to 2026-12-25",
        "wrote note 1: Marathon",
        "all 30 tools listed in full",
    ] {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}", ran.stdout);
    }
    let share = ran.stdout.split("That is ").nth(1).unwrap().split(" %").next().unwrap();
    let share: u32 = share.parse().unwrap();
    assert!((1..60).contains(&share), "{share} %");
    check_nothing_is_left(temporary.path());
}

#[tokio::test]
async fn a_taken_port_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = demo(temporary.path(), &["--listen", &address]).await;
    ran.fails(1, &[&format!("the address `{address}` is already in use"), "--listen 127.0.0.1:0"]);
    let ran = demo(temporary.path(), &["--listen", "0.0.0.0:0"]).await;
    ran.fails(1, &["refusing to listen on `0.0.0.0:0`"]);
    check_nothing_is_left(temporary.path());
}

/// A demo that serves, and what it printed.
async fn serving(temporary: &Path) -> (Program, String) {
    let mut demo = Launch::new(env!("CARGO_BIN_EXE_toolcrib"), &["demo"]).env("TMPDIR", temporary).start();
    let printed = demo.reads_to("when the demo ends").await;
    (demo, printed)
}

/// The settings that were printed below a heading.
fn settings(printed: &str, heading: &str) -> Value {
    let text = printed.split(heading).nth(1).unwrap().split_once(":\n").unwrap().1;
    serde_json::Deserializer::from_str(text).into_iter().next().unwrap().unwrap()
}

#[tokio::test]
async fn clients_connect_as_the_settings_say() {
    let temporary = tempfile::tempdir().unwrap();
    let (demo, printed) = serving(temporary.path()).await;
    let of_vs_code = settings(&printed, "VS Code");
    let by_http = settings(&printed, "Clients that speak HTTP");
    let url = of_vs_code["servers"]["toolcrib"]["url"].as_str().unwrap();
    assert_eq!(by_http["mcpServers"]["toolcrib"]["url"], url);
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = run(elsewhere.path(), &["call", "clock/weekday", "date=2026-03-01", "--endpoint", url], &[]).await;
    ran.prints("2026-03-01 is a Sunday: day 60 of a common year, week 9 of 2026\n");

    let by_stdio = &settings(&printed, "Clients that speak only stdio")["mcpServers"]["toolcrib"];
    let arguments: Vec<&str> =
        by_stdio["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect();
    let bridge = Launch::new(by_stdio["command"].as_str().unwrap(), &arguments);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let answers = bridge.run(&format!("{hello}\n{list}\n")).await.stdout;
    assert!(answers.contains("find_tools") && answers.contains("call_tool"), "{answers}");

    end(demo, Signal::INT).await;
    check_nothing_is_left(temporary.path());
}

/// Sends the signal; the demo ends well and has nothing to complain of.
async fn end(demo: Program, signal: Signal) {
    demo.signal(signal);
    let output = demo.finish().await;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn who_asks_politely_finds_nothing_left() {
    let temporary = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::HUP] {
        let (demo, _) = serving(temporary.path()).await;
        if cfg!(target_os = "linux") {
            assert!(processes_with(temporary.path()).len() > 2, "the demo and its servers run");
        }
        end(demo, signal).await;
        check_nothing_is_left(temporary.path());
    }
}
