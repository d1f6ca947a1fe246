//! From text to index terms: Unicode words, identifiers split and kept joined, stop words, English stems.
//!
//! Documents and queries take the same path, so that what is equal for people is equal for the index.

pub(crate) mod stop;

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

/// Longer words are cut here, in bytes: base64 and hashes in descriptions are no vocabulary.
const TERM_BYTES: usize = 40;
/// An identifier of more parts is a path or a sentence; it is not kept joined.
const JOIN_PARTS: usize = 6;
/// How many distinct words the memory of stems holds.
const STEM_CACHE: usize = 50_000;

/// How a field is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Leave stop words out.
    pub(crate) stop: bool,
    /// Also join each two neighbouring words (`hub spot` gives `hubspot`). For short texts.
    pub(crate) pairs: bool,
}

impl Reading {
    /// Descriptions.
    pub(crate) const PROSE: Self = Self { stop: true, pairs: false };
    /// Names and titles: every word counts.
    pub(crate) const NAME: Self = Self { stop: false, pairs: true };
    /// What a caller asks.
    pub(crate) const QUERY: Self = Self { stop: true, pairs: true };
}

/// What a term is in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A word, or a part of an identifier.
    Word,
    /// Parts or neighbours written as one; not counted in a field's length.
    Joined,
}

/// Turns texts into terms; remembers stems, so one analyser should read many texts.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    stems: HashMap<String, String>,
}

// === impl Analyzer ===

impl Default for Analyzer {
    fn default() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), stems: HashMap::new() }
    }
}

impl Analyzer {
    /// Calls `emit` for each term of the first `bound` bytes of `text`, in order.
    pub(crate) fn read(&mut self, text: &str, bound: usize, reading: Reading, emit: &mut dyn FnMut(&str, Form)) {
        let text = prefix(text, bound);
        let mut neighbour: Option<String> = None;
        for chunk in chunks(text) {
            let parts = parts(chunk);
            for part in &parts {
                if reading.stop && stop::is_stop_word(part) {
                    neighbour = None;
                    continue;
                }
                emit(self.stem(part), Form::Word);
                if reading.pairs {
                    if let Some(before) = neighbour.as_deref().filter(|_| parts.len() != 2 || part == &parts[0]) {
                        let joined = format!("{before}{part}");
                        self.emit_joined(&joined, emit);
                    }
                    neighbour = Some(part.clone());
                }
            }
            if (2..=JOIN_PARTS).contains(&parts.len()) {
                self.emit_joined(&parts.concat(), emit);
            }
        }
    }

    fn emit_joined(&mut self, joined: &str, emit: &mut dyn FnMut(&str, Form)) {
        if joined.len() <= TERM_BYTES {
            emit(self.stem(joined), Form::Joined);
        }
    }

    fn stem(&mut self, word: &str) -> &str {
        if self.stems.len() >= STEM_CACHE {
            self.stems.clear();
        }
        if !self.stems.contains_key(word) {
            // Snowball's English rules are about ASCII letters only.
            let english = word.len() > 2 && word.bytes().all(|b| b.is_ascii_lowercase());
            let stem = if english { self.stemmer.stem(word).into_owned() } else { word.to_owned() };
            self.stems.insert(word.to_owned(), stem);
        }
        &self.stems[word]
    }
}

/// The lower-case parts of an identifier: cut at `_ - . /` and other signs, and at changes of case.
pub(crate) fn parts(chunk: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for word in chunk.split(|c| !(is_letter(c) || is_apostrophe(c))) {
        let mut part = String::new();
        let mut letters = word.chars().filter(|c| !is_apostrophe(*c)).peekable();
        let mut before: Option<char> = None;
        while let Some(letter) = letters.next() {
            let follows_lower = before.is_some_and(|b| b.is_lowercase() || b.is_numeric());
            let ends_acronym =
                before.is_some_and(char::is_uppercase) && letters.peek().is_some_and(|next| next.is_lowercase());
            if letter.is_uppercase() && (follows_lower || ends_acronym) && !part.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
            part.extend(letter.to_lowercase());
            before = Some(letter);
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    for part in &mut parts {
        let end = prefix(part, TERM_BYTES).len();
        part.truncate(end);
    }
    parts
}

/// Runs of words and the connectors between them. Possessive endings and web addresses are left out.
fn chunks(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace()).filter(|piece| !piece.contains("://")).flat_map(|piece| {
        piece.split(|c: char| !(is_letter(c) || is_connector(c) || is_apostrophe(c))).filter_map(|run| {
            let run = run.trim_matches(|c| is_connector(c) || is_apostrophe(c));
            let run = run.strip_suffix("'s").or_else(|| run.strip_suffix("’s")).unwrap_or(run);
            (!run.is_empty()).then_some(run)
        })
    })
}

/// Letters and digits of every script, and the marks that combine with them.
fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}')
}

fn is_connector(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | '/')
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// The longest prefix of at most `bound` bytes that ends at a character.
pub(crate) fn prefix(text: &str, bound: usize) -> &str {
    let mut end = bound.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, reading: Reading, expect: &[&str]) {
        let mut terms = Vec::new();
        Analyzer::default().read(text, 1000, reading, &mut |term, _| terms.push(term.to_owned()));
        assert_eq!(terms, expect, "{text:?}");
    }

    #[test]
    fn identifiers_are_split_and_kept_joined() {
        check("HubSpot", Reading::PROSE, &["hub", "spot", "hubspot"]);
        check("read_file", Reading::NAME, &["read", "file", "readfil"]);
        check("parseHTTPHeader", Reading::PROSE, &["pars", "http", "header", "parsehttphead"]);
        check("n8n utf-8", Reading::PROSE, &["n8n", "utf", "8", "utf8"]);
        check("hub spot", Reading::QUERY, &["hub", "spot", "hubspot"]);
        check("a/b/c", Reading::NAME, &["a", "b", "ab", "c", "bc", "abc"]);
    }

    #[test]
    fn prose_loses_stop_words_addresses_and_possessives() {
        check("Get the user's tables from https://a.b/c.", Reading::PROSE, &["get", "user", "tabl"]);
        check("don’t list", Reading::PROSE, &["list"]);
        check("", Reading::PROSE, &[]);
        check("...---///'''", Reading::NAME, &[]);
    }

    #[test]
    fn other_scripts_and_long_words_pass() {
        check("Größe ÄRGER", Reading::PROSE, &["größe", "ärger"]);
        check(&"x".repeat(100), Reading::PROSE, &[&"x".repeat(40)]);
        check(&"é".repeat(100), Reading::PROSE, &[&"é".repeat(20)]);
    }
}
