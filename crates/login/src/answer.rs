//! Answers of authorization servers in the form that RFC 6749 gives them: many are form-encoded, have errors with status
//! 200, lists where texts belong or numbers in quotes. What is not understood is left out, so that no surprise reaches
//! what reads them next.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::challenge::is_scope;
use crate::error::shown;

/// The longest token, in bytes: it travels in a header.
const TOKEN_BYTES: usize = 32 * 1024;
/// The longest life of a token that is believed, in seconds: ten years.
const LIFE_SECONDS: u64 = 10 * 365 * 24 * 3600;
/// The most scopes of an answer.
const SCOPES: usize = 200;
/// What kind of token an answer holds: of use to whoever has it, or bound to a key (RFC 9449, section 5).
const TOKEN_TYPE: &str = "token_type";
const BEARER: &str = "bearer";
const BOUND: &str = "dpop";

/// An error of a token endpoint (RFC 6749, section 5.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenError {
    /// `invalid_grant`, `invalid_client` …
    pub(crate) code: String,
    /// What it says about it.
    pub(crate) description: Option<String>,
}

/// A token answer: tokens, or an error.
pub(crate) type TokenAnswer = Result<Map<String, Value>, TokenError>;

impl TokenError {
    /// For people.
    pub(crate) fn text(&self) -> String {
        match &self.description {
            Some(description) => shown(&format!("{}: {description}", self.code)),
            None => shown(&self.code),
        }
    }

    /// The body that says it.
    pub(crate) fn to_body(&self) -> Vec<u8> {
        let description = self.description.as_deref().unwrap_or_default();
        json!({"error": self.code, "error_description": description}).to_string().into_bytes()
    }
}

/// Reads the answer of a token endpoint.
pub(crate) fn token_answer(status: StatusCode, body: &[u8]) -> TokenAnswer {
    let members = members(body);
    let text = |name: &str| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let says_no = members.get("ok") == Some(&Value::Bool(false));
    let token = text("access_token").filter(|_| !says_no && status.is_success());
    let Some(token) = token else {
        let code = text("error").filter(|_| !status.is_server_error());
        let code = code.map_or_else(|| format!("status {}", status.as_u16()), known_code);
        let description = text("error_description").or_else(|| text("error_message")).map(shown);
        return Err(TokenError { code, description });
    };
    let wrong = |what: &str| TokenError { code: "invalid_answer".to_owned(), description: Some(what.to_owned()) };
    if !is_token(token) {
        return Err(wrong("the access token cannot stand in a header"));
    }
    let kind = text("token_type").unwrap_or(BEARER);
    let is = |known: &str| kind.eq_ignore_ascii_case(known);
    // Slack calls those of people so.
    let is_plain = is(BEARER) || is("user");
    if !is_plain && !is(BOUND) {
        return Err(wrong("the access token is not a bearer token"));
    }
    let mut read = Map::new();
    read.insert("access_token".into(), token.into());
    read.insert(TOKEN_TYPE.into(), if is_plain { BEARER } else { BOUND }.into());
    if let Some(refresh) = text("refresh_token").filter(|token| is_token(token)) {
        read.insert("refresh_token".into(), refresh.into());
    }
    if let Some(seconds) = members.get("expires_in").and_then(seconds) {
        read.insert("expires_in".into(), seconds.min(LIFE_SECONDS).into());
    }
    let scopes = members.get("scope").map(scopes).filter(|scopes| !scopes.is_empty());
    if let Some(scopes) = scopes {
        read.insert("scope".into(), scopes.join(" ").into());
    }
    Ok(read)
}

/// Whether the token of an answer is bound to a key. The key has to be the one that `proves`.
pub(crate) fn is_bound(members: &Map<String, Value>, proves: bool) -> Result<bool, TokenError> {
    let is_bound = members.get(TOKEN_TYPE).is_some_and(|kind| kind == BOUND);
    if is_bound && !proves {
        let description = Some("the access token is bound to a key that is not ours".to_owned());
        return Err(TokenError { code: "invalid_answer".to_owned(), description });
    }
    Ok(is_bound)
}

/// The members of an object in JSON or of a form; none for anything else.
fn members(body: &[u8]) -> Map<String, Value> {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(members)) => members,
        Ok(_) => Map::new(),
        Err(_) => url::form_urlencoded::parse(body)
            .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect(),
    }
}

/// The code of RFC 6749 for one that a provider made up.
fn known_code(code: &str) -> String {
    match code {
        "bad_verification_code" | "invalid_refresh_token" | "token_expired" | "bad_refresh_token" => "invalid_grant",
        "incorrect_client_credentials" | "bad_client_secret" | "invalid_client_id" => "invalid_client",
        other => return shown(other).chars().filter(|character| !character.is_whitespace()).collect(),
    }
    .to_owned()
}

