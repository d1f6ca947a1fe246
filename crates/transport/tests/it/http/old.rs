//! HTTP+SSE of 2024-11-05: one stream for all that the server says, a POST for each message.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Notification, Raw};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::link::Bounds;
use toolcrib_transport::peer::Peer;
use toolcrib_transport::{CallOptions, Link, LinkError};

use super::{Notes, RecordedCall, endpoint, hold_time};

const EVENTS: &[&str] = &["content-type: text/event-stream"];
const LONG: Duration = Duration::from_secs(60);

/// What the stream of a server is told to send; `None` ends it.
#[derive(Default)]
struct Script(Mutex<Vec<Option<String>>>, Condvar);

impl Script {
    fn push(&self, text: Option<String>) {
        self.0.lock().unwrap().push(text);
        self.1.notify_all();
    }

    fn message(&self, message: &Value) {
        self.push(Some(format!("event: message\ndata: {message}\n\n")));
    }

    fn play(&self, reply: &mut Reply<'_>) {
        reply.head(200, EVENTS);
        let mut at = 0;
        loop {
            let lines = self.1.wait_while(self.0.lock().unwrap(), |lines| lines.len() == at).unwrap();
            let next = lines[at].clone();
            drop(lines);
            at += 1;
            match next {
                Some(text) => reply.chunk(text),
                None => return reply.end(),
            }
        }
    }
}

/// A server whose stream follows the script and whose POSTs are answered by `posted`, and a connection to it.
struct Old {
    server: HttpServer,
    script: Arc<Script>,
    link: Link,
    notes: Arc<Notes>,
    scope: Scope,
}

impl Drop for Old {
    fn drop(&mut self) {
        self.script.push(None);
    }
}

async fn open(server: &HttpServer, scope: &Scope, notes: &Arc<Notes>) -> Result<Arc<Peer>, LinkError> {
    let bounds = Bounds { bytes: 10_000, depth: 8, is_own: false };
    let mut endpoint = endpoint(server);
    endpoint.headers.insert("x-key", "secret".parse().unwrap());
    Peer::over_events(HttpClient::new().unwrap(), endpoint, Arc::<Notes>::clone(notes), scope.clone(), bounds).await
}

impl Old {
    async fn new(posted: impl Fn(&Request, &mut Reply<'_>, &Script) + Send + Sync + 'static) -> Self {
        let script = Arc::new(Script::default());
        script.push(Some(": hello\n\nevent: endpoint\ndata: /messages?session=7\n\n".to_owned()));
        let played = Arc::clone(&script);
        let server = HttpServer::start(move |request, reply| match request.method.as_str() {
            "GET" => played.play(reply),
            _ => posted(request, reply, &played),
        });
        let (scope, notes) = (Scope::new(), Arc::new(Notes::default()));
        let peer = open(&server, &scope, &notes).await.unwrap();
        Self { server, script, link: Link::Peer(peer), notes, scope }
    }

    async fn call(&self, options: CallOptions) -> Result<String, LinkError> {
        let outcome = self.link.call(self.link.next_id(), "m", Raw::empty_object(), options).await?;
        Ok(outcome.map_or_else(|error| error.message, |raw| raw.as_str().to_owned()))
    }
}

fn accepted(reply: &mut Reply<'_>) {
    reply.full(202, &["content-type: text/plain"], "Accepted");
}

fn answer(request: &Request) -> Value {
    json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {"of": request.json()["id"]}})
}

