//! A proven identity, and whose share of what is bounded it uses.

use std::net::{IpAddr, Ipv6Addr};

use toolcrib_base::PrincipalId;

/// A proven identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Its id.
    pub id: PrincipalId,
    /// Whether it may administer.
    pub is_admin: bool,
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
        let address = address.map(|address| match address.to_canonical() {
            // A household or a server has at least so many addresses of IPv6.
            IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & (u128::MAX << 64))),
            four => four,
        });
        Self { principal: principal.id.clone(), is_admin: principal.is_admin, address }
    }
}
