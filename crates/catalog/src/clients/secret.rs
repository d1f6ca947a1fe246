//! What in a client's settings is a secret, and which texts stand for a variable.

use std::path::PathBuf;

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

/// In longer texts no variables are looked for: every `$` may mean looking through the rest.
const PIECES_MAX: usize = 16 * 1024;

/// One piece of a text that may name variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// A variable of the environment, and what stands in where it is not set.
    Variable {
        name: String,
        default: Option<String>,
    },
    /// Something that the client asks its person for.
    Input(String),
    /// Something that only the client knows, such as `workspaceFolder`.
    Unknown(String),
}

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

/// Whether a text is nothing that anybody could want to hide: a switch, a small number, nothing at all.
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

/// A text in pieces: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${input:id}`, and `$NAME` where `dollar` says so.
pub(super) fn pieces(text: &str, dollar: bool) -> Vec<Piece> {
    if text.len() > PIECES_MAX {
        return vec![Piece::Text(text.to_owned())];
    }
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let (piece, length) = match after.strip_prefix("${").and_then(|inner| inner.split_once('}')) {
            Some((inside, _)) => (Some(braced(inside)), inside.len() + 3),
            None if dollar && !after.starts_with("${") => bare(&after[1..]),
            None => (None, 1),
        };
        match piece {
            Some(piece) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(piece);
            }
            None => plain.push_str(&after[..length]),
        }
        rest = &after[length..];
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

fn braced(inside: &str) -> Piece {
    let variable = |text: &str| {
        let (name, default) = match text.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (text, None),
        };
        crate::secret::is_variable(name).then(|| Piece::Variable { name: name.to_owned(), default })
    };
    if let Some(id) = inside.strip_prefix("input:") {
        return Piece::Input(id.to_owned());
    }
    let known = match inside.strip_prefix("env:") {
        Some(name) => variable(name),
        // A name in mixed case is one of the client's own.
        None if inside.split(":-").next().unwrap_or_default().bytes().any(|byte| byte.is_ascii_lowercase()) => None,
        None => variable(inside),
    };
    known.unwrap_or_else(|| Piece::Unknown(inside.to_owned()))
}

fn bare(after: &str) -> (Option<Piece>, usize) {
    let length = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let name = &after[..length];
    let piece = crate::secret::is_variable(name).then(|| Piece::Variable { name: name.to_owned(), default: None });
    (piece, length + 1)
}

/// The variable that stands for what a client asks its person for.
pub(super) fn variable_of_input(id: &str) -> String {
    let name: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if crate::secret::is_variable(&name) { name } else { format!("INPUT_{name}") }
}

/// A path of the person's own folder that clients write as a variable.
pub(super) fn own_folder(name: &str, home: Option<&PathBuf>) -> Option<String> {
    ["userHome", "HOME", "env:HOME"].contains(&name).then(|| home.map(|home| home.display().to_string())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_secrets() {
        for name in
            ["API_KEY", "apiKey", "X-Api-Key", "GITHUB_TOKEN", "Authorization", "DB_PASSWORD", "MYAPIKEY", "pat"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["KEYBOARD", "MONKEY", "PATH", "DEBUG", "compass", "AUTHOR", "HOST", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_tell_secrets() {
        let jwt = ["eyJhbGciOi", "eyJzdWIi", "c2ln"].join(".");
        let random = "0123456789abcdef".repeat(2);
        let made_up = ["sk", "0123456789"].join("-");
        for value in [made_up.as_str(), "Bearer abcdefg", "postgres://u:p@h/db", &jwt, &random] {
            assert!(is_secret_value(value), "{value}");
        }
        for value in
            ["", "sk-", "debug", "/people/me/a-long-path/that-has-digits-1234567890", "https://u@h/", "Bearer "]
        {
            assert!(!is_secret_value(value), "{value}");
        }
        for url in ["https://h/mcp?api_key=abc", "https://u:p@h/", "https://h/?a=1&token=x"] {
            assert!(is_secret_address(url), "{url}");
        }
        for url in ["https://h/mcp", "https://h/mcp?debug=1", "https://h/?key=true"] {
            assert!(!is_secret_address(url), "{url}");
        }
    }

    #[test]
    fn texts_fall_into_pieces() {
        let variable = |name: &str| Piece::Variable { name: name.to_owned(), default: None };
        let text = |text: &str| Piece::Text(text.to_owned());
        for (written, expected) in [
            ("plain", vec![text("plain")]),
            ("", vec![text("")]),
            ("${A}", vec![variable("A")]),
            ("${env:a_b}", vec![variable("a_b")]),
            ("Bearer ${env:T}!", vec![text("Bearer "), variable("T"), text("!")]),
            ("${A:-x}", vec![Piece::Variable { name: "A".to_owned(), default: Some("x".to_owned()) }]),
            ("${input:key}", vec![Piece::Input("key".to_owned())]),
            ("${workspaceFolder}/x", vec![Piece::Unknown("workspaceFolder".to_owned()), text("/x")]),
            ("${A", vec![text("${A")]),
            ("$A $", vec![text("$A $")]),
            ("${}", vec![Piece::Unknown(String::new())]),
        ] {
            assert_eq!(pieces(written, false), expected, "{written}");
        }
        assert_eq!(pieces("$A-$ä$", true), vec![variable("A"), text("-$ä$")]);
        assert_eq!(pieces("${A", true), vec![text("${A")]);
        assert_eq!((variable_of_input("api-key").as_str(), variable_of_input("1").as_str()), ("API_KEY", "INPUT_1"));
    }
}
