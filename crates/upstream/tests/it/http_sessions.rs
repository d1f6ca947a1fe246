//! Sessions over HTTP: forgotten ones, farewells, and what the server asks on its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_protocol::{Notification, Raw};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_transport::LinkError;
use toolcrib_upstream::Call;
use toolcrib_upstream::{CallError, State};

use crate::mcp::{self, answer_to, count, event, method, stream, text};
use crate::world::World;

/// A server that gives a new session at each `initialize`, knows only the last one, and calls `called` for tools.
fn forgetful(forget: impl Fn() -> bool + Send + Sync + 'static) -> (HttpServer, Arc<AtomicUsize>) {
    let (opened, ran) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let runs = Arc::clone(&ran);
    let server = HttpServer::start(move |request, reply| {
        let name = method(request);
        if name == "initialize" {
            let number = opened.fetch_add(1, Ordering::SeqCst) + 1;
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}});
            return reply.json(&[&format!("mcp-session-id: s-{number}")], &answer_to(request, &result));
        }
        let current = format!("s-{}", opened.load(Ordering::SeqCst));
        if request.header("mcp-session-id") != Some(&current) || (name == "tools/call" && forget()) {
            return reply.full(404, &[], "no such session");
        }
        if name == "tools/call" {
            runs.fetch_add(1, Ordering::SeqCst);
            let token = &request.json()["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": 1});
            stream(reply);
            reply.chunk(event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})));
            reply.chunk(event(&answer_to(request, &text("done"))));
            return reply.end();
        }
        mcp::answer(request, reply);
    });
    (server, ran)
}

#[tokio::test]
async fn a_forgotten_session_is_reopened_and_the_call_runs_once() {
    let first = AtomicBool::new(true);
    let (server, ran) = forgetful(move || first.swap(false, Ordering::SeqCst));
    let world = World::ready(mcp::config(&server)).await;
    let progress = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&progress);
    let call = Call {
        handler: Some(Arc::new(move |_: Notification| *seen.lock().unwrap() += 1)),
        wants_progress: true,
        ..Call::default()
    };
    let params = Raw::from_value(&json!({"name": "echo"}));
    let result = world.server.call("tools/call", &params, call).await.unwrap().unwrap();
    assert_eq!(result.to_value(), text("done"));
    assert_eq!(*progress.lock().unwrap(), 1, "the second attempt reports its progress too");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!((count(&server, "initialize"), count(&server, "tools/call")), (2, 2));
    let status = world.until(State::Ready).await;
    assert_eq!((status.restarts, status.last_error), (1, None));
}

#[tokio::test]
async fn a_server_that_forgets_every_session_does_not_make_a_call_run_in_circles() {
    let (server, ran) = forgetful(|| true);
    let world = World::ready(mcp::config(&server)).await;
    let error = world.tool("echo", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Link { error: LinkError::SessionLost, .. }), "{error}");
    assert_eq!((count(&server, "initialize"), count(&server, "tools/call")), (2, 2));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn many_calls_on_a_forgotten_session_open_one_new_one() {
    let (server, ran) = forgetful(|| false);
    let world = World::ready(mcp::config(&server)).await;
    // Someone else opens a session: ours is forgotten.
    let other = World::ready(mcp::config(&server)).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let server = world.server.clone();
            let params = Raw::from_value(&json!({"name": "echo"}));
            world.scope.spawn(async move { server.call("tools/call", &params, Call::default()).await })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(ran.load(Ordering::SeqCst), 20);
    assert_eq!(count(&server, "initialize"), 3);
    drop(other);
}

#[tokio::test]
async fn a_404_without_a_session_is_a_refusal() {
    let server = HttpServer::start(|request, reply| match method(request).as_str() {
        "initialize" => {
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}});
            reply.json(&[], &answer_to(request, &result));
        }
        "tools/call" => reply.full(404, &[], "nothing here"),
        _ => mcp::answer(request, reply),
    });
    let world = World::ready(mcp::config(&server)).await;
    let error = world.tool("echo", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "server `fake`: HTTP status 404: nothing here");
    assert_eq!(count(&server, "initialize"), 1);
    world.server.order_stop();
    world.until(State::Stopped).await;
    assert_eq!(count(&server, "DELETE"), 0, "there is no session to end");
}

#[tokio::test]
async fn a_session_is_deleted_at_the_end() {
    let server = HttpServer::start(mcp::answer);
    let world = World::ready(mcp::config(&server)).await;
    world.server.order_stop();
    world.until(State::Stopped).await;
    let requests = server.requests();
    let farewell = requests.iter().find(|request| request.method == "DELETE").unwrap();
    assert_eq!(farewell.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn what_the_server_asks_is_answered() {
    let server = HttpServer::start(|request, reply| match method(request).as_str() {
        "tools/call" => {
            stream(reply);
            for (id, method) in [("p", "ping"), ("s", "sampling/createMessage")] {
                reply.chunk(event(&json!({"jsonrpc": "2.0", "id": id, "method": method})));
            }
            reply.wait_for_release(1);
            reply.chunk(event(&answer_to(request, &text("ü"))));
            reply.end();
        }
        _ => mcp::answer(request, reply),
    });
    let world = World::ready(mcp::config(&server)).await;
    let answers = || -> Vec<Value> {
        let requests = server.requests();
        requests
            .iter()
            .map(toolcrib_testkit::http::Request::json)
            .filter(|json| json["method"].is_null() && json["id"].is_string())
            .collect()
    };
    tokio::join!(world.echo(), async {
        eventually_holds("both are answered", || answers().len() == 2).await;
        server.release();
    });
    let mut answers = answers();
    answers.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!("s"), &json!(-32_601)));
}

#[tokio::test]
async fn a_server_that_asks_without_end_does_not_make_us_open_connections_without_end() {
    let server = HttpServer::start(|request, reply| match method(request).as_str() {
        "tools/call" => {
            stream(reply);
            for id in 0..2_000 {
                reply.chunk(event(&json!({"jsonrpc": "2.0", "id": format!("p{id}"), "method": "ping"})));
            }
            reply.chunk(event(&answer_to(request, &text("ü"))));
            reply.end();
        }
        _ if request.json()["method"].is_null() && request.method == "POST" => reply.hang(),
        _ => mcp::answer(request, reply),
    });
    World::ready(mcp::config(&server)).await.echo().await;
    assert!(server.most_connections() <= 68, "{} connections", server.most_connections());
}
