//! Finds where one of many texts may stand, without looking at every place: a filter of a few characters.

/// The filter has 2¹⁰ to 2¹⁹ words of 64 bits, two of which are set for each gram. With a word for each gram one
/// innocent place in a thousand passes; a hundred texts in twenty forms need 64 KiB, which stays in the cache of a
/// processor.
const WORDS: std::ops::RangeInclusive<u32> = 10..=19;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Says of `GRAM` characters in a row, up to eight, whether they may be among those that it was built of. Looks at every
/// `STRIDE`th place of a text: what is `GRAM + STRIDE - 1` characters long is found wherever it begins, if it was built
/// of all the grams in it.
#[derive(Default)]
pub(crate) struct GramFilter<const GRAM: usize, const STRIDE: usize> {
    words: Vec<u64>,
    shift: u32,
}

// === impl GramFilter ===

impl<const GRAM: usize, const STRIDE: usize> GramFilter<GRAM, STRIDE> {
    /// Lets these pass, and few others.
    pub(crate) fn new(grams: &[u64]) -> Self {
        if grams.is_empty() {
            return Self::default();
        }
        let wanted = grams.len().next_power_of_two().trailing_zeros();
        let words = wanted.clamp(*WORDS.start(), *WORDS.end());
        let mut filter = Self { words: vec![0; 1 << words], shift: 64 - words };
        for key in grams {
            let (word, bits) = filter.slot(*key);
            filter.words[word] |= bits;
        }
        filter
    }

    /// The places of a text, among those looked at, whose characters pass, in their order.
    pub(crate) fn passing<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = self.next(text, at)?;
            at = found + STRIDE;
            Some(found)
        })
    }

    /// The first place from `at` on that passes. A loop of its own, since it is what scanning spends its time in.
    #[inline(never)]
    fn next(&self, text: &[u8], mut at: usize) -> Option<usize> {
        // Nearly all places have enough behind them to be read as one word.
        while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<{ size_of::<u64>() }>()) {
            if self.may_have(u64::from_le_bytes(*bytes) & low(GRAM)) {
                return Some(at);
            }
            at += STRIDE;
        }
        (at..(text.len() + 1).saturating_sub(GRAM)).step_by(STRIDE).find(|at| self.may_have(gram::<GRAM>(text, *at)))
    }

    #[inline]
    fn may_have(&self, key: u64) -> bool {
        let (word, bits) = self.slot(key);
        self.words.get(word).is_some_and(|word| word & bits == bits)
    }

    /// The word of the filter for a gram, and the bits that are set in it.
    #[inline]
    fn slot(&self, key: u64) -> (usize, u64) {
        let hash = key.wrapping_mul(FACTOR);
        // The highest bits of the product are the best mixed ones; those of the word come from below these.
        ((hash >> self.shift) as usize, 1 << (hash >> 38 & 63) | 1 << (hash >> 32 & 63))
    }
}

/// The lowest bytes of a word.
const fn low(bytes: usize) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

/// So many characters at a place; what follows them is left out.
pub(crate) fn gram<const GRAM: usize>(text: &[u8], at: usize) -> u64 {
    let mut word = [0; size_of::<u64>()];
    match text.get(at..at + size_of::<u64>()) {
        Some(bytes) => word.copy_from_slice(bytes),
        None => {
            let bytes = &text[at..];
            word[..bytes.len()].copy_from_slice(bytes);
        }
    }
    u64::from_le_bytes(word) & low(GRAM)
}

/// A hash of two grams, one behind the other.
pub(crate) fn hash(first: u64, second: u64) -> u64 {
    let hash = (first.wrapping_mul(FACTOR) ^ second).wrapping_mul(FACTOR);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_stride_that_fit_are_looked_at() {
        check::<6, 3>();
        check::<3, 2>();
        check::<8, 1>();
    }

    fn check<const GRAM: usize, const STRIDE: usize>() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for length in 0..text.len() {
            let text = &text[..length];
            let all: Vec<u64> = (0..(length + 1).saturating_sub(GRAM)).map(|at| gram::<GRAM>(text, at)).collect();
            let passing: Vec<usize> = GramFilter::<GRAM, STRIDE>::new(&all).passing(text).collect();
            assert_eq!(passing, (0..all.len()).step_by(STRIDE).collect::<Vec<_>>(), "{length}");
        }
        assert_eq!(GramFilter::<GRAM, STRIDE>::default().passing(text).count(), 0);
        let at = 2 * STRIDE;
        let one = GramFilter::<GRAM, STRIDE>::new(&[gram::<GRAM>(text, at)]);
        assert_eq!(one.passing(text).collect::<Vec<_>>(), [at]);
    }
}
