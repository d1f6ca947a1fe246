//! Vectors of length 1: a byte per number for all tools, two for a query. Products of whole numbers are exact, so the
//! order of additions does not matter and processors may do many at once.

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
pub(super) struct Wanted {
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
    let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
    if !length.is_normal() {
        return None;
    }
    sum.iter_mut().for_each(|value| *value /= length);
    Some(sum)
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

/// The sum of products of two vectors of one size.
pub(super) fn product(ours: &[i16], theirs: &[i16]) -> i32 {
    let (ours, our_rest) = ours.as_chunks::<LANES>();
    let (theirs, their_rest) = theirs.as_chunks::<LANES>();
    let of = |ours: &[i16], theirs: &[i16]| -> i32 {
        ours.iter().zip(theirs).map(|(ours, theirs)| i32::from(*ours) * i32::from(*theirs)).sum()
    };
    let sum = ours.iter().zip(theirs).fold(0, |sum, (ours, theirs)| {
        sum + (0..LANES).map(|at| i32::from(ours[at]) * i32::from(theirs[at])).sum::<i32>()
    });
    sum + of(our_rest, their_rest)
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

    /// The highest cosine that the nth vector has with one of several; `None` for a text that says nothing.
    pub(super) fn nearest(&self, at: usize, wanted: &[Wanted]) -> Option<f32> {
        let scale = self.scales.get(at).copied().filter(|scale| *scale > 0.0)?;
        let values = self.values.get(at * DIMENSIONS..(at + 1) * DIMENSIONS)?;
        // Widened once for all comparisons.
        let mut wide: Wide = [0; DIMENSIONS];
        for (wide, value) in wide.iter_mut().zip(values) {
            *wide = i16::from(*value);
        }
        wanted.iter().map(|wanted| wanted.product(&wide) * scale).reduce(f32::max)
    }
}

// === impl Wanted ===

impl Wanted {
    pub(super) fn new(table: &Table, pieces: &[Piece]) -> Option<Self> {
        let (scale, values) = widen(&sum(table, pieces)?);
        Some(Self { values: values.into_boxed_slice().try_into().ok()?, scale })
    }

    fn product(&self, other: &Wide) -> f32 {
        product(&*self.values, other) as f32 * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meaning::{Pieces, Read};

    #[test]
    fn near_texts_have_near_vectors() {
        let table = Table::embedded().unwrap();
        let pieces = |text: &str| {
            let mut read = Read::default();
            Pieces::new(table).read(text, 100, &mut read);
            read.pieces
        };
        let cosine = |a: &str, b: &str| {
            let vectors = Vectors::new(&table, [&*pieces(b)].into_iter());
            vectors.nearest(0, &[Wanted::new(&table, &pieces(a)).unwrap()])
        };
        let cosine = |a: &str, b: &str| cosine(a, b).unwrap();
        assert!((cosine("delete a file", "delete a file") - 1.0).abs() < 0.01);
        assert!(cosine("remove the photo", "delete image") > cosine("remove the photo", "convert currency") + 0.1);
        let nothing = Vectors::new(&table, [&[][..]].into_iter());
        assert!(nothing.nearest(0, &[Wanted::new(&table, &pieces("file")).unwrap()]).is_none());
    }
}
