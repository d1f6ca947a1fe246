//! The plain ranking: term frequency times inverse document frequency over names and descriptions, as profiles of the
//! go-ent dialect have it. No stems, no fields, no meaning; a word that all tools have counts nothing.

use std::collections::HashMap;

use crate::document::Document;
use crate::index::{Frame, Mask};
use crate::rank::QUERY_BYTES;
use crate::segment;
use crate::text::prefix;

/// Words that are left out. Shorter than the list of the other ranking, because this one is given.
const STOP_WORDS: [&str; 25] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "he", "in", "is", "it", "its", "of", "on",
    "or", "that", "the", "to", "was", "will", "with",
];
/// How much of a description is read, in bytes.
const BYTES: usize = 8 * 1024;

/// The words of one server's tools.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// Hash of the word, tool, and its share of the tool's words; sorted.
    postings: Box<[(u64, u32, f32)]>,
}

/// Runs of letters and numbers in lower case that are no stop words and longer than a byte.
fn words(text: &str) -> impl Iterator<Item = u64> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words
        .filter(|word| word.len() > 1 && STOP_WORDS.binary_search(&word.as_str()).is_err())
        .map(|it| segment::hash(&it))
}

/// One score per place. A word counts as often as the query has it.
pub(crate) fn score(frame: &Frame, mask: &Mask, text: &str) -> Vec<f32> {
    let mut scores = vec![0.0; frame.len()];
    let mut wanted: Vec<(u64, f32)> = Vec::new();
    for word in words(prefix(text, QUERY_BYTES)) {
        match wanted.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1.0,
            None => wanted.push((word, 1.0)),
        }
    }
    for (word, count) in wanted {
        let mut found: Vec<(usize, f32)> = Vec::new();
        for (at, segment) in frame.segments.iter().enumerate() {
            let postings = segment.plain().of(word).iter().filter(|posting| mask.shows(at, posting.1 as usize));
            found.extend(postings.map(|(_, tool, share)| (frame.base(at) + *tool as usize, *share)));
        }
        let idf = (mask.total() as f32 / found.len().max(1) as f32).ln();
        for (place, share) in found {
            scores[place] += count * share * idf;
        }
    }
    scores
}

// === impl Plain ===

impl Plain {
    /// Reads the tools in the order of their numbers.
    pub(crate) fn new(tools: &[&Document<'_>]) -> Self {
        let mut postings = Vec::new();
        for (tool, number) in tools.iter().zip(0..) {
            let mut counts: HashMap<u64, f32> = HashMap::new();
            for word in words(&tool.tool).chain(words(prefix(tool.description, BYTES))) {
                *counts.entry(word).or_default() += 1.0;
            }
            let total: f32 = counts.values().sum();
            postings.extend(counts.into_iter().map(|(word, count)| (word, number, count / total)));
        }
        postings.sort_unstable_by_key(|posting| (posting.0, posting.1));
        Self { postings: postings.into() }
    }

    fn of(&self, word: u64) -> &[(u64, u32, f32)] {
        let start = self.postings.partition_point(|posting| posting.0 < word);
        let count = self.postings[start..].iter().take_while(|posting| posting.0 == word).count();
        &self.postings[start..start + count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_without_stop_words() {
        assert!(STOP_WORDS.is_sorted());
        let check = |text: &str, expect: &[&str]| {
            let expect: Vec<u64> = expect.iter().map(|word| segment::hash(word)).collect();
            assert_eq!(words(text).collect::<Vec<_>>(), expect, "{text}");
        };
        check("The spec_validate tool, a 'x' é", &["spec", "validate", "tool", "é"]);
        check("go_ent_ReadFile2", &["go", "ent", "readfile2"]);
        check(" of the ", &[]);
    }
}
