//! The marks within lines: code, emphasis, links. A mark without its other half stays text. Each level of nesting looks at
//! its text once: for a mark that has no other half it is looked once.

use std::fmt::{self, Display};

use crate::text::{Visible, is_invisible};

/// How deep marks nest; what is below is text.
const MAX_DEPTH: usize = 6;
/// The longest address that becomes a link, in bytes.
const MAX_URL: usize = 2_000;
/// The longest text of a link, in bytes.
const MAX_LABEL: usize = 300;
/// The longest run of backticks that begins code.
const MAX_TICKS: usize = 8;

/// A text within one block. It displays as HTML.
pub(super) struct Line<'a>(pub(super) &'a str);

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Code(&'a str),
    Strong(&'a str),
    Emphasis(&'a str),
    Link { text: &'a str, url: &'a str },
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_pieces(self.0, f, 0)
    }
}

/// How many signs of Markdown a text holds: code and strong words are one each, a link is two.
pub(super) fn signs(text: &str) -> usize {
    let weigh = |piece: Piece<'_>| match piece {
        Piece::Link { .. } => 2,
        Piece::Strong(_) | Piece::Code(_) => 1,
        Piece::Text(_) | Piece::Emphasis(_) => 0,
    };
    Pieces::of(text).map(weigh).sum()
}

fn write_pieces(text: &str, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    if depth >= MAX_DEPTH {
        return write!(f, "{}", Visible(text.to_owned()));
    }
    let within = |f: &mut fmt::Formatter<'_>, tag: &str, text: &str| {
        write!(f, "<{tag}>")?;
        write_pieces(text, f, depth + 1)?;
        write!(f, "</{tag}>")
    };
    for piece in Pieces::of(text) {
        match piece {
            Piece::Text(text) => write!(f, "{}", Visible(text.to_owned()))?,
            Piece::Code(text) => write!(f, "<code>{}</code>", Visible(text.to_owned()))?,
            Piece::Strong(text) => within(f, "strong", text)?,
            Piece::Emphasis(text) => within(f, "em", text)?,
            Piece::Link { text, url } => {
                let target = Visible(url.to_owned());
                write!(f, "<a href=\"{target}\" target=\"_blank\" rel=\"noopener noreferrer\">")?;
                // Without links: they do not nest.
                write!(f, "{}</a>", Visible(text.to_owned()))?;
                if text != url {
                    write!(f, " <span class=\"quiet\">({})</span>", Visible(host(url).to_owned()))?;
                }
            }
        }
    }
    Ok(())
}

/// The pieces of a text, one after the other.
struct Pieces<'a> {
    text: &'a str,
    /// Where the next piece begins.
    at: usize,
    /// A piece that was found behind a text.
    next: Option<(Piece<'a>, usize)>,
    /// Marks that have no other half from here on.
    lonely: Vec<&'static str>,
}

const STRONG: [&str; 2] = ["**", "__"];
const EMPHASIS: [&str; 2] = ["*", "_"];
const TICKS: [&str; MAX_TICKS] = ["`", "``", "```", "````", "`````", "``````", "```````", "````````"];

