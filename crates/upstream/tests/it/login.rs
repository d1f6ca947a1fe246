//! Servers that want a login: named, and left alone until something changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_upstream::{ServerConfig, State};

use crate::mcp;
use crate::world::World;

/// A server that refuses with this status and challenge until the door is opened.
fn closed(status: u16, challenge: Option<&'static str>) -> (HttpServer, Arc<AtomicBool>) {
    let door = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&door);
    let server = HttpServer::start(move |request, reply| {
        if open.load(Ordering::Relaxed) {
            return mcp::answer(request, reply);
        }
        let header = challenge.map(|challenge| format!("www-authenticate: {challenge}"));
        let headers: Vec<&str> = header.iter().map(String::as_str).collect();
        reply.full(status, &headers, "{}");
    });
    (server, door)
}

const METADATA: &str = "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"";

#[tokio::test]
async fn a_server_that_wants_a_login_is_not_tried_again_by_itself() {
    let (server, door) = closed(401, Some(METADATA));
    let world = World::new(mcp::config(&server));
    let status = world.until(State::NeedsLogin).await;
    assert_eq!(status.last_error.as_deref(), Some("it requires an OAuth login"));
    assert!(status.listed && status.next_retry.is_none());
    let before = server.requests().len();
    let error = world.tool("echo", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("is needs-login since"), "{error}");
    world.server.order_start();
    let seen = world.server.inspect().await.unwrap_err();
    assert!(seen.needs_login && !seen.timed_out);
    assert_eq!(world.server.status().state, State::NeedsLogin);
    assert!(server.requests().len() > before, "whoever verifies it asks again");
    // Anyone who says so has it tried again, and it may be let in by now.
    door.store(true, Ordering::Relaxed);
    world.server.order_restart();
    world.until(State::Ready).await;
    world.echo().await;
}

#[tokio::test]
async fn a_verification_that_goes_well_ends_it() {
    let (server, door) = closed(401, Some(METADATA));
    let world = World::new(mcp::config(&server));
    world.until(State::NeedsLogin).await;
    door.store(true, Ordering::Relaxed);
    let seen = world.server.inspect().await.unwrap();
    world.server.learn(seen.inventory);
    world.until(State::Ready).await;
}

#[tokio::test]
async fn without_metadata_it_depends_on_what_is_known_of_the_server() {
    for (status, known, expected) in [
        (401, false, State::Failed),
        (403, false, State::Failed),
        (401, true, State::NeedsLogin),
        (403, true, State::NeedsLogin),
        (500, true, State::Failed),
    ] {
        let (server, _door) = closed(status, None);
        let world = World::new(ServerConfig { wants_login: known, ..mcp::config(&server) });
        eventually_holds("it has settled", || world.server.status().state.has_settled()).await;
        let now = world.server.status();
        assert_eq!(now.state, expected, "{status} {known}: {now:?}");
        if expected == State::Failed {
            assert!(now.last_error.unwrap().starts_with(&format!("HTTP status {status}")));
            assert!(now.next_retry.is_some());
        }
    }
}
