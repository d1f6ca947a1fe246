//! Credentials of a request over HTTP for the principal that it is made for. The composition root supplies them;
//! nothing here knows any.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::HeaderMap;
use http::header::HeaderValue;
use toolcrib_transport::LinkError;

use crate::config::ServerConfig;

/// Gives the headers that a request to a server carries for a principal, on top of the definition's own.
///
/// The client's own token goes to a server only where its definition says so: all else that is given here belongs to that
/// server.
pub trait Credentials: fmt::Debug + Send + Sync {
    /// Asked for each request, so that what expires is renewed in time. `principal` is `None` for the owner of this
    /// installation.
    fn headers<'a>(&'a self, server: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a>;

    /// Whether a principal can be proven to a server without a person, although it may hold nothing for it yet: its first
    /// request may open a connection of its own.
    fn is_automatic(&self, server: &ServerConfig, principal: Option<&str>) -> bool {
        let _ = (server, principal);
        false
    }

    /// Whose credential the requests of a principal carry. Says nothing of whether there is one; cheap, as it is asked
    /// for each request.
    fn whose(&self, _server: &ServerConfig, _principal: Option<&str>) -> CredentialHolder {
        CredentialHolder::Own
    }

    /// Takes note that a server refused a request, and gets a better credential where it can without a person. A
    /// refused request has not run.
    fn renew<'a>(&'a self, refusal: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>>;
}

/// Whose credential requests carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialHolder {
    /// No one's: all principals are the same to the server.
    Anyone,
    /// That of the owner of this installation.
    Owner,
    /// The principal's own, and no other one's.
    Own,
}

/// The headers of one request.
pub enum Proof<'a> {
    /// They are at hand; empty where the server needs none.
    Known(HeaderMap),
    /// They are being renewed, or read.
    Awaited(Pin<Box<dyn Future<Output = Result<HeaderMap, NoCredential>> + Send + 'a>>),
}

/// Why a request cannot be made in a principal's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCredential {
    /// The principal must log in, or give the value of a header.
    NeedsLogin,
    /// It cannot be had now: why, as a fragment for people.
    Unavailable(String),
}

/// A request that a server refused with 401 or 403.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// The server.
    pub server: &'a ServerConfig,
    /// In whose name it was made; `None` is the owner.
    pub principal: Option<&'a str>,
    /// The credential that it carried.
    pub sent: Option<&'a HeaderValue>,
    /// 401 or 403.
    pub status: u16,
    /// Its `WWW-Authenticate` headers, joined by commas. Written by the server: not to be trusted.
    pub challenge: Option<&'a str>,
}

/// What became of a refused credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// There is another one: the request can be made again.
    Renewed,
    /// The principal must log in.
    NeedsLogin,
    /// It has nothing to do with a login, as far as is known.
    Unknown,
}

impl fmt::Debug for Proof<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known(_) => "Known",
            Self::Awaited(_) => "Awaited",
        })
    }
}

impl From<NoCredential> for LinkError {
    fn from(error: NoCredential) -> Self {
        match error {
            NoCredential::NeedsLogin => LinkError::NeedsLogin,
            NoCredential::Unavailable(why) => LinkError::Unproven(why),
        }
    }
}

impl<'a> Refusal<'a> {
    /// The refusal that an error is; `None` for all others.
    pub(crate) fn of(
        error: &'a LinkError,
        server: &'a ServerConfig,
        principal: Option<&'a str>,
        sent: Option<&'a HeaderValue>,
    ) -> Option<Self> {
        match error {
            LinkError::Status { status: status @ (401 | 403), challenge, .. } => {
                Some(Self { server, principal, sent, status: *status, challenge: challenge.as_deref() })
            }
            _ => None,
        }
    }
}