/// A number of seconds, also in quotes or with a fraction; what is negative is over.
fn seconds(value: &Value) -> Option<u64> {
    let number = match value {
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        other => other.as_f64()?,
    };
    // Below 2^63 for any life that is believed.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded one line above")]
    number.is_finite().then(|| number.clamp(0.0, 1e12) as u64)
}

/// Scopes as a text with spaces or commas between them, or as a list.
fn scopes(value: &Value) -> Vec<String> {
    let split = |text: &str| text.split([' ', ',', '\t', '\n']).map(str::to_owned).collect::<Vec<_>>();
    let all = match value {
        Value::String(text) => split(text),
        Value::Array(list) => list.iter().filter_map(Value::as_str).flat_map(split).collect(),
        _ => Vec::new(),
    };
    all.into_iter().filter(|scope| is_scope(scope)).take(SCOPES).collect()
}

/// Whether a text may be a token: visible ASCII, not too long.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= TOKEN_BYTES && text.bytes().all(|byte| matches!(byte, 0x21..=0x7E))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(status: u16, body: &str) -> Result<Value, String> {
        token_answer(StatusCode::from_u16(status).unwrap(), body.as_bytes())
            .map(Value::Object)
            .map_err(|error| error.text())
    }

    #[test]
    fn tokens_are_read_in_every_form() {
        for (body, expected) in [
            (
                r#"{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r","scope":"x y","id_token":"i"}"#,
                json!({"access_token":"a","token_type":"bearer","expires_in":3600,"refresh_token":"r","scope":"x y"}),
            ),
            (
                "access_token=a&scope=repo%2Cuser&token_type=bearer",
                json!({"access_token":"a","token_type":"bearer","scope":"repo user"}),
            ),
            (
                r#"{"ok":true,"access_token":"a","token_type":"user","scope":["x","y z"],"expires_in":"43200"}"#,
                json!({"access_token":"a","token_type":"bearer","scope":"x y z","expires_in":43200}),
            ),
            (
                r#"{"access_token":"a","expires_in":1e300}"#,
                json!({"access_token":"a","token_type":"bearer","expires_in":LIFE_SECONDS}),
            ),
            (
                r#"{"access_token":"a","expires_in":-5,"refresh_token":""}"#,
                json!({"access_token":"a","token_type":"bearer","expires_in":0}),
            ),
            (r#"{"access_token":"a","token_type":"DPoP"}"#, json!({"access_token":"a","token_type":"dpop"})),
            (
                r#"{"access_token":"a","expires_in":null,"scope":null}"#,
                json!({"access_token":"a","token_type":"bearer"}),
            ),
        ] {
            assert_eq!(read(200, body), Ok(expected), "{body}");
        }
    }

    #[test]
    fn errors_are_read_in_every_form() {
        for (status, body, expected) in [
            (400, r#"{"error":"invalid_grant","error_description":"gone"}"#, "invalid_grant: gone"),
            (
                200,
                "error=bad_verification_code&error_description=The+code+is+wrong",
                "invalid_grant: The code is wrong",
            ),
            (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#, "invalid_grant"),
            (200, r#"{"ok":false,"error":"x","access_token":"a"}"#, "x"),
            (401, r#"{"error":"invalid_client"}"#, "invalid_client"),
            (500, "<html>no</html>", "status 500"),
            (400, r#"{"access_token":"a"}"#, "status 400"),
            (200, "[]", "status 200"),
            (200, r#"{"access_token":"a\r\nX: y"}"#, "invalid_answer: the access token cannot stand in a header"),
            (
                200,
                r#"{"access_token":"a","token_type":"mac"}"#,
                "invalid_answer: the access token is not a bearer token",
            ),
            (400, "{\"error\":\"a\\u001b[31m\",\"error_description\":\"b\\nc\"}", "a[31m: b c"),
        ] {
            assert_eq!(read(status, body), Err(expected.to_owned()), "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_gives_what_can_stand_in_a_header_or_an_error_on_one_line(
            status in 100_u16..600,
            body in prop_oneof![any::<Vec<u8>>(), r#"\{"(access_token|error|scope|expires_in)":("\PC{0,20}"|[0-9eE.-]{1,9}|null|\[\])\}"#.prop_map(String::into_bytes)],
        ) {
            match token_answer(StatusCode::from_u16(status).unwrap(), &body) {
                Ok(members) => prop_assert!(is_token(members["access_token"].as_str().unwrap())),
                Err(error) => prop_assert!(!error.text().contains(char::is_control)),
            }
        }
    }
}
