//! Credentials of a request over HTTP for the principal that it is made for. The composition root supplies them;
//! nothing here knows any.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::HeaderMap;
use toolcrib_base::ServerName;

/// Gives the headers that a request to a server carries for a principal, on top of the definition's own.
///
/// Asked for each request, so that what has expired is renewed in time; it should answer from memory. The client's own
/// token never goes to a server: what is given here belongs to that server.
pub trait Credentials: fmt::Debug + Send + Sync {
    /// `principal` is `None` for the owner of this installation. The error is a fragment for people.
    fn headers<'a>(&'a self, server: &'a ServerName, principal: Option<&'a str>) -> Proof<'a>;
}

/// The headers, once they are known.
pub type Proof<'a> = Pin<Box<dyn Future<Output = Result<HeaderMap, String>> + Send + 'a>>;
