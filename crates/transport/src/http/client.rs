//! The HTTP client: one pool of connections for all servers, answers as JSON or as a stream of events.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::response::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::http::events::EventStream;
use crate::http::origin;
use crate::link::LinkError;

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);
/// How many unused connections are kept for one server: as many as calls run at the same time under load.
const POOL_PER_HOST: usize = 128;
/// How much of the body of a refusal is kept for the error's text, in bytes.
const REFUSAL_BYTES: usize = 2_000;
/// How much is read of a refusal that may be a JSON-RPC error with its data, in bytes.
const REFUSAL_JSON_BYTES: usize = 1024 * 1024;
/// How much of a challenge is kept, in bytes.
const CHALLENGE_BYTES: usize = 4_000;
/// How often one request is sent on to another place of the same origin.
const REDIRECTS: usize = 3;
/// How long to wait for it.
const REFUSAL_WAIT: Duration = Duration::from_secs(2);
/// How long establishing a TCP connection may take; the definition's own deadline may be shorter.
const CONNECT: Duration = Duration::from_secs(10);

/// The pool. Clones share it.
#[derive(Debug, Clone)]
pub struct HttpClient {
    inner: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Where a server listens and what every request to it carries.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The URL.
    pub uri: Uri,
    /// The definition's own headers; values that are secrets are marked sensitive.
    pub headers: HeaderMap,
}

/// What came back.
#[derive(Debug)]
pub struct Posted {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub reply: Reply,
}

/// The body that came back.
#[derive(Debug)]
pub enum Reply {
    /// A JSON body, not yet parsed.
    Json(Bytes),
    /// A stream of events.
    Stream(Box<EventStream>),
    /// Accepted without a body.
    Accepted,
    /// Not accepted; the body may be a JSON-RPC error.
    Refused(Refusal),
}

/// A status that is no success.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) challenge: Option<String>,
}

impl Refusal {
    /// The refusal as the error of a call.
    pub fn into_error(self) -> LinkError {
        let start = &self.body[..self.body.len().min(REFUSAL_BYTES)];
        let body = String::from_utf8_lossy(start).into_owned();
        LinkError::Status { status: self.status.as_u16(), body, challenge: self.challenge }
    }
}

impl Endpoint {
    /// The headers of a POST: the definition's own and what the transport needs.
    pub(crate) fn post_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers
    }
}

