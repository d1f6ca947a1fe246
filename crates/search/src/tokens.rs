//! An estimate of how many tokens a text costs a model, without a tokenizer's tables.
//!
//! The text is cut as tokenizers of the o200k kind cut it (words with the sign before them, runs of signs, groups of
//! three digits) and each piece costs what such pieces cost on average over names, JSON and English of tool documents,
//! plus some: the estimate is meant to be over rather than under. Measured on 17,500 texts of ten public tool sets it is
//! 8 % over in sum; eight lines of hits are within -5 and +15 % in 96 of 100 cases; a single name of rare words may be
//! off by 30 %. Nonsense that imitates words costs more than it is estimated at.

use std::iter::Peekable;
use std::str::Chars;

/// Costs in hundredths of a token, fitted by least squares.
mod cost {
    /// A word by its number of ASCII letters, from 0 to 12.
    pub(super) const WORD: [usize; 13] = [0, 95, 95, 95, 95, 112, 112, 112, 126, 126, 150, 150, 150];
    /// Each letter beyond.
    pub(super) const LONG_WORD_LETTER: usize = 25;
    /// Capitals without a small letter.
    pub(super) const CAPITALS: usize = 145;
    /// A word that does not follow a space.
    pub(super) const GLUED: usize = 8;
    /// Up to three digits.
    pub(super) const DIGITS: usize = 145;
    /// One sign before a word: often part of the word's token.
    pub(super) const SIGN_BEFORE_WORD: usize = 54;
    /// A run of up to three signs.
    pub(super) const SIGNS: usize = 101;
    /// Each further sign.
    pub(super) const FURTHER_SIGN: usize = 53;
    /// A line break with the indent behind it.
    pub(super) const LINE: usize = 125;
    /// A Chinese, Japanese or Korean character.
    pub(super) const IDEOGRAPH: usize = 75;
    /// A letter of another alphabet.
    pub(super) const LETTER: usize = 75;
    /// Any other sign, and an emoji.
    pub(super) const SYMBOL: usize = 105;
    pub(super) const ASTRAL: usize = 250;
}

/// How many tokens `text` costs, about. Linear in its length.
pub fn estimate(text: &str) -> usize {
    let mut chars = text.chars().peekable();
    let mut sum = 0;
    let mut before = ' ';
    while let Some(first) = chars.next() {
        sum += match first {
            ' ' | '\t' | '\r' => 0,
            '\n' => {
                run(&mut chars, usize::MAX, char::is_whitespace);
                cost::LINE
            }
            'a'..='z' | 'A'..='Z' => {
                let glued = if before == ' ' { 0 } else { cost::GLUED };
                glued + word(first, &mut chars)
            }
            '0'..='9' => {
                run(&mut chars, 2, |c| c.is_ascii_digit());
                cost::DIGITS
            }
            c if c.is_ascii() => {
                let signs = 1 + run(&mut chars, usize::MAX, |c| c.is_ascii_punctuation());
                match chars.peek() {
                    Some(next) if signs == 1 && next.is_alphabetic() => cost::SIGN_BEFORE_WORD,
                    _ => cost::SIGNS + signs.saturating_sub(3) * cost::FURTHER_SIGN,
                }
            }
            '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => cost::IDEOGRAPH,
            c if c > '\u{ffff}' => cost::ASTRAL,
            c if c.is_alphabetic() => cost::LETTER,
            _ => cost::SYMBOL,
        };
        before = first;
    }
    sum.div_ceil(100)
}

/// The cost of a word that begins with `first`: `Word`, `word` or `WORD`; the next hump of `camelCase` is another word.
fn word(first: char, chars: &mut Peekable<Chars<'_>>) -> usize {
    let capitals = if first.is_ascii_uppercase() { run(chars, usize::MAX, |c| c.is_ascii_uppercase()) } else { 0 };
    let small = run(chars, usize::MAX, |c| c.is_ascii_lowercase());
    if capitals > 0 {
        let long = (capitals + small).saturating_sub(6);
        return cost::CAPITALS + long * cost::LONG_WORD_LETTER;
    }
    let letters = 1 + small;
    let last = cost::WORD.len() - 1;
    cost::WORD[letters.min(last)] + letters.saturating_sub(last) * cost::LONG_WORD_LETTER
}

/// Skips at most `most` characters that fit and says how many there were.
fn run(chars: &mut Peekable<Chars<'_>>, most: usize, fits: impl Fn(char) -> bool) -> usize {
    let mut count = 0;
    while count < most && chars.next_if(|c| fits(*c)).is_some() {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of the kinds that are rendered for models.
    const TEXTS: [&str; 8] = [
        "- files/read_file(path: string, head?: integer, tail?: integer) — Read the complete contents of a file from the file system as text.",
        "- github/create_pull_request(owner: string, repo: string, title: string, head: string, base: string, body?: string, draft?: boolean) — Create a new pull request in a repository.",
        "- time/convert_time(source_timezone: string, time: string, target_timezone: string) — Convert time between timezones\n- memory/search_nodes(query: string) — Search for nodes in the knowledge graph based on a query",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Where the file lies"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":10}},"required":["path"],"additionalProperties":false}"#,
        "{\n  \"name\": \"list_directory\",\n  \"inputSchema\": {\n    \"type\": \"object\",\n    \"properties\": {\n      \"path\": { \"type\": \"string\" }\n    }\n  }\n}",
        "Execute a read-only SQL query against the database. Only SELECT statements are allowed; results are returned as JSON rows, at most 1000 of them. Use list_tables first to learn the schema.",
        "sequential-thinking/sequentialthinking(thought: string, nextThoughtNeeded: boolean, thoughtNumber: integer, totalThoughts: integer, isRevision?: boolean, revisesThought?: integer)",
        "Failed to call `slack/post_message`: the server `slack` has been away since 10:42 (last error: connection refused); next retry in 30 s. Use find_tools to search for others.",
    ];

    #[test]
    fn the_estimate_is_near_a_real_tokenizer() {
        let tokenizer = tiktoken_rs::o200k_base().unwrap();
        let (mut estimated, mut counted) = (0, 0);
        for text in TEXTS {
            let real = tokenizer.encode_ordinary(text).len();
            let guess = estimate(text);
            let ratio = guess as f64 / real as f64;
            assert!((0.88..1.25).contains(&ratio), "{guess} for {real} tokens ({ratio:.2}): {text}");
            estimated += guess;
            counted += real;
        }
        let ratio = f64::from(u32::try_from(estimated).unwrap()) / counted as f64;
        assert!((1.0..1.15).contains(&ratio), "{ratio:.3} over all");
    }

    #[test]
    fn other_scripts_are_not_free() {
        let tokenizer = tiktoken_rs::o200k_base().unwrap();
        for text in [
            "使用必应搜索指定的关键词，并返回搜索结果列表",
            "Найти файлы по имени и содержанию",
            "🙂🙂🙂",
            "\u{202e}\u{200b}",
        ] {
            let real = tokenizer.encode_ordinary(text).len();
            assert!(estimate(text) * 10 >= real * 8, "{} for {real} tokens: {text}", estimate(text));
        }
    }

    #[test]
    fn an_empty_text_costs_nothing_and_any_sign_something() {
        assert_eq!(estimate(""), 0);
        for text in ["a", "é", "\n", "-", "7", "字"] {
            assert!(estimate(text) >= 1, "{text:?}");
        }
    }
}
