//! Hits as text for a model within a budget of tokens: hits are shortened to fit, never dropped.
//!
//! What is given up, in this order, each step from the last hit up to the first before the next step begins:
//!
//! 1. the summary is cut to half, then left out together with the list of equal tools;
//! 2. the output and the types of optional parameters, then the optional parameters;
//! 3. nested parts and all but few values of required parameters;
//! 4. the types of required parameters: `files/read_file(path, …)`.
//!
//! Here it ends for up to [`DEFAULT_HITS`] hits: the names of required parameters stay, and where they alone are more
//! than the budget, the answer may grow up to [`MOST_TOKENS`]. Only beyond that, which takes hundreds of required
//! parameters, the last hits have their number instead: `(…64 required)`. More hits than [`DEFAULT_HITS`] are shortened
//! further, down to their bare ids, and when these are more than the budget they are returned anyway.
//!
//! `…` stands where something was left out; a bare id has nothing but itself.

use toolcrib_base::ToolId;

use crate::signature::{CUT, Detail, Signature};
use crate::tokens;

/// The budget for up to [`DEFAULT_HITS`] hits, in tokens.
pub const DEFAULT_TOKENS: usize = 800;
/// What up to [`DEFAULT_HITS`] hits cost at most, whatever was asked for and whatever they are.
pub const MOST_TOKENS: usize = 1_500;
/// How many hits are returned when the caller does not say.
pub const DEFAULT_HITS: usize = 8;
/// The longest summary, in characters.
pub const SUMMARY_CHARS: usize = 120;
/// An id of more bytes is shown as the exposed name, which is short by construction and calls the tool as well.
const ID_BYTES: usize = 96;
/// How many equal tools are named.
const ALSO: usize = 3;

/// What is to be said about one hit.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The tool. Shown as it is, unless it is long or has unprintable characters.
    pub id: &'a ToolId,
    /// The name under which the profile exposes the tool: `[A-Za-z0-9_.-]{1,64}`.
    pub name: &'a str,
    /// The tool's parameters.
    pub signature: &'a Signature,
    /// One line of description, see [`summary`].
    pub summary: &'a str,
    /// Equal tools of other servers.
    pub also: &'a [ToolId],
}

/// A text and what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedHits {
    /// One line per hit, each beginning with `- `, without a line break at the end.
    pub text: String,
    /// How many tokens it is, each line with its line break.
    pub tokens: usize,
    /// Whether anything was shortened to fit.
    pub shortened: bool,
    /// What the line of each hit shows.
    pub shown: Vec<RenderedHit>,
}

/// What is left of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedHit {
    /// The parentheses with what follows them.
    pub signature: String,
    /// The summary.
    pub summary: String,
    /// Whether anything was left out to fit.
    pub shortened: bool,
}

/// How much of a hit is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Whole,
    HalfSummary,
    Only(Detail),
    Bare,
}

/// What is given up of every hit.
const STEPS: [Step; 6] = [
    Step::HalfSummary,
    Step::Only(Detail::Full),
    Step::Only(Detail::OptionalNames),
    Step::Only(Detail::Required),
    Step::Only(Detail::Flat),
    Step::Only(Detail::RequiredNames),
];

