//! A thousand starts and kills leave nothing: no process, no zombie, no open file, no temporary folder.
//!
//! `TOOLCRIB_STARTS=10000` makes them ten thousand; `cargo nextest run --no-capture` then shows the counts.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the counts are for whoever runs it by hand")]

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use toolcrib_testkit::eventually_holds;

use crate::table::{all_tagged, new_tag, tagged};

/// How many programs are started in all.
const STARTS: usize = 1_000;
/// One of how many is started with a family, and one by a gateway of its own that is killed, and one by a gateway whose
/// client is killed.
const OF_EACH: usize = 10;
/// How many such gateways there are at a time.
const AT_ONCE: usize = 5;

/// A program with a child that outlives its stdin. It says which process it is.
const PLAIN: &str = "sleep 1000 & echo ready $$; cat";
/// The same with a child that holds its stdout and has a child of its own, which has left its session.
const FAMILY: &str = "\"$1\" --idle-child 2 --tag \"$0\" & echo ready $$; cat";

fn starts() -> usize {
    std::env::var("TOOLCRIB_STARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(STARTS)
}

fn test_gateway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-gateway"));
    command.env("TMPDIR", folder).kill_on_drop(true);
    command
}

/// The program with its tag and whatever it may start.
fn program(script: &'static str, tag: &str) -> [String; 5] {
    let fake = toolcrib_testkit::fake_server().to_string_lossy().into_owned();
    ["sh".to_owned(), "-c".to_owned(), script.to_owned(), tag.to_owned(), fake]
}

/// What is left of one way to end, as the kernel counts it.
async fn check_nothing_left(what: &str, starts: usize, tag: &str, folder: &Path) {
    eventually_holds("all are gone, gateways and guards too", || all_tagged(tag) == 0).await;
    // A child of another test may be one for a moment; one that nobody waits for stays.
    eventually_holds("no child is a zombie", || zombies() == 0).await;
    let folders = std::fs::read_dir(folder).unwrap().count();
    println!("{what}: {starts} starts, 0 processes left, 0 zombies, {folders} temporary folders");
    assert_eq!(folders, 0);
}

/// Children of this process that have ended and were not waited for, whichever of its threads started them.
fn zombies() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<_> =
        children.flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_zombie = |id: &&String| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
    };
    children.iter().filter(is_zombie).count()
}

#[test]
fn a_zombie_is_counted() {
    let mut child = std::process::Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    // Its end of the pipe closes as it ends; it becomes a zombie at about that time.
    let _ = std::io::copy(&mut child.stdout.take().unwrap(), &mut std::io::sink());
    while zombies() == 0 {
        std::thread::yield_now();
    }
    assert!(child.wait().unwrap().success());
}

/// Ended by the gateway with and without grace, dropped, killed, and killed with their guards.
async fn check_churn(what: &str, mode: &str, starts: usize, script: &'static str) {
    let (folder, tag) = (tempfile::tempdir().unwrap(), new_tag());
    let mut churn = test_gateway(folder.path());
    let output = churn.args([mode, &starts.to_string()]).args(program(script, &tag)).output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "files 0 children 0\n");
    check_nothing_left(what, starts, &tag, folder.path()).await;
}

/// A gateway or its client, whose program runs.
async fn running(mode: &str, folder: &Path, tag: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = test_gateway(folder);
    let mut child = command.arg(mode).args(program(FAMILY, tag)).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().unwrap().starts_with("ready ") {}
    (child, lines)
}

async fn check_killed(what: &str, mode: &str) {
    let (folder, tag) = (tempfile::tempdir().unwrap(), new_tag());
    let rounds = (starts() / OF_EACH).div_ceil(AT_ONCE);
    for _ in 0..rounds {
        let mut all = Vec::new();
        for _ in 0..AT_ONCE {
            all.push(running(mode, folder.path(), &tag).await);
        }
        assert!(tagged(&tag).len() >= AT_ONCE, "each has its program");
        for (child, _) in &mut all {
            child.kill().await.unwrap();
        }
        eventually_holds("all are gone", || all_tagged(&tag) == 0).await;
    }
    check_nothing_left(what, rounds * AT_ONCE, &tag, folder.path()).await;
}

#[tokio::test]
async fn many_starts_and_ends_in_one_gateway_leave_nothing() {
    check_churn("ended and killed by turns", "churn", starts() - 3 * (starts() / OF_EACH), PLAIN).await;
}

/// Guards are not killed here: what a killed guard cannot hold is a descendant that has left the session, as
/// `SECURITY.md` says.
#[tokio::test]
async fn many_families_leave_nothing() {
    check_churn("ended and killed by turns, with grandchildren", "churn-families", starts() / OF_EACH, FAMILY).await;
}

#[tokio::test]
async fn many_gateways_killed_with_sigkill_leave_nothing() {
    check_killed("gateway killed with SIGKILL, with grandchildren", "hold").await;
}

#[tokio::test]
async fn many_clients_killed_with_sigkill_leave_nothing() {
    check_killed("client killed with SIGKILL, with grandchildren", "client").await;
}
