//! The plain ranking: term frequency times inverse document frequency over names and descriptions, as profiles of the
//! go-ent dialect have it. No stems, no fields, no meaning; a word that all tools have counts nothing.

use crate::frame::{Frame, Mask};
use crate::plain::words;
use crate::query::QUERY_BYTES;
use crate::text::prefix;

/// One score per place. A word counts as often as the query has it.
pub(crate) fn score(frame: &Frame, mask: &Mask, text: &str) -> Vec<f32> {
    let mut scores = vec![0.0; frame.len()];
    let mut wanted: Vec<(u64, f32)> = Vec::new();
    for word in words(prefix(text, QUERY_BYTES)) {
        match wanted.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1.0,
            None => wanted.push((word, 1.0)),
        }
    }
    for (word, count) in wanted {
        let mut found: Vec<(usize, f32)> = Vec::new();
        for (at, segment) in frame.segments.iter().enumerate() {
            let postings = segment.plain().postings(word).iter().filter(|posting| mask.shows(at, posting.1 as usize));
            found.extend(postings.map(|(_, tool, share)| (frame.base(at) + *tool as usize, *share)));
        }
        let idf = (mask.total() as f32 / found.len().max(1) as f32).ln();
        for (place, share) in found {
            scores[place] += count * share * idf;
        }
    }
    scores
}
