//! The lexical score: BM25F, that is BM25 over term counts that are weighted and length-normalised per field before
//! they saturate. A term is a set of words, each with a weight: the forms of a stem, or what a slip may have meant.
//!
//! The weights are a flat optimum over twelve query sets; changes of a fifth do not matter.

use crate::frame::{Frame, Mask};
use crate::segment::{SERVER_FIELDS, Segment, TOOL_FIELDS};

const K1: f32 = 1.1;
const IDF_POWER: f32 = 1.1;
/// Of a term and its counterparts the best counts in full, the others by this share.
const OTHERS: f32 = 0.3;
const NAME_B: f32 = 0.3;
const PROSE_B: f32 = 0.5;

/// Name and title; labels; description; parameters.
const TOOL_WEIGHTS: [f32; TOOL_FIELDS] = [2.5, 1.0, 1.0, 0.7];
const TOOL_B: [f32; TOOL_FIELDS] = [NAME_B, NAME_B, PROSE_B, PROSE_B];
/// Name and title; description and labels.
const SERVER_WEIGHTS: [f32; SERVER_FIELDS] = [1.5, 0.4];
const SERVER_B: [f32; SERVER_FIELDS] = [NAME_B, PROSE_B];

/// A set of words that count as one term.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    /// Numbers of the lexicon, each with how much an occurrence counts.
    pub(crate) words: Vec<(u32, f32)>,
    /// The words that look like it, itself included, each with how much.
    pub(crate) alike: Vec<(u32, f32)>,
    /// What tools say for it: the forms of each word together, with how much they count against the term itself.
    pub(crate) counterparts: Vec<(Vec<u32>, f32)>,
    /// How much the term counts in the query.
    pub(crate) weight: f32,
}

/// Weighs terms over one state of the index as far as it is visible.
pub(crate) struct Weigher<'a> {
    frame: &'a Frame,
    mask: &'a Mask,
    tool: [f32; TOOL_FIELDS],
    server: [f32; SERVER_FIELDS],
    /// By place; all 0 between two terms.
    counts: Vec<f32>,
    touched: Vec<u32>,
    /// The same for the best of several words.
    best: Vec<f32>,
    raised: Vec<u32>,
}

fn idf(total: usize, frequency: usize) -> f32 {
    let (total, frequency) = (total as f32, frequency as f32);
    (1.0 + (total - frequency + 0.5) / (frequency + 0.5)).ln().powf(IDF_POWER)
}

// === impl Weigher ===

impl<'a> Weigher<'a> {
    pub(crate) fn new(frame: &'a Frame, mask: &'a Mask) -> Self {
        let total = mask.total() as f32;
        let slope = |b: f32, sum: u64| if sum == 0 { 0.0 } else { b * total / sum as f32 };
        Self {
            frame,
            mask,
            tool: std::array::from_fn(|field| slope(TOOL_B[field], mask.tool_sums()[field])),
            server: std::array::from_fn(|field| slope(SERVER_B[field], mask.server_sums()[field])),
            counts: vec![0.0; frame.len()],
            touched: Vec::new(),
            best: vec![0.0; frame.len()],
            raised: Vec::new(),
        }
    }

    /// Adds what a term says to each tool's score in `words`, and to `alike` what the best of the words that
    /// look like it says, each weighed as if it were alone.
    pub(crate) fn add(&mut self, term: &Term, words: &mut [f32], alike: &mut [f32]) {
        for (word, weight) in &term.words {
            self.count(*word, *weight);
        }
        let own = idf(self.mask.total(), self.touched.len());
        if term.counterparts.is_empty() {
            let weight = term.weight * own;
            for place in self.touched.drain(..) {
                let count = std::mem::take(&mut self.counts[place as usize]);
                words[place as usize] += weight * count / (K1 + count);
            }
        } else {
            // What is said for a word is never worth more than the word, however rare it is.
            let most = if self.touched.is_empty() { f32::MAX } else { own };
            self.raise(term.weight * own, OTHERS, words);
            for (forms, share) in &term.counterparts {
                forms.iter().for_each(|word| self.count(*word, 1.0));
                let other = idf(self.mask.total(), self.touched.len()).min(most);
                self.raise(term.weight * share * other, OTHERS, words);
            }
            self.settle(1.0 - OTHERS, words);
        }
        for (word, share) in &term.alike {
            self.count(*word, 1.0);
            let weight = term.weight * share * idf(self.mask.total(), self.touched.len());
            self.raise(weight, 0.0, alike);
        }
        self.settle(1.0, alike);
    }

    /// Turns the counts of one word into scores, notes them where they are the best so far, and adds a share of them.
    fn raise(&mut self, weight: f32, share: f32, scores: &mut [f32]) {
        for place in self.touched.drain(..) {
            let at = place as usize;
            let count = std::mem::take(&mut self.counts[at]);
            let score = weight * count / (K1 + count);
            scores[at] += share * score;
            let best = &mut self.best[at];
            if *best == 0.0 {
                self.raised.push(place);
            }
            *best = best.max(score);
        }
    }

    /// Adds a share of the best that were noted.
    fn settle(&mut self, share: f32, scores: &mut [f32]) {
        for place in self.raised.drain(..) {
            scores[place as usize] += share * std::mem::take(&mut self.best[place as usize]);
        }
    }

    /// A little less for long documents, which match more by chance.
    pub(crate) fn damp(&self, scores: &mut [f32]) {
        for (at, segment) in self.frame.segments.iter().enumerate() {
            for (score, damping) in scores[self.frame.base(at)..].iter_mut().zip(&segment.damping) {
                *score *= damping;
            }
        }
    }

    /// Adds the weighted occurrences of a word to the visible tools' counts.
    fn count(&mut self, word: u32, weight: f32) {
        let lexicon = self.frame.lexicon();
        for known in lexicon.in_servers(word) {
            let at = known.segment as usize;
            if self.mask.visible_in(at) == 0 {
                continue;
            }
            let segment = &*self.frame.segments[at];
            let shared = weight * self.shared(segment, known.counts);
            for place in self.frame.base(at)..self.frame.base(at) + segment.len() {
                self.touch(place, shared);
            }
        }
        let lengths = lexicon.lengths();
        for known in lexicon.in_tools(word) {
            let place = known.place as usize;
            let lengths = &lengths[place];
            let mut sum = 0.0;
            for field in 0..TOOL_FIELDS {
                if known.counts[field] > 0 {
                    let norm = 1.0 - TOOL_B[field] + self.tool[field] * f32::from(lengths[field]);
                    sum += TOOL_WEIGHTS[field] * f32::from(known.counts[field]) / norm;
                }
            }
            self.touch(place, weight * sum);
        }
    }

    fn touch(&mut self, place: usize, count: f32) {
        if self.mask.shows_place(place) {
            if self.counts[place] == 0.0 {
                self.touched.push(place as u32);
            }
            self.counts[place] += count;
        }
    }

    /// What a word in the server's own texts counts for each of its tools.
    fn shared(&self, segment: &Segment, counts: [u8; SERVER_FIELDS]) -> f32 {
        let mut shared = 0.0;
        for (field, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let norm = 1.0 - SERVER_B[field] + self.server[field] * f32::from(segment.server_lengths[field]);
            shared += SERVER_WEIGHTS[field] * f32::from(*count) / norm;
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_weigh_more_and_every_weight_is_positive() {
        assert!(idf(1000, 1) > idf(1000, 10));
        assert!(idf(1, 1) > 0.0 && idf(1000, 1000) > 0.0);
    }
}
