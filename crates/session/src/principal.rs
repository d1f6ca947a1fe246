//! A proven identity, and whose share of what is bounded it uses.

use std::net::IpAddr;
use std::sync::Arc;

use toolcrib_base::{Identity, PrincipalId, Proof, Role, address_owner};

/// A proven identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Its id.
    pub id: PrincipalId,
    /// What it may do in the profile that it asked for.
    pub role: Role,
    /// What else was proven about it.
    pub identity: Arc<Identity>,
}

// === impl Principal ===

impl Principal {
    /// A principal of which this was proven.
    pub fn new(id: PrincipalId, role: Role, identity: Identity) -> Self {
        Self { id, role, identity: Arc::new(identity) }
    }

    /// One that calls tools, from this machine.
    pub fn member(id: &str) -> Self {
        Self::new(PrincipalId::new(id), Role::Member, Identity::by(Proof::Loopback))
    }

    /// One that administers by the gateway's token.
    pub fn admin(id: &str) -> Self {
        Self::new(PrincipalId::new(id), Role::Admin, Identity::by(Proof::GatewayToken))
    }

    /// One that a record names, with the role that it had.
    pub fn restored(id: PrincipalId, role: Role) -> Self {
        Self::new(id, role, Identity::by(Proof::Record))
    }

    /// Whether it may administer.
    pub fn is_admin(&self) -> bool {
        self.role.administers()
    }
}

/// Whose share of what is bounded is used: a principal at an address. Everyone on this machine without a credential is
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShareKey {
    principal: PrincipalId,
    /// Whether it is an administrator, who is never locked out by others.
    pub is_admin: bool,
    address: Option<IpAddr>,
}

impl ShareKey {
    /// The share of a principal that calls from an address.
    pub fn new(principal: &Principal, address: Option<IpAddr>) -> Self {
        let address = address.map(address_owner);
        Self { principal: principal.id.clone(), is_admin: principal.is_admin(), address }
    }
}
