//! A modern server: headers that mirror the body, no session, closed streams as cancellations, and probing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Notification, Raw, Revision, RpcError};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_transport::http::link::ProbeResponse;
use toolcrib_transport::{CallOptions, Link, LinkError};

use super::{RecordedCall, connect};

const JSON: &[&str] = &["content-type: application/json"];
const EVENTS: &[&str] = &["content-type: text/event-stream"];
const LONG: Duration = Duration::from_secs(60);

fn result(request: &Request) -> String {
    json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {}}).to_string()
}

async fn call(
    link: &Link,
    method: &str,
    params: Value,
    options: CallOptions,
) -> Result<Result<Raw, RpcError>, LinkError> {
    link.call(link.next_id(), method, Raw::from_value(&params), options).await
}

#[tokio::test]
async fn every_message_names_revision_method_and_name() {
    let server = HttpServer::start(|request, reply| match request.json()["id"].as_u64() {
        Some(_) => reply.full(200, &[JSON[0], "mcp-session-id: s"], result(request)),
        None => reply.full(202, &[], ""),
    });
    let scope = Scope::new();
    let (http, link, notes) = connect(&server, &scope);
    http.set_modern(Revision::LATEST);
    let mut headers = HeaderMap::new();
    headers.insert("mcp-param-region", "eu".parse().unwrap());
    headers.insert("mcp-method", "tools/list".parse().unwrap());
    let options = || CallOptions { headers: headers.clone(), ..CallOptions::within(LONG) };
    for (method, params, name) in [
        ("tools/call", json!({"name": "a b", "arguments": {"name": "x"}}), Some("a b")),
        ("tools/call", json!({"name": "ü"}), Some("=?base64?w7w=?=")),
        ("tools/call", json!({"name": "a\r\nx: y"}), Some("=?base64?YQ0KeDogeQ==?=")),
        ("tools/call", json!({"name": 7}), None),
        ("resources/read", json!({"uri": "file:///a"}), Some("file:///a")),
        ("tools/list", json!({"name": "a"}), None),
        ("odd\nmethod", json!({}), None),
    ] {
        call(&link, method, params, options()).await.unwrap().unwrap();
        let requests = server.requests();
        let seen = requests.last().unwrap();
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        let mirrored = if method.contains('\n') { "=?base64?b2RkCm1ldGhvZA==?=" } else { method };
        assert_eq!((seen.header("mcp-method"), seen.header("mcp-name")), (Some(mirrored), name));
        assert_eq!((seen.header("mcp-param-region"), seen.header("mcp-session-id")), (Some("eu"), None));
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
    }
    link.notify(Notification::new("notifications/x", Raw::empty_object())).await.unwrap();
    let _opened = http.listen();
    link.close(LONG).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 8, "no GET, no DELETE");
    assert_eq!(requests[7].header("mcp-method"), Some("notifications/x"));
    assert_eq!(requests[7].header("mcp-param-region"), None);
    assert_eq!(notes.all(), ["closed"]);
    assert!(!link.is_ordered());
}

