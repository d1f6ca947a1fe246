//! What changed between two texts, line by line: removed, added, and a few lines around.
//!
//! ```
//! use toolcrib_ui::diff::Diff;
//!
//! let diff = Diff::of("a: 1\nb: 2\n", "a: 1\nb: 3\n");
//! assert_eq!((diff.removed, diff.added), (1, 1));
//! assert!(diff.to_string().contains("<del class=\"del\">- b: 2"));
//! ```

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use crate::text::Visible;

mod myers;

/// Unchanged lines that are shown around a change.
const CONTEXT: usize = 3;
/// Characters of a line, lines, and bytes of HTML that are shown.
const MAX_LINE: usize = 2_000;
const MAX_LINES: usize = 4_000;
const MAX_HTML: usize = 512 * 1024;

/// A line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// In both.
    Same(&'a str),
    /// In the first text alone.
    Removed(&'a str),
    /// In the second text alone.
    Added(&'a str),
    /// So many unchanged lines that are not shown.
    Gap(usize),
}

/// A difference. It displays as HTML: a `<pre class="diff">` with `<del>` and `<ins>`, or a sentence if there is none.
#[derive(Debug, Clone)]
pub struct Diff<'a> {
    /// The lines, with gaps for what did not change.
    pub lines: Vec<Line<'a>>,
    /// How many lines were removed.
    pub removed: usize,
    /// How many lines were added.
    pub added: usize,
    /// What is at the ends alone: the last line of which text has no line end.
    endings: (bool, bool),
}

// === impl Diff ===

impl<'a> Diff<'a> {
    /// The difference between two texts. Lines end with a line feed; a return before it belongs to the line and shows.
    pub fn of(before: &'a str, after: &'a str) -> Self {
        let all = compared(before, after);
        let count = |is: fn(&Line<'_>) -> bool| all.iter().filter(|line| is(line)).count();
        let removed = count(|line| matches!(line, Line::Removed(_)));
        let added = count(|line| matches!(line, Line::Added(_)));
        let has_end = |text: &str| text.is_empty() || text.ends_with('\n');
        Self { lines: folded(&all), removed, added, endings: (has_end(before), has_end(after)) }
    }

    /// Whether the texts are the same, byte by byte.
    pub fn is_empty(&self) -> bool {
        self.removed == 0 && self.added == 0 && self.endings.0 == self.endings.1
    }
}

impl fmt::Display for Diff<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("<p class=\"quiet\">No difference.</p>");
        }
        f.write_str("<pre class=\"diff\" tabindex=\"0\" aria-label=\"What changes\">")?;
        let mut room = MAX_HTML;
        for (index, line) in self.lines.iter().enumerate() {
            let mut html = String::new();
            match line {
                Line::Same(text) => writeln!(html, "  {}", shown(text))?,
                Line::Removed(text) => write!(html, "<del class=\"del\">- {}\n</del>", shown(text))?,
                Line::Added(text) => write!(html, "<ins class=\"add\">+ {}\n</ins>", shown(text))?,
                Line::Gap(count) => {
                    writeln!(html, "<span class=\"gap\">… {count} unchanged {}</span>", plural(*count))?;
                }
            }
            room = room.saturating_sub(html.len());
            if room == 0 || index >= MAX_LINES {
                let rest = self.lines.len() - index;
                writeln!(f, "<span class=\"gap\">… {rest} more {}</span>", plural(rest))?;
                break;
            }
            f.write_str(&html)?;
        }
        match self.endings {
            (false, true) => {
                f.write_str("<span class=\"gap\">The first text does not end with a line end.</span>\n")?;
            }
            (true, false) => {
                f.write_str("<span class=\"gap\">The second text does not end with a line end.</span>\n")?;
            }
            _ => {}
        }
        f.write_str("</pre>")
    }
}

impl HtmlSafe for Diff<'_> {}

/// A difference that is given as text, a line each after ` `, `-` or `+`, as HTML like that of [`Diff`].
pub fn unified(text: &str) -> String {
    let lines = text.split_terminator('\n').map(|line| match line.split_at_checked(1) {
        Some(("+", rest)) => Line::Added(rest),
        Some(("-", rest)) => Line::Removed(rest),
        Some((" ", rest)) => Line::Same(rest),
        _ => Line::Same(line),
    });
    Diff { lines: lines.collect(), removed: usize::from(!text.is_empty()), added: 0, endings: (true, true) }.to_string()
}

/// The lines of both texts, those in common once.
fn compared<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new) = (lines(before), lines(after));
    let mut all = Vec::with_capacity(old.len().max(new.len()));
    let (mut at, mut other) = (0, 0);
    for same in myers::common(&old, &new) {
        all.extend(old[at..same.before].iter().map(|line| Line::Removed(line)));
        all.extend(new[other..same.after].iter().map(|line| Line::Added(line)));
        all.extend(old[same.before..same.before + same.count].iter().map(|line| Line::Same(line)));
        (at, other) = (same.before + same.count, same.after + same.count);
    }
    all.extend(old[at..].iter().map(|line| Line::Removed(line)));
    all.extend(new[other..].iter().map(|line| Line::Added(line)));
    all
}

