//! Values by their place: JSON pointers (RFC 6901) in which `*` stands for any one key or index.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The longest pointer, in bytes, and how many of a JSON text's levels are looked at.
pub const POINTER_MAX: usize = 256;
const DEPTH: usize = 64;

/// Why a text is no pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerError;

/// A place in a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    written: Box<str>,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Any,
    Key(Box<str>),
}

// === impl PointerError ===

impl fmt::Display for PointerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a JSON pointer such as `/customer/name` or `/items/*/key`")
    }
}

impl std::error::Error for PointerError {}

// === impl Pointer ===

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        let rest = text.strip_prefix('/').filter(|_| text.len() <= POINTER_MAX).ok_or(PointerError)?;
        let token = |token: &str| match token {
            "*" => Token::Any,
            key => Token::Key(key.replace("~1", "/").replace("~0", "~").into()),
        };
        Ok(Self { written: text.into(), tokens: rest.split('/').map(token).collect() })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Where the values are that any of these pointers names, in order. The text must be valid JSON.
pub fn values(text: &str, pointers: &[Pointer]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let open: Vec<&[Token]> = pointers.iter().map(|pointer| &pointer.tokens[..]).collect();
    if !open.is_empty() {
        Walk { bytes: text.as_bytes(), text, at: 0, found: &mut found }.value(&open, 0);
    }
    found
}

/// A place in the text on its way from the beginning to the end.
struct Walk<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    found: &'a mut Vec<Range<usize>>,
}

impl<'a> Walk<'a> {
    /// Goes over one value, of which `open` is what is still to come of the pointers.
    fn value(&mut self, open: &[&'a [Token]], depth: usize) {
        self.space();
        let start = self.at;
        let is_named = open.iter().any(|tokens| tokens.is_empty());
        let inner: &[&[Token]] = if is_named || depth >= DEPTH { &[] } else { open };
        match self.bytes.get(self.at) {
            Some(b'{') => self.members(inner, depth, true),
            Some(b'[') => self.members(inner, depth, false),
            Some(b'"') => drop(self.string()),
            Some(_) => {
                let rest = &self.bytes[self.at..];
                self.at += rest.iter().take_while(|byte| !b",]} \t\r\n".contains(byte)).count().max(1);
            }
            None => return,
        }
        if is_named {
            self.found.push(start..self.at);
        }
    }

    fn members(&mut self, open: &[&'a [Token]], depth: usize, has_keys: bool) {
        self.at += 1;
        let mut index = 0;
        loop {
            self.space();
            match self.bytes.get(self.at) {
                Some(b'}' | b']') => {
                    self.at += 1;
                    return;
                }
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                Some(_) => {}
                None => return,
            }
            let key = if has_keys { self.string() } else { index.to_string() };
            index += 1;
            if has_keys {
                self.space();
                self.at += usize::from(self.bytes.get(self.at) == Some(&b':'));
            }
            let fits = |tokens: &&&'a [Token]| match tokens.first() {
                Some(Token::Any) => true,
                Some(Token::Key(wanted)) => **wanted == *key,
                None => false,
            };
            let next: Vec<&[Token]> = open.iter().filter(fits).map(|tokens| &tokens[1..]).collect();
            self.value(&next, depth + 1);
        }
    }

    /// A string without its escapes.
    fn string(&mut self) -> String {
        if self.bytes.get(self.at) != Some(&b'"') {
            // No JSON: it goes on with the next byte.
            self.at += 1;
            return String::new();
        }
        let start = self.at + 1;
        let mut end = start;
        while let Some(byte) = self.bytes.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        let end = end.min(self.bytes.len());
        self.at = (end + 1).min(self.bytes.len());
        let mut decoded = String::new();
        crate::json::decode(self.text.get(start..end).unwrap_or_default(), &mut decoded);
        decoded
    }

    fn space(&mut self) {
        self.at +=
            self.bytes[self.at.min(self.bytes.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found<'t>(text: &'t str, pointers: &[&str]) -> Vec<&'t str> {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| text.parse().unwrap()).collect();
        values(text, &pointers).into_iter().map(|at| &text[at]).collect()
    }

    #[test]
    fn values_are_found_by_their_place() {
        let text = r#"{"a": {"b/c": [1, {"d": "x"}, 3], "~": null}, "\u0061b": true, "a b": "ü"}"#;
        for (pointers, expected) in [
            (&["/a/b~1c/1/d"][..], vec![r#""x""#]),
            (&["/a/*/1"], vec![r#"{"d": "x"}"#]),
            (&["/a/b~1c/*"], vec!["1", r#"{"d": "x"}"#, "3"]),
            (&["/a/~0", "/ab", "/a b"], vec!["null", "true", r#""ü""#]),
            (&["/a", "/a/~0"], vec![r#"{"b/c": [1, {"d": "x"}, 3], "~": null}"#]),
            (&["/x", "/a/b~1c/3", "/a/b~1c/1/d/0"], vec![]),
        ] {
            assert_eq!(found(text, pointers), expected, "{pointers:?}");
        }
        assert_eq!(found("[1, 2]", &["/1"]), ["2"]);
        for wrong in ["", "a", &"/a".repeat(POINTER_MAX)] {
            assert_eq!(wrong.parse::<Pointer>(), Err(PointerError));
        }
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(text in ".{0,80}", cut in 0_usize..80) {
            let pointers = ["/a/*".parse().unwrap(), "/*/*/b".parse().unwrap()];
            let text = format!("{{\"a\": [{text}");
            let text: String = text.chars().take(cut).collect();
            let _ = values(&text, &pointers);
        }
    }
}
