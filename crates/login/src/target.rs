//! What there is to log in to: a server's URL and the settings of its definition. Reads no files.

use toolcrib_base::{Secret, ServerName};
use url::Url;

use crate::error::LoginError;

/// A server that may need a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginTarget {
    /// The server.
    pub server: ServerName,
    /// Its MCP endpoint.
    pub url: Url,
    /// What its definition says about logins.
    pub settings: LoginSettings,
}

/// What a definition says about logins (`auth`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// The id of a client that was registered by hand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// Its redirect URL, in place of the gateway's own.
    pub redirect_uri: Option<String>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Vec<String>,
    /// The only authorization server that is accepted.
    pub issuer: Option<String>,
    /// Whether private addresses may be connected to.
    pub private: bool,
    /// Whether tokens must be bound to a key, or must not; otherwise they are where the server takes such tokens.
    pub dpop: Option<bool>,
}

impl LoginTarget {
    /// Reads the URL of a definition.
    ///
    /// # Errors
    /// It is no `http` or `https` URL.
    pub fn new(server: ServerName, url: &str, settings: LoginSettings) -> Result<Self, LoginError> {
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = parsed else { return Err(LoginError::NoUrl { server }) };
        Ok(Self { server, url, settings })
    }

    /// The URL that names the server to its authorization server: without query and fragment, which may hold secrets.
    pub(crate) fn resource(&self) -> Url {
        let mut resource = self.url.clone();
        resource.set_query(None);
        resource.set_fragment(None);
        let _ = resource.set_username("");
        let _ = resource.set_password(None);
        resource
    }
}
