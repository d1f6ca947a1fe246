//! One score from several: each component is scaled from its hundredth best to its best, then a weighted sum.

/// The rank whose score is the zero of a component.
const ZERO_RANK: usize = 100;

/// Scales scores so that the best is 1 and the hundredth and all below are 0; the best of a component that is below
/// `full` stays below 1.
pub(crate) fn scale(scores: &mut [f32], full: f32) {
    let mut sorted: Vec<f32> = scores.iter().copied().filter(|score| *score > 0.0).collect();
    let best = sorted.iter().copied().fold(0.0, f32::max);
    let zero = if sorted.len() < ZERO_RANK {
        0.0
    } else {
        *sorted.select_nth_unstable_by(ZERO_RANK - 1, |a, b| b.total_cmp(a)).1
    };
    let range = (best - zero).max(full);
    for score in scores {
        *score = if range > 0.0 { ((*score - zero) / range).max(0.0) } else { 0.0 };
    }
}

pub fn param(name: &str, default: f32) -> f32 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

pub(crate) fn scale_signed(scores: &mut [f32], full: f32) {
    if scores.is_empty() { return; }
    let mut sorted: Vec<f32> = scores.to_vec();
    let best = sorted.iter().copied().fold(f32::MIN, f32::max);
    let at = ZERO_RANK.min(sorted.len()) - 1;
    let zero = *sorted.select_nth_unstable_by(at, |a, b| b.total_cmp(a)).1;
    let range = (best - zero).max(full);
    for score in scores {
        *score = if range > 0.0 { ((*score - zero) / range).max(0.0) } else { 0.0 };
    }
}
