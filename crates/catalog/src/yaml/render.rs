//! Values as the text of a file that people read and change, and that reads back as the same values.

use serde_json::Value;

/// Lists of short texts up to this many characters stand on one line.
const LINE: usize = 100;

/// A value as a YAML document.
pub fn render(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => block(value, 0, &mut out),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        _ => {
            inline(value, &mut out);
            out.push('\n');
        }
    }
    out
}

/// The lines of a map or a list that is not empty.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                pad(indent, out);
                scalar(key, out);
                out.push(':');
                after(value, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                pad(indent, out);
                out.push('-');
                let is_map = item.as_object().is_some_and(|members| !members.is_empty());
                if is_map {
                    // The first key stands behind the dash.
                    let mut inner = String::new();
                    block(item, indent + 2, &mut inner);
                    out.push(' ');
                    out.push_str(inner.trim_start_matches(' '));
                } else {
                    after(item, indent, out);
                }
            }
        }
        other => inline(other, out),
    }
}

/// What stands behind a key or a dash, with the line's end.
fn after(value: &Value, indent: usize, out: &mut String) {
    let is_short = |items: &[Value]| {
        let lengths = items.iter().map(|item| item.as_str().map(|text| text.len() + 2));
        lengths.sum::<Option<usize>>().is_some_and(|sum| sum <= LINE)
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() && !is_short(items) => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::String(text) if is_prose(text) => {
            out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in text.lines() {
                if !line.is_empty() {
                    pad(indent + 2, out);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        _ => {
            out.push(' ');
            inline(value, out);
            out.push('\n');
        }
    }
}

/// Several lines that can stand as they are.
fn is_prose(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_plain = |line: &str| !line.ends_with(' ') && line.chars().all(is_visible);
    body.contains('\n') && !body.starts_with(['\n', ' ']) && !body.ends_with('\n') && body.split('\n').all(is_plain)
}

fn inline(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => scalar(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                inline(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                scalar(key, out);
                out.push_str(": ");
                inline(value, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A text that cannot be taken for anything else: without quotes where that is certain.
fn scalar(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_visible(c) => out.push(c),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
}

/// Letters and digits with what never means anything between them, and no word of YAML, old versions included.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ' | '@' | '(' | ')' | '+' | '=');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    begins
        && !text.ends_with(' ')
        // In a list on one line a dash between blanks is none of the text's to some readers.
        && !text.contains(" -")
        // A colon only as in an address.
        && text.replace("://", "").chars().all(fits)
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a character can stand in a file and be seen there.
fn is_visible(c: char) -> bool {
    let is_hidden = matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}');
    c == ' '
        || !c.is_control() && !c.is_whitespace() && !is_hidden && (c as u32) < 0xE000
        || ('\u{1F300}'..='\u{1FAFF}').contains(&c)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_single_values_are_documents_too() {
        assert_eq!(render(&json!([])), "[]\n");
        assert_eq!(render(&json!("x")), "x\n");
        assert_eq!(render(&json!([{"a": 1}, "two"])), "- a: 1\n- two\n");
    }

    #[test]
    fn odd_texts_are_quoted_and_nothing_of_them_reaches_a_terminal() {
        for (text, expected) in [
            ("\u{1b}[2J\n", "\"\\U0000001B[2J\\n\"\n"),
            ("\u{9b}", "\"\\U0000009B\"\n"),
            ("\u{e0041}", "\"\\U000E0041\"\n"),
            ("\u{202e}x", "\"\\U0000202Ex\"\n"),
            ("\\ude00", "\"\\\\ude00\"\n"),
            ("#c", "\"#c\"\n"),
            ("- x", "\"- x\"\n"),
            ("1e3", "\"1e3\"\n"),
            ("no", "\"no\"\n"),
            ("files/read", "files/read\n"),
            ("a ", "\"a \"\n"),
        ] {
            assert_eq!(render(&json!(text)), expected);
        }
    }
}
