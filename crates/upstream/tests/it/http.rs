//! Answers over HTTP: as JSON, as streams, as refusals, and not at all.

use std::time::Duration;

use serde_json::json;
use toolcrib_base::{Kind, Secret};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_transport::LinkError;
use toolcrib_upstream::{CallError, Endpoint, State};

use crate::mcp::{self, answer_to, count, event, method, stream, text};
use crate::world::{World, config};

#[tokio::test]
async fn answers_come_as_json_or_as_a_stream() {
    for streamed in [false, true] {
        let server = HttpServer::start(move |request, reply| {
            if !streamed || request.json()["id"].is_null() || method(request) == "initialize" {
                return mcp::answer(request, reply);
            }
            let result =
                if method(request) == "tools/call" { text("ü") } else { json!({"tools": [{"name": "echo"}]}) };
            stream(reply);
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}});
            let bytes = [": hello\n\n", &event(&progress), &event(&answer_to(request, &result))].concat();
            // Cut inside of a character too.
            bytes.as_bytes().chunks(7).for_each(|piece| reply.chunk(piece));
            // The stream stays open: the answer counts, not the end.
            reply.hang();
        });
        let world = World::ready(mcp::config(&server)).await;
        world.echo().await;
    }
}

#[tokio::test]
async fn session_revision_and_own_headers_are_sent() {
    let server = HttpServer::start(mcp::answer);
    let headers = [("x-key".to_owned(), Secret::new("hunter2"))];
    let world = World::ready(config(Endpoint::http(&server.url(), &headers))).await;
    world.echo().await;
    for request in server.requests() {
        let opening = method(&request) == "initialize";
        assert_eq!(request.header("mcp-session-id"), (!opening).then_some("s-1"), "{request:?}");
        assert_eq!(request.header("mcp-protocol-version"), (!opening).then_some("2025-06-18"));
        assert_eq!(request.header("x-key"), Some("hunter2"));
        assert_eq!(request.header("authorization"), None);
        if request.method == "POST" {
            assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
        }
    }
    assert!(!format!("{:?}", world.server).contains("hunter2"), "a secret is not printed");
}

#[tokio::test]
async fn refusals_are_told_with_their_status_and_the_beginning_of_their_body() {
    let page = format!("Internal Server Error {}", "x".repeat(100_000));
    for (status, body) in [(401, "who are you?".to_owned()), (403, String::new()), (429, "slow".into()), (500, page)] {
        let answer = body.clone();
        let server = HttpServer::start(move |request, reply| match method(request).as_str() {
            "tools/call" => reply.full(status, &["content-type: text/html"], &answer),
            _ => mcp::answer(request, reply),
        });
        let world = World::ready(mcp::config(&server)).await;
        let error = world.tool("echo", json!({})).await.unwrap_err();
        assert_eq!(error.kind(), Kind::BadServer);
        let CallError::Link { error: LinkError::Status { status: got, body: got_body, .. }, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*got, got_body.as_str()), (status, &body[..body.len().min(2_000)]));
        assert_eq!(world.server.status().state, State::Ready, "one refused call is no failure of the server");
        assert_eq!(count(&server, "tools/call"), 1);
    }
}

#[tokio::test]
async fn a_refused_handshake_is_a_failure_with_its_reason() {
    let server = HttpServer::start(|_, reply| reply.full(401, &[], "token expired"));
    let status = World::new(mcp::config(&server)).until(State::Failed).await;
    assert_eq!(status.last_error.as_deref(), Some("HTTP status 401: token expired"));
    assert!(status.next_retry.is_some());
    let server = HttpServer::start(|_, reply| reply.full(200, &["content-type: text/html"], "<html>"));
    let status = World::new(mcp::config(&server)).until(State::Failed).await;
    assert_eq!(status.last_error.as_deref(), Some("the answer is not MCP: content type `text/html`"));
}

