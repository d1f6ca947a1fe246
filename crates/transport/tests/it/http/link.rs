//! One session: calls and their answers, what the server says on its own, what a dropped call leaves behind.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Raw, Revision, RpcError};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_transport::{CallOptions, Link, LinkError};

use super::{connect, hold_time};

const JSON: &[&str] = &["content-type: application/json"];
const EVENTS: &[&str] = &["content-type: text/event-stream"];
const LONG: Duration = Duration::from_secs(60);

async fn call_with(link: &Link, options: CallOptions) -> Result<Result<Raw, RpcError>, LinkError> {
    link.call(link.next_id(), "tools/call", Raw::empty_object(), options).await
}

/// One call to a server that answers like this.
async fn call(
    answer: impl Fn(&Request, &mut Reply<'_>) + Send + Sync + 'static,
) -> (Result<Result<Raw, RpcError>, LinkError>, Vec<String>) {
    let server = HttpServer::start(answer);
    let scope = Scope::new();
    let (_, link, notes) = connect(&server, &scope);
    (call_with(&link, CallOptions::within(LONG)).await, notes.all())
}

fn check_not_mcp(outcome: Result<Result<Raw, RpcError>, LinkError>, part: &str) {
    match outcome {
        Err(LinkError::NotMcp(why)) => assert!(why.contains(part), "{why}"),
        other => panic!("{other:?} instead of `{part}`"),
    }
}

fn events(reply: &mut Reply<'_>, messages: &[Value]) {
    reply.head(200, EVENTS);
    for message in messages {
        reply.chunk(format!("data: {message}\n\n"));
    }
    reply.end();
}

fn result(request: &Request) -> Value {
    json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {}})
}

