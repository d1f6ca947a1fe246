//! Nothing outlives us: what the guard promises, one test for each sentence.
#![cfg(target_os = "linux")]

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::process::{Exit, ProcessLimits, Spec};

use crate::running::{RunningProcess, fake};
use crate::table::{kill, new_tag, session, tagged};

/// The fake server, its child, grandchild and great-grandchild; the last in a session of its own.
const FAMILY: usize = 4;

/// Starts a stand-in for the gateway that holds a fake server with its family.
async fn gateway(tag: &str, flags: &[&str]) -> (Child, i32) {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_test-gateway"))
        .args(["hold", toolcrib_testkit::fake_server().to_str().unwrap(), "--fork-grandchildren", "--tag", tag])
        .args(flags)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    let guard = first.strip_prefix("guard ").unwrap().parse().unwrap();
    eventually_holds("the family is there", || grown_up(tag, guard)).await;
    (gateway, guard)
}

fn grown_up(tag: &str, guard: i32) -> bool {
    let family = tagged(tag);
    family.len() == FAMILY && family.iter().filter(|pid| session(**pid) != Some(guard)).count() == 1
}

fn gone(pid: i32) -> bool {
    !std::fs::exists(format!("/proc/{pid}")).unwrap()
}

#[tokio::test]
async fn a_gateway_killed_with_sigkill_leaves_no_descendant() {
    for flags in [&[][..], &["--ignore-sigterm"]] {
        let tag = new_tag();
        let (mut gateway, guard) = gateway(&tag, flags).await;
        gateway.kill().await.unwrap();
        eventually_holds("all are gone", || tagged(&tag).is_empty()).await;
        eventually_holds("the guard is gone", || gone(guard)).await;
    }
}

#[tokio::test]
async fn a_guard_told_to_end_takes_all_with_it() {
    let tag = new_tag();
    let (mut gateway, guard) = gateway(&tag, &["--ignore-sigterm"]).await;
    kill(guard, Signal::TERM);
    eventually_holds("all are gone", || tagged(&tag).is_empty()).await;
    assert!(gateway.wait().await.unwrap().success(), "the gateway has seen the end");
    assert!(gone(guard), "and has reaped the guard");
}

#[tokio::test]
async fn a_program_that_ends_by_itself_leaves_no_one() {
    // SIGTERM reaches every descendant, or this waits for ten minutes; SIGKILL those who ignore it.
    for (grace, flags) in [(Duration::from_secs(600), &[][..]), (Duration::from_millis(50), &["--ignore-sigterm"])] {
        let tag = new_tag();
        let limits = ProcessLimits { grace, ..ProcessLimits::default() };
        let flags = [&["--fork-grandchildren", "--exit-after", "2", "--tag", &tag], flags].concat();
        let mut running = RunningProcess::start(&Spec { limits, ..fake(&flags) });
        running.initialize().await;
        let guard = i32::try_from(running.process.pid()).unwrap();
        eventually_holds("the family is there", || grown_up(&tag, guard)).await;
        running.request(1, "ping", serde_json::json!({})).await;
        let exit = tokio::time::timeout(Duration::from_secs(60), running.process.exited()).await;
        assert_eq!(exit, Ok(Exit::Code(4)));
        assert!(tagged(&tag).is_empty());
    }
}

#[tokio::test]
async fn dropping_a_process_ends_its_whole_family() {
    let tag = new_tag();
    let mut running = RunningProcess::start(&fake(&["--fork-grandchildren", "--ignore-sigterm", "--tag", &tag]));
    running.initialize().await;
    let guard = i32::try_from(running.process.pid()).unwrap();
    eventually_holds("the family is there", || grown_up(&tag, guard)).await;
    let exited = running.process.exited();
    drop(running.process);
    assert_eq!(exited.await, Exit::Signal(9));
    assert!(tagged(&tag).is_empty());
}

#[tokio::test]
async fn a_killed_guard_takes_the_program_and_its_session_with_it() {
    let tag = new_tag();
    let mut running = RunningProcess::start(&fake(&["--fork-grandchildren", "--ignore-sigterm", "--tag", &tag]));
    running.initialize().await;
    let guard = i32::try_from(running.process.pid()).unwrap();
    eventually_holds("the family is there", || grown_up(&tag, guard)).await;
    kill(guard, Signal::KILL);
    assert_eq!(running.process.exited().await, Exit::Lost);
    eventually_holds("the session is empty", || tagged(&tag).len() <= 1).await;
    // Documented: who has left the session stays when the guard itself is killed.
    for pid in tagged(&tag) {
        assert_ne!(session(pid), Some(guard));
        kill(pid, Signal::KILL);
    }
}

#[tokio::test]
async fn a_program_dies_when_its_guard_and_its_gateway_are_killed_together() {
    let tag = new_tag();
    let (mut gateway, guard) = gateway(&tag, &["--ignore-sigterm"]).await;
    let server = tagged(&tag).into_iter().min().unwrap();
    gateway.start_kill().unwrap();
    kill(guard, Signal::KILL);
    eventually_holds("the program is gone", || gone(server)).await;
    gateway.wait().await.unwrap();
    for pid in tagged(&tag) {
        kill(pid, Signal::KILL);
    }
}

#[tokio::test]
async fn a_guard_started_by_hand_says_so() {
    for args in [&[][..], &["--grace-ms", "x", "--", "true"], &["--grace-ms", "1", "true"], &["--grace-ms", "1", "--"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_test-gateway")).arg("guard").args(args).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("used by toolcrib itself"), "{args:?}");
    }
    let args = ["guard", "--grace-ms", "1", "--", "true"];
    let output = Command::new(env!("CARGO_BIN_EXE_test-gateway")).args(args).output().await.unwrap();
    assert_eq!(output.status.code(), Some(126), "no lifeline");
}

#[tokio::test]
async fn a_program_may_open_as_many_files_as_before_we_asked_for_more() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // What many systems give a process that does not ask.
    setrlimit(Resource::Nofile, Rlimit { current: Some(512), ..limit }).unwrap();
    toolcrib_transport::process::raise_file_limit();
    let now = getrlimit(Resource::Nofile).current;
    assert!(now.is_none_or(|now| now > 512), "{now:?} of {:?}", limit.maximum);
    let guard = crate::running::guard();
    let mut program = RunningProcess::start(&Spec { guard, ..crate::running::shell("ulimit -S -n") });
    assert_eq!(program.text().await, "512");
}
