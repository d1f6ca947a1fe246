//! What people say and what tools say for it: a small vocabulary of English and of computing, kept as text in
//! `assets/vocabulary.txt`. It only adds: what a query says itself counts in full, what it stands for counts for less.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::query::QUERY_BYTES;
use crate::text::{self, Stems, hash, prefix, stop};

const TEXT: &str = include_str!("../assets/vocabulary.txt");
/// What a counterpart counts against the word of the query, and one after `~`.
const STRONG: f32 = 0.8;
const WEAK: f32 = 0.4;
/// The longest phrase, in words.
const PHRASE: usize = 4;
/// How much of a query is looked at, in words, and how many entries it may have: a long task has words enough.
const WORDS: usize = 96;
const MATCHES: usize = 12;
/// A query of more words, without stop words, says enough by itself: its counterparts count for less.
const SHORT: f32 = 4.0;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::read(TEXT));

/// A word that tools use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counterpart {
    pub(crate) word: String,
    /// The hash of its stem.
    pub(crate) stem: u64,
    /// How much it counts against the word of the query; below 1.
    pub(crate) weight: f32,
}

/// An entry that a query has.
#[derive(Debug, PartialEq)]
pub(crate) struct Match<'v> {
    /// What the query says, in lower case.
    pub(crate) text: String,
    /// The hash of its stem, where it is one word.
    pub(crate) stem: Option<u64>,
    pub(crate) counterparts: &'v [Counterpart],
    /// What all counterparts are multiplied with in this query.
    pub(crate) share: f32,
}

/// The entries by the stems of their words.
#[derive(Debug, Default)]
struct Vocabulary {
    entries: HashMap<String, Vec<Counterpart>>,
}

/// The entries that a query has, in its order. Of several that begin with the same word the longest counts.
pub(crate) fn matches(text: &str) -> Vec<Match<'static>> {
    VOCABULARY.matches(text)
}

// === impl Counterpart ===

impl Counterpart {
    /// Whether it says nearly the same.
    pub(crate) fn is_strong(&self) -> bool {
        self.weight >= STRONG
    }
}

// === impl Vocabulary ===

impl Vocabulary {
    fn read(text: &str) -> Self {
        let (mut vocabulary, mut stems) = (Self::default(), Stems::default());
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some((left, right)) = line.split_once('>') {
                let (strong, weak) = right.split_once('~').unwrap_or((right, ""));
                for phrase in left.split(',') {
                    strong.split_whitespace().for_each(|word| vocabulary.add(&mut stems, phrase, word, STRONG));
                    weak.split_whitespace().for_each(|word| vocabulary.add(&mut stems, phrase, word, WEAK));
                }
            } else if let Some((left, right)) = line.split_once('=') {
                let all: Vec<&str> = left.split(',').chain(right.split_whitespace()).map(str::trim).collect();
                for phrase in &all {
                    let words = all.iter().filter(|word| !word.contains(' '));
                    words.for_each(|word| vocabulary.add(&mut stems, phrase, word, STRONG));
                }
            }
        }
        vocabulary
    }

    /// A word is no counterpart of itself.
    fn add(&mut self, stems: &mut Stems, phrase: &str, word: &str, weight: f32) {
        let key = words(phrase, PHRASE).map(|word| stems.stem(&word).to_owned()).collect::<Vec<_>>().join(" ");
        let stem = stems.stem(word);
        if key.is_empty() || key == stem {
            return;
        }
        let stem = hash(stem);
        let entry = self.entries.entry(key).or_default();
        match entry.iter_mut().find(|known| known.stem == stem) {
            Some(known) => known.weight = known.weight.max(weight),
            None => entry.push(Counterpart { word: word.to_owned(), stem, weight }),
        }
    }

    fn matches(&self, text: &str) -> Vec<Match<'_>> {
        let mut stems = Stems::default();
        let words: Vec<String> = words(text, WORDS).collect();
        let stems: Vec<String> = words.iter().map(|word| stems.stem(word).to_owned()).collect();
        let said = words.iter().filter(|word| !stop::is_stop_word(word)).count();
        let share = (SHORT / said.max(1) as f32).min(1.0);
        let mut matches = Vec::new();
        let mut at = 0;
        while at < words.len() && matches.len() < MATCHES {
            let longest = (1..=PHRASE.min(words.len() - at)).rev().find_map(|length| {
                let counterparts = self.entries.get(&stems[at..at + length].join(" "))?;
                Some((length, counterparts.as_slice()))
            });
            let Some((length, counterparts)) = longest else {
                at += 1;
                continue;
            };
            let stem = (length == 1).then(|| hash(&stems[at]));
            matches.push(Match { text: words[at..at + length].join(" "), stem, counterparts, share });
            at += length;
        }
        matches
    }
}

