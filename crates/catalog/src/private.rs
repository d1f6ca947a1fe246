//! What of a file is not repeated in messages: a value that may be a secret, and a key that holds one by mistake.
//!
//! Files are wrong in all ways: a text in the place of a map, `KEY=value` in the place of a key, a whole file that is
//! something else. What stands where secrets belong, and what looks like one anywhere, is described by its kind.

use std::borrow::Cow;

/// What stands in for a value that is not shown.
pub const MASK: &str = "****";

/// Words in the name of a variable or a header whose value is kept apart.
const WORDS: [&str; 22] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "dsn",
    "jwt",
    "key",
    "keys",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "private",
    "pwd",
    "secret",
    "secrets",
    "session",
    "token",
    "tokens",
];
/// The same where names are written in one piece.
const PARTS: [&str; 6] = ["apikey", "authoriz", "credential", "passw", "secret", "token"];
/// What keys of well-known services begin with.
const BEGINNINGS: [&str; 30] = [
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "SG.",
    "shpat_",
    "lin_api_",
    "ntn_",
    "secret_",
    "Bearer ",
    "Basic ",
];
/// A run of letters and digits of this length is hardly a word.
const RANDOM: usize = 32;

/// Keys below which everything may be a secret.
const ZONES: [&str; 6] = ["env", "headers", "auth", "keys", "key", "canary_tokens"];
/// Keys that are described by others below them; what stands in their own place may be a secret.
const PLACES: [&str; 2] = ["authorization", "oauth"];
/// Zones whose keys are the file's own choice: names of variables and headers.
const NAMED: [&str; 3] = ["env", "headers", "auth"];

/// Whether the value of a variable or a header of this name is to be kept apart.
pub fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (was_lower && c.is_ascii_uppercase()) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.push(word);
    words.iter().any(|word| WORDS.contains(&word.as_str())) || PARTS.iter().any(|part| lower.contains(part))
}

/// Whether a text is nothing that anyone could want to hide: a switch, a small number, nothing at all.
pub(crate) fn is_harmless(value: &str) -> bool {
    let word = value.to_ascii_lowercase();
    ["", "true", "false", "yes", "no", "on", "off", "none", "null"].contains(&word.as_str())
        || (value.len() <= 5 && value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text looks like a secret, whatever it is called.
pub fn is_secret_value(value: &str) -> bool {
    let value = value.trim();
    if BEGINNINGS.iter().any(|begin| value.starts_with(begin) && value.len() >= begin.len() + 6) {
        return true;
    }
    if value.contains("-----BEGIN") || has_password(value) {
        return true;
    }
    let is_token = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'='));
    let has = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    (value.starts_with("eyJ") && value.matches('.').count() == 2)
        || (is_token && value.len() >= RANDOM && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic))
}

/// `scheme://user:password@host`
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, word)| !word.is_empty()))
}

/// Whether an address holds a secret: a password, or a member of its query that is named or looks like one.
pub(crate) fn is_secret_address(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut members = query.split(['&', '#']).filter_map(|member| member.split_once('='));
    has_password(url)
        || members.any(|(name, value)| (is_secret_name(name) && !is_harmless(value)) || is_secret_value(value))
}

/// Whether the value at `path` may be a secret where it is not what was expected. The root is one: the file may be
/// another than it seems.
pub(crate) fn is_private(path: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or_default();
    path.is_empty() || PLACES.contains(&last) || path.split(['.', '[']).any(|key| ZONES.contains(&key))
}

/// Whether a text looks like a secret, or like an address or an argument that holds one.
pub(crate) fn looks_secret(text: &str) -> bool {
    let pieces = || text.split(['=', '/', ' ', ',', ';', '"', '\'', '`']).filter(|piece| !piece.is_empty());
    is_secret_value(text) || is_secret_address(text) || pieces().any(is_secret_value)
}

/// Whether a word of a text looks so.
pub(crate) fn has_secret_word(text: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',')).any(looks_secret)
}

/// The path of a field, with `****` for a key that holds more than a name.
pub(crate) fn masked_path(path: &str) -> Cow<'_, str> {
    let named = path.split('.').scan(0, |at, key| {
        let begin = *at;
        *at += key.len() + 1;
        Some((begin + key.len() + 1, key))
    });
    for (after, key) in named {
        let Some(rest) = path.get(after..) else { break };
        if NAMED.contains(&key) && !is_name(rest) {
            return format!("{}{MASK}", &path[..after]).into();
        }
    }
    if looks_secret(path) || path.split(['.', '[', ']']).any(looks_secret) {
        return MASK.into();
    }
    path.into()
}

/// Whether it is nothing but the name of a variable or a header, perhaps with the place of an item below it.
pub(crate) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']');
    text.chars().all(is_plain) && !looks_secret(text)
}

#[cfg(test)]
mod tests;
