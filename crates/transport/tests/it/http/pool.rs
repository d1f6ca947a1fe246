//! Connections of the HTTP client: used again, thrown away when they cannot be trusted, and never a request sent twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply};
use toolcrib_transport::LinkError;
use toolcrib_transport::http::client::{HttpClient, Reply as Body};

use super::endpoint;

const JSON: &str = "content-type: application/json";
const LIMIT: usize = 10_000_000;

async fn post(client: &HttpClient, server: &HttpServer) -> Result<Bytes, LinkError> {
    let posted = client.post(&endpoint(server).uri, HeaderMap::new(), Bytes::from_static(b"{}"), LIMIT).await?;
    match posted.reply {
        Body::Json(body) => Ok(body),
        other => panic!("{other:?} is no JSON"),
    }
}

#[tokio::test]
async fn calls_in_a_row_share_one_connection_whatever_frames_their_answers() {
    let chunked = |reply: &mut Reply<'_>| {
        reply.head(200, &[JSON]);
        reply.chunk("12");
        reply.chunk("3");
        reply.end();
    };
    let large = "1".repeat(3_000_000);
    let count = AtomicUsize::new(0);
    let server = HttpServer::start(move |_, reply| match count.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => reply.full(200, &[JSON], "123"),
        1 => chunked(reply),
        _ => reply.full(200, &[JSON], &large),
    });
    let client = HttpClient::new().unwrap();
    for round in 0..9 {
        let length = if round % 3 == 2 { 3_000_000 } else { 3 };
        assert_eq!(post(&client, &server).await.unwrap().len(), length, "call {round}");
    }
    assert_eq!(server.requests().len(), 9);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_again() {
    let server = HttpServer::start(|_, reply| {
        reply.full(200, &[JSON], "1");
        reply.close();
    });
    let client = HttpClient::new().unwrap();
    for count in 1..=20 {
        assert_eq!(post(&client, &server).await.unwrap(), "1");
        eventually_holds("the connection is closed", || server.open_connections() == 0).await;
        // Gives the runtime the time to hear of it.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.requests().len(), count);
    }
}

#[tokio::test]
async fn a_request_that_the_server_may_have_read_is_not_sent_again() {
    let server = HttpServer::start(|request, reply| match request.header("x-last") {
        None => reply.full(200, &[JSON], "1"),
        Some(_) => reply.close(),
    });
    let client = HttpClient::new().unwrap();
    assert_eq!(post(&client, &server).await.unwrap(), "1");
    let last = HeaderMap::from_iter([("x-last".parse().unwrap(), "1".parse().unwrap())]);
    let outcome = client.post(&endpoint(&server).uri, last, Bytes::from_static(b"{}"), LIMIT).await.map(drop);
    assert!(matches!(outcome, Err(LinkError::Broken(_))), "{outcome:?}");
    assert_eq!(server.requests().len(), 2, "one for each call");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn what_a_server_says_unasked_answers_no_later_call() {
    let forged = format!("HTTP/1.1 200 x\r\n{JSON}\r\ncontent-length: 6\r\n\r\nforged");
    let server = HttpServer::start(move |_, reply| {
        let own = format!("HTTP/1.1 200 x\r\n{JSON}\r\ncontent-length: 3\r\n\r\nown");
        reply.raw(own + &forged);
    });
    let client = HttpClient::new().unwrap();
    for _ in 0..5 {
        assert_eq!(post(&client, &server).await.unwrap(), "own");
    }
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let server = HttpServer::start(|_, reply| {
        reply.raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n");
        reply.full(200, &[JSON], "1");
    });
    assert_eq!(post(&HttpClient::new().unwrap(), &server).await.unwrap(), "1");
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let server = HttpServer::start(|_, reply| reply.hang());
    let client = HttpClient::new().unwrap();
    {
        let mut posting = std::pin::pin!(post(&client, &server));
        tokio::select! {
            outcome = &mut posting => panic!("{outcome:?} without an answer"),
            () = eventually_holds("the request is there", || server.requests().len() == 1) => {}
        }
    }
    eventually_holds("the connection is closed", || server.open_connections() == 0).await;
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_is_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 100]).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 413 x\r\ncontent-length: 5\r\n\r\nlarge").await.unwrap();
        stream
    };
    let client = HttpClient::new().unwrap();
    // More than the buffers between the two hold.
    let body = Bytes::from(vec![b'1'; 64 * 1024 * 1024]);
    let (posted, _stream) = tokio::join!(client.post(&uri, HeaderMap::new(), body, LIMIT), serving);
    let Body::Refused(refusal) = posted.unwrap().reply else { panic!("no refusal") };
    assert_eq!(refusal.into_error(), LinkError::Status { status: 413, body: "large".into(), challenge: None });
}
