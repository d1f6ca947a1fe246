//! Vectors from outside: a model that is no part of this crate read the texts, here they are kept by content and
//! compared.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use sha2::{Digest, Sha256};

use super::Meanings;
use super::vector::{product, shrink, widen};

/// How many numbers a vector from outside has at most.
pub const VECTOR_DIMENSIONS: usize = 4096;

/// The content of a text: who changes a letter of a tool changes its key, and equal texts share a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextKey(pub [u8; 16]);

/// The vectors of tools' texts, a byte per number, by the texts' keys. All have the same number of dimensions.
#[derive(Debug, Clone)]
pub struct ToolVectors {
    dimensions: usize,
    places: HashMap<TextKey, u32, BuildHasherDefault<KeyHasher>>,
    values: Vec<i8>,
    scales: Vec<f32>,
}

/// The vectors of a query: of the whole text and of its clauses, in the order of [`crate::Ranker::meaning_texts`].
#[derive(Debug, Clone, Default)]
pub struct QueryVectors {
    /// Each with what its numbers are multiplied with.
    wanted: Vec<(f32, Vec<i16>)>,
}

/// What a model knows for one search.
#[derive(Debug, Clone, Copy)]
pub struct Meaning<'a> {
    /// Of the tools. While one visible tool is missing, the embedded table answers alone.
    pub tools: &'a ToolVectors,
    /// Of the query.
    pub query: &'a QueryVectors,
}

/// A key is a hash already: its first bytes are taken as they are. SHA-256 leaves no one a choice of them.
#[derive(Debug, Default)]
struct KeyHasher(u64);

// === impl TextKey ===

impl TextKey {
    /// The key of a text.
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self(key)
    }
}

// === impl KeyHasher ===

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some((first, _)) = bytes.split_first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _: usize) {}
}

// === impl ToolVectors ===

impl ToolVectors {
    /// No vectors yet, of so many numbers each; at most [`VECTOR_DIMENSIONS`].
    pub fn new(dimensions: usize) -> Self {
        let dimensions = dimensions.min(VECTOR_DIMENSIONS);
        Self { dimensions, places: HashMap::default(), values: Vec::new(), scales: Vec::new() }
    }

    /// How many numbers each vector has.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// How many texts have a vector.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no text has a vector.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a text has a vector.
    pub fn contains(&self, key: &TextKey) -> bool {
        self.places.contains_key(key)
    }

    /// Keeps the vector of a text, scaled to length 1. `false` if it has another number of dimensions or is none (zero,
    /// not finite): such a text is then as if it had no meaning. The first vector of a text stays.
    pub fn insert(&mut self, key: TextKey, vector: &[f32]) -> bool {
        if vector.len() != self.dimensions {
            return false;
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let fits = length.is_normal();
        let unit: Vec<f32> = vector.iter().map(|value| if fits { value / length } else { 0.0 }).collect();
        let (scale, values) = shrink(&unit);
        self.insert_small(key, scale, values.iter().copied()) && fits
    }

    /// Keeps a vector as [`ToolVectors::iter`] gave it. `false` if it has another number of dimensions or an odd scale.
    pub fn insert_small(&mut self, key: TextKey, scale: f32, values: impl ExactSizeIterator<Item = i8>) -> bool {
        if values.len() != self.dimensions || !scale.is_finite() || scale < 0.0 {
            return false;
        }
        let Ok(place) = u32::try_from(self.scales.len()) else { return false };
        if let std::collections::hash_map::Entry::Vacant(free) = self.places.entry(key) {
            free.insert(place);
            self.values.extend(values);
            self.scales.push(scale);
        }
        true
    }

    /// All vectors in the order of their coming: key, what the values are multiplied with, values.
    pub fn iter(&self) -> impl Iterator<Item = (TextKey, f32, &[i8])> {
        let mut keys: Vec<(u32, TextKey)> = self.places.iter().map(|(key, place)| (*place, *key)).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(place, key)| {
            let start = place as usize * self.dimensions;
            (key, self.scales[place as usize], &self.values[start..start + self.dimensions])
        })
    }

