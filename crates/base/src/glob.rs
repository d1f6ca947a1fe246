//! Patterns over names: `*` is any run of characters, also across `/`; `?` is one character; the rest is itself.

use std::fmt;
use std::sync::Arc;

/// The longest pattern, in bytes. With it a match costs at most this many steps per character of the text.
pub const PATTERN_MAX: usize = 256;

/// Characters that other pattern languages give a meaning. They are refused, because a rule that silently never
/// matches is worst in a list of what to deny.
const FOREIGN: [char; 5] = ['[', ']', '{', '}', '\\'];

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing at all.
    #[error("the pattern is empty")]
    Empty,
    /// More than [`PATTERN_MAX`] bytes.
    #[error("the pattern has more than {PATTERN_MAX} bytes")]
    TooLong,
    /// A character with a meaning elsewhere and none here.
    #[error("`{}` is not supported in a pattern: `*` matches any characters, `?` matches one", .0.escape_default())]
    Foreign(char),
    /// A pattern that asks for the opposite.
    #[error("a pattern cannot be negated with `!`")]
    Negated,
}

/// A checked pattern that matches whole texts, letter case included; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Glob {
    pattern: Arc<str>,
    shape: Shape,
}

/// Forms that need no search, classified once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    /// `*`
    Everything,
    /// No wildcard.
    Exact,
    /// One `*`, at the end.
    Prefix,
    /// One `*`, at the start.
    Suffix,
    /// Anything else.
    General,
}

// === impl Glob ===

impl Glob {
    /// Checks and compiles a pattern.
    pub fn new(pattern: &str) -> Result<Self, GlobError> {
        if pattern.is_empty() {
            return Err(GlobError::Empty);
        }
        if pattern.len() > PATTERN_MAX {
            return Err(GlobError::TooLong);
        }
        if pattern.starts_with('!') {
            return Err(GlobError::Negated);
        }
        if let Some(foreign) = pattern.chars().find(|c| FOREIGN.contains(c) || c.is_control()) {
            return Err(GlobError::Foreign(foreign));
        }
        let wildcards = pattern.bytes().filter(|b| matches!(b, b'*' | b'?')).count();
        let shape = match wildcards {
            0 => Shape::Exact,
            1 if pattern == "*" => Shape::Everything,
            1 if pattern.ends_with('*') => Shape::Prefix,
            1 if pattern.starts_with('*') => Shape::Suffix,
            _ if pattern.bytes().all(|b| b == b'*') => Shape::Everything,
            _ => Shape::General,
        };
        Ok(Self { pattern: pattern.into(), shape })
    }

    /// The pattern `*`.
    pub fn everything() -> Self {
        Self { pattern: "*".into(), shape: Shape::Everything }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// Whether it matches itself alone.
    pub fn is_exact(&self) -> bool {
        self.shape == Shape::Exact
    }

    /// Whether it matches every text.
    pub fn is_everything(&self) -> bool {
        self.shape == Shape::Everything
    }

    /// Whether the whole of `text` fits.
    pub fn matches(&self, text: &str) -> bool {
        self.fits(Text { head: text.as_bytes(), tail: None })
    }

    /// Whether the whole of `server/name` fits, without joining the two.
    pub fn matches_id(&self, server: &str, name: &str) -> bool {
        self.fits(Text { head: server.as_bytes(), tail: Some(name.as_bytes()) })
    }

    fn fits(&self, text: Text<'_>) -> bool {
        let pattern = self.pattern.as_bytes();
        match self.shape {
            Shape::Everything => true,
            Shape::Exact => text.len() == pattern.len() && text.starts_with(pattern),
            Shape::Prefix => text.starts_with(&pattern[..pattern.len() - 1]),
            Shape::Suffix => text.ends_with(&pattern[1..]),
            Shape::General => search(pattern, text),
        }
    }
}

/// Goes back to the last `*` only, so the steps are bounded by pattern times text.
fn search(pattern: &[u8], text: Text<'_>) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut last_star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                last_star = Some((p, t));
                continue;
            }
            Some(b'?') => {
                p += 1;
                t += char_len(text.byte(t));
                continue;
            }
            Some(byte) if *byte == text.byte(t) => {
                p += 1;
                t += 1;
                continue;
            }
            _ => {}
        }
        let Some((after_star, taken)) = last_star else { return false };
        t = taken + char_len(text.byte(taken));
        p = after_star;
        last_star = Some((after_star, t));
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// The length in bytes of the UTF-8 character that begins with `lead`.
fn char_len(lead: u8) -> usize {
    match lead {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.pattern, f)
    }
}

impl std::str::FromStr for Glob {
    type Err = GlobError;
    fn from_str(text: &str) -> Result<Self, GlobError> {
        Self::new(text)
    }
}

