//! Quiet servers are asked whether they still answer. Time stands still here and moves by order.

use std::time::Duration;

use tokio::time::advance;
use toolcrib_testkit::eventually_holds;
use toolcrib_upstream::{ServerConfig, State};

use crate::world::{World, hold_time, logged};

const EVERY: Duration = Duration::from_secs(30);
const LIST: Duration = Duration::from_secs(10);

struct HealthFixture {
    world: World,
    log: tempfile::NamedTempFile,
}

impl HealthFixture {
    async fn start(flags: &[&str], change: impl FnOnce(&mut ServerConfig)) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut config = logged(flags, log.path());
        config.timeouts.list = LIST;
        change(&mut config);
        let world = World::new(config);
        hold_time(&world.scope);
        world.until(State::Ready).await;
        Self { world, log }
    }

    /// How often the server was sent this method.
    fn sent(&self, method: &str) -> usize {
        std::fs::read_to_string(self.log.path()).unwrap().matches(&format!("\"{method}\"")).count()
    }

    fn pings(&self) -> usize {
        self.sent("ping")
    }

    async fn until_pings(&self, count: usize) {
        eventually_holds("the ping has arrived", || self.pings() == count).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_pings_is_restarted() {
    let watched = HealthFixture::start(&["--never-answer", "ping"], |_| ()).await;
    advance(EVERY).await;
    watched.until_pings(1).await;
    assert_eq!(watched.world.server.status().state, State::Ready);
    advance(LIST + Duration::from_millis(2)).await;
    let status = watched.world.until(State::Failed).await;
    assert_eq!(status.last_error.as_deref(), Some("it does not answer: no answer within 10000 ms"));
    advance(Duration::from_secs(1)).await;
    assert_eq!(watched.world.until(State::Ready).await.restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_pings_stays() {
    let watched = HealthFixture::start(&[], |_| ()).await;
    for count in 1..=5 {
        advance(EVERY).await;
        watched.until_pings(count).await;
        watched.world.echo().await;
        advance(EVERY - Duration::from_millis(5)).await;
        watched.world.echo().await;
        advance(Duration::from_millis(5)).await;
        watched.world.echo().await;
        assert_eq!(watched.pings(), count, "a server that has just answered a call is not asked");
    }
    assert_eq!(watched.world.server.status().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_busy_with_a_call_is_not_taken_for_dead_before_the_call_s_deadline() {
    let watched = HealthFixture::start(&["--never-answer", "ping"], |config| config.timeouts.call = EVERY * 2).await;
    let call = watched.world.call_slow(3_600_000).await;
    advance(EVERY).await;
    watched.until_pings(1).await;
    advance(LIST + Duration::from_millis(2)).await;
    eventually_holds("the ping was given up", || watched.sent("notifications/cancelled") == 1).await;
    assert_eq!(watched.world.server.status().state, State::Ready);
    assert!(!call.is_finished());
    advance(EVERY - LIST).await;
    watched.until_pings(2).await;
    advance(LIST + Duration::from_millis(2)).await;
    watched.world.until(State::Failed).await;
    assert!(call.await.unwrap().is_err());
}
