//! The forms in which a value is passed on: as it is, and as others write it.

use std::fmt::Write;

/// One way of writing a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is; within JSON with the escapes that JSON needs.
    Plain,
    /// Base64 in both alphabets, also as a part of something longer.
    Base64,
    /// Hexadecimal digits, in either case.
    Hex,
    /// Percent signs before what URLs do not take, with digits in either case.
    Percent,
    /// Every character as `\u` and four digits.
    Unicode,
    /// Numeric and named character references of HTML.
    Html,
    /// From its end to its beginning.
    Reversed,
}

/// Several of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encodings(&'static [Encoding]);

pub(crate) const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// === impl Encodings ===

impl Encodings {
    /// What programs do to a value when they pass it on.
    pub const USUAL: Self = Self(&[Encoding::Plain, Encoding::Base64, Encoding::Hex, Encoding::Percent]);
    /// The same, and what someone does who wants it not to be found.
    pub const ALL: Self = Self(&[
        Encoding::Plain,
        Encoding::Base64,
        Encoding::Hex,
        Encoding::Percent,
        Encoding::Unicode,
        Encoding::Html,
        Encoding::Reversed,
    ]);

    /// How a value may be written, each form once.
    pub(crate) fn forms(self, value: &str) -> Vec<String> {
        let mut forms: Vec<String> = self.0.iter().flat_map(|encoding| encoding.forms(value)).collect();
        forms.sort();
        forms.dedup();
        forms
    }
}

impl Encoding {
    fn forms(self, value: &str) -> Vec<String> {
        match self {
            Self::Plain => {
                let escaped = in_json(value);
                // What JSON escapes never stands in it as it is.
                if escaped == value { vec![escaped] } else { vec![escaped, value.to_owned()] }
            }
            Self::Base64 => {
                let of = |alphabet| (0..3).filter_map(move |offset| base64_within(value.as_bytes(), offset, alphabet));
                of(STANDARD).chain(of(URL)).collect()
            }
            Self::Hex => {
                let digits = value.bytes().fold(String::new(), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                });
                vec![digits.to_uppercase(), digits]
            }
            Self::Percent => {
                let percent = |upper: bool| {
                    value.bytes().fold(String::new(), |mut text, byte| {
                        let _ = match byte {
                            _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                                write!(text, "{}", byte as char)
                            }
                            _ if upper => write!(text, "%{byte:02X}"),
                            _ => write!(text, "%{byte:02x}"),
                        };
                        text
                    })
                };
                vec![percent(true), percent(false)]
            }
            Self::Unicode => {
                let escapes = |upper: bool| {
                    value.encode_utf16().fold(String::new(), |mut text, unit| {
                        let _ = if upper { write!(text, "\\u{unit:04X}") } else { write!(text, "\\u{unit:04x}") };
                        text
                    })
                };
                // In JSON that holds code the backslash is doubled.
                let both = [escapes(true), escapes(false)];
                both.iter().map(|text| text.replace('\\', "\\\\")).chain(both.clone()).collect()
            }
            Self::Html => {
                let numeric = |hex: bool| {
                    value.chars().fold(String::new(), |mut text, c| {
                        let _ = if hex { write!(text, "&#x{:x};", c as u32) } else { write!(text, "&#{};", c as u32) };
                        text
                    })
                };
                let named = value
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;")
                    .replace('"', "&quot;")
                    .replace('\'', "&#39;");
                vec![numeric(false), numeric(true), named]
            }
            Self::Reversed => vec![value.chars().rev().collect()],
        }
    }
}

/// A text as it stands in JSON, with no escape that is not needed.
fn in_json(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
        out
    })
}

/// The characters of base64 that `value` alone decides where `offset` other bytes, modulo three, stand before it.
pub(crate) fn base64_within(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> Option<String> {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(value);
    let first = (offset * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    let digit = |index: usize| {
        let bit = index * 6;
        let pair = u16::from(bytes[bit / 8]) << 8 | u16::from(bytes.get(bit / 8 + 1).copied().unwrap_or(0));
        char::from(alphabet[usize::from(pair >> (10 - bit % 8) & 63)])
    };
    (first < end).then(|| (first..end).map(digit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_what_others_write() {
        let check = |encoding: Encoding, value: &str, expected: &[&str]| {
            let forms = encoding.forms(value);
            for form in expected {
                assert!(forms.iter().any(|it| it == form), "{encoding:?}: {form} is not in {forms:?}");
            }
        };
        check(Encoding::Plain, "a\"b\n", &["a\\\"b\\n"]);
        // "hunter2!", "xhunter2!" and "xxhunter2!" without what the x or an end decide.
        check(Encoding::Base64, "hunter2!", &["aHVudGVyMi", "h1bnRlcjIh", "odW50ZXIyI"]);
        check(Encoding::Base64, "??>>", &["Pz8+P", "Pz8-P"]);
        check(Encoding::Hex, "az~", &["617a7e", "617A7E"]);
        check(Encoding::Percent, "a/b c", &["a%2Fb%20c", "a%2fb%20c"]);
        check(Encoding::Unicode, "aö", &["\\u0061\\u00f6", "\\u0061\\u00F6", "\\\\u0061\\\\u00f6"]);
        check(Encoding::Html, "a<", &["&#97;&#60;", "&#x61;&#x3c;", "a&lt;"]);
        check(Encoding::Reversed, "abc", &["cba"]);
    }
}
