//! Who may connect: no page of another site, and only with a credential that proves a principal: the token of the token
//! file, or a key of the profile. `front` is where access tokens and clients' certificates count, `forwarded` finds out
//! who is behind a proxy, `failures` slows down who guesses.

mod failures;
mod forwarded;
mod front;
mod key_use;
mod page;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Uri;
use http::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use toolcrib_base::{
    Clock, Identity, Kind, PrincipalId, Problem, ProfileName, Proof, Role, Secret, SystemClock, Timestamp,
};
use toolcrib_call::ProfileSnapshot;
use toolcrib_call::snapshot::{is_shut_out, key_principal};
use toolcrib_catalog::{GatewayKey, KeyHash, matching_key};

use page::Pages;
use toolcrib_session::Principal;

pub use forwarded::{Network, NetworkError, TrustedProxies};
pub use front::Front;
pub use key_use::KeyUses;
pub(crate) use toolcrib_identity::KnownToken;

pub(crate) use failures::{Failures, Pace, takes_secret};
pub(crate) use front::{Admission, Arrival, FrontRefusal, PAGE_COOKIES, RESOURCE_METADATA};
pub(crate) use page::{
    APPROVAL, AUTHORIZE, CALLBACK, CONNECT, CONSENT, KEYS, REGISTER, REVOKE, TOKEN, UI, is_approval_page,
    is_authorization_endpoint, is_login_page, is_ui_page,
};

/// The keys that open a profile.
#[derive(Debug, Clone, Copy)]
pub struct ProfileKeys<'a> {
    /// The profile.
    pub profile: &'a ProfileName,
    /// Its keys; with none of them only the token opens it.
    pub keys: &'a [GatewayKey],
}

impl<'a> ProfileKeys<'a> {
    /// Those of a snapshot; `None` where its profile needs none.
    pub(crate) fn of(snapshot: &'a ProfileSnapshot) -> Option<Self> {
        Some(Self { profile: &snapshot.profile().name, keys: snapshot.keys()? })
    }
}

/// The rules of the door.
#[derive(Debug)]
pub struct Guard {
    token: Secret,
    pages: Pages,
    local: Principal,
    admin: Principal,
    clock: Arc<dyn Clock>,
    uses: Arc<KeyUses>,
    /// Who reads what is open to everyone.
    stranger: Principal,
    /// Whether a call from this machine may be one that a proxy passes on.
    loopback_needs_credential: bool,
    proxies: TrustedProxies,
    /// Whether others than the proxies and this machine may connect.
    is_direct: bool,
    pub(crate) failures: Failures,
}

impl Guard {
    /// `token` makes its bearer an administrator. `hosts` are further names under which we are reached, `origins`
    /// further pages that may call us, such as `https://app.example.com`.
    pub fn new(token: Secret, hosts: Vec<String>, origins: Vec<String>) -> Self {
        let credential = Some(KeyHash::of(token.expose()).name());
        let admin = Identity { credential, ..Identity::by(Proof::GatewayToken) };
        Self {
            pages: Pages { hosts, origins, ui: ui_host(&token) },
            token,
            local: Principal::member("local"),
            admin: Principal::new(PrincipalId::new("admin"), Role::Admin, admin),
            clock: Arc::new(SystemClock),
            uses: Arc::default(),
            stranger: Principal::new(PrincipalId::new("anonymous"), Role::Viewer, Identity::by(Proof::Nothing)),
            loopback_needs_credential: false,
            proxies: TrustedProxies::default(),
            is_direct: true,
            failures: Failures::default(),
        }
    }

    /// The same that looks at this clock for what expires, and notes here when keys are used.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>, uses: Arc<KeyUses>) -> Self {
        (self.clock, self.uses) = (clock, uses);
        self
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The same that admits no call from this machine without a credential: a proxy may pass it on.
    #[must_use]
    pub fn needing_credentials(mut self) -> Self {
        self.loopback_needs_credential = true;
        self
    }

    /// The same behind these proxies, if there are any. Then a call from this machine needs a credential too. `is_direct`:
    /// others may connect as well, because the listener itself speaks TLS.
    #[must_use]
    pub fn behind(mut self, proxies: TrustedProxies, is_direct: bool) -> Self {
        self.loopback_needs_credential |= !proxies.is_empty();
        (self.proxies, self.is_direct) = (proxies, is_direct);
        self
    }

