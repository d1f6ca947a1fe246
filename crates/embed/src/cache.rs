//! The file that keeps vectors: computed once for each content, for all clients and starts of the gateway.
//! It is a cache: a file that is not whole, or of another model, is as none.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;
use toolcrib_search::{TextKey, ToolVectors};

use crate::model::Fingerprint;

/// How many vectors are kept at most: 40 MB with 384 dimensions.
pub const MOST_VECTORS: usize = 100_000;

const MAGIC: &[u8; 8] = b"TCVECT01";
/// Magic, fingerprint, dimensions, number of vectors.
const HEAD: usize = 8 + 32 + 4 + 4;
const KEY: usize = 16;
const CHECKSUM: usize = 32;
/// No file of ours is larger: [`MOST_VECTORS`] of the most dimensions that search takes.
const FILE_BYTES: u64 = (HEAD + CHECKSUM + MOST_VECTORS * (KEY + 4 + toolcrib_search::VECTOR_DIMENSIONS)) as u64;

/// Why vectors cannot be kept.
#[derive(Debug, Error)]
#[error("cannot write `{}`: {source}", path.display())]
pub struct CacheError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The file of one model's vectors.
#[derive(Debug, Clone)]
pub struct Cache {
    path: PathBuf,
    fingerprint: Fingerprint,
    dimensions: usize,
}

// === impl Cache ===

impl Cache {
    /// The file at a path for one model.
    pub fn new(path: &Path, fingerprint: Fingerprint, dimensions: usize) -> Self {
        Self { path: path.to_owned(), fingerprint, dimensions }
    }

    /// What is there; nothing if the file is missing, damaged, too large or of another model.
    pub fn read(&self) -> ToolVectors {
        let mut content = Vec::new();
        let file = fs::File::open(&self.path);
        let read = file.and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut content));
        let none = ToolVectors::new(self.dimensions);
        if read.is_err() { none } else { self.decode(&content).unwrap_or(none) }
    }

    /// Puts a new file in the place of the old one, or leaves that as it was. Vectors beyond [`MOST_VECTORS`] are left
    /// out.
    pub fn write(&self, vectors: &ToolVectors) -> Result<(), CacheError> {
        let content = self.encode(vectors);
        // Gateways over stdio may share a home.
        let next = self.path.with_extension(format!("{}.new", std::process::id()));
        let written = fs::File::create(&next).and_then(|mut file| {
            file.write_all(&content)?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&next, &self.path))
            .map_err(|source| CacheError { path: self.path.clone(), source })
    }

    fn encode(&self, vectors: &ToolVectors) -> Vec<u8> {
        let count = vectors.len().min(MOST_VECTORS);
        let mut content = Vec::with_capacity(HEAD + CHECKSUM + count * (KEY + 4 + self.dimensions));
        content.extend(MAGIC);
        content.extend(self.fingerprint.0);
        content.extend((self.dimensions as u32).to_le_bytes());
        content.extend((count as u32).to_le_bytes());
        for (key, scale, values) in vectors.iter().take(count) {
            content.extend(key.0);
            content.extend(scale.to_le_bytes());
            content.extend(values.iter().map(|value| value.cast_unsigned()));
        }
        let checksum = Sha256::digest(&content);
        content.extend(checksum);
        content
    }

    fn decode(&self, content: &[u8]) -> Option<ToolVectors> {
        let (body, checksum) = content.split_at_checked(content.len().checked_sub(CHECKSUM)?)?;
        if Sha256::digest(body)[..] != *checksum {
            return None;
        }
        let (head, rows) = body.split_at_checked(HEAD)?;
        let (ours, count) = head.split_at_checked(HEAD - 4)?;
        let mut expected = MAGIC.to_vec();
        expected.extend(self.fingerprint.0);
        expected.extend((self.dimensions as u32).to_le_bytes());
        let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
        let size = KEY + 4 + self.dimensions;
        if ours != expected || count > MOST_VECTORS || rows.len() != count * size {
            return None;
        }
        let mut vectors = ToolVectors::new(self.dimensions);
        for row in rows.chunks_exact(size) {
            let (key, rest) = row.split_first_chunk::<KEY>()?;
            let (scale, values) = rest.split_first_chunk::<4>()?;
            let values = values.iter().map(|value| value.cast_signed());
            vectors.insert_small(TextKey(*key), f32::from_le_bytes(*scale), values).then_some(())?;
        }
        Some(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> ToolVectors {
        let mut vectors = ToolVectors::new(3);
        assert!(vectors.insert(TextKey::of("a"), &[1.0, 2.0, 2.0]));
        assert!(vectors.insert(TextKey::of("b"), &[0.0, -1.0, 0.0]));
        vectors
    }

    fn rows(vectors: &ToolVectors) -> Vec<(TextKey, f32, Vec<i8>)> {
        vectors.iter().map(|(key, scale, values)| (key, scale, values.to_vec())).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("vectors.bin"), Fingerprint([7; 32]), 3);
        assert!(cache.read().is_empty());
        cache.write(&filled()).unwrap();
        assert_eq!(rows(&cache.read()), rows(&filled()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_damaged_or_of_another_model_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.bin");
        let cache = Cache::new(&path, Fingerprint([7; 32]), 3);
        cache.write(&filled()).unwrap();
        assert!(Cache::new(&path, Fingerprint([8; 32]), 3).read().is_empty());
        assert!(Cache::new(&path, Fingerprint([7; 32]), 4).read().is_empty());
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(cache.decode(&damaged).is_none(), "byte {at}");
            assert!(cache.decode(&whole[..at]).is_none(), "{at} bytes");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("no/vectors.bin"), Fingerprint([7; 32]), 3);
        assert!(cache.write(&filled()).unwrap_err().to_string().starts_with("cannot write `"));
    }
}
