//! JSON values as YAML: block style; every text that YAML could take for something else is quoted.

use serde_json::Value;

use super::json;

/// Spaces per level.
const INDENT: usize = 2;

/// A value as a YAML document.
pub(crate) fn render(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => write(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => write(&mut out, value, 0),
        scalar => out.push_str(&(scalar_text(scalar) + "\n")),
    }
    out
}

/// Writes a value of several lines; the cursor stands where the first begins.
fn write(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) => {
            for (index, (key, member)) in members.iter().enumerate() {
                indent(out, depth, index);
                out.push_str(&text(key));
                out.push(':');
                match member {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', (depth + 1) * INDENT));
                        write(out, member, depth + 1);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', depth * INDENT));
                        write(out, member, depth);
                    }
                    scalar => out.push_str(&format!(" {}\n", scalar_text(scalar))),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                indent(out, depth, index);
                out.push_str("- ");
                match item {
                    Value::Object(inner) if !inner.is_empty() => write(out, item, depth + 1),
                    Value::Array(inner) if !inner.is_empty() => write(out, item, depth + 1),
                    scalar => out.push_str(&(scalar_text(scalar) + "\n")),
                }
            }
        }
        scalar => out.push_str(&(scalar_text(scalar) + "\n")),
    }
}

/// The first entry continues the line that its parent began.
fn indent(out: &mut String, depth: usize, index: usize) {
    if index > 0 {
        out.extend(std::iter::repeat_n(' ', depth * INDENT));
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(words) => text(words),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

/// A text, plain where no reader of any YAML version can take it for something else.
fn text(words: &str) -> String {
    let is_plain = words.starts_with(|c: char| c.is_ascii_alphabetic())
        && words.chars().all(|c| c.is_ascii_alphanumeric() || " _-./".contains(c))
        && !words.ends_with(' ')
        && !is_word_of_yaml(words);
    if is_plain {
        return words.to_owned();
    }
    // A JSON string is a double-quoted YAML one, except that YAML knows no surrogate pairs.
    let quoted = json::string(words);
    let mut out = String::with_capacity(quoted.len());
    let mut rest = quoted.as_str();
    while let Some(at) = rest.find("\\ud") {
        // An escape of a backslash that stands before `ud` is no surrogate.
        let backslashes = rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        let pair = (backslashes % 2 == 0).then(|| pair(&rest[at..])).flatten();
        out.push_str(&rest[..at]);
        let taken = if let Some(c) = pair {
            out.push_str(&format!("\\U{:08x}", u32::from(c)));
            12
        } else {
            out.push_str(&rest[at..at + 1]);
            1
        };
        rest = &rest[at + taken..];
    }
    out + rest
}

/// The character of `\ud83d\ude00` at the beginning of a text.
fn pair(text: &str) -> Option<char> {
    let unit = |from: usize| u16::from_str_radix(text.get(from..from + 4)?, 16).ok();
    let units = [unit(2)?, unit(8)?];
    char::decode_utf16(units).next()?.ok()
}

fn is_word_of_yaml(words: &str) -> bool {
    const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(words)) || words.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_look_like_yaml() {
        let value = json!({
            "total": 2,
            "tools": [{"name": "a b", "tags": ["x", "no", "1", ""], "on": true}, {"name": "c: d", "inner": {"k": {}}}],
            "nested": [[1, 2], []],
            "none": null
        });
        let expected = "\
total: 2
tools:
- name: a b
  tags:
  - x
  - \"no\"
  - \"1\"
  - \"\"
  \"on\": true
- name: \"c: d\"
  inner:
    k: {}
nested:
- - 1
  - 2
- []
none: null
";
        assert_eq!(render(&value), expected);
        assert_eq!(render(&json!([])), "[]\n");
        assert_eq!(render(&json!("x")), "x\n");
    }

    #[test]
    fn odd_texts_are_quoted() {
        for (words, expected) in [
            ("a\nb", r#""a\nb""#),
            ("\u{1b}[2J", r#""\u001b[2J""#),
            ("\u{9b}", r#""\u009b""#),
            ("\u{e0041}", r#""\U000e0041""#),
            ("\\ude00", r#""\\ude00""#),
            ("#c", "\"#c\""),
            ("- x", "\"- x\""),
            ("Infinity", "\"Infinity\""),
            ("files/read", "files/read"),
            ("a ", "\"a \""),
        ] {
            assert_eq!(text(words), expected, "{words:?}");
        }
    }
}
