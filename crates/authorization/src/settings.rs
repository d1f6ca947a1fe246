//! The server as the settings have it.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_identity::{ReadSecret, TokenGrant};

/// The authorization server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// `scheme://host[:port]` under which clients reach the gateway: the issuer's identifier.
    pub origin: String,
    /// What a token needs to be admitted at all; asked for or not, a client gets no others.
    pub scopes: Vec<Box<str>>,
    /// Whether clients may register themselves (RFC 7591).
    pub registration: bool,
    /// Clients that need no registration.
    pub clients: Vec<ClientSettings>,
    /// The names of the issuers at which people prove who they are; without one the owner approves.
    pub sign_in: Vec<String>,
    /// The names of the issuers whose statements about their users are taken from clients that may exchange tokens.
    pub assertions: Vec<String>,
}

/// A client that the settings name.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// `client_id`.
    pub id: String,
    /// What people read.
    pub name: String,
    /// Where its answers may go.
    pub redirects: Vec<String>,
    /// Where its secret is.
    pub secret: Option<Arc<dyn ReadSecret>>,
    /// Its public keys (RFC 7517), if it signs instead.
    pub keys: Option<Value>,
    /// What it may do in its own name.
    pub grant: Option<TokenGrant>,
    /// Whether it may exchange tokens of people for its own (RFC 8693), and show statements of issuers about them.
    pub exchanges: bool,
}
