//! Servers that are made to hurt: answers that never end, come slowly or are too large, names whose addresses change.

use serde_json::json;
use toolcrib_login::{LoginSettings, LoginTarget};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::provider::RemoteRules;

use crate::scripted::{answer_of, open, server};
use crate::world::World;

fn is_metadata(request: &Request) -> bool {
    request.target == "/.well-known/oauth-authorization-server"
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    for announced in [false, true] {
        let server = server(move |request, reply| {
            if !is_metadata(request) {
                return false;
            }
            if announced {
                reply.raw("HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 1099511627776\r\n\r\n{");
                reply.hang();
            } else {
                reply.head(200, &["content-type: application/json"]);
                for _ in 0..3 * 1024 {
                    reply.chunk([b' '; 1024]);
                }
                reply.hang();
            }
            true
        });
        let (_, opened) = open(&server).await;
        let text = "finding out how to log in at `127.0.0.1` failed: the answer has a body of more than \
                    1048576 bytes";
        assert_eq!(opened.unwrap_err().to_string(), text);
    }
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let server = server(|request, reply| {
        if is_metadata(request) {
            reply.raw("HTTP/1.1 200 x\r\n");
            for _ in 0..100 {
                reply.raw(format!("x-a: {}\r\n", "b".repeat(1024)));
            }
            reply.hang();
        }
        is_metadata(request)
    });
    let (_, opened) = open(&server).await;
    let text = opened.unwrap_err().to_string();
    assert!(text.starts_with("finding out how to log in at `127.0.0.1` failed: "), "{text}");
    assert!(text.contains("the response head has more than 65536 bytes"), "{text}");
}

#[tokio::test]
async fn a_server_that_answers_slowly_is_not_waited_for() {
    let server = server(|request, reply| {
        if is_metadata(request) {
            reply.raw("HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{");
            reply.hang();
        }
        is_metadata(request)
    });
    let asked = eventually_holds("the slow request", || server.requests().iter().any(is_metadata));
    // From then on time is as fast as can be.
    let ((_, opened), ()) = tokio::join!(open(&server), async {
        asked.await;
        tokio::time::pause();
    });
    let text = "finding out how to log in at `127.0.0.1` failed: no answer within 10 seconds";
    assert_eq!(opened.unwrap_err().to_string(), text);
}

