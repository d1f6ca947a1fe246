//! Proofs that a request comes from who has the key of its token (DPoP, RFC 9449): who makes them, as the client asks for
//! them. Each is for one request, so it is made where the method and the place are known. Knows no keys.

use std::fmt;

use http::header::HeaderValue;
use http::{Method, Uri};

/// How a token is presented that is bound to a key (RFC 9449, section 7.1).
pub const SCHEME: &str = "DPoP ";

/// Makes the proofs of requests whose tokens are bound to keys. Asked for no other request.
pub trait ProvePossession: fmt::Debug + Send + Sync {
    /// The proof for one request; `None` for a token whose key is not known.
    fn prove(&self, request: &BoundRequest<'_>) -> Option<PossessionProof>;

    /// Takes the nonce that the server of such a request gave, for the next proof.
    fn note_nonce(&self, request: &BoundRequest<'_>, nonce: &str);
}

/// A request that carries a token which is bound to a key.
#[derive(Clone, Copy)]
pub struct BoundRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub uri: &'a Uri,
    /// The token.
    pub token: &'a str,
}

/// A proof for one request.
#[derive(Debug, Clone)]
pub struct PossessionProof {
    /// The header `DPoP`.
    pub value: HeaderValue,
    /// The nonce that it names.
    pub nonce: Option<String>,
}

impl fmt::Debug for BoundRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundRequest").field("method", self.method).finish_non_exhaustive()
    }
}

/// The token of an `Authorization` header, if it is bound to a key.
pub(crate) fn bound_token(credential: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(credential.as_bytes().strip_prefix(SCHEME.as_bytes())?).ok()
}
