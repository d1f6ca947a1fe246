//! The cookie that binds a login to one browser: one for each login, so that two at a time do not mix. Its name is part
//! of the secret, so a cookie for `http` does not do for `https`.

use http::header::{COOKIE, HeaderMap, HeaderValue};
use toolcrib_base::{Secret, random};

use crate::guard::CALLBACK;

/// What names begin with, before some random digits.
const NAME: &str = "toolcrib-login-";
/// The same over `https`: a browser takes such a cookie only from this very host, and over `https`.
const HOST_NAME: &str = "__Host-toolcrib-login-";
/// The digits of a name and of a value.
const NAME_DIGITS: usize = 16;
const VALUE_DIGITS: usize = 64;
/// How long a browser keeps it, in seconds; as long as a login may take.
const LIFE: u32 = 10 * 60;
/// How many are read of one request. As many logins of one owner may be pending.
const COOKIES: usize = 64;

/// The secret of one browser for one login: `name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrowserCookie(Secret);

impl BrowserCookie {
    /// A new one for a page at `https` or `http`.
    pub(super) fn new(is_https: bool) -> Self {
        let prefix = if is_https { HOST_NAME } else { NAME };
        let name = &random::hex_128()[..NAME_DIGITS];
        Self(Secret::new(format!("{prefix}{name}={}", random::token().expose())))
    }

    /// All that a browser sends. Those that do not look like ours are left out, and those that come twice: one of them
    /// is not from us.
    pub(super) fn read(headers: &HeaderMap) -> Vec<Self> {
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).map(str::trim).filter(|pair| is_ours(pair));
        let pairs: Vec<&str> = pairs.take(COOKIES).collect();
        let is_single = |pair: &&&str| pairs.iter().filter(|other| name_of(other) == name_of(pair)).count() == 1;
        pairs.iter().filter(is_single).map(|pair| Self(Secret::new(*pair))).collect()
    }

    /// What the login is bound to.
    pub(super) fn secret(&self) -> &Secret {
        &self.0
    }

    /// The header that sets it.
    pub(super) fn set(&self) -> HeaderValue {
        self.header(self.0.expose(), LIFE)
    }

    /// The header that removes it.
    pub(super) fn remove(&self) -> HeaderValue {
        self.header(&format!("{}=", name_of(self.0.expose())), 0)
    }

    fn header(&self, pair: &str, life: u32) -> HeaderValue {
        let place = match self.0.expose().starts_with(HOST_NAME) {
            true => "Path=/; Secure".to_owned(),
            false => format!("Path={CALLBACK}"),
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

fn is_ours(pair: &str) -> bool {
    let rest = pair.strip_prefix(HOST_NAME).or_else(|| pair.strip_prefix(NAME));
    let is_hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = rest.and_then(|rest| rest.split_once('='));
    parts.is_some_and(|(name, value)| is_hex(name, NAME_DIGITS) && is_hex(value, VALUE_DIGITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[&str]) -> Vec<String> {
        let mut map = HeaderMap::new();
        for header in headers {
            map.append(COOKIE, header.parse().unwrap());
        }
        BrowserCookie::read(&map).iter().map(|cookie| cookie.secret().expose().to_owned()).collect()
    }

    #[test]
    fn what_is_set_is_read_again() {
        for (is_https, expected) in [
            (false, "; Path=/oauth/callback; HttpOnly; SameSite=Lax; Max-Age=600"),
            (true, "; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"),
        ] {
            let cookie = BrowserCookie::new(is_https);
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
        assert_ne!(BrowserCookie::new(true), BrowserCookie::new(true));
        assert!(!format!("{:?} {:?}", BrowserCookie::new(true), BrowserCookie::new(true).set()).contains("Host"));
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
