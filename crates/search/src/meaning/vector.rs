//! Vectors of length 1: a byte per number for all tools, two for a query. Products of whole numbers are exact, so the
//! order of additions does not matter and processors may do many at once.

use multiversion::multiversion;

use super::table::DIMENSIONS;
use super::{Piece, Table};

/// The vectors of many texts, a byte per number.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    values: Box<[i8]>,
    /// What the values of each are multiplied with; 0 for a text that says nothing.
    scales: Box<[f32]>,
}

/// A vector that is compared with many.
#[derive(Debug)]
pub(super) struct QueryVector {
    values: Box<Wide>,
    scale: f32,
}

/// A vector as it is multiplied: two bytes per number. The sum of products fits into four, since the other
/// vector's numbers have one byte.
type Wide = [i16; DIMENSIONS];

/// How many products are one step. This many become the instruction that multiplies and adds pairs; with other numbers
/// compilers make more of it.
const LANES: usize = 32;

/// `None` where the table knows nothing of the text.
fn sum(table: &Table, pieces: &[Piece]) -> Option<[f32; DIMENSIONS]> {
    let mut sum = [0.0; DIMENSIONS];
    for piece in pieces {
        table.add(*piece, &mut sum);
    }
    unit(sum)
}

/// A vector scaled to length 1, if it has a length.
fn unit(mut vector: [f32; DIMENSIONS]) -> Option<[f32; DIMENSIONS]> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if !length.is_normal() {
        return None;
    }
    vector.iter_mut().for_each(|value| *value /= length);
    Some(vector)
}

/// A vector of whole numbers up to `most`, and what they are multiplied with.
fn whole(exact: &[f32], most: f32) -> (f32, impl Iterator<Item = f32>) {
    let scale = exact.iter().fold(0.0, |most: f32, value| most.max(value.abs())) / most;
    (scale, exact.iter().map(move |exact| if scale > 0.0 { (exact / scale).round() } else { 0.0 }))
}

/// A vector in bytes, and what they are multiplied with.
pub(super) fn shrink(exact: &[f32]) -> (f32, Vec<i8>) {
    let (scale, values) = whole(exact, f32::from(i8::MAX));
    (scale, values.map(|value| value as i8).collect())
}

/// A vector to compare with such in bytes, and what its numbers are multiplied with. They are so small that the sum of
/// the products fits.
pub(super) fn widen(exact: &[f32]) -> (f32, Vec<i16>) {
    let most = i32::MAX / i32::from(i8::MAX) / i32::try_from(exact.len().max(1)).unwrap_or(i32::MAX);
    let (scale, values) = whole(exact, most.min(i32::from(i16::MAX)) as f32);
    (scale, values.map(|value| value as i16).collect())
}

/// The sum of products of two vectors of one size. Inlined, so that it is compiled for what its caller is compiled for.
#[inline(always)]
pub(super) fn product(ours: &[i16], theirs: &[i16]) -> i32 {
    let (ours, our_rest) = ours.as_chunks::<LANES>();
    let (theirs, their_rest) = theirs.as_chunks::<LANES>();
    // Loops and no iterators' functions: those are compiled apart, for the least processor.
    let mut sum = 0;
    for (ours, theirs) in ours.iter().zip(theirs) {
        let mut lanes = 0;
        for at in 0..LANES {
            lanes += i32::from(ours[at]) * i32::from(theirs[at]);
        }
        sum += lanes;
    }
    for (ours, theirs) in our_rest.iter().zip(their_rest) {
        sum += i32::from(*ours) * i32::from(*theirs);
    }
    sum
}

// === impl Vectors ===

impl Vectors {
    /// One vector for each text, given by its pieces.
    pub(crate) fn new<'p>(table: &Table, texts: impl Iterator<Item = &'p [Piece]>) -> Self {
        let (mut values, mut scales) = (Vec::new(), Vec::new());
        for pieces in texts {
            let sum = sum(table, pieces).unwrap_or([0.0; DIMENSIONS]);
            let (scale, small) = shrink(&sum);
            values.extend(small);
            scales.push(scale);
        }
        Self { values: values.into(), scales: scales.into() }
    }

    /// For each vector the highest cosine that it has with one of several; `f32::MIN` for what is not shown and for a
    /// text that says nothing.
    pub(super) fn nearest(&self, wanted: &[QueryVector], shown: impl Fn(usize) -> bool, cosines: &mut Vec<f32>) {
        nearest(self, wanted, &shown, cosines);
    }
}

/// Processors that multiply sixteen pairs at once do; the sums are whole numbers, so the outcome is the same.
#[multiversion(targets("x86_64+avx2"))]
fn nearest(vectors: &Vectors, wanted: &[QueryVector], shown: &dyn Fn(usize) -> bool, cosines: &mut Vec<f32>) {
    let mut wide: Wide = [0; DIMENSIONS];
    for (at, (scale, values)) in vectors.scales.iter().zip(vectors.values.as_chunks::<DIMENSIONS>().0).enumerate() {
        if *scale <= 0.0 || !shown(at) {
            cosines.push(f32::MIN);
            continue;
        }
        // Widened once for all comparisons.
        for (wide, value) in wide.iter_mut().zip(values) {
            *wide = i16::from(*value);
        }
        let mut highest = f32::MIN;
        for wanted in wanted {
            highest = highest.max(product(&*wanted.values, &wide) as f32 * wanted.scale * scale);
        }
        cosines.push(highest);
    }
}

// === impl QueryVector ===

impl QueryVector {
    pub(super) fn new(table: &Table, pieces: &[Piece]) -> Option<Self> {
        Self::of(&sum(table, pieces)?)
    }

    /// A text's vector, moved by a share of its length to what other pieces say.
    pub(super) fn towards(table: &Table, pieces: &[Piece], others: &[Piece], share: f32) -> Option<Self> {
        let mut exact = sum(table, pieces)?;
        for (exact, other) in exact.iter_mut().zip(sum(table, others).unwrap_or([0.0; DIMENSIONS])) {
            *exact += share * other;
        }
        unit(exact).and_then(|exact| Self::of(&exact))
    }

    fn of(exact: &[f32; DIMENSIONS]) -> Option<Self> {
        let (scale, values) = widen(exact);
        Some(Self { values: values.into_boxed_slice().try_into().ok()?, scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meaning::{Pieces, TextPieces};

    #[test]
    fn near_texts_have_near_vectors() {
        let table = Table::embedded().unwrap();
        let pieces = |text: &str| {
            let mut read = TextPieces::default();
            Pieces::new(table).read(text, 100, &mut read);
            read.pieces
        };
        let cosine = |a: &str, b: &str| {
            let vectors = Vectors::new(&table, [&*pieces(b)].into_iter());
            let mut cosines = Vec::new();
            vectors.nearest(&[QueryVector::new(&table, &pieces(a)).unwrap()], |_| true, &mut cosines);
            cosines[0]
        };
        assert!((cosine("delete a file", "delete a file") - 1.0).abs() < 0.01);
        assert!(cosine("remove the photo", "delete image") > cosine("remove the photo", "convert currency") + 0.1);
        let none = Vectors::new(&table, [&[][..], &*pieces("file")].into_iter());
        let mut cosines = Vec::new();
        none.nearest(&[QueryVector::new(&table, &pieces("file")).unwrap()], |at| at == 0, &mut cosines);
        assert_eq!(cosines, [f32::MIN, f32::MIN], "a text that says nothing, and one that is hidden");
    }
}