    /// The highest cosine of one text with one of several; `None` for a text without a vector.
    fn nearest(&self, key: &TextKey, query: &QueryVectors, wide: &mut Vec<i16>) -> Option<f32> {
        let place = *self.places.get(key)? as usize;
        let values = &self.values[place * self.dimensions..(place + 1) * self.dimensions];
        wide.clear();
        wide.extend(values.iter().copied().map(i16::from));
        let cosine = |(scale, wanted): &(f32, Vec<i16>)| product(wanted, wide) as f32 * scale * self.scales[place];
        Some(query.wanted.iter().map(cosine).fold(f32::MIN, f32::max))
    }
}

// === impl QueryVectors ===

impl QueryVectors {
    /// Keeps vectors scaled to length 1; leaves out what is none (zero, not finite).
    pub fn new<'v>(vectors: impl IntoIterator<Item = &'v [f32]>) -> Self {
        let mut wanted = Vec::new();
        for vector in vectors {
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            if !length.is_normal() || vector.len() > VECTOR_DIMENSIONS {
                continue;
            }
            let unit: Vec<f32> = vector.iter().map(|value| value / length).collect();
            wanted.push(widen(&unit));
        }
        Self { wanted }
    }
}

// === impl Meaning ===

impl Meaning<'_> {
    /// Whether the query has vectors, and all fit those of the tools.
    pub(crate) fn fits(&self) -> bool {
        let fits = |(_, wanted): &(f32, Vec<i16>)| wanted.len() == self.tools.dimensions;
        !self.query.wanted.is_empty() && self.query.wanted.iter().all(fits)
    }

    /// Compares with the tools of one server: appends for each the highest cosine with the query or one of its clauses,
    /// `f32::MIN` for those that are not `shown`. `None` when a tool that is shown has no vector yet.
    pub(crate) fn compare(
        &self,
        tools: &Meanings,
        shown: impl Fn(usize) -> bool,
        cosines: &mut Vec<f32>,
    ) -> Option<()> {
        let mut wide = Vec::with_capacity(self.tools.dimensions);
        for (tool, key) in tools.keys().iter().enumerate() {
            cosines.push(if shown(tool) { self.tools.nearest(key, self.query, &mut wide)? } else { f32::MIN });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_kept_once_and_only_if_it_is_one() {
        let mut vectors = ToolVectors::new(2);
        let key = TextKey::of("a");
        assert!(!vectors.insert(key, &[1.0]), "another number of dimensions");
        assert!(vectors.insert(key, &[3.0, 4.0]));
        assert!(vectors.insert(key, &[0.0, 1.0]));
        let kept: Vec<_> = vectors.iter().map(|(key, _, values)| (key, values.to_vec())).collect();
        assert_eq!(kept, [(key, vec![95, 127])]);
        assert!(!vectors.insert(TextKey::of("b"), &[0.0, f32::NAN]), "no vector, but known to be none");
        assert!(vectors.contains(&TextKey::of("b")));
        assert!(!vectors.insert_small(TextKey::of("c"), f32::NAN, [0, 0].into_iter()));
    }

    #[test]
    fn near_vectors_have_high_cosines() {
        let mut vectors = ToolVectors::new(20);
        let axis = |at: usize| (0..20).map(|n| f32::from(u8::from(n == at))).collect::<Vec<f32>>();
        let keys = ["a", "b"].map(TextKey::of);
        assert!(vectors.insert(keys[0], &axis(0)) && vectors.insert(keys[1], &axis(19)));
        let (mut wide, wanted) = (Vec::new(), axis(19));
        let query = QueryVectors::new([&*wanted]);
        let mut nearest = |key| vectors.nearest(key, &query, &mut wide).unwrap();
        assert!(nearest(&keys[0]).abs() < 1e-6 && (nearest(&keys[1]) - 1.0).abs() < 1e-3);
        assert!(vectors.nearest(&TextKey::of("c"), &query, &mut Vec::new()).is_none());
    }
}
