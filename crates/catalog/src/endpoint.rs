//! The address of a server that is reached over HTTP.

use std::fmt;

use toolcrib_base::Secret;

use crate::private::{is_harmless, is_secret_name, is_secret_value};
use crate::secret::SecretRef;

/// Why a text is not such an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("expected an address such as `https://example.com/mcp`")]
    Address,
    #[error("expected a reference such as `${{vault:NAME}}` in each place `${{…}}`")]
    Reference,
    #[error("expected references only after the host, in the path or the query")]
    Place,
}

/// An `http://` or `https://` address with a host. Secrets in it are references, `${vault:NAME}`, in its path or its query.
/// What may be a secret and is none (user, password, query, long words of the path) is not printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

/// A piece of an address.
enum Piece<'a> {
    Text(&'a str),
    /// The place as it is written, and what is in its braces.
    Place(&'a str, &'a str),
}

/// An `http://` or `https://` address for people to open, which may name a part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link(String);

// === impl Link ===

impl Link {
    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address without the part of the page.
    pub(crate) fn page(&self) -> &str {
        self.0.split('#').next().unwrap_or_default()
    }
}

impl std::str::FromStr for Link {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let link = Self(text.to_owned());
        link.page().parse::<Endpoint>()?;
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) { Err(EndpointError::Address) } else { Ok(link) }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// The host, in small letters.
    pub fn host(&self) -> Option<String> {
        host(&self.0)
    }

    /// The address as it is written, with its references. It may hold a secret all the same.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The references in it.
    pub fn references(&self) -> impl Iterator<Item = SecretRef> {
        pieces(&self.0).into_iter().filter_map(|piece| match piece {
            Piece::Place(_, inside) => inside.parse().ok(),
            Piece::Text(_) => None,
        })
    }

    /// The address without its references: what stands in the definition itself.
    pub(crate) fn literal(&self) -> String {
        pieces(&self.0)
            .iter()
            .filter_map(|piece| if let Piece::Text(text) = piece { Some(*text) } else { None })
            .collect()
    }

    /// The address with another reference in each place for which `other` gives one.
    ///
    /// # Errors
    /// One cannot stand in an address.
    pub(crate) fn refer<'r>(&self, other: impl Fn(&SecretRef) -> Option<&'r SecretRef>) -> Result<Self, EndpointError> {
        let mut address = String::new();
        let mut wanted = Vec::new();
        for piece in pieces(&self.0) {
            match piece {
                Piece::Text(text) => address.push_str(text),
                Piece::Place(_, inside) => {
                    let own = inside.parse().map_err(|_| EndpointError::Reference)?;
                    let reference = other(&own).unwrap_or(&own);
                    address.push_str(&format!("${{{reference}}}"));
                    wanted.push(reference.clone());
                }
            }
        }
        let address: Self = address.parse()?;
        if address.references().eq(wanted) { Ok(address) } else { Err(EndpointError::Reference) }
    }

    /// The address to connect to. A secret stands in it as it is, but for what would end its place.
    pub fn resolve<E>(&self, mut secret: impl FnMut(&SecretRef) -> Result<Secret, E>) -> Result<Secret, E> {
        let mut address = String::new();
        for piece in pieces(&self.0) {
            match piece {
                Piece::Text(text) => address.push_str(text),
                Piece::Place(whole, inside) => match inside.parse() {
                    Ok(reference) => address.push_str(&within_place(secret(&reference)?.expose())),
                    // It was looked at when the address was read.
                    Err(_) => address.push_str(whole),
                },
            }
        }
        Ok(Secret::new(address))
    }
}

/// What of a secret would end its place in an address is percent-encoded.
fn within_place(secret: &str) -> String {
    let mut encoded = String::new();
    for byte in secret.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            _ if b"-._~%!$'()*+,;=:@".contains(&byte) => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        let (before, place) = (&rest[..at], &rest[at..=at + length]);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Place(place, &place[2..place.len() - 1]));
        rest = &rest[at + length + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Whether every place of an address is a reference, and none stands before its path.
fn check_places(text: &str) -> Result<(), EndpointError> {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    if host.split(['/', '?']).next().unwrap_or_default().contains("${") {
        return Err(EndpointError::Place);
    }
    let is_reference = |inside: &str| inside.parse::<SecretRef>().is_ok_and(|it| it.is_shared_secret());
    let all = pieces(text).iter().all(|piece| match piece {
        Piece::Text(text) => !text.contains("${"),
        Piece::Place(_, inside) => is_reference(inside),
    });
    if all { Ok(()) } else { Err(EndpointError::Reference) }
}

impl std::str::FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        check_places(text)?;
        // With something in each place it must be an address.
        let filled: String =
            pieces(text).iter().map(|piece| if let Piece::Text(text) = piece { *text } else { "x" }).collect();
        let uri: http::Uri = filled.parse().map_err(|_| EndpointError::Address)?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        // `port_u16` is nothing both without a port and with one that is none.
        let port_fits = uri.authority().is_some_and(|authority| {
            let after_host = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
            !after_host.rsplit('@').next().unwrap_or_default().contains(':')
                || uri.port_u16().is_some_and(|port| port > 0)
        });
        if is_http && has_host && port_fits && !text.contains('#') {
            Ok(Self(text.to_owned()))
        } else {
            Err(EndpointError::Address)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShownAddress(&self.0).fmt(f)
    }
}

