//! Vectors of length 1: small ones for each tool, finer ones for a query.

use super::table::DIMENSIONS;
use super::{Piece, Table};

/// A tool's vector in a byte per number.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    values: Box<[i8; DIMENSIONS]>,
    /// What a value is multiplied with.
    scale: f32,
}

/// A vector that is compared with many.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    values: Box<[i16; DIMENSIONS]>,
    scale: f32,
}

/// More precise than a vector of the index, and small enough for the sum of all products.
const WANTED_MOST: f32 = 1023.0;

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

// === impl Vector ===

impl Vector {
    /// The vector of a text of these pieces; `None` for a text without any.
    pub(crate) fn new(table: &Table, pieces: &[Piece]) -> Option<Self> {
        let sum = sum(table, pieces)?;
        let scale = most(&sum) / f32::from(i8::MAX);
        let mut values = Box::new([0; DIMENSIONS]);
        for (value, exact) in values.iter_mut().zip(sum) {
            *value = (exact / scale).round() as i8;
        }
        Some(Self { values, scale })
    }
}

// === impl Wanted ===

impl Wanted {
    pub(super) fn new(table: &Table, pieces: &[Piece]) -> Option<Self> {
        let sum = sum(table, pieces)?;
        let scale = most(&sum) / WANTED_MOST;
        let mut values = Box::new([0; DIMENSIONS]);
        for (value, exact) in values.iter_mut().zip(sum) {
            *value = (exact / scale).round() as i16;
        }
        Some(Self { values, scale })
    }

    /// The cosine of the angle between both: 1 for the same direction.
    pub(super) fn cosine(&self, other: &Vector) -> f32 {
        let products = self.values.iter().zip(other.values.iter());
        let sum: i32 = products.map(|(a, b)| i32::from(*a) * i32::from(i16::from(*b))).sum();
        sum as f32 * self.scale * other.scale
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
            Wanted::new(&table, &pieces(a)).unwrap().cosine(&Vector::new(&table, &pieces(b)).unwrap())
        };
        assert!((cosine("delete a file", "delete a file") - 1.0).abs() < 0.01);
        assert!(cosine("remove the photo", "delete image") > cosine("remove the photo", "convert currency") + 0.1);
        assert!(Vector::new(&table, &[]).is_none());
    }
}
