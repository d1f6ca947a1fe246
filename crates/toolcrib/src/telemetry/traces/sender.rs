//! Sends spans to the collector: in batches, a failed one again after a while, for a bounded time.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolcrib_base::task::Stop;
use toolcrib_base::trace::{count_dropped, count_exported};
use toolcrib_transport::http::client::HttpClient;

use super::span::SpanRecord;
use crate::config::TraceExport;

/// How often a batch is sent before it is dropped.
const ATTEMPTS: u32 = 5;
/// How long the first pause between two attempts is.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest answer of a collector that is read, in bytes.
const ANSWER: usize = 64 * 1024;

/// Owns the queue and the connection to the collector.
#[derive(Debug)]
pub(super) struct Sender {
    client: HttpClient,
    endpoint: Uri,
    headers: HeaderMap,
    /// The resource in the JSON form of OTLP.
    resource: Value,
    spans: mpsc::Receiver<SpanRecord>,
    timeout: Duration,
    delay: Duration,
    batch: usize,
    /// How long the first pause between two attempts is; each next one is twice as long.
    pub(super) pause: Duration,
    /// Whether the last batch was lost, so that a collector that is away is reported once.
    is_failing: bool,
}

/// Why a post came to nothing.
#[derive(Debug)]
struct PostError {
    why: String,
    /// Whether the same post may be taken later.
    is_transient: bool,
}

// === impl Sender ===

impl Sender {
    pub(super) fn new(export: &TraceExport, spans: mpsc::Receiver<SpanRecord>) -> std::io::Result<Self> {
        let mut headers = export.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let attributes: Vec<Value> = export
            .resource
            .iter()
            .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
            .collect();
        Ok(Self {
            client: HttpClient::new()?,
            endpoint: export.endpoint.clone(),
            headers,
            resource: json!({ "attributes": attributes }),
            spans,
            timeout: export.timeout,
            delay: export.delay,
            batch: export.batch,
            pause: PAUSE,
            is_failing: false,
        })
    }

    /// Sends until it is told to stop, and then what is left.
    pub(super) async fn run(mut self, mut stop: Stop) {
        let mut batch = Vec::new();
        while !stop.is_stopped() {
            self.gather(&mut batch, &mut stop).await;
            self.send(&mut batch, &mut stop).await;
        }
        self.spans.close();
        loop {
            batch.extend(std::iter::from_fn(|| self.spans.try_recv().ok()).take(self.batch));
            if batch.is_empty() {
                return;
            }
            self.send(&mut batch, &mut stop).await;
        }
    }

    /// Waits for a span, and then for more of them until the batch is full or its first one has waited long enough.
    async fn gather(&mut self, batch: &mut Vec<SpanRecord>, stop: &mut Stop) {
        let mut until = None;
        while batch.len() < self.batch {
            let room = self.batch - batch.len();
            let timeout = async move {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            // All are cancel-safe.
            tokio::select! {
                received = self.spans.recv_many(batch, room) => if received == 0 { return stop.stopped().await },
                () = timeout => return,
                () = stop.stopped() => return,
            }
            until.get_or_insert_with(|| Instant::now() + self.delay);
        }
    }

    /// Sends a batch, again and again where that may help; what is not taken is dropped.
    async fn send(&mut self, batch: &mut Vec<SpanRecord>, stop: &mut Stop) {
        if batch.is_empty() {
            return;
        }
        let (body, count) = (self.body(batch), batch.len() as u64);
        batch.clear();
        let mut pause = self.pause;
        for attempt in 1..=ATTEMPTS {
            let posted = tokio::time::timeout(self.timeout, self.post(body.clone())).await;
            let error = match posted {
                Ok(Ok(rejected)) => return self.taken(count, rejected.min(count)),
                Ok(Err(error)) => error,
                Err(_) => PostError { why: "it did not answer in time".to_owned(), is_transient: true },
            };
            if !error.is_transient || attempt == ATTEMPTS || stop.is_stopped() {
                return self.lost(count, &error.why);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.stopped() => {}
            }
            pause *= 2;
        }
    }

    fn taken(&mut self, count: u64, rejected: u64) {
        count_exported(count - rejected);
        count_dropped(rejected);
        if rejected > 0 {
            tracing::warn!(endpoint = %self.endpoint, rejected, "the collector rejected spans");
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(endpoint = %self.endpoint, "spans are exported again");
        }
    }

    fn lost(&mut self, count: u64, why: &str) {
        count_dropped(count);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                endpoint = %self.endpoint, why,
                "cannot export spans: they are dropped until the collector takes them; calls are unaffected"
            );
        }
    }

    /// An `ExportTraceServiceRequest`.
    fn body(&self, batch: &[SpanRecord]) -> Bytes {
        let spans: Vec<Value> = batch.iter().map(SpanRecord::to_json).collect();
        let scope = json!({ "name": "toolcrib", "version": env!("CARGO_PKG_VERSION") });
        let request = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }]});
        request.to_string().into()
    }

    /// Posts a batch; how many of its spans the collector rejected.
    async fn post(&self, body: Bytes) -> Result<u64, PostError> {
        let sent = self.client.send(Method::POST, &self.endpoint, self.headers.clone(), body).await;
        let response = sent.map_err(|error| PostError { why: error.to_string(), is_transient: true })?;
        let status = response.status;
        if !status.is_success() {
            // Which answers may be another one later, the specification of OTLP says.
            let is_transient = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            return Err(PostError { why: format!("it answered {status}"), is_transient });
        }
        let answer = response.body.collect(ANSWER).await.ok();
        let answer = answer.and_then(|answer| serde_json::from_slice::<Value>(&answer).ok()).unwrap_or_default();
        // A number of 64 bits is a text in the JSON of OTLP; some collectors write a number.
        let rejected = &answer["partialSuccess"]["rejectedSpans"];
        Ok(rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0))
    }
}