/// `head`, or `head` + `/` + `tail` read as if they were one text.
#[derive(Clone, Copy)]
struct Text<'a> {
    head: &'a [u8],
    tail: Option<&'a [u8]>,
}

// === impl Text ===

impl Text<'_> {
    fn len(self) -> usize {
        self.head.len() + self.tail.map_or(0, |tail| tail.len() + 1)
    }

    fn byte(self, at: usize) -> u8 {
        match self.tail {
            _ if at < self.head.len() => self.head[at],
            Some(tail) if at > self.head.len() => tail[at - self.head.len() - 1],
            _ => b'/',
        }
    }

    fn starts_with(self, literal: &[u8]) -> bool {
        match (literal.get(self.head.len()), self.tail) {
            (None, _) => self.head.starts_with(literal),
            (Some(_), None) => false,
            (Some(slash), Some(tail)) => {
                let (first, rest) = (&literal[..self.head.len()], &literal[self.head.len() + 1..]);
                *slash == b'/' && first == self.head && tail.starts_with(rest)
            }
        }
    }

    fn ends_with(self, literal: &[u8]) -> bool {
        let Some(tail) = self.tail else { return self.head.ends_with(literal) };
        let Some(before) = literal.len().checked_sub(tail.len()).filter(|before| *before > 0) else {
            return tail.ends_with(literal);
        };
        let (first, rest) = literal.split_at(before);
        rest == tail && first.strip_suffix(b"/").is_some_and(|first| self.head.ends_with(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain recursive definition, exponential and obviously right.
    fn reference(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, rest) => rest.is_none(),
            (Some(('*', pattern)), None) => reference(pattern, text),
            (Some(('*', after)), Some((_, rest))) => reference(after, text) || reference(pattern, rest),
            (Some(('?', pattern)), Some((_, text))) => reference(pattern, text),
            (Some((p, pattern)), Some((t, text))) => p == t && reference(pattern, text),
            (Some(_), None) => false,
        }
    }

    /// All texts of up to `longest` characters of `alphabet`.
    fn texts(alphabet: &[char], longest: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut begin = 0;
        for _ in 0..longest {
            let end = all.len();
            for index in begin..end {
                for c in alphabet {
                    all.push(format!("{}{c}", all[index]));
                }
            }
            begin = end;
        }
        all
    }

    #[test]
    fn agrees_with_the_plain_definition_on_all_small_texts() {
        let texts_to_match = texts(&['a', '/', 'é'], 4);
        for pattern in texts(&['a', '/', 'é', '*', '?'], 4) {
            let Ok(glob) = Glob::new(&pattern) else { continue };
            let pattern: Vec<char> = pattern.chars().collect();
            for text in &texts_to_match {
                let expected = reference(&pattern, &text.chars().collect::<Vec<_>>());
                assert_eq!(glob.matches(text), expected, "{glob} on {text}");
                if let Some((server, name)) = text.split_once('/') {
                    assert_eq!(glob.matches_id(server, name), expected, "{glob} on {server} and {name}");
                }
            }
        }
    }

    #[test]
    fn matches_whole_ids() {
        for (pattern, server, name, expected) in [
            ("*", "files", "read", true),
            ("files/*", "files", "read", true),
            ("files/*", "files2", "read", false),
            ("*/read*", "files", "read_all", true),
            ("*_read", "files", "all_read", true),
            ("files/read", "files", "read", true),
            ("files/read", "files", "read_all", false),
            ("read", "files", "read", false),
            ("files", "files", "read", false),
            ("f*s/*/b?", "files", "a/bé", true),
            ("files/READ", "files", "read", false),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches_id(server, name), expected, "{pattern}");
        }
    }

    #[test]
    fn many_stars_do_not_blow_up() {
        let pattern = "*a".repeat(PATTERN_MAX / 2);
        let glob = Glob::new(&pattern).unwrap();
        assert!(!glob.matches(&("a".repeat(PATTERN_MAX / 2 - 1) + &"b".repeat(10_000))));
        assert!(glob.matches(&"a".repeat(10_000)));
    }

    #[test]
    fn refuses_what_would_never_match() {
        for (pattern, error) in [
            ("", GlobError::Empty),
            ("files/{read,write}", GlobError::Foreign('{')),
            ("files/[a-z]*", GlobError::Foreign('[')),
            ("a\\*", GlobError::Foreign('\\')),
            ("a\nb", GlobError::Foreign('\n')),
            ("!files/*", GlobError::Negated),
        ] {
            assert_eq!(Glob::new(pattern), Err(error), "{pattern}");
        }
        assert_eq!(Glob::new(&"a".repeat(PATTERN_MAX + 1)), Err(GlobError::TooLong));
        assert!(Glob::new("**").unwrap().is_everything());
    }
}
