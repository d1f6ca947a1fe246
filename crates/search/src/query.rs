//! A query's text as terms with counts and as clauses, and how much of it is read.

use std::borrow::Cow;

use crate::text::{self, Form, Reading, Stems, hash, prefix};

/// How much of a query's text is read, in bytes.
pub const QUERY_BYTES: usize = 2048;
/// How many distinct terms of a query are looked up.
pub const QUERY_TERMS: usize = 64;

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
        let stem = hash(stems.stem(word));
        if let Some(known) = terms.iter_mut().find(|known| known.stem == stem) {
            known.count += count;
            known.joined &= joined;
        } else if terms.len() < QUERY_TERMS {
            terms.push(QueryTerm { word: word.to_owned(), stem, joined, count });
        }
    });
    terms
}

/// The longest extension of a file's name, in bytes.
const EXTENSION: usize = 5;

/// As much of a text as is read, with paths of files as what they say of the wish: `~/may/plan.docx` is `docx file`.
/// The names of folders and files are values for the tool, no words for what it does.
pub(crate) fn without_paths(text: &str) -> Cow<'_, str> {
    let text = prefix(text, QUERY_BYTES);
    let mut words = text.split_inclusive(char::is_whitespace);
    if !words.clone().any(|word| file(word).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    words.by_ref().for_each(|word| match file(word) {
        Some((path, extension)) => {
            let (before, after) = word.split_once(path).unwrap_or((word, ""));
            out.extend([before, extension, " file", after]);
        }
        None => out.push_str(word),
    });
    Cow::Owned(out)
}

/// The path of a file within a word and the extension of its name. Paths without extension stay: they may be those of
/// an API, whose parts are what it is about.
fn file(word: &str) -> Option<(&str, &str)> {
    let begins = |c: char| c.is_alphanumeric() || matches!(c, '/' | '~' | '.');
    let path = word.trim_start_matches(|c| !begins(c)).trim_end_matches(|c: char| !c.is_alphanumeric());
    let drive = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic()) && rest[1..].starts_with(":\\");
    if !["/", "~/", "./", "../"].iter().any(|start| path.starts_with(start)) && !drive(path) {
        return None;
    }
    let (stem, extension) = path.rsplit(['/', '\\']).next()?.rsplit_once('.')?;
    let known =
        !stem.is_empty() && extension.len() <= EXTENSION && extension.bytes().all(|b| b.is_ascii_alphanumeric());
    known.then_some((path, extension))
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
    let parts = parts.flat_map(|part| part.split(" or "));
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
    fn alternatives_are_clauses() {
        assert_eq!(
            clauses("search recent medical papers or look up clinical trials or ask the encyclopedia"),
            ["search recent medical papers", "look up clinical trials", "ask the encyclopedia"]
        );
    }

    #[test]
    fn a_path_of_a_file_says_what_kind_of_file_it_is() {
        let check = |text: &str, expect: &str| assert_eq!(without_paths(text), expect);

        check("Read \"/data/sales.xlsx\", then\nplot (~/a/b.png).", "Read \"xlsx file\", then\nplot (png file).");
        check("merge ./a.pdf ../b.pdf C:\\Users\\ann\\c.pdf", "merge pdf file pdf file pdf file");
        for kept in [
            "GET /repos/{owner}/issues",
            "node.js and/or e.g. this",
            "/.gitignore",
            "https://a.example/b.html",
            "/ ~/ ./ C:\\ .",
        ] {
            check(kept, kept);
        }
    }

    #[test]
    fn only_stop_words_are_better_than_nothing() {
        assert_eq!(texts("who is"), ["who", "is", "whois"]);
        assert!(texts(" \n!?").is_empty());
    }
}
