//! Which addresses may be connected to. A server's metadata may name any host, and a host may resolve to anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::{Host, Url};

/// What an address leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressClass {
    Public,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// Link-local addresses, where clouds give out their machines' credentials, and all that no server has.
    Reserved,
}

/// Where a request may connect to. By default to public addresses only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddressPolicy {
    /// This machine, and without TLS: for servers that run on it themselves.
    pub allows_loopback: bool,
    /// Private networks: where the definition says so.
    pub allows_private: bool,
    /// The setting that would allow them, for errors: with the words that say where it stands.
    pub private_setting: &'static str,
}

/// An address of a host that may not be connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedAddress {
    /// This machine.
    #[error("`{host}` has the address {address}, which leads to this machine; only servers on this machine may use it")]
    Loopback {
        /// Whose address.
        host: String,
        /// Which.
        address: IpAddr,
    },
    /// In a private network.
    #[error("`{host}` has the private address {address}; set {setting} to allow it")]
    Private {
        /// Whose address.
        host: String,
        /// Which.
        address: IpAddr,
        /// The setting that allows it, with its place.
        setting: &'static str,
    },
    /// Link-local or another one that no server has.
    #[error("`{host}` has the address {address}, which no server may have")]
    Reserved {
        /// Whose address.
        host: String,
        /// Which.
        address: IpAddr,
    },
}

impl AddressClass {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => embedded(address).map_or_else(|| Self::of_v6(address), Self::of_v4),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        match (a, b, c) {
            // Where clouds give out their machines' credentials although the address does not say so.
            (100, 100, 100) if d == 200 => Self::Reserved,
            (168, 63, 129) if d == 16 => Self::Reserved,
            (127, ..) => Self::Loopback,
            // RFC 1918, and RFC 6598 for carriers, which overlay networks use as well.
            (10, ..) | (192, 168, _) => Self::Private,
            (172, b, _) if (16..=31).contains(&b) => Self::Private,
            (100, b, _) if (64..=127).contains(&b) => Self::Private,
            // This network, link-local, protocol assignments, documentation, benchmarks, multicast and above.
            (0, ..) | (169, 254, _) | (192, 0, 0 | 2) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => {
                Self::Reserved
            }
            (224..=255, ..) => Self::Reserved,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let [first, second, third, ..] = address.segments();
        match first {
            _ if address.is_loopback() => Self::Loopback,
            // The address at which a cloud gives out credentials lies among the unique local ones.
            0xfd00 if second == 0x0ec2 => Self::Reserved,
            0xfc00..=0xfdff => Self::Private,
            // Documentation, Teredo, local-use NAT64, discard.
            0x2001 if second == 0x0db8 || second == 0 => Self::Reserved,
            0x64 if second == 0xff9b && third == 1 => Self::Reserved,
            0x2000..=0x3fff => Self::Public,
            _ => Self::Reserved,
        }
    }
}

/// The IPv4 address inside an IPv6 one: mapped, compatible, NAT64, 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(v4(g, h)),
        [0, 0, 0, 0, 0, 0] if !address.is_loopback() && !address.is_unspecified() => Some(v4(g, h)),
        [0x2002, ..] => Some(v4(b, c)),
        _ => None,
    }
}

/// Whether a URL names this machine by its host: `localhost`, `127.0.0.1`, `[::1]`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => AddressClass::of(address.into()) == AddressClass::Loopback,
        Some(Host::Ipv6(address)) => AddressClass::of(address.into()) == AddressClass::Loopback,
        None => false,
    }
}

/// Whether a URL can be read from anywhere, as far as its host says: a full name or a public address. Where the name leads
/// is not asked.
pub fn is_public(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => !is_loopback(url) && name.trim_end_matches('.').contains('.'),
        Some(Host::Ipv4(address)) => AddressClass::of(address.into()) == AddressClass::Public,
        Some(Host::Ipv6(address)) => AddressClass::of(address.into()) == AddressClass::Public,
        None => false,
    }
}

impl AddressPolicy {
    /// What requests on behalf of a server or an issuer may connect to: to this machine only if it is there itself.
    pub fn of(party: &Url, allows_private: bool, private_setting: &'static str) -> Self {
        Self { allows_loopback: is_loopback(party), allows_private, private_setting }
    }

