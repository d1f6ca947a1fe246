//! The Common Event Format, version 0: a header of seven fields between bars, and an extension of `key=value`.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{VALUE_MAX, camel_case, cut, is_unsafe, value_text};
use crate::Entry;
use crate::entry::Severity;

/// What a line of CEF has at most, in bytes.
pub const CEF_MAX: usize = 64 * 1024;

/// The longest field of the header, in bytes; the format allows 512 for the name.
const HEADER_MAX: usize = 255;

/// What values are cut to, one after the other, until a line fits.
pub(super) const CUTS: [usize; 4] = [VALUE_MAX, 512, 128, 16];

/// How many fields without a key of their own a line has at most, and how long their names are: more than rows have,
/// and so few that the last cut always fits.
const FIELDS_MAX: usize = 40;
const NAME_MAX: usize = 32;

/// Fields of a row that the dictionary of CEF has a key for, in the order in which they are written.
const KEYS: [(&str, &str); 9] = [
    ("seq", "externalId"),
    ("principal", "suser"),
    ("door", "app"),
    ("outcome", "outcome"),
    ("target", "cs1"),
    ("profile", "cs2"),
    ("session", "cs3"),
    ("guard", "cs4"),
    ("duration_us", "cn1"),
];

/// What the custom ones among them mean.
const LABELS: [(&str, &str); 5] =
    [("cs1", "target"), ("cs2", "profile"), ("cs3", "session"), ("cs4", "guard"), ("cn1", "durationMicroseconds")];

/// A line of CEF, without its end, of at most [`CEF_MAX`] bytes.
pub fn cef(entry: &Entry) -> String {
    cef_within(entry, CEF_MAX)
}

/// A line of at most `most` bytes, at least 6 KiB; its longest values are cut for that.
pub(super) fn cef_within(entry: &Entry, most: usize) -> String {
    let mut line = String::new();
    for values in CUTS {
        line = cef_cut(entry, values);
        if line.len() <= most {
            break;
        }
    }
    line
}

fn cef_cut(entry: &Entry, most: usize) -> String {
    let severity = match entry.severity() {
        Severity::Info => 3,
        Severity::Notice => 5,
        Severity::Warning => 7,
    };
    let most_of_header = most.min(HEADER_MAX);
    let method = header(entry.method(), most_of_header);
    let name = header(&format!("{} {}", entry.method(), entry.outcome()), most_of_header);
    let version = env!("CARGO_PKG_VERSION");
    let mut line = format!("CEF:0|Toolcrib|toolcrib|{version}|{method}|{name}|{severity}|");
    let mut extension = Extension { line: &mut line, most, is_first: true };
    extension.pair("rt", &entry.at.0.to_string());
    for (field, key) in KEYS {
        let Some(value) = entry.fields.get(field) else { continue };
        extension.pair(key, &value_text(value));
        if let Some((_, label)) = LABELS.iter().find(|(labelled, _)| *labelled == key) {
            extension.pair(&format!("{key}Label"), label);
        }
    }
    if let Some((act, reason)) = entry.text("decision").and_then(|decision| decision.split_once(':')) {
        extension.pair("act", act);
        extension.pair("reason", reason);
    }
    match entry.text("address").map(str::parse) {
        Some(Ok(IpAddr::V4(address))) => extension.pair("src", &address.to_string()),
        Some(Ok(IpAddr::V6(address))) => {
            extension.pair("c6a2", &address.to_string());
            extension.pair("c6a2Label", "Source IPv6 Address");
        }
        _ => {}
    }
    let rest = entry.fields.iter().filter(|(field, _)| !is_mapped(field));
    for (field, value) in rest.take(FIELDS_MAX) {
        let key = camel_case(&format!("toolcrib_{}", cut(field, NAME_MAX)));
        extension.pair(&key, &value_text(value));
    }
    line
}

/// Whether a field has a place of its own.
fn is_mapped(field: &str) -> bool {
    matches!(field, "at" | "method" | "decision" | "address") || KEYS.iter().any(|(known, _)| *known == field)
}

/// The part behind the header.
struct Extension<'a> {
    line: &'a mut String,
    most: usize,
    is_first: bool,
}

impl Extension<'_> {
    fn pair(&mut self, key: &str, value: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.line.push(' ');
        }
        // A text takes what is written to it.
        let _ = write!(self.line, "{key}=");
        for character in cut(value, self.most).chars() {
            match character {
                '\\' => self.line.push_str("\\\\"),
                '=' => self.line.push_str("\\="),
                '\n' => self.line.push_str("\\n"),
                '\r' => self.line.push_str("\\r"),
                character if is_unsafe(character) => self.line.push(char::REPLACEMENT_CHARACTER),
                character => self.line.push(character),
            }
        }
    }
}

/// A field of the header, which has no line ends.
fn header(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for character in cut(text, most).chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '|' => out.push_str("\\|"),
            character if is_unsafe(character) => out.push(' '),
            character => out.push(character),
        }
    }
    out
}
