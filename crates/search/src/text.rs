//! From text to index terms: Unicode words, identifiers split and kept joined, stop words, English stems.
//!
//! Documents and queries take the same path, so that what is equal for people is equal for the index.

pub(crate) mod stop;

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};
use toolcrib_base::nearest::{is_apostrophe, is_letter};

pub(crate) use toolcrib_base::nearest::prefix;

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

/// Calls `emit` for each word of the first `bound` bytes of `text`, in order, lower case and unstemmed.
pub(crate) fn read(text: &str, bound: usize, reading: Reading, emit: &mut dyn FnMut(&str, Form)) {
    let mut neighbour: Option<String> = None;
    for chunk in chunks(prefix(text, bound)) {
        let parts = parts(chunk);
        for part in &parts {
            if reading.stop && stop::is_stop_word(part) {
                neighbour = None;
                continue;
            }
            if part.is_ascii() {
                emit(part, Form::Word);
            } else {
                dense_scripts(part, emit);
            }
            if reading.pairs {
                if let Some(before) = neighbour.as_deref().filter(|_| parts.len() != 2 || part == &parts[0]) {
                    emit_joined(&format!("{before}{part}"), emit);
                }
                neighbour = part.is_ascii().then(|| part.clone());
            }
        }
        if (2..=JOIN_PARTS).contains(&parts.len()) && parts.iter().all(|part| part.is_ascii()) {
            emit_joined(&parts.concat(), emit);
        }
    }
}

fn emit_joined(joined: &str, emit: &mut dyn FnMut(&str, Form)) {
    if joined.len() <= TERM_BYTES {
        emit(joined, Form::Joined);
    }
}

/// Words of scripts that do not separate words are given as each two neighbouring characters; others as they are.
fn dense_scripts(part: &str, emit: &mut dyn FnMut(&str, Form)) {
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let is_dense = is_unspaced(first);
        let end = rest.find(|c| is_unspaced(c) != is_dense).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !is_dense || run.len() == first.len_utf8() {
            emit(run, Form::Word);
            continue;
        }
        let starts = run.char_indices().map(|(at, _)| at);
        let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
        starts.zip(ends).for_each(|(start, end)| emit(&run[start..end], Form::Word));
    }
}

/// Han, Kana, Hangul, Thai, Lao, Khmer and Burmese letters.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}')
}

/// English stems of words, remembered: one should be used for many texts.
pub(crate) struct Stems {
    stemmer: Stemmer,
    known: HashMap<String, String>,
}

// === impl Stems ===

impl Default for Stems {
    fn default() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), known: HashMap::new() }
    }
}

impl Stems {
    /// The stem of a lower-case word.
    pub(crate) fn stem(&mut self, word: &str) -> &str {
        // Snowball's English rules are about ASCII letters only.
        let english = word.len() > 2 && word.bytes().all(|b| b.is_ascii_lowercase());
        if self.known.len() >= STEM_CACHE {
            self.known.clear();
        }
        if !self.known.contains_key(word) {
            let stem = if english { self.stemmer.stem(word).into_owned() } else { word.to_owned() };
            self.known.insert(word.to_owned(), stem);
        }
        &self.known[word]
    }
}

/// The lower-case parts of an identifier, each cut at the longest term.
pub(crate) fn parts(chunk: &str) -> Vec<String> {
    let mut parts = toolcrib_base::nearest::parts(chunk);
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

fn is_connector(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | '/')
}

/// A hash for the dictionary (FNV-1a). It need not resist an attacker: who makes a word with the hash of another could
/// as well use the other.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, reading: Reading, expect: &[&str]) {
        let mut terms = Vec::new();
        read(text, 1000, reading, &mut |term, _| terms.push(term.to_owned()));
        assert_eq!(terms, expect, "{text:?}");
    }

    #[test]
    fn identifiers_are_split_and_kept_joined() {
        check("HubSpot", Reading::PROSE, &["hub", "spot", "hubspot"]);
        check("read_file", Reading::NAME, &["read", "file", "readfile"]);
        check("parseHTTPHeader", Reading::PROSE, &["parse", "http", "header", "parsehttpheader"]);
        check("n8n utf-8", Reading::PROSE, &["n8n", "utf", "8", "utf8"]);
        check("hub spot", Reading::QUERY, &["hub", "spot", "hubspot"]);
        check("a/b/c", Reading::NAME, &["a", "b", "ab", "c", "bc", "abc"]);
    }

    #[test]
    fn prose_loses_stop_words_addresses_and_possessives() {
        check("Get the user's tables from https://a.b/c.", Reading::PROSE, &["get", "user", "tables"]);
        check("don’t list", Reading::PROSE, &["list"]);
        check("", Reading::PROSE, &[]);
        check("...---///'''", Reading::NAME, &[]);
    }

    #[test]
    fn other_scripts_and_long_words_pass() {
        check("Größe ÄRGER", Reading::PROSE, &["größe", "ärger"]);
        check("搜索网页 AI搜索 車", Reading::PROSE, &["搜索", "索网", "网页", "ai", "搜索", "車"]);
        check(&"x".repeat(100), Reading::PROSE, &[&"x".repeat(40)]);
        check(&"é".repeat(100), Reading::PROSE, &[&"é".repeat(20)]);
    }
}
