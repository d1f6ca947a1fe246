//! The tokenizer of a model: WordPiece as `tokenizer.json` describes it. Words in lower case without accents, signs
//! alone, then the longest known piece first.

use std::collections::HashMap;

use serde_json::Value;

/// How many tokens of a text are read, with the two at its ends.
const TOKENS: usize = 256;
/// A word of more letters is unknown, as in BERT.
const WORD_LETTERS: usize = 100;

/// A vocabulary with its special tokens.
#[derive(Debug)]
pub(crate) struct Pieces {
    vocabulary: HashMap<String, i32>,
    lower: bool,
    unknown: i32,
    start: i32,
    end: i32,
}

// === impl Pieces ===

impl Pieces {
    /// Reads the content of a `tokenizer.json`; says what is wrong with it.
    pub(crate) fn read(content: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(content).map_err(|error| format!("it is no JSON: {error}"))?;
        let model = &file["model"];
        // Old files do not name the kind; WordPiece is what has this prefix.
        if model["type"].as_str().is_some_and(|kind| kind != "WordPiece")
            || model["continuing_subword_prefix"].as_str() != Some("##")
        {
            return Err("it is not a WordPiece vocabulary with the prefix `##`".to_owned());
        }
        let entries = model["vocab"].as_object().ok_or("it has no `model.vocab`")?;
        let number = |(piece, id): (&String, &Value)| Some((piece.clone(), i32::try_from(id.as_i64()?).ok()?));
        let vocabulary: HashMap<String, i32> = entries.iter().filter_map(number).collect();
        let special = |name: &str| vocabulary.get(name).copied().ok_or(format!("its vocabulary has no `{name}`"));
        let (unknown, start, end) = (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        let lower = file["normalizer"]["lowercase"].as_bool().unwrap_or(true);
        Ok(Self { vocabulary, lower, unknown, start, end })
    }

    /// The tokens of a text, from the start token to the end token.
    pub(crate) fn tokens(&self, text: &str) -> Vec<i32> {
        let mut tokens = vec![self.start];
        let mut word = String::new();
        for letter in text.chars().chain([' ']) {
            if tokens.len() >= TOKENS {
                break;
            }
            if letter.is_alphanumeric() && !is_alone(letter) {
                self.push(letter, &mut word);
                continue;
            }
            if matches!(letter, '\u{300}'..='\u{36f}') {
                continue;
            }
            self.word(&word, &mut tokens);
            word.clear();
            if !letter.is_whitespace() && !letter.is_control() {
                let mut buffer = [0; 4];
                let sign: &str = letter.encode_utf8(&mut buffer);
                tokens.push(self.vocabulary.get(sign).copied().unwrap_or(self.unknown));
            }
        }
        tokens.truncate(TOKENS - 1);
        tokens.push(self.end);
        tokens
    }

    fn push(&self, letter: char, word: &mut String) {
        if self.lower {
            let lower = letter.to_lowercase().map(toolcrib_search::plain_letter);
            word.extend(lower);
        } else {
            word.push(letter);
        }
    }

    fn word(&self, word: &str, tokens: &mut Vec<i32>) {
        if word.is_empty() {
            return;
        }
        let before = tokens.len();
        let mut start = 0;
        let mut piece = String::new();
        let fits = word.chars().count() <= WORD_LETTERS;
        while start < word.len() {
            let found = word[start..].char_indices().rev().filter(|_| fits).find_map(|(at, letter)| {
                let end = start + at + letter.len_utf8();
                piece.clear();
                piece.push_str(if start == 0 { "" } else { "##" });
                piece.push_str(&word[start..end]);
                Some((*self.vocabulary.get(&piece)?, end))
            });
            let Some((token, end)) = found else {
                tokens.truncate(before);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(token);
            start = end;
        }
    }
}

/// Han characters are their own words.
fn is_alone(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Pieces {
        let words = ["[UNK]", "[CLS]", "[SEP]", "read", "cafe", "geo", "##code", ".", "中"];
        let vocab: serde_json::Map<String, Value> =
            words.iter().zip(0..).map(|(w, at)| ((*w).into(), at.into())).collect();
        let file =
            serde_json::json!({ "model": { "type": "WordPiece", "continuing_subword_prefix": "##", "vocab": vocab } });
        Pieces::read(file.to_string().as_bytes()).unwrap()
    }

    fn check(text: &str, expect: &[i32]) {
        assert_eq!(pieces().tokens(text), expect, "{text}");
    }

    #[test]
    fn texts_become_tokens() {
        check("Read café.", &[1, 3, 4, 7, 2]);
        check("geocode 中中", &[1, 5, 6, 8, 8, 2]);
        check("geox read", &[1, 0, 3, 2]);
        check("", &[1, 2]);
        check(&"read".repeat(100), &[1, 0, 2]);
    }

    #[test]
    fn the_bound_holds() {
        let tokens = pieces().tokens(&"geocode ".repeat(1000));
        assert_eq!((tokens.len(), tokens.last()), (TOKENS, Some(&2)));
    }

    #[test]
    fn other_tokenizers_are_refused() {
        let no = |content: &str| Pieces::read(content.as_bytes()).unwrap_err();
        assert!(no("{").contains("no JSON"));
        assert!(no(r#"{"model":{"type":"BPE"}}"#).contains("WordPiece"));
        assert!(no(r###"{"model":{"continuing_subword_prefix":"##","vocab":{}}}"###).contains("[UNK]"));
    }
}
