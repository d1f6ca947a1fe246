//! Servers that answer wrongly on purpose: every answer ends within its bounds, and no later call hears any of it.

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_testkit::http::{HttpServer, Reply};
use toolcrib_transport::LinkError;
use toolcrib_transport::http::client::{HttpClient, Reply as Body};

use super::endpoint;

const HEAD: &str = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\n";
const LIMIT: usize = 1_000_000;

async fn post(client: &HttpClient, server: &HttpServer, path: &str) -> Result<Bytes, LinkError> {
    let url = endpoint(server).uri.to_string().replace("/mcp", path);
    let posted = client.post(&url.parse().unwrap(), HeaderMap::new(), Bytes::from_static(b"{}"), LIMIT).await?;
    match posted.reply {
        Body::Json(body) => Ok(body),
        other => panic!("{other:?} is no JSON"),
    }
}

/// The answer of a server to a call, and then a good one to the next call of the same client.
async fn answered(answer: impl Fn(&mut Reply<'_>) + Send + Sync + 'static) -> (Result<Bytes, LinkError>, u64) {
    let server = HttpServer::start(move |request, reply| match request.target.as_str() {
        "/good" => reply.full(200, &["content-type: application/json"], "good"),
        _ => answer(reply),
    });
    let client = HttpClient::new().unwrap();
    let outcome = post(&client, &server, "/bad").await;
    assert_eq!(post(&client, &server, "/good").await.unwrap(), "good");
    (outcome, server.connections())
}

/// The answer breaks the connection for this reason.
async fn check_broken(what: &str, part: &str, answer: impl Fn(&mut Reply<'_>) + Send + Sync + 'static) {
    let (outcome, connections) = answered(answer).await;
    let Err(LinkError::Broken(why)) = &outcome else { panic!("{what}: {outcome:?}") };
    assert!(why.contains(part), "{what}: {why}");
    assert_eq!(connections, 2, "{what}: the connection must not be used again");
}

#[tokio::test]
async fn lengths_that_contradict_each_other_break_the_connection() {
    for fields in [
        "content-length: 3\r\ncontent-length: 4",
        "content-length: 3, 4",
        "content-length: -3",
        "content-length: +3",
        "content-length: 0x3",
        "content-length: 3 3",
        "content-length: ",
        "content-length: 18446744073709551616",
    ] {
        let text = format!("{HEAD}{fields}\r\n\r\n123");
        check_broken(fields, "length of the response body is ambiguous", move |reply| reply.raw(&text)).await;
    }
}

#[tokio::test]
async fn a_body_in_chunks_with_a_length_is_read_and_its_connection_is_closed() {
    let text = format!(
        "{HEAD}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n\r\n\
         HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 6\r\n\r\nforged"
    );
    let (outcome, connections) = answered(move |reply| reply.raw(&text)).await;
    assert_eq!((outcome.unwrap(), connections), (Bytes::from_static(b"123"), 2));
}

#[tokio::test]
async fn chunks_that_are_none_break_the_connection() {
    let long = "x".repeat(1_000_000);
    for chunks in [
        "zz\r\n".to_owned(),
        "-1\r\n1\r\n".to_owned(),
        "ffffffffffffffffff\r\n1".to_owned(),
        "3\r\n12345\r\n".to_owned(),
        "3\r\n123\n0\r\n\r\n".to_owned(),
        format!("1;{long}"),
        format!("0\r\n{long}: x\r\n\r\n"),
    ] {
        let text = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{chunks}");
        let what: String = chunks.chars().take(20).collect();
        check_broken(&what, "not chunked as announced", move |reply| reply.raw(&text)).await;
    }
}

#[tokio::test]
async fn a_head_without_an_end_is_given_up() {
    check_broken("fields", "more than 65536 bytes", |reply| {
        reply.raw(HEAD);
        (0..100).for_each(|number| reply.raw(format!("x-{number}: {}\r\n", "a".repeat(60_000))));
    })
    .await;
    check_broken("one field", "more than 65536 bytes", |reply| {
        reply.raw(format!("{HEAD}x: "));
        (0..100).for_each(|_| reply.raw("a".repeat(60_000)));
    })
    .await;
}

#[tokio::test]
async fn informational_answers_without_an_end_are_given_up() {
    for piece in [1, 1_000] {
        check_broken("informational", "more than 65536 bytes", move |reply| {
            let text = "HTTP/1.1 100 Continue\r\n\r\n".repeat(piece);
            (0..10_000 / piece).for_each(|_| reply.raw(&text));
        })
        .await;
    }
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_is_read() {
    let (outcome, connections) = answered(|reply| {
        let text =
            format!("HTTP/1.1 103 x\r\nlink: y\r\n\r\n{HEAD}transfer-encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n\r\n");
        text.bytes().for_each(|byte| reply.raw([byte]));
    })
    .await;
    assert_eq!((outcome.unwrap(), connections), (Bytes::from_static(b"123"), 1));
}

#[tokio::test]
async fn bodies_beyond_the_limit_are_refused_without_being_kept() {
    let announced = |reply: &mut Reply<'_>| reply.raw(format!("{HEAD}content-length: 99999999999\r\n\r\n1"));
    let in_chunks = |reply: &mut Reply<'_>| {
        reply.raw(format!("{HEAD}transfer-encoding: chunked\r\n\r\n"));
        let chunks = "1\r\n1\r\n".repeat(10_000);
        (0..110).for_each(|_| reply.raw(&chunks));
        reply.raw("0\r\n\r\n");
    };
    let until_close = |reply: &mut Reply<'_>| {
        reply.raw(format!("{HEAD}\r\n"));
        let piece = "1".repeat(100_000);
        (0..20).for_each(|_| reply.raw(&piece));
        reply.close();
    };
    for (outcome, connections) in [answered(announced).await, answered(in_chunks).await, answered(until_close).await] {
        assert!(matches!(&outcome, Err(LinkError::NotMcp(why)) if why.contains("1000000 bytes")), "{outcome:?}");
        assert_eq!(connections, 2);
    }
}

/// Reads a request with the body `{}`.
async fn read(stream: &mut TcpStream) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n{}") {
        assert!(stream.read_buf(&mut request).await.unwrap() > 0, "{request:?}");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_half_closed_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let client = HttpClient::new().unwrap();
    let answer = format!("{HEAD}content-length: 1\r\n\r\n1");
    let mut half_closed: Option<TcpStream> = None;
    for _ in 0..10 {
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            stream
        };
        let body = Bytes::from_static(b"{}");
        let (posted, stream) = tokio::join!(client.post(&uri, HeaderMap::new(), body, LIMIT), serving);
        assert!(matches!(posted.unwrap().reply, Body::Json(body) if body == "1"));
        if let Some(mut before) = half_closed.replace(stream) {
            let mut more = Vec::new();
            assert_eq!(before.read_to_end(&mut more).await.unwrap(), 0, "{more:?} was sent to nobody");
        }
        // Gives the runtime the time to hear of it.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }
}
