//! Answers are read within bounds, however they arrive.

use bytes::Bytes;
use http::HeaderMap;
use toolcrib_protocol::sse::Event;
use toolcrib_testkit::http::{HttpServer, Reply};
use toolcrib_transport::LinkError;
use toolcrib_transport::http::client::{HttpClient, PostResponse, Reply as Body};
use toolcrib_transport::http::events::EventStream;

use super::endpoint;

const JSON: &str = "content-type: application/json; charset=utf-8";
const EVENTS: &str = "content-type: text/event-stream";
const LIMIT: usize = 1_000;

async fn post_to(server: &HttpServer) -> Result<PostResponse, LinkError> {
    let client = HttpClient::new().unwrap();
    client.post(&endpoint(server).uri, HeaderMap::new(), Bytes::from_static(b"{}"), LIMIT).await
}

async fn post(answer: impl Fn(&mut Reply<'_>) + Send + Sync + 'static) -> Result<Body, LinkError> {
    let server = HttpServer::start(move |_, reply| answer(reply));
    post_to(&server).await.map(|posted| posted.reply)
}

/// The error that a refusal becomes.
async fn refusal(answer: impl Fn(&mut Reply<'_>) + Send + Sync + 'static) -> LinkError {
    match post(answer).await.unwrap() {
        Body::Refused(refusal) => refusal.into_error(),
        other => panic!("{other:?} is no refusal"),
    }
}

fn status(status: u16, body: &str) -> LinkError {
    LinkError::Status { status, body: body.to_owned(), challenge: None }
}

async fn body(answer: impl Fn(&mut Reply<'_>) + Send + Sync + 'static) -> Result<usize, LinkError> {
    post(answer).await.map(|reply| match reply {
        Body::Json(body) => body.len(),
        other => panic!("{other:?} is no JSON"),
    })
}

async fn read_all(stream: &mut EventStream) -> Result<Vec<Event>, LinkError> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await? {
        events.push(event);
    }
    Ok(events)
}

/// The events of an answer while its server is there.
async fn events(answer: impl Fn(&mut Reply<'_>) + Send + Sync + 'static) -> Result<Vec<Event>, LinkError> {
    let server = HttpServer::start(move |_, reply| answer(reply));
    let posted = post_to(&server).await?;
    let Body::Stream(mut stream) = posted.reply else { panic!("{posted:?} is no stream") };
    read_all(&mut stream).await
}

fn check_not_mcp<T: std::fmt::Debug>(outcome: Result<T, LinkError>, part: &str) {
    match outcome {
        Err(LinkError::NotMcp(why)) => assert!(why.contains(part), "{why}"),
        other => panic!("{other:?} instead of `{part}`"),
    }
}

#[tokio::test]
async fn bodies_are_read_up_to_the_limit() {
    assert_eq!(body(|reply| reply.full(200, &[JSON], vec![b'1'; LIMIT])).await, Ok(LIMIT));
    let chunked = |bytes: usize| {
        move |reply: &mut Reply<'_>| {
            reply.head(200, &[JSON]);
            (0..bytes).for_each(|_| reply.chunk("1"));
            reply.end();
        }
    };
    assert_eq!(body(chunked(LIMIT)).await, Ok(LIMIT));
    check_not_mcp(body(chunked(LIMIT + 1)).await, "more than 1000 bytes");
    // Not one byte of it is waited for.
    let announced = format!("HTTP/1.1 200 x\r\n{JSON}\r\ncontent-length: 1000000000000\r\n\r\n");
    let huge = move |reply: &mut Reply<'_>| {
        reply.raw(&announced);
        reply.hang();
    };
    check_not_mcp(body(huge).await, "more than 1000 bytes");
    let endless = |reply: &mut Reply<'_>| {
        reply.head(200, &[JSON]);
        (0..100).for_each(|_| reply.chunk([b'1'; 100]));
        reply.hang();
    };
    check_not_mcp(body(endless).await, "more than 1000 bytes");
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_a_broken_connection() {
    let cut = |reply: &mut Reply<'_>| {
        reply.raw(format!("HTTP/1.1 200 x\r\n{JSON}\r\ncontent-length: 100\r\n\r\n{{"));
        reply.close();
    };
    assert!(matches!(body(cut).await, Err(LinkError::Broken(_))));
    let cut = |reply: &mut Reply<'_>| {
        reply.head(200, &[EVENTS]);
        reply.chunk("data: 1\n\n");
        reply.raw("zz\r\n");
        reply.close();
    };
    assert!(matches!(events(cut).await, Err(LinkError::Broken(_))));
    let nonsense = |reply: &mut Reply<'_>| {
        reply.raw("SSH-2.0-OpenSSH_9.6\r\n");
        reply.close();
    };
    assert!(matches!(body(nonsense).await, Err(LinkError::Broken(_))));
}

