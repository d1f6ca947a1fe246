//! What the door asks of whoever checks access tokens, and what it gets back. How a token is checked is not here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use toolcrib_base::{Identity, PrincipalId, ProfileName, Role, Timestamp};

/// Checks access tokens.
pub trait ProveTokens: fmt::Debug + Send + Sync {
    /// What a token proves that was proven before and still counts for this resource. Never a token that is bound to a
    /// key: each request needs a proof of its own for it.
    fn known(&self, token: &str, resource: &Resource<'_>, now: Timestamp) -> Option<Arc<KnownToken>>;

    /// Checks a token, which may ask its issuer.
    ///
    /// # Errors
    /// The token proves nothing here, or that cannot be found out now.
    fn prove<'a>(&'a self, presented: PresentedToken<'a>) -> TokenCheck<'a>;

    /// The URLs of the issuers, for clients that look for one.
    fn issuers(&self) -> Vec<String>;

    /// The algorithms of proofs of possession that are taken, such as `ES256`; none where such tokens are not taken.
    fn proof_algorithms(&self) -> &[&'static str];
}

/// A check that runs.
pub type TokenCheck<'a> = Pin<Box<dyn Future<Output = Result<Arc<KnownToken>, TokenRefusal>> + Send + 'a>>;

/// What an access token proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownToken {
    /// Who presents it: `user:<issuer>/<sub>` or `service:<issuer>/<client>`.
    pub id: PrincipalId,
    /// The issuer, tenant, groups and client that the token names.
    pub identity: Arc<Identity>,
    /// Its scopes.
    pub scopes: Vec<Box<str>>,
    /// From when on it proves nothing.
    pub expires: Timestamp,
    /// What the settings grant to its principal.
    pub grants: Vec<TokenGrant>,
}

/// A role in some profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenGrant {
    /// The role.
    pub role: Role,
    /// The profiles.
    pub profiles: Vec<ProfileName>,
}

/// A token as it came.
#[derive(Debug, Clone, Copy)]
pub struct PresentedToken<'a> {
    /// The token.
    pub token: &'a str,
    /// Whether it came with the scheme `DPoP`, which a bound token needs.
    pub is_dpop: bool,
    /// The header `DPoP`.
    pub proof: Option<&'a str>,
    /// The method of the request.
    pub method: &'a str,
    /// The path of the request, without its query.
    pub path: &'a str,
    /// What is asked for.
    pub resource: Resource<'a>,
}

/// A profile of this gateway as the resource of a token.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// `scheme://host[:port]` of the gateway.
    pub origin: &'a str,
    /// The profile.
    pub profile: &'a ProfileName,
}

/// Why a token proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It does not count here; the text says what is wrong, without the token.
    #[error("{0}")]
    Invalid(String),
    /// The proof of possession is missing or wrong.
    #[error("{0}")]
    Proof(String),
    /// The proof needs this nonce.
    #[error("the proof of possession needs the nonce of this answer")]
    Nonce(String),
    /// Whether it counts cannot be found out now.
    #[error("{0}")]
    Unavailable(String),
}

// === impl KnownToken ===

impl KnownToken {
    /// Its role in a profile, the highest that a grant gives; `None` where none is granted.
    pub fn role_in(&self, profile: &ProfileName) -> Option<Role> {
        let granted = self.grants.iter().filter(|grant| grant.profiles.contains(profile));
        granted.map(|grant| grant.role).max()
    }
}

// === impl Resource ===

impl Resource<'_> {
    /// Whether a token for `audience` is for this resource: for the gateway as a whole, or for one of the profile's own
    /// endpoints.
    pub fn is(&self, audience: &str) -> bool {
        let Some(path) = audience.strip_prefix(self.origin) else { return false };
        let path = path.strip_suffix('/').unwrap_or(path);
        let endpoint = path.strip_prefix("/mcp").or_else(|| path.strip_prefix("/sse"));
        match endpoint {
            None => path.is_empty(),
            Some("") => self.profile.as_str() == "default",
            Some(rest) => rest.strip_prefix("/p/") == Some(self.profile.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::Proof;

    use super::*;

    #[test]
    fn an_audience_is_the_gateway_or_an_endpoint_of_the_profile() {
        let (work, default) = (ProfileName::new("work").unwrap(), ProfileName::new("default").unwrap());
        let origin = "https://tools.example.com";
        for (path, of_work, of_default) in [
            ("", true, true),
            ("/", true, true),
            ("/mcp/p/work", true, false),
            ("/mcp/p/work/", true, false),
            ("/sse/p/work", true, false),
            ("/mcp", false, true),
            ("/sse/", false, true),
            ("/mcp/p/default", false, true),
            ("/mcp/p/work2", false, false),
            ("/mcp/p/", false, false),
            (".evil.example", false, false),
            (":8443", false, false),
            ("//", false, false),
            ("/api/v1", false, false),
        ] {
            let is = |profile| Resource { origin, profile }.is(&format!("{origin}{path}"));
            assert_eq!((is(&work), is(&default)), (of_work, of_default), "{path}");
        }
        assert!(!Resource { origin, profile: &work }.is("http://tools.example.com"));
        assert!(!Resource { origin, profile: &work }.is(""));
    }

    #[test]
    fn the_highest_role_that_is_granted_counts() {
        let [work, home, other] = ["work", "home", "other"].map(|name| ProfileName::new(name).unwrap());
        let grant = |role, profiles: &[&ProfileName]| TokenGrant {
            role,
            profiles: profiles.iter().map(|name| (*name).clone()).collect(),
        };
        let known = KnownToken {
            id: PrincipalId::new("user:acme/1"),
            identity: Arc::new(Identity::by(Proof::AccessToken)),
            scopes: Vec::new(),
            expires: Timestamp(0),
            grants: vec![
                grant(Role::Member, &[&work, &home]),
                grant(Role::Admin, &[&work]),
                grant(Role::Viewer, &[&work]),
            ],
        };
        assert_eq!(known.role_in(&work), Some(Role::Admin));
        assert_eq!(known.role_in(&home), Some(Role::Member));
        assert_eq!(known.role_in(&other), None);
    }
}
