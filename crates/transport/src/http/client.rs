//! The HTTP client: one pool of connections for all servers, answers as JSON or as a stream of events.
//!
//! A request runs in the task that waits for it: `connection` has no task of its own and no channel, so that a call wakes
//! no one else. What a request of a link carries each time is rendered once, in a `RequestTemplate`.

mod connect;
mod connection;
mod pool;
mod response;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode, Uri};
use toolcrib_protocol::header;
use toolcrib_protocol::http1::MediaType;

use crate::call::LinkError;
use crate::http::events::EventStream;
use crate::http::origin;
use crate::http::possession::{BoundRequest, ProvePossession, bound_token};
use crate::http::refusal::Refusal;

use connect::Connector;
use connection::{Connection, ExchangeError, Request, write_field, write_fields};
use pool::{Host, Pool};

pub use response::{Response, ResponseBody};

/// How often one request is sent on to another place of the same origin.
const REDIRECTS: usize = 3;

/// The pool. Clones share it.
#[derive(Debug, Clone)]
pub struct HttpClient {
    connector: Connector,
    pool: Arc<Pool>,
    prover: Option<Arc<dyn ProvePossession>>,
}

/// All of a request that is the same each time: where it goes, and its header fields as they are sent.
pub struct RequestTemplate {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The request line and the fields.
    head: Vec<u8>,
    host: Arc<Host>,
}

/// A request whose token is bound to a key, and who proves that we have it.
#[derive(Clone, Copy)]
struct ProvenRequest<'a> {
    prover: &'a dyn ProvePossession,
    request: BoundRequest<'a>,
}

/// An open connection that belongs to no pool.
pub struct SingleConnection(Box<Connection>);

/// Where a server listens and what every request to it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// The URL.
    pub uri: Uri,
    /// The definition's own headers; values that are secrets are marked sensitive.
    pub headers: HeaderMap,
    /// What proves whose connection it is, beside them.
    pub proof: HeaderMap,
}

/// What came back.
#[derive(Debug)]
pub struct PostResponse {
    /// The status.
    pub status: StatusCode,
    /// The header fields that someone reads, as in [`Response::headers`].
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
    /// The headers of a POST: the definition's own, what proves whose connection it is, what the transport needs.
    pub(crate) fn post_headers(&self) -> HeaderMap {
        joined(&self.unproven_post_headers(), &self.proof)
    }

    /// The headers of a GET: the definition's own and what proves whose connection it is.
    pub(crate) fn get_headers(&self) -> HeaderMap {
        joined(&self.headers, &self.proof)
    }

    /// The headers of a POST without what proves whose connection it is.
    pub(crate) fn unproven_post_headers(&self) -> HeaderMap {
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
    /// A new pool. TLS by rustls; it trusts the certificates of the platform, which are read when they are needed.
    ///
    /// # Errors
    /// TLS cannot be set up at all.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { connector: Connector::new()?, pool: Arc::default(), prover: None })
    }

    /// A new pool that trusts the authorities of `roots` in place of those of the platform.
    ///
    /// # Errors
    /// TLS cannot be set up on this machine.
    pub fn trusting(roots: rustls::RootCertStore) -> std::io::Result<Self> {
        Ok(Self { connector: Connector::trusting(roots)?, pool: Arc::default(), prover: None })
    }

    /// A new pool for one gateway on this machine: it trusts the first certificate of this file and no other, whatever
    /// name that is for. The file is read at each handshake.
    ///
    /// # Errors
    /// TLS cannot be set up on this machine.
    pub fn pinning(certificate: PathBuf) -> std::io::Result<Self> {
        Ok(Self { connector: Connector::pinning(certificate)?, pool: Arc::default(), prover: None })
    }

    /// The same pool for requests whose tokens may be bound to keys: `prover` proves each of those.
    #[must_use]
    pub fn proving(&self, prover: Arc<dyn ProvePossession>) -> Self {
        Self { prover: Some(prover), ..self.clone() }
    }

    /// What requests to `uri` with these headers have in common.
    pub fn template(&self, method: Method, uri: &Uri, headers: HeaderMap) -> RequestTemplate {
        let head = rendered(&method, uri, &headers);
        RequestTemplate { method, uri: uri.clone(), headers, head, host: self.pool.host(uri) }
    }