#[tokio::test]
async fn what_is_neither_json_nor_events_is_not_mcp() {
    for (kind, part) in [
        ("content-type: text/html", "`text/html`"),
        ("content-type: application/jsonl", "`application/jsonl`"),
        ("x-none: 1", "content type ``"),
    ] {
        check_not_mcp(post(move |reply| reply.full(200, &[kind], "{}")).await, part);
    }
    for status in [202, 204] {
        assert!(matches!(post(move |reply| reply.full(status, &[], "")).await, Ok(Body::Accepted)));
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_not_followed() {
    let elsewhere = HttpServer::start(|_, reply| reply.full(200, &[JSON], "{}"));
    let location = format!("location: {}", elsewhere.url());
    let outcome = refusal(move |reply| reply.full(307, &[&location], "")).await;
    let text = format!("it redirects to `{}`, which is not followed from here", elsewhere.url());
    assert_eq!(outcome, status(307, &text));
    assert_eq!(elsewhere.requests().len(), 0, "secrets in headers are for the definition's own URL");
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_method_and_body() {
    for code in [307, 308] {
        let server = HttpServer::start(move |request, reply| match request.target.as_str() {
            "/mcp" => reply.full(code, &["location: mcp/"], "moved"),
            _ => reply.full(200, &[JSON], &request.body),
        });
        let client = HttpClient::new().unwrap();
        let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, "Bearer x".parse().unwrap())]);
        let posted = client.post(&endpoint(&server).uri, headers, Bytes::from_static(b"{1}"), LIMIT).await.unwrap();
        assert!(matches!(posted.reply, Body::Json(body) if body == "{1}"));
        let seen = server.requests();
        assert_eq!((seen[1].method.as_str(), seen[1].target.as_str()), ("POST", "/mcp/"));
        assert_eq!(seen[1].header("authorization"), Some("Bearer x"));
    }
    for (code, location) in [(301, "/other"), (302, "/other"), (303, "/other"), (307, ""), (308, "/mcp")] {
        let server = HttpServer::start(move |_, reply| reply.full(code, &[&format!("location: {location}")], ""));
        let posted = post_to(&server).await.unwrap();
        let Body::Refused(refused) = posted.reply else { panic!("{posted:?}") };
        assert!(refused.into_error().to_string().contains("redirects to"), "{code}");
        assert!(server.requests().len() <= 4, "a circle ends");
    }
}

#[tokio::test]
async fn a_refusal_keeps_what_the_server_wants_to_be_shown() {
    let headers = &["www-authenticate: Bearer resource_metadata=\"u\"", "www-authenticate: Basic"];
    let outcome = refusal(|reply| reply.full(401, headers, "who?")).await;
    let challenge = Some("Bearer resource_metadata=\"u\", Basic".to_owned());
    assert_eq!(outcome, LinkError::Status { status: 401, body: "who?".to_owned(), challenge });
    let long = format!("www-authenticate: {}", "x".repeat(5_000));
    assert_eq!(refusal(move |reply| reply.full(401, &[&long], "")).await, status(401, ""));
}

