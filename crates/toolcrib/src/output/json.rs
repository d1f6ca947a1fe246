//! JSON with line breaks: the same text, numbers and order as it came, safe for a terminal.

use std::fmt::Write;

use crate::text::is_steering;

/// Spaces per level.
const INDENT: usize = 2;

/// A checked JSON text, laid out over lines. Works on the text, so that no number is rounded.
pub(crate) fn pretty(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            push_visible(&mut out, c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line_break(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line_break(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line_break(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out.push('\n');
    out
}

/// A JSON text on one line, safe for a terminal.
pub(crate) fn visible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    json.chars().for_each(|c| push_visible(&mut out, c));
    out
}

/// A text as a JSON string.
pub(crate) fn string(text: &str) -> String {
    visible(&serde_json::Value::from(text).to_string())
}

/// JSON escapes only the control characters of ASCII itself; the other ones that steer a terminal become escapes here,
/// which mean the same.
fn push_visible(out: &mut String, c: char) {
    if !is_steering(c) {
        out.push(c);
        return;
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing into a text cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn line_break(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth * INDENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_usual_one() {
        for raw in [
            r#"{"a":[1,{"b":"c,{}[]:\" \\"}],"e":{},"f":[],"g":null}"#,
            r#" { "a" : [ 1 , true ] , "e" : { } } "#,
            "[]",
            "7",
            r#""text \u001b""#,
        ] {
            let value: serde_json::Value = serde_json::from_str(raw).unwrap();
            assert_eq!(pretty(raw), serde_json::to_string_pretty(&value).unwrap() + "\n", "{raw}");
        }
    }

    #[test]
    fn numbers_stay_exact_and_nothing_steers_the_terminal() {
        let raw = "{\"n\":123456789012345678901234567890,\"t\":\"\u{9b}2J\u{202e}\u{e0041}\u{7f}\"}";
        let text = pretty(raw);
        assert!(text.contains("123456789012345678901234567890"), "{text}");
        assert!(!text.replace('\n', "").chars().any(is_steering), "{text:?}");
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(raw).unwrap(), serde_json::from_str(&text).unwrap());
        assert_eq!(before["t"], after["t"]);
    }
}
