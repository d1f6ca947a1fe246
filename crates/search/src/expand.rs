//! From the words of a query to terms of the index: the forms of a stem, what a slip of the keyboard may have meant,
//! words that look alike, and what tools say for what people say.

use crate::bm25f::Term;
use crate::edits::edits;
use crate::frame::{Frame, Mask};
use crate::meaning::Table;
use crate::query::QueryTerm;
use crate::vocabulary::Match;

/// What a corrected word counts after one and two edits.
const SLIPS: [f32; 3] = [1.0, 0.7, 0.5];
/// Words from this many letters may have two slips.
const TWO_SLIPS: usize = 7;
/// Shorter words are not corrected: everything is near to them.
const CORRECTED: usize = 4;
/// How many readings of a slip are taken.
const READINGS: usize = 3;
/// How many unknown words are corrected; a query of nothing else is not a query.
const CORRECTIONS: usize = 16;
/// What a phrase of the vocabulary counts: it says more than one word.
const TOGETHER: f32 = 1.25;
/// Words less alike are different words.
const ALIKE: f32 = 0.5;
/// Shorter words have too few groups of letters.
const ALIKE_LETTERS: usize = 4;

/// A query over one state of the index.
pub(crate) struct Expansion {
    /// For each term of the query what it means here; empty when it is unknown. Then one for each of `phrases`.
    pub(crate) terms: Vec<Term>,
    /// What the vocabulary knows and no term says: several words together, or stop words.
    pub(crate) phrases: Vec<String>,
    /// For each term what it was taken for, where it is unknown.
    pub(crate) corrected: Vec<Option<String>>,
}

pub(crate) fn expand(frame: &Frame, mask: &Mask, query: &[QueryTerm], matches: &[Match<'_>]) -> Expansion {
    let mut expanded = Expansion { terms: Vec::new(), phrases: Vec::new(), corrected: Vec::new() };
    // A word of the language that no tool has is not a slip.
    let is_slip = |word: &str| Table::embedded().is_none_or(|table| table.find(word.as_bytes()).is_none());
    let mut corrections = 0;
    let mut counts = Vec::new();
    for term in query {
        let mut words = forms(frame, mask, term.stem, 1.0);
        let mut corrected = None;
        if words.is_empty() && !term.joined && corrections < CORRECTIONS && is_slip(&term.word) {
            corrections += 1;
            (words, corrected) = correct(frame, mask, &term.word);
        }
        let alike = if term.joined { Vec::new() } else { alike(frame, &term.word, &mut counts) };
        let found = matches.iter().find(|found| is_of(found, term));
        let counterparts = found.map(|found| counterparts(frame, mask, found)).unwrap_or_default();
        expanded.terms.push(Term { words, alike, counterparts, weight: term.count.sqrt() });
        expanded.corrected.push(corrected);
    }
    for found in matches.iter().filter(|found| !query.iter().any(|term| is_of(found, term))) {
        let weight = if found.stem.is_none() { TOGETHER } else { 1.0 };
        let counterparts = counterparts(frame, mask, found);
        expanded.terms.push(Term { words: Vec::new(), alike: Vec::new(), counterparts, weight });
        expanded.phrases.push(found.text.clone());
    }
    expanded
}

fn is_of(found: &Match<'_>, term: &QueryTerm) -> bool {
    !term.joined && found.stem == Some(term.stem)
}

/// The visible words that tools have for an entry of the vocabulary.
fn counterparts(frame: &Frame, mask: &Mask, found: &Match<'_>) -> Vec<(Vec<u32>, f32)> {
    let known = found.counterparts.iter().map(|other| {
        let forms = forms(frame, mask, other.stem, 1.0).into_iter().map(|(word, _)| word).collect::<Vec<u32>>();
        (forms, found.share * other.weight)
    });
    known.filter(|(forms, _)| !forms.is_empty()).collect()
}

/// The visible words of a stem.
fn forms(frame: &Frame, mask: &Mask, stem: u64, weight: f32) -> Vec<(u32, f32)> {
    let lexicon = frame.lexicon();
    let visible = |word: &u32| mask.shows_word(lexicon, *word);
    lexicon.of_stem(stem).filter(visible).map(|word| (word, weight)).collect()
}

/// The visible words that are the fewest edits away, with the other forms of their stems.
fn correct(frame: &Frame, mask: &Mask, word: &str) -> (Vec<(u32, f32)>, Option<String>) {
    let letters: Vec<char> = word.chars().collect();
    if letters.len() < CORRECTED || letters.iter().any(|letter| letter.is_numeric()) {
        return (Vec::new(), None);
    }
    let lexicon = frame.lexicon();
    let mut bound = if letters.len() < TWO_SLIPS { 1 } else { 2 };
    let mut found: Vec<(usize, bool, std::cmp::Reverse<usize>, &str, u32)> = Vec::new();
    let mut other: Vec<char> = Vec::new();
    for near in lexicon.letters().near(word, bound as u8) {
        let text = lexicon.text(&frame.segments, near);
        other.clear();
        other.extend(text.chars());
        if let Some(edits) = edits(&letters, &other, bound)
            && mask.shows_word(lexicon, near)
        {
            bound = edits;
            let frequency = lexicon.places(near).iter().filter(|place| mask.visible_in(place.segment as usize) > 0);
            found.push((edits, other[0] != letters[0], std::cmp::Reverse(frequency.count()), text, near));
        }
    }
    found.retain(|candidate| candidate.0 == bound);
    found.sort_unstable();
    found.truncate(READINGS);
    let mut words: Vec<(u32, f32)> = Vec::new();
    for (edits, .., near) in &found {
        for form in forms(frame, mask, lexicon.stem(*near), SLIPS[*edits]) {
            if !words.iter().any(|(known, _)| *known == form.0) {
                words.push(form);
            }
        }
    }
    (words, found.first().map(|first| first.3.to_owned()))
}

fn alike(frame: &Frame, word: &str, counts: &mut Vec<u8>) -> Vec<(u32, f32)> {
    if word.chars().count() < ALIKE_LETTERS {
        return Vec::new();
    }
    let mut alike = frame.lexicon().letters().alike(word, ALIKE, counts);
    for (_, share) in &mut alike {
        *share *= *share;
    }
    alike
}
