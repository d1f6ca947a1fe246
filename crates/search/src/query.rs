//! A query's text as terms with counts.

use crate::rank::{QUERY_BYTES, QUERY_TERMS};
use crate::segment;
use crate::text::{self, Form, Reading, Stems};

/// One distinct term of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    /// The word as it was first written, in lower case.
    pub(crate) word: String,
    /// The hash of its stem.
    pub(crate) stem: u64,
    /// Whether it is two neighbours, or the parts of an identifier, written as one.
    pub(crate) joined: bool,
    /// How often it occurs; joined forms count for less, see [`JOINED`].
    pub(crate) count: f32,
}

/// What a joined form counts: it is rare, hence heavy, and repeats what its parts say.
const JOINED: f32 = 0.3;

/// The distinct terms of a text in the order of their first occurrence. When all words are stop words they count.
pub(crate) fn terms(text: &str) -> Vec<QueryTerm> {
    let terms = read(text, Reading::QUERY);
    if terms.is_empty() { read(text, Reading::NAME) } else { terms }
}

fn read(text: &str, reading: Reading) -> Vec<QueryTerm> {
    let mut terms: Vec<QueryTerm> = Vec::new();
    let mut stems = Stems::default();
    text::read(text, QUERY_BYTES, reading, &mut |word, form| {
        let joined = form == Form::Joined;
        let count = if joined { JOINED } else { 1.0 };
        let stem = segment::hash(stems.stem(word));
        if let Some(known) = terms.iter_mut().find(|known| known.stem == stem) {
            known.count += count;
            known.joined &= joined;
        } else if terms.len() < QUERY_TERMS {
            terms.push(QueryTerm { word: word.to_owned(), stem, joined, count });
        }
    });
    terms
}

/// How many clauses a text has at most, of how many pieces they are made, and how many words make a piece.
const CLAUSES: usize = 8;
const MOST_PIECES: usize = 64;
const PIECE_WORDS: usize = 3;
/// A text of fewer words is one thought.
const LONG: usize = 12;

/// The clauses of a text, if it has several: a long task names several tools, one after the other.
pub(crate) fn clauses(text: &str) -> Vec<String> {
    if text.split_whitespace().count() < LONG {
        return Vec::new();
    }
    let sentences = text.split(['.', '!', '?', ';', ',', '\n']);
    let parts = sentences.flat_map(|sentence| sentence.split(" and ")).flat_map(|part| part.split(" then "));
    let clauses = parts.map(str::trim).filter(|part| part.split_whitespace().count() >= PIECE_WORDS);
    let clauses: Vec<&str> = clauses.take(MOST_PIECES).collect();
    if clauses.len() < 2 {
        return Vec::new();
    }
    // Too many: neighbours are taken together.
    let together = clauses.len().div_ceil(CLAUSES);
    clauses.chunks(together).map(|chunk| chunk.join(", ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        terms(text).into_iter().map(|term| term.word).collect()
    }

    #[test]
    fn terms_are_distinct_and_bounded() {
        assert_eq!(texts("list the lists"), ["list"]);
        assert_eq!(terms("list the list")[0].count, 2.0);
        let many: String = (0..500).map(|n| format!("w{n}x ")).collect();
        assert_eq!(terms(&many).len(), QUERY_TERMS);
        assert!(terms(&"é".repeat(5000)).len() <= 2);
    }

    #[test]
    fn long_texts_have_clauses() {
        assert_eq!(
            clauses("Find the invoice, then send it to Ann and log it now."),
            ["Find the invoice", "send it to Ann", "log it now"]
        );
        assert!(clauses("find the invoice of may, log it now").is_empty());
        assert_eq!(clauses(&"one two three. ".repeat(80)).len(), CLAUSES);
    }

    #[test]
    fn only_stop_words_are_better_than_nothing() {
        assert_eq!(texts("who is"), ["who", "is", "whois"]);
        assert!(texts(" \n!?").is_empty());
    }
}
