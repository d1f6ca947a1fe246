//! OTLP to collectors that refuse, reject, break connections or never answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use toolcrib_sink::{FileConfig, OtlpConfig, Pace, ResolveHeaders, SinkConfig, TargetConfig};
use toolcrib_store::{AuditFilter, AuditOrder};
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::log::{Log, becomes, caught_up, check_in_order, pace, sink};

/// Headers of a test.
#[derive(Debug)]
struct Headers(Result<&'static str, &'static str>);

impl ResolveHeaders for Headers {
    fn headers(&self) -> Result<HeaderMap, String> {
        let value = HeaderValue::from_static(self.0?);
        Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]))
    }
}

fn collector(server: &HttpServer, headers: Headers) -> SinkConfig {
    let url = format!("http://{}/v1/logs", server.address()).parse().unwrap();
    sink("collector", TargetConfig::Otlp(OtlpConfig { url, headers: Arc::new(headers), ca: None }))
}

/// A collector whose n-th answer, counted from 0, is `answer`, and the numbers of the events that it took.
fn answering(answer: impl Fn(usize, &mut Reply<'_>) -> bool + Send + Sync + 'static) -> (HttpServer, ReceivedEvents) {
    let (taken, count) = (ReceivedEvents::default(), AtomicUsize::new(0));
    let kept = ReceivedEvents(Arc::clone(&taken.0));
    let server = HttpServer::start(move |request, reply| {
        if answer(count.fetch_add(1, Ordering::SeqCst), reply) {
            kept.0.lock().unwrap().extend(seqs(request));
        }
    });
    (server, taken)
}

#[derive(Debug, Default)]
struct ReceivedEvents(Arc<std::sync::Mutex<Vec<u64>>>);

impl ReceivedEvents {
    fn seqs(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

fn seqs(request: &Request) -> Vec<u64> {
    let request = request.json();
    let records = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().clone();
    records.iter().map(|record| number(&record["attributes"])).collect()
}

fn number(attributes: &Value) -> u64 {
    let attributes = attributes.as_array().unwrap();
    let seq = attributes.iter().find(|attribute| attribute["key"] == "toolcrib.seq").unwrap();
    seq["value"]["intValue"].as_str().unwrap().parse().unwrap()
}

/// The texts of one attribute of all records in a request.
fn attribute(request: &Request, name: &str) -> Vec<String> {
    let request = request.json();
    let records = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().clone();
    let of = |record: &Value| {
        let attributes = record["attributes"].as_array().unwrap();
        let found = attributes.iter().find(|attribute| attribute["key"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {record}"))["value"]["stringValue"].as_str().unwrap().to_owned()
    };
    records.iter().map(of).collect()
}

fn take(reply: &mut Reply<'_>) -> bool {
    reply.json(&[], &json!({}));
    true
}

#[tokio::test]
async fn every_event_arrives_in_order_with_its_headers() {
    let (server, taken) = answering(|_, reply| take(reply));
    let log = Log::new();
    let sinks = log.start(vec![collector(&server, Headers(Ok("Bearer s3cret")))], pace());
    log.record(2_000).await;
    log.end(&sinks).await;
    assert_eq!(taken.seqs(), (1..=2_000).collect::<Vec<_>>());
    let request = &server.requests()[0];
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/logs"));
    assert_eq!(request.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(!format!("{sinks:?}{:?}", sinks.statuses()).contains("s3cret"), "no secret is shown");
}

#[tokio::test]
async fn what_is_refused_is_sent_again_in_smaller_parts() {
    let (server, taken) = answering(|number, reply| match number {
        0..4 => {
            reply.full([400, 401, 413, 503][number], &[], "secret words of the collector");
            false
        }
        _ => take(reply),
    });
    let log = Log::new();
    log.record(64).await;
    let sinks = log.start(vec![collector(&server, Headers(Ok("x")))], Pace { window: 64, ..pace() });
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&taken.seqs(), 64);
    let sizes: Vec<usize> = server.requests().iter().map(|request| seqs(request).len()).collect();
    assert_eq!(sizes[..7], [64, 32, 16, 8, 4, 8, 16]);
}

#[tokio::test]
async fn a_collector_that_asks_for_a_pause_is_left_alone_for_it() {
    let moments = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&moments);
    let (server, taken) = answering(move |number, reply| {
        seen.lock().unwrap().push(std::time::Instant::now());
        if number > 0 {
            return take(reply);
        }
        reply.full(429, &["retry-after: 1"], "");
        false
    });
    let log = Log::new();
    log.record(5).await;
    let sinks = log.start(vec![collector(&server, Headers(Ok("x")))], pace());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(taken.seqs(), [1, 2, 3, 4, 5]);
    let moments = moments.lock().unwrap();
    // Without it, the second attempt comes after some milliseconds. A busy machine makes this longer, never shorter.
    assert!(moments[1].duration_since(moments[0]) >= Duration::from_millis(900), "{moments:?}");
}

/// Nothing can make up for it here, but whoever reads what arrived sees it, and finds in the log what is missing.
#[tokio::test]
async fn what_a_collector_takes_and_loses_is_seen_as_a_gap_and_is_in_the_log() {
    let (server, taken) = answering(|number, reply| {
        take(reply);
        number != 1
    });
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    let archive = sink("file", TargetConfig::File(FileConfig { path: path.clone(), max_bytes: 1 << 20, keep: 1 }));
    log.record(48).await;
    let sinks = log.start(vec![collector(&server, Headers(Ok("x"))), archive], Pace { batch: 16, ..pace() });
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(taken.seqs(), (1..=16).chain(33..=48).collect::<Vec<_>>(), "numbers have no gaps but this one");
    // Each event names the hash of the one before: the end of the gap is certain.
    let of = |index: usize, name: &str| attribute(&server.requests()[index], name);
    assert_ne!(of(2, "toolcrib.prev_hash").first(), of(0, "toolcrib.hash").last());
    assert_eq!(of(2, "toolcrib.prev_hash").first(), of(1, "toolcrib.hash").last());
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 48, "no other sink is harmed");
    let lost = AuditFilter { order: AuditOrder::OldestFirst { after: 16 }, limit: 16, ..AuditFilter::default() };
    let lost: Vec<u64> = log.store.audit().list(&lost).unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(lost, (17..=32).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_collector_that_never_answers_is_given_up_and_asked_again() {
    let (server, taken) = answering(|number, reply| match number {
        0 => {
            reply.hang();
            false
        }
        1 => {
            reply.close();
            false
        }
        _ => take(reply),
    });
    let log = Log::new();
    log.record(20).await;
    let patience = Duration::from_millis(300);
    let sinks = log.start(vec![collector(&server, Headers(Ok("x")))], Pace { patience, ..pace() });
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&taken.seqs(), 20);
}

#[tokio::test]
async fn an_error_is_shown_without_what_the_collector_said() {
    let (server, _) = answering(|_, reply| {
        reply.full(403, &[], "token s3cret is unknown");
        false
    });
    let log = Log::new();
    log.record(1).await;
    let sinks = log.start(vec![collector(&server, Headers(Ok("s3cret")))], pace());
    let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert_eq!(status.last_error.as_deref(), Some("the collector answered 403 Forbidden"));
    assert_eq!((status.lag, status.seq), (1, 0));
    assert!(status.failing_since.is_some());
}

#[tokio::test]
async fn a_secret_that_cannot_be_found_is_named_by_its_place() {
    let (server, taken) = answering(|_, reply| take(reply));
    let log = Log::new();
    log.record(1).await;
    let sinks = log.start(vec![collector(&server, Headers(Err("the vault has no `otlp`")))], pace());
    let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert_eq!(status.last_error.as_deref(), Some("the vault has no `otlp`"));
    assert!(taken.seqs().is_empty());
}

#[tokio::test]
async fn what_the_collector_says_it_rejected_is_counted_and_not_sent_again() {
    let (server, taken) = answering(|_, reply| {
        reply.json(&[], &json!({ "partialSuccess": { "rejectedLogRecords": "2", "errorMessage": "too old" } }));
        true
    });
    let log = Log::new();
    log.record(5).await;
    let sinks = log.start(vec![collector(&server, Headers(Ok("x")))], pace());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(taken.seqs(), [1, 2, 3, 4, 5]);
    let status = &sinks.statuses()[0];
    assert_eq!((status.sent, status.rejected), (5, 2));
}
