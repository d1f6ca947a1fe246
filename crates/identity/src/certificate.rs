//! Who the bearer of a client certificate is. That its chain leads to the authority, and that it has not expired, is
//! verified elsewhere.

use std::sync::Arc;

use toolcrib_base::{Identity, PrincipalId, Proof, Timestamp};

use crate::name::encoded;
use crate::token::{KnownToken, TokenGrant};

/// The authority of clients' certificates as the settings have it, with what they grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateAuthority {
    /// What it is called in ids of principals; no `/` in it.
    pub name: Box<str>,
    /// What is granted to its clients.
    pub grants: Vec<CertificateGrant>,
}

/// A grant and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateGrant {
    /// The name in the certificate; `None` for every client of the authority.
    pub name: Option<String>,
    /// What is granted.
    pub grant: TokenGrant,
}

// === impl CertificateAuthority ===

impl CertificateAuthority {
    /// What the certificate of this name proves until it expires.
    pub fn prove(&self, name: &str, expires: Timestamp) -> KnownToken {
        let identity = Identity { issuer: Some(self.name.clone()), ..Identity::by(Proof::Certificate) };
        let grants = self.grants.iter().filter(|rule| rule.name.as_deref().is_none_or(|granted| granted == name));
        KnownToken {
            id: PrincipalId::new(&format!("cert:{}/{}", encoded(&self.name), encoded(name))),
            identity: Arc::new(identity),
            scopes: Vec::new(),
            expires,
            grants: grants.map(|rule| rule.grant.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{ProfileName, Role};

    use super::*;

    #[test]
    fn a_certificate_proves_its_name_and_gets_the_grants_of_it() {
        let work = ProfileName::new("work").unwrap();
        let grant = |name: Option<&str>, role| CertificateGrant {
            name: name.map(str::to_owned),
            grant: TokenGrant { role, profiles: vec![work.clone()] },
        };
        let grants = vec![grant(Some("ci.example.com"), Role::Operator), grant(None, Role::Viewer)];
        let authority = CertificateAuthority { name: "office".into(), grants };
        for (name, id, role) in [
            ("ci.example.com", "cert:office/ci.example.com", Role::Operator),
            ("CI.example.com", "cert:office/CI.example.com", Role::Viewer),
            ("spiffe://a/ci", "cert:office/spiffe:%2F%2Fa%2Fci", Role::Viewer),
            ("../user:acme/ann", "cert:office/..%2Fuser:acme%2Fann", Role::Viewer),
        ] {
            let known = authority.prove(name, Timestamp(7));
            assert_eq!((known.id.as_str(), known.role_in(&work), known.expires), (id, Some(role), Timestamp(7)));
            assert_eq!(known.identity.proof, Proof::Certificate);
        }
        assert_eq!(authority.prove("x", Timestamp(7)).role_in(&ProfileName::new("home").unwrap()), None);
    }
}