#[tokio::test]
async fn a_refusal_that_does_not_end_is_reported_all_the_same() {
    let outcome = refusal(|reply| {
        reply.head(500, &[]);
        reply.chunk("out of order");
        reply.hang();
    });
    assert_eq!(outcome.await, status(500, "out of order"));
    for body in ["x".repeat(1_000_000), format!("{{{}", "x".repeat(1_000_000))] {
        let sent = body.clone();
        let outcome = refusal(move |reply| reply.full(503, &[], &sent)).await;
        assert_eq!(outcome, status(503, &body[..2_000]));
    }
}

#[tokio::test]
async fn events_are_the_same_wherever_the_chunks_are_cut() {
    let text =
        "\u{feff}: hi\r\n\r\ndata: {\"a\":\"ü\"}\r\ndata: 2\r\nid: 7\r\n\r\nevent: message\rdata: x\r\rdata: y\n\n";
    let whole = events(move |reply| {
        reply.head(200, &[EVENTS]);
        reply.chunk(text);
        reply.end();
    });
    let whole = whole.await.unwrap();
    assert_eq!(whole.len(), 3);
    assert_eq!(whole[0].data, "{\"a\":\"ü\"}\n2");
    for cut in 1..text.len() {
        let cut_events = events(move |reply| {
            reply.head(200, &[EVENTS]);
            reply.chunk(&text.as_bytes()[..cut]);
            reply.chunk(&text.as_bytes()[cut..]);
            reply.end();
        });
        assert_eq!(cut_events.await.unwrap(), whole, "cut at {cut}");
    }
}

#[tokio::test]
async fn an_event_over_the_limit_ends_the_stream() {
    let fits = |bytes: usize| {
        move |reply: &mut Reply<'_>| {
            reply.head(200, &[EVENTS]);
            let text = format!("data:{}\n\n", "x".repeat(bytes - 5));
            (0..3).for_each(|_| reply.chunk(&text));
            reply.end();
        }
    };
    assert_eq!(events(fits(LIMIT)).await.unwrap().len(), 3, "the limit is for each event");
    check_not_mcp(events(fits(LIMIT + 1)).await, "an event of more than 1000 bytes");
    let endless = |reply: &mut Reply<'_>| {
        reply.head(200, &[EVENTS]);
        (0..LIMIT).for_each(|_| reply.chunk("data: x\n"));
        reply.hang();
    };
    check_not_mcp(events(endless).await, "an event of more than 1000 bytes");
}

#[tokio::test]
async fn a_server_may_offer_no_stream_of_its_own() {
    let client = HttpClient::new().unwrap();
    let open = async |status: u16, headers: &'static [&str]| {
        let server = HttpServer::start(move |_, reply| reply.full(status, headers, "data: 1\n\n"));
        client.open_stream(&endpoint(&server).uri, HeaderMap::new(), LIMIT).await.map(|stream| stream.is_some())
    };
    assert_eq!(open(200, &[EVENTS]).await, Ok(true));
    assert_eq!(open(405, &[]).await, Ok(false));
    assert_eq!(open(200, &[JSON]).await, Ok(false));
    assert!(matches!(open(404, &[]).await, Err(LinkError::Status { status: 404, .. })));
}

#[tokio::test]
async fn no_one_there_is_distinguished_from_a_broken_connection() {
    let server = HttpServer::start(|_, reply| reply.close());
    let endpoint = endpoint(&server);
    let client = HttpClient::new().unwrap();
    let outcome = client.post(&endpoint.uri, HeaderMap::new(), Bytes::new(), LIMIT).await.map(drop);
    assert!(matches!(outcome, Err(LinkError::Broken(_))), "{outcome:?}");
    drop(server);
    let outcome = client.post(&endpoint.uri, HeaderMap::new(), Bytes::new(), LIMIT).await.map(drop);
    assert!(matches!(outcome, Err(LinkError::Unreachable(_))), "{outcome:?}");
}
