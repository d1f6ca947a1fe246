//! JSON as a tree that keeps every digit of a number and the order of keys: what forms read and write. A number never
//! passes through a float.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;

use crate::text::is_invisible;

mod parse;
mod reference;

pub use reference::{is_local, pointed};

/// Deepest nesting that is read, as that of `serde_json`.
pub const MAX_DEPTH: usize = 128;

/// A JSON value. To clone one costs a counter.
#[derive(Debug, Clone)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, digit by digit as it was written.
    Number(Arc<str>),
    /// A string.
    Text(Arc<str>),
    /// An array.
    List(Arc<[Json]>),
    /// An object: its entries in their order, each key once.
    Object(Arc<[(Arc<str>, Json)]>),
}

/// Why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: &'static str,
}

// === impl JsonError ===

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for JsonError {}

// === impl Json ===

impl Json {
    /// Reads a text.
    ///
    /// ```
    /// use toolcrib_ui::json::Json;
    ///
    /// let value = Json::parse(r#"{"id": 12345678901234567890123, "x": 1.50}"#).unwrap();
    /// assert_eq!(value.to_string(), r#"{"id":12345678901234567890123,"x":1.50}"#);
    /// ```
    ///
    /// # Errors
    /// Where the text stops being JSON, or nests deeper than [`MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        parse::parse(text)
    }

    /// The same value. Numbers beyond 64 bits have lost digits before they come here; read the text instead.
    pub fn of(value: &Value) -> Self {
        Self::of_at(value, 0)
    }

    fn of_at(value: &Value, depth: usize) -> Self {
        match value {
            _ if depth > 2 * MAX_DEPTH => Self::Bool(true),
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.to_string().into()),
            Value::String(text) => Self::text(text),
            Value::Array(items) => Self::List(items.iter().map(|item| Self::of_at(item, depth + 1)).collect()),
            Value::Object(entries) => Self::Object(
                entries.iter().map(|(key, value)| (Arc::from(key.as_str()), Self::of_at(value, depth + 1))).collect(),
            ),
        }
    }

    /// A string.
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// An object of entries; of equal keys the last counts, at the place of the first.
    pub fn object(entries: Vec<(Arc<str>, Self)>) -> Self {
        let mut places = HashMap::with_capacity(entries.len());
        let mut out: Vec<(Arc<str>, Self)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match places.get(&key) {
                Some(place) => {
                    let entry: &mut (Arc<str>, Self) = &mut out[*place];
                    entry.1 = value;
                }
                None => {
                    places.insert(Arc::clone(&key), out.len());
                    out.push((key, value));
                }
            }
        }
        Self::Object(out.into())
    }

    /// The value of a key, if it is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// Whether it is a schema of a secret, or of something that has one.
    pub fn holds_secret(&self) -> bool {
        match self {
            Self::Object(entries) => entries.iter().any(|(word, part)| match (&**word, part) {
                ("format", Self::Text(format)) => &**format == "password",
                ("writeOnly", Self::Bool(is_secret)) => *is_secret,
                (_, part) => part.holds_secret(),
            }),
            Self::List(items) => items.iter().any(Self::holds_secret),
            _ => false,
        }
    }

    /// Its entries; none if it is no object.
    pub fn entries(&self) -> &[(Arc<str>, Self)] {
        match self {
            Self::Object(entries) => entries,
            _ => &[],
        }
    }

    /// Its items; none if it is no array.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if it is a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The digits, if it is a number.
    pub fn as_number(&self) -> Option<&str> {
        match self {
            Self::Number(digits) => Some(digits),
            _ => None,
        }
    }

    /// A count, if it is a number that is one.
    pub fn as_count(&self) -> Option<usize> {
        self.as_number().and_then(|digits| digits.parse().ok())
    }

    /// Whether it is the same value: numbers digit by digit, keys in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::Number(one), Self::Number(two)) | (Self::Text(one), Self::Text(two)) => one == two,
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| one.is_same(two))
            }
            (Self::Object(one), Self::Object(two)) if one.len() == two.len() => {
                let others: HashMap<&str, &Self> = two.iter().map(|(key, value)| (&**key, value)).collect();
                one.iter().all(|(key, value)| others.get(&**key).is_some_and(|other| value.is_same(other)))
            }
            _ => false,
        }
    }

    /// What kind of value it is, with its article: `an object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Its text on several lines, indented by two blanks. Invisible characters are escaped.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    fn write(&self, out: &mut String, indent: Option<usize>) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(digits) => out.push_str(digits),
            Self::Text(text) => write_text(text, out),
            Self::List(items) => {
                write_all("[]", items, out, indent, Self::write);
            }
            Self::Object(entries) => write_all("{}", entries, out, indent, |(key, value), out, indent| {
                write_text(key, out);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                value.write(out, indent);
            }),
        }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(&mut out, None);
        f.write_str(&out)
    }
}

fn write_all<T>(
    brackets: &str,
    all: &[T],
    out: &mut String,
    indent: Option<usize>,
    write: impl Fn(&T, &mut String, Option<usize>),
) {
    out.push_str(&brackets[..1]);
    let inner = indent.map(|indent| indent + 1);
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        new_line(out, inner);
        write(one, out, inner);
    }
    if !all.is_empty() {
        new_line(out, indent);
    }
    out.push_str(&brackets[1..]);
}

fn new_line(out: &mut String, indent: Option<usize>) {
    if let Some(indent) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", indent));
    }
}

/// A JSON string. What a reader does not see is escaped, which is the same value and shows.
fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(character),
            _ if is_invisible(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_read_as_serde_json_reads_it(text in "[\\[\\]{},:\"\\\\ 0-9a-fenrtulsu.+-]{0,24}") {
            let expected = serde_json::from_str::<serde_json::Value>(&text);
            // An exponent that no float holds is a number here, and so are digits beyond its range.
            let is_out_of_range = expected.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            if !is_out_of_range {
                prop_assert_eq!(Json::parse(&text).is_ok(), expected.is_ok(), "{}", text);
            }
        }

        #[test]
        fn a_string_is_written_and_read_back(text in any::<String>()) {
            let value = Json::text(&text);
            for written in [value.to_string(), value.pretty()] {
                prop_assert!(Json::parse(&written).unwrap().is_same(&value));
                prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text.as_str());
                prop_assert!(written.chars().all(|character| !is_invisible(character)));
            }
        }
    }

    #[test]
    fn an_error_names_its_place() {
        let check = |text: &str, expected: &str| assert_eq!(Json::parse(text).unwrap_err().to_string(), expected);
        check("{\n  \"a\": }", "line 2, column 8: expected a value");
        check("[1, 2", "line 1, column 6: expected `,` or `]`");
        check("", "line 1, column 1: expected a value");
        check("{\"ü\" 1}", "line 1, column 6: expected `:`");
        check("\"\\ud800\"", "line 1, column 2: half of a surrogate pair");
        check(&"[".repeat(200), "line 1, column 129: nested too deeply");
        check("1 2", "line 1, column 3: expected the end");
    }
}
