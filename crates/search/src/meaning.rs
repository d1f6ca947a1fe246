//! The component of meaning: a text's vector is the sum of its word pieces' rows in a table that was learned from names
//! and descriptions of tools; near vectors mean near texts. No inference, no network.

mod outside;
mod pieces;
mod table;
mod tools;
mod vector;

pub use outside::{Meaning, QueryVectors, TextKey, ToolVectors, VECTOR_DIMENSIONS};
pub use pieces::plain_letter;
use pieces::{Pieces, TextPieces};
use table::Piece;
pub(crate) use table::Table;
pub(crate) use tools::Meanings;
pub use tools::tool_texts;

use crate::query::{self, QUERY_BYTES};
use crate::text::prefix;
use crate::vocabulary::Match;
use vector::{QueryVector, Vectors};

/// How many word pieces of a query are read.
const QUERY_PIECES: usize = 128;
/// What a query in another language than the table's is trusted.
const FOREIGN: f32 = 0.7;
/// A query is English if at least this share of its words are pieces as a whole. Names and slips are not.
const ENGLISH: f32 = 0.4;

/// How far what tools say for what the query says moves its vector, as a share of its length.
const MOVED: f32 = 0.6;

/// A query's text, as a whole and in clauses.
pub(crate) struct Reading {
    wanted: Vec<QueryVector>,
    trust: f32,
}

// === impl Reading ===

impl Reading {
    /// Reads a query. `matches` is what the vocabulary has of it, `correct` says what a lower-case word was meant to
    /// be, if it is none.
    pub(crate) fn new<'c>(text: &str, matches: &[Match<'_>], correct: impl Fn(&str) -> Option<&'c str>) -> Self {
        let Some(table) = Table::embedded() else { return Self { wanted: Vec::new(), trust: 0.0 } };
        let text = corrected(prefix(text, QUERY_BYTES), correct);
        let mut pieces = Pieces::new(table);
        let mut whole = TextPieces::default();
        pieces.read(&text, QUERY_PIECES, &mut whole);
        let trust = trust(&text, &whole);
        if trust == 0.0 {
            return Self { wanted: Vec::new(), trust };
        }
        let mut said = TextPieces::default();
        let counterparts = matches.iter().flat_map(|found| found.counterparts).filter(|other| other.is_strong());
        counterparts.for_each(|other| pieces.read(&other.word, QUERY_PIECES, &mut said));
        let share = MOVED * matches.first().map_or(0.0, |found| found.share);
        let mut wanted: Vec<QueryVector> =
            QueryVector::towards(&table, &whole.pieces, &said.pieces, share).into_iter().collect();
        for clause in query::clauses(&text) {
            let mut read = TextPieces::default();
            pieces.read(&clause, QUERY_PIECES, &mut read);
            wanted.extend(QueryVector::new(&table, &read.pieces));
        }
        Self { wanted, trust }
    }

    /// From 0 to 1: how much the table knows of the query's language; 0 where there is nothing to compare.
    pub(crate) fn trust(&self) -> f32 {
        if self.wanted.is_empty() { 0.0 } else { self.trust }
    }

    /// Compares with the tools of one server: appends for each the highest cosine with the text or one of its clauses,
    /// `f32::MIN` for those that are not `shown` and those without a text.
    pub(crate) fn compare(&self, tools: &Meanings, shown: impl Fn(usize) -> bool, cosines: &mut Vec<f32>) {
        tools.vectors().nearest(&self.wanted, shown, cosines);
    }
}

/// The texts of a query that a model should read: the whole with its slips corrected, then its clauses.
pub(crate) fn query_texts<'c>(text: &str, correct: impl Fn(&str) -> Option<&'c str>) -> Vec<String> {
    let text = corrected(prefix(text, QUERY_BYTES), correct);
    if text.trim().is_empty() {
        return Vec::new();
    }
    let clauses = query::clauses(&text);
    std::iter::once(text).chain(clauses).collect()
}

/// The text with words replaced by what they were meant to be.
fn corrected<'c>(text: &str, correct: impl Fn(&str) -> Option<&'c str>) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        out.push_str(correct(&word.to_lowercase()).unwrap_or(word));
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// The table is English: other scripts say nothing to it, other languages little.
fn trust(text: &str, read: &TextPieces) -> f32 {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (latin, other) =
        letters.fold((0, 0), |(latin, other), c| if c <= '\u{24f}' { (latin + 1, other) } else { (latin, other + 1) });
    if other > latin || read.whole == 0 {
        0.0
    } else if (read.whole as f32) < ENGLISH * read.words as f32 {
        FOREIGN
    } else {
        1.0
    }
}
