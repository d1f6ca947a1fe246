//! Where a request comes from when a proxy passes it on: `X-Forwarded-For`, believed from trusted proxies only, and read
//! from its end, which they wrote, up to the first address that is none of them.
//!
//! `Forwarded` (RFC 7239) is not read: proxies that do not know it pass on what a client wrote there.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::header::{HeaderMap, HeaderName};

/// Proxies behind one another that are followed at most; more are a loop or a client's invention.
const HOPS: usize = 16;
/// The shortest prefixes of networks: whoever trusts more trusts the whole internet.
const SHORTEST: [u8; 2] = [8, 16];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Addresses with a common prefix, such as `10.1.0.0/16`; an address alone is one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is no network of proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// It is neither an address nor an address with a prefix.
    #[error("expected a network such as `10.1.0.0/16`, or an address")]
    Syntax,
    /// Bits behind the prefix are set: it is not said which network is meant.
    #[error("the address has bits behind its prefix")]
    Bits,
    /// Nearly everyone is in it.
    #[error("the network is too large: everyone in it could claim to be any client")]
    TooLarge,
}

/// The proxies whose word counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

// === impl Network ===

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same(own.to_bits().into(), other.to_bits().into(), 32 - self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), 128 - self.prefix),
            _ => false,
        }
    }
}

/// Whether two addresses differ in their last bits only.
fn same(one: u128, other: u128, last: u8) -> bool {
    (one ^ other).checked_shr(last.into()).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Syntax)?;
        // A mapped address would be compared with the wrong prefix.
        if address != address.to_canonical() {
            return Err(NetworkError::Syntax);
        }
        let (width, shortest, bits) = match address {
            IpAddr::V4(four) => (32, SHORTEST[0], u128::from(four.to_bits())),
            IpAddr::V6(six) => (128, SHORTEST[1], six.to_bits()),
        };
        let prefix = match prefix {
            None => width,
            Some(text) => {
                let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let prefix = is_number.then(|| text.parse().ok()).flatten();
                prefix.filter(|prefix| *prefix <= width).ok_or(NetworkError::Syntax)?
            }
        };
        if prefix < shortest {
            return Err(NetworkError::TooLarge);
        }
        let last = u32::from(width - prefix);
        let behind = bits & 1u128.checked_shl(last).map_or(u128::MAX, |one| one - 1);
        if behind == 0 { Ok(Self { address, prefix }) } else { Err(NetworkError::Bits) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

// === impl TrustedProxies ===

impl TrustedProxies {
    /// These networks.
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them has this address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The address of who sent a request that came from `peer`. Where a proxy says nothing, or nothing that is an
    /// address, it is the last proxy that is known.
    pub(crate) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let mut known = peer.ip().to_canonical();
        if self.0.is_empty() || !self.contains(known) {
            return known;
        }
        let fields: Vec<&str> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            // What is no text may not be passed over: what is before it is not the proxy's word.
            .map(|field| field.to_str().unwrap_or("?"))
            .collect();
        let hops = fields.iter().rev().flat_map(|field| field.rsplit(',')).take(HOPS);
        for hop in hops {
            let Some(address) = address_of(hop.trim_matches([' ', '\t'])) else { return known };
            known = address;
            if !self.contains(known) {
                break;
            }
        }
        known
    }
}

/// An address alone, or with a port as some proxies write it.
fn address_of(text: &str) -> Option<IpAddr> {
    let address =
        text.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|with_port| with_port.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn proxies(networks: &[&str]) -> TrustedProxies {
        TrustedProxies::new(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn a_network_is_an_address_with_a_prefix() {
        for (text, expected) in [
            ("10.1.0.0/16", Ok("10.1.0.0/16")),
            ("192.0.2.7", Ok("192.0.2.7/32")),
            ("2001:db8::/32", Ok("2001:db8::/32")),
            ("::1", Ok("::1/128")),
            ("0.0.0.0/0", Err(NetworkError::TooLarge)),
            ("0.0.0.0/1", Err(NetworkError::TooLarge)),
            ("::/0", Err(NetworkError::TooLarge)),
            ("2000::/3", Err(NetworkError::TooLarge)),
            ("10.1.2.3/16", Err(NetworkError::Bits)),
            ("2001:db8::1/32", Err(NetworkError::Bits)),
            ("10.1.0.0/33", Err(NetworkError::Syntax)),
            ("10.1.0.0/", Err(NetworkError::Syntax)),
            ("10.1.0.0/+16", Err(NetworkError::Syntax)),
            ("10.1.0.0/16/16", Err(NetworkError::Syntax)),
            ("10.1/16", Err(NetworkError::Syntax)),
            ("10.1.0.0/255.255.0.0", Err(NetworkError::Syntax)),
            ("::ffff:10.1.0.0/112", Err(NetworkError::Syntax)),
            ("proxy.example.com", Err(NetworkError::Syntax)),
            ("*", Err(NetworkError::Syntax)),
            ("", Err(NetworkError::Syntax)),
        ] {
            let network = text.parse::<Network>().map(|network| network.to_string());
            assert_eq!(network.as_deref().map_err(|error| *error), expected, "{text}");
        }
    }

    #[test]
    fn only_what_trusted_proxies_wrote_is_believed() {
        let trusted = ["10.0.0.0/8", "192.0.2.1", "2001:db8:1::/48"];
        for (peer, fields, expected) in [
            // From someone else it says nothing.
            ("198.51.100.1:1", &["203.0.113.9"][..], "198.51.100.1"),
            ("127.0.0.1:1", &["203.0.113.9"], "127.0.0.1"),
            ("10.0.0.1:1", &[], "10.0.0.1"),
            ("10.0.0.1:1", &["203.0.113.9"], "203.0.113.9"),
            ("[::ffff:10.0.0.1]:1", &["203.0.113.9"], "203.0.113.9"),
            ("[2001:db8:1::7]:1", &["2001:db8:2::9"], "2001:db8:2::9"),
            // A client that writes the header itself, in front of what the proxy adds.
            ("10.0.0.1:1", &["127.0.0.1, 1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1:1", &["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1:1", &["203.0.113.9, 192.0.2.1", "10.9.9.9"], "203.0.113.9"),
            ("10.0.0.1:1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1:1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("10.0.0.1:1", &["[2001:db8:2::9]:4711"], "2001:db8:2::9"),
            // What is no address ends it where it is.
            ("10.0.0.1:1", &["203.0.113.9, unknown"], "10.0.0.1"),
            ("10.0.0.1:1", &["203.0.113.9,"], "10.0.0.1"),
            ("10.0.0.1:1", &["203.0.113.9, 010.0.0.2"], "10.0.0.1"),
            ("10.0.0.1:1", &["203.0.113.9, evil, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1:1", &[""], "10.0.0.1"),
            ("10.0.0.1:1", &["\u{e9}"], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("forwarded", HeaderValue::from_static("for=127.0.0.1"));
            headers.insert("x-real-ip", HeaderValue::from_static("127.0.0.1"));
            for field in fields {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_str(field).unwrap());
            }
            let client = proxies(&trusted).client(peer.parse().unwrap(), &headers);
            assert_eq!(client.to_string(), expected, "{peer} {fields:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_str(&"10.0.0.2, ".repeat(10_000)).unwrap());
        let client = proxies(&trusted).client("10.0.0.1:1".parse().unwrap(), &headers);
        assert_eq!(client.to_string(), "10.0.0.1", "the last one is empty");
        assert_eq!(TrustedProxies::default().client("10.0.0.1:1".parse().unwrap(), &headers).to_string(), "10.0.0.1");
    }
}
