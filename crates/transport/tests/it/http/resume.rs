//! Streams of a legacy server that end too early are taken up again behind their last event.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, advance};
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Raw, Revision, RpcError};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_transport::http::link::HttpLink;
use toolcrib_transport::{CallOptions, Link, LinkError};

use super::{Notes, RecordedCall, connect, hold_time};

const EVENTS: &[&str] = &["content-type: text/event-stream"];
const LONG: Duration = Duration::from_secs(600);

fn note(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn answer(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"done": true}})
}

/// A whole stream of this text.
fn stream(reply: &mut Reply<'_>, text: &str) {
    reply.head(200, EVENTS);
    reply.chunk(text);
    reply.end();
}

type Outcome = Result<Result<Raw, RpcError>, LinkError>;

/// Time that moves by steps, with room in between for all that goes on. No wait for a socket is bounded so tightly
/// that it could be passed over.
async fn moving() {
    loop {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        advance(Duration::from_millis(250)).await;
    }
}

/// A session with a server, on a time that only moves as [`moving`] does.
struct Session {
    server: HttpServer,
    http: Arc<HttpLink>,
    link: Link,
    notes: Arc<Notes>,
    scope: Scope,
    time: Scope,
}

impl Session {
    fn new(answer: impl Fn(&Request, &mut Reply<'_>) + Send + Sync + 'static) -> Self {
        let server = HttpServer::start(answer);
        let (time, scope) = (Scope::new(), Scope::new());
        hold_time(&time);
        let (http, link, notes) = connect(&server, &scope);
        http.set_session(Some(http::HeaderValue::from_static("s")), Revision::LATEST_LEGACY);
        Self { server, http, link, notes, scope, time }
    }

    fn gets(&self) -> Vec<Request> {
        self.server.requests().into_iter().filter(|request| request.method == "GET").collect()
    }

    /// Makes a call.
    async fn call(&self, handler: Option<Arc<RecordedCall>>) -> Outcome {
        let mut options = CallOptions::within(LONG);
        options.handler = handler.map(|heard| heard as Arc<dyn toolcrib_transport::CallHandler>);
        options.headers.insert("authorization", "Bearer x".parse().unwrap());
        let calling = self.link.call(self.link.next_id(), "tools/call", Raw::empty_object(), options);
        tokio::select! {
            outcome = calling => outcome,
            () = moving() => unreachable!("it has no end"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_taken_up_until_its_answer_comes() {
    let session = Session::new(|request, reply| match (request.method.as_str(), request.header("last-event-id")) {
        // The first event is cut off in its middle by the chunks, which makes no difference; the last one by the end.
        ("POST", _) => {
            reply.head(200, EVENTS);
            reply.chunk("id: 1\nretry: 5");
            reply.chunk(format!("00\ndata:\n\nid: 2\ndata: {}\n\nid: 3\ndata: {{\"json", note("first")));
            reply.end();
        }
        ("GET", Some("2")) => {
            // Broken off without an end.
            reply.head(200, EVENTS);
            reply.chunk(format!("id: 4\ndata: {}\n\nid: 5\n", note("second")));
            reply.close();
        }
        ("GET", Some("4")) => stream(reply, &format!("data: {}\n\n", answer(1))),
        _ => reply.full(500, &[], "unexpected"),
    });
    let heard = Arc::new(RecordedCall::default());
    let start = Instant::now();
    let outcome = session.call(Some(Arc::clone(&heard))).await;
    assert_eq!(outcome.unwrap().unwrap().as_str(), r#"{"done":true}"#);
    assert!(start.elapsed() >= Duration::from_secs(1), "the wait that the server asked for, twice");
    assert_eq!(heard.all(), ["notification first", "notification second"]);
    let gets = session.gets();
    assert_eq!(gets.len(), 2);
    for get in gets {
        assert_eq!((get.header("mcp-session-id"), get.header("mcp-protocol-version")), (Some("s"), Some("2025-11-25")));
        assert_eq!((get.header("accept"), get.header("content-type")), (Some("text/event-stream"), None));
        assert_eq!(get.header("authorization"), Some("Bearer x"));
    }
    assert_eq!(session.notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_ids_cannot_be_taken_up() {
    for text in ["", "data: {\"a\n\n", "retry: 100\n\n", "id: 1\n\nid\n\n"] {
        let session = Session::new(move |_, reply| stream(reply, text));
        assert_eq!(session.call(None).await, Err(LinkError::Broken("the stream ended without the answer".into())));
        assert_eq!(session.gets().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_up_is_a_broken_call_which_may_have_run() {
    for (status, why) in [
        (400, "HTTP status 400"),
        (401, "HTTP status 401"),
        (404, "forgotten the session"),
        (405, "no way"),
        (200, "no way"),
    ] {
        let session = Session::new(move |request, reply| match request.method.as_str() {
            "POST" => stream(reply, "id: 1\n\n"),
            _ => reply.full(status, &[], ""),
        });
        match session.call(None).await {
            Err(LinkError::Broken(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(session.gets().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_bring_nothing_new_come_to_an_end() {
    for status in [200, 503, 429] {
        let session = Session::new(move |request, reply| match (request.method.as_str(), status) {
            ("GET", 503 | 429) => reply.full(status, &[], ""),
            _ => stream(reply, "retry: 0\nid: 1\n\n"),
        });
        assert!(matches!(session.call(None).await, Err(LinkError::Broken(_))));
        assert_eq!(session.gets().len(), 10, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_polled_for_long_ends_by_its_deadline() {
    // Each stream brings a new id and nothing else.
    let count = std::sync::atomic::AtomicU64::new(0);
    let session = Session::new(move |request, reply| match request.json()["id"].as_u64() {
        None if request.method == "POST" => reply.full(202, &[], ""),
        _ => {
            let next = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            stream(reply, &format!("retry: 10000\nid: {next}\n\n"));
        }
    });
    assert_eq!(session.call(None).await, Err(LinkError::Timeout(LONG)));
    eventually_holds("the server is told", || {
        session.server.requests().iter().any(|request| request.json()["method"] == "notifications/cancelled")
    })
    .await;
    let last = session.server.requests().pop().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer x"), "with the call's own headers");
    assert!(session.gets().len() > 10);
    assert!(session.scope.close(Duration::from_secs(5)).await);
    assert!(session.time.close(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn the_server_s_own_stream_goes_on_behind_its_last_event() {
    let session = Session::new(|request, reply| match request.header("last-event-id") {
        None => stream(reply, &format!("retry: 3000\nid: 7\ndata: {}\n\nid: 8\ndata: {{\"cut", note("first"))),
        Some("7") => stream(reply, &format!("id: 9\ndata: {}\n\n", note("second"))),
        // It has forgotten the place: the stream begins at the present.
        Some(_) => reply.full(400, &[], ""),
    });
    // Looked at whenever anything goes on: a pause in between would let the stopped time move on unseen.
    let read = async |count: usize| {
        while session.notes.all().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let until_notes = async |count: usize| {
        tokio::select! {
            () = read(count) => {}
            () = moving() => unreachable!("it has no end"),
        }
    };
    let _opened = session.http.listen();
    until_notes(1).await;
    for count in 2..=4 {
        let start = Instant::now();
        until_notes(count).await;
        assert!(start.elapsed() >= Duration::from_secs(3), "not before the time that the server named");
    }
    assert_eq!(
        session.notes.all(),
        ["notification first", "notification second", "notification first", "notification second"]
    );
    let places: Vec<_> =
        session.gets().iter().map(|get| get.header("last-event-id").unwrap_or("none").to_owned()).collect();
    assert_eq!(places, ["none", "7", "9", "none", "7"]);
    assert!(session.scope.close(Duration::from_secs(5)).await);
    assert!(session.time.close(Duration::from_secs(5)).await);
}