    /// Who sent a request that came from `peer`.
    pub(crate) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        self.proxies.client(peer, headers)
    }

    /// 403 for who comes in plain text from elsewhere, past the proxy: its credential would cross the network so.
    pub(crate) fn check_peer(&self, peer: SocketAddr) -> Result<(), Problem> {
        let address = peer.ip().to_canonical();
        if self.is_direct || address.is_loopback() || self.proxies.contains(address) {
            return Ok(());
        }
        Err(Problem::new(Kind::Forbidden, "only the proxy in front of this gateway may connect here")
            .hint("Use the URL of the proxy. If this is the proxy, add its address to `trusted_proxies`."))
    }

    /// Who reads what is open to everyone.
    pub(crate) fn stranger(&self) -> &Principal {
        &self.stranger
    }

    /// Whether a call without a credential is one of this machine's own people.
    fn is_local(&self, peer: SocketAddr) -> bool {
        !self.loopback_needs_credential && peer.ip().is_loopback()
    }

    /// Whether wrong credentials of an address are answered later and later. From this machine come its own programs, which
    /// can read its files, or a proxy that the settings do not name, behind which clients cannot be told apart.
    pub(crate) fn slows(&self, client: IpAddr) -> bool {
        !self.proxies.is_empty() || !client.is_loopback()
    }

    /// 403 for a foreign host or what another site had a browser send.
    pub(crate) fn check_page(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        self.pages.check(target, headers)
    }

    /// Admits a request, or says why not: 403 for a foreign host or what another site had a browser send, 401 for a
    /// wrong or missing credential. `keys` are those of the profile that is asked for; `None` where it needs none.
    pub fn admit(
        &self,
        peer: SocketAddr,
        target: &Uri,
        headers: &HeaderMap,
        keys: Option<ProfileKeys<'_>>,
    ) -> Result<Principal, Problem> {
        self.pages.check(target, headers)?;
        let is_open = keys.is_none() && is_open(target.path()) && !headers.contains_key(AUTHORIZATION);
        if is_open && !self.is_local(peer) {
            return Ok(self.stranger.clone());
        }
        self.prove_from(Some(peer), headers, keys)
    }

    /// Whom an admitted request proves where only `keys` and the token count.
    pub(crate) fn prove(&self, headers: &HeaderMap, keys: ProfileKeys<'_>) -> Result<Principal, Problem> {
        self.prove_from(None, headers, Some(keys))
    }

    fn prove_from(
        &self,
        peer: Option<SocketAddr>,
        headers: &HeaderMap,
        keys: Option<ProfileKeys<'_>>,
    ) -> Result<Principal, Problem> {
        let mut credentials = headers.get_all(AUTHORIZATION).iter();
        match (credentials.next(), credentials.next()) {
            (None, _) if keys.is_some() => Err(Problem::new(Kind::Unauthenticated, "this profile requires a key")
                .hint(
                    "Send `Authorization: Bearer` with a key of the profile or the gateway's token (`state/token` \
                       in the home folder).",
                )),
            (None, _) if peer.is_some_and(|peer| self.is_local(peer)) => Ok(self.local.clone()),
            (None, _) => Err(Problem::new(Kind::Unauthenticated, "a token or key is required from another machine")
                .hint(
                    "Send `Authorization: Bearer` with a key to `/mcp/p/<profile>`, or with the gateway's token (`state/token` \
                       in the home folder).",
                )),
            (Some(credential), None) => {
                let text = credential.to_str().unwrap_or_default();
                let token = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer ")).map(|_| &text[7..]);
                token.and_then(|token| self.proven(token.trim(), keys)).ok_or_else(|| {
                    // Only who has the key is told.
                    let own = keys.zip(token).and_then(|(keys, token)| matching_key(keys.keys, token.trim()));
                    if let Some(key) = own {
                        return Problem::new(Kind::Unauthenticated, format!("key `{}` has expired", key.name))
                            .hint("Ask for a new one: `toolcrib profile key rotate` makes it.");
                    }
                    let hint = match keys {
                        Some(_) => {
                            "Send a key of the profile or the gateway's token (`state/token` in the home \
                                    folder)."
                        }
                        None => {
                            "Send the gateway's token (`state/token` in the home folder), or from this machine no \
                                 `Authorization` header."
                        }
                    };
                    Problem::new(Kind::Unauthenticated, "the token or key is not valid here").hint(hint)
                })
            }
            (Some(_), Some(_)) => Err(Problem::new(Kind::Unauthenticated, "more than one token or key")),
        }
    }

    /// Whether `origin` leads to this gateway for someone who reaches it at `opened`. Both are `scheme://host[:port]`.
    pub(crate) fn is_also_here(&self, origin: &str, opened: &str) -> bool {
        self.pages.is_also_here(origin, opened)
    }

    /// The host of the pages for people on this machine.
    pub(crate) fn ui_host(&self) -> &str {
        &self.pages.ui
    }

    /// Whether a host without its port is that one.
    pub(crate) fn is_ui_host(&self, name: &str) -> bool {
        self.pages.is_ui(name)
    }

    /// Whether a host without its port is another name of this machine for itself.
    pub(crate) fn is_this_machine(&self, name: &str) -> bool {
        page::is_loopback(name)
    }

    /// Whom a token or a key proves.
    pub(crate) fn proven(&self, credential: &str, keys: Option<ProfileKeys<'_>>) -> Option<Principal> {
        if self.token.matches(credential) {
            return Some(self.admin.clone());
        }
        let ProfileKeys { profile, keys } = keys?;
        let now = self.now();
        let key = matching_key(keys, credential).filter(|key| key.lasts(now))?;
        self.uses.note(key.hash, now);
        let identity =
            Identity { credential: Some(key.hash.name()), user: key.user.clone(), ..Identity::by(Proof::Key) };
        Some(Principal::new(key_principal(profile, key.name.as_str()), key.role, identity))
    }

    /// Whether a principal that was admitted to a profile with the keys `before` would not be admitted with those of
    /// `after`. The token's bearer always is.
    pub(crate) fn shuts_out(
        &self,
        profile: &ProfileName,
        principal: &PrincipalId,
        before: Option<&[GatewayKey]>,
        after: Option<&[GatewayKey]>,
    ) -> bool {
        *principal != self.admin.id && is_shut_out(profile, principal, before, after)
    }
}

