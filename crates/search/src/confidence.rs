//! Whether the best hit is what a query means, or merely the nearest there is: a ranking only says which is nearer.

use rust_stemmers::{Algorithm, Stemmer};

use crate::edits::edits;
use crate::query;
use crate::query::QUERY_TERMS;
use crate::text::{parts, prefix, stop};

/// How much of a tool's texts is looked at, in bytes.
const TEXT_BYTES: usize = 4_096;
/// From which share of a query's words on that a tool has.
const HIGH: f32 = 0.7;
const MEDIUM: f32 = 0.3;
/// The same by the cosine of their meanings.
const VERY_NEAR: f32 = 0.7;
const NEAR: f32 = 0.5;
/// A word of so many letters counts as found within a longer one, or with a slip in it.
const LONG: usize = 5;

/// How sure it is that a tool is what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It has few of the words and another meaning: perhaps nothing fits.
    Low,
    /// It has some of the words, or its meaning is near.
    Medium,
    /// It has most of the words, or its meaning is very near.
    High,
}

impl Confidence {
    /// As answers say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Of a tool with these texts (its server's and its own name, description, parameters) for a query, by how many of
    /// the query's words they have. A query without words is about nothing and answered by anything.
    /// Where the words differ the meaning may be clear: it can make surer, never less sure, because names have none.
    /// `near` is [`crate::Hit::near`].
    pub fn of(query: &str, texts: &[&str], near: Option<f32>) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut wanted = words(&query::without_paths(query), &stemmer);
        wanted.truncate(QUERY_TERMS);
        let text = texts.join(" ");
        let text = prefix(&text, TEXT_BYTES);
        let there = words(text, &stemmer);
        let joined: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        let found = wanted.iter().filter(|word| is_in(word, &there, &joined)).count();
        let share = if wanted.is_empty() { 1.0 } else { found as f32 / wanted.len() as f32 };
        let by_words = match share {
            HIGH.. => Self::High,
            MEDIUM.. => Self::Medium,
            _ => Self::Low,
        };
        let by_meaning = match near.unwrap_or_default() {
            VERY_NEAR.. => Self::High,
            NEAR.. => Self::Medium,
            _ => Self::Low,
        };
        by_words.max(by_meaning)
    }
}

/// The stems of the words that mean something, each once.
fn words(text: &str, stemmer: &Stemmer) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split_whitespace().flat_map(parts).filter(|part| !stop::is_stop_word(part)) {
        let stem = if part.is_ascii() { stemmer.stem(&part).into_owned() } else { part };
        if !words.contains(&stem) {
            words.push(stem);
        }
    }
    words
}

fn is_in(word: &str, there: &[String], joined: &str) -> bool {
    // Scripts without spaces give long parts.
    if there.iter().any(|known| known == word) || (word.len() >= LONG && joined.contains(word)) {
        return true;
    }
    let letters: Vec<char> = word.chars().collect();
    let slips = match letters.len() {
        0..LONG => return false,
        LONG..8 => 1,
        _ => 2,
    };
    there.iter().any(|known| {
        let known: Vec<char> = known.chars().collect();
        known.len() >= LONG && known.len().abs_diff(letters.len()) <= slips && edits(&letters, &known, slips).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_words_are_there_the_surer() {
        let texts = ["linear", "linear_get_user_issues", "Get issues assigned to a user", "(userId?, limit?)"];
        for (query, expect) in [
            ("linear issues assigned to user", Confidence::High),
            ("Please get me the ISSUES of a user", Confidence::High),
            ("limear issues assigend to user", Confidence::High),
            ("linear_get_user_issues", Confidence::High),
            ("getUserIssues", Confidence::High),
            ("issues of a pull request", Confidence::Medium),
            ("brew a cup of strong coffee", Confidence::Low),
            ("", Confidence::High),
            ("the of", Confidence::High),
        ] {
            assert_eq!(Confidence::of(query, &texts, None), expect, "{query}");
        }
        assert_eq!(Confidence::of("hubspot contact", &["HubSpot", "create-contact"], Some(0.1)), Confidence::High);
        assert_eq!(Confidence::of("搜索", &["使用必应搜索指定的关键词"], None), Confidence::High);
        assert_eq!(Confidence::of(&"x ".repeat(100_000), &[&"y ".repeat(100_000)], None), Confidence::Low);
        for (near, expect) in
            [(-0.3, Confidence::Low), (0.45, Confidence::Low), (0.55, Confidence::Medium), (0.8, Confidence::High)]
        {
            let sure = Confidence::of("which bugs do I have to fix", &texts, Some(near));
            assert_eq!(sure, expect, "{near}");
            let named = Confidence::of("linear_get_user_issues", &texts, Some(near));
            assert_eq!(named, Confidence::High, "{near}: other meanings take nothing from names");
        }
    }
}