    /// Checks the addresses of a host. One that may not be connected to refuses them all: the host is not what it seems.
    ///
    /// # Errors
    /// The address that may not be connected to.
    pub fn check(self, host: &str, addresses: &[SocketAddr]) -> Result<(), RefusedAddress> {
        addresses.iter().map(SocketAddr::ip).try_for_each(|address| {
            let host = host.to_owned();
            match AddressClass::of(address) {
                AddressClass::Public => Ok(()),
                AddressClass::Loopback if self.allows_loopback => Ok(()),
                AddressClass::Private if self.allows_private => Ok(()),
                AddressClass::Loopback => Err(RefusedAddress::Loopback { host, address }),
                AddressClass::Private => Err(RefusedAddress::Private { host, address, setting: self.private_setting }),
                AddressClass::Reserved => Err(RefusedAddress::Reserved { host, address }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_has_a_full_name_or_a_public_address() {
        let public = |url: &str| is_public(&Url::parse(url).unwrap());
        for url in ["https://tools.example.com", "https://1.1.1.1", "https://[2606:4700::1]"] {
            assert!(public(url), "{url}");
        }
        for url in [
            "https://localhost",
            "https://a.localhost",
            "https://tools",
            "https://tools.",
            "https://127.0.0.1",
            "https://10.0.0.1",
            "https://169.254.1.1",
            "https://[::1]",
            "https://[fd00::1]",
            "file:///x",
        ] {
            assert!(!public(url), "{url}");
        }
    }

    #[test]
    fn addresses_are_what_they_lead_to() {
        let check = |expected: AddressClass, addresses: &[&str]| {
            for address in addresses {
                assert_eq!(AddressClass::of(address.parse().unwrap()), expected, "{address}");
            }
        };
        check(AddressClass::Public, &["93.184.216.34", "1.1.1.1", "2606:4700::1111", "64:ff9b::101:101"]);
        check(AddressClass::Loopback, &["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]);
        check(
            AddressClass::Private,
            &["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"],
        );
        check(AddressClass::Private, &["2002:a00:1::"]);
        check(
            AddressClass::Reserved,
            &[
                "169.254.169.254",
                "169.254.0.1",
                "0.0.0.0",
                "224.0.0.1",
                "255.255.255.255",
                "198.18.0.1",
                "fe80::1",
                "::",
                "ff02::1",
                "fd00:ec2::254",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
                "2002:a9fe:a9fe::",
                "2001:0:1::",
                "64:ff9b:1::1",
                "168.63.129.16",
                "100.100.100.200",
                "192.0.2.1",
                "::ffff:0:169.254.169.254",
            ],
        );
    }

    #[test]
    fn one_refused_address_refuses_the_host() {
        let addresses: Vec<SocketAddr> = vec!["93.184.216.34:443".parse().unwrap(), "10.0.0.1:443".parse().unwrap()];
        let public = AddressPolicy { private_setting: "`private: true`", ..AddressPolicy::default() };
        let refused = public.check("x.example", &addresses).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`x.example` has the private address 10.0.0.1; set `private: true` to allow it"
        );
        let private = AddressPolicy { allows_private: true, ..AddressPolicy::default() };
        assert_eq!(private.check("x.example", &addresses), Ok(()));
        let metadata = ["169.254.169.254:80".parse().unwrap()];
        let both = AddressPolicy { allows_private: true, allows_loopback: true, ..AddressPolicy::default() };
        assert_eq!(
            both.check("x.example", &metadata).unwrap_err().to_string(),
            "`x.example` has the address 169.254.169.254, which no server may have"
        );
        let loopback = ["127.0.0.1:80".parse().unwrap()];
        assert_eq!(
            private.check("x.example", &loopback).unwrap_err().to_string(),
            "`x.example` has the address 127.0.0.1, which leads to this machine; only servers on this machine may use it"
        );
    }

    #[test]
    fn names_of_this_machine_are_known() {
        for url in
            ["http://localhost:1/x", "http://LOCALHOST./", "http://a.localhost/", "http://127.0.0.2/", "http://[::1]/"]
        {
            assert!(is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
        for url in ["http://localhost.example/", "http://10.0.0.1/", "https://x.example/", "http://0.0.0.0/"] {
            assert!(!is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
    }
}
