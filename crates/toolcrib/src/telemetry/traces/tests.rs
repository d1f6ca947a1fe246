//! Spans from the telemetry to a collector that the test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::trace::{Sampler, span_counts};
use toolcrib_testkit::eventually;
use toolcrib_testkit::http::HttpServer;
use tracing::field::Empty;
use tracing_subscriber::layer::SubscriberExt;

use super::sender::Sender;
use super::span::SpanRecord;
use super::{TraceExport, layer};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ID: &str = "00f067aa0ba902b7";
const PARENT: &str = "00f067aa0ba902b8";

/// The address of a collector.
fn base(collector: &HttpServer) -> String {
    format!("http://{}", collector.address())
}

fn export(url: &str) -> TraceExport {
    let mut headers = HeaderMap::new();
    headers.insert("api-key", HeaderValue::from_static("hunter2"));
    TraceExport {
        endpoint: format!("{url}/v1/traces").parse().unwrap(),
        headers,
        resource: vec![("service.name".to_owned(), "mine".to_owned())],
        sampling: Sampler { ratio: 1.0, follows_parent: true },
        timeout: Duration::from_secs(60),
        delay: Duration::from_millis(1),
        queue: 8,
        batch: 4,
    }
}

/// Runs `work` with the layer; what it put into a queue of this size.
fn taken(queue: usize, work: impl FnOnce()) -> Vec<SpanRecord> {
    let (queue, mut spans) = mpsc::channel(queue);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer::new(queue)), work);
    std::iter::from_fn(|| spans.try_recv().ok()).collect()
}

fn call(tool: &str) {
    tracing::debug_span!(
        target: "toolcrib::request", parent: None, "call",
        trace_id = TRACE, span_id = ID, parent_span_id = PARENT, is_recorded = true, otel.kind = "client",
        mcp.method.name = "tools/call", gen_ai.tool.name = tool, server.port = 443_u16, error.type = Empty
    );
}

/// Sends `count` spans and waits until the sender has ended; how many more were exported and dropped.
async fn sent(url: &str, count: usize) -> (u64, u64) {
    let before = span_counts();
    let (queue, spans) = mpsc::channel(64);
    for record in taken(64, || (0..count).for_each(|_| call("echo"))) {
        queue.try_send(record).unwrap();
    }
    let mut sender = Sender::new(&export(url), spans).unwrap();
    sender.pause = Duration::from_millis(1);
    let scope = Scope::new();
    scope.spawn(sender.run(scope.stop_signal()));
    let done = async {
        while span_counts().exported + span_counts().dropped < before.exported + before.dropped + count as u64 {
            tokio::task::yield_now().await;
        }
    };
    eventually("the end of all spans", done).await;
    assert!(eventually("the end of the sender", scope.close(Duration::from_secs(60))).await);
    (span_counts().exported - before.exported, span_counts().dropped - before.dropped)
}

#[test]
fn a_span_is_written_as_otlp_says() {
    let spans = taken(8, || {
        call("echo");
        let span = tracing::debug_span!(
            target: "toolcrib::request", parent: None, "request",
            trace_id = TRACE, span_id = ID, is_recorded = true, otel.kind = "server", request_id = "r",
            link = format!("00-{TRACE}-{PARENT}-01"), mcp.method.name = "ping", error.type = Empty
        );
        span.record("error.type", "cancelled");
        tracing::debug_span!(target: "toolcrib::request", "request", is_recorded = false);
        tracing::debug_span!("request", is_recorded = true);
    });
    let [client, server] = &spans[..] else { panic!("{spans:?}") };
    let mut client = client.to_json();
    for key in ["startTimeUnixNano", "endTimeUnixNano"] {
        let nanos = client.as_object_mut().unwrap().remove(key).unwrap();
        assert!(nanos.as_str().unwrap().len() == 19, "{nanos}");
    }
    assert_eq!(
        client,
        json!({
            "traceId": TRACE, "spanId": ID, "parentSpanId": PARENT, "flags": 0x101,
            "name": "tools/call echo", "kind": 3,
            "attributes": [
                { "key": "mcp.method.name", "value": { "stringValue": "tools/call" } },
                { "key": "gen_ai.tool.name", "value": { "stringValue": "echo" } },
                { "key": "server.port", "value": { "intValue": "443" } },
            ],
        })
    );
    let server = server.to_json();
    assert_eq!((&server["name"], &server["kind"], &server["status"]["code"]), (&json!("ping"), &json!(2), &json!(2)));
    assert_eq!(server["links"][0]["spanId"], PARENT);
    assert_eq!(server["attributes"][0], json!({ "key": "toolcrib.request.id", "value": { "stringValue": "r" } }));
}

#[test]
fn a_full_queue_drops_spans_and_counts_them() {
    let before = span_counts().dropped;
    assert_eq!(taken(2, || (0..5).for_each(|_| call("echo"))).len(), 2);
    assert_eq!(span_counts().dropped - before, 3);
}

#[tokio::test]
async fn spans_come_in_batches_with_what_the_settings_say() {
    let collector = HttpServer::start(|_, reply| reply.json(&[], &json!({})));
    assert_eq!(sent(&base(&collector), 6).await, (6, 0));
    let requests = collector.requests();
    let spans = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
    assert_eq!(requests.iter().map(|request| spans(&request.json())).collect::<Vec<_>>(), [4, 2]);
    let first = &requests[0];
    assert_eq!((first.method.as_str(), first.target.as_str()), ("POST", "/v1/traces"));
    assert_eq!((first.header("api-key"), first.header("content-type")), (Some("hunter2"), Some("application/json")));
    let resource = &first.json()["resourceSpans"][0]["resource"];
    assert_eq!(*resource, json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "mine" } }] }));
}

#[tokio::test]
async fn what_a_collector_does_not_take_is_tried_again_where_that_may_help_and_then_dropped() {
    for (answers, outcome, posts) in [
        (&[(503, ""), (200, "{}")][..], (2, 0), 2),
        (&[(429, ""), (502, ""), (200, "")], (2, 0), 3),
        (&[(400, "no")], (0, 2), 1),
        (&[(404, "")], (0, 2), 1),
        (&[(503, "")], (0, 2), 5),
        (&[(200, r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"x"}}"#)], (1, 1), 1),
        (&[(200, r#"{"partialSuccess":{"rejectedSpans":99}}"#)], (0, 2), 1),
        (&[(200, "no JSON")], (2, 0), 1),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&count);
        let collector = HttpServer::start(move |_, reply| {
            let at = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            reply.full(answers[at].0, &["content-type: application/json"], answers[at].1);
        });
        assert_eq!(sent(&base(&collector), 2).await, outcome, "{answers:?}");
        assert_eq!(count.load(Ordering::SeqCst), posts, "{answers:?}");
    }
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let collector = HttpServer::start(|_, _| {});
    let url = base(&collector);
    drop(collector);
    assert_eq!(sent(&url, 3).await, (0, 3));
}