/// A name that browsers resolve to this machine, and that only who has the token can know: 128 bits.
fn ui_host(token: &Secret) -> String {
    let hash = Sha256::digest(format!("host of the pages\n{}", token.expose()));
    let name: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("toolcrib-{name}.localhost")
}

/// What everyone may read: nothing there says more to one than to another.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
        || path.starts_with("/.well-known/")
        || is_login_page(path)
        || is_ui_page(path)
        || is_approval_page(path)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{HOST, HeaderName, ORIGIN};
    use toolcrib_catalog::{KeyHash, KeyName};

    use super::*;

    fn check(pairs: &[(HeaderName, &'static str)], peer: &str) -> Result<String, Kind> {
        check_keys(pairs, peer, None)
    }

    fn check_keys(
        pairs: &[(HeaderName, &'static str)],
        peer: &str,
        keys: Option<&[GatewayKey]>,
    ) -> Result<String, Kind> {
        let guard =
            Guard::new(Secret::new("s3cret"), vec!["tools.example.com".into()], vec!["https://app.example.com".into()]);
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        let profile = ProfileName::new("p").unwrap();
        let keys = keys.map(|keys| ProfileKeys { profile: &profile, keys });
        let admitted = guard.admit(peer.parse().unwrap(), &Uri::from_static("/mcp"), &headers, keys);
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

    fn key(name: &str, key: &str) -> GatewayKey {
        GatewayKey {
            name: KeyName::new(name).unwrap(),
            hash: KeyHash::of(key),
            created: None,
            role: toolcrib_base::Role::Member,
            expires: None,
            user: None,
        }
    }

    #[test]
    fn a_profile_with_keys_is_opened_by_one_of_them_or_by_the_token() {
        let (here, there, host) = ("127.0.0.1:5000", "192.0.2.7:5000", (HOST, "localhost"));
        let keys = [key("ci", "old"), key("ci", "new"), key("bob", "his")];
        for peer in [here, there] {
            let with = |credential| {
                let pairs = [host.clone(), (AUTHORIZATION, credential)];
                check_keys(&pairs, peer, Some(&keys))
            };
            for (credential, who) in [
                ("Bearer old", "key:p/ci"),
                ("bearer new", "key:p/ci"),
                ("Bearer his", "key:p/bob"),
                ("Bearer s3cret", "admin"),
            ] {
                assert_eq!(with(credential), Ok(who.into()), "{credential}");
            }
            for wrong in ["Bearer hi", "Bearer his2", "Bearer His", "Basic his", "his", "Bearer ", "Bearer sha256:00"] {
                assert_eq!(with(wrong), Err(Kind::Unauthenticated), "{wrong}");
            }
            assert_eq!(check_keys(std::slice::from_ref(&host), peer, Some(&keys)), Err(Kind::Unauthenticated));
            assert_eq!(check_keys(std::slice::from_ref(&host), peer, Some(&[])), Err(Kind::Unauthenticated));
            let key = [host.clone(), (AUTHORIZATION, "Bearer his")];
            assert_eq!(check_keys(&key, peer, Some(&[])), Err(Kind::Unauthenticated));
            assert_eq!(check_keys(&key, peer, None), Err(Kind::Unauthenticated), "a key opens its own profile only");
        }
    }

    #[test]
    fn who_is_shut_out_when_keys_change() {
        let guard = Guard::new(Secret::new("s3cret"), Vec::new(), Vec::new());
        let (old, new, bob) = (key("ci", "old"), key("ci", "new"), key("bob", "his"));
        let profile = ProfileName::new("p").unwrap();
        let none: Option<Vec<GatewayKey>> = None;
        let some = |keys: &[&GatewayKey]| Some(keys.iter().map(|key| (*key).clone()).collect::<Vec<_>>());
        for (before, after, expected) in [
            (none.clone(), none.clone(), vec![]),
            (none.clone(), some(&[&old]), vec!["local"]),
            (some(&[&old]), some(&[&old, &new]), vec!["local"]),
            (some(&[&old, &new]), some(&[&new]), vec!["local", "key:p/ci"]),
            (some(&[&old, &bob]), some(&[&bob]), vec!["local", "key:p/ci"]),
            (some(&[&old, &bob]), some(&[]), vec!["local", "key:p/ci", "key:p/bob"]),
            (some(&[&bob]), none, vec!["key:p/bob"]),
        ] {
            let gone =
                |who: &&str| guard.shuts_out(&profile, &PrincipalId::new(who), before.as_deref(), after.as_deref());
            let mut had = vec!["local", "admin"];
            for (who, name) in [("key:p/ci", "ci"), ("key:p/bob", "bob")] {
                had.extend(before.iter().flatten().any(|key| key.name.as_str() == name).then_some(who));
            }
            let gone: Vec<_> = had.into_iter().filter(gone).collect();
            assert_eq!(gone, expected, "{before:?} {after:?}");
        }
    }

    fn guard_behind(networks: &[&str], is_direct: bool) -> Guard {
        let proxies = TrustedProxies::new(networks.iter().map(|text| text.parse().unwrap()).collect());
        Guard::new(Secret::new("s3cret"), Vec::new(), Vec::new()).behind(proxies, is_direct)
    }

    #[test]
    fn behind_a_proxy_a_call_from_this_machine_is_no_ones() {
        let guard = guard_behind(&["127.0.0.1"], false);
        let admit = |path: &'static str, pairs: &[(HeaderName, &'static str)]| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
            headers.extend(pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))));
            let admitted = guard.admit("127.0.0.1:5".parse().unwrap(), &Uri::from_static(path), &headers, None);
            admitted.map(|principal| principal.id.to_string()).map_err(|problem| problem.kind)
        };
        let token = (AUTHORIZATION, "Bearer s3cret");
        for path in ["/mcp", "/metrics", "/api/v1/status"] {
            assert_eq!(admit(path, &[]), Err(Kind::Unauthenticated), "{path}");
            let spoofed = (HeaderName::from_static("x-forwarded-for"), "127.0.0.1");
            assert_eq!(admit(path, &[spoofed]), Err(Kind::Unauthenticated), "{path}");
            assert_eq!(admit(path, std::slice::from_ref(&token)), Ok("admin".into()), "{path}");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(admit(path, &[]), Ok("anonymous".into()), "{path}");
            assert_eq!(admit(path, &[(AUTHORIZATION, "Bearer x")]), Err(Kind::Unauthenticated), "{path}");
        }
    }

    #[test]
    fn no_one_comes_in_plain_text_past_the_proxy() {
        for (is_direct, peer, expected) in [
            (false, "10.0.0.7:1", true),
            (false, "[::ffff:10.0.0.7]:1", true),
            (false, "127.0.0.1:1", true),
            (false, "[::1]:1", true),
            (false, "10.0.1.7:1", false),
            (false, "[2001:db8::1]:1", false),
            (true, "10.0.1.7:1", true),
        ] {
            let checked = guard_behind(&["10.0.0.0/24"], is_direct).check_peer(peer.parse().unwrap());
            assert_eq!(checked.is_ok(), expected, "{peer}");
        }
    }

    #[test]
    fn who_is_not_on_this_machine_reads_only_what_is_open_without_a_credential() {
        let guard = Guard::new(Secret::new("s3cret"), Vec::new(), Vec::new());
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        for (path, expected) in [
            ("/healthz", Ok("anonymous")),
            ("/readyz", Ok("anonymous")),
            ("/metrics", Err(Kind::Unauthenticated)),
            ("/api/v1/status", Err(Kind::Unauthenticated)),
            ("/mcp", Err(Kind::Unauthenticated)),
        ] {
            let admitted = guard.admit("192.0.2.7:5".parse().unwrap(), &Uri::from_static(path), &headers, None);
            let admitted = admitted.map(|principal| principal.id.to_string()).map_err(|problem| problem.kind);
            assert_eq!(admitted, expected.map(str::to_owned), "{path}");
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
