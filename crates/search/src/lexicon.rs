//! All words of all servers in one place: which segments know a word, which words have a stem, which words look alike.
//! Made at the first search after a change.

use std::sync::Arc;

use crate::letters::Letters;
use crate::segment::{Posting, SERVER_FIELDS, Segment, TOOL_FIELDS};

/// By how many bits of their hash words are put into bins for sorting.
const BIN_BITS: u32 = 12;

#[derive(Debug)]
pub(crate) struct Lexicon {
    /// Distinct words, sorted by hash: where each one's places start, and its stem.
    words: Vec<WordEntry>,
    /// In which segments a word is, and its number there.
    places: Vec<Place>,
    /// Where the words occur, one word after the other: a search reads memory from the beginning to the end.
    in_tools: Vec<ToolOccurrences>,
    in_servers: Vec<ServerOccurrences>,
    /// Field lengths of the tools, by place in the frame.
    lengths: Vec<[u16; TOOL_FIELDS]>,
    /// Sorted.
    by_stem: Vec<(u64, u32)>,
    letters: Letters,
}

#[derive(Debug, Clone, Copy)]
struct WordEntry {
    start: u32,
    in_tools: u32,
    in_servers: u32,
    stem: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) entry: u32,
}

/// How often a word occurs in each field of one tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolOccurrences {
    /// The tool's place in the frame.
    pub(crate) place: u32,
    pub(crate) counts: [u8; TOOL_FIELDS],
}

/// How often a word occurs in the own texts of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerOccurrences {
    pub(crate) segment: u32,
    pub(crate) counts: [u8; SERVER_FIELDS],
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
        let lengths: Vec<_> = segments.iter().flat_map(|segment| &segment.lengths).copied().collect();
        let mut bases = Vec::with_capacity(segments.len());
        let mut base = 0;
        for segment in segments {
            bases.push(base);
            base += segment.len() as u32;
        }
        let mut words: Vec<WordEntry> = Vec::new();
        let mut letters = Letters::default();
        let (mut in_tools, mut in_servers) = (Vec::new(), Vec::new());
        let mut last = None;
        for ((hash, place), start) in all.iter().zip(0..) {
            let segment = &segments[place.segment as usize];
            if last != Some(*hash) {
                last = Some(*hash);
                let word = segment.word(place.entry as usize);
                words.push(WordEntry {
                    start,
                    in_tools: end(&in_tools),
                    in_servers: end(&in_servers),
                    stem: word.stem,
                });
                letters.push(word.text);
            }
            let occurrences = segment.occurrences(place.entry as usize);
            if occurrences.server_counts != [0; SERVER_FIELDS] {
                in_servers.push(ServerOccurrences { segment: place.segment, counts: occurrences.server_counts });
            }
            let base = bases[place.segment as usize];
            let of_tool = |posting: &Posting| ToolOccurrences { place: base + posting.tool, counts: posting.counts };
            in_tools.extend(occurrences.postings.iter().map(of_tool));
        }
        let mut by_stem: Vec<(u64, u32)> = words.iter().zip(0..).map(|(word, at)| (word.stem, at)).collect();
        by_stem.sort_unstable();
        letters.finish();
        let places = all.into_iter().map(|(_, place)| place).collect();
        Self { words, places, in_tools, in_servers, lengths, by_stem, letters }
    }

    /// The words of a stem, by number.
    pub(crate) fn of_stem(&self, stem: u64) -> impl Iterator<Item = u32> {
        let start = self.by_stem.partition_point(|(other, _)| *other < stem);
        self.by_stem[start..].iter().take_while(move |(other, _)| *other == stem).map(|(_, word)| *word)
    }

    pub(crate) fn stem(&self, word: u32) -> u64 {
        self.words[word as usize].stem
    }

    /// In which segments a word is, in their order.
    pub(crate) fn places(&self, word: u32) -> &[Place] {
        &self.places[self.range(word, |known| known.start, self.places.len())]
    }

    /// The tools that have a word, in the order of their places.
    pub(crate) fn in_tools(&self, word: u32) -> &[ToolOccurrences] {
        &self.in_tools[self.range(word, |known| known.in_tools, self.in_tools.len())]
    }

    /// The servers that have a word in their own texts, in the order of the segments.
    pub(crate) fn in_servers(&self, word: u32) -> &[ServerOccurrences] {
        &self.in_servers[self.range(word, |known| known.in_servers, self.in_servers.len())]
    }

    fn range(&self, word: u32, start: impl Fn(&WordEntry) -> u32, all: usize) -> std::ops::Range<usize> {
        let word = word as usize;
        start(&self.words[word]) as usize..self.words.get(word + 1).map_or(all, |next| start(next) as usize)
    }

    /// The field lengths of all tools, by place in the frame.
    pub(crate) fn lengths(&self) -> &[[u16; TOOL_FIELDS]] {
        &self.lengths
    }

    pub(crate) fn letters(&self) -> &Letters {
        &self.letters
    }

    pub(crate) fn text<'s>(&self, segments: &'s [Arc<Segment>], word: u32) -> &'s str {
        let place = self.places(word)[0];
        segments[place.segment as usize].word(place.entry as usize).text
    }
}

/// Offsets fit, as they do in a segment: an index of four thousand million occurrences fits no memory.
fn end<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
