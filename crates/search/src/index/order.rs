//! From scores to a page of hits: exact names first, ties by id, equal tools folded, limit and offset.

use std::cmp::Ordering;

use toolcrib_base::ToolId;

use crate::blend::{Scores, cosine};
use crate::frame::{Frame, Groups, Mask};
use crate::rank::{Hit, Hits, Query};
use crate::usage;

/// A visible tool that matches.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// The tool's place in the frame; places are in the order of ids.
    place: usize,
    segment: usize,
    score: f32,
}

/// Selects and orders the hits. There is one score for each tool of the frame; above 0 means a match.
pub(super) fn hits(frame: &Frame, mask: &Mask, query: &Query<'_>, scored: &Scores) -> Hits {
    let listing = query.text.trim().is_empty();
    let mut candidates = candidates(frame, mask, query, &scored.scores);
    if !listing {
        raise_learned(frame, query, &mut candidates);
        lift_exact(frame, mask, query, &mut candidates);
    }
    let folded = if query.fold { fold(frame.groups(), &mut candidates) } else { Vec::new() };
    let total = candidates.len();
    let end = query.offset.saturating_add(query.limit).min(total);
    if end < total && end > 0 {
        candidates.select_nth_unstable_by(end - 1, better);
    }
    candidates.truncate(end);
    candidates.sort_unstable_by(better);
    let page = candidates.get(query.offset..).unwrap_or_default();
    let hit = |candidate: &Candidate| Hit {
        id: id(frame, candidate).clone(),
        score: candidate.score,
        near: cosine(&scored.near, candidate.place),
        also: also(frame, candidate, &folded),
    };
    Hits { total, hits: page.iter().map(hit).collect() }
}

fn better(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then(a.place.cmp(&b.place))
}

fn id<'f>(frame: &'f Frame, candidate: &Candidate) -> &'f ToolId {
    &frame.segments[candidate.segment].ids[candidate.place - frame.base(candidate.segment)]
}

fn candidates(frame: &Frame, mask: &Mask, query: &Query<'_>, scores: &[f32]) -> Vec<Candidate> {
    let listing = query.text.trim().is_empty();
    let mut candidates = Vec::new();
    for segment in segments(frame, query) {
        for tool in 0..frame.segments[segment].len() {
            let place = frame.base(segment) + tool;
            let score = if listing { 0.0 } else { scores[place] };
            if (listing || score > 0.0) && mask.shows(segment, tool) {
                candidates.push(Candidate { place, segment, score });
            }
        }
    }
    candidates
}

/// The segments that a query is about.
fn segments(frame: &Frame, query: &Query<'_>) -> std::ops::Range<usize> {
    match query.server.map(|server| frame.position(server)) {
        None => 0..frame.segments.len(),
        Some(Ok(at)) => at..at + 1,
        Some(Err(_)) => 0..0,
    }
}

/// Raises what was called after such queries before. Nothing becomes a hit by it.
fn raise_learned(frame: &Frame, query: &Query<'_>, candidates: &mut [Candidate]) {
    let best = candidates.iter().map(|candidate| candidate.score).fold(0.0, f32::max);
    for (id, share) in query.learned {
        let Ok(segment) = frame.position(id.server.as_str()) else { continue };
        let Ok(tool) = frame.segments[segment].ids.binary_search(id) else { continue };
        let place = frame.base(segment) + tool;
        if let Ok(at) = candidates.binary_search_by_key(&place, |candidate| candidate.place) {
            candidates[at].score += usage::MOST * share.clamp(0.0, 1.0) * best;
        }
    }
}

/// Puts tools whose name is the query above all others, and the tool whose id is the query above these.
fn lift_exact(frame: &Frame, mask: &Mask, query: &Query<'_>, candidates: &mut Vec<Candidate>) {
    let text = query.text.trim();
    let best = candidates.iter().map(|candidate| candidate.score).fold(1.0, f32::max);
    let wanted_id = text.split_once('/');
    let mut unmatched = Vec::new();
    for segment in segments(frame, query) {
        let of_server = wanted_id.filter(|(server, _)| frame.segments[segment].server() == *server);
        for (tool, id) in frame.segments[segment].ids.iter().enumerate() {
            // Most names are shorter than most queries: that is seen without looking at the letters.
            let is_name = |wanted: &str| id.tool.len() >= wanted.len() && id.tool.trim().eq_ignore_ascii_case(wanted);
            let is_id = of_server.is_some_and(|(_, tool)| is_name(tool) && id.tool.trim() == tool);
            let lift = match (is_id, is_name(text)) {
                (true, _) => 2.0 * best,
                (false, true) => best,
                (false, false) => continue,
            };
            if !mask.shows(segment, tool) {
                continue;
            }
            let place = frame.base(segment) + tool;
            match candidates.binary_search_by_key(&place, |candidate| candidate.place) {
                Ok(at) => candidates[at].score += lift,
                Err(_) => unmatched.push(Candidate { place, segment, score: lift }),
            }
        }
    }
    candidates.append(&mut unmatched);
}

/// Keeps the best candidate of each group; returns the others with their group, in the order of ids.
fn fold(groups: &Groups, candidates: &mut Vec<Candidate>) -> Vec<(u32, Candidate)> {
    let mut best: Vec<Option<Candidate>> = vec![None; groups.count];
    let group_of = |candidate: &Candidate| groups.of_tool[candidate.place];
    for candidate in candidates.iter().filter(|candidate| group_of(candidate) != Groups::ALONE) {
        let slot = &mut best[group_of(candidate) as usize];
        if slot.is_none_or(|known| better(candidate, &known) == Ordering::Less) {
            *slot = Some(*candidate);
        }
    }
    let mut folded = Vec::new();
    candidates.retain(|candidate| {
        let group = group_of(candidate);
        let stays = group == Groups::ALONE || best[group as usize].is_some_and(|b| b.place == candidate.place);
        if !stays {
            folded.push((group, *candidate));
        }
        stays
    });
    folded.sort_unstable_by_key(|(group, candidate)| (*group, candidate.place));
    folded
}

fn also(frame: &Frame, candidate: &Candidate, folded: &[(u32, Candidate)]) -> Vec<ToolId> {
    if folded.is_empty() {
        return Vec::new();
    }
    let group = frame.groups().of_tool[candidate.place];
    let start = folded.partition_point(|(other, _)| *other < group);
    let equal = folded[start..].iter().take_while(|(other, _)| *other == group);
    equal.map(|(_, other)| id(frame, other).clone()).collect()
}