/// Renders hits within `max_tokens` tokens; see above for what happens when they do not fit.
pub fn render(entries: &[Entry<'_>], max_tokens: usize) -> RenderedHits {
    let is_page = entries.len() <= DEFAULT_HITS;
    let max_tokens = if is_page { max_tokens.min(MOST_TOKENS) } else { max_tokens };
    if !is_page {
        // With many hits the ids alone are the budget, and nothing else needs to be tried.
        let bare = Lines::new(entries, Step::Bare);
        if bare.tokens >= max_tokens {
            return bare.join();
        }
    }
    let mut lines = Lines::new(entries, Step::Whole);
    lines.shorten(entries, &STEPS, max_tokens);
    match is_page {
        true => lines.shorten(entries, &[Step::Only(Detail::Cut)], MOST_TOKENS),
        false => lines.shorten(entries, &[Step::Only(Detail::Cut), Step::Bare], max_tokens),
    }
    lines.join()
}

/// The labels of hits alone, a line each: all of up to [`DEFAULT_HITS`], and of more as many as fit into `max_tokens`.
/// What does not fit comes on a later page.
pub fn names(entries: &[(&ToolId, &str)], max_tokens: usize) -> (Vec<String>, usize) {
    let mut used = 0;
    let mut lines = Vec::new();
    for (id, name) in entries {
        let line = format!("- {}", label(id, name));
        let cost = line_tokens(&line);
        if lines.len() >= DEFAULT_HITS && used + cost > max_tokens {
            break;
        }
        used += cost;
        lines.push(line);
    }
    (lines, used)
}

/// The first sentence or line of a description in at most [`SUMMARY_CHARS`] characters, on one line, without control
/// and direction characters.
pub fn summary(description: &str) -> String {
    let line = description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut text = String::new();
    let mut count = 0;
    for word in line.split_whitespace() {
        let word: String = word.chars().filter(|c| is_printable(*c)).take(SUMMARY_CHARS + 1).collect();
        count += word.chars().count() + 1;
        if count > SUMMARY_CHARS + 1 {
            return cut(&format!("{text} {word}"), SUMMARY_CHARS);
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word);
        if ends_sentence(&word) {
            break;
        }
    }
    text.trim().to_owned()
}

/// `1.` and `e.g.` end no sentence.
fn ends_sentence(word: &str) -> bool {
    let Some(stem) = word.strip_suffix(['.', '!', '?', '。']) else { return false };
    stem.chars().count() > 1
        && stem.contains(char::is_alphabetic)
        && !stem.contains('.')
        && !matches!(stem, "etc" | "vs")
}

/// At most `most` characters, cut at a space where there is one near.
fn cut(text: &str, most: usize) -> String {
    let text = text.trim();
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    let end = kept.rfind(' ').filter(|at| *at * 3 > kept.len() * 2).unwrap_or(kept.len());
    format!("{}{CUT}", kept[..end].trim_end_matches([' ', ',', ';', ':', '.']))
}

/// Neither a control character nor one that is invisible or turns the direction of text.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        && !matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// One hit's line.
#[derive(Debug)]
struct Line {
    text: String,
    tokens: usize,
    shown: RenderedHit,
}

/// All of them and what they cost.
#[derive(Debug)]
struct Lines {
    lines: Vec<Line>,
    tokens: usize,
}

// === impl Line ===

impl Line {
    fn new(entry: &Entry<'_>, step: Step) -> Self {
        let signature = match step {
            Step::Whole | Step::HalfSummary | Step::Only(Detail::Full) => entry.signature.fitting(),
            Step::Only(detail) => entry.signature.render(detail),
            Step::Bare => String::new(),
        };
        let summary = match step {
            Step::Whole => cut(entry.summary, SUMMARY_CHARS),
            Step::HalfSummary => cut(entry.summary, SUMMARY_CHARS / 2),
            Step::Only(_) | Step::Bare => String::new(),
        };
        let mut text = format!("- {}{signature}", label(entry.id, entry.name));
        if !summary.is_empty() {
            text.push_str(" — ");
            text.push_str(&summary);
        }
        match step {
            Step::Whole | Step::HalfSummary => also(&mut text, entry.also),
            Step::Only(Detail::Cut) | Step::Bare => {}
            Step::Only(_) if entry.summary.is_empty() && entry.also.is_empty() => {}
            Step::Only(_) => text.extend([' ', CUT]),
        }
        let shown = RenderedHit { signature, summary, shortened: step != Step::Whole };
        Self { tokens: line_tokens(&text), text, shown }
    }
}

/// Names equal tools.
fn also(text: &mut String, also: &[ToolId]) {
    if also.is_empty() {
        return;
    }
    let shown: Vec<String> = also.iter().filter(|id| is_showable(id)).take(ALSO).map(ToString::to_string).collect();
    let more = also.len() - shown.len();
    text.push_str(&format!(" (also {}", shown.join(", ")));
    match (shown.len(), more) {
        (_, 0) => {}
        (0, more) => text.push_str(&format!("on {more} servers")),
        (_, more) => text.push_str(&format!(" and {more} more")),
    }
    text.push(')');
}

// === impl Lines ===

impl Lines {
    fn new(entries: &[Entry<'_>], step: Step) -> Self {
        let lines: Vec<Line> = entries.iter().map(|entry| Line::new(entry, step)).collect();
        Self { tokens: lines.iter().map(|line| line.tokens).sum(), lines }
    }

    /// Goes through the steps, each from the last line up, until all fit.
    fn shorten(&mut self, entries: &[Entry<'_>], steps: &[Step], max_tokens: usize) {
        for step in steps {
            for (line, entry) in self.lines.iter_mut().zip(entries).rev() {
                if self.tokens <= max_tokens {
                    return;
                }
                let shorter = Line::new(entry, *step);
                // Leaving out a short thing may cost more than it brings: the mark is a token, too.
                if shorter.tokens < line.tokens {
                    self.tokens = self.tokens - line.tokens + shorter.tokens;
                    *line = shorter;
                }
            }
        }
    }

    fn join(self) -> RenderedHits {
        let texts: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        RenderedHits {
            text: texts.join("\n"),
            tokens: self.tokens,
            shortened: self.lines.iter().any(|line| line.shown.shortened),
            shown: self.lines.into_iter().map(|line| line.shown).collect(),
        }
    }
}

/// What a line costs with its line break.
fn line_tokens(line: &str) -> usize {
    tokens::count(&format!("{line}\n"))
}

/// What a tool is called in a line: its id, or the exposed `name` where the id is long or has unprintable characters.
pub fn label(id: &ToolId, name: &str) -> String {
    if is_showable(id) { id.to_string() } else { name.to_owned() }
}

/// A tool's name is its server's text and may be anything.
fn is_showable(id: &ToolId) -> bool {
    id.server.as_str().len() + id.tool.len() < ID_BYTES
        && id.tool.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':'))
}

#[cfg(test)]
mod tests;
