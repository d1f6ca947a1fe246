//! How a server is signed on to without a person: what its definition says. Reads no files; secrets are read when they are
//! used.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::{Secret, ServerName};
use url::Url;

use crate::error::LoginError;
use crate::subject::{SubjectKind, SubjectToken};
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
    /// The gateway's own client gets a token, the same for all principals (RFC 6749, section 4.4).
    ClientCredentials(ProviderSettings),
    /// The token that the platform gives this workload is the proof (RFC 7523).
    Workload(WorkloadSettings),
    /// The company's identity provider vouches for the principal (enterprise-managed authorization).
    Enterprise(EnterpriseSettings),
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

/// Who gives tokens for a server, and to which client.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// The token endpoint, in place of the one that the server's provider publishes.
    pub token_endpoint: Option<Url>,
    /// The only authorization server that is accepted.
    pub issuer: Option<String>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Vec<String>,
    /// Whether private addresses may be connected to.
    pub private: bool,
    /// Our client there.
    pub client: Option<SignOnClient>,
    /// Whether tokens must be bound to a key, or must not; otherwise they are where the server takes such tokens.
    pub dpop: Option<bool>,
}

/// A workload.
#[derive(Debug, Clone)]
pub struct WorkloadSettings {
    /// Who gives tokens.
    pub provider: ProviderSettings,
    /// Where its token is. The platform changes it from time to time.
    pub assertion: Arc<dyn ReadSecret>,
}

/// A company's identity provider that vouches for principals.
#[derive(Debug, Clone)]
pub struct EnterpriseSettings {
    /// Who gives tokens.
    pub provider: ProviderSettings,
    /// The token endpoint of the identity provider.
    pub token_endpoint: Url,
    /// Our client at the identity provider.
    pub client: Option<SignOnClient>,
    /// Where the ID token is, for a gateway of one person; otherwise the principal's own.
    pub id_token: Option<Arc<dyn ReadSecret>>,
}

/// Our client at an authorization server.
#[derive(Debug, Clone)]
pub struct SignOnClient {
    /// Where its id is: it may stand beside the secret.
    pub id: Arc<dyn ReadSecret>,
    /// How it proves itself.
    pub proof: ClientProof,
}

/// How a client proves itself.
#[derive(Debug, Clone)]
pub enum ClientProof {
    /// Not at all.
    None,
    /// By a secret.
    Secret(Arc<dyn ReadSecret>),
    /// By an assertion that this private key signs; the provider knows the key by the id.
    Key(Arc<dyn ReadSecret>, Option<String>),
}

// === impl SignOnTarget ===

impl SignOnTarget {
    /// Reads the URL of a definition.
    ///
    /// # Errors
    /// It is no `http` or `https` URL.
    pub fn new(server: ServerName, url: &str, method: SignOnMethod) -> Result<Self, LoginError> {
        let settings = method.provider().map(|provider| LoginSettings {
            scopes: provider.scopes.clone(),
            issuer: provider.issuer.clone(),
            private: provider.private,
            dpop: provider.dpop,
            ..LoginSettings::default()
        });
        Ok(Self { place: LoginTarget::new(server, url, settings.unwrap_or_default())?, method })
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
            // What an identity provider takes is what it gave itself, to whom it signed in.
            _ => {
                let signed_in = tokens.into_iter().find(|token| token.kind == SubjectKind::Id);
                return signed_in.ok_or("it takes the ID token of a sign-in, and the caller has not signed in here");
            }
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
            Self::ClientCredentials(_) => "client_credentials",
            Self::Workload(_) => "workload",
            Self::Enterprise(_) => "enterprise",
        }
    }

    /// Whether it needs a token of the principal.
    pub fn needs_subject(&self) -> bool {
        match self {
            Self::Forward(_) | Self::Exchange(_) => true,
            Self::ClientCredentials(_) | Self::Workload(_) => false,
            Self::Enterprise(settings) => settings.id_token.is_none(),
        }
    }

    fn provider(&self) -> Option<&ProviderSettings> {
        match self {
            Self::Forward(_) | Self::Exchange(_) => None,
            Self::ClientCredentials(provider) => Some(provider),
            Self::Workload(settings) => Some(&settings.provider),
            Self::Enterprise(settings) => Some(&settings.provider),
        }
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
