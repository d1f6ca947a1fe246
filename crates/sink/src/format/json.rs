//! JSON Lines: the object that `toolcrib audit list -o json` shows, on one line.

use serde_json::Value;

use crate::Entry;

/// The object of an entry, without a line's end.
pub fn json_line(entry: &Entry) -> String {
    one_line(Value::Object(entry.fields.clone()).to_string())
}

/// JSON without characters that some readers take for a line's end.
pub(super) fn one_line(text: String) -> String {
    // JSON escapes what is below a space. These stand only in strings, where an escape means the same.
    if !text.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
