//! Where answers go: addresses that a client has named before, and no others.

use url::{Host, Url};

/// The longest address, in bytes.
const BYTES: usize = 2_048;
/// What a browser would run or show in our place, or send elsewhere.
const NEVER: [&str; 13] = [
    "javascript",
    "data",
    "vbscript",
    "file",
    "blob",
    "about",
    "filesystem",
    "view-source",
    "ws",
    "wss",
    "ftp",
    "intent",
    "content",
];

/// An address to which a client has its answers sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    text: String,
    url: Url,
}

/// Who names an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The settings: schemes of programs may have any name.
    Settings,
    /// The client: such a scheme must be a reversed domain (RFC 8252, section 7.1).
    Client,
}

// === impl Redirect ===

impl Redirect {
    /// Reads an address that is written exactly as a browser would write it; why it is none otherwise.
    pub(crate) fn read(text: &str, trust: Trust) -> Result<Self, &'static str> {
        if text.len() > BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it is too long, or has characters that must be encoded");
        }
        if text.contains(['#', '\\', '"', '<', '>', '`', '{', '}', '|', '^']) {
            return Err("it has a fragment or characters that no address has");
        }
        let lower = text.to_ascii_lowercase();
        if lower.contains("/..") || lower.contains("%2e") || lower.contains("%2f") || lower.contains("%5c") {
            return Err("it has `..` or an encoded `/` in its path");
        }
        let url = Url::parse(text).map_err(|_| "it is no URL")?;
        if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
            return Err("it has a user name in it");
        }
        // What is read in two ways is a look-alike: other digits of an address, capital letters, a default port.
        let is_bare = url.path() == "/" && url.query().is_none() && url.as_str().strip_suffix('/') == Some(text);
        if url.as_str() != text && !is_bare {
            return Err("it is not written as browsers write it");
        }
        let is_fine = match url.scheme() {
            "https" => url.host().is_some(),
            "http" => is_loopback(&url),
            scheme if NEVER.contains(&scheme) => false,
            scheme => trust == Trust::Settings || scheme.contains('.'),
        };
        if !is_fine {
            return Err(
                "it is neither https, nor http on this machine, nor the scheme of a program such as com.example.app",
            );
        }
        Ok(Self { text: text.to_owned(), url })
    }

    /// Whether an answer may go to an address that a request names: exactly this one, on the client's own machine at any
    /// port (RFC 8252, section 7.3).
    pub(crate) fn admits(&self, named: &Self) -> bool {
        let is_same_but_port = || {
            let (ours, theirs) = (&self.url, &named.url);
            self.is_loopback()
                && ours.scheme() == theirs.scheme()
                && ours.host() == theirs.host()
                && ours.path() == theirs.path()
                && ours.query() == theirs.query()
        };
        self.text == named.text || is_same_but_port()
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.url.scheme() == "http" && is_loopback(&self.url)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The address with the parameters of an answer.
    pub(crate) fn with(&self, parameters: &[(&str, &str)]) -> String {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        url.into()
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_in_one_way() {
        for (text, of_client, of_settings) in [
            ("https://app.example.com/callback", true, true),
            ("https://app.example.com", true, true),
            ("https://app.example.com/callback?from=us", true, true),
            ("http://127.0.0.1:4321/callback", true, true),
            ("http://localhost/callback", true, true),
            ("http://[::1]:9/callback", true, true),
            ("com.example.app:/callback", true, true),
            ("editor://plugin/callback", false, true),
            ("http://app.example.com/callback", false, false),
            ("http://127.0.0.1.evil.example/callback", false, false),
            ("http://localhost.evil.example/callback", false, false),
            ("https://app.example.com/callback#x", false, false),
            ("https://app.example.com@evil.example/", false, false),
            ("https://u:p@app.example.com/", false, false),
            ("https://@app.example.com/", false, false),
            ("https://app.example.com/a/../b", false, false),
            ("https://app.example.com/a/%2e%2e/b", false, false),
            ("https://app.example.com/a%2fb", false, false),
            ("https://app.example.com\\@evil.example/", false, false),
            ("https://APP.example.com/callback", false, false),
            ("https://app.example.com:443/callback", false, false),
            ("https://\u{430}pp.example.com/callback", false, false),
            ("http://127.1:80/callback", false, false),
            ("http://0x7f.0.0.1/callback", false, false),
            ("javascript:alert(1)", false, false),
            ("data:text/html,x", false, false),
            ("file:///etc/passwd", false, false),
            ("//app.example.com/callback", false, false),
            ("/callback", false, false),
            ("", false, false),
        ] {
            let read = |trust| Redirect::read(text, trust).is_ok();
            assert_eq!((read(Trust::Client), read(Trust::Settings)), (of_client, of_settings), "{text}");
        }
        assert!(Redirect::read(&format!("https://a.example/{}", "a".repeat(BYTES)), Trust::Client).is_err());
    }

    #[test]
    fn an_answer_goes_exactly_where_the_client_said() {
        for (registered, named, expected) in [
            ("https://app.example.com/cb", "https://app.example.com/cb", true),
            ("https://app.example.com/cb", "https://app.example.com/cb/", false),
            ("https://app.example.com/cb", "https://app.example.com/cb?x=1", false),
            ("https://app.example.com/cb", "https://app.example.com/cb2", false),
            ("https://app.example.com/cb", "https://app.example.com:8443/cb", false),
            ("https://app.example.com/cb", "https://app.example.com.evil.example/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb", true),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1:5000/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5000/other", false),
            ("http://127.0.0.1/cb", "http://localhost:5000/cb", false),
            ("http://127.0.0.1/cb", "http://[::1]:5000/cb", false),
            ("http://localhost/cb", "http://localhost:5000/cb", true),
            ("http://localhost/cb", "https://localhost:5000/cb", false),
        ] {
            let [ours, theirs] = [registered, named].map(|text| Redirect::read(text, Trust::Client).unwrap());
            assert_eq!(ours.admits(&theirs), expected, "{registered} {named}");
        }
    }

    #[test]
    fn an_answer_keeps_what_the_address_has() {
        let redirect = Redirect::read("https://app.example.com/cb?from=us", Trust::Client).unwrap();
        assert_eq!(
            redirect.with(&[("code", "a&b"), ("iss", "https://x")]),
            "https://app.example.com/cb?from=us&code=a%26b&iss=https%3A%2F%2Fx"
        );
    }
}
