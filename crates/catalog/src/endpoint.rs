//! The address of a server that is reached over HTTP.

use std::fmt;

/// Why a text is not such an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an address such as `https://example.com/mcp`")]
pub struct EndpointError;

/// An `http://` or `https://` address with a host. What may be secret in it (user, password, query) is not printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

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
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) { Err(EndpointError) } else { Ok(link) }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// The address itself. Call it only where it is connected to.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let uri: http::Uri = text.parse().map_err(|_| EndpointError)?;
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
            Err(EndpointError)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShownAddress(&self.0).fmt(f)
    }
}

/// Prints an address, also one with open places in it, without what may be a secret.
pub(crate) struct ShownAddress<'a>(pub(crate) &'a str);

impl fmt::Display for ShownAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, query) = self.0.split_once('?').map_or((self.0, None), |(address, query)| (address, Some(query)));
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        write!(f, "{scheme}://")?;
        match authority.rsplit_once('@') {
            Some((_, host)) => write!(f, "****@{host}")?,
            None => f.write_str(authority)?,
        }
        f.write_str(path)?;
        if query.is_some() {
            f.write_str("?****")?;
        }
        Ok(())
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
    fn secrets_in_an_address_are_not_printed() {
        for (text, printed) in [
            ("https://example.com/mcp", "https://example.com/mcp"),
            ("https://user:pass@example.com:8443/mcp", "https://****@example.com:8443/mcp"),
            ("https://example.com/mcp?api_key=1234", "https://example.com/mcp?****"),
            ("https://example.com?api_key=a/b@c", "https://example.com?****"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.to_string().as_str(), format!("{endpoint:?}")), (printed, format!("{printed:?}")));
        }
    }
}
