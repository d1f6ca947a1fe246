//! The lexical component: BM25F, that is BM25 over term counts that are weighted and length-normalised per field
//! before they saturate.
//!
//! The weights are a flat optimum over twelve query sets; changes of a fifth do not matter.

use crate::index::{Frame, Mask};
use crate::query::QueryTerm;
use crate::segment::{SERVER_FIELDS, Segment, TOOL_FIELDS, Term};

const K1: f32 = 1.1;
const IDF_POWER: f32 = 1.1;
const NAME_B: f32 = 0.3;
const PROSE_B: f32 = 0.5;

/// Name and title; labels; description; parameters.
const TOOL_WEIGHTS: [f32; TOOL_FIELDS] = [2.5, 1.0, 1.0, 0.5];
const TOOL_B: [f32; TOOL_FIELDS] = [NAME_B, NAME_B, PROSE_B, PROSE_B];
/// Name and title; description and labels.
const SERVER_WEIGHTS: [f32; SERVER_FIELDS] = [1.5, 0.4];
const SERVER_B: [f32; SERVER_FIELDS] = [NAME_B, PROSE_B];

/// One score per tool of the frame, 0 where nothing matches. Sums run in the order of the query's terms, so equal
/// documents get equal scores whatever the index went through.
pub(crate) fn score(frame: &Frame, mask: &Mask, terms: &[QueryTerm]) -> Vec<f32> {
    let mut scores = vec![0.0; frame.len()];
    let averages = Averages::new(mask);
    let mut found: Vec<Option<Term<'_>>> = Vec::with_capacity(frame.segments.len());
    for query_term in terms {
        found.clear();
        found.extend(frame.segments.iter().map(|segment| segment.find(query_term.hash, &query_term.text)));
        let frequency = document_frequency(&found, mask);
        if frequency == 0 {
            continue;
        }
        let weight = idf(mask.total(), frequency).powf(IDF_POWER) * query_term.count.sqrt();
        for (at, (segment, term)) in frame.segments.iter().zip(&found).enumerate() {
            if let Some(term) = term.filter(|_| mask.visible_in(at) > 0) {
                let scores = &mut scores[frame.base(at)..][..segment.len()];
                averages.add(segment, &term, weight, scores);
            }
        }
    }
    for (at, segment) in frame.segments.iter().enumerate() {
        for (score, damping) in scores[frame.base(at)..].iter_mut().zip(&segment.damping) {
            *score *= damping;
        }
    }
    scores
}

fn idf(total: usize, frequency: usize) -> f32 {
    let (total, frequency) = (total as f32, frequency as f32);
    (1.0 + (total - frequency + 0.5) / (frequency + 0.5)).ln()
}

/// In how many visible tools a term occurs; a word of a server's texts occurs in all its tools.
fn document_frequency(found: &[Option<Term<'_>>], mask: &Mask) -> usize {
    let count = |(at, term): (usize, &Option<Term<'_>>)| match term {
        None => 0,
        Some(term) if term.server_counts != [0; SERVER_FIELDS] => mask.visible_in(at),
        Some(term) => match mask.bits(at) {
            None => term.postings.len(),
            Some(bits) => term.postings.iter().filter(|posting| bits[posting.tool as usize]).count(),
        },
    };
    found.iter().enumerate().map(count).sum()
}

/// What turns a count into a weight: `count * scale / (1 - b + b * length / average)`.
struct Averages {
    tool: [f32; TOOL_FIELDS],
    server: [f32; SERVER_FIELDS],
}

// === impl Averages ===

impl Averages {
    fn new(mask: &Mask) -> Self {
        let total = mask.total() as f32;
        let slope = |b: f32, sum: u64| if sum == 0 { 0.0 } else { b * total / sum as f32 };
        Self {
            tool: std::array::from_fn(|field| slope(TOOL_B[field], mask.tool_sums()[field])),
            server: std::array::from_fn(|field| slope(SERVER_B[field], mask.server_sums()[field])),
        }
    }

    fn add(&self, segment: &Segment, term: &Term<'_>, weight: f32, scores: &mut [f32]) {
        let mut shared = 0.0;
        for (field, count) in term.server_counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let norm = 1.0 - SERVER_B[field] + self.server[field] * f32::from(segment.server_lengths[field]);
            shared += SERVER_WEIGHTS[field] * f32::from(*count) / norm;
        }
        let mut postings = term.postings.iter().peekable();
        if shared > 0.0 {
            let alone = weight * shared / (K1 + shared);
            for (tool, score) in scores.iter_mut().enumerate() {
                if postings.peek().is_some_and(|posting| posting.tool as usize == tool) {
                    postings.next();
                } else {
                    *score += alone;
                }
            }
        }
        for posting in term.postings {
            let tool = posting.tool as usize;
            let lengths = &segment.lengths[tool];
            let mut sum = shared;
            for field in 0..TOOL_FIELDS {
                if posting.counts[field] > 0 {
                    let norm = 1.0 - TOOL_B[field] + self.tool[field] * f32::from(lengths[field]);
                    sum += TOOL_WEIGHTS[field] * f32::from(posting.counts[field]) / norm;
                }
            }
            scores[tool] += weight * sum / (K1 + sum);
        }
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
