//! What a mock server asks of a caller's token, and how it says so (RFC 6750, RFC 9728).

use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_transport::http::body::Body;

use crate::provider::{self, Provider};

/// Where the metadata of a resource are, whose path follows.
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// What a scenario says of a server that wants tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    /// The provider whose tokens count.
    pub(crate) provider: Option<String>,
    /// One more, whose tokens need no scopes.
    pub(crate) trusted: Option<String>,
    pub(crate) scopes: Vec<String>,
    /// What a token must be for, in place of the server's URL.
    pub(crate) audience: Option<String>,
    /// Whether the gateway passes its caller's token on.
    pub(crate) forwards: bool,
    /// How the gateway exchanges its caller's token.
    pub(crate) exchange: Option<Exchange>,
}

/// An exchange of tokens before a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) is_off: bool,
    pub(crate) provider: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) connector: Option<String>,
    pub(crate) scopes: Option<String>,
    pub(crate) issuer: Option<String>,
}

/// Looks at the tokens of callers of one server.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) provider: Option<Arc<Provider>>,
    pub(crate) trusted: Option<Arc<Provider>>,
    pub(crate) scopes: Vec<String>,
    pub(crate) audience: Option<String>,
    /// `http://host:port`.
    pub(crate) origin: String,
    /// Where the server speaks MCP.
    pub(crate) path: &'static str,
}

// === impl Guard ===

impl Guard {
    /// What the token of a request says of its bearer; else the answer.
    #[allow(clippy::result_large_err, reason = "the answer goes to the client as it is")]
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<Map<String, Value>, Response<Body>> {
        let Some(token) = provider::bearer(headers) else { return Err(self.refuse(None)) };
        self.claims(token).map_err(|refusal| self.refuse(Some(refusal)))
    }

    fn claims(&self, token: &str) -> Result<Map<String, Value>, TokenRefusal> {
        if let Some(claims) = self.provider.as_ref().and_then(|provider| provider.claims(token)) {
            if !self.is_for_us(&claims) {
                return Err(TokenRefusal::Token("the token is for another audience"));
            }
            let granted: Vec<&str> =
                claims.get("scope").and_then(Value::as_str).unwrap_or_default().split(' ').collect();
            // A token that a step minted need not say anything about scopes.
            let has_all = !claims.contains_key("scope") || self.scopes.iter().all(|scope| granted.contains(&&**scope));
            return if has_all { Ok(claims) } else { Err(TokenRefusal::Scope) };
        }
        if let Some(claims) = self.trusted.as_ref().and_then(|provider| provider.claims(token)) {
            return if self.is_for_us(&claims) {
                Ok(claims)
            } else {
                Err(TokenRefusal::Token("the token is for another audience"))
            };
        }
        let known = self.provider.as_ref().or(self.trusted.as_ref());
        Err(TokenRefusal::Token(known.map_or("no token counts here", |provider| provider.why_not(token))))
    }

    /// Whether a token is for this server. One that was asked for without `resource` names its client alone, and is for
    /// whoever trusts its issuer.
    fn is_for_us(&self, claims: &Map<String, Value>) -> bool {
        let own = match claims.get("aud") {
            Some(Value::String(audience)) => vec![audience.as_str()],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        match &self.audience {
            Some(expected) => own.contains(&expected.as_str()),
            None => own.contains(&self.resource().as_str()) || !own.iter().any(|audience| audience.contains("://")),
        }
    }

    fn resource(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The metadata at a path, where they are.
    pub(super) fn metadata(&self, path: &str) -> Option<Value> {
        let rest = path.strip_prefix(METADATA)?;
        let servers: Vec<&str> = self.provider.iter().map(|provider| provider.issuer()).collect();
        (rest.is_empty() || rest == self.path).then(|| {
            json!({
                "resource": self.resource(),
                "authorization_servers": servers,
                "bearer_methods_supported": ["header"],
                "scopes_supported": self.scopes,
            })
        })
    }

    /// The answer to a request without a token, or with one that opens nothing.
    fn refuse(&self, refusal: Option<TokenRefusal>) -> Response<Body> {
        let mut parameters = vec![format!("resource_metadata=\"{}{METADATA}{}\"", self.origin, self.path)];
        if !self.scopes.is_empty() {
            parameters.push(format!("scope=\"{}\"", self.scopes.join(" ")));
        }
        let status = match refusal {
            None => StatusCode::UNAUTHORIZED,
            Some(TokenRefusal::Token(why)) => {
                parameters.push(format!("error=\"invalid_token\", error_description=\"{why}\""));
                StatusCode::UNAUTHORIZED
            }
            Some(TokenRefusal::Scope) => {
                parameters.push("error=\"insufficient_scope\"".to_owned());
                StatusCode::FORBIDDEN
            }
        };
        let mut response = super::http::status(status);
        if let Ok(challenge) = HeaderValue::try_from(format!("Bearer {}", parameters.join(", "))) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Why a token opens nothing.
#[derive(Clone, Copy)]
enum TokenRefusal {
    Token(&'static str),
    Scope,
}