/// A server that answers no call: with nothing, with a head, or with a stream that goes on.
fn silent(kind: usize) -> HttpServer {
    HttpServer::start(move |_, reply| {
        if kind == 1 {
            reply.raw("HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{");
        } else if kind == 2 {
            reply.head(200, EVENTS);
            reply.chunk("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n");
        }
        reply.hang();
    })
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_stream_and_nothing_else_is_sent() {
    for kind in 0..3 {
        let server = silent(kind);
        let scope = Scope::new();
        let (http, link, notes) = connect(&server, &scope);
        http.set_modern(Revision::LATEST);
        let options = CallOptions::within(Duration::MAX);
        assert!(options.cancel_on_drop.load(Ordering::Relaxed));
        tokio::select! {
            biased;
            _ = call(&link, "subscriptions/listen", json!({}), options) => panic!("it hangs"),
            () = eventually_holds("it has begun", || server.requests().len() == 1 && (kind != 2 || notes.all().len() == 1)) => {}
        }
        eventually_holds("the stream is closed", || server.open_connections() == 0).await;
        assert!(scope.close(LONG).await);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_call_that_ends_by_its_deadline_closes_its_stream() {
    for kind in 0..3 {
        let server = silent(kind);
        let scope = Scope::new();
        let (http, link, _) = connect(&server, &scope);
        http.set_modern(Revision::LATEST);
        let deadline = Duration::from_secs(1);
        let outcome = call(&link, "tools/call", json!({}), CallOptions::within(deadline)).await;
        assert_eq!(outcome.unwrap_err(), LinkError::Timeout(deadline));
        eventually_holds("the stream is closed", || server.open_connections() == 0).await;
        assert!(scope.close(LONG).await);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_subscription_is_a_call_whose_aside_takes_the_stream() {
    let server = HttpServer::start(|request, reply| {
        reply.head(200, EVENTS);
        for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
            // An id of an event means nothing to this revision.
            reply.chunk(format!("id: 1\ndata: {}\n\n", json!({"jsonrpc": "2.0", "method": method})));
        }
        reply.chunk(format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage"})));
        if request.json()["params"]["end"] == "answer" {
            reply.chunk(format!("data: {}\n\n", result(request)));
        }
        reply.end();
    });
    let scope = Scope::new();
    let (http, link, notes) = connect(&server, &scope);
    http.set_modern(Revision::LATEST);
    for end in ["answer", "nothing"] {
        let heard = Arc::new(RecordedCall::default());
        let options =
            CallOptions { handler: Some(Arc::<RecordedCall>::clone(&heard)), ..CallOptions::within(Duration::MAX) };
        let outcome = call(&link, "subscriptions/listen", json!({"end": end}), options).await;
        match end {
            "answer" => assert!(outcome.unwrap().is_ok()),
            _ => assert!(matches!(outcome, Err(LinkError::Broken(_)))),
        }
        let expect =
            ["notification notifications/subscriptions/acknowledged", "notification notifications/tools/list_changed"];
        assert_eq!(heard.all(), expect);
    }
    let odd = "oddity a request `sampling/createMessage` of the server, which this revision does not know";
    assert_eq!(notes.all(), [odd, odd]);
    assert_eq!(server.requests().len(), 2, "nothing is taken up or answered");
}

async fn probe(answer: impl Fn(&Request, &mut Reply<'_>) + Send + Sync + 'static) -> Result<ProbeResponse, LinkError> {
    let server = HttpServer::start(answer);
    let (http, link, _) = connect(&server, &Scope::new());
    let probed = http.probe(link.next_id(), Raw::empty_object(), Revision::LATEST, LONG).await;
    let seen = &server.requests()[0];
    assert_eq!(
        (seen.header("mcp-method"), seen.header("mcp-protocol-version")),
        (Some("server/discover"), Some("2026-07-28"))
    );
    assert_eq!(seen.json()["method"], "server/discover");
    probed
}

#[tokio::test]
async fn a_probe_tells_status_and_outcome_whatever_they_are() {
    let probed = probe(|request, reply| reply.full(200, JSON, result(request))).await.unwrap();
    assert_eq!((probed.status, probed.outcome.unwrap().unwrap().as_str()), (200, "{}"));
    let probed = probe(|request, reply| {
        reply.head(200, EVENTS);
        reply.chunk(format!("data: {}\n\n", result(request)));
        reply.end();
    });
    assert!(probed.await.unwrap().outcome.unwrap().is_ok());
    for (status, id) in [(200, json!(1)), (400, json!(1)), (404, json!("1")), (404, json!(null)), (500, json!(1.0))] {
        let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32_022, "message": "m"}}).to_string();
        let probed = probe(move |_, reply| reply.full(status, JSON, &body)).await.unwrap();
        assert_eq!((probed.status, probed.outcome.unwrap().unwrap_err().code), (status, -32_022), "{id}");
    }
    for (status, kind, body) in [
        (200, "text/html", "<html>"),
        (202, "text/plain", ""),
        (400, "text/plain", "Bad Request"),
        (401, "application/json", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#),
        (403, "application/json", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#),
        (404, "application/json", r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"m"}}"#),
        (405, "text/plain", ""),
        (500, "application/json", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
    ] {
        let headers = [format!("content-type: {kind}"), "www-authenticate: Bearer".to_owned()];
        let probed = probe(move |_, reply| reply.full(status, &[&headers[0], &headers[1]], body)).await.unwrap();
        assert!(probed.outcome.is_none(), "{probed:?}");
        assert_eq!(probed.status, status, "{probed:?}");
        assert_eq!(probed.challenge.is_some(), status >= 400);
        assert!(body.is_empty() || !probed.body.is_empty());
    }
    assert!(matches!(probe(|_, reply| reply.close()).await, Err(LinkError::Broken(_))));
}

#[tokio::test]
async fn a_json_rpc_error_under_any_status_is_an_answer_but_for_401_and_403() {
    let error = |id: Value, message: &str| {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32_601, "message": message, "data": [1]}}).to_string()
    };
    let outcome = async |session: Option<&str>, modern: bool, status: u16, body: String| {
        let server = HttpServer::start(move |_, reply| reply.full(status, &["content-type: text/plain"], &body));
        let scope = Scope::new();
        let (http, link, _) = connect(&server, &scope);
        match modern {
            true => http.set_modern(Revision::LATEST),
            false => http.set_session(session.map(|id| id.parse().unwrap()), Revision::LATEST_LEGACY),
        }
        call(&link, "tools/call", json!({}), CallOptions::within(LONG)).await
    };
    for modern in [true, false] {
        for (status, id) in [(400, json!(1)), (404, json!("1")), (500, json!(null)), (429, json!(1))] {
            let answer = outcome(None, modern, status, error(id, "m")).await.unwrap().unwrap_err();
            assert_eq!((answer.code, answer.data.unwrap().as_str()), (-32_601, "[1]"));
        }
        for (status, body) in [
            (401, error(json!(1), "m")),
            (403, error(json!(1), "m")),
            (400, error(json!(2), "m")),
            (400, "{".into()),
            (404, String::new()),
        ] {
            let expect = LinkError::Status { status, body: body.clone(), challenge: None };
            assert_eq!(outcome(None, modern, status, body).await.unwrap_err(), expect);
        }
    }
    for (status, id, message, lost) in [
        (404, json!(1), "m", true),
        (404, json!(null), "m", true),
        (400, json!(null), "Bad Request: No valid session ID provided", true),
        (400, json!(1), "no such session in the theatre", false),
        (400, json!(null), "m", false),
    ] {
        let outcome = outcome(Some("s"), false, status, error(id, message)).await;
        assert_eq!(outcome == Err(LinkError::SessionLost), lost, "{outcome:?}");
        assert!(lost || outcome.unwrap().is_err());
    }
}
