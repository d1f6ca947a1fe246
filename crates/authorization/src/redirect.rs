//! Where answers go: addresses that a client has named before, and no others.

use url::{Host, Url};

/// The longest address, in bytes.
const BYTES: usize = 2_048;
/// Schemes that no program of a person may be named by: what a browser runs or shows in our place, reads or sends itself,
/// or hands to a part of the system that does more than take an answer.
const NEVER: [&str; 42] = [
    "about",
    "android-app",
    "blob",
    "chrome",
    "cid",
    "content",
    "data",
    "devtools",
    "edge",
    "feed",
    "file",
    "filesystem",
    "ftp",
    "ftps",
    "gopher",
    "intent",
    "itms-services",
    "jar",
    "javascript",
    "ldap",
    "ldaps",
    "localhost",
    "mailto",
    "mid",
    "nfs",
    "res",
    "resource",
    "search-ms",
    "sftp",
    "shell",
    "smb",
    "sms",
    "ssh",
    "tel",
    "telnet",
    "urn",
    "vbscript",
    "view-source",
    "webcal",
    "ws",
    "wss",
    "x-apple.systempreferences",
];
/// Beginnings of such schemes: extensions of browsers, and parts of Windows.
const NEVER_BEGIN: [&str; 3] = ["chrome-", "moz-", "ms-"];

/// An address to which a client has its answers sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    text: String,
    url: Url,
}

// === impl Redirect ===

impl Redirect {
    /// Reads an address that is written exactly as a browser would write it; why it is none otherwise.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
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
            scheme => is_of_program(scheme),
        };
        if !is_fine {
            return Err(
                "it is neither https, nor http on this machine, nor has it the scheme of a program such as com.example.app",
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

    /// The scheme of the program that takes the answer, where it is neither a site nor a listener of this machine.
    pub(crate) fn program(&self) -> Option<&str> {
        Some(self.url.scheme()).filter(|scheme| !matches!(*scheme, "https" | "http"))
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

/// Whether a scheme may be that of a person's program. A reversed domain, which RFC 8252 (section 7.1) asks for, is not
/// demanded: programs in use do without. Who takes such an answer away from its program has no verifier for its code.
fn is_of_program(scheme: &str) -> bool {
    !NEVER.contains(&scheme) && !NEVER_BEGIN.iter().any(|beginning| scheme.starts_with(beginning))
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
        for (text, expected) in [
            ("https://app.example.com/callback", true),
            ("https://app.example.com", true),
            ("https://app.example.com/callback?from=us", true),
            ("http://127.0.0.1:4321/callback", true),
            ("http://localhost/callback", true),
            ("http://[::1]:9/callback", true),
            ("com.example.app:/callback", true),
            ("editor://plugin/callback", true),
            ("vscode://publisher.extension/did-authenticate", true),
            ("com.example.app://oauth?from=us", true),
            ("VSCode://publisher.extension/callback", false),
            ("com.example.app:/callback#x", false),
            ("com.example.app://user@host/callback", false),
            ("com.example.app:/a/../callback", false),
            ("com.example.app:/call back", false),
            ("http://app.example.com/callback", false),
            ("http://127.0.0.1.evil.example/callback", false),
            ("http://localhost.evil.example/callback", false),
            ("https://app.example.com/callback#x", false),
            ("https://app.example.com@evil.example/", false),
            ("https://u:p@app.example.com/", false),
            ("https://@app.example.com/", false),
            ("https://app.example.com/a/../b", false),
            ("https://app.example.com/a/%2e%2e/b", false),
            ("https://app.example.com/a%2fb", false),
            ("https://app.example.com\\@evil.example/", false),
            ("https://APP.example.com/callback", false),
            ("https://app.example.com:443/callback", false),
            ("https://\u{430}pp.example.com/callback", false),
            ("http://127.1:80/callback", false),
            ("http://0x7f.0.0.1/callback", false),
            ("javascript:alert(1)", false),
            ("data:text/html,x", false),
            ("file:///etc/passwd", false),
            ("JavaScript:alert(1)", false),
            ("java\tscript:alert(1)", false),
            ("vbscript:x", false),
            ("blob:https://app.example.com/x", false),
            ("filesystem:https://app.example.com/x", false),
            ("view-source:https://app.example.com/x", false),
            ("about:blank", false),
            ("chrome://settings/x", false),
            ("chrome-extension://abc/cb", false),
            ("moz-extension://abc/cb", false),
            ("ms-msdt:/id", false),
            ("search-ms:query=x", false),
            ("intent://x#Intent;end", false),
            ("localhost:8080/callback", false),
            ("ssh://host/x", false),
            ("mailto:a", false),
            ("wss://app.example.com/cb", false),
            ("ftp://app.example.com/cb", false),
            ("//app.example.com/callback", false),
            ("/callback", false),
            ("", false),
        ] {
            assert_eq!(Redirect::read(text).is_ok(), expected, "{text}");
        }
        assert!(Redirect::read(&format!("https://a.example/{}", "a".repeat(BYTES))).is_err());
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
            ("com.example.app:/cb", "com.example.app:/cb", true),
            ("com.example.app:/cb", "com.example.app:/cb/", false),
            ("com.example.app:/cb", "com.example.app:/cb?x=1", false),
            ("com.example.app:/cb", "com.example.app2:/cb", false),
            ("vscode://ext/cb", "vscode://ext:1/cb", false),
            ("vscode://ext/cb", "vscode-insiders://ext/cb", false),
            ("vscode://localhost/cb", "vscode://localhost:5000/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb", true),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1:5000/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5000/other", false),
            ("http://127.0.0.1/cb", "http://localhost:5000/cb", false),
            ("http://127.0.0.1/cb", "http://[::1]:5000/cb", false),
            ("http://localhost/cb", "http://localhost:5000/cb", true),
            ("http://localhost/cb", "https://localhost:5000/cb", false),
        ] {
            let [ours, theirs] = [registered, named].map(|text| Redirect::read(text).unwrap());
            assert_eq!(ours.admits(&theirs), expected, "{registered} {named}");
        }
    }

    #[test]
    fn an_answer_keeps_what_the_address_has() {
        let redirect = Redirect::read("https://app.example.com/cb?from=us").unwrap();
        assert_eq!(
            redirect.with(&[("code", "a&b"), ("iss", "https://x")]),
            "https://app.example.com/cb?from=us&code=a%26b&iss=https%3A%2F%2Fx"
        );
    }
}
