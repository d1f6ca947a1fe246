//! A collector of OpenTelemetry: log records over HTTP, in JSON. What it answers with success is delivered.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde_json::Value;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::tls::authorities;

use super::{Delivery, DeliveryError, DeliveryFuture, Sender, Target};
use crate::Entry;
use crate::format::otlp_request;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;

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
}

#[derive(Debug, Clone)]
struct OtlpSession {
    client: HttpClient,
    headers: HeaderMap,
}

// === impl OtlpTarget ===

impl OtlpTarget {
    pub(super) fn new(config: OtlpConfig, sender: Sender) -> Self {
        Self { config, sender, session: None }
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
}
