//! Text that others wrote, as HTML: escaped, and with its invisible characters made visible.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use askama::filters::HtmlSafe;
use toolcrib_base::is_hidden;
use unicode_general_category::{GeneralCategory, get_general_category};

/// A text whose invisible characters show as their code points.
#[derive(Debug, Clone)]
pub struct Visible(pub String);

impl Display for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(character)?,
                _ if is_invisible(character) => {
                    write!(f, "<span class=\"invisible\">U+{:04X}</span>", u32::from(character))?;
                }
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

impl HtmlSafe for Visible {}

/// A text of at most `max` characters; `…` says that there was more.
pub fn clipped(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A duration in milliseconds with a tenth, as people read it.
pub fn millis(duration: Duration) -> String {
    format!("{}.{} ms", duration.as_millis(), duration.as_micros() % 1_000 / 100)
}

/// A message whose parts between backticks are code. Where they do not come in pairs, it stands as it is.
#[derive(Debug, Clone)]
pub struct Prose(pub String);

impl Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.0.split('`').collect();
        if parts.len().is_multiple_of(2) {
            return Visible(self.0.clone()).fmt(f);
        }
        for (at, part) in parts.into_iter().enumerate() {
            match at % 2 {
                1 => write!(f, "<code>{}</code>", Visible(part.to_owned()))?,
                _ => Visible(part.to_owned()).fmt(f)?,
            }
        }
        Ok(())
    }
}

impl HtmlSafe for Prose {}

/// Whether a reader does not see it, or sees something else: what is hidden everywhere, and what is no character at all.
pub fn is_invisible(character: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, Surrogate, Unassigned};
    is_hidden(character)
        || matches!(
            get_general_category(character),
            Control | Format | LineSeparator | ParagraphSeparator | PrivateUse | Surrogate | Unassigned
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Visible(text.to_owned()).to_string(), expected);
    }

    #[test]
    fn what_no_one_sees_is_shown() {
        check("a\u{200b}b", "a<span class=\"invisible\">U+200B</span>b");
        check("\u{202e}gpj", "<span class=\"invisible\">U+202E</span>gpj");
        check("\u{e0041}", "<span class=\"invisible\">U+E0041</span>");
        check("\x1b[31m", "<span class=\"invisible\">U+001B</span>[31m");
        check("\u{fe0f}", "<span class=\"invisible\">U+FE0F</span>");
        check("a\nb\tc ü 漢", "a\nb\tc ü 漢");
        check("<b>&\"'", "&lt;b&gt;&amp;&quot;&#39;");
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(Prose("run `a <b>` now".into()).to_string(), "run <code>a &lt;b&gt;</code> now");
        assert_eq!(Prose("one ` only <".into()).to_string(), "one ` only &lt;");
    }

    proptest! {
        #[test]
        fn no_text_opens_an_element_or_ends_an_attribute(text in any::<String>()) {
            let html = Visible(text).to_string();
            let rest = html.replace("<span class=\"invisible\">", "").replace("</span>", "");
            prop_assert!(!rest.contains(['<', '>', '"', '\'']));
        }
    }
}
