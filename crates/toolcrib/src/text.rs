//! Texts of others made fit for a terminal: nothing that a server says may move the cursor, change the title or turn
//! the direction of a line.

use std::borrow::Cow;

/// A text that stays on one line: line breaks and tabs become blanks, whatever else a terminal obeys is escaped.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    clean(text, |c| matches!(c, '\n' | '\r' | '\t').then_some(' '))
}

/// A text of several lines: line breaks and tabs stay, whatever else a terminal obeys is escaped.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    let keep = |c| matches!(c, '\n' | '\t').then_some(c);
    if text.contains("\r\n") {
        // Programs of other systems end their lines so.
        return Cow::Owned(clean(&text.replace("\r\n", "\n"), keep).into_owned());
    }
    clean(text, keep)
}

/// `1 tool`, `2 tools`: a number, as it was answered, with its noun.
pub(crate) fn count(number: &str, noun: &str) -> String {
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Whether a character would steer a terminal or hide in it: control characters, marks of direction, zero widths.
pub(crate) fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
        || matches!(c, '\u{E0000}'..='\u{E007F}')
}

fn clean(text: &str, keep: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if !text.chars().any(is_steering) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match keep(c) {
            Some(kept) => clean.push(kept),
            None if is_steering(c) => clean.extend(c.escape_default()),
            None => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!([count("1", "tool"), count("0", "tool"), count("21", "tool")], ["1 tool", "0 tools", "21 tools"]);
    }

    #[test]
    fn nothing_steers_the_terminal() {
        for (text, on_a_line, in_a_block) in [
            ("plain ä 漢", "plain ä 漢", "plain ä 漢"),
            ("a\nb\tc", "a b c", "a\nb\tc"),
            ("a\r\nb", "a  b", "a\nb"),
            ("\u{1b}]0;own\u{7}", "\\u{1b}]0;own\\u{7}", "\\u{1b}]0;own\\u{7}"),
            ("\u{9b}2J", "\\u{9b}2J", "\\u{9b}2J"),
            ("a\rb", "a b", "a\\rb"),
            ("x\u{202e}y\u{200b}", "x\\u{202e}y\\u{200b}", "x\\u{202e}y\\u{200b}"),
        ] {
            assert_eq!(line(text), on_a_line, "{text:?}");
            assert_eq!(block(text), in_a_block, "{text:?}");
        }
    }
}
