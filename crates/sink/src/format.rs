//! Formats of entries, as pure functions. Whatever a value contains, it stays one value on one line, and what a format
//! writes has a bound.
//!
//! To add one, write `format/<name>.rs` with a function of an [`Entry`], and a variant of [`Format`].

mod cef;
mod json;
mod otlp;
mod syslog;

use crate::Entry;

pub use cef::{CEF_MAX, cef};
pub use json::json_line;
pub use otlp::{Resource, otlp_request};
pub use syslog::{MESSAGE_MAX, Origin, SyslogBody, framed, syslog};

/// The longest value of a field in a format that cuts, in bytes. The log itself keeps none that is longer, arguments
/// with all their escapes included; what has more was written by someone else.
pub const VALUE_MAX: usize = 4_096;

/// A format that whole lines are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON Lines: an object for each entry.
    Jsonl,
    /// The Common Event Format of ArcSight, version 0, without a header of syslog.
    Cef,
    /// A request of OTLP for each entry, as the file exporter of OpenTelemetry writes them.
    Otlp,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Jsonl, Self::Cef, Self::Otlp];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Cef => "cef",
            Self::Otlp => "otlp",
        }
    }

    /// The format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// The line of an entry, without its end.
    pub fn line(self, entry: &Entry, resource: &Resource) -> String {
        match self {
            Self::Jsonl => json_line(entry),
            Self::Cef => cef(entry),
            Self::Otlp => otlp_request(std::slice::from_ref(entry), resource),
        }
    }
}

/// The text of a value: a text as it is, anything else as JSON.
fn value_text(value: &serde_json::Value) -> std::borrow::Cow<'_, str> {
    match value {
        serde_json::Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

/// The beginning of a text, `most` bytes at most, with a mark where something is missing.
fn cut(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    const MARK: &str = "…";
    if text.len() <= most {
        return text.into();
    }
    let mut end = most.saturating_sub(MARK.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &text[..end]).into()
}

/// Characters that end a line for some reader, or steer a terminal.
fn is_unsafe(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// `args_hash` as `argsHash`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_next_upper = false;
    for character in name.chars().filter(|character| character.is_ascii_alphanumeric() || *character == '_') {
        match character {
            '_' => is_next_upper = true,
            _ if std::mem::take(&mut is_next_upper) => text.push(character.to_ascii_uppercase()),
            _ => text.push(character),
        }
    }
    text
}
