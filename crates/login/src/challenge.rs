//! Challenges of servers (`WWW-Authenticate`), read as RFC 9110 and RFC 6750 say. What a server writes is never trusted:
//! the result is bounded and free of control characters.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The longest header that is read, in bytes, and how many of a response.
const HEADER_BYTES: usize = 8 * 1024;
const HEADERS: usize = 8;
/// The longest value of a parameter, in bytes.
const VALUE_BYTES: usize = 4 * 1024;
/// The most scopes of a challenge.
const SCOPES: usize = 200;

/// What a server asks for: `Bearer` or `DPoP` with its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the protected resource metadata is (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scopes: Vec<String>,
    /// `invalid_token`, `insufficient_scope` …
    pub error: Option<String>,
    /// Whether it wants tokens that are bound to a key (`DPoP`, RFC 9449, section 7.1).
    pub wants_proof: bool,
}

impl Challenge {
    /// Reads the challenges of a response; `None` if none of them is for access tokens.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter().take(HEADERS).filter_map(|value| value.to_str().ok());
        Self::of_several(texts.flat_map(Self::parse).collect())
    }

    /// The one of several that counts: the first that says where its metadata is. A server that takes bound tokens
    /// beside others wants them.
    pub fn of_several(challenges: Vec<Self>) -> Option<Self> {
        let with_metadata = challenges.iter().position(|challenge| challenge.resource_metadata.is_some());
        let wants_proof = challenges.iter().any(|challenge| challenge.wants_proof);
        challenges.into_iter().nth(with_metadata.unwrap_or(0)).map(|challenge| Self { wants_proof, ..challenge })
    }

    /// Reads one header: the challenges for access tokens in it.
    pub fn parse(header: &str) -> Vec<Self> {
        if header.len() > HEADER_BYTES {
            return Vec::new();
        }
        let mut found: Vec<Self> = Vec::new();
        let mut parameters = BTreeMap::new();
        // Whether the present challenge is one, and of which kind.
        let mut wants_proof = None;
        let mut rest = header.trim_start();
        while !rest.is_empty() {
            let (token, after) = split_token(rest);
            if token.is_empty() {
                rest = skip_one(rest).trim_start_matches([',', ' ', '\t']);
                continue;
            }
            let value = after.trim_start_matches([' ', '\t']).strip_prefix('=').filter(|value| !value.starts_with('='));
            if let Some(value) = value {
                let (value, after) = split_value(value.trim_start_matches([' ', '\t']));
                parameters.entry(token.to_ascii_lowercase()).or_insert(value);
                rest = after.trim_start_matches([',', ' ', '\t']);
                continue;
            }
            let before = std::mem::take(&mut parameters);
            found.extend(wants_proof.map(|wants_proof| Self::from_parameters(before, wants_proof)));
            let is = |scheme: &str| token.eq_ignore_ascii_case(scheme);
            wants_proof = if is("dpop") { Some(true) } else { is("bearer").then_some(false) };
            rest = after.trim_start_matches([',', ' ', '\t']);
        }
        found.extend(wants_proof.map(|wants_proof| Self::from_parameters(parameters, wants_proof)));
        found
    }

    /// Whether the token lacks scopes.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// The same for who knows no tokens that are bound to keys.
    pub(crate) fn for_bearer(self) -> Self {
        Self { wants_proof: false, ..self }
    }

    /// The header again, with nothing in it but what is understood.
    pub fn to_header(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |name: &str, value: &str| parts.push(format!("{name}=\"{value}\""));
        if let Some(url) = &self.resource_metadata {
            add("resource_metadata", url);
        }
        if !self.scopes.is_empty() {
            add("scope", &self.scopes.join(" "));
        }
        if let Some(error) = &self.error {
            add("error", error);
        }
        let scheme = if self.wants_proof { "DPoP" } else { "Bearer" };
        format!("{scheme} {}", parts.join(", ")).trim_end().to_owned()
    }

    fn from_parameters(mut parameters: BTreeMap<String, String>, wants_proof: bool) -> Self {
        let mut take = |name: &str| parameters.remove(name).filter(|value| is_plain(value));
        let scopes = take("scope").unwrap_or_default();
        Self {
            resource_metadata: take("resource_metadata"),
            scopes: scopes.split_whitespace().filter(|scope| is_scope(scope)).take(SCOPES).map(str::to_owned).collect(),
            error: take("error"),
            wants_proof,
        }
    }
}

/// Whether a text is a scope as RFC 6749, section 3.3, says.
pub(crate) fn is_scope(text: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E);
    !text.is_empty() && text.len() <= 256 && text.bytes().all(is_allowed)
}

/// Visible ASCII and spaces without quotes and backslashes, not too long.
fn is_plain(value: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x20..=0x7E) && !matches!(byte, b'"' | b'\\');
    value.len() <= VALUE_BYTES && value.bytes().all(is_allowed)
}