    /// Sends one request; a redirect of method and body within the origin is followed, with the same headers.
    pub async fn send(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, LinkError> {
        self.follow(self.template(method, uri, headers), &body, REDIRECTS).await
    }

    /// Opens a connection to `address` for one request to `uri`, whatever its host resolves to; TLS asks for the host's
    /// certificate all the same. An error means that nothing was sent.
    pub async fn connect_to(&self, address: SocketAddr, uri: &Uri) -> Result<SingleConnection, LinkError> {
        Ok(SingleConnection(Connection::new(self.connector.connect_to(address, uri).await?, pool::stack())))
    }

    /// Posts a message and reads how it was answered.
    pub async fn post(
        &self,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: usize,
    ) -> Result<PostResponse, LinkError> {
        PostResponse::read(self.send(Method::POST, uri, headers, body).await?, limit).await
    }

    /// [`HttpClient::post`] with what is known from before; of `more` the later ones win.
    pub async fn post_as(
        &self,
        template: &RequestTemplate,
        more: &[&HeaderMap],
        body: Bytes,
        limit: usize,
    ) -> Result<PostResponse, LinkError> {
        PostResponse::read(self.send_as(template, more, &body).await?, limit).await
    }

    async fn send_as(
        &self,
        template: &RequestTemplate,
        more: &[&HeaderMap],
        body: &Bytes,
    ) -> Result<Response, LinkError> {
        let (mut uri, mut redirects) = (template.uri.clone(), REDIRECTS);
        if !template.overlaps(more) {
            let response = self.exchange(template, more, body).await?;
            match redirected(&uri, &response) {
                Some(next) => (uri, redirects) = (next, REDIRECTS - 1),
                None => return Ok(response),
            }
        }
        let headers = more.iter().fold(template.headers.clone(), |all, more| joined(&all, more));
        Box::pin(self.follow(self.template(template.method.clone(), &uri, headers), body, redirects)).await
    }

    /// Sends a request to the place that it names, or that it is led to.
    async fn follow(
        &self,
        mut template: RequestTemplate,
        body: &Bytes,
        redirects: usize,
    ) -> Result<Response, LinkError> {
        for _ in 0..redirects {
            let response = self.exchange(&template, &[], body).await?;
            match redirected(&template.uri, &response) {
                Some(next) => template = self.template(template.method, &next, template.headers),
                None => return Ok(response),
            }
        }
        self.exchange(&template, &[], body).await
    }

    /// Sends a request on a connection of the pool or a new one, with a proof where its token is bound to a key. It is sent
    /// a second time only if not one byte of it has left this machine, because the server closed an unused connection in
    /// this very moment.
    async fn exchange(
        &self,
        template: &RequestTemplate,
        more: &[&HeaderMap],
        body: &Bytes,
    ) -> Result<Response, LinkError> {
        if let Some(prover) = &self.prover
            && let Some(token) = template.bound_token(more)
        {
            let request = BoundRequest { method: &template.method, uri: &template.uri, token };
            return self.exchange_proven(template, more, body, ProvenRequest { prover: &**prover, request }).await;
        }
        let request = Request { method: &template.method, head: &template.head, more, body };
        loop {
            let (mut connection, is_new) = match template.host.take() {
                Some(connection) => (connection, false),
                None => (Connection::new(self.connector.connect(&template.uri).await?, pool::stack()), true),
            };
            match connection.exchange(request).await {
                Ok(head) => return Ok(Response::new(head, connection, Arc::clone(&template.host))),
                Err(ExchangeError::Unsent(_)) if !is_new => {}
                Err(ExchangeError::Unsent(error)) => return Err(LinkError::Broken(error.to_string())),
                Err(ExchangeError::Broken(error)) => return Err(LinkError::Broken(error.to_string())),
            }
        }
    }

    /// Sends a request with a proof that is made for it alone. It is sent a second time if the server refuses it because
    /// the proof names another nonce than the server's present one: it has not run then (RFC 9449, section 9).
    ///
    /// Its type ends here: it is rare, and the future of each call is moved and has as many parts as the compiler follows.
    fn exchange_proven<'a>(
        &'a self,
        template: &'a RequestTemplate,
        more: &'a [&'a HeaderMap],
        body: &'a Bytes,
        proven: ProvenRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Response, LinkError>> + Send + 'a>> {
        let ProvenRequest { prover, request } = proven;
        let plain = Self { prover: None, ..self.clone() };
        Box::pin(async move {
            let mut is_repeated = false;
            loop {
                let Some(proof) = prover.prove(&request) else { return plain.exchange(template, more, body).await };
                let header = HeaderMap::from_iter([(HeaderName::from_static(header::DPOP), proof.value)]);
                let all: Vec<&HeaderMap> = more.iter().copied().chain([&header]).collect();
                let response = plain.exchange(template, &all, body).await?;
                let nonce = response.headers.get(header::DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
                let Some(nonce) = nonce else { return Ok(response) };
                prover.note_nonce(&request, nonce);
                let is_stale = response.status == StatusCode::UNAUTHORIZED && proof.nonce.as_deref() != Some(nonce);
                if is_repeated || !is_stale {
                    return Ok(response);
                }
                is_repeated = true;
            }
        })
    }