/// The host of an address, in small letters.
pub(crate) fn host(address: &str) -> Option<String> {
    let uri: http::Uri = address.parse().ok()?;
    uri.host().map(str::to_ascii_lowercase)
}

/// Prints an address, also one with open places in it, without what may be a secret.
pub(crate) struct ShownAddress<'a>(pub(crate) &'a str);

impl fmt::Display for ShownAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, query) = match outside(self.0, '?') {
            Some(at) => (&self.0[..at], Some(&self.0[at + 1..])),
            None => (self.0, None),
        };
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        write!(f, "{scheme}://")?;
        match authority.rsplit_once('@') {
            Some((_, host)) => write!(f, "****@{host}")?,
            None => f.write_str(authority)?,
        }
        let mut path = path;
        while !path.is_empty() {
            let end = outside(&path[1..], '/').map_or(path.len(), |at| at + 1);
            let (segment, rest) = path.split_at(end);
            f.write_str(&segment[..1])?;
            let word = &segment[1..];
            f.write_str(if !word.contains("${") && is_secret_value(word) { "****" } else { word })?;
            path = rest;
        }
        match query {
            None => Ok(()),
            Some(query) if is_open(query) => write!(f, "?{query}"),
            Some(_) => f.write_str("?****"),
        }
    }
}

/// The first place of a character that is not within `${…}`.
fn outside(text: &str, wanted: char) -> Option<usize> {
    let mut within = false;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' if text[..at].ends_with('$') => within = true,
            '}' => within = false,
            _ => {}
        }
        (c == wanted && !within).then_some(at)
    })
}

/// Whether a query may be printed: each of its values is a reference, or nothing that anyone could want to hide.
fn is_open(query: &str) -> bool {
    let mut rest = query;
    loop {
        let end = outside(rest, '&').unwrap_or(rest.len());
        let member = rest[..end].split_once('=');
        let is_reference = |value: &str| value.starts_with("${") && value.find('}') == Some(value.len() - 1);
        let is_harmless = |name: &str, value: &str| is_harmless(value) && !is_secret_name(name);
        if !member.is_some_and(|(name, value)| is_reference(value) || is_harmless(name, value)) {
            return false;
        }
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return true,
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_addresses_pass() {
        for text in [
            "https://example.com/mcp",
            "http://127.0.0.1:8080",
            "http://[::1]:9000/mcp",
            "http://[::1]/mcp",
            "https://u:p@example.com:8443/x?key=1",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().expose(), text);
        }
        for text in [
            "",
            "example.com/mcp",
            "/mcp",
            "ftp://example.com",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http://",
            "http:///mcp",
            "https://exa mple.com",
            "https://example.com:port/",
            "https://example.com:99999/",
            "https://example.com:0/",
            "https://u@example.com:99999/",
            "http://[::1]:99999/",
            "https://example.com/\r\nX: y",
            "https://example.com/#part",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?} passed");
        }
    }

    #[test]
    fn references_are_filled_in_where_it_is_connected_to() {
        let resolve = |text: &str, secret: &str| {
            let address = text.parse::<Endpoint>().unwrap().resolve(|_| Ok::<_, ()>(Secret::new(secret)));
            address.unwrap().expose().to_owned()
        };
        for (text, secret, address) in [
            ("https://h/mcp?key=${vault:a}&x=1", "s3cret", "https://h/mcp?key=s3cret&x=1"),
            ("https://h/${env:TOKEN}/mcp", "a%2Bb=", "https://h/a%2Bb=/mcp"),
            // It cannot end its place.
            ("https://h/mcp?key=${keyring:a}", "x&admin=1#/?\r\n", "https://h/mcp?key=x%26admin=1%23%2F%3F%0D%0A"),
            ("https://h/${vault:a}/mcp", "../x", "https://h/..%2Fx/mcp"),
        ] {
            assert_eq!(resolve(text, secret), address);
        }
        let endpoint: Endpoint = "https://h/${vault:a}?k=${env:B}".parse().unwrap();
        let references: Vec<String> = endpoint.references().map(|reference| reference.to_string()).collect();
        assert_eq!(references, ["vault:a", "env:B"]);
        for (text, error) in [
            ("https://${vault:a}/mcp", EndpointError::Place),
            ("https://u:${vault:a}@h/mcp", EndpointError::Place),
            ("https://h/${input:key}", EndpointError::Reference),
            ("https://h/${KEY}", EndpointError::Reference),
            ("https://h/?a=${vault:}", EndpointError::Reference),
            ("https://h/${vault:a", EndpointError::Reference),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn secrets_in_an_address_are_not_printed() {
        for (text, printed) in [
            ("https://example.com/mcp", "https://example.com/mcp"),
            ("https://user:pass@example.com:8443/mcp", "https://****@example.com:8443/mcp"),
            ("https://example.com/mcp?api_key=1234", "https://example.com/mcp?****"),
            ("https://example.com?api_key=a/b@c", "https://example.com?****"),
            ("https://example.com/mcp?debug=1&key=${vault:a}", "https://example.com/mcp?debug=1&key=${vault:a}"),
            ("https://example.com/mcp?debug=1&key=abc", "https://example.com/mcp?****"),
            ("https://example.com/s/${file:/run/key}/mcp", "https://example.com/s/${file:/run/key}/mcp"),
            ("https://example.com/s/0123456789abcdef0123456789abcdef/mcp", "https://example.com/s/****/mcp"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.to_string().as_str(), format!("{endpoint:?}")), (printed, format!("{printed:?}")));
        }
    }
}