fn split_token(text: &str) -> (&str, &str) {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
    text.split_at(text.bytes().take_while(|byte| is_token(*byte)).count())
}

/// A quoted or a plain value, and what is behind it.
fn split_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, character) in quoted.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => {
                is_escaped = true;
                continue;
            }
            '"' => return (value, &quoted[at + 1..]),
            _ => {}
        }
        value.push(character);
    }
    // The quotes are never closed: there is no value that could be trusted.
    (String::new(), "")
}

fn skip_one(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.as_str()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(header: &str) -> Challenge {
        let mut all = Challenge::parse(header);
        assert_eq!(all.len(), 1, "{header}: {all:?}");
        all.remove(0)
    }

    #[test]
    fn parameters_are_read_however_they_are_written() {
        let expected = Challenge {
            resource_metadata: Some("https://x.example/m".into()),
            scopes: vec!["a".into(), "b".into()],
            error: Some("insufficient_scope".into()),
            wants_proof: false,
        };
        for header in [
            r#"Bearer resource_metadata="https://x.example/m", scope="a b", error="insufficient_scope""#,
            r#"bearer SCOPE = "a b" ,error=insufficient_scope,resource_metadata=https://x.example/m"#,
            r#"Basic realm="x, scope=no", Bearer scope="a b", error="insufficient_scope", resource_metadata="https://x.example/m""#,
            r#"Negotiate abc==, Bearer scope="a b", error="insufficient_scope", resource_metadata="https://x.example/m", Basic scope="c""#,
        ] {
            assert_eq!(one(header), expected, "{header}");
        }
        assert_eq!(one(&expected.to_header()), expected);
        assert!(expected.is_insufficient_scope());
    }

    #[test]
    fn a_server_that_takes_bound_tokens_wants_them() {
        let challenge = one(r#"DPoP algs="ES256", scope="a", resource_metadata="https://x.example/m""#);
        assert_eq!((challenge.wants_proof, challenge.scopes.clone()), (true, vec!["a".to_owned()]));
        assert_eq!(one(&challenge.to_header()), challenge);
        let both = Challenge::parse(r#"Bearer scope="a", resource_metadata=https://x.example/m, dpop algs=ES256"#);
        assert_eq!(both.iter().map(|challenge| challenge.wants_proof).collect::<Vec<_>>(), [false, true]);
        let chosen = Challenge::of_several(both).unwrap();
        assert_eq!((chosen.wants_proof, chosen.scopes), (true, vec!["a".to_owned()]));
        assert!(!Challenge::of_several(Challenge::parse("Bearer, Basic realm=dpop")).unwrap().wants_proof);
    }

    #[test]
    fn a_scope_inside_another_parameter_is_none() {
        assert_eq!(one(r#"Bearer error_description="use scope=admin", scope="read""#).scopes, ["read"]);
        assert_eq!(one(r#"Bearer error_description="x\" scope=\"admin""#).scopes, [""; 0]);
        assert_eq!(one(r#"Bearer scope="a", scope="b""#).scopes, ["a"]);
    }

    #[test]
    fn what_is_malformed_gives_no_value() {
        for header in [
            r#"Bearer scope="never closed"#,
            "Bearer scope=\"a\u{7f}b\"",
            r#"Bearer scope="a\"b""#,
            &format!("Bearer resource_metadata=\"https://x/{}\"", "a".repeat(VALUE_BYTES)),
            "Bearer",
            "Bearer ,,,==,;;{}",
        ] {
            assert_eq!(one(header), Challenge::default(), "{header}");
        }
        for header in ["", "Basic realm=x", "scope=a", &format!("Bearer {}", "a".repeat(HEADER_BYTES))] {
            assert_eq!(Challenge::parse(header), [], "{header}");
        }
    }

    proptest! {
        #[test]
        fn any_header_gives_challenges_that_read_the_same_again(header in "[A-Za-z=\"\\\\, \t;\u{0}-\u{ff}]{0,200}") {
            for challenge in Challenge::parse(&header) {
                prop_assert_eq!(Challenge::parse(&challenge.to_header()), [challenge]);
            }
        }

        #[test]
        fn parameters_of_a_challenge_are_found(scope in "[a-z:/.]{1,20}", before in "[a-z]{1,8}", quoted in any::<bool>()) {
            let value = if quoted { format!("\"{scope}\"") } else { scope.clone() };
            let header = format!("Bearer {before}x=\"scope=bad\", scope={value}");
            prop_assert_eq!(Challenge::parse(&header).remove(0).scopes, [scope]);
        }
    }

    #[test]
    fn of_several_headers_the_one_with_metadata_counts() {
        let mut headers = HeaderMap::new();
        for value in ["Basic realm=x", "Bearer scope=a", "Bearer scope=b, resource_metadata=https://x.example/m"] {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        assert_eq!(Challenge::of(&headers).map(|challenge| challenge.scopes), Some(vec!["b".to_owned()]));
        assert_eq!(Challenge::of(&HeaderMap::new()), None);
    }
}
