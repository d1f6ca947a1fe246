//! The edge towards clients: slow ones, greedy ones, and the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::advance;
use toolcrib_base::task::Scope;
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::{read_body, serve};

use super::hold_time;

const GRACE: Duration = Duration::from_secs(30);

struct Site {
    scope: Scope,
    address: SocketAddr,
    /// `/wait` answers after this.
    go: Arc<Notify>,
    /// Says that `/wait` has begun.
    begun: mpsc::Receiver<()>,
}

async fn answer(request: Request<Incoming>, go: Arc<Notify>, begun: mpsc::Sender<()>) -> Response<Body> {
    match request.uri().path() {
        "/wait" => {
            begun.send(()).await.unwrap();
            go.notified().await;
            Response::new(Body::full("waited"))
        }
        "/large" => Response::new(Body::pieces((0..10_000).map(|_| Bytes::from_static(&[b'x'; 1_024])))),
        "/stream" => {
            let (sender, queue) = mpsc::channel(1);
            sender.send("1".into()).await.unwrap();
            // Never ends by itself.
            std::mem::forget(sender);
            Response::new(Body::events(queue))
        }
        _ => {
            let text = match read_body(request.into_body(), 1_000).await {
                Ok(body) => format!("{} bytes", body.len()),
                Err(error) => error.to_string(),
            };
            Response::new(Body::full(text))
        }
    }
}

async fn start() -> Site {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (scope, go, (sender, begun)) = (Scope::new(), Arc::new(Notify::new()), mpsc::channel(1));
    let waits = Arc::clone(&go);
    let answer = move |_, request| answer(request, Arc::clone(&waits), sender.clone());
    scope.spawn(serve(listener, scope.clone(), answer));
    Site { scope, address, go, begun }
}

async fn send(site: &Site, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

#[tokio::test]
async fn the_end_waits_for_answers_and_not_for_quiet_connections() {
    let mut site = start().await;
    let mut running = send(&site, &get("/wait")).await;
    site.begun.recv().await.unwrap();
    let mut quiet = send(&site, &get("/")).await;
    let mut buffer = [0; 500];
    assert!(quiet.read(&mut buffer).await.unwrap() > 0);
    let go = Arc::clone(&site.go);
    let (ended, text, ()) = tokio::join!(site.scope.close(GRACE), rest(&mut running), async {
        assert_eq!(quiet.read(&mut buffer).await.unwrap_or(0), 0, "a quiet connection is closed at once");
        eventually_holds("the listener is closed", || std::net::TcpStream::connect(site.address).is_err()).await;
        go.notify_one();
    });
    assert!(ended);
    assert!(text.ends_with("waited") && text.contains("connection: close"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_an_end_is_cut_after_the_grace() {
    let site = start().await;
    let mut stream = send(&site, &get("/stream")).await;
    let mut buffer = [0; 500];
    hold_until_read(&mut stream, &mut buffer).await;
    assert!(!site.scope.close(GRACE).await, "it did not end by itself");
    assert!(!rest(&mut stream).await.contains("data: 2"));
}

/// Reads once while time stands still.
async fn hold_until_read(stream: &mut TcpStream, buffer: &mut [u8]) {
    let holding = Scope::new();
    hold_time(&holding);
    assert!(stream.read(buffer).await.unwrap() > 0);
    holding.close(GRACE).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_head_is_cut_off() {
    let site = start().await;
    hold_time(&site.scope);
    for sent in ["GET / HTTP/1.1\r\nhost: x\r\nx-slow: ", ""] {
        let mut stream = send(&site, sent).await;
        // Another connection's answer says that this one was accepted.
        let mut other = send(&site, &get("/")).await;
        assert!(other.read(&mut [0; 500]).await.unwrap() > 0);
        let reading = tokio::join!(rest(&mut stream), async {
            for _ in 0..16 {
                advance(Duration::from_secs(1)).await;
            }
        });
        assert!(!reading.0.contains("200 OK"), "{}", reading.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let site = start().await;
    hold_time(&site.scope);
    let mut stream = send(&site, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf").await;
    let mut other = send(&site, &get("/")).await;
    assert!(other.read(&mut [0; 500]).await.unwrap() > 0);
    let mut buffer = [0; 500];
    let (count, ()) = tokio::join!(stream.read(&mut buffer), async {
        for _ in 0..61 {
            advance(Duration::from_secs(1)).await;
        }
    });
    let text = String::from_utf8_lossy(&buffer[..count.unwrap()]).into_owned();
    assert!(text.ends_with("the body did not arrive"), "{text}");
}

#[tokio::test]
async fn bodies_are_read_up_to_the_limit() {
    let site = start().await;
    let post = |body: &str| format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{body}");
    for (body, expect) in [
        (format!("content-length: 1000\r\n\r\n{}", "x".repeat(1_000)), "1000 bytes"),
        ("content-length: 1001\r\n\r\n".to_owned(), "the body has more than 1000 bytes"),
        (
            format!("transfer-encoding: chunked\r\n\r\n3e9\r\n{}\r\n", "x".repeat(1_001)),
            "the body has more than 1000 bytes",
        ),
        ("content-length: 0\r\n\r\n".to_owned(), "0 bytes"),
    ] {
        let text = rest(&mut send(&site, &post(&body)).await).await;
        assert!(text.ends_with(expect), "{text}");
    }
}

#[tokio::test]
async fn a_body_of_many_pieces_arrives_whole_with_its_length() {
    let site = start().await;
    let request = "GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let text = rest(&mut send(&site, request).await).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-length: 10240000"), "{head}");
    assert!(body.len() == 10_240_000 && body.bytes().all(|byte| byte == b'x'));
}

#[tokio::test]
async fn nonsense_is_refused_and_others_are_served() {
    let site = start().await;
    for text in ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n"] {
        let answer = rest(&mut send(&site, text).await).await;
        assert!(answer.starts_with("HTTP/1.1 400") || answer.is_empty(), "{answer}");
    }
    let mut stream = send(&site, &get("/")).await;
    assert!(stream.read(&mut [0; 500]).await.unwrap() > 0);
}
