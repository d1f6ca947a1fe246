//! Lists over HTTP: pages that never end, and changes that are told on the server's own stream.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::State;

use crate::mcp::{self, answer_to, count, event, method, stream};
use crate::world::{World, hold_time};

/// A server whose pages of tools are made by `page` from the number of the request.
fn pages(page: impl Fn(usize) -> Value + Send + Sync + 'static) -> HttpServer {
    let number = AtomicUsize::new(0);
    HttpServer::start(move |request, reply| match method(request).as_str() {
        "tools/list" => reply.json(&[], &answer_to(request, &page(number.fetch_add(1, Ordering::SeqCst)))),
        _ => mcp::answer(request, reply),
    })
}

#[tokio::test]
async fn a_cursor_that_comes_again_ends_the_list() {
    let server =
        pages(|number| json!({"tools": [{"name": format!("t{number}")}], "nextCursor": (["a", "b"][number % 2])}));
    let world = World::ready(mcp::config(&server)).await;
    assert_eq!(world.tools(), ["t0", "t1", "t2"]);
    let warnings = &world.server.inventory().warnings;
    assert_eq!(*warnings, ["`tools/list` returned the cursor `a` twice; the remaining pages are not read"]);
    let cursors: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| method(request) == "tools/list")
        .map(|request| request.json()["params"]["cursor"].clone())
        .collect();
    assert_eq!(cursors, [Value::Null, json!("a"), json!("b")]);
}

#[tokio::test]
async fn pages_without_end_are_read_up_to_a_bound() {
    let server = pages(|number| json!({"tools": [], "nextCursor": number.to_string()}));
    World::ready(mcp::config(&server)).await;
    assert_eq!(count(&server, "tools/list"), 1_000);
    let filler = "x".repeat(20 * 1024 * 1024);
    let server = pages(
        move |number| json!({"tools": [{"name": format!("t{number}")}], "x": filler, "nextCursor": number.to_string()}),
    );
    let world = World::ready(mcp::config(&server)).await;
    assert_eq!(world.tools(), ["t0", "t1", "t2"]);
    assert!(world.server.inventory().warnings[0].contains("bytes of `tools` are read"));
}

#[tokio::test]
async fn a_list_that_is_none_leaves_the_server_ready_without_tools() {
    for odd in [json!({}), json!({"tools": 7}), json!(null), json!([1])] {
        let server = pages(move |_| odd.clone());
        let world = World::ready(mcp::config(&server)).await;
        assert_eq!(world.tools(), [""; 0]);
        assert_eq!(world.server.inventory().warnings.len(), 1);
    }
}

/// Says that the tools have changed, `times` times, on each release; lists one tool more each time.
fn changing(times: usize) -> HttpServer {
    let listed = AtomicUsize::new(0);
    HttpServer::start(move |request, reply| match method(request).as_str() {
        "GET" => tell_changes(request, reply, times),
        "tools/list" => {
            let count = listed.fetch_add(1, Ordering::SeqCst) + 1;
            let tools: Vec<_> = (0..count).map(|number| json!({"name": format!("t{number}")})).collect();
            reply.json(&[], &answer_to(request, &json!({"tools": tools})));
        }
        _ => mcp::answer(request, reply),
    })
}

fn tell_changes(request: &Request, reply: &mut Reply<'_>, times: usize) {
    assert_eq!(request.header("mcp-session-id"), Some("s-1"));
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    stream(reply);
    for release in 1..4 {
        reply.wait_for_release(release);
        for _ in 0..times {
            let method = "notifications/tools/list_changed";
            reply.chunk(event(&json!({"jsonrpc": "2.0", "method": method})));
        }
    }
    reply.hang();
}

#[tokio::test]
async fn a_change_told_on_the_stream_is_read_again() {
    let server = changing(1);
    let mut world = World::ready(mcp::config(&server)).await;
    assert_eq!((world.tools().len(), world.inventories()), (1, 1));
    server.release();
    eventually_holds("the list was read again", || world.tools().len() == 2).await;
    world.echo().await;
    assert_eq!(world.inventories(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_gathered_and_read_at_most_once_a_second() {
    let server = changing(200);
    let world = World::new(mcp::config(&server));
    hold_time(&world.scope);
    world.until(State::Ready).await;
    eventually_holds("the stream is open", || count(&server, "GET") == 1).await;
    let wait = async |listed: usize, millis: u64| {
        server.release();
        // Two round trips: what was told before has arrived by then.
        let turns = || async {
            for _ in 0..20 {
                world.echo().await;
            }
        };
        turns().await;
        assert_eq!(count(&server, "tools/list"), listed, "changes are gathered first");
        advance(Duration::from_millis(millis / 2)).await;
        turns().await;
        assert_eq!(count(&server, "tools/list"), listed, "it is not time yet");
        advance(Duration::from_millis(millis / 2 + 2)).await;
        eventually_holds("the list was read again", || count(&server, "tools/list") == listed + 1).await;
        eventually_holds("it is known", || world.tools().len() == listed + 1).await;
        turns().await;
        assert_eq!(count(&server, "tools/list"), listed + 1, "once for all of them");
    };
    wait(1, 100).await;
    wait(2, 1_000).await;
}
