//! What happens when a server ends or cannot start.

use std::time::Duration;

use serde_json::json;
use tokio::time::advance;
use toolcrib_base::Kind;
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::LinkError;
use toolcrib_upstream::{CallError, Endpoint, State};

use crate::world::{World, config, fake, hold_time, kill, logged, shell};

#[tokio::test]
async fn calls_in_flight_at_a_crash_fail_at_once_and_are_not_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("stdin");
    let world = World::ready(logged(&[], &log)).await;
    let pid = world.tool("pid", json!({})).await.unwrap();
    let first = world.call_slow(3_600_000).await;
    let second = world.call_slow(3_600_000).await;
    kill(&pid);
    for call in [first, second] {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(matches!(error, CallError::Link { error: LinkError::Closed, .. }), "{error}");
    }
    world.until(State::Failed).await;
    world.until(State::Ready).await;
    world.echo().await;
    let sent = std::fs::read_to_string(&log).unwrap();
    assert_eq!(sent.matches(r#""slow""#).count(), 2, "each call was sent once:\n{sent}");
    assert_eq!(sent.matches(r#""initialize""#).count(), 2);
}

#[tokio::test]
async fn a_crash_is_told_with_its_exit_code_and_the_end_of_stderr() {
    let world = World::new(fake(&["--exit-at-start"]));
    let error = world.until(State::Failed).await.last_error.unwrap();
    assert_eq!(
        error,
        "the program ended with exit code 3; stderr ends with: fake-server: cannot start: no license for the moon"
    );
    let world = World::ready(fake(&[])).await;
    kill(&world.tool("pid", json!({})).await.unwrap());
    let status = world.until(State::Failed).await;
    assert_eq!(status.last_error.as_deref(), Some("its program ended with signal 9"));
    assert!(status.next_retry.unwrap() > status.since);
    let error = world.tool("echo", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("signal 9, next attempt at 20"), "{error}");
}

#[tokio::test]
async fn a_crash_while_it_is_listed_is_told_as_a_crash() {
    let error = World::new(fake(&["--exit-after", "2"])).until(State::Failed).await.last_error.unwrap();
    assert_eq!(error, "its program ended with exit code 4");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let endpoint =
        Endpoint::Stdio { program: "no-such-program".into(), args: vec![], env: vec![], inherit: vec![], cwd: None };
    let error = World::new(config(endpoint)).until(State::Failed).await.last_error.unwrap();
    assert_eq!(error, "start `no-such-program`: no such program");
}

#[tokio::test]
async fn a_server_of_a_revision_that_no_one_knows_is_refused() {
    let error = World::new(fake(&["--revision", "2031-01-01"])).until(State::Failed).await.last_error.unwrap();
    assert!(error.contains("unknown revision `2031-01-01`"), "{error}");
}

#[tokio::test]
async fn old_revisions_are_spoken() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        World::ready(fake(&["--revision", revision])).await.echo().await;
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_follow_each_other_at_growing_intervals() {
    let world = World::new(shell("exit 7"));
    hold_time(&world.scope);
    for (restarts, most) in [500, 1_000, 2_000, 4_000].into_iter().enumerate() {
        eventually_holds("it has failed again", || {
            let status = world.server.status();
            status.state == State::Failed && status.restarts as usize == restarts
        })
        .await;
        let status = world.server.status();
        let wait = status.next_retry.unwrap().since(status.since);
        assert!((most / 2..=most).contains(&wait), "{wait} ms are not within half of {most}");
        advance(Duration::from_millis(wait - 1)).await;
        assert_eq!(world.server.status().restarts as usize, restarts, "not before its time");
        advance(Duration::from_millis(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_is_ready_again() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("works");
    let fake = toolcrib_testkit::fake_server();
    let script = format!("test -e '{}' && exec '{}'; exit 1", flag.display(), fake.display());
    let world = World::new(shell(&script));
    hold_time(&world.scope);
    world.until(State::Failed).await;
    std::fs::write(&flag, "").unwrap();
    advance(Duration::from_millis(501)).await;
    let status = world.until(State::Ready).await;
    assert_eq!((status.last_error, status.next_retry, status.restarts), (None, None, 1));
    world.echo().await;
}
#[tokio::test]
async fn an_error_of_a_legacy_tool_that_looks_modern_is_an_error_of_that_tool() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let world = World::ready(logged(&[], &log)).await;
    let call = json!({"name": "rpc_error", "arguments": {"code": -32_022}});
    assert_eq!(world.request("tools/call", call).await.unwrap()["code"], -32_022);
    let sent = std::fs::read_to_string(&log).unwrap();
    assert_eq!(sent.lines().filter(|line| line.contains("rpc_error")).count(), 1, "it has run, and failed by itself");
    assert_eq!(world.server.status().restarts, 0);
}
