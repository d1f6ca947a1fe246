//! The component of meaning: a text's vector is the sum of its word pieces' rows in a table that was learned from names
//! and descriptions of tools; near vectors mean near texts. No inference, no network.

mod pieces;
mod table;

pub(crate) use pieces::{Pieces, Read};
pub(crate) use table::{DIMENSIONS, Piece, Table};

/// A vector of length 1 in a byte per number.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    values: Box<[i8; DIMENSIONS]>,
    /// What a value is multiplied with.
    scale: f32,
}

/// A vector that is compared with many.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    values: Box<[i16; DIMENSIONS]>,
    scale: f32,
}

/// More precise than a vector of the index, and small enough for the sum of all products.
const WANTED_MOST: f32 = 1023.0;

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
    /// `None` where there is no text that the table knows.
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
    pub(crate) fn new(table: &Table, pieces: &[Piece]) -> Option<Self> {
        let sum = sum(table, pieces)?;
        let scale = most(&sum) / WANTED_MOST;
        let mut values = Box::new([0; DIMENSIONS]);
        for (value, exact) in values.iter_mut().zip(sum) {
            *value = (exact / scale).round() as i16;
        }
        Some(Self { values, scale })
    }

    /// The cosine of the angle between both: 1 for the same direction.
    pub(crate) fn cosine(&self, other: &Vector) -> f32 {
        let products = self.values.iter().zip(other.values.iter());
        let sum: i32 = products.map(|(a, b)| i32::from(*a) * i32::from(i16::from(*b))).sum();
        sum as f32 * self.scale * other.scale
    }
}
