//! Who may connect: `Host` and `Origin` of this machine, and the principal that the credential proves.

use std::net::SocketAddr;

use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use toolcrib_base::{Kind, PrincipalId, Problem, Secret};
use toolcrib_gateway::Principal;

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The rules of the door.
#[derive(Debug)]
pub struct Guard {
    token: Secret,
    hosts: Vec<String>,
    origins: Vec<String>,
    local: Principal,
    admin: Principal,
}

impl Guard {
    /// `token` makes its bearer an administrator. `hosts` are further names under which we are reached, `origins`
    /// further pages that may call us, such as `https://app.example.com`.
    pub fn new(token: Secret, hosts: Vec<String>, origins: Vec<String>) -> Self {
        let principal = |id, is_admin| Principal { id: PrincipalId::new(id), is_admin };
        Self { token, hosts, origins, local: principal("local", false), admin: principal("admin", true) }
    }

    /// Admits a request, or says why not: 403 for a foreign `Host` or `Origin`, 401 for a wrong or missing credential.
    pub fn admit(&self, peer: SocketAddr, headers: &HeaderMap) -> Result<Principal, Problem> {
        self.check_host(headers)?;
        self.check_origin(headers)?;
        let mut credentials = headers.get_all(AUTHORIZATION).iter();
        match (credentials.next(), credentials.next()) {
            (None, _) if peer.ip().is_loopback() => Ok(self.local.clone()),
            (None, _) => Err(Problem::new(Kind::Unauthenticated, "a credential is required from another machine")
                .hint("Send `Authorization: Bearer` with the token of the token file.")),
            (Some(credential), None) => {
                let text = credential.to_str().unwrap_or_default();
                let token = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer ")).map(|_| &text[7..]);
                match token {
                    Some(token) if self.token.matches(token.trim()) => Ok(self.admin.clone()),
                    _ => Err(Problem::new(Kind::Unauthenticated, "the credential is not valid here")
                        .hint("Send the token of the token file, or no `Authorization` header from this machine.")),
                }
            }
            (Some(_), Some(_)) => Err(Problem::new(Kind::Unauthenticated, "more than one credential")),
        }
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => "",
        };
        let name = without_port(host);
        let known = LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(name))
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(host));
        if known {
            return Ok(());
        }
        let shown: String = host.chars().take(100).collect();
        Err(Problem::new(Kind::Forbidden, format!("the host `{shown}` is not served here"))
            .hint("Connect to 127.0.0.1 or localhost, or add the name to `allowed_hosts` in config.toml."))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let own_page = ["http://", "https://"].iter().any(|scheme| {
                let host = origin.strip_prefix(scheme).map(without_port);
                host.is_some_and(|host| LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(host)))
            });
            if !own_page && !self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
                let shown: String = origin.chars().take(100).collect();
                return Err(Problem::new(Kind::Forbidden, format!("pages of `{shown}` may not call this gateway"))
                    .hint("Add the page's origin to `allowed_origins` in config.toml if you trust it."));
            }
        }
        Ok(())
    }
}

/// `name` of `name:port`; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HeaderName;

    use super::*;

    fn check(pairs: &[(HeaderName, &'static str)], peer: &str) -> Result<String, Kind> {
        let guard =
            Guard::new(Secret::new("s3cret"), vec!["tools.example.com".into()], vec!["https://app.example.com".into()]);
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        let admitted = guard.admit(peer.parse().unwrap(), &headers);
        admitted.map(|principal| principal.id.to_string()).map_err(|problem| problem.kind)
    }

    #[test]
    fn hosts_and_origins_of_others_are_refused() {
        let here = "127.0.0.1:5000";
        for host in [
            "localhost",
            "localhost:80",
            "LOCALHOST:8700",
            "127.0.0.1:8700",
            "[::1]:8700",
            "[::1]",
            "tools.example.com:443",
        ] {
            assert_eq!(check(&[(HOST, host)], here), Ok("local".into()), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "evil@localhost"] {
            assert_eq!(check(&[(HOST, host)], here), Err(Kind::Forbidden), "{host}");
        }
        assert_eq!(check(&[], here), Err(Kind::Forbidden));
        let host = (HOST, "localhost");
        assert_eq!(check(&[host.clone(), (HOST, "localhost")], here), Err(Kind::Forbidden));
        for origin in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:1", "https://app.example.com"] {
            assert_eq!(check(&[host.clone(), (ORIGIN, origin)], here), Ok("local".into()), "{origin}");
        }
        for origin in
            ["null", "http://evil.example", "http://localhost.evil.example", "file://", "https://app.example.com.evil"]
        {
            assert_eq!(check(&[host.clone(), (ORIGIN, origin)], here), Err(Kind::Forbidden), "{origin}");
        }
    }

    #[test]
    fn the_token_makes_an_administrator() {
        let (here, there) = ("127.0.0.1:5000", "192.0.2.7:5000");
        let host = (HOST, "localhost");
        assert_eq!(check(&[host.clone(), (AUTHORIZATION, "Bearer s3cret")], here), Ok("admin".into()));
        assert_eq!(check(&[host.clone(), (AUTHORIZATION, "bearer s3cret")], there), Ok("admin".into()));
        for wrong in ["Bearer wrong", "Bearer ", "Basic s3cret", "s3cret", ""] {
            assert_eq!(check(&[host.clone(), (AUTHORIZATION, wrong)], here), Err(Kind::Unauthenticated), "{wrong}");
        }
        let twice = [host.clone(), (AUTHORIZATION, "Bearer s3cret"), (AUTHORIZATION, "Bearer x")];
        assert_eq!(check(&twice, here), Err(Kind::Unauthenticated));
        assert_eq!(check(&[host], there), Err(Kind::Unauthenticated));
    }
}
