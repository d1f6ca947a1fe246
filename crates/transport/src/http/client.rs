//! The HTTP client: one pool of connections for all servers, answers as JSON or as a stream of events.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::call::LinkError;
use crate::http::events::EventStream;
use crate::http::origin;
use crate::http::refusal::Refusal;

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);
/// How many unused connections are kept for one server: as many as it has calls running at a time unless its definition
/// says otherwise.
const POOL_PER_HOST: usize = 256;
/// How often one request is sent on to another place of the same origin.
const REDIRECTS: usize = 3;
/// How long establishing a TCP connection may take; the definition's own deadline may be shorter.
const CONNECT: Duration = Duration::from_secs(10);

/// The pool. Clones share it.
#[derive(Debug, Clone)]
pub struct HttpClient {
    inner: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Where a server listens and what every request to it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// The URL.
    pub uri: Uri,
    /// The definition's own headers; values that are secrets are marked sensitive.
    pub headers: HeaderMap,
}

/// What came back.
#[derive(Debug)]
pub struct PostResponse {
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

impl Endpoint {
    /// The headers of a POST: the definition's own and what the transport needs.
    pub(crate) fn post_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers
    }
}

/// `base` with `more`, which wins.
pub(crate) fn joined(base: &HeaderMap, more: &HeaderMap) -> HeaderMap {
    let mut all = base.clone();
    for (name, value) in more {
        all.insert(name, value.clone());
    }
    all
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
            let text = reason(&chain(&error), uri);
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
    ) -> Result<PostResponse, LinkError> {
        let response = self.send(Method::POST, uri, headers, body).await?;
        let (head, body) = response.into_parts();
        let reply = match media_type(&head.headers) {
            _ if !head.status.is_success() => Reply::Refused(Refusal::read(&head, body).await),
            "text/event-stream" => Reply::Stream(Box::new(EventStream::new(body, limit))),
            "application/json" => Reply::Json(collect(body, limit).await?),
            _ if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => Reply::Accepted,
            other => {
                let other = other.chars().take(80).collect::<String>();
                return Err(LinkError::NotMcp(format!("content type `{other}`")));
            }
        };
        Ok(PostResponse { status: head.status, headers: head.headers, reply })
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
            status if !status.is_success() => Err(Refusal::read(&head, body).await.into_error()),
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

/// Reads a body whole, at most `limit` bytes. A body of one frame is not copied.
pub(crate) async fn collect(body: Incoming, limit: usize) -> Result<Bytes, LinkError> {
    collect_if(body, limit, |_| true).await
}

/// The same, as long as there is room: `admit` is asked before so many more bytes are kept.
pub(crate) async fn collect_if(
    mut body: Incoming,
    limit: usize,
    mut admit: impl FnMut(usize) -> bool,
) -> Result<Bytes, LinkError> {
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
        if !admit(data.len()) {
            return Err(LinkError::NotMcp("no memory for the body".into()));
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

/// Why a request was not answered; a name that is not known is named.
fn reason(text: &str, uri: &Uri) -> String {
    match (text.split_once("dns error: "), uri.host()) {
        (Some((_, why)), Some(host)) => format!("the host name `{host}` cannot be resolved: {why}"),
        _ => text.to_owned(),
    }
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
