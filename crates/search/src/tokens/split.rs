//! Cutting a text as o200k tokenizers do before they merge. Their rule is this expression, of which the first
//! alternative that fits counts:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! \p{N}{1,3}
//!  ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```

use unicode_general_category::{GeneralCategory, get_general_category};

/// What the expression tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A capital: `\p{Lu}`, `\p{Lt}`.
    Upper,
    /// A small letter: `\p{Ll}`.
    Lower,
    /// A letter of an alphabet without cases: `\p{Lm}`, `\p{Lo}`.
    Letter,
    /// A sign on a letter: `\p{M}`.
    Mark,
    Number,
    /// A space that ends no line.
    Space,
    /// `\r`, `\n`.
    Break,
    Sign,
}

// === impl Class ===

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Number,
            '\r' | '\n' => Self::Break,
            c if c.is_whitespace() => Self::Space,
            c if c.is_ascii() => Self::Sign,
            c => Self::of_other(c),
        }
    }

    fn of_other(c: char) -> Self {
        use GeneralCategory as Category;
        match get_general_category(c) {
            Category::UppercaseLetter | Category::TitlecaseLetter => Self::Upper,
            Category::LowercaseLetter => Self::Lower,
            Category::ModifierLetter | Category::OtherLetter => Self::Letter,
            Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark => Self::Mark,
            Category::DecimalNumber | Category::LetterNumber | Category::OtherNumber => Self::Number,
            _ => Self::Sign,
        }
    }

    /// May stand in the first half of a word.
    fn is_head(self) -> bool {
        matches!(self, Self::Upper | Self::Letter | Self::Mark)
    }

    /// May stand in the second half of a word.
    fn is_tail(self) -> bool {
        matches!(self, Self::Lower | Self::Letter | Self::Mark)
    }

    /// May stand before a word.
    fn is_before(self) -> bool {
        matches!(self, Self::Space | Self::Sign | Self::Mark)
    }

    fn is_sign(self) -> bool {
        matches!(self, Self::Sign | Self::Mark)
    }

    fn is_space(self) -> bool {
        matches!(self, Self::Space | Self::Break)
    }
}

/// The pieces of a text, in order; together they are the text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (piece, behind) = rest.split_at(piece(rest, first));
        rest = behind;
        Some(piece)
    })
}

/// How long the first piece is that begins with `first`.
fn piece(text: &str, first: char) -> usize {
    if let Some(end) = word(text, first) {
        return end + contraction(&text[end..]);
    }
    if Class::of(first) == Class::Number {
        return text.chars().take(3).take_while(|c| Class::of(*c) == Class::Number).map(char::len_utf8).sum();
    }
    let before = usize::from(first == ' ');
    let signs = run(&text[before..], Class::is_sign);
    if signs > 0 {
        let end = before + signs;
        return end + text[end..].bytes().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/')).count();
    }
    spaces(text)
}

/// The end of a word with what stands before it.
fn word(text: &str, first: char) -> Option<usize> {
    let behind = Class::of(first).is_before().then_some(first.len_utf8());
    // With the sign before, or without where there is none and where the sign is a part of the word.
    let starts = || behind.into_iter().chain([0]);
    let with_tail = starts().find_map(|start| {
        let head = run(&text[start..], Class::is_head);
        let tail = run(&text[start + head..], Class::is_tail);
        if tail > 0 {
            return Some(start + head + tail);
        }
        // The second half takes back from the first what both may have.
        let head = &text[start..start + head];
        head.char_indices().rev().find(|(_, c)| Class::of(*c).is_tail()).map(|(at, c)| start + at + c.len_utf8())
    });
    with_tail.or_else(|| {
        let heads = starts().map(|start| (start, run(&text[start..], Class::is_head)));
        heads.into_iter().find(|(_, head)| *head > 0).map(|(start, head)| start + head)
    })
}

/// How long the `'s` is with which a text begins.
fn contraction(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    // `ſ` is another small `S`.
    if rest.starts_with(['s', 'S', 't', 'T', 'm', 'M', 'd', 'D']) {
        return 2;
    }
    if rest.starts_with('ſ') {
        return 1 + 'ſ'.len_utf8();
    }
    let two = rest.get(..2).unwrap_or_default();
    let known = ["re", "ve", "ll"].iter().any(|known| two.eq_ignore_ascii_case(known));
    if known { 3 } else { 0 }
}

/// How many of the spaces belong together with which a text begins: up to the last line break, else all but the one
/// before a word.
fn spaces(text: &str) -> usize {
    let all = &text[..run(text, Class::is_space)];
    if let Some(last) = all.rfind(['\r', '\n']) {
        return last + 1;
    }
    let last = all.chars().next_back().map_or(0, char::len_utf8);
    if all.len() == text.len() || all.len() == last { all.len() } else { all.len() - last }
}

/// How many bytes belong to the characters of a class with which a text begins.
fn run(text: &str, fits: impl Fn(Class) -> bool) -> usize {
    text.char_indices().find(|(_, c)| !fits(Class::of(*c))).map_or(text.len(), |(at, _)| at)
}
