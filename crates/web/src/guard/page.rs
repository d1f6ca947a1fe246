//! What a browser says of the page behind a request, and the names under which we are reached: `Host`, the target's own
//! authority, `Origin`, `Sec-Fetch-Site`.

use http::Uri;
use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use toolcrib_base::{Kind, Problem};

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// How the page is related to us, as browsers say it of every request (Fetch Metadata, section 2.4).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Where a link to begin a login leads; its ticket follows.
pub(crate) const CONNECT: &str = "/connect/";
/// Where an authorization server sends the browser back to.
pub(crate) const CALLBACK: &str = "/oauth/callback";

/// Under which names we are reached, and which pages may call us.
#[derive(Debug)]
pub(super) struct Pages {
    /// Beside the names of this machine.
    pub(super) hosts: Vec<String>,
    /// Beside pages of this machine.
    pub(super) origins: Vec<String>,
    /// The host of the pages for people on this machine; other programs of this machine do not know its name.
    pub(super) ui: String,
}

// === impl Pages ===

impl Pages {
    /// 403 for a request that another site had a browser send, or that was sent to another name.
    pub(super) fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let (mut host, mut hosts, mut is_of_browser) = (None, 0, false);
        // One pass costs less than asking for each of them.
        for (name, value) in headers {
            if *name == HOST {
                (host, hosts) = (Some(value), hosts + 1);
            } else {
                is_of_browser |= *name == ORIGIN || *name == SEC_FETCH_SITE;
            }
        }
        let host = host.filter(|_| hosts == 1).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host = match is_ui_page(target.path()) && target.authority().is_none() && self.is_ui(host) {
            true => self.ui.as_str(),
            false => self.check_host(target, host)?,
        };
        if !is_of_browser {
            return Ok(());
        }
        self.check_origin(target.path(), headers)?;
        self.check_site(host, target.path(), headers)
    }

    /// Whether `host` is that of the pages for people, with or without a port.
    pub(super) fn is_ui(&self, host: &str) -> bool {
        name_of(host).is_some_and(|name| self.ui.eq_ignore_ascii_case(name))
    }

    /// Gives the name in `Host`.
    fn check_host<'h>(&self, target: &Uri, host: &'h str) -> Result<&'h str, Problem> {
        // A target in absolute form names its own host, which counts before `Host` (RFC 9112, section 3.2.2).
        let named = target.authority().map(http::uri::Authority::as_str);
        let foreign = match (self.served(host), named) {
            (Some(name), None) => return Ok(name),
            (Some(name), Some(named)) if self.served(named).is_some() => return Ok(name),
            (Some(_), Some(named)) => named,
            (None, _) => host,
        };
        let shown: String = foreign.chars().take(100).collect();
        Err(Problem::new(Kind::Forbidden, format!("the host `{shown}` is not served here"))
            .hint("Connect to 127.0.0.1 or localhost, or add the name to `allowed_hosts` in config.toml."))
    }

    /// The name in `host`, if it is one of ours.
    fn served<'h>(&self, host: &'h str) -> Option<&'h str> {
        let name = name_of(host)?;
        let is_ours = |own: &String| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(host);
        (is_loopback(name) || self.hosts.iter().any(is_ours)).then_some(name)
    }

    /// Whether `origin` leads here for someone who reaches us at the origin `opened`: it has one of our further names, or
    /// is another name of this machine with the same port.
    pub(super) fn is_also_here(&self, origin: &str, opened: &str) -> bool {
        let (Some((scheme, host)), Some((opened_scheme, opened_host))) =
            (origin.split_once("://"), opened.split_once("://"))
        else {
            return false;
        };
        let port = |host: &str| name_of(host).map(|name| host[name.len()..].to_owned());
        match name_of(host).is_some_and(is_loopback) {
            true => scheme == opened_scheme && port(host) == port(opened_host),
            false => self.served(host).is_some(),
        }
    }

    /// The form of a page of logins comes from that page, under whatever name we were reached.
    fn check_origin(&self, path: &str, headers: &HeaderMap) -> Result<(), Problem> {
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let is_fine = is_own_page(origin)
                || self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
                || is_page(path) && is_same_host(origin, headers);
            if !is_fine {
                let shown: String = origin.chars().take(100).collect();
                return Err(Problem::new(
                    Kind::Forbidden,
                    format!("web pages of `{shown}` are not allowed to call this gateway"),
                )
                .hint("Add the page's origin to `allowed_origins` in config.toml if you trust it."));
            }
        }
        Ok(())
    }

    /// An image, a script or a link of a page sends no `Origin`; browsers say then where it came from. An `Origin` that
    /// is there has been admitted. To the pages of logins other sites may lead a whole window.
    fn check_site(&self, host: &str, path: &str, headers: &HeaderMap) -> Result<(), Problem> {
        let is_fine = |site: &str| match site {
            "same-origin" | "none" => true,
            // All ports of this machine are one site, and its pages may call us.
            "same-site" => is_loopback(host) || headers.contains_key(ORIGIN),
            "cross-site" if is_page(path) && is_window(headers) => true,
            _ => headers.contains_key(ORIGIN),
        };
        let sites = headers.get_all(SEC_FETCH_SITE).iter();
        if sites.map(|site| site.to_str().unwrap_or_default()).all(is_fine) {
            return Ok(());
        }
        Err(Problem::new(Kind::Forbidden, "web pages of other sites are not allowed to send this request").hint(
            "Open the URL directly in the browser, or add the page's origin to `allowed_origins` in config.toml.",
        ))
    }
}

