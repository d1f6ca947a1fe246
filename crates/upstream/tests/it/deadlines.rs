//! Each wait for a server ends by its own deadline, or sooner by an order.

use std::time::Duration;

use serde_json::json;
use toolcrib_base::Kind;
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::LinkError;
use toolcrib_upstream::{CallError, ServerConfig, Start, State, Timeouts};

use crate::world::{World, fake, known, shell, with};

const SOON: Duration = Duration::from_secs(2);

fn timeouts(config: ServerConfig, change: impl FnOnce(&mut Timeouts)) -> ServerConfig {
    let mut config = config;
    change(&mut config.timeouts);
    config
}

#[tokio::test]
async fn a_handshake_ends_by_its_deadline_and_tells_what_the_server_wrote() {
    let script = "echo 'waiting for a license' >&2; while read line; do :; done";
    let world = World::new(timeouts(shell(script), |timeouts| timeouts.connect = SOON));
    let error = world.until(State::Failed).await.last_error.unwrap();
    assert_eq!(error, "no answer within 2000 ms; stderr ends with: waiting for a license");
}

#[tokio::test]
async fn a_program_that_closes_stdout_fails_before_the_deadline() {
    let error = World::new(shell("echo bye >&2; exec cat >/dev/null")).until(State::Failed).await.last_error.unwrap();
    assert_eq!(error, "the program closed stdout; stderr ends with: bye");
}

#[tokio::test]
async fn a_list_ends_by_its_deadline() {
    let config = timeouts(fake(&["--never-answer", "tools/list"]), |timeouts| timeouts.list = SOON);
    let error = World::new(config).until(State::Failed).await.last_error.unwrap();
    assert_eq!(error, "its tools cannot be listed: no answer within 2000 ms");
}

#[tokio::test]
async fn a_list_that_hangs_does_not_take_the_others_with_it() {
    let config = timeouts(fake(&["--never-answer", "prompts/list"]), |timeouts| timeouts.list = SOON);
    let world = World::ready(config).await;
    assert!(world.tools().contains(&"echo".to_owned()));
    assert!(world.server.inventory().warnings[0].contains("`prompts/list` failed: no answer within"));
}

#[tokio::test]
async fn a_call_ends_by_its_deadline_and_is_cancelled_at_the_server() {
    let world = World::ready(timeouts(fake(&[]), |timeouts| timeouts.call = Duration::from_millis(1_500))).await;
    let error = world.tool("slow", json!({"ms": 3_600_000})).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(matches!(error, CallError::Link { error: LinkError::Timeout(_), .. }), "{error}");
    let cancelled = world.tool("cancelled", json!({})).await.unwrap();
    assert_ne!(cancelled, "[]");
    assert_eq!(world.server.status().state, State::Ready, "a slow tool is no failure of its server");
}

#[tokio::test]
async fn a_first_call_waits_no_longer_than_the_handshake_may_take() {
    let config = timeouts(fake(&["--never-answer", "initialize"]), |timeouts| timeouts.connect = SOON);
    let world = World::knowing(with(Start::Lazy, config), Some(known()));
    let error = world.tool("echo", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn a_hanging_server_holds_up_no_one_else() {
    let hanging = World::ready(fake(&["--never-answer", "tools/call"])).await;
    let other = World::ready(fake(&[])).await;
    let server = hanging.server.clone();
    let call = hanging.scope.spawn(async move {
        let params = toolcrib_protocol::Raw::from_value(&json!({"name": "echo"}));
        server.call("tools/call", &params, toolcrib_upstream::Call::default()).await.map(drop)
    });
    for _ in 0..20 {
        other.echo().await;
    }
    assert_eq!(hanging.request("prompts/get", json!({"name": "plain"})).await.unwrap()["description"], "A prompt");
    assert!(!call.is_finished());
    hanging.server.order_stop();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Link { error: LinkError::Closed, .. }), "{error}");
}

#[tokio::test]
async fn orders_do_not_wait_for_deadlines() {
    for hangs in ["initialize", "tools/list"] {
        let world = World::new(fake(&["--never-answer", hangs]));
        world.until(State::Starting).await;
        eventually_holds("the process is there", || world.processes().len() == 1).await;
        let before = world.processes();
        world.server.order_restart();
        eventually_holds("it starts anew", || world.server.status().restarts == 1).await;
        eventually_holds("another process is there", || world.processes().len() == 1 && world.processes() != before)
            .await;
        world.server.order_stop();
        world.until(State::Stopped).await;
        assert_eq!(world.processes(), [0_i32; 0], "{hangs}");
    }
}
