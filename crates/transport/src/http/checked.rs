//! The HTTP client for URLs that may come from an attacker, such as those of logins and of issuers' metadata: it speaks
//! TLS (without only to this machine), resolves a host once and connects to an address that it has checked, follows no
//! redirect, and bounds time, header and body.

mod address;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use toolcrib_protocol::http1::MediaType;
use url::{Host, Url};

use crate::call::LinkError;
use crate::http::client::{HttpClient, SingleConnection};

pub use address::{AddressPolicy, RefusedAddress, is_loopback, is_public};

/// How long a request may take in all: resolving, connecting, sending, the whole answer.
const REQUEST: Duration = Duration::from_secs(10);
/// How long connecting to one of several addresses may take.
const CONNECT: Duration = Duration::from_secs(3);
/// The largest body that is read, in bytes. The head is bounded by `protocol::http1`.
const BODY_BYTES: usize = 1024 * 1024;
/// How many addresses of a host are tried.
const ADDRESSES: usize = 4;
/// The longest URL, in bytes.
const URL_BYTES: usize = 16 * 1024;

/// Addresses of a host, once they are known.
pub type Resolution<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Finds the addresses of hosts.
pub trait ResolveHost: fmt::Debug + Send + Sync {
    /// The addresses of `host`, each with `port`.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolution<'a>;
}

/// The resolver of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl ResolveHost for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolution<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Neither `https` nor this machine.
    #[error("`{url}` is not reached: logins use `https`, and `http` on this machine only")]
    NotSecure {
        /// Its scheme and host.
        url: String,
    },
    /// `user:password@`.
    #[error("the URL has a user name or a password in it")]
    UserInfo,
    /// Nothing to request.
    #[error("the URL is too long or not one")]
    NotAUrl,
    /// The host has an address that may not be connected to.
    #[error(transparent)]
    Refused(#[from] RefusedAddress),
    /// The host has no address.
    #[error("the host name cannot be resolved: {0}")]
    Unresolved(String),
    /// The connection or the answer.
    #[error("{0}")]
    Broken(String),
    /// It took longer than all of it may take.
    #[error("no answer within {} seconds", REQUEST.as_secs())]
    TooSlow,
}

/// Sends requests to URLs that it checks. Clones share what they need.
#[derive(Debug, Clone)]
pub struct CheckedClient {
    client: HttpClient,
    resolver: Arc<dyn ResolveHost>,
}

impl CheckedClient {
    /// One that connects with `client` to what `resolver` finds.
    pub fn new(client: HttpClient, resolver: Arc<dyn ResolveHost>) -> Self {
        Self { client, resolver }
    }

    /// Sends one request and reads its answer. A redirect is an answer like any other.
    ///
    /// # Errors
    /// The URL may not be requested, or there is no answer of at most 1 MiB within 10 seconds.
    pub async fn send(
        &self,
        policy: AddressPolicy,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, RequestError> {
        tokio::time::timeout(REQUEST, self.exchange(policy, request)).await.unwrap_or(Err(RequestError::TooSlow))
    }

    async fn exchange(
        &self,
        policy: AddressPolicy,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, RequestError> {
        let url = checked(&request.uri().to_string(), policy)?;
        let mut request = request.map(Bytes::from);
        // The one reading of the URL that was checked is the one that is used.
        *request.uri_mut() = url.as_str().parse().map_err(|_| RequestError::NotAUrl)?;
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let mut last = RequestError::Unresolved("it has no address".to_owned());
        for address in self.addresses(&url, policy).await? {
            match tokio::time::timeout(CONNECT, self.client.connect_to(address, request.uri())).await {
                Ok(Ok(connection)) => return answer(connection, request).await,
                Ok(Err(error)) => last = RequestError::Broken(error.to_string()),
                Err(_) => last = RequestError::Broken(format!("no connection within {} seconds", CONNECT.as_secs())),
            }
        }
        Err(last)
    }

    /// The addresses of a URL's host, all of them checked.
    async fn addresses(&self, url: &Url, policy: AddressPolicy) -> Result<Vec<SocketAddr>, RequestError> {
        let port = url.port_or_known_default().ok_or(RequestError::NotAUrl)?;
        let name = url.host_str().ok_or(RequestError::NotAUrl)?;
        let addresses = match url.host().ok_or(RequestError::NotAUrl)? {
            Host::Ipv4(address) => vec![SocketAddr::new(IpAddr::V4(address), port)],
            Host::Ipv6(address) => vec![SocketAddr::new(IpAddr::V6(address), port)],
            Host::Domain(host) => {
                let found = self.resolver.resolve(host, port).await;
                found.map_err(|error| RequestError::Unresolved(error.to_string()))?
            }
        };
        policy.check(name, &addresses)?;
        Ok(addresses.into_iter().take(ADDRESSES).collect())
    }
}

/// Reads a URL that may be requested.
fn checked(text: &str, policy: AddressPolicy) -> Result<Url, RequestError> {
    if text.len() > URL_BYTES {
        return Err(RequestError::NotAUrl);
    }
    let url = Url::parse(text).map_err(|_| RequestError::NotAUrl)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(RequestError::UserInfo);
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if policy.allows_loopback && is_loopback(&url) => Ok(url),
        _ => Err(RequestError::NotSecure { url: shown(&url) }),
    }
}

/// The scheme and the host, short enough for a line.
fn shown(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or("")).chars().take(200).collect()
}

/// Sends a request and reads the whole answer. A stream of events is no answer to a login: its body is left alone.
async fn answer(connection: SingleConnection, request: Request<Bytes>) -> Result<Response<Vec<u8>>, RequestError> {
    let broken = |error: LinkError| match error {
        LinkError::NotMcp(what) => RequestError::Broken(format!("the answer has {what}")),
        other => RequestError::Broken(other.to_string()),
    };
    let response = connection.send(request).await.map_err(broken)?;
    let media_type = match &response.media_type {
        MediaType::Json => "application/json",
        MediaType::EventStream => "text/event-stream",
        MediaType::Other(other) => other.as_str(),
    };
    let mut answer = Response::builder().status(response.status);
    if let (Some(headers), Ok(media_type)) = (answer.headers_mut(), HeaderValue::from_str(media_type)) {
        for (name, value) in &response.headers {
            headers.append(name, value.clone());
        }
        headers.insert(CONTENT_TYPE, media_type);
    }
    let body = match response.media_type {
        MediaType::EventStream => Vec::new(),
        _ => response.body.collect(BODY_BYTES).await.map_err(broken)?.to_vec(),
    };
    answer.body(body).map_err(|error| RequestError::Broken(error.to_string()))
}
