//! After a stop, a restart or a retirement no process is left, and no one waits.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::eventually_holds;
use toolcrib_upstream::{CallError, Start, State};

use crate::world::{World, fake, known, with};

const GRACE: Duration = Duration::from_secs(30);

fn check_away(error: &CallError, state: State) {
    let CallError::Unavailable(away) = error else { panic!("{error}") };
    assert_eq!(away.status.state, state);
}

#[tokio::test]
async fn a_stopped_server_leaves_no_process_and_stays_stopped() {
    let world = World::ready(fake(&[])).await;
    world.server.order_stop();
    world.until(State::Stopped).await;
    assert_eq!(world.processes(), [0_i32; 0]);
    check_away(&world.tool("echo", json!({})).await.unwrap_err(), State::Stopped);
    assert!(world.tools().contains(&"echo".to_owned()), "what is known of it stays");
    world.server.order_start();
    world.until(State::Ready).await;
    world.echo().await;
}

#[tokio::test]
async fn an_idle_server_that_is_stopped_is_not_started_by_a_call() {
    let world = World::knowing(with(Start::Lazy, fake(&[])), Some(known()));
    world.server.order_stop();
    world.until(State::Stopped).await;
    check_away(&world.tool("echo", json!({})).await.unwrap_err(), State::Stopped);
    assert_eq!(world.processes(), [0_i32; 0]);
}

#[tokio::test]
async fn a_restarted_server_is_a_new_process() {
    let world = World::ready(fake(&[])).await;
    let before = world.tool("pid", json!({})).await.unwrap();
    world.server.order_restart();
    eventually_holds("it restarts", || world.server.status().restarts == 1).await;
    world.until(State::Ready).await;
    assert_ne!(world.tool("pid", json!({})).await.unwrap(), before);
    assert_eq!(world.processes().len(), 1);
}

#[tokio::test]
async fn a_failed_server_can_be_stopped_and_restarted_by_hand() {
    let world = World::new(fake(&["--exit-at-start"]));
    world.until(State::Failed).await;
    world.server.order_restart();
    eventually_holds("it is tried again", || world.server.status().restarts > 0).await;
    world.until(State::Failed).await;
    world.server.order_stop();
    let status = world.until(State::Stopped).await;
    assert_eq!(status.next_retry, None);
    assert!(status.last_error.unwrap().contains("no license"), "why it failed is still known");
}

#[tokio::test]
async fn a_retired_server_leaves_no_process_and_its_calls_fail_at_once() {
    for flags in [&[][..], &["--never-answer", "initialize"]] {
        let world = World::new(fake(flags));
        let last = if flags.is_empty() { State::Ready } else { State::Starting };
        world.until(last).await;
        world.server.retire(GRACE).await;
        assert_eq!(world.processes(), [0_i32; 0]);
        check_away(&world.tool("echo", json!({})).await.unwrap_err(), State::Stopped);
        world.server.order_start();
        check_away(&world.tool("echo", json!({})).await.unwrap_err(), State::Stopped);
    }
}

#[tokio::test]
async fn the_end_of_the_scope_ends_servers_that_do_not_want_to() {
    for flags in [&[][..], &["--ignore-sigterm"], &["--slow-start", "600000"]] {
        let world = World::new(fake(flags));
        eventually_holds("the process is there", || world.processes().len() == 1).await;
        assert!(world.scope.close(GRACE).await, "its tasks end by themselves");
        assert_eq!(world.processes(), [0_i32; 0], "{flags:?}");
    }
}
