//! Arguments for the audit log: what looks like a secret by its name is left out, the rest is cut to a bound.

use serde_json::Value;
use toolcrib_protocol::{Raw, json};

/// Parts of names whose values are not kept.
const SECRET: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "authorization",
    "credential",
    "private",
];
/// The longest text that is kept of one value, in characters.
const TEXT: usize = 256;
/// Larger arguments are not kept, only their hash.
const BYTES: usize = 64 * 1024;

/// Whether what has this name is taken for a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    SECRET.iter().any(|secret| name.contains(secret))
}

/// The arguments as JSON without their secrets.
pub(super) fn redacted(arguments: &[u8]) -> String {
    if arguments.len() > BYTES {
        return format!("\"({} bytes)\"", arguments.len());
    }
    let Ok(raw) = Raw::parse(arguments.to_vec().into(), json::Rules::checked()) else { return "null".to_owned() };
    let mut value = raw.to_value();
    redact(&mut value);
    value.to_string()
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if is_secret_name(name) {
                    *member = Value::from("****");
                } else {
                    redact(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) if text.chars().count() > TEXT => {
            *text = text.chars().take(TEXT).chain(['…']).collect();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_by_name_are_left_out_at_every_depth() {
        let text = br#"{"path":"/x","apiKey":"a","auth":[{"Access-Token":{"b":1}}],"n":1}"#;
        assert_eq!(redacted(text), r#"{"path":"/x","apiKey":"****","auth":[{"Access-Token":"****"}],"n":1}"#);
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1_000));
        assert!(redacted(long.as_bytes()).len() < 300);
        assert_eq!(redacted(&vec![b'1'; BYTES + 1]), format!("\"({} bytes)\"", BYTES + 1));
    }
}
