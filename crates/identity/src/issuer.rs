//! An issuer as the settings have it, and what they grant to its principals.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::{PrincipalId, Secret};

use crate::name::encoded;
use crate::token::TokenGrant;

/// An issuer whose access tokens count.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// What it is called in ids of principals; no `/` in it.
    pub name: Box<str>,
    /// Its identifier, exactly as its tokens have it in `iss`.
    pub issuer: String,
    /// What its tokens may have in `aud` beside our own URLs.
    pub audiences: Vec<String>,
    /// What is granted to its principals.
    pub grants: Vec<GrantRule>,
    /// Who we are when we ask it about opaque tokens; `None` where such tokens do not count.
    pub introspection: Option<IntrospectionClient>,
    /// Who we are when people sign in to our pages there; `None` where they cannot.
    pub sign_in: Option<SignInClient>,
    /// The claim with the groups; `groups` where it is `None`. Parts of a path stand with `.` between them.
    pub groups_claim: Option<String>,
    /// The claim with the tenant.
    pub tenant_claim: Option<String>,
    /// Whether it may have a private address.
    pub allows_private: bool,
}

/// A grant and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRule {
    /// Whom it is for.
    pub grantee: Grantee,
    /// What is granted.
    pub grant: TokenGrant,
}

/// Whom a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grantee {
    /// Members of a group.
    Group(String),
    /// One user, by `sub`.
    User(String),
    /// One client that acts for itself, by its id.
    Client(String),
}

/// Our client at an issuer.
#[derive(Debug, Clone)]
pub struct IntrospectionClient {
    /// `client_id`.
    pub id: String,
    /// Where its secret is.
    pub secret: Arc<dyn ReadSecret>,
    /// Whether the issuer is asked at each request, about signed tokens too: one that was revoked ends at once.
    pub each_request: bool,
}

/// Our client at an issuer for people who sign in to our pages.
#[derive(Debug, Clone)]
pub struct SignInClient {
    /// `client_id`.
    pub id: String,
    /// Where its secret is; `None` for a public client.
    pub secret: Option<Arc<dyn ReadSecret>>,
    /// What is asked for; `openid` is among it.
    pub scopes: Vec<String>,
}

/// Finds a secret when it is used.
pub trait ReadSecret: fmt::Debug + Send + Sync {
    /// The secret.
    ///
    /// # Errors
    /// It cannot be had; the text says why, without it.
    fn read(&self) -> Result<Secret, String>;
}

// === impl IssuerSettings ===

impl IssuerSettings {
    /// The grants of someone with these names.
    pub(crate) fn grants_of(&self, user: Option<&str>, client: Option<&str>, groups: &[Box<str>]) -> Vec<TokenGrant> {
        let is_for = |grantee: &Grantee| match grantee {
            Grantee::Group(name) => groups.iter().any(|group| **group == **name),
            Grantee::User(name) => user == Some(name),
            // A user that comes with this client is not the client.
            Grantee::Client(name) => user.is_none() && client == Some(name),
        };
        self.grants.iter().filter(|rule| is_for(&rule.grantee)).map(|rule| rule.grant.clone()).collect()
    }

    /// The grants of a principal that was made of one of its tokens or sign-ins.
    pub(crate) fn grants_to(&self, principal: &PrincipalId, groups: &[Box<str>]) -> Vec<TokenGrant> {
        let issuer = encoded(&self.name);
        let name = |kind: &str| principal.as_str().strip_prefix(kind)?.strip_prefix(&*issuer)?.strip_prefix('/');
        let (user, service) = (name("user:"), name("service:"));
        if user.is_none() && service.is_none() {
            return Vec::new();
        }
        let is_for = |grantee: &Grantee| match grantee {
            Grantee::Group(name) => groups.iter().any(|group| **group == **name),
            Grantee::User(name) => user == Some(encoded(name).as_str()),
            Grantee::Client(name) => service == Some(encoded(name).as_str()),
        };
        self.grants.iter().filter(|rule| is_for(&rule.grantee)).map(|rule| rule.grant.clone()).collect()
    }
}
