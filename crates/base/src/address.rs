//! Addresses of clients, as far as bounds for each of them are concerned.

use std::net::{IpAddr, Ipv6Addr};

/// Whose address it is: an address of IPv4, mapped ones too, or a network of 64 bits of IPv6, because a household or a
/// server has at least so many of these.
pub fn address_owner(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & (u128::MAX << 64))),
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_owner() {
        for (one, other, expected) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:1:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            let owner = |text: &str| address_owner(text.parse().unwrap());
            assert_eq!(owner(one) == owner(other), expected, "{one} {other}");
        }
    }
}
