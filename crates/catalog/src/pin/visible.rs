//! Makes visible what a text hides: a poisoned description hides its order behind characters that no screen shows.

use toolcrib_base::is_hidden;

/// The text with everything that a screen does not show, or shows as something else, written as `<U+200B>`. Plain blanks
/// stay; line breaks do not, so give lines one by one.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.push_str(&format!("<U+{:04X}>", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}