fn shown(line: &str) -> Visible {
    Visible(crate::text::clipped(line, MAX_LINE))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

fn lines(text: &str) -> Vec<&str> {
    text.split_terminator('\n').collect()
}

/// Only the lines near a change; of the others how many they are.
fn folded<'a>(all: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut is_near = vec![false; all.len()];
    for (index, _) in all.iter().enumerate().filter(|(_, line)| !matches!(line, Line::Same(_))) {
        let end = (index + CONTEXT + 1).min(all.len());
        is_near[index.saturating_sub(CONTEXT)..end].fill(true);
    }
    let mut out = Vec::new();
    let mut hidden = 0;
    for (index, (line, is_near)) in all.iter().zip(&is_near).enumerate() {
        hidden += usize::from(!is_near);
        if *is_near || index + 1 == all.len() {
            match std::mem::take(&mut hidden) {
                0 => {}
                // A gap of one line says less than the line.
                1 => out.push(all[if *is_near { index - 1 } else { index }]),
                count => out.push(Line::Gap(count)),
            }
        }
        if *is_near {
            out.push(*line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(before: &str, after: &str, expected: &[Line<'_>]) {
        assert_eq!(Diff::of(before, after).lines, expected);
    }

    #[test]
    fn what_changed_is_shown_with_what_is_around() {
        use Line::{Added, Gap, Removed, Same};
        check("a\nb\nc\n", "a\nx\nc\n", &[Same("a"), Removed("b"), Added("x"), Same("c")]);
        check("", "a\n", &[Added("a")]);
        check("a\n", "", &[Removed("a")]);
        check(
            "1\n2\n3\n4\n5\n6\n7\n",
            "1\n2\n3\n4\n5\n6\n8\n",
            &[Gap(3), Same("4"), Same("5"), Same("6"), Removed("7"), Added("8")],
        );
        check(
            "1\n2\n3\n4\n5\n",
            "1\n2\n3\n4\n6\n",
            &[Same("1"), Same("2"), Same("3"), Same("4"), Removed("5"), Added("6")],
        );
    }

    #[test]
    fn a_difference_in_words_looks_the_same() {
        let html = unified(" a\n-<b>\n+c\n");
        assert_eq!(html, Diff::of("a\n<b>\n", "a\nc\n").to_string());
        assert!(unified("").contains("No difference."));
    }

    #[test]
    fn what_no_one_sees_is_a_difference_that_shows() {
        let html = Diff::of("a\r\nb\n", "a\nb\u{200b}\n").to_string();
        assert!(html.contains("- a<span class=\"invisible\">U+000D</span>"), "{html}");
        assert!(html.contains("+ b<span class=\"invisible\">U+200B</span>"), "{html}");
        assert!(Diff::of("a", "a\n").to_string().contains("The first text does not end with a line end."));
        assert!(Diff::of("a\n", "a\n").to_string().contains("No difference."));
    }

    #[test]
    fn texts_without_anything_in_common_cost_little() {
        let text = |word: &str| (0..60_000).map(|line| format!("{word} {line}\n")).collect::<String>();
        let (before, after) = (text("a"), text("b"));
        let diff = Diff::of(&before, &after);
        assert_eq!((diff.removed, diff.added), (60_000, 60_000));
        assert!(diff.to_string().len() < MAX_HTML + 4_096);
        let word = "w".repeat(1 << 20);
        assert!(Diff::of(&word, "").to_string().len() < 4 * MAX_LINE);
    }

    proptest! {
        #[test]
        fn both_texts_are_in_the_difference(
            before in prop::collection::vec("[abc]", 0..24),
            after in prop::collection::vec("[abc]", 0..24),
        ) {
            let (old, new): (Vec<&str>, Vec<&str>) =
                (before.iter().map(String::as_str).collect(), after.iter().map(String::as_str).collect());
            let (mut at, mut other) = (0, 0);
            let mut common = 0;
            for run in myers::common(&old, &new) {
                prop_assert!(run.before >= at && run.after >= other && run.count > 0);
                let ends = (run.before + run.count, run.after + run.count);
                prop_assert_eq!(&old[run.before..ends.0], &new[run.after..ends.1]);
                (at, other) = ends;
                common += run.count;
            }
            prop_assert!(at <= old.len() && other <= new.len());
            // As much is in common as can be.
            let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
            for (one, line) in old.iter().enumerate() {
                for (two, with) in new.iter().enumerate() {
                    table[one + 1][two + 1] =
                        if line == with { table[one][two] + 1 } else { table[one][two + 1].max(table[one + 1][two]) };
                }
            }
            prop_assert_eq!(common, table[old.len()][new.len()]);
        }

        #[test]
        fn no_line_opens_an_element(before in any::<String>(), after in "[<>&\"'a\n]{0,20}") {
            let html = Diff::of(&before, &after).to_string();
            let allowed = ["<pre class=\"diff\" tabindex=\"0\" aria-label=\"What changes\">", "</pre>", "<p class=\"quiet\">", "</p>",
                "<del class=\"del\">", "</del>", "<ins class=\"add\">", "</ins>", "<span class=\"gap\">",
                "<span class=\"invisible\">", "</span>"];
            let rest = allowed.iter().fold(html, |html, tag| html.replace(tag, ""));
            prop_assert!(!rest.contains(['<', '>', '"', '\'']), "{}", rest);
        }
    }
}
