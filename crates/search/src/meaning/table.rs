//! The embedded table of word pieces: a vector for each. It is read where it lies, so memory is used only for the
//! pages that are looked at, and none before the first look.

const BYTES: &[u8] = include_bytes!("../../assets/meaning.bin");
const MAGIC: &[u8] = b"TCMEAN01";
const HEAD: usize = 16;

/// How many numbers a vector has.
pub(super) const DIMENSIONS: usize = 256;

/// A view of the file: magic, number of pieces, dimensions; the ends of the pieces' texts; scales; texts, sorted; rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    ends: &'static [u8],
    scales: &'static [u8],
    texts: &'static [u8],
    rows: &'static [u8],
}

/// The number of a piece.
pub(crate) type Piece = u16;

// === impl Table ===

impl Table {
    /// The table of this build; `None` if the file is not what this code reads, which a test excludes.
    pub(crate) fn embedded() -> Option<Self> {
        let count = number(BYTES, 2)? as usize;
        if !BYTES.starts_with(MAGIC) || number(BYTES, 3)? as usize != DIMENSIONS || count > usize::from(Piece::MAX) {
            return None;
        }
        let (ends, rest) = BYTES.get(HEAD..)?.split_at_checked(4 * count)?;
        let (scales, rest) = rest.split_at_checked(4 * count)?;
        let (texts, rows) = rest.split_at_checked(number(ends, count.checked_sub(1)?)? as usize)?;
        (rows.len() == count * DIMENSIONS).then_some(Self { ends, scales, texts, rows })
    }

    /// The number of a piece; those within a word begin with `##`.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Piece> {
        let (mut low, mut high) = (0, self.ends.len() / 4);
        while low < high {
            let middle = low.midpoint(high);
            match self.text(middle).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Piece::try_from(middle).ok(),
            }
        }
        None
    }

    /// Adds a piece's vector.
    pub(crate) fn add(&self, piece: Piece, sum: &mut [f32; DIMENSIONS]) {
        let piece = usize::from(piece);
        let scale = number(self.scales, piece).map_or(0.0, f32::from_bits);
        let row = self.rows.get(piece * DIMENSIONS..(piece + 1) * DIMENSIONS).unwrap_or_default();
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += scale * f32::from(value.cast_signed());
        }
    }

    fn text(&self, at: usize) -> &'static [u8] {
        let end = |at: usize| number(self.ends, at).unwrap_or(0) as usize;
        let start = at.checked_sub(1).map_or(0, end);
        self.texts.get(start..end(at)).unwrap_or_default()
    }
}

/// The nth little-endian number of four bytes.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(4 * at..4 * at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_read() {
        let table = Table::embedded().unwrap();
        let count = table.ends.len() / 4;
        assert!((1..count).all(|at| table.text(at - 1) < table.text(at)), "pieces are sorted and distinct");
        for word in ["file", "##ing", "the", "."] {
            let piece = table.find(word.as_bytes()).unwrap();
            let mut sum = [0.0; DIMENSIONS];
            table.add(piece, &mut sum);
            assert!(sum.iter().all(|value| value.is_finite()) && sum.iter().any(|value| *value != 0.0), "{word}");
        }
        assert!(table.find(b"nosuchwordinit").is_none());
    }
}