    /// Opens a stream of events; `None` when the server offers none.
    pub async fn open_stream(
        &self,
        uri: &Uri,
        mut headers: HeaderMap,
        limit: usize,
    ) -> Result<Option<EventStream>, LinkError> {
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self.send(Method::GET, uri, headers, Bytes::new()).await?;
        match response.status {
            StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            status if !status.is_success() => Err(Refusal::read(response).await.into_error()),
            _ if response.media_type == MediaType::EventStream => Ok(Some(EventStream::new(response.body, limit))),
            _ => Ok(None),
        }
    }
}

/// Where a response sends the same request to.
fn redirected(from: &Uri, response: &Response) -> Option<Uri> {
    let is_same = matches!(response.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let reference = response.headers.get(LOCATION).filter(|_| is_same)?.to_str().ok()?;
    origin::within(from, reference)
}

// === impl SingleConnection ===

impl SingleConnection {
    /// Sends a request. No redirect is followed, and the connection is closed behind the answer.
    pub async fn send(mut self, request: http::Request<Bytes>) -> Result<Response, LinkError> {
        let (parts, body) = request.into_parts();
        let head = rendered(&parts.method, &parts.uri, &parts.headers);
        let request = Request { method: &parts.method, head: &head, more: &[], body: &body };
        match self.0.exchange(request).await {
            Ok(head) => Ok(Response::new(head, self.0, Arc::new(Host::unpooled()))),
            Err(ExchangeError::Unsent(error)) => Err(LinkError::Broken(error.to_string())),
            Err(ExchangeError::Broken(error)) => Err(LinkError::Broken(error.to_string())),
        }
    }
}

impl fmt::Debug for SingleConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SingleConnection")
    }
}

// === impl PostResponse ===

impl PostResponse {
    async fn read(response: Response, limit: usize) -> Result<Self, LinkError> {
        let (status, headers) = (response.status, response.headers.clone());
        let reply = match &response.media_type {
            _ if !status.is_success() => Reply::Refused(Refusal::read(response).await),
            MediaType::EventStream => Reply::Stream(Box::new(EventStream::new(response.body, limit))),
            MediaType::Json => Reply::Json(response.body.collect(limit).await?),
            MediaType::Other(_) if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => Reply::Accepted,
            MediaType::Other(other) => {
                let other = other.chars().take(80).collect::<String>();
                return Err(LinkError::NotMcp(format!("content type `{other}`")));
            }
        };
        Ok(Self { status, headers, reply })
    }
}

// === impl RequestTemplate ===

impl RequestTemplate {
    /// The same with other headers.
    pub(crate) fn with_headers(&self, client: &HttpClient, headers: HeaderMap) -> Self {
        client.template(self.method.clone(), &self.uri, headers)
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The token that a request with these headers carries, if it is bound to a key.
    fn bound_token<'a>(&'a self, more: &[&'a HeaderMap]) -> Option<&'a str> {
        let maps = more.iter().rev().copied().chain([&self.headers]);
        bound_token(maps.into_iter().find_map(|headers| headers.get(AUTHORIZATION))?)
    }

    /// Whether a header of `more` takes the place of another one.
    fn overlaps(&self, more: &[&HeaderMap]) -> bool {
        let has = |map: &HeaderMap, others: &HeaderMap| others.keys().any(|name| map.contains_key(name));
        more.iter()
            .enumerate()
            .any(|(at, others)| has(&self.headers, others) || more[..at].iter().any(|map| has(map, others)))
    }
}

impl fmt::Debug for RequestTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is rendered may hold secrets.
        f.debug_struct("RequestTemplate").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The request line and the header fields.
fn rendered(method: &Method, uri: &Uri, headers: &HeaderMap) -> Vec<u8> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    if !headers.contains_key(HOST) {
        let is_default =
            matches!((uri.scheme_str(), uri.port_u16()), (Some("http"), Some(80)) | (Some("https"), Some(443)));
        let port = uri.port_u16().filter(|_| !is_default).map(|port| format!(":{port}")).unwrap_or_default();
        write_field(&mut head, "host", format!("{}{port}", uri.host().unwrap_or_default()).as_bytes());
    }
    write_fields(&mut head, headers);
    head
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
