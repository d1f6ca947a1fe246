//! The words of one server's tools as the plain ranking counts them: no stems, no fields. `tfidf` makes scores of them.

use std::collections::HashMap;

use crate::document::Document;
use crate::text::{hash, prefix};

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

/// The hashes of the runs of letters and numbers in lower case that are no stop words and longer than a byte.
pub(crate) fn words(text: &str) -> impl Iterator<Item = u64> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.len() > 1 && STOP_WORDS.binary_search(&word.as_str()).is_err()).map(|it| hash(&it))
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

    /// The postings of a word by its hash, in the order of the tools.
    pub(crate) fn postings(&self, word: u64) -> &[(u64, u32, f32)] {
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
            let expect: Vec<u64> = expect.iter().map(|word| hash(word)).collect();
            assert_eq!(words(text).collect::<Vec<_>>(), expect, "{text}");
        };
        check("The spec_validate tool, a 'x' é", &["spec", "validate", "tool", "é"]);
        check("go_ent_ReadFile2", &["go", "ent", "readfile2"]);
        check(" of the ", &[]);
    }
}
