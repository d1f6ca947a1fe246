//! A server that no one uses is stopped, and no one notices.

use std::time::Duration;

use serde_json::json;
use tokio::time::advance;
use toolcrib_testkit::eventually_holds;
use toolcrib_upstream::{ServerConfig, Start, State};

use crate::world::{World, fake, hold_time};

const IDLE: Duration = Duration::from_secs(600);
/// How long a program may take to answer, in real time.
const ANSWER: Duration = Duration::from_millis(100);

fn pausing(idle: Duration, config: ServerConfig) -> ServerConfig {
    ServerConfig { idle: Some(idle), start: Start::Lazy, ..config }
}

#[tokio::test]
async fn it_stops_without_a_trace_and_starts_again_for_the_next_call() {
    let world = World::ready(pausing(Duration::from_millis(50), fake(&[]))).await;
    for _ in 0..3 {
        world.until(State::Idle).await;
        eventually_holds("no process is left", || world.processes().is_empty()).await;
        assert!(world.tools().contains(&"echo".to_owned()), "what it offers stays known");
        world.echo().await;
    }
    let status = world.server.status();
    assert_eq!((status.restarts, status.last_error), (0, None));
}

#[tokio::test]
async fn calls_that_come_as_it_stops_are_all_answered() {
    let world = World::ready(pausing(Duration::from_millis(1), fake(&[]))).await;
    for _ in 0..20 {
        world.echo().await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn it_is_not_stopped_while_a_call_runs() {
    let world = World::ready(pausing(Duration::from_millis(20), fake(&[]))).await;
    world.tool("slow", json!({"ms": 500})).await.unwrap();
    world.until(State::Idle).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_not_stopped_while_someone_listens() {
    let world = World::new(pausing(IDLE, fake(&[])));
    hold_time(&world.scope);
    world.until(State::Ready).await;
    let item = world.server.subscribe(None, "file:///one");
    for _ in 0..4 {
        advance(IDLE).await;
        world.echo().await;
        assert_eq!(world.server.status().restarts, 0);
    }
    let pid = world.tool("pid", json!({})).await.unwrap();
    advance(IDLE * 2).await;
    assert_eq!(world.tool("pid", json!({})).await.unwrap(), pid, "the same process all the time");
    drop(item);
    while world.server.status().state != State::Idle {
        advance(IDLE).await;
        // Its health is checked in the meantime, and the program answers in its own time.
        let looked = std::time::Instant::now();
        while world.server.status().state != State::Idle && looked.elapsed() < ANSWER {
            tokio::task::yield_now().await;
        }
    }
    eventually_holds("no process is left", || world.processes().is_empty()).await;
}
