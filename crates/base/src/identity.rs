//! What is proven about a principal, and what that lets it do.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::PrincipalId;

/// What a principal may do, least first. A grant maps a principal to a role at each decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Calls tools that only read.
    Viewer,
    /// Calls tools.
    Member,
    /// Calls tools, and looks at what administrators look at.
    Operator,
    /// Administers.
    Admin,
    /// Administers, and is whose installation it is.
    Owner,
}

/// A text that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `viewer`, `member`, `operator`, `admin` or `owner`")]
pub struct RoleError;

/// How a principal was proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// It calls from this machine without a credential.
    Loopback,
    /// The token of the gateway's token file.
    GatewayToken,
    /// A key of a profile.
    Key,
    /// An access token of an issuer.
    AccessToken,
    /// A client certificate.
    Certificate,
    /// The cookie of a page that it signed in to.
    Page,
    /// A record of what it started earlier.
    Record,
    /// By nothing: it reads what is open to everyone.
    Nothing,
}

/// What was proven about a principal beyond its id. It travels with each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// How it was proven.
    pub proof: Proof,
    /// The name that the settings give the issuer of its token.
    pub issuer: Option<Box<str>>,
    /// The tenant that the issuer names.
    pub tenant: Option<Box<str>>,
    /// The groups that the issuer names.
    pub groups: Vec<Box<str>>,
    /// The OAuth client that presents the token.
    pub client: Option<Box<str>>,
    /// The session of our own authorization server that its token belongs to.
    pub session: Option<Box<str>>,
    /// Which key or token it came with.
    pub credential: Option<CredentialName>,
    /// The principal whose key it is, where its profile says so.
    pub user: Option<PrincipalId>,
    /// Who acts in its name, as its token says; the one who acts now comes first (RFC 8693, section 4.1).
    pub actors: Vec<Box<str>>,
}

/// The public name of a key or a token, for records: the beginning of its SHA-256. It opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CredentialName([u8; 8]);

/// What led to a call beside who asks: the run whose step it is, and what that has seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallChain {
    /// The workflow that is run.
    pub workflow: Option<Box<str>>,
    /// The id of the run.
    pub run: Option<Box<str>>,
    /// What it has seen.
    pub labels: BTreeSet<Box<str>>,
}

// === impl Proof ===

impl Proof {
    /// Every way.
    pub const ALL: [Self; 8] = [
        Self::Loopback,
        Self::GatewayToken,
        Self::Key,
        Self::AccessToken,
        Self::Certificate,
        Self::Page,
        Self::Record,
        Self::Nothing,
    ];

    /// Its name in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::GatewayToken => "gateway-token",
            Self::Key => "key",
            Self::AccessToken => "access-token",
            Self::Certificate => "certificate",
            Self::Page => "page",
            Self::Record => "record",
            Self::Nothing => "nothing",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proof| proof.as_str() == name)
    }
}

// === impl Role ===

impl Role {
    /// Every role, least first.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Member, Self::Operator, Self::Admin, Self::Owner];

    /// Its name in settings and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// Whether it may change the gateway.
    pub fn administers(self) -> bool {
        self >= Self::Admin
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(RoleError)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Identity ===

impl Identity {
    /// One of which nothing is known but how it was proven.
    pub fn by(proof: Proof) -> Self {
        Self {
            proof,
            issuer: None,
            tenant: None,
            groups: Vec::new(),
            client: None,
            session: None,
            credential: None,
            user: None,
            actors: Vec::new(),
        }
    }

    /// Whether rules cannot tell them apart: all is the same but the key or token that each came with.
    pub fn is_like(&self, other: &Self) -> bool {
        let Self { proof, issuer, tenant, groups, client, session, credential: _, user, actors } = self;
        *proof == other.proof
            && *issuer == other.issuer
            && *tenant == other.tenant
            && *groups == other.groups
            && *client == other.client
            && *session == other.session
            && *user == other.user
            && *actors == other.actors
    }
}

// === impl CredentialName ===

impl CredentialName {
    /// The name of the credential with this SHA-256.
    pub fn of_hash(hash: &[u8; 32]) -> Self {
        let mut name = [0; 8];
        name.copy_from_slice(&hash[..8]);
        Self(name)
    }
}

impl fmt::Display for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_and_read_as_they_are_written() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(role.administers(), matches!(role, Role::Admin | Role::Owner), "{role}");
        }
        for wrong in ["", "Admin", "root", "admin "] {
            assert_eq!(wrong.parse::<Role>(), Err(RoleError), "{wrong}");
        }
    }
}
