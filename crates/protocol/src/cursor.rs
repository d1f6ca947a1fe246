//! Cursors of our own for lists: opaque to clients, bound to one list and to one state of it.

use std::ops::Range;

use crate::seal::Sealer;

/// Where the next page of a list begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Which state of the list the offset counts in; a list that changed has another one.
    pub version: u64,
    /// How many entries came before.
    pub offset: usize,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries of this page.
    pub range: Range<usize>,
    /// Where the next one begins, unless this is the last.
    pub next: Option<usize>,
}

impl Cursor {
    /// Writes the cursor for `list`, a name that also says whose view of the list it is.
    pub fn encode(&self, sealer: &Sealer, list: &str) -> String {
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&self.version.to_be_bytes());
        payload[8..].copy_from_slice(&(self.offset as u64).to_be_bytes());
        sealer.seal(&purpose(list), &payload)
    }

    /// Reads what [`Cursor::encode`] wrote for the same list; `None` for everything else, the empty text included.
    ///
    /// Whether the version is still the present one is for the caller to see.
    pub fn decode(sealer: &Sealer, list: &str, text: &str) -> Option<Self> {
        let payload: [u8; 16] = sealer.open(&purpose(list), text)?.try_into().ok()?;
        let (version, offset) = payload.split_first_chunk::<8>()?;
        let offset = u64::from_be_bytes(offset.try_into().ok()?);
        Some(Self { version: u64::from_be_bytes(*version), offset: usize::try_from(offset).ok()? })
    }
}

fn purpose(list: &str) -> String {
    format!("cursor {list}")
}

/// The page of at most `size` entries that begins at `offset` in a list of `total`.
///
/// An offset behind the end gives an empty last page; a size of 0 counts as 1, so that paging always ends.
pub fn page(total: usize, offset: usize, size: usize) -> Page {
    let start = offset.min(total);
    let end = start.saturating_add(size.max(1)).min(total);
    Page { range: start..end, next: (end < total).then_some(end) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealer() -> Sealer {
        Sealer::new([3; 32])
    }

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let cursor = Cursor { version: 7, offset: 100 };
        let text = cursor.encode(&sealer(), "tools/list");
        assert_eq!(Cursor::decode(&sealer(), "tools/list", &text), Some(cursor));
        assert_eq!(Cursor::decode(&sealer(), "prompts/list", &text), None);
        assert_eq!(Cursor::decode(&Sealer::new([4; 32]), "tools/list", &text), None);
        for odd in ["", "2", "eyJvZmZzZXQiOjF9", "null"] {
            assert_eq!(Cursor::decode(&sealer(), "tools/list", odd), None, "{odd}");
        }
        let other = sealer().seal("cursor tools/list", b"short");
        assert_eq!(Cursor::decode(&sealer(), "tools/list", &other), None);
    }

    #[test]
    fn pages_at_the_edges() {
        for (total, offset, size, range, next) in [
            (0, 0, 10, 0..0, None),
            (10, 0, 10, 0..10, None),
            (11, 0, 10, 0..10, Some(10)),
            (11, 10, 10, 10..11, None),
            (11, 50, 10, 11..11, None),
            (11, usize::MAX, usize::MAX, 11..11, None),
            (3, 1, 0, 1..2, Some(2)),
        ] {
            assert_eq!(page(total, offset, size), Page { range, next }, "{total} {offset} {size}");
        }
    }

    proptest! {
        #[test]
        fn cursors_survive_a_round_trip(version: u64, offset: usize) {
            let cursor = Cursor { version, offset };
            let text = cursor.encode(&sealer(), "l");
            prop_assert_eq!(Cursor::decode(&sealer(), "l", &text), Some(cursor));
        }

        #[test]
        fn pages_give_each_entry_once(total in 0usize..500, size in 0usize..50) {
            let (mut seen, mut next) = (0, Some(0));
            while let Some(offset) = next {
                let page = page(total, offset, size);
                prop_assert_eq!(page.range.start, seen);
                seen = page.range.end;
                next = page.next;
            }
            prop_assert_eq!(seen, total);
        }
    }
}