#[tokio::test]
async fn an_address_where_no_one_listens_is_tried_again() {
    let server = HttpServer::start(mcp::answer);
    let (definition, address) = (mcp::config(&server), server.address());
    drop(server);
    let world = World::new(definition);
    let status = world.until(State::Failed).await;
    let error = status.last_error.unwrap();
    assert!(error.starts_with("cannot connect") && error.contains("refused"), "{error}");
    assert!(status.next_retry.unwrap() > status.since);
    let _back = HttpServer::start_at(address, mcp::answer);
    world.server.order_restart();
    world.until(State::Ready).await;
    world.echo().await;
}

#[tokio::test]
async fn a_server_that_went_away_fails_at_the_next_call_and_comes_back() {
    let server = HttpServer::start(mcp::answer);
    let address = server.address();
    let world = World::ready(mcp::config(&server)).await;
    drop(server);
    // The first call may still find an open connection in the pool; the second one cannot connect.
    for _ in 0..2 {
        let error = world.tool("echo", json!({})).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    }
    world.until(State::Failed).await;
    let _back = HttpServer::start_at(address, mcp::answer);
    world.until(State::Ready).await;
    world.echo().await;
}

#[tokio::test]
async fn a_server_that_never_answers_holds_up_only_its_own_calls() {
    let hung = HttpServer::start(|request, reply| match method(request).as_str() {
        "tools/call" => reply.hang(),
        _ => mcp::answer(request, reply),
    });
    let fine = HttpServer::start(mcp::answer);
    let mut definition = mcp::config(&hung);
    definition.timeouts.call = Duration::from_secs(2);
    let (hung_world, fine_world) = (World::ready(definition).await, World::ready(mcp::config(&fine)).await);
    let (lost, ()) = tokio::join!(hung_world.tool("echo", json!({})), async {
        for _ in 0..20 {
            fine_world.echo().await;
        }
    });
    let error = lost.unwrap_err();
    assert_eq!(error.to_string(), "server `fake`: no answer within 2000 ms");
    eventually_holds("the server was told", || count(&hung, "notifications/cancelled") == 1).await;
    let silent = HttpServer::start(|_, reply| reply.hang());
    let mut definition = mcp::config(&silent);
    definition.timeouts.connect = Duration::from_secs(2);
    let status = World::new(definition).until(State::Failed).await;
    assert_eq!(status.last_error.as_deref(), Some("no answer within 2000 ms"));
    assert_eq!(count(&silent, "notifications/cancelled"), 0, "a handshake must not be cancelled");
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_is_told_and_not_repeated() {
    let server = HttpServer::start(|request, reply| match method(request).as_str() {
        "tools/call" => {
            stream(reply);
            reply.chunk("data: {\"jsonrpc\":");
            reply.close();
        }
        _ => mcp::answer(request, reply),
    });
    let world = World::ready(mcp::config(&server)).await;
    let error = world.tool("echo", json!({})).await.unwrap_err();
    assert!(matches!(&error, CallError::Link { error: LinkError::Broken(_), .. }), "{error}");
    assert_eq!(count(&server, "tools/call"), 1);
}

#[tokio::test]
async fn a_notification_answered_with_200_and_nothing_is_fine() {
    let server = HttpServer::start(|request, reply| match method(request).as_str() {
        "notifications/initialized" => reply.full(200, &[], ""),
        _ => mcp::answer(request, reply),
    });
    World::ready(mcp::config(&server)).await.echo().await;
}

#[tokio::test]
async fn odd_events_beside_the_answer_do_not_fail_the_call() {
    let server = HttpServer::start(|request, reply| match method(request).as_str() {
        "tools/call" => {
            stream(reply);
            reply.chunk("event: ping\ndata: 2026-01-01\n\n: comment\n\nid: 7\n\ndata:\n\nretry: 5\n\n");
            reply.chunk("data: INFO not json\n\ndata: {\"id\":1}\n\n");
            reply.chunk("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\n");
            reply.chunk(event(&answer_to(request, &text("ü"))).replace("data", "event: message\ndata"));
            reply.end();
        }
        _ => mcp::answer(request, reply),
    });
    World::ready(mcp::config(&server)).await.echo().await;
}
