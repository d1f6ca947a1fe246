//! x
use crate::index::{Frame, Mask};
use crate::meaning::{Pieces, Read, Table, Wanted};

pub(crate) fn clauses(text: &str) -> Vec<String> {
    let least = crate::blend::param("CL", 3.0) as usize;
    let mut out = Vec::new();
    for sentence in text.split(['.', '!', '?', ';', '\n', ',']) {
        for part in sentence.split(" and ").flat_map(|p| p.split(" then ")) {
            if part.split_whitespace().count() >= least { out.push(part.trim().to_owned()); }
        }
    }
    if out.len() < 2 { out.clear(); }
    out.truncate(12);
    out
}

pub(crate) fn score(frame: &Frame, mask: &Mask, text: &str) -> Vec<f32> {
    let table = Table::embedded().unwrap();
    let mut reader = Pieces::new(table);
    let mut texts = vec![text.to_owned()];
    if crate::blend::param("CLAUSES", 1.0) > 0.0 { texts.extend(clauses(text)); }
    let wanted: Vec<Wanted> = texts.iter().filter_map(|t| { let mut r = Read::default(); reader.read(t, 128, &mut r); Wanted::new(&table, &r.pieces) }).collect();
    let mut out = Vec::with_capacity(frame.len());
    for segment in &frame.segments {
        for v in segment.vectors() {
            let s = v.as_ref().map_or(-1.0, |v| wanted.iter().map(|w| w.cosine(v)).fold(-1.0, f32::max));
            out.push(s);
        }
    }
    let _ = mask;
    out
}
