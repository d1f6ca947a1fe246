//! Vectors of length 1: small ones for all tools, exact ones for a query.

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
    values: Box<Lines>,
}

/// How many products are added side by side, which processors do at once. The order of additions is always the same.
const LANES: usize = 16;

/// A vector as it is multiplied.
type Lines = [[f32; LANES]; DIMENSIONS / LANES];

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

fn most(sum: &[f32; DIMENSIONS]) -> f32 {
    sum.iter().fold(0.0, |most: f32, value| most.max(value.abs()))
}

// === impl Vectors ===

impl Vectors {
    /// One vector for each text, given by its pieces.
    pub(crate) fn new<'p>(table: &Table, texts: impl Iterator<Item = &'p [Piece]>) -> Self {
        let (mut values, mut scales) = (Vec::new(), Vec::new());
        for pieces in texts {
            let sum = sum(table, pieces).unwrap_or([0.0; DIMENSIONS]);
            let scale = most(&sum) / f32::from(i8::MAX);
            let small = |exact: f32| if scale > 0.0 { (exact / scale).round() as i8 } else { 0 };
            values.extend(sum.into_iter().map(small));
            scales.push(scale);
        }
        Self { values: values.into(), scales: scales.into() }
    }

    /// The highest cosine that the nth vector has with one of several; `None` for a text that says nothing.
    pub(super) fn nearest(&self, at: usize, wanted: &[Wanted]) -> Option<f32> {
        let scale = self.scales.get(at).copied().filter(|scale| *scale > 0.0)?;
        let values = self.values.get(at * DIMENSIONS..(at + 1) * DIMENSIONS)?;
        // Widened once for all comparisons.
        let mut wide: Lines = Default::default();
        for (wide, value) in wide.as_flattened_mut().iter_mut().zip(values) {
            *wide = f32::from(*value);
        }
        wanted.iter().map(|wanted| wanted.product(&wide) * scale).reduce(f32::max)
    }
}

// === impl Wanted ===

impl Wanted {
    pub(super) fn new(table: &Table, pieces: &[Piece]) -> Option<Self> {
        let mut values: Box<Lines> = Box::default();
        values.as_flattened_mut().copy_from_slice(&sum(table, pieces)?);
        Some(Self { values })
    }

    fn product(&self, other: &Lines) -> f32 {
        let mut lanes = [0.0; LANES];
        for (ours, theirs) in self.values.iter().zip(other) {
            for lane in 0..LANES {
                lanes[lane] += ours[lane] * theirs[lane];
            }
        }
        lanes.iter().sum()
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
