//! The vocabulary: tokens by rank, found by their bytes; and byte pair merging with it.

use std::sync::OnceLock;

/// For each token, in order of its rank: a byte with its length, then its bytes.
static FILE: &[u8] = include_bytes!("../../assets/o200k.bin");
/// How many tokens the vocabulary has.
pub(super) const TOKENS: usize = 199_998;
/// The index's size as a power of two: three places of four are taken.
const BITS: u32 = 18;
/// How many bits of a place hold the rank, one more than that of the token; the others hold some of its hash.
const RANK_BITS: u32 = 18;
const RANK: u32 = (1 << RANK_BITS) - 1;
/// The rank of what is not a token.
const NONE: u32 = u32::MAX;

/// Where each token is found.
pub(super) struct Table {
    /// Open addressing with linear probing; 0 is a free place.
    places: Vec<u32>,
    /// Where each token begins in the file.
    starts: Vec<u32>,
}

// === impl Table ===

impl Table {
    /// The one of this process, made when it is first asked for.
    pub(super) fn shared() -> &'static Self {
        static SHARED: OnceLock<Table> = OnceLock::new();
        SHARED.get_or_init(Self::read)
    }

    fn read() -> Self {
        let mut table = Self { places: vec![0; 1 << BITS], starts: Vec::with_capacity(TOKENS) };
        let mut at = 0;
        while let Some(length) = FILE.get(at) {
            table.starts.push(u32::try_from(at).expect("the file is smaller than 4 GiB"));
            let end = at + 1 + usize::from(*length);
            let (mut place, tag) = address(&FILE[at + 1..end]);
            while table.places[place] != 0 {
                place = (place + 1) % table.places.len();
            }
            table.places[place] = tag << RANK_BITS | u32::try_from(table.starts.len()).expect("as many as places");
            at = end;
        }
        table
    }

    /// The bytes of a token.
    pub(super) fn token(&self, rank: u32) -> &'static [u8] {
        let at = self.starts[rank as usize] as usize;
        &FILE[at + 1..at + 1 + usize::from(FILE[at])]
    }

    /// The rank of a token, or [`NONE`].
    fn rank(&self, bytes: &[u8]) -> u32 {
        let (mut place, tag) = address(bytes);
        loop {
            match self.places[place] {
                0 => return NONE,
                taken if taken >> RANK_BITS == tag && self.token((taken & RANK) - 1) == bytes => {
                    return (taken & RANK) - 1;
                }
                _ => place = (place + 1) % self.places.len(),
            }
        }
    }

    /// How many tokens a piece is: neighbours whose union has the lowest rank are merged until none can be.
    pub(super) fn count(&self, piece: &[u8]) -> usize {
        if piece.len() < 2 || self.rank(piece) != NONE {
            return usize::from(!piece.is_empty());
        }
        // Where each part begins and the rank of its union with the next.
        let mut parts: Vec<(usize, u32)> = (0..piece.len()).map(|at| (at, NONE)).collect();
        let union = |parts: &[(usize, u32)], at: usize| match parts.get(at + 1) {
            None => NONE,
            Some(_) => self.rank(&piece[parts[at].0..parts.get(at + 2).map_or(piece.len(), |next| next.0)]),
        };
        for at in 0..parts.len() {
            parts[at].1 = union(&parts, at);
        }
        while let Some((at, (_, rank))) = parts.iter().enumerate().min_by_key(|(_, (_, rank))| *rank)
            && *rank != NONE
        {
            parts.remove(at + 1);
            parts[at].1 = union(&parts, at);
            if at > 0 {
                parts[at - 1].1 = union(&parts, at - 1);
            }
        }
        parts.len()
    }
}

/// The first place to look at and what is kept of the hash beside the rank.
fn address(bytes: &[u8]) -> (usize, u32) {
    // FNV-1a; the upper half mixes best.
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let place = usize::try_from(mixed >> (64 - BITS)).expect("18 bits");
    (place, u32::try_from(mixed & ((1 << (32 - RANK_BITS)) - 1)).expect("14 bits"))
}
