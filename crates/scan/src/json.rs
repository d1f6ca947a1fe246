//! Looking into JSON: what is written with escapes is found too, and what was found is replaced so that the text stays
//! the same JSON otherwise, byte for byte. The text must be valid JSON; of any other the result is some text.

use std::ops::Range;

use crate::scanner::{Finding, Hit, Scanner, merged};

/// What of a string is decoded to be looked at; what is longer is looked at as it is written.
const DECODED: usize = 1 << 20;

/// All hits in a JSON text, in the order of their places. A string that hides something behind escapes that it need not
/// have is one hit as a whole.
pub fn scan(scanner: &Scanner, text: &str) -> Vec<Hit> {
    let bytes = text.as_bytes();
    let mut hits = scanner.scan(text);
    // What begins behind half an escape is no such text.
    hits.retain(|hit| !is_escaped(bytes, hit.at.start));
    if has_needless_escape(bytes) {
        let mut decoded = String::new();
        for at in strings(bytes) {
            if at.len() > DECODED || !has_needless_escape(&bytes[at.clone()]) {
                continue;
            }
            decode(&text[at.clone()], &mut decoded);
            let found = scanner.scan(&decoded);
            hits.extend(found.first().map(|hit| Hit { at, what: hit.what }));
        }
    }
    merged(hits)
}

/// The text with every hit replaced: a part of a string by a word in brackets, any other value as a whole by a string.
pub fn redact(text: &str, hits: &[Hit], name: impl Fn(Finding) -> String) -> String {
    let bytes = text.as_bytes();
    let spans: Vec<Range<usize>> = strings(bytes).collect();
    let mut out = String::with_capacity(text.len());
    let (mut done, mut number) = (0, 0);
    for hit in hits {
        if hit.at.start < done {
            continue;
        }
        number += 1;
        // Numbered, so that two keys of an object do not become one.
        let word = format!("[redacted:{}#{number}]", name(hit.what));
        let at = spans.partition_point(|span| span.end < hit.at.end);
        let within = spans.get(at).filter(|span| span.start <= hit.at.start && hit.at.end <= span.end);
        let (start, end, word) = match within {
            Some(_) => (hit.at.start, hit.at.end, word),
            None => {
                let (start, end) = scalar(bytes, &hit.at);
                (start, end, format!("\"{word}\""))
            }
        };
        if start < done {
            continue;
        }
        out.push_str(&text[done..start]);
        out.push_str(&word);
        done = end;
    }
    out.push_str(&text[done..]);
    out
}

/// The insides of all strings, keys among them.
fn strings(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', bytes.get(at..)?)? + 1;
        let mut end = start;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            match bytes[end] {
                b'"' => break,
                _ => end += 2,
            }
        }
        at = end + 1;
        Some(start..end)
    })
}

/// The number or word around a place, as far as a value goes.
fn scalar(bytes: &[u8], at: &Range<usize>) -> (usize, usize) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let before = bytes[..at.start].iter().rev().take_while(|byte| is_part(byte)).count();
    let after = bytes[at.end..].iter().take_while(|byte| is_part(byte)).count();
    (at.start - before, at.end + after)
}

/// Whether a byte is the second one of an escape.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Whether there is an escape that a writer of JSON may leave out: of a slash, or of a character of ASCII by its number.
fn has_needless_escape(bytes: &[u8]) -> bool {
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', &bytes[at..]) {
        at += next;
        match &bytes[at + 1..] {
            [b'/', ..] | [b'u', b'0', b'0', b'2'..=b'7', ..] => return true,
            _ => at = (at + 2).min(bytes.len()),
        }
    }
    false
}

/// The inside of a string without its escapes. Halves of surrogate pairs are left out.
pub(crate) fn decode(text: &str, out: &mut String) {
    out.clear();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        let c = chars.next();
        rest = chars.as_str();
        match c {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits = rest.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                if let Some(code) = digits {
                    rest = &rest[4..];
                    out.extend(char::from_u32(code));
                }
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Encodings;

    const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

    fn scanner() -> Scanner {
        let builder = Scanner::builder().formats();
        let builder = builder.value("vault:pass", "pass\"word/1", Encodings::USUAL);
        builder.value("vault:pin", "123456789012", Encodings::USUAL).build()
    }

    fn redacted(text: &str) -> String {
        let scanner = scanner();
        redact(text, &scan(&scanner, text), |found| scanner.name_of(found).to_owned())
    }

    #[test]
    fn what_is_found_is_replaced_and_everything_else_stays() {
        for (text, expected) in [
            (
                format!(r#"{{ "a" : "x {TOKEN}\n", "b":1.0e2 }}"#),
                r#"{ "a" : "x [redacted:github-token#1]\n", "b":1.0e2 }"#,
            ),
            (format!(r#"["\n{TOKEN}","{TOKEN}"]"#), r#"["\n[redacted:github-token#1]","[redacted:github-token#2]"]"#),
            (r#"{"p":"pass\"word/1"}"#.to_owned(), r#"{"p":"[redacted:vault:pass#1]"}"#),
            (r#"{"p":"pass\"word\/1 and"}"#.to_owned(), r#"{"p":"[redacted:vault:pass#1]"}"#),
            (r#"{"p":"\u0070ass\u0022word/1"}"#.to_owned(), r#"{"p":"[redacted:vault:pass#1]"}"#),
            (
                r#"{"p":-123456789012.5,"q":[123456789012]}"#.to_owned(),
                r#"{"p":"[redacted:vault:pin#1]","q":["[redacted:vault:pin#2]"]}"#,
            ),
            (
                format!(r#"{{"{TOKEN}":1,"{TOKEN}":2}}"#),
                r#"{"[redacted:github-token#1]":1,"[redacted:github-token#2]":2}"#,
            ),
            (r#"{"a":"b\\","c":"\u00e9 \u003cx\u003e"}"#.to_owned(), r#"{"a":"b\\","c":"\u00e9 \u003cx\u003e"}"#),
        ] {
            assert_eq!(redacted(&text), expected);
        }
    }

    #[test]
    fn what_begins_with_half_an_escape_is_no_hit() {
        let scanner = Scanner::builder().value("v", "needle-12", Encodings::USUAL).build();
        assert_eq!(scan(&scanner, r#"{"a":"\needle-12"}"#), []);
        assert_eq!(scan(&scanner, r#"{"a":"\\needle-12"}"#).len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(text in ".{0,120}", end in 0_usize..120) {
            let text: String = text.chars().take(end).collect();
            let _ = redacted(&text);
            let _ = redacted(&format!("{{\"a\":\"{text}\\u00"));
        }
    }
}
