//! URLs that an authorization server gives us, checked before a browser or a request sees them.

use std::fmt;

use toolcrib_transport::http::checked::{AddressPolicy, is_loopback};
use url::Url;

/// The longest one, in bytes.
const URL_BYTES: usize = 8 * 1024;
/// What a URL never needs and a shell or a page could take for its own.
const FORBIDDEN: &str = "\"'`<>\\^{|}";

/// The page at an authorization server where a person agrees. Safe to give to a browser as one argument.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationUrl(Url);

impl AuthorizationUrl {
    /// Checks a URL that is to be opened.
    ///
    /// # Errors
    /// Why it is refused, as a fragment.
    pub(crate) fn new(url: &Url, policy: AddressPolicy) -> Result<Self, &'static str> {
        check(url.as_str(), policy).map(Self)
    }

    /// The URL. It holds the state of the login: no log shows it.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The host, for people.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }
}

impl fmt::Debug for AuthorizationUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthorizationUrl({:?}, ****)", self.host())
    }
}

/// Reads a URL of an authorization server: `https` (`http` on this machine only, for servers that are there as well),
/// without user name, fragment, quotes and anything else that is not needed.
pub(crate) fn check(text: &str, policy: AddressPolicy) -> Result<Url, &'static str> {
    if text.len() > URL_BYTES {
        return Err("it is too long");
    }
    if text.bytes().any(|byte| !matches!(byte, 0x21..=0x7E)) {
        return Err("it holds spaces or control characters");
    }
    if text.contains(|character| FORBIDDEN.contains(character)) || text.contains("$(") {
        return Err("it holds quotes or other characters that no URL needs");
    }
    let url = Url::parse(text).map_err(|_| "it is not a URL")?;
    let is_here = is_loopback(&url);
    match url.scheme() {
        "https" if !is_here || policy.allows_loopback => {}
        "http" if is_here && policy.allows_loopback => {}
        "http" | "https" if is_here => return Err("it leads to this machine, and the server is elsewhere"),
        _ => return Err("it does not use `https`"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user name");
    }
    if url.fragment().is_some() {
        return Err("it holds a fragment");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: AddressPolicy =
        AddressPolicy { allows_loopback: false, allows_private: true, private_setting: "" };
    const HERE: AddressPolicy = AddressPolicy { allows_loopback: true, allows_private: false, private_setting: "" };

    #[test]
    fn good_urls_pass() {
        for url in
            ["https://x.example/authorize?a=b&c=(d)", "https://x.example:8443/a/b%20c", "https://[2606:4700::1]/"]
        {
            assert_eq!(check(url, ELSEWHERE).map(|read| read.to_string()), Ok(url.to_owned()));
        }
        for url in ["http://127.0.0.1:8080/a", "http://localhost:1/", "https://localhost/", "http://[::1]:3/"] {
            assert!(check(url, HERE).is_ok(), "{url}");
        }
    }

    #[test]
    fn every_bad_url_is_refused_with_its_reason() {
        for (url, reason) in [
            ("file:///etc/passwd", "it does not use `https`"),
            ("javascript:alert(1)", "it does not use `https`"),
            ("data:text/html,x", "it does not use `https`"),
            ("ftp://x.example/", "it does not use `https`"),
            ("http://x.example/", "it does not use `https`"),
            ("http://10.0.0.1/", "it does not use `https`"),
            ("--new-window", "it is not a URL"),
            ("-psn https://x.example", "it holds spaces or control characters"),
            ("https://x.example/\"&calc&\"", "it holds quotes or other characters that no URL needs"),
            ("https://x.example/'a'", "it holds quotes or other characters that no URL needs"),
            ("https://x.example/`id`", "it holds quotes or other characters that no URL needs"),
            ("https://x.example/?a=$(id)", "it holds quotes or other characters that no URL needs"),
            ("https://x.example\\@evil.example/", "it holds quotes or other characters that no URL needs"),
            ("https://x.example/\r\nSet-Cookie:a", "it holds spaces or control characters"),
            ("https://x.example/\u{202e}", "it holds spaces or control characters"),
            ("https://user@x.example/", "it holds a user name"),
            ("https://x.example:pw@evil.example/", "it holds a user name"),
            ("https://x.example/#a", "it holds a fragment"),
            ("http://127.0.0.1:80/", "it leads to this machine, and the server is elsewhere"),
            ("https://localhost/", "it leads to this machine, and the server is elsewhere"),
            ("https://2130706433/", "it leads to this machine, and the server is elsewhere"),
        ] {
            assert_eq!(check(url, ELSEWHERE), Err(reason), "{url}");
        }
        assert_eq!(check(&format!("https://x.example/{}", "a".repeat(URL_BYTES)), ELSEWHERE), Err("it is too long"));
        assert_eq!(check("http://10.0.0.1/", HERE), Err("it does not use `https`"));
    }

    #[test]
    fn the_state_is_not_printed() {
        let url = AuthorizationUrl::new(&Url::parse("https://x.example/a?state=secret").unwrap(), ELSEWHERE).unwrap();
        assert_eq!(format!("{url:?}"), "AuthorizationUrl(\"x.example\", ****)");
    }
}
