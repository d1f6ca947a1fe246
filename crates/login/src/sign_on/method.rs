//! How a server is signed on to without a person: what its definition says. Reads no files; secrets are read when they are
//! used.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::{Secret, ServerName};
use url::Url;

use crate::error::LoginError;
use crate::subject::SubjectToken;
use crate::target::{LoginSettings, LoginTarget};

/// Reads a secret when it is used, so that a changed one counts at once.
pub trait ReadSecret: fmt::Debug + Send + Sync {
    /// The secret. May block.
    ///
    /// # Errors
    /// Why it cannot be had, as a fragment without the secret.
    fn read(&self) -> Result<Secret, String>;
}

/// A server that callers are signed on to.
#[derive(Debug, Clone)]
pub struct SignOnTarget {
    pub(crate) place: LoginTarget,
    pub(crate) method: SignOnMethod,
}

/// How.
#[derive(Debug, Clone)]
pub enum SignOnMethod {
    /// The principal's own token is passed on.
    Forward(AudienceRule),
    /// The principal's own token is exchanged for one of another authorization server (RFC 8693).
    Exchange(ExchangeSettings),
}

/// For whom a principal's token must be to be passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AudienceRule {
    /// For the server itself.
    Server,
    /// For all of these.
    All(Vec<String>),
    /// For anyone: the definition says that the server checks it.
    Any,
}

/// An exchange.
#[derive(Debug, Clone)]
pub struct ExchangeSettings {
    /// The token endpoint.
    pub token_endpoint: Url,
    /// What the token that it gives must name as its issuer.
    pub expected_issuer: Option<String>,
    /// The connector of the principal's issuer there, as Dex calls it.
    pub connector: Option<String>,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
    /// For whom the token must be to be exchanged.
    pub audiences: AudienceRule,
    /// Our client there.
    pub client: Option<SignOnClient>,
    /// Whether the endpoint may have a private address.
    pub private: bool,
}

/// Our client at an authorization server.
#[derive(Debug, Clone)]
pub struct SignOnClient {
    /// Where its id is: it may stand beside the secret.
    pub id: Arc<dyn ReadSecret>,
    /// Where its secret is, if it has one.
    pub secret: Option<Arc<dyn ReadSecret>>,
}

// === impl SignOnTarget ===

impl SignOnTarget {
    /// Reads the URL of a definition.
    ///
    /// # Errors
    /// It is no `http` or `https` URL.
    pub fn new(server: ServerName, url: &str, method: SignOnMethod) -> Result<Self, LoginError> {
        Ok(Self { place: LoginTarget::new(server, url, LoginSettings::default())?, method })
    }

    /// The server.
    pub fn server(&self) -> &ServerName {
        &self.place.server
    }

    /// The first of a principal's tokens that may be used; why none may otherwise.
    pub(crate) fn subject(&self, tokens: Vec<SubjectToken>) -> Result<SubjectToken, &'static str> {
        let rule = match &self.method {
            SignOnMethod::Forward(rule) => rule,
            SignOnMethod::Exchange(exchange) => &exchange.audiences,
        };
        if tokens.is_empty() {
            return Err("it takes the caller's own token, and the caller did not come with one that can be passed on");
        }
        let resource = self.place.resource();
        tokens
            .into_iter()
            .find(|token| rule.admits(&token.audiences, resource.as_str()))
            .ok_or("the caller's token is for another audience than the one that the definition names")
    }
}

// === impl SignOnMethod ===

impl SignOnMethod {
    /// A word for people and for the audit log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forward(_) => "forwarded",
            Self::Exchange(_) => "exchanged",
        }
    }

    /// Whether it needs a token of the principal.
    pub fn needs_subject(&self) -> bool {
        matches!(self, Self::Forward(_) | Self::Exchange(_))
    }
}

// === impl AudienceRule ===

impl AudienceRule {
    /// Whether a token with these audiences may be passed on to the server with this URL.
    fn admits(&self, audiences: &[Box<str>], server: &str) -> bool {
        let has = |wanted: &str| audiences.iter().any(|audience| **audience == *wanted);
        match self {
            Self::Any => true,
            Self::All(wanted) => wanted.iter().all(|wanted| has(wanted)),
            Self::Server => has(server) || has(server.strip_suffix('/').unwrap_or(server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_passed_on_only_to_whom_it_is_for() {
        let server = "https://files.example.com/mcp";
        let all = |names: &[&str]| AudienceRule::All(names.iter().map(ToString::to_string).collect());
        for (rule, audiences, expected) in [
            (AudienceRule::Server, vec![server], true),
            (AudienceRule::Server, vec!["https://tools.example.com", server], true),
            (AudienceRule::Server, vec!["https://files.example.com"], false),
            (AudienceRule::Server, vec!["https://files.example.com/mcp/other"], false),
            (AudienceRule::Server, vec![], false),
            (all(&["a", "b"]), vec!["b", "a", "c"], true),
            (all(&["a", "b"]), vec!["a"], false),
            (all(&["a"]), vec!["A"], false),
            (all(&["a"]), vec![server], false),
            (AudienceRule::Any, vec!["x"], true),
        ] {
            let given: Vec<Box<str>> = audiences.iter().map(|name| (*name).into()).collect();
            assert_eq!(rule.admits(&given, server), expected, "{rule:?} {audiences:?}");
        }
        assert!(AudienceRule::Server.admits(&["https://a.example".into()], "https://a.example/"), "without the slash");
    }
}
