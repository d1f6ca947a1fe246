//! How many tokens a text costs a model, counted as o200k tokenizers count.
//!
//! `split` cuts a text into words, numbers, signs and spaces; `table` holds the vocabulary and merges each piece's
//! bytes. The vocabulary is part of the program (1.6 MB); the index over it is made at the first count (2 MB, a few
//! milliseconds), so anyone who never counts pays nothing. Other models' tokenizers differ by some percent.

mod split;
mod table;

use table::Table;

/// A piece of more bytes is counted in parts of so many, which bounds what a text without spaces costs. The longest
/// token has as many.
const PIECE_BYTES: usize = 128;

/// How many tokens `text` is. Linear in its length.
pub fn count(text: &str) -> usize {
    let table = Table::shared();
    split::pieces(text).flat_map(|piece| piece.as_bytes().chunks(PIECE_BYTES)).map(|piece| table.count(piece)).sum()
}

#[cfg(test)]
mod tests;
