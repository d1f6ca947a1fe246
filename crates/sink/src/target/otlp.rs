//! A collector of OpenTelemetry: log records over HTTP, in JSON. What it answers with success is delivered.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode, Uri};
use serde_json::Value;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::tls::authorities;

use super::{Delivery, DeliveryError, DeliveryFuture, Sender, Target};
use crate::Entry;
use crate::format::otlp_request;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;
/// The longest pause that a collector may ask for: the log grows meanwhile.
const PAUSE_MOST: Duration = Duration::from_secs(5 * 60);

/// Finds the headers of requests; secrets may be among them.
pub trait ResolveHeaders: fmt::Debug + Send + Sync {
    /// The headers as they are now. May read files: not called on a thread of the runtime.
    ///
    /// # Errors
    /// A secret cannot be found. The text names where it should be.
    fn headers(&self) -> Result<HeaderMap, String>;
}

/// A collector.
#[derive(Debug, Clone)]
pub struct OtlpConfig {
    /// Where it takes log records, path included.
    pub url: Uri,
    /// What goes with each request.
    pub headers: Arc<dyn ResolveHeaders>,
    /// The authorities that count for `https`, as PEM; `None` for those of the platform.
    pub ca: Option<PathBuf>,
}

/// The way to a collector.
#[derive(Debug)]
pub(super) struct OtlpTarget {
    config: OtlpConfig,
    sender: Sender,
    /// Made for the first batch, and again after a failure: certificates and secrets may be others then.
    session: Option<OtlpSession>,
    /// How long the collector asked to be left alone.
    pause: Option<Duration>,
}

#[derive(Debug, Clone)]
struct OtlpSession {
    client: HttpClient,
    headers: HeaderMap,
}

// === impl OtlpTarget ===

impl OtlpTarget {
    pub(super) fn new(config: OtlpConfig, sender: Sender) -> Self {
        Self { config, sender, session: None, pause: None }
    }

    async fn open(&self) -> Result<OtlpSession, DeliveryError> {
        let (resolve, ca) = (Arc::clone(&self.config.headers), self.config.ca.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let mut headers = resolve.headers()?;
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            let client = match ca {
                Some(ca) => HttpClient::trusting(authorities(&ca).map_err(|error| error.to_string())?),
                None => HttpClient::new(),
            };
            Ok(OtlpSession { client: client.map_err(|error| error.to_string())?, headers })
        });
        match opened.await {
            Ok(opened) => opened.map_err(DeliveryError),
            Err(error) => Err(DeliveryError(error.to_string())),
        }
    }

    async fn post(&mut self, entries: &[Entry]) -> Result<Delivery, DeliveryError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.open().await?,
        };
        let body = Bytes::from(otlp_request(entries, &self.sender.resource));
        let sent = session.client.send(Method::POST, &self.config.url, session.headers.clone(), body).await;
        let response = sent.map_err(|error| DeliveryError(error.to_string()))?;
        if !response.status.is_success() {
            self.pause = pause(response.status, &response.headers);
            return Err(DeliveryError(format!("the collector answered {}", response.status)));
        }
        let answer = response.body.collect(ANSWER_BYTES).await.ok();
        let answer = answer.and_then(|answer| serde_json::from_slice::<Value>(&answer).ok()).unwrap_or_default();
        // A number of 64 bits is a text in the JSON of OTLP; some collectors write a number.
        let rejected = &answer["partialSuccess"]["rejectedLogRecords"];
        let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        self.session = Some(session);
        Ok(Delivery::Confirmed { rejected: rejected.min(entries.len() as u64) })
    }
}

/// The pause that a collector with too much to do asks for (OTLP, section "OTLP/HTTP Throttling"), in seconds. A date is
/// not read: it depends on two clocks.
fn pause(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let asks = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let seconds = headers.get(RETRY_AFTER).filter(|_| asks)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(PAUSE_MOST))
}

impl Target for OtlpTarget {
    fn deliver<'a>(&'a mut self, entries: &'a [Entry]) -> DeliveryFuture<'a, Delivery> {
        Box::pin(async {
            let patience = self.sender.patience;
            match tokio::time::timeout(patience, self.post(entries)).await {
                Ok(delivered) => delivered,
                Err(_) => {
                    Err(DeliveryError(format!("the collector did not answer within {} ms", patience.as_millis())))
                }
            }
        })
    }

    fn take_pause(&mut self) -> Option<Duration> {
        self.pause.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_and_bounded() {
        let read = |status, text| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            pause(status, &headers).map(|pause| pause.as_secs())
        };
        assert_eq!(read(StatusCode::TOO_MANY_REQUESTS, "7"), Some(7));
        assert_eq!(read(StatusCode::SERVICE_UNAVAILABLE, " 18446744073709551615"), Some(300));
        assert_eq!(read(StatusCode::BAD_GATEWAY, "7"), None, "no other answer asks for one");
        for text in ["-1", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "99999999999999999999999"] {
            assert_eq!(read(StatusCode::TOO_MANY_REQUESTS, text), None, "{text}");
        }
        assert_eq!(pause(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()), None);
    }
}