/// The lower-case words of a text without articles and possessives: `take a picture` is `take my picture`.
fn words(text: &str, most: usize) -> impl Iterator<Item = String> {
    let words = prefix(text, QUERY_BYTES).split_whitespace().filter(|word| !word.contains("://")).flat_map(text::parts);
    words.filter(|word| !is_determiner(word)).take(most)
}

fn is_determiner(word: &str) -> bool {
    let articles = matches!(word, "a" | "an" | "the" | "this" | "that" | "these" | "those" | "some" | "any");
    articles || matches!(word, "my" | "your" | "our" | "his" | "her" | "their" | "its")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vocabulary: &str, query: &str, expect: &[(&str, &[(&str, f32)])]) {
        let vocabulary = Vocabulary::read(vocabulary);
        let matches = vocabulary.matches(query);
        let found: Vec<(&str, Vec<(&str, f32)>)> = matches
            .iter()
            .map(|found| (&*found.text, found.counterparts.iter().map(|it| (&*it.word, it.weight)).collect()))
            .collect();
        let expect: Vec<_> = expect.iter().map(|(text, words)| (*text, words.to_vec())).collect();
        assert_eq!(found, expect, "{query}");
    }

    #[test]
    fn words_stand_for_others_in_one_direction_or_in_both() {
        check("bug > issue ~ error", "Bugs", &[("bugs", &[("issue", STRONG), ("error", WEAK)])]);
        check("bug > issue", "issue", &[]);
        check("folder, map of files = directory", "directories", &[("directories", &[("folder", STRONG)])]);
        check("folder, map of files = directory", "a folder", &[("folder", &[("directory", STRONG)])]);
        let both: &[(&str, f32)] = &[("folder", STRONG), ("directory", STRONG)];
        check("folder, map of files = directory", "map of my files", &[("map of files", both)]);
    }

    #[test]
    fn the_longest_phrase_counts() {
        let text = "take > grab\ntake picture > screenshot\n# picture > nothing\n\npicture > image";
        check(text, "take a picture", &[("take picture", &[("screenshot", STRONG)])]);
        check(text, "take pictures", &[("take pictures", &[("screenshot", STRONG)])]);
        check(text, "take it, the picture", &[("take", &[("grab", STRONG)]), ("picture", &[("image", STRONG)])]);
    }

    #[test]
    fn long_queries_have_less_of_it_and_a_bounded_number() {
        let vocabulary = Vocabulary::read("bug > issue");
        assert_eq!(vocabulary.matches("the bug of Ann")[0].share, 1.0);
        assert_eq!(vocabulary.matches("bug one two three four five six seven")[0].share, 0.5);
        assert_eq!(vocabulary.matches(&"bug ".repeat(500)).len(), MATCHES);
        assert!(vocabulary.matches(" ?! ").is_empty());
    }

    /// A line that is read as nothing would be a silent loss, a phrase that is too long could never be found.
    #[test]
    fn every_line_of_the_vocabulary_says_something() {
        let lines = TEXT.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            assert_eq!(line.matches(['>', '=']).count(), 1, "{line}");
            let left = line.split(['>', '=']).next().unwrap_or_default();
            for phrase in left.split(',') {
                assert!((1..=PHRASE).contains(&words(phrase, 99).count()), "{phrase} in {line}");
            }
            assert!(!Vocabulary::read(line).entries.is_empty(), "{line}");
        }
        let mut read = VOCABULARY.entries.values().flatten();
        assert!(read.all(|it| !it.word.is_empty() && it.weight < 1.0));
        assert!(matches("take a picture of the page").iter().any(|found| found.text == "take picture"));
    }
}
