//! Trees of texts that serde_json refuses although they are JSON: half surrogate pairs, numbers out of range. Servers
//! in some languages send them, and one such value must not empty everything around it.

use serde_json::{Map, Value};

use crate::json::{self, Outline, Rules};

/// Deeper values are kept as text; what arrives is bounded below this already.
const DEPTH: usize = 200;

/// The tree of a checked text.
pub(super) fn value(text: &str) -> Value {
    at_depth(text, 0)
}

fn at_depth(text: &str, depth: usize) -> Value {
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    if depth >= DEPTH {
        return Value::String(text.to_owned());
    }
    match json::scan_text(text, Rules::checked()) {
        Ok(Outline::Object(members)) => {
            let members = members.iter().map(|member| (member.key.to_string(), at_depth(member.value, depth + 1)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Ok(Outline::Array(items)) => items.into_iter().map(|item| at_depth(item, depth + 1)).collect(),
        Ok(Outline::Scalar(scalar)) => scalar_of(scalar),
        Err(_) => Value::Null,
    }
}

fn scalar_of(scalar: &str) -> Value {
    if !scalar.starts_with('"') {
        return Value::String(scalar.to_owned());
    }
    serde_json::from_str(&without_halves(scalar)).unwrap_or_else(|_| Value::String(scalar.to_owned()))
}

/// Replaces each escaped half of a surrogate pair that stands alone.
fn without_halves(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at..];
        let unit = |text: &str| text.strip_prefix("\\u").and_then(|hex| u32::from_str_radix(hex.get(..4)?, 16).ok());
        let (taken, written) = match unit(escape) {
            Some(0xd800..=0xdbff) => match escape.get(6..).and_then(unit) {
                Some(0xdc00..=0xdfff) => (12, &escape[..12]),
                _ => (6, "\\ufffd"),
            },
            Some(0xdc00..=0xdfff) => (6, "\\ufffd"),
            Some(_) => (6, &escape[..6]),
            // Every other escape is two characters.
            None => (2, escape.get(..2).unwrap_or(escape)),
        };
        out.push_str(written);
        rest = escape.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tree_cannot_hold_is_replaced_and_the_rest_stays() {
        let text = r#"{"a":"x\ud800y","b":[1e999,2],"c":"\ud83d\ude00 \n \udc00","d":true,"\udfff":1}"#;
        let got = value(text);
        assert_eq!(got["a"], "x\u{fffd}y");
        assert_eq!(got["b"], json!(["1e999", 2]));
        assert_eq!(got["c"], "😀 \n \u{fffd}");
        assert_eq!(got["d"], true);
        assert_eq!(value("[1,2]"), json!([1, 2]));
    }

    proptest! {
        #[test]
        fn any_checked_text_has_a_tree(parts in prop::collection::vec("(\\\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\n|[a-zä]|\\\\\\\\){0,4}", 0..6)) {
            let text = format!("{{\"a\":\"{}\",\"b\":1}}", parts.concat());
            prop_assume!(json::scan_text(&text, Rules::checked()).is_ok());
            prop_assert_eq!(&value(&text)["b"], 1);
            prop_assert!(value(&text)["a"].is_string());
        }
    }
}
