//! JSON values as YAML, for definitions that are written on request: block style, every text that YAML could take for
//! something else in quotes.

use serde_json::Value;

/// Spaces per level.
const INDENT: usize = 2;

/// A value as a YAML document.
pub(crate) fn render(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => block(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut out, value, 0),
        scalar => out = inline(scalar) + "\n",
    }
    out
}

/// Writes a value of several lines; the cursor stands where the first begins.
fn block(out: &mut String, value: &Value, depth: usize) {
    let empty = serde_json::Map::new();
    let members = value.as_object().unwrap_or(&empty);
    for (index, (key, member)) in members.iter().enumerate() {
        indent(out, depth, index);
        out.push_str(&text(key));
        out.push(':');
        if is_block(member) {
            out.push('\n');
            out.push_str(&" ".repeat((depth + 1) * INDENT));
            block(out, member, depth + 1);
        } else {
            out.push_str(&format!(" {}\n", inline(member)));
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        indent(out, depth, index);
        out.push_str("- ");
        if is_block(item) {
            block(out, item, depth + 1);
        } else {
            out.push_str(&(inline(item) + "\n"));
        }
    }
}

/// The first entry continues the line that its parent began.
fn indent(out: &mut String, depth: usize, index: usize) {
    if index > 0 {
        out.push_str(&" ".repeat(depth * INDENT));
    }
}

/// Whether a value needs lines of its own; lists of plain values fit into one.
fn is_block(value: &Value) -> bool {
    let is_inner = |value: &Value| value.is_object() || value.is_array();
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => items.iter().any(is_inner),
        _ => false,
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(words) => text(words),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A text, plain where no reader of any YAML version can take it for something else.
fn text(words: &str) -> String {
    const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];
    let is_plain = words.starts_with(|c: char| c.is_ascii_alphabetic())
        && words.chars().all(|c| c.is_ascii_alphanumeric() || " _-./".contains(c))
        && !words.ends_with(' ')
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(words))
        && words.parse::<f64>().is_err();
    if is_plain {
        return words.to_owned();
    }
    let mut out = String::from('"');
    for c in words.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_unseen(c) => out.push_str(&format!("\\U{:08x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Line ends that only YAML knows, and characters that hide or turn a line around.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::problem::Sink;
    use crate::reader::Cursor;
    use crate::tree;

    #[test]
    fn what_is_written_reads_as_it_was() {
        let value = json!({
            "name": "files", "args": ["-y", "@scope/x", "", "a: b", "#c", "1", "no", " x ", "a\nb", "\u{85}\u{2028}ä\u{1f600}"],
            "env": { "KEY": "env:KEY", "on": "true" }, "timeouts": { "call": "1m" },
            "tools": [{ "name": "t", "inputSchema": { "type": "object", "properties": {}, "required": [] } }, { "n": [[1, 2.5], []] }],
            "flag": true, "none": null, "\"odd\\key": { "deep": { "er": [] } },
        });
        let sink = Sink::new(Path::new("x"));
        let text = render(&value);
        let root = tree::parse(&text, &sink).unwrap();
        let read: Value = serde_json::from_str(&Cursor::root(&root, &sink).json().unwrap()).unwrap();
        assert_eq!(read, value, "{text}");
        assert!(sink.finish().is_empty());
        assert!(text.starts_with("name: files\nargs: [\"-y\", \"@scope/x\", \"\""), "{text}");
    }
}
