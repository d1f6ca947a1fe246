//! Looks for canaries: random tokens that no one has reason to send anywhere, in whatever form and in whichever pieces.
//!
//! A message is first *folded* (`fold`) to the letters and digits of its strings, in lower case, without escapes: so
//! case, spaces, separators, and borders of fields do not matter. What is looked for is folded alike: the token, its end
//! to its beginning, its base64 and hexadecimal digits, and one of these within another (`form`). Every third place
//! of the folded text is held against a filter of six characters; what passes is compared as far as it goes.
//!
//! What was found is told as the places of the token that were seen, so that pieces of several messages add up.

mod fold;
mod form;

use std::fmt;

use memchr::memmem::Finder;

use fold::fold;
use form::{Form, Reach, forms};

use crate::filter::{self, GramFilter};

/// The shortest random part of a token that is looked for.
pub const CORE_MIN: usize = 16;
/// The longest; the places of one are the bits of a number.
pub const CORE_MAX: usize = 64;
/// The shortest token that is looked for whole, in letters and digits.
pub const WORD_MIN: usize = 8;
/// How many characters of a token must have been seen. Of 32 kinds of characters that is one chance in 10¹⁸.
const ENOUGH: u32 = 12;
/// Shorter pieces stand in innocent texts.
const PIECE: u32 = 6;
/// How many characters the filter looks at.
const GRAM: usize = 6;
/// Every so many places are looked at. A piece of two characters less than both together is found wherever it begins.
const STRIDE: usize = 3;
/// How many characters of forms that say little in each character are compared at a time.
const BLOCK: usize = 2 * GRAM;

/// Looks for the canaries that it was built of.
#[derive(Default)]
pub struct CanaryScanner {
    cores: Vec<Core>,
    forms: Vec<Form>,
    filter: GramFilter<GRAM, STRIDE>,
    /// Where six characters stand in forms, sorted.
    grams: Vec<Place>,
    /// Where [`BLOCK`] characters do, by their hash, sorted.
    blocks: Vec<Place>,
    /// Tokens without a random part, folded, each with the index of its canary.
    words: Vec<(u32, Finder<'static>)>,
}

/// The random part of a token.
#[derive(Clone, Copy)]
struct Core {
    canary: u32,
    /// Which part of that token.
    number: u32,
    length: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: u64,
    form: u32,
    at: u16,
}

/// A piece of a canary that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The index of the canary.
    pub canary: u32,
    /// Which of its random parts.
    pub core: u32,
    /// The places of that part that were seen.
    pub seen: u64,
}

impl fmt::Debug for CanaryScanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The forms are secrets.
        f.debug_struct("CanaryScanner").field("cores", &self.cores.len()).finish_non_exhaustive()
    }
}

// === impl Piece ===

impl Piece {
    /// Whether the two are of the same part, so that they add up.
    pub fn adds_to(&self, other: &Self) -> bool {
        (self.canary, self.core) == (other.canary, other.core)
    }

    /// Whether so much was seen that it is the canary and nothing else.
    pub fn is_enough(&self) -> bool {
        self.seen.count_ones() >= ENOUGH
    }
}

// === impl CanaryScanner ===

impl CanaryScanner {
    /// Looks for these tokens, each by the index that it has here. Of a token its random parts count: what it has of
    /// letters and digits in a row, at least [`CORE_MIN`]. One without such a part is looked for whole, as it is: its
    /// letters and digits, at least [`WORD_MIN`], in any case and with anything else between them.
    pub fn new<T: AsRef<str>>(tokens: &[T]) -> Self {
        let mut scanner = Self::default();
        for (canary, token) in (0..).zip(tokens) {
            if cores_of(token.as_ref()).next().is_none() {
                let word = token.as_ref().bytes().filter(u8::is_ascii_alphanumeric);
                let word: Vec<u8> = word.map(|byte| byte.to_ascii_lowercase()).collect();
                if word.len() >= WORD_MIN {
                    scanner.words.push((canary, Finder::new(&word).into_owned()));
                }
            }
            for (number, core) in (0..).zip(cores_of(token.as_ref())) {
                let index = u32::try_from(scanner.cores.len()).unwrap_or(u32::MAX);
                let length = u32::try_from(core.len()).unwrap_or(u32::MAX);
                scanner.cores.push(Core { canary, number, length });
                scanner.forms.extend(forms(core, index));
            }
        }
        scanner.index();
        scanner
    }