impl<'a> Pieces<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at: 0, next: None, lonely: Vec::new() }
    }

    /// The piece that begins here with a mark, and where it ends.
    fn marked(&mut self, at: usize) -> Option<(Piece<'a>, usize)> {
        let rest = &self.text[at..];
        match rest.as_bytes()[0] {
            b'`' => self.code(at, rest),
            b'*' | b'_' => {
                let strong = STRONG.into_iter().find(|mark| rest.starts_with(mark));
                let strong = strong.and_then(|mark| self.between(at, mark));
                if let Some((text, end)) = strong {
                    return Some((Piece::Strong(text), end));
                }
                let mark = EMPHASIS.into_iter().find(|mark| rest.starts_with(mark))?;
                let (text, end) = self.between(at, mark)?;
                Some((Piece::Emphasis(text), end))
            }
            // A picture stays text: none is loaded.
            b'[' if !self.text[..at].ends_with('!') => self.link(at),
            b'<' if without_scheme(&rest[1..]).is_some() => {
                let end = rest.bytes().take(MAX_URL + 2).position(|byte| byte == b'>')?;
                let url = &rest[1..end];
                is_web(url).then_some((Piece::Link { text: url, url }, at + end + 1))
            }
            _ => None,
        }
    }

    fn code(&mut self, at: usize, rest: &'a str) -> Option<(Piece<'a>, usize)> {
        let count = rest.bytes().take_while(|byte| *byte == b'`').count();
        let ticks = *TICKS.get(count - 1)?;
        if self.lonely.contains(&ticks) {
            return None;
        }
        let mut from = count;
        while let Some(found) = rest[from..].find('`') {
            let start = from + found;
            let run = rest[start..].bytes().take_while(|byte| *byte == b'`').count();
            if run == count {
                let inner = &rest[count..start];
                let bare = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
                return Some((Piece::Code(bare.unwrap_or(inner)), at + start + run));
            }
            from = start + run;
        }
        self.lonely.push(ticks);
        None
    }

    /// What stands between a mark and its other half.
    fn between(&mut self, at: usize, mark: &'static str) -> Option<(&'a str, usize)> {
        let text = self.text;
        let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
        let start = at + mark.len();
        let opens = text[start..].chars().next().is_some_and(|next| !next.is_whitespace());
        let is_within = mark.starts_with('_') && is_word(text[..at].chars().next_back());
        if !opens || is_within || self.lonely.contains(&mark) {
            return None;
        }
        let mut from = start + text[start..].chars().next().map_or(0, char::len_utf8);
        while let Some(found) = text.get(from..).and_then(|rest| rest.find(mark)) {
            let (close, end) = (from + found, from + found + mark.len());
            let follows = text[..close].chars().next_back().is_some_and(|before| !before.is_whitespace());
            let next = text[end..].chars().next();
            let is_longer = next == mark.chars().next() && mark.len() == 1;
            let is_inside = mark.starts_with('_') && is_word(next);
            if follows && !is_longer && !is_inside {
                return Some((&text[start..close], end));
            }
            // A longer run is another mark.
            let run = text[close..].bytes().take_while(|byte| mark.as_bytes()[0] == *byte).count();
            from = close + run.max(1);
        }
        self.lonely.push(mark);
        None
    }

    fn link(&self, at: usize) -> Option<(Piece<'a>, usize)> {
        let label = self.text[at + 1..].bytes().take(MAX_LABEL).position(|byte| byte == b']')?;
        let label = Some(&self.text[at + 1..at + 1 + label]).filter(|label| !label.trim().is_empty())?;
        let start = at + label.len() + 3;
        let rest = self.text.get(start - 1..)?.strip_prefix('(')?;
        without_scheme(rest.trim_start())?;
        let end = rest.bytes().take(MAX_URL + 1).position(|byte| byte == b')')?;
        let url = rest[..end].trim();
        is_web(url).then_some((Piece::Link { text: label, url }, start + end + 1))
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some((piece, end)) = self.next.take() {
            self.at = end;
            return Some(piece);
        }
        let start = self.at;
        let mut at = start;
        while let Some(found) = self.text[at..].find(['`', '*', '_', '[', '<', '\\']) {
            at += found;
            let is_escaped = self.text[at..].starts_with('\\')
                && self.text[at + 1..].starts_with(|next: char| next.is_ascii_punctuation());
            if is_escaped && at == start {
                // The sign behind a backslash is that sign.
                self.at = at + 2;
                return Some(Piece::Text(&self.text[at + 1..at + 2]));
            }
            if is_escaped {
                self.at = at;
                return Some(Piece::Text(&self.text[start..at]));
            }
            if let Some((piece, end)) = self.marked(at) {
                if at == start {
                    self.at = end;
                    return Some(piece);
                }
                self.next = Some((piece, end));
                return Some(Piece::Text(&self.text[start..at]));
            }
            // The whole run is text.
            let mark = self.text.as_bytes()[at];
            at += self.text[at..].bytes().take_while(|byte| *byte == mark).count();
        }
        self.at = self.text.len();
        (start < self.text.len()).then(|| Piece::Text(&self.text[start..]))
    }
}

/// Whether this is an address of the web: http or https, a host, no name or password, nothing that a reader would not see.
fn is_web(url: &str) -> bool {
    let Some(rest) = without_scheme(url) else { return false };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    url.len() <= MAX_URL
        && url.chars().all(|character| character.is_ascii_graphic() && !is_invisible(character))
        && !url.contains(['"', '\'', '<', '>', '\\', '`'])
        && !authority.is_empty()
        && authority.bytes().all(is_host)
}

fn without_scheme(url: &str) -> Option<&str> {
    ["https://", "http://"]
        .into_iter()
        .find(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
        .map(|scheme| &url[scheme.len()..])
}

/// Where a link leads, as people check it.
fn host(url: &str) -> &str {
    let rest = without_scheme(url).unwrap_or(url);
    &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())]
}
