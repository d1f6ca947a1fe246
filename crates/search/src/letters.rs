//! Which words look like a given one: by few edits (slips of the keyboard), and by the groups of three and four letters
//! that they share (word forms, compounds).

/// Longer words are looked at by their first letters.
const LETTERS: usize = 24;
/// Groups of letters are counted in this many bins; a shared bin by chance is harmless.
const BINS: usize = 1 << 15;

/// The shapes of many words, each by the number of its `push`.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    lengths: Vec<u8>,
    /// Which of 64 classes of letters occur.
    sets: Vec<u64>,
    /// How many groups each word has.
    sizes: Vec<u8>,
    starts: Vec<u32>,
    words: Vec<u32>,
    /// Bin and word while reading.
    draft: Vec<(u16, u32)>,
}

// === impl Letters ===

impl Letters {
    pub(crate) fn push(&mut self, text: &str) {
        let word = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        let mut size = 0_u8;
        groups(text, &mut |bin| {
            self.draft.push((bin, word));
            size = size.saturating_add(1);
        });
        let (length, set) = sketch(text);
        self.lengths.push(length);
        self.sets.push(set);
        self.sizes.push(size);
    }

    /// Makes what was pushed searchable.
    pub(crate) fn finish(&mut self) {
        let draft = std::mem::take(&mut self.draft);
        let mut starts = vec![0_u32; BINS + 1];
        for (bin, _) in &draft {
            starts[usize::from(*bin) + 1] += 1;
        }
        for bin in 0..BINS {
            starts[bin + 1] += starts[bin];
        }
        let mut next = starts.clone();
        let mut words = vec![0; draft.len()];
        for (bin, word) in draft {
            let at = &mut next[usize::from(bin)];
            words[*at as usize] = word;
            *at += 1;
        }
        (self.starts, self.words) = (starts, words);
    }

    /// Words that may be within `bound` edits of a text: certain for those that are not given.
    pub(crate) fn near(&self, text: &str, bound: u8) -> impl Iterator<Item = u32> {
        let (length, set) = sketch(text);
        // Each edit brings one letter at most, and takes one at most. Nothing is left of few when each step takes one;
        // counting is slower where processors have no instruction for it.
        let few = move |set: u64| (0..bound).fold(set, |set, _| set & set.wrapping_sub(1)) == 0;
        self.lengths.iter().zip(&self.sets).zip(0..).filter_map(move |((other_length, other_set), word)| {
            let alike = other_length.abs_diff(length) <= bound && few(other_set & !set) && few(set & !other_set);
            alike.then_some(word)
        })
    }

    /// Words that share groups of letters with a text: each with the share of common groups (Dice), at least `least`.
    pub(crate) fn alike(&self, text: &str, least: f32, counts: &mut Vec<u8>) -> Vec<(u32, f32)> {
        counts.clear();
        counts.resize(self.lengths.len(), 0);
        let (mut bins, mut size) = ([0; 2 * LETTERS], 0);
        groups(text, &mut |bin| {
            bins[usize::from(size)] = bin;
            size += 1_u8;
        });
        // Most words have less in common than could be enough with any length: these are never looked at.
        let fewest = ((least * f32::from(size) / 2.0) as u8).max(1);
        let mut enough = Vec::new();
        for bin in bins.into_iter().take(usize::from(size)).map(usize::from) {
            for word in &self.words[self.starts[bin] as usize..self.starts[bin + 1] as usize] {
                let count = &mut counts[*word as usize];
                *count = count.saturating_add(1);
                if *count == fewest {
                    enough.push(*word);
                }
            }
        }
        enough.sort_unstable();
        let mut alike = Vec::new();
        for word in enough {
            let at = word as usize;
            let (common, both) = (2.0 * f32::from(counts[at]), f32::from(size) + f32::from(self.sizes[at]));
            if common >= least * both {
                alike.push((word, (common / both).min(1.0)));
            }
        }
        alike
    }
}

/// How many letters, and which.
fn sketch(text: &str) -> (u8, u64) {
    let add = |(count, set): (u8, u64), letter| (count.saturating_add(1), set | 1 << (u32::from(letter) % 64));
    text.chars().fold((0, 0), add)
}

/// The groups of three and four letters of a word with its edges, as bins.
fn groups(text: &str, emit: &mut dyn FnMut(u16)) {
    let mut letters = ['\0'; LETTERS + 2];
    letters[0] = ' ';
    let mut end = 1;
    for letter in text.chars().take(LETTERS) {
        letters[end] = letter;
        end += 1;
    }
    letters[end] = ' ';
    end += 1;
    for size in [3, 4] {
        for group in letters[..end].windows(size) {
            let mix = |hash: u32, letter: &char| (hash ^ u32::from(*letter)).wrapping_mul(0x0100_0193).rotate_left(5);
            let hash = group.iter().fold(0x811c_9dc5, mix);
            emit((hash.wrapping_mul(0x9e37_79b1) >> 17) as u16);
        }
    }
}
