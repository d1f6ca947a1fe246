//! From text to word pieces, as the table's vocabulary was made: lower case without accents, cut at spaces and signs,
//! then the longest known piece first.

use std::collections::HashMap;

use super::{Piece, Table};

/// A word of more bytes is nothing the table knows.
const WORD_BYTES: usize = 64;

/// Reads texts; remembers words, so one should read many.
#[derive(Debug)]
pub(crate) struct Pieces {
    table: Table,
    known: HashMap<String, Box<[Piece]>>,
    /// A word with `##` before it, for looking up.
    buffer: Vec<u8>,
}

/// What was read of a text.
#[derive(Debug, Default, Clone)]
pub(crate) struct TextPieces {
    pub(crate) pieces: Vec<Piece>,
    /// How many words had at least three letters, and how many of these are pieces as a whole, which English words are
    /// and others seldom.
    pub(crate) words: usize,
    pub(crate) whole: usize,
}

// === impl Pieces ===

impl Pieces {
    pub(crate) fn new(table: Table) -> Self {
        Self { table, known: HashMap::new(), buffer: Vec::new() }
    }

    /// Appends the pieces of a text until there are `most` in all.
    pub(crate) fn read(&mut self, text: &str, most: usize, read: &mut TextPieces) {
        let mut word = String::new();
        for letter in text.chars().chain([' ']) {
            let alone = is_alone(letter);
            if letter.is_alphanumeric() && !alone {
                letter.to_lowercase().for_each(|lower| word.push(plain_letter(lower)));
                continue;
            }
            if matches!(letter, '\u{300}'..='\u{36f}') {
                continue;
            }
            if !word.is_empty() {
                self.word(&word, read);
                word.clear();
            }
            if (alone || !letter.is_whitespace()) && !letter.is_control() {
                let mut buffer = [0; 4];
                read.pieces.extend(self.table.find(letter.encode_utf8(&mut buffer).as_bytes()));
            }
            if read.pieces.len() >= most {
                read.pieces.truncate(most);
                return;
            }
        }
    }

    fn word(&mut self, word: &str, read: &mut TextPieces) {
        if !self.known.contains_key(word) {
            let pieces = self.cut(word);
            self.known.insert(word.to_owned(), pieces);
        }
        let pieces = &self.known[word];
        read.pieces.extend_from_slice(pieces);
        if word.chars().count() >= 3 && !word.bytes().all(|byte| byte.is_ascii_digit()) {
            read.words += 1;
            read.whole += usize::from(pieces.len() == 1);
        }
    }

    /// The longest piece that the word begins with, then the same for the rest; nothing if a rest is unknown.
    fn cut(&mut self, word: &str) -> Box<[Piece]> {
        let mut pieces = Vec::new();
        if word.len() > WORD_BYTES {
            return pieces.into();
        }
        let mut start = 0;
        while start < word.len() {
            let prefix: &[u8] = if start == 0 { b"" } else { b"##" };
            let found = word[start..].char_indices().rev().find_map(|(at, letter)| {
                let end = start + at + letter.len_utf8();
                self.buffer.clear();
                self.buffer.extend_from_slice(prefix);
                self.buffer.extend_from_slice(&word.as_bytes()[start..end]);
                Some((self.table.find(&self.buffer)?, end))
            });
            let Some((piece, end)) = found else { return Box::default() };
            pieces.push(piece);
            start = end;
        }
        pieces.into()
    }
}

/// Han characters are their own words.
fn is_alone(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// A lower-case Latin letter without its accent; what is none comes back as it is.
pub fn plain_letter(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => 'e',
        'ì'..='ï' | 'ī' | 'į' => 'i',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ō' | 'ő' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' | 'ș' => 's',
        'ť' | 'ț' => 't',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ğ' => 'g',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str], words: usize, whole: usize) {
        let table = Table::embedded().unwrap();
        let mut read = TextPieces::default();
        Pieces::new(table).read(text, 100, &mut read);
        let expect: Vec<Piece> = expect.iter().map(|piece| table.find(piece.as_bytes()).unwrap()).collect();
        assert_eq!(read.pieces, expect, "{text}");
        assert_eq!((read.words, read.whole), (words, whole), "{text}");
    }

    #[test]
    fn texts_are_cut_into_the_longest_pieces() {
        check("Read a FILE.", &["read", "a", "file", "."], 2, 2);
        check("café", &["cafe"], 1, 1);
        check("geocode 12", &["geo", "##code", "12"], 1, 0);
        check("中国", &["中", "国"], 0, 0);
        check("", &[], 0, 0);
        check(&"x".repeat(1000), &[], 1, 0);
    }

    #[test]
    fn the_bound_holds() {
        let mut read = TextPieces::default();
        Pieces::new(Table::embedded().unwrap()).read(&"file ".repeat(1000), 7, &mut read);
        assert_eq!(read.pieces.len(), 7);
    }
}