    /// Whether it looks for nothing.
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty() && self.words.is_empty()
    }

    fn index(&mut self) {
        let (mut grams, mut blocks, mut begins) = (Vec::new(), Vec::new(), Vec::new());
        for (form, it) in (0..).zip(&self.forms) {
            let last = it.text.len().saturating_sub(if it.reach == Reach::Piece { GRAM } else { BLOCK });
            for at in 0..=last {
                let index = u16::try_from(at).unwrap_or(u16::MAX);
                match it.reach {
                    Reach::Piece => {
                        let key = gram(&it.text, at);
                        grams.push(Place { key, form, at: index });
                        begins.push(key);
                    }
                    Reach::Block => {
                        blocks.push(Place { key: block(&it.text, at), form, at: index });
                        begins.push(gram(&it.text, at));
                    }
                    Reach::Whole if at < STRIDE => {
                        blocks.push(Place { key: block(&it.text, at), form, at: index });
                        begins.push(gram(&it.text, at));
                    }
                    Reach::Whole => break,
                }
            }
        }
        grams.sort_unstable();
        blocks.sort_unstable();
        self.filter = GramFilter::new(&begins);
        (self.grams, self.blocks) = (grams, blocks);
    }

    /// The pieces of canaries in a JSON text, one for each random part.
    pub fn scan(&self, json: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.is_empty() {
            return pieces;
        }
        let folded = fold(json);
        let said = self.words.iter().filter(|(_, word)| word.find(&folded).is_some());
        pieces.extend(said.map(|(canary, _)| Piece { canary: *canary, core: 0, seen: u64::MAX }));
        if self.cores.is_empty() {
            return pieces;
        }
        for at in self.filter.passing(&folded) {
            self.look(&folded, at, &mut pieces);
        }
        pieces
    }

    /// What stands at a place that the filter let through.
    fn look(&self, folded: &[u8], at: usize, pieces: &mut Vec<Piece>) {
        let places = equal(&self.grams, gram(folded, at));
        let blocks = if at + BLOCK <= folded.len() { equal(&self.blocks, block(folded, at)) } else { &[] };
        for place in places.iter().chain(blocks) {
            let form = &self.forms[place.form as usize];
            let here = usize::from(place.at);
            let before = same(form.text[..here].iter().rev(), folded[..at].iter().rev());
            let after = same(form.text[here..].iter(), folded[at..].iter());
            let seen = form.seen(here - before..here + after);
            if seen.count_ones() < PIECE + u32::from(form.reach != Reach::Piece || form.is_coded) {
                continue;
            }
            let Core { canary, number, length } = self.cores[form.core as usize];
            let piece = Piece { canary, core: number, seen };
            debug_assert!(seen.checked_shr(length).unwrap_or(0) == 0, "within the part");
            match pieces.iter_mut().find(|it| it.adds_to(&piece)) {
                Some(known) => known.seen |= seen,
                None => pieces.push(piece),
            }
        }
    }
}

/// The random parts of a token.
fn cores_of(token: &str) -> impl Iterator<Item = &str> {
    let runs = token.split(|c: char| !c.is_ascii_alphanumeric());
    // What every key of AWS begins with is no part of it.
    let cores = runs.map(|run| run.strip_prefix("AKIA").unwrap_or(run));
    cores.filter(|core| core.len() >= CORE_MIN).map(|core| &core[..core.len().min(CORE_MAX)])
}

/// The [`GRAM`] characters at a place.
fn gram(text: &[u8], at: usize) -> u64 {
    filter::gram::<GRAM>(text, at)
}

/// A hash of the [`BLOCK`] characters at a place.
fn block(text: &[u8], at: usize) -> u64 {
    filter::hash(gram(text, at), gram(text, at + GRAM))
}

fn equal(places: &[Place], key: u64) -> &[Place] {
    let begin = places.partition_point(|place| place.key < key);
    let count = places[begin..].iter().take_while(|place| place.key == key).count();
    &places[begin..begin + count]
}

/// How many are the same from the beginning on.
fn same<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "https://intranet.example.com/d/k3q7zd9xw5mtb2ra6hcvy4ne";

    fn found(text: &str) -> Vec<Piece> {
        CanaryScanner::new(&[TOKEN]).scan(text)
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let (first, second) = ("k3q7zd9xw5mt", "b2ra6hcvy4ne");
        let text = |piece: &str| format!("{{\"note\":\"see {piece} there\"}}");
        for piece in [first, second] {
            let found = found(&text(piece));
            assert_eq!(found.len(), 1, "{piece}");
            assert_eq!(found[0].seen.count_ones(), 12, "{piece}");
        }
        let thirds: Vec<Piece> = ["k3q7zd9x", "w5mtb2ra", "6hcvy4ne"].iter().flat_map(|it| found(&text(it))).collect();
        assert_eq!(thirds.len(), 3);
        assert!(thirds.iter().all(|piece| !piece.is_enough() && piece.adds_to(&thirds[0])));
        assert_eq!(thirds.iter().fold(0, |seen, piece| seen | piece.seen), (1 << 24) - 1);
        assert_eq!(found(&text("k3q7z d9")), found(&text("K3Q7ZD9")), "case and spaces do not matter");
    }

    #[test]
    fn a_token_without_a_random_part_is_looked_for_whole() {
        let scanner = CanaryScanner::new(&["CANARY-7f3a91", "too-few", TOKEN]);
        let is_in = |text: &str| scanner.scan(text).iter().any(|piece| piece.canary == 0 && piece.is_enough());
        for text in [r#"["see canary-7F3A91."]"#, r#"{"a":"CANARY_","b":"7f3a91"}"#, r#"["\u0043ANARY 7f3a91"]"#] {
            assert!(is_in(text), "{text}");
        }
        assert!(!is_in(r#"["CANARY-7f3a9", "toofew"]"#));
        assert_eq!(scanner.scan(r#"["too-few"]"#), []);
        assert!(!CanaryScanner::new(&["CANARY-7f3a91"]).is_empty());
    }

    #[test]
    fn what_is_public_of_a_token_is_no_part_of_it() {
        assert_eq!(found(r#"{"url":"https://intranet.example.com/d/"}"#), []);
        let scanner = CanaryScanner::new(&["AKIAQ3XK7ZD9XW5MTB2R"]);
        assert_eq!(scanner.scan(r#"["AKIAQ3X and AKIAIOSFODNN7EXAMPLE"]"#), []);
        assert!(scanner.scan(r#"["AKIAQ3XK7ZD9XW5MTB2R"]"#)[0].is_enough());
        assert!(CanaryScanner::new::<&str>(&[]).scan(r#"["x"]"#).is_empty());
        assert!(!format!("{scanner:?}").contains("Q3X"));
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(text in ".{0,120}", cut in 0_usize..120) {
            let whole = format!("{{\"a\":\"{text}%{TOKEN}&#{text}\\u00\",\"{TOKEN}\":\"\\\\u006");
            let cut: String = whole.chars().take(cut).collect();
            let _ = (found(&whole), found(&cut));
        }
    }
}
