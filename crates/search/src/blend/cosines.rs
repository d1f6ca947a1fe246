//! How near the tools of one state of the index are to a query, by place: `f32::MIN` for what is hidden or has no text.

use crate::frame::{Frame, Mask};
use crate::meaning::{Meaning, Reading};

/// Cosines in the embedded table; empty where it does not know the query.
pub(super) fn embedded(frame: &Frame, mask: &Mask, reading: &Reading) -> Vec<f32> {
    let mut cosines = Vec::new();
    if reading.trust() == 0.0 {
        return cosines;
    }
    cosines.reserve_exact(frame.len());
    for (at, segment) in frame.segments.iter().enumerate() {
        let next = cosines.len() + segment.len();
        if mask.visible_in(at) > 0 {
            reading.compare(segment.meanings(), |tool| mask.shows(at, tool), &mut cosines);
        }
        cosines.resize(next, f32::MIN);
    }
    cosines
}

/// Cosines of a model's vectors; `None` when the query has no vector, vectors do not fit each other, or a visible tool
/// has none yet.
pub(super) fn of_model(frame: &Frame, mask: &Mask, meaning: &Meaning<'_>) -> Option<Vec<f32>> {
    if !meaning.fits() {
        return None;
    }
    let mut cosines = Vec::with_capacity(frame.len());
    for (at, segment) in frame.segments.iter().enumerate() {
        meaning.compare(segment.meanings(), |tool| mask.shows(at, tool), &mut cosines)?;
    }
    Some(cosines)
}

/// The cosine at a place, if there is one.
pub(crate) fn cosine(cosines: &[f32], place: usize) -> Option<f32> {
    // Rounding may bring one a little below -1.
    cosines.get(place).copied().filter(|cosine| *cosine >= -1.1)
}