impl HttpClient {
    /// A new pool with the certificates of the platform. TLS by rustls.
    pub fn new() -> std::io::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let tls = match HttpsConnectorBuilder::new().with_native_roots() {
            Ok(builder) => builder.https_or_http().enable_http1().wrap_connector(tcp),
            Err(error) => {
                // A machine without certificates can still reach plain HTTP; https then fails with its own reason.
                tracing::warn!(%error, "no certificates found on this machine; https servers cannot be reached");
                let empty = rustls_without_roots()?;
                HttpsConnectorBuilder::new().with_tls_config(empty).https_or_http().enable_http1().wrap_connector(tcp)
            }
        };
        let inner = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_PER_HOST)
            .pool_timer(TokioTimer::new())
            .build(tls);
        Ok(Self { inner })
    }

    /// Sends one request; a redirect of method and body within the origin is followed. `headers` makes all of its
    /// headers, for each place anew.
    pub async fn send(
        &self,
        method: Method,
        uri: &Uri,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, LinkError> {
        let mut next = uri.clone();
        for _ in 0..REDIRECTS {
            let response = self.send_to(&method, &next, headers(), body.clone()).await?;
            match redirect(&response).and_then(|reference| origin::within(&next, reference)) {
                Some(place) => next = place,
                None => return Ok(response),
            }
        }
        self.send_to(&method, &next, headers(), body).await
    }

    async fn send_to(
        &self,
        method: &Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, LinkError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        self.inner.request(request).await.map_err(|error| {
            let text = chain(&error);
            if error.is_connect() { LinkError::Unreachable(text) } else { LinkError::Broken(text) }
        })
    }

    /// Posts a message and reads how it was answered.
    pub async fn post(
        &self,
        uri: &Uri,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
        limit: usize,
    ) -> Result<Posted, LinkError> {
        let response = self.send(Method::POST, uri, headers, body).await?;
        let (head, body) = response.into_parts();
        let reply = match media_type(&head.headers) {
            _ if !head.status.is_success() => Reply::Refused(refusal(&head, body).await),
            "text/event-stream" => Reply::Stream(Box::new(EventStream::new(body, limit))),
            "application/json" => Reply::Json(collect(body, limit).await?),
            _ if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => Reply::Accepted,
            other => {
                let other = other.chars().take(80).collect::<String>();
                return Err(LinkError::NotMcp(format!("content type `{other}`")));
            }
        };
        Ok(Posted { status: head.status, headers: head.headers, reply })
    }

    /// Opens a stream of events; `None` when the server offers none.
    pub async fn open_stream(
        &self,
        uri: &Uri,
        headers: impl Fn() -> HeaderMap,
        limit: usize,
    ) -> Result<Option<EventStream>, LinkError> {
        let headers = || {
            let mut headers = headers();
            headers.remove(CONTENT_TYPE);
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            headers
        };
        let response = self.send(Method::GET, uri, headers, Bytes::new()).await?;
        let (head, body) = response.into_parts();
        match head.status {
            StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            status if !status.is_success() => Err(refusal(&head, body).await.into_error()),
            _ if media_type(&head.headers) == "text/event-stream" => Ok(Some(EventStream::new(body, limit))),
            _ => Ok(None),
        }
    }
}

/// Where a response sends the same request to.
fn redirect(response: &Response<Incoming>) -> Option<&str> {
    let same = matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if !same {
        return None;
    }
    response.headers().get(LOCATION)?.to_str().ok()
}

fn rustls_without_roots() -> std::io::Result<rustls::ClientConfig> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

async fn refusal(head: &Parts, mut body: Incoming) -> Refusal {
    let status = head.status;
    if let (true, Some(place)) = (status.is_redirection(), head.headers.get(LOCATION)) {
        let place: String = String::from_utf8_lossy(place.as_bytes()).chars().take(200).collect();
        let body = format!("it redirects to `{place}`, which is not followed from here");
        return Refusal { status, body: body.into(), challenge: None };
    }
    let mut text = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.into_data().unwrap_or_default();
            let is_json = text.first().or(data.first()) == Some(&b'{');
            let most = if is_json { REFUSAL_JSON_BYTES } else { REFUSAL_BYTES };
            text.extend(data.into_iter().take(most - text.len()));
            if text.len() == most {
                break;
            }
        }
    };
    // The status is the news; a body that does not end must not turn it into a timeout.
    let _ = tokio::time::timeout(REFUSAL_WAIT, reading).await;
    Refusal { status, body: text.into(), challenge: challenge(&head.headers) }
}

/// What the server wants to be shown, from all its headers that say so.
fn challenge(headers: &HeaderMap) -> Option<String> {
    let mut all = String::new();
    for value in headers.get_all(WWW_AUTHENTICATE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        if all.len() + value.len() > CHALLENGE_BYTES {
            break;
        }
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&value);
    }
    (!all.is_empty()).then_some(all)
}

/// Reads a body whole, at most `limit` bytes. A body of one frame is not copied.
pub(crate) async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, LinkError> {
    let too_large = || LinkError::NotMcp(format!("a body of more than {limit} bytes"));
    let expected = body.size_hint().exact();
    if expected.is_some_and(|size| size > limit as u64) {
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| LinkError::Broken(chain(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(too_large());
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            let size = expected.and_then(|size| usize::try_from(size).ok()).unwrap_or(first.len() * 2);
            rest.reserve(size.min(limit));
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// An error with its causes: hyper's own text is too short to act on.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let part = next.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = next.source();
    }
    text
}
