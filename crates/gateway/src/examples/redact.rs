//! Arguments as an example: without what is called a secret, looks like one, or is said to be one by the schema. In doubt a
//! value is left out: an example shows the form.

use serde_json::{Map, Value};
use toolcrib_catalog::{is_secret_name, is_secret_value};

const MASKED: &str = "****";
/// Longer texts are cut, in characters.
const TEXT: usize = 80;
/// A word of so many letters and digits mixed is an id or a key.
const MIXED: usize = 16;
/// Numbers of more digits are no quantities and no times: cards, accounts, telephones.
const DIGITS: usize = 11;
/// How many members of an object and items of a list are shown, and how deep.
const MEMBERS: usize = 32;
const ITEMS: usize = 3;
const DEPTH: usize = 4;

/// `None` where the arguments are no object. Members that the schema does not name are left out: they may be anything.
pub(super) fn redacted(arguments: &Value, schema: &Value) -> Option<Value> {
    let arguments = arguments.as_object()?;
    let named = arguments.iter().filter(|(name, _)| schema["properties"].get(name.as_str()).is_some());
    Some(Value::Object(members(named, schema, DEPTH)))
}

/// Whether the schema still has all arguments of an example, and it gives all that are required.
pub(super) fn fits(example: &Value, schema: &Value) -> bool {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let members = example.as_object();
    members.is_some_and(|members| members.keys().all(|name| schema["properties"].get(name).is_some()))
        && required.into_iter().all(|name| members.is_some_and(|members| members.contains_key(name)))
}

fn members<'v>(
    given: impl Iterator<Item = (&'v String, &'v Value)>,
    schema: &Value,
    depth: usize,
) -> Map<String, Value> {
    let member = |(name, value): (&String, &Value)| {
        let schema = &schema["properties"][name];
        let is_secret = is_secret_name(name) || schema["writeOnly"] == true || schema["format"] == "password";
        (name.clone(), if is_secret { MASKED.into() } else { shown(value, schema, depth - 1) })
    };
    given.take(MEMBERS).map(member).collect()
}

fn shown(value: &Value, schema: &Value, depth: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(number) if number.to_string().bytes().filter(u8::is_ascii_digit).count() > DIGITS => {
            MASKED.into()
        }
        Value::Number(_) => value.clone(),
        // What the schema lists itself is known to everyone.
        Value::String(text) if schema["enum"].as_array().is_some_and(|values| values.contains(value)) => {
            text.as_str().into()
        }
        Value::String(text) if is_secret_text(text) => MASKED.into(),
        Value::String(text) => match text.char_indices().nth(TEXT) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => text.as_str().into(),
        },
        Value::Array(_) | Value::Object(_) if depth == 0 => "…".into(),
        Value::Array(items) => {
            items.iter().take(ITEMS).map(|item| shown(item, &schema["items"], depth)).collect::<Vec<_>>().into()
        }
        Value::Object(given) => members(given.iter(), schema, depth).into(),
    }
}

/// Whether a text holds a secret, or speaks of one.
fn is_secret_text(text: &str) -> bool {
    let is_quote = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '<' | '>' | '(' | ')');
    if is_secret_value(text) || text.split(is_quote).any(is_secret_value) {
        return true;
    }
    let mut digits = 0;
    let long_number = text.chars().any(|c| {
        digits = match c {
            '0'..='9' => digits + 1,
            // Cards and telephones are written in groups.
            ' ' | '-' | '.' | '/' => digits,
            _ => 0,
        };
        digits > DIGITS
    });
    let words = || text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '+')));
    let is_mixed = |word: &str| {
        let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
        word.len() >= MIXED && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    };
    long_number
        || words().any(|word| is_secret_name(word) || is_mixed(word) || (word.is_ascii() && word.len() > TEXT / 2))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better without `&`")]
    fn check(value: Value, expect: Value) {
        let schema = json!({ "properties": {
            "a": { "enum": ["session", "b"], "properties": {}, "items": {} }, "pin": { "writeOnly": true }, "code": { "format": "password" },
        } });
        assert_eq!(redacted(&value, &schema), Some(expect), "{value}");
    }

    #[test]
    fn plain_values_stay_and_long_ones_are_cut() {
        for plain in [
            json!("Berlin, 12 May 2026"),
            json!("src/main.rs"),
            json!("2026-05-12T08:30"),
            json!("2026-05-12 08:30"),
            json!("session"),
            json!(12.5),
            json!(true),
            json!(null),
            json!({"from": "EUR", "to": ["USD", "JPY"]}),
            json!("搜索 größe"),
        ] {
            check(json!({ "a": plain }), json!({ "a": plain }));
        }
        check(json!({ "a": "word ".repeat(40) }), json!({ "a": format!("{}…", "word ".repeat(16)) }));
        check(json!({ "a": [1, 2, 3, 4, 5] }), json!({ "a": [1, 2, 3] }));
        check(json!({ "a": {"b": {"c": {"d": {"e": 1}}}} }), json!({ "a": {"b": {"c": {"d": "…"}}} }));
        check(json!({ "unknown": "x" }), json!({}));
        assert_eq!(redacted(&json!([1]), &json!({})), None);
    }

    #[test]
    fn nothing_that_looks_like_a_secret_stays() {
        let jwt = ["eyJhbGciOi", "eyJzdWIi", "c2ln"].join(".");
        let begin = ["-----BEGIN", "RSA KEY-----"].join(" ");
        for secret in [
            "hunter2 is my password",
            "PASSWORD=hunter2",
            "{\"api_key\": \"abc\"}",
            "Bearer abcdefgh",
            "curl -H 'Authorization: x' https://h/",
            "https://user:pass@example.com/x",
            "https://example.com/?token=abc",
            "use sk-0123456789 for it",
            "AbCdEf0123456789",
            "4111 1111 1111 1111",
            "+49 170 1234567",
            &jwt,
            &begin,
            &"x".repeat(200),
        ] {
            check(json!({ "a": secret }), json!({ "a": MASKED }));
            check(json!({ "a": [{"b": secret}] }), json!({ "a": [{"b": MASKED}] }));
        }
        check(json!({ "a": 4_111_111_111_111_111_u64 }), json!({ "a": MASKED }));
        check(
            json!({ "a": {"apiKey": {"deep": "x"}, "sessionId": 7} }),
            json!({ "a": {"apiKey": MASKED, "sessionId": MASKED} }),
        );
        check(json!({ "pin": 1234, "code": "x" }), json!({ "pin": MASKED, "code": MASKED }));
    }

    #[test]
    fn an_example_must_fit_the_tool_as_it_is() {
        let schema = json!({ "properties": {"a": {}, "b": {}}, "required": ["a"] });
        assert!(fits(&json!({"a": 1}), &schema));
        assert!(!fits(&json!({"b": 1}), &schema), "a required one is missing");
        assert!(!fits(&json!({"a": 1, "c": 1}), &schema), "an unknown one");
    }
}