#[tokio::test]
async fn messages_are_posted_and_everything_else_comes_on_the_stream() {
    let old = Old::new(|request, reply, script| {
        let body = request.json();
        if body["method"] == "m" {
            // The answer comes before the receipt of its question, after two other messages.
            script.push(Some("event: ping\ndata: now\n\nevent: endpoint\ndata: http://other/\n\n".to_owned()));
            script.message(
                &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": body["id"]}}),
            );
            script.message(&json!([{"jsonrpc": "2.0", "id": "q", "method": "ping"}, answer(request)]));
        }
        accepted(reply);
    })
    .await;
    let heard = Arc::new(RecordedCall::default());
    let mut options = CallOptions { handler: Some(Arc::<RecordedCall>::clone(&heard)), ..CallOptions::within(LONG) };
    options.headers.insert("authorization", "Bearer x".parse().unwrap());
    assert_eq!(old.call(options).await.unwrap(), r#"{"of":1}"#);
    assert_eq!(heard.all(), ["notification notifications/progress"]);
    assert_eq!(old.notes.all(), ["oddity the URL for messages was named again, which changes nothing", "request ping"]);
    old.link.notify(Notification::new("notifications/initialized", Raw::empty_object())).await.unwrap();
    eventually_holds("the ping was answered", || old.server.requests().len() == 4).await;
    let requests = old.server.requests();
    assert_eq!(requests[0].header("accept"), Some("text/event-stream"));
    for request in &requests[1..] {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/messages?session=7"));
        assert_eq!(request.header("x-key"), Some("secret"));
        assert_eq!(request.header("authorization"), Some("Bearer x"), "what no call waits for proves the same");
    }
    assert!(old.link.is_ordered() && old.link.is_http());
    old.link.close(LONG).await;
    assert_eq!(old.call(CallOptions::within(LONG)).await, Err(LinkError::Closed));
    assert_eq!(old.notes.all().last().unwrap(), "closed");
    assert!(old.scope.close(LONG).await);
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_connection() {
    for end in [None, Some(format!("data: {}\n\n", "x".repeat(10_001)))] {
        let old = Old::new(move |_, reply, script| {
            accepted(reply);
            script.push(end.clone());
        })
        .await;
        assert_eq!(old.call(CallOptions::within(LONG)).await, Err(LinkError::Closed));
        assert_eq!(old.notes.all().last().unwrap(), "closed");
    }
    let old = Old::new(|_, _, _| ()).await;
    assert!(old.scope.close(LONG).await, "the scope ends the stream");
    assert_eq!(old.call(CallOptions::within(LONG)).await, Err(LinkError::Closed));
}

#[tokio::test]
async fn a_refused_message_fails_its_call_alone() {
    let old = Old::new(|request, reply, script| match request.json()["id"].as_u64() {
        Some(1) => reply.full(404, &[], "no session"),
        Some(2) => {
            let error = json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32_600, "message": "bad"}});
            reply.full(400, &[], error.to_string());
        }
        _ => {
            accepted(reply);
            script.message(&answer(request));
        }
    })
    .await;
    let expect = LinkError::Status { status: 404, body: "no session".into(), challenge: None };
    assert_eq!(old.call(CallOptions::within(LONG)).await, Err(expect));
    assert_eq!(old.call(CallOptions::within(LONG)).await.unwrap(), "bad");
    assert_eq!(old.call(CallOptions::within(LONG)).await.unwrap(), r#"{"of":3}"#);
    for id in [1, 2] {
        old.script.message(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    eventually_holds("late answers are odd", || old.notes.all().len() == 2).await;
    assert!(old.notes.all().iter().all(|note| note.contains("which no running call has")));
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_by_a_message() {
    let old = Old::new(|_, reply, _| accepted(reply)).await;
    tokio::select! {
        biased;
        _ = old.call(CallOptions::within(Duration::MAX)) => panic!("it is not answered"),
        () = eventually_holds("the call has arrived", || old.server.requests().len() == 2) => {}
    }
    eventually_holds("the server is told", || old.server.requests().len() == 3).await;
    assert_eq!(old.server.requests()[2].json()["params"], json!({"requestId": 1}));
}

#[tokio::test]
async fn messages_go_to_the_server_s_own_origin_only() {
    let elsewhere = HttpServer::start(|_, reply| accepted(reply));
    let other = elsewhere.url();
    for (stream, why) in [
        (format!("event: endpoint\ndata: {other}\n\n"), "not at the server's origin"),
        ("event: endpoint\ndata: /a b\n\n".to_owned(), "not at the server's origin"),
        ("data: {}\n\n".to_owned(), "without naming"),
        (format!("event: endpoint\ndata: /{}\n\n", "x".repeat(10_001)), "more than 10000 bytes"),
    ] {
        let server = HttpServer::start(move |_, reply| {
            reply.head(200, EVENTS);
            reply.chunk(&stream);
            reply.end();
        });
        match open(&server, &Scope::new(), &Arc::default()).await {
            Err(LinkError::NotMcp(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(elsewhere.requests().len(), 0);
    for (status, headers) in [(405, EVENTS), (200, &["content-type: text/html"])] {
        let server = HttpServer::start(move |_, reply| reply.full(status, headers, ""));
        assert!(matches!(open(&server, &Scope::new(), &Arc::default()).await, Err(LinkError::NotMcp(_))));
    }
    let server = HttpServer::start(|_, reply| reply.full(401, &["www-authenticate: Bearer"], ""));
    let refused = open(&server, &Scope::new(), &Arc::default()).await.unwrap_err();
    assert_eq!(refused, LinkError::Status { status: 401, body: String::new(), challenge: Some("Bearer".into()) });
}

#[tokio::test(start_paused = true)]
async fn a_server_that_names_no_url_is_given_up() {
    let server = HttpServer::start(|_, reply| {
        reply.head(200, EVENTS);
        reply.chunk(": wait\n\n");
        reply.hang();
    });
    let (time, start) = (Scope::new(), Instant::now());
    hold_time(&time);
    let notes = Arc::default();
    let scope = Scope::new();
    let opening = open(&server, &scope, &notes);
    tokio::pin!(opening);
    tokio::select! {
        biased;
        _ = &mut opening => panic!("it names none"),
        () = eventually_holds("the stream is open", || server.requests().len() == 1) => {}
    }
    tokio::time::advance(LONG).await;
    assert!(matches!(opening.await, Err(LinkError::Timeout(_))));
    assert_eq!(start.elapsed(), LONG);
    eventually_holds("the stream is closed", || server.open_connections() == 0).await;
    assert!(time.close(LONG).await);
}
