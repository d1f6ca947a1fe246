//! A thousand starts and kills leave nothing: no process, no zombie, no open file, no temporary folder.
//!
//! `TOOLCRIB_STARTS=10000` makes them ten thousand.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::table::{new_tag, tagged, until};

/// How many programs are started in all.
const STARTS: usize = 1_000;
/// One of how many is started by a gateway of its own, which is killed.
const GATEWAYS: usize = 10;
/// How many such gateways there are at a time.
const AT_ONCE: usize = 5;

/// A program with a child that outlives its stdin and leaves a mark on its command line.
const SCRIPT: &str = "echo ready; sleep 1000 & cat";

fn starts() -> usize {
    std::env::var("TOOLCRIB_STARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(STARTS)
}

fn test_gateway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-gateway"));
    command.env("TMPDIR", folder).kill_on_drop(true);
    command
}

/// A gateway whose program runs.
async fn holding(folder: &Path, tag: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut gateway =
        test_gateway(folder).args(["hold", "sh", "-c", SCRIPT, tag]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
    while lines.next_line().await.unwrap().unwrap() != "ready" {}
    (gateway, lines)
}

/// Ended by the gateway with and without grace, dropped, and killed with their guards.
#[tokio::test]
async fn many_starts_and_ends_in_one_gateway_leave_nothing() {
    let (folder, tag) = (tempfile::tempdir().unwrap(), new_tag());
    let count = (starts() - starts() / GATEWAYS).to_string();
    let output = test_gateway(folder.path()).args(["churn", &count, "sh", "-c", SCRIPT, &tag]).output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "files 0 children 0\n");
    until("all are gone", || tagged(&tag).is_empty()).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn many_gateways_killed_with_sigkill_leave_nothing() {
    let (folder, tag) = (tempfile::tempdir().unwrap(), new_tag());
    for _ in 0..(starts() / GATEWAYS).div_ceil(AT_ONCE) {
        let mut gateways = Vec::new();
        for _ in 0..AT_ONCE {
            gateways.push(holding(folder.path(), &tag).await);
        }
        assert!(tagged(&tag).len() >= AT_ONCE, "each has its program");
        for (gateway, _) in &mut gateways {
            gateway.kill().await.unwrap();
        }
        until("all are gone", || tagged(&tag).is_empty()).await;
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