#[tokio::test]
async fn bodies_that_hold_no_answer_are_not_mcp() {
    for (body, part) in [
        ("", "expected a value"),
        ("{", "not valid JSON"),
        ("[]", "batch"),
        ("7", "expected an object"),
        (r#"{"jsonrpc":"2.0","id":999,"result":{}}"#, "no answer"),
        (r#"{"jsonrpc":"2.0","id":"1.x","result":{}}"#, "no answer"),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#, "duplicate key"),
        (r#"{"jsonrpc":"2.0","id":1,"result":[[[[[[[[[[]]]]]]]]]]}"#, "deeper than 8"),
        (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "no answer"),
    ] {
        check_not_mcp(call(move |_, reply| reply.full(200, JSON, body)).await.0, part);
    }
    check_not_mcp(call(|_, reply| reply.full(202, &[], "")).await.0, "without an answer");
}

#[tokio::test]
async fn an_error_without_an_id_belongs_to_the_only_request() {
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}"#;
    let (outcome, _) = call(move |_, reply| reply.full(200, JSON, body)).await;
    assert_eq!(outcome.unwrap().unwrap_err().code, -32_700);
}

#[tokio::test]
async fn a_stream_carries_other_messages_and_then_the_answer() {
    let (outcome, notes) = call(|request, reply| {
        let other = json!({"jsonrpc": "2.0", "method": "notifications/other"});
        // Nobody listens to this call, and in the inbox it would be taken for a message of another one.
        let message = json!({"jsonrpc": "2.0", "method": "notifications/message"});
        let wrong = json!({"jsonrpc": "2.0", "id": 999, "result": {}});
        events(reply, &[other, message, wrong, json!("no message"), result(request)]);
    })
    .await;
    assert_eq!(outcome.unwrap().unwrap().as_str(), "{}");
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes[0], "notification notifications/other");
    assert!(notes[1].contains("an answer with the id 999") && notes[2].contains("expected an object"));
    let (outcome, _) = call(|_, reply| events(reply, &[])).await;
    assert_eq!(outcome.unwrap_err(), LinkError::Broken("the stream ended without the answer".into()));
}

#[tokio::test]
async fn ids_are_ours_however_the_server_writes_them_and_batches_are_read() {
    for written in [json!(1), json!("1"), json!(1.0), json!("1.0")] {
        for as_stream in [true, false] {
            let answer = json!({"jsonrpc": "2.0", "id": written, "result": {}});
            let batch =
                json!([{"jsonrpc": "2.0", "method": "n"}, answer, {"jsonrpc": "2.0", "id": 1, "result": {"b": 1}}]);
            for (body, count) in [(answer, 0), (batch, 2)] {
                let (outcome, notes) = call(move |_, reply| match as_stream {
                    true => events(reply, std::slice::from_ref(&body)),
                    false => reply.full(200, JSON, body.to_string()),
                })
                .await;
                assert_eq!(outcome.unwrap().unwrap().as_str(), "{}", "{written}");
                assert_eq!(notes.len(), count, "{notes:?}");
                assert!(notes.last().is_none_or(|note| note == "oddity a second answer to 1"), "{notes:?}");
            }
        }
    }
}

#[tokio::test]
async fn questions_beyond_the_places_are_not_answered_and_the_call_goes_on() {
    let server = HttpServer::start(|request, reply| {
        if request.json()["id"] != 1 || request.json()["method"].is_null() {
            return reply.hang();
        }
        reply.head(200, EVENTS);
        for id in 0..70 {
            let asked = json!({"jsonrpc": "2.0", "id": format!("q{id}"), "method": "ping"});
            reply.chunk(format!("data: {asked}\n\n"));
        }
        reply.chunk(format!("data: {}\n\n", result(request)));
        reply.end();
    });
    let scope = Scope::new();
    let (_, link, notes) = connect(&server, &scope);
    assert!(call_with(&link, CallOptions::within(LONG)).await.is_ok());
    eventually_holds("the answers are under way", || server.requests().len() == 65).await;
    let notes = notes.all();
    assert_eq!(notes.iter().filter(|note| *note == "request ping").count(), 64);
    assert_eq!(notes.iter().filter(|note| note.contains("beyond 64 at a time is not answered")).count(), 6);
}

#[tokio::test]
async fn an_answer_to_the_server_carries_the_headers_of_the_call_in_whose_course_it_asked() {
    let server = HttpServer::start(|request, reply| match request.json()["method"].as_str() {
        Some(_) => {
            let asked = json!({"jsonrpc": "2.0", "id": "q", "method": "ping"});
            events(reply, &[asked, result(request)]);
        }
        None => reply.full(202, &[], ""),
    });
    let scope = Scope::new();
    let (http, link, notes) = connect(&server, &scope);
    http.set_session(Some(http::HeaderValue::from_static("s")), Revision::LATEST_LEGACY);
    let heard = std::sync::Arc::new(super::RecordedCall::default());
    let mut options = CallOptions {
        handler: Some(std::sync::Arc::<super::RecordedCall>::clone(&heard)),
        ..CallOptions::within(LONG)
    };
    options.headers.insert("authorization", "Bearer x".parse().unwrap());
    assert!(call_with(&link, options).await.is_ok());
    eventually_holds("the question was answered", || server.requests().len() == 2).await;
    let answered = &server.requests()[1];
    assert_eq!(answered.json(), json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
    assert_eq!((answered.header("authorization"), answered.header("mcp-session-id")), (Some("Bearer x"), Some("s")));
    assert_eq!((heard.all(), notes.all()), (vec!["request ping".to_owned()], vec![]));
}

#[tokio::test]
async fn a_slow_body_ends_by_the_deadline_and_other_calls_go_on() {
    let server = HttpServer::start(|request, reply| match request.json()["id"].as_u64() {
        Some(1) => {
            reply.head(200, EVENTS);
            reply.chunk("data: {");
            reply.hang();
        }
        Some(_) => reply.full(200, JSON, result(request).to_string()),
        None => reply.full(202, &[], ""),
    });
    let scope = Scope::new();
    let (_, link, _) = connect(&server, &scope);
    let deadline = Duration::from_secs(2);
    let (slow, ()) = tokio::join!(call_with(&link, CallOptions::within(deadline)), async {
        for _ in 0..20 {
            assert!(call_with(&link, CallOptions::within(LONG)).await.is_ok());
        }
    });
    assert_eq!(slow.unwrap_err(), LinkError::Timeout(deadline));
    eventually_holds("the server is told", || {
        server.requests().iter().any(|request| request.json()["method"] == "notifications/cancelled")
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_when_that_is_wanted() {
    let server = HttpServer::start(|request, reply| match request.json()["id"].as_u64() {
        Some(3) => reply.full(200, JSON, result(request).to_string()),
        Some(_) => reply.hang(),
        None => reply.full(202, &[], ""),
    });
    let scope = Scope::new();
    let (_, link, _) = connect(&server, &scope);
    for (id, wanted) in [(1, false), (2, true)] {
        let options = CallOptions::within(LONG);
        options.cancel_on_drop.store(wanted, Ordering::Relaxed);
        tokio::select! {
            biased;
            _ = call_with(&link, options) => panic!("it hangs"),
            () = eventually_holds("the call has arrived", || server.requests().iter().any(|request| request.json()["id"] == id)) => {}
        }
    }
    let cancelled = || -> Vec<Value> {
        let requests = server.requests();
        requests
            .iter()
            .map(|request| request.json()["params"]["requestId"].clone())
            .filter(|id| !id.is_null())
            .collect()
    };
    eventually_holds("the server is told", || !cancelled().is_empty()).await;
    assert!(call_with(&link, CallOptions::within(LONG)).await.is_ok());
    assert_eq!(cancelled(), [2]);
}

#[tokio::test]
async fn progress_comes_before_the_answer() {
    let server = HttpServer::start(|request, reply| {
        let progress =
            |step: u32| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": step}});
        events(reply, &[progress(1), progress(2), result(request), progress(3)]);
    });
    let scope = Scope::new();
    let (_, link, notes) = connect(&server, &scope);
    let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
    let sink = std::sync::Arc::clone(&seen);
    let mut options = CallOptions::within(LONG);
    options.handler = Some(std::sync::Arc::new(move |progress: toolcrib_protocol::Notification| {
        sink.lock().unwrap().push(progress.params.to_value());
    }));
    assert!(call_with(&link, options).await.is_ok());
    assert_eq!(*seen.lock().unwrap(), [json!({"progress": 1}), json!({"progress": 2})]);
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test]
async fn progress_on_the_server_s_own_stream_belongs_to_the_call_with_its_token() {
    let said = std::sync::Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let heard = std::sync::Arc::clone(&said);
    let server = HttpServer::start(move |request, reply| {
        let progress = |token: u32| {
            let params = json!({"progressToken": token, "progress": 1});
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        };
        match request.method.as_str() {
            "GET" => events(reply, &[progress(2), progress(1)]),
            "POST" => {
                // Answered when the other stream has been heard.
                let told = heard.0.lock().unwrap();
                drop(heard.1.wait_while(told, |told| !*told).unwrap());
                events(reply, &[result(request)]);
            }
            _ => reply.full(202, &[], ""),
        }
    });
    let scope = Scope::new();
    let (http, link, notes) = connect(&server, &scope);
    http.set_session(Some(http::HeaderValue::from_static("s")), Revision::LATEST_LEGACY);
    let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
    let sink = std::sync::Arc::clone(&seen);
    let mut options = CallOptions::within(LONG);
    options.handler = Some(std::sync::Arc::new(move |progress: toolcrib_protocol::Notification| {
        sink.lock().unwrap().push(progress.params.to_value());
        *said.0.lock().unwrap() = true;
        said.1.notify_all();
    }));
    let call = call_with(&link, options);
    let listen = async {
        eventually_holds("the call has arrived", || !server.requests().is_empty()).await;
        let _opened = http.listen();
    };
    let (answer, _opened) = tokio::join!(call, listen);
    assert!(answer.is_ok());
    assert_eq!(*seen.lock().unwrap(), [json!({"progressToken": 1, "progress": 1})]);
    assert_eq!(notes.all(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_server_s_own_stream_is_opened_again_after_a_wait() {
    let server = HttpServer::start(|request, reply| {
        if request.method == "GET" {
            let asked = json!({"jsonrpc": "2.0", "id": "a", "method": "ping"});
            return events(reply, &[json!({"jsonrpc": "2.0", "method": "notifications/x"}), asked, json!(1)]);
        }
        reply.full(202, &[], "");
    });
    // Time is held until the very end: it must not run ahead while the last bytes of the farewell are under way.
    let (time, scope) = (Scope::new(), Scope::new());
    hold_time(&time);
    let (http, link, notes) = connect(&server, &scope);
    http.set_session(Some(http::HeaderValue::from_static("s")), Revision::LATEST_LEGACY);
    let _opened = http.listen();
    let count = |method: &str| server.requests().iter().filter(|request| request.method == method).count();
    for times in 1..=3 {
        eventually_holds("the stream was read", || notes.all().len() == 3 * times).await;
        eventually_holds("the question was answered", || count("POST") == times).await;
        assert_eq!(count("GET"), times);
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    assert_eq!(notes.all()[..2], ["notification notifications/x", "request ping"]);
    let answered = server.requests().iter().find(|request| request.method == "POST").unwrap().json();
    assert_eq!(answered, json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
    link.close(Duration::from_secs(5)).await;
    let requests = server.requests();
    let farewell = requests.iter().find(|request| request.method == "DELETE").unwrap();
    assert_eq!(farewell.header("mcp-session-id"), Some("s"));
    assert!(scope.close(Duration::from_secs(5)).await);
}