/// Whether this is a page of logins. Other sites may lead a browser there, because a visit alone does nothing: it needs a
/// ticket and a click, or the cookie of the browser in which the login was begun.
pub(crate) fn is_login_page(path: &str) -> bool {
    path == CALLBACK || path.starts_with(CONNECT)
}

/// Where people see how a call stands that waits for a yes; its id follows.
pub(crate) const APPROVAL: &str = "/approval/";

/// Whether this is such a page. Other sites may lead a browser there: it only reads, and the id is what lets in.
pub(crate) fn is_approval_page(path: &str) -> bool {
    path.starts_with(APPROVAL)
}

/// Where the endpoints of the built-in authorization server are.
pub(crate) const AUTHORIZE: &str = "/oauth/authorize";
pub(crate) const CONSENT: &str = "/oauth/consent";
pub(crate) const TOKEN: &str = "/oauth/token";
pub(crate) const REVOKE: &str = "/oauth/revoke";
pub(crate) const KEYS: &str = "/oauth/jwks";
pub(crate) const REGISTER: &str = "/oauth/register";

/// Whether this is a page of the authorization server. Clients lead a browser there, and issuers back: a visit alone does
/// nothing but ask the person, and what comes of it counts only with the cookie of that browser.
pub(crate) fn is_consent_page(path: &str) -> bool {
    path == AUTHORIZE || path.strip_prefix(CONSENT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether this is an endpoint of the authorization server: what comes there as a credential is a client's.
pub(crate) fn is_authorization_endpoint(path: &str) -> bool {
    is_consent_page(path) || [TOKEN, REVOKE, KEYS, REGISTER].contains(&path)
}

/// Where the pages for people are.
pub(crate) const UI: &str = "/ui";

/// Whether this is a page for people. Other sites may lead a browser there: a link to it, and the issuer at which one signs
/// in. What changes something there wants a form of its own page.
pub(crate) fn is_ui_page(path: &str) -> bool {
    path.strip_prefix(UI).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether people see it.
fn is_page(path: &str) -> bool {
    is_login_page(path) || is_ui_page(path) || is_consent_page(path) || is_approval_page(path)
}

/// Whether a browser shows the answer in a window of its own, with its URL above it: not in a frame, not to a script.
fn is_window(headers: &HeaderMap) -> bool {
    let only = |name: &HeaderName, expected: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|value| value == expected) && values.next().is_none()
    };
    only(&SEC_FETCH_MODE, "navigate") && only(&SEC_FETCH_DEST, "document")
}

/// Whether it is a name of this machine for itself.
pub(super) fn is_loopback(name: &str) -> bool {
    LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether an origin is that of the host, which has been checked.
fn is_same_host(origin: &str, headers: &HeaderMap) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    let own = headers.get(HOST).and_then(|own| own.to_str().ok());
    host.zip(own).is_some_and(|(host, own)| host.eq_ignore_ascii_case(own))
}

/// Whether an origin is exactly `scheme://host[:port]` of this machine.
fn is_own_page(origin: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    host.and_then(name_of).is_some_and(is_loopback)
}

/// The name in `name` or `name:port`; an IPv6 address keeps its brackets. `None` for anything else.
fn name_of(host: &str) -> Option<&str> {
    let bytes = host.as_bytes();
    let end = match bytes.first()? {
        b'[' => {
            let inner = bytes[1..].iter().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
            let close = 1 + inner.count();
            (bytes.get(close) == Some(&b']')).then_some(close + 1)?
        }
        _ => {
            let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            bytes.iter().take_while(is_name).count()
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let (name, rest) = host.split_at(end);
    let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    (is_whole && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn pages() -> Pages {
        Pages {
            hosts: vec!["tools.example.com".into()],
            origins: vec!["https://app.example.com".into()],
            ui: "toolcrib-0a.localhost".into(),
        }
    }

    fn check(target: &str, pairs: &[(HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        pages()
            .check(&target.parse().unwrap(), &headers)
            .map_err(|problem| assert_eq!(problem.kind, Kind::Forbidden))
            .is_ok()
    }

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        let host = (HOST, "localhost:8700");
        for (origin, expected) in [
            ("http://localhost", true),
            ("http://localhost:3000", true),
            ("https://[::1]:1", true),
            ("https://app.example.com", true),
            ("http://localhost:80@evil.example", false),
            ("http://localhost@evil.example", false),
            ("http://evil.example@localhost", false),
            ("http://localhost:/evil", false),
            ("http://localhost:", false),
            ("http://localhost:80/", false),
            ("http://localhost/", false),
            ("http://localhost:99999", false),
            ("http://localhost:+80", false),
            ("http://localhost:8 0", false),
            ("http://localhost#evil", false),
            ("http://localhost?evil", false),
            ("http://localhost:80:80", false),
            ("http://localhost.", false),
            ("http://[::1", false),
            ("http://[::1]evil", false),
            ("http://[::1]:x]", false),
            ("http://", false),
            ("ws://localhost", false),
            ("localhost", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(check("/mcp", &[host.clone(), (ORIGIN, origin)]), expected, "{origin}");
        }
        for (host, expected) in [
            ("localhost:80", true),
            ("[::1]:80", true),
            ("tools.example.com:443", true),
            ("localhost:80@evil.example", false),
            ("localhost:evil", false),
            ("localhost:", false),
            ("localhost/evil", false),
            (":80", false),
        ] {
            assert_eq!(check("/mcp", &[(HOST, host)]), expected, "{host}");
        }
    }

    #[test]
    fn a_target_may_name_no_other_host() {
        for (target, expected) in [
            ("/mcp", true),
            ("http://127.0.0.1:8700/mcp", true),
            ("http://tools.example.com/mcp", true),
            ("http://evil.example/mcp", false),
            ("http://localhost@evil.example/mcp", false),
            ("http://evil@localhost/mcp", false),
        ] {
            assert_eq!(check(target, &[(HOST, "localhost")]), expected, "{target}");
        }
    }

    #[test]
    fn another_site_may_lead_a_window_to_the_pages_of_logins_and_nowhere_else() {
        let own = (HOST, "127.0.0.1:8700");
        let site = (SEC_FETCH_SITE, "cross-site");
        let (window, frame) = ([(SEC_FETCH_MODE, "navigate"), (SEC_FETCH_DEST, "document")], "iframe");
        let led = [own.clone(), site.clone(), window[0].clone(), window[1].clone()];
        for (path, expected) in [
            ("/oauth/callback", true),
            ("/oauth/callback?code=a&state=b", true),
            ("/connect/0123", true),
            ("/oauth/authorize?client_id=a", true),
            ("/oauth/consent", true),
            ("/oauth/consent/0123", true),
            ("/oauth/consents", false),
            ("/oauth/token", false),
            ("/oauth/revoke", false),
            ("/oauth/register", false),
            ("/oauth/callback/", false),
            ("/oauth/callbacks", false),
            ("/oauth", false),
            ("/connect", false),
            ("/mcp", false),
            ("/metrics", false),
            ("/api/v1/tools", false),
            ("/api/v1/connect/", false),
            ("/mcp?/oauth/callback", false),
        ] {
            assert_eq!(check(path, &led), expected, "{path}");
        }
        for path in ["/oauth/callback", "/connect/0123"] {
            for headers in [
                vec![own.clone(), site.clone()],
                vec![own.clone(), site.clone(), window[0].clone()],
                vec![own.clone(), site.clone(), window[1].clone()],
                vec![own.clone(), site.clone(), window[0].clone(), (SEC_FETCH_DEST, frame)],
                vec![own.clone(), site.clone(), window[0].clone(), window[1].clone(), (SEC_FETCH_DEST, frame)],
                vec![own.clone(), site.clone(), (SEC_FETCH_MODE, "no-cors"), (SEC_FETCH_DEST, "image")],
                vec![own.clone(), site.clone(), (SEC_FETCH_MODE, "cors"), (SEC_FETCH_DEST, "empty")],
                [&led[..], &[(ORIGIN, "https://evil.example")]].concat(),
                [&led[..], &[(ORIGIN, "null")]].concat(),
                [&led[1..], &[(HOST, "evil.example")]].concat(),
                [&led[..], &[(SEC_FETCH_SITE, "something-new")]].concat(),
            ] {
                assert!(!check(path, &headers), "{path} {headers:?}");
            }
        }
    }

    #[test]
    fn the_form_of_a_login_comes_from_its_own_page_under_any_name() {
        let named = (HOST, "tools.example.com:8443");
        for (path, origin, expected) in [
            ("/connect/0123", "https://tools.example.com:8443", true),
            ("/connect/0123", "http://tools.example.com:8443", true),
            ("/connect/0123", "https://tools.example.com", false),
            ("/connect/0123", "https://evil.example", false),
            ("/connect/0123", "tools.example.com:8443", false),
            ("/connect/0123", "null", false),
            ("/mcp", "https://tools.example.com:8443", false),
            ("/api/v1/tools", "https://tools.example.com:8443", false),
        ] {
            assert_eq!(check(path, &[named.clone(), (ORIGIN, origin)]), expected, "{path} {origin}");
        }
    }

    #[test]
    fn which_other_origin_leads_here() {
        for (origin, opened, expected) in [
            ("http://localhost:8700", "http://127.0.0.1:8700", true),
            ("http://127.0.0.1:8700", "http://localhost:8700", true),
            ("https://tools.example.com", "http://127.0.0.1:8700", true),
            ("http://localhost:3118", "http://127.0.0.1:8700", false),
            ("http://localhost", "http://127.0.0.1:8700", false),
            ("https://localhost:8700", "http://127.0.0.1:8700", false),
            ("http://127.0.0.1:8700", "https://tools.example.com", false),
            ("https://evil.example", "http://127.0.0.1:8700", false),
            ("https://localhost.evil.example:8700", "http://127.0.0.1:8700", false),
            ("localhost:8700", "http://127.0.0.1:8700", false),
        ] {
            assert_eq!(pages().is_also_here(origin, opened), expected, "{origin} from {opened}");
        }
    }

    #[test]
    fn a_page_of_another_site_can_send_nothing_without_its_origin() {
        let own = (HOST, "127.0.0.1:8700");
        let named = (HOST, "tools.example.com");
        let site = |value| (SEC_FETCH_SITE, value);
        for (headers, expected) in [
            (vec![own.clone(), site("same-origin")], true),
            (vec![own.clone(), site("none")], true),
            (vec![own.clone(), site("same-site")], true),
            (vec![own.clone(), site("cross-site")], false),
            (vec![own.clone(), site("none"), site("cross-site")], false),
            (vec![own.clone(), site("something-new")], false),
            (vec![own.clone(), site("")], false),
            (vec![named.clone(), site("same-site")], false),
            (vec![named.clone(), site("same-site"), (ORIGIN, "https://app.example.com")], true),
            (vec![named, site("cross-site"), (ORIGIN, "https://app.example.com")], true),
            (vec![own.clone(), site("cross-site"), (ORIGIN, "http://localhost:3000")], true),
            (vec![own, site("cross-site"), (ORIGIN, "https://evil.example")], false),
        ] {
            assert_eq!(check("/", &headers), expected, "{headers:?}");
        }
    }
}
