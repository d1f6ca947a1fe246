//! All words of all servers in one place: which segments know a word, which words have a stem, which words look alike.
//! Made at the first search after a change.

use std::sync::Arc;

use crate::index::Mask;
use crate::letters::Letters;
use crate::segment::{Occurrences, SERVER_FIELDS, Segment};

/// By how many bits of their hash words are put into bins for sorting.
const BIN_BITS: u32 = 12;

#[derive(Debug)]
pub(crate) struct Lexicon {
    /// Distinct words, sorted by hash: where each one's places start, and its stem.
    words: Vec<Known>,
    /// In which segments a word is, and its number there.
    places: Vec<Place>,
    /// Sorted.
    by_stem: Vec<(u64, u32)>,
    letters: Letters,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    start: u32,
    stem: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) entry: u32,
}

/// All words of all segments, sorted by hash; the places of a word stay in the order of the segments.
fn sorted(segments: &[Arc<Segment>]) -> Vec<(u64, Place)> {
    // Hashes are spread evenly: put into bins by their first bits, each bin is short.
    let bin = |hash: u64| (hash >> (64 - BIN_BITS)) as usize;
    let mut ends = vec![0_usize; (1 << BIN_BITS) + 1];
    for hash in segments.iter().flat_map(|segment| segment.hashes()) {
        ends[bin(*hash) + 1] += 1;
    }
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut all = vec![(0, Place { segment: 0, entry: 0 }); ends.last().copied().unwrap_or(0)];
    let mut next = ends.clone();
    for (segment, at) in segments.iter().zip(0..) {
        for (hash, entry) in segment.hashes().iter().zip(0..) {
            let slot = &mut next[bin(*hash)];
            all[*slot] = (*hash, Place { segment: at, entry });
            *slot += 1;
        }
    }
    for range in ends.windows(2) {
        all[range[0]..range[1]].sort_unstable_by_key(|(hash, place)| (*hash, place.segment));
    }
    all
}

// === impl Lexicon ===

impl Lexicon {
    pub(crate) fn new(segments: &[Arc<Segment>]) -> Self {
        let all = sorted(segments);
        let mut words: Vec<Known> = Vec::new();
        let mut letters = Letters::default();
        let mut last = None;
        for ((hash, place), start) in all.iter().zip(0..) {
            if last != Some(*hash) {
                last = Some(*hash);
                let word = segments[place.segment as usize].word(place.entry as usize);
                words.push(Known { start, stem: word.stem });
                letters.push(word.text);
            }
        }
        let mut by_stem: Vec<(u64, u32)> = words.iter().zip(0..).map(|(word, at)| (word.stem, at)).collect();
        by_stem.sort_unstable();
        letters.finish();
        Self { words, places: all.into_iter().map(|(_, place)| place).collect(), by_stem, letters }
    }

    /// The words of a stem, by number.
    pub(crate) fn of_stem(&self, stem: u64) -> impl Iterator<Item = u32> {
        let start = self.by_stem.partition_point(|(other, _)| *other < stem);
        self.by_stem[start..].iter().take_while(move |(other, _)| *other == stem).map(|(_, word)| *word)
    }

    pub(crate) fn stem(&self, word: u32) -> u64 {
        self.words[word as usize].stem
    }

    /// Where a word occurs, in the order of the segments.
    pub(crate) fn places(&self, word: u32) -> &[Place] {
        let word = word as usize;
        let end = self.words.get(word + 1).map_or(self.places.len(), |next| next.start as usize);
        &self.places[self.words[word].start as usize..end]
    }

    pub(crate) fn letters(&self) -> &Letters {
        &self.letters
    }

    pub(crate) fn text<'s>(&self, segments: &'s [Arc<Segment>], word: u32) -> &'s str {
        let place = self.places(word)[0];
        segments[place.segment as usize].word(place.entry as usize).text
    }

    /// Whether a visible tool has the word.
    pub(crate) fn is_visible(&self, segments: &[Arc<Segment>], mask: &Mask, word: u32) -> bool {
        mask.shows_all()
            || self.places(word).iter().any(|place| {
                let at = place.segment as usize;
                let known = segments[at].occurrences(place.entry as usize);
                occurs(&known, at, mask)
            })
    }
}

fn occurs(word: &Occurrences<'_>, segment: usize, mask: &Mask) -> bool {
    let visible = mask.visible_in(segment);
    let shown = |tool: usize| mask.shows(segment, tool);
    visible > 0
        && (word.server_counts != [0; SERVER_FIELDS]
            || word.postings.iter().any(|posting| shown(posting.tool as usize)))
}
