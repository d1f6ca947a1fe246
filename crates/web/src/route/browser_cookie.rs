//! The cookie that binds something to one browser: one for each login and each request for authorization, so that two at a
//! time do not mix. Its name is part of the secret, so a cookie for `http` does not do for `https`.

use http::header::{COOKIE, HeaderMap, HeaderValue};
use toolcrib_base::{Secret, random};

use crate::guard::{CALLBACK, CONSENT};

/// The digits of a name and of a value.
const NAME_DIGITS: usize = 16;
const VALUE_DIGITS: usize = 64;
/// How long a browser keeps it, in seconds; as long as a login or a consent may take.
const LIFE: u32 = 10 * 60;
/// How many are read of one request. As many logins of one owner may be pending.
const COOKIES: usize = 64;

/// The secret of one browser for one thing: `name=value`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BrowserCookie {
    usage: &'static CookieUse,
    pair: Secret,
}

/// What a cookie is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CookieUse {
    /// What names begin with, before some random digits.
    name: &'static str,
    /// The same over `https`: a browser takes such a cookie only from this very host, and over `https`.
    host_name: &'static str,
    /// Where it goes without `https`.
    path: &'static str,
}

/// A login at a server.
pub(super) static LOGIN: CookieUse =
    CookieUse { name: "toolcrib-login-", host_name: "__Host-toolcrib-login-", path: CALLBACK };
/// A request of a client at our authorization server.
pub(super) static AUTHORIZATION: CookieUse =
    CookieUse { name: "toolcrib-consent-", host_name: "__Host-toolcrib-consent-", path: CONSENT };

impl BrowserCookie {
    /// A new one for a page at `https` or `http`.
    pub(super) fn new(usage: &'static CookieUse, is_https: bool) -> Self {
        let prefix = if is_https { usage.host_name } else { usage.name };
        let name = &random::hex_128()[..NAME_DIGITS];
        Self { usage, pair: Secret::new(format!("{prefix}{name}={}", random::token().expose())) }
    }

    /// All that a browser sends. Those that do not look like ours are left out, and those that come twice: one of them
    /// is not from us.
    pub(super) fn read(usage: &'static CookieUse, headers: &HeaderMap) -> Vec<Self> {
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).map(str::trim).filter(|pair| usage.is_ours(pair));
        let pairs: Vec<&str> = pairs.take(COOKIES).collect();
        let is_single = |pair: &&&str| pairs.iter().filter(|other| name_of(other) == name_of(pair)).count() == 1;
        pairs.iter().filter(is_single).map(|pair| Self { usage, pair: Secret::new(*pair) }).collect()
    }

    /// What is bound to it.
    pub(super) fn secret(&self) -> &Secret {
        &self.pair
    }

    /// The header that sets it.
    pub(super) fn set(&self) -> HeaderValue {
        self.header(self.pair.expose(), LIFE)
    }

    /// The header that removes it.
    pub(super) fn remove(&self) -> HeaderValue {
        self.header(&format!("{}=", name_of(self.pair.expose())), 0)
    }

    fn header(&self, pair: &str, life: u32) -> HeaderValue {
        let place = match self.pair.expose().starts_with(self.usage.host_name) {
            true => "Path=/; Secure".to_owned(),
            false => format!("Path={}", self.usage.path),
        };
        let text = format!("{pair}; {place}; HttpOnly; SameSite=Lax; Max-Age={life}");
        let mut header = HeaderValue::try_from(text).expect("letters and digits fit a header");
        header.set_sensitive(true);
        header
    }
}

fn name_of(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

impl std::fmt::Debug for BrowserCookie {
    /// Its name is part of the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BrowserCookie(****)")
    }
}

// === impl CookieUse ===

impl CookieUse {
    fn is_ours(&self, pair: &str) -> bool {
        let rest = pair.strip_prefix(self.host_name).or_else(|| pair.strip_prefix(self.name));
        let is_hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts = rest.and_then(|rest| rest.split_once('='));
        parts.is_some_and(|(name, value)| is_hex(name, NAME_DIGITS) && is_hex(value, VALUE_DIGITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[&str]) -> Vec<String> {
        let mut map = HeaderMap::new();
        for header in headers {
            map.append(COOKIE, header.parse().unwrap());
        }
        BrowserCookie::read(&LOGIN, &map).iter().map(|cookie| cookie.secret().expose().to_owned()).collect()
    }

    #[test]
    fn what_is_set_is_read_again() {
        for (is_https, expected) in [
            (false, "; Path=/oauth/callback; HttpOnly; SameSite=Lax; Max-Age=600"),
            (true, "; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"),
        ] {
            let cookie = BrowserCookie::new(&LOGIN, is_https);
            let header = cookie.set();
            let header = header.to_str().unwrap();
            let (pair, attributes) = header.split_at(header.find(';').unwrap());
            assert_eq!(attributes, expected);
            assert_eq!(pair.starts_with("__Host-"), is_https, "{pair}");
            assert_eq!(read(&[&format!("a=b; {pair}; c=d")]), [pair]);
            assert_eq!(read(&["a=b", pair]), [pair]);
            let removed = cookie.remove();
            assert!(removed.to_str().unwrap().starts_with(&format!("{}=; ", name_of(pair))), "{removed:?}");
            assert!(removed.to_str().unwrap().ends_with("Max-Age=0"), "{removed:?}");
        }
        assert_ne!(BrowserCookie::new(&LOGIN, true), BrowserCookie::new(&LOGIN, true));
        assert!(
            !format!("{:?} {:?}", BrowserCookie::new(&LOGIN, true), BrowserCookie::new(&LOGIN, true).set())
                .contains("Host")
        );
    }

    #[test]
    fn what_is_not_ours_or_comes_twice_is_not_read() {
        let value = "0f".repeat(32);
        let ours = format!("toolcrib-login-0123456789abcdef={value}");
        let other = format!("toolcrib-login-0123456789abcdee={value}");
        assert_eq!(read(&[&format!("{ours}; {other}")]), [&*ours, &*other]);
        assert_eq!(read(&[&format!("{ours}; {other}; {ours}")]), [&*other]);
        assert_eq!(read(&[&ours, &format!("toolcrib-login-0123456789abcdef={}", "0a".repeat(32))]), [""; 0]);
        for wrong in [
            String::new(),
            ours.replace("login", "logout"),
            ours.replace("0123", "012"),
            ours.replace("=0f", "="),
            format!("{ours}0"),
            ours.replace("=0f", "=0g"),
            ours.replace('=', ""),
        ] {
            assert_eq!(read(&[&wrong]), [""; 0], "{wrong}");
        }
        let many: Vec<String> = (0..100).map(|number| format!("toolcrib-login-{number:016x}={value}")).collect();
        assert_eq!(read(&[&many.join("; ")]).len(), COOKIES);
    }
}