#[tokio::test]
async fn a_stream_of_events_is_no_reason_to_wait() {
    // Servers of MCP answer a GET with a stream that never ends.
    let server = server(|request, reply| {
        if request.target == "/mcp" {
            reply.head(200, &["content-type: text/event-stream"]);
            reply.hang();
        }
        request.target == "/mcp"
    });
    let (_, opened) = open(&server).await;
    assert!(opened.unwrap().starts_with(&format!("http://{}/authorize?", server.address())));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = HttpServer::start(|_, reply| reply.json(&[], &json!({"access_token": "a"})));
    let there = elsewhere.address();
    for target in
        ["/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/register"]
    {
        for status in [301, 302, 307, 308] {
            let server = server(move |request, reply| {
                if request.target == target {
                    reply.full(status, &[&format!("location: http://{there}{target}")], "");
                }
                request.target == target
            });
            drop(open(&server).await);
        }
    }
    // The token endpoint would send the code along.
    let server = server(move |request, reply| {
        if request.target == "/token" {
            reply.full(307, &[&format!("location: http://{there}/token")], "");
        }
        request.target == "/token"
    });
    let (world, opened) = open(&server).await;
    let error = world.complete(&answer_of(&opened.unwrap())).await.unwrap_err();
    let text = "asking for a token at `127.0.0.1` failed: it answers with a redirect, which logins do not follow";
    assert_eq!(error.to_string(), text);
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_host_is_resolved_once_and_connected_to_where_it_was_checked() {
    let server = server(|_, _| false);
    let mut world = World::new(RemoteRules::default());
    let port = server.address().port();
    world.point_to(&format!("http://sim.localhost:{port}/mcp"));
    // The second look-up of a request, if there were one, would give another address.
    let good: &[&str] = &["127.0.0.1"];
    let answers: Vec<&[&str]> = (0..64).map(|_| good).collect();
    world.resolver.answer("sim.localhost", &answers);
    world.open(&world.ticket().await).await.unwrap();
    assert_eq!(world.resolver.questions.lock().unwrap().len(), server.requests().len());
    assert!(server.requests().iter().all(|request| request.header("host") == Some(&format!("sim.localhost:{port}"))));
    // From now on it is somewhere else.
    world.resolver.answer("sim.localhost", &[&["169.254.169.254"]]);
    let before = server.requests().len();
    let error = world.open(&world.ticket().await).await.unwrap_err();
    let text = "finding out how to log in at `sim.localhost` failed: `sim.localhost` has the address 169.254.169.254, \
                which no server may have";
    assert_eq!(error.to_string(), text);
    world.resolver.answer("sim.localhost", &[&["127.0.0.1", "10.0.0.1"]]);
    let error = world.open(&world.ticket().await).await.unwrap_err();
    assert!(error.to_string().contains("the private address 10.0.0.1; set `auth: {private: true}`"), "{error}");
    assert_eq!(server.requests().len(), before);
}

#[tokio::test]
async fn a_private_address_is_reached_where_the_definition_allows_it_and_a_link_local_one_never() {
    let server = server(|_, _| false);
    let mut world = World::new(RemoteRules::default());
    let url = format!("http://sim.localhost:{}/mcp", server.address().port());
    // One address that may not be connected to refuses all. The first one, which answers, is this machine's.
    for (private, others, refused) in [
        (false, &["127.0.0.1", "10.0.0.1"][..], Some("has the private address 10.0.0.1")),
        (true, &["127.0.0.1", "10.0.0.1"], None),
        (true, &["127.0.0.1", "192.168.7.7", "fd00::1"], None),
        (true, &["127.0.0.1", "169.254.169.254"], Some("has the address 169.254.169.254, which no server may have")),
        (true, &["127.0.0.1", "fe80::1"], Some("has the address fe80::1, which no server may have")),
    ] {
        world.settings.private = private;
        world.point_to(&url);
        world.resolver.answer("sim.localhost", &[others]);
        let before = server.requests().len();
        let opened = world.open(&world.ticket().await).await;
        let error = opened.err().map(|error| error.to_string());
        assert_eq!(error.is_some(), refused.is_some(), "{private} {others:?}: {error:?}");
        assert!(refused.is_none_or(|part| error.as_ref().unwrap().contains(part)), "{others:?}: {error:?}");
        assert_eq!(server.requests().len() > before, refused.is_none(), "{private} {others:?}");
    }
}

#[tokio::test]
async fn servers_elsewhere_are_reached_by_https_only() {
    let mut world = World::new(RemoteRules::default());
    world.point_to("http://mcp.example/mcp");
    let error = world.open(&world.ticket().await).await.unwrap_err();
    let text = "finding out how to log in at `mcp.example` failed: `http://mcp.example` is not reached: logins use `https`, \
                and `http` on this machine only";
    assert_eq!(error.to_string(), text);
    assert_eq!(world.resolver.questions.lock().unwrap().len(), 0);
    let target = |url| LoginTarget::new(world.server.clone(), url, LoginSettings::default());
    for url in ["", "file:///etc/passwd", "mcp.example", "unix:/run/x"] {
        assert_eq!(target(url).unwrap_err().to_string(), "`sim` has no `http` or `https` URL to log in to");
    }
}

#[tokio::test]
async fn a_server_that_publishes_nothing_is_said_to_do_so() {
    let server = HttpServer::start(|_, reply| reply.full(404, &[], "nothing"));
    let (_, opened) = open(&server).await;
    let text = "the login of `sim` is not offered in a way that can be used: it publishes nothing about logins, and no \
                client can register at its own address (status 404: nothing)";
    assert_eq!(opened.unwrap_err().to_string(), text);
}

#[tokio::test]
async fn what_a_provider_writes_is_shown_short_and_plain() {
    let server = server(|request, reply| {
        if request.target == "/token" {
            let text = format!("a\u{1b}[31mb\nc{}", "d".repeat(10_000));
            reply.full(400, &["content-type: application/json"], json!({"error": text}).to_string());
        }
        request.target == "/token"
    });
    let (world, opened) = open(&server).await;
    let text = world.complete(&answer_of(&opened.unwrap())).await.unwrap_err().to_string();
    assert!(text.len() < 400 && !text.contains(char::is_control), "{text:?}");
}
