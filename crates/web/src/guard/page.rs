//! What a browser says of the page behind a request, and the names under which we are reached: `Host`, the target's own
//! authority, `Origin`, `Sec-Fetch-Site`.

use http::Uri;
use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use toolcrib_base::{Kind, Problem};

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// How the page is related to us, as browsers say it of every request (Fetch Metadata, section 2.4).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Under which names we are reached, and which pages may call us.
#[derive(Debug)]
pub(super) struct Pages {
    /// Beside the names of this machine.
    pub(super) hosts: Vec<String>,
    /// Beside pages of this machine.
    pub(super) origins: Vec<String>,
}

// === impl Pages ===

impl Pages {
    /// 403 for a request that another site had a browser send, or that was sent to another name.
    pub(super) fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = self.check_host(target, headers)?;
        self.check_origin(headers)?;
        self.check_site(host, headers)
    }

    /// Gives the name in `Host`.
    fn check_host<'h>(&self, target: &Uri, headers: &'h HeaderMap) -> Result<&'h str, Problem> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => "",
        };
        // A target in absolute form names its own host, which counts before `Host` (RFC 9112, section 3.2.2).
        let named = target.authority().map(http::uri::Authority::as_str);
        match [Some(host), named].into_iter().flatten().find(|host| !self.is_served(host)) {
            None => Ok(name_of(host).unwrap_or_default()),
            Some(foreign) => {
                let shown: String = foreign.chars().take(100).collect();
                Err(Problem::new(Kind::Forbidden, format!("the host `{shown}` is not served here"))
                    .hint("Connect to 127.0.0.1 or localhost, or add the name to `allowed_hosts` in config.toml."))
            }
        }
    }

    fn is_served(&self, host: &str) -> bool {
        name_of(host).is_some_and(|name| {
            is_loopback(name)
                || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(host))
        })
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !is_own_page(origin) && !self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
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
    /// is there has been admitted.
    fn check_site(&self, host: &str, headers: &HeaderMap) -> Result<(), Problem> {
        let is_fine = |site: &str| match site {
            "same-origin" | "none" => true,
            // All ports of this machine are one site, and its pages may call us.
            "same-site" => is_loopback(host) || headers.contains_key(ORIGIN),
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

fn is_loopback(name: &str) -> bool {
    LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether an origin is exactly `scheme://host[:port]` of this machine.
fn is_own_page(origin: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    host.and_then(name_of).is_some_and(is_loopback)
}

/// The name in `name` or `name:port`; an IPv6 address keeps its brackets. `None` for anything else.
fn name_of(host: &str) -> Option<&str> {
    let colon = host.rfind(':').filter(|colon| !host[*colon..].contains(']'));
    let (name, port) = colon.map_or((host, None), |colon| (&host[..colon], Some(&host[colon + 1..])));
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_address = name.starts_with('[') && name.ends_with(']');
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = match is_address {
        true => name[1..name.len() - 1].bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')),
        false => !name.is_empty() && name.bytes().all(is_name),
    };
    (fits && port.is_none_or(is_port)).then_some(name)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn pages() -> Pages {
        Pages { hosts: vec!["tools.example.com".into()], origins: vec!["https://app.example.com".into()] }
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
