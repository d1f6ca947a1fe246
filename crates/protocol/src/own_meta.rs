//! The keys of `_meta` that only the gateway itself may set: taken out of whatever a server sends, wherever in it they
//! stand, so that what is read from such a key was written here.

use crate::json;
use crate::raw::Raw;

pub use crate::json::OWN;

/// The kind of a problem that the gateway reports in a result, by its stable name.
pub const ERROR: &str = "toolcrib/error";

/// The value without our own keys in any `_meta`. It is read to its end and copied: the scanner knows which value may
/// have one.
pub(crate) fn stripped(raw: Raw) -> Raw {
    let bytes = raw.bytes();
    let mut walk = Walk { text: raw.as_str(), at: 0, out: String::with_capacity(bytes.len()), found: false };
    walk.value(false);
    match walk.found {
        true => Raw::trusted(walk.out),
        false => raw,
    }
}

/// Copies a checked text, in one pass, and leaves out what is ours.
struct Walk<'t> {
    text: &'t str,
    at: usize,
    out: String,
    found: bool,
}

impl<'t> Walk<'t> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    /// No deeper than the text was allowed to be when it was checked.
    fn value(&mut self, is_meta: bool) {
        match self.peek() {
            Some(b'{') => self.object(is_meta),
            Some(b'[') => self.array(),
            Some(b'"') => {
                let text = self.string();
                self.out.push_str(text);
            }
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| matches!(c, ',' | '}' | ']') || c.is_ascii_whitespace());
                let scalar = &rest[..end.unwrap_or(rest.len())];
                self.at += scalar.len();
                self.out.push_str(scalar);
            }
        }
    }

    fn array(&mut self) {
        self.at += 1;
        self.out.push('[');
        while let Some(byte) = self.peek() {
            match byte {
                b']' => break,
                b',' => {
                    self.at += 1;
                    self.out.push(',');
                }
                _ => self.value(false),
            }
        }
        self.at += 1;
        self.out.push(']');
    }

    fn object(&mut self, is_meta: bool) {
        self.at += 1;
        self.out.push('{');
        let mut is_first = true;
        while let Some(byte) = self.peek() {
            if byte == b'}' {
                break;
            }
            if byte == b',' {
                self.at += 1;
                continue;
            }
            let before = self.out.len();
            if !is_first {
                self.out.push(',');
            }
            let key = self.string();
            self.out.push_str(key);
            if self.peek() == Some(b':') {
                self.at += 1;
            }
            self.out.push(':');
            let name = json::text(key).unwrap_or_default();
            self.value(name == "_meta");
            if is_meta && name.starts_with(OWN) {
                self.out.truncate(before);
                self.found = true;
            } else {
                is_first = false;
            }
        }
        self.at += 1;
        self.out.push('}');
    }

    /// The string that begins here, with its quotes.
    fn string(&mut self) -> &'t str {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        while let Some(offset) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            at += offset;
            if bytes[at] == b'"' {
                break;
            }
            at += 2;
        }
        self.at = (at + 1).min(bytes.len());
        &self.text[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn check(text: &str, expect: &str) {
        let raw = Raw::parse(text.to_owned().into(), json::Rules::relayed(64)).unwrap();
        assert_eq!(stripped(raw).as_str(), expect, "{text}");
    }

    #[test]
    fn our_own_keys_are_taken_out_of_every_meta() {
        for (text, expect) in [
            (r#"{"_meta":{"toolcrib/error":"forbidden"}}"#, r#"{"_meta":{}}"#),
            (
                r#"{"_meta": {"a":1, "toolcrib/error" : {"x":[1,{}]} , "b":2},"c":[]}"#,
                r#"{"_meta":{"a":1,"b":2},"c":[]}"#,
            ),
            (r#"{"_meta":{"toolcrib/a":1,"toolcrib/b":2,"c":3}}"#, r#"{"_meta":{"c":3}}"#),
            (r#"{"_meta":{"c":3,"toolcrib/a":1,"toolcrib/b":2}}"#, r#"{"_meta":{"c":3}}"#),
            (r#"{"content":[{"_meta":{"toolcrib/x":1},"text":"}"}]}"#, r#"{"content":[{"_meta":{},"text":"}"}]}"#),
            (r#"{"data":{"_meta":{"k":{"_meta":{"toolcrib/x":1}}}}}"#, r#"{"data":{"_meta":{"k":{"_meta":{}}}}}"#),
            (r#"{"_meta":{"toolcri\u0062/error":1}}"#, r#"{"_meta":{}}"#),
            (r#"{"_meta":{"toolcrib\/error":1}}"#, r#"{"_meta":{}}"#),
            (r#"{"\u005fmeta":{"toolcrib/error":1}}"#, r#"{"\u005fmeta":{}}"#),
            (
                r#"{"_meta":{"toolcrib/error":1},"_meta2":{"toolcrib/error":1}}"#,
                r#"{"_meta":{},"_meta2":{"toolcrib/error":1}}"#,
            ),
            // What is none of them stays, byte for byte.
            (r#"{ "toolcrib/error" : 1.0 }"#, r#"{ "toolcrib/error" : 1.0 }"#),
            (r#"{"_meta": {"x.toolcrib/error": 1 }}"#, r#"{"_meta": {"x.toolcrib/error": 1 }}"#),
            (r#"{"text": "{\"_meta\":{\"toolcrib/error\":1}}"}"#, r#"{"text": "{\"_meta\":{\"toolcrib/error\":1}}"}"#),
            (r#"{"_meta": ["toolcrib/error"]}"#, r#"{"_meta": ["toolcrib/error"]}"#),
        ] {
            check(text, expect);
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_gone_twice() {
        let text = r#"{"_meta":{"toolcrib/error":1,"toolcrib/error":2},"_meta":{"toolcrib/error":3}}"#;
        let rules = json::Rules { unique: json::UniqueKeys::Nowhere, ..json::Rules::relayed(64) };
        assert_eq!(stripped(Raw::parse(text.into(), rules).unwrap()).as_str(), r#"{"_meta":{},"_meta":{}}"#);
    }

    fn value() -> impl Strategy<Value = Value> {
        let key = prop_oneof!["[a-c\"\\\\/]{0,3}", Just("_meta".to_owned()), "toolcrib/[a-b]"];
        let leaf =
            prop_oneof![Just(json!(null)), any::<i32>().prop_map(Value::from), key.clone().prop_map(Value::from)];
        leaf.prop_recursive(5, 60, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The same, done on the tree.
    fn expected(value: &mut Value, is_meta: bool) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| expected(item, false)),
            Value::Object(members) => {
                if is_meta {
                    members.retain(|key, _| !key.starts_with(OWN));
                }
                members.iter_mut().for_each(|(key, value)| expected(value, key == "_meta"));
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn nothing_else_is_changed(mut value in value()) {
            let after = stripped(Raw::from_value(&value));
            expected(&mut value, false);
            prop_assert_eq!(after.to_value(), value);
        }
    }
}
