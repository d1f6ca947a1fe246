//! Seals rows of the database with a key that is derived from the vault's. It knows no tables: a row is a list of texts
//! that identify it, and what was sealed for one opens for no other.

use std::fmt;

use zeroize::Zeroizing;

use super::crypt::{Context, KEY_ID_BYTES, Key, NONCE_BYTES, SealedBytes};

/// What the derived key is for; no entry of the vault is sealed with it.
const PURPOSE: &[u8] = b"toolcrib rows of the database";
/// The format that we write and read; the first byte.
const VERSION: u8 = 1;

/// Seals short byte strings and opens them. Clones have the same key, which is wiped when the last is dropped.
#[derive(Clone)]
pub struct Sealer {
    key: Key,
    /// Names the vault's key, not the derived one.
    key_id: [u8; KEY_ID_BYTES],
}

/// Why something sealed was not opened. Names keys by their ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It was sealed with another key of the vault.
    #[error("it was encrypted with key `{wanted}`, but the vault has key `{found}`")]
    OtherKey { wanted: String, found: String },
    /// It was sealed for another row, or is not what was sealed.
    #[error("it was encrypted for another row, or is damaged")]
    Mismatch,
    /// A later format, or none of ours.
    #[error("it has no format that this toolcrib reads")]
    Format,
}

// === impl SealError ===

impl SealError {
    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OtherKey { .. } => {
                "restore the vault's key and restart toolcrib, or log in again with `toolcrib login SERVER`"
            }
            Self::Mismatch => "log in again with `toolcrib login SERVER`",
            Self::Format => "run the newer toolcrib, or log in again with `toolcrib login SERVER`",
        }
    }
}

// === impl Sealer ===

impl Sealer {
    pub(super) fn new(vault: &Key) -> Self {
        Self { key: vault.derive(PURPOSE), key_id: vault.id_bytes() }
    }

    /// Seals `plain` for the row that the texts of `row` identify: its table first, then its key and all that must not
    /// change without a new sealing. Gives 49 bytes more than it got.
    pub fn seal(&self, plain: &[u8], row: &[&str]) -> Vec<u8> {
        let SealedBytes { nonce, bytes } = self.key.seal(plain, self.context(row).as_bytes());
        [&[VERSION][..], &self.key_id, &nonce, &bytes].concat()
    }

    /// Opens what was sealed for this very row.
    ///
    /// # Errors
    /// It was sealed with another key or for another row, or is not what [`Sealer::seal`] gave.
    pub fn open(&self, sealed: &[u8], row: &[&str]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (version, rest) = sealed.split_first().ok_or(SealError::Format)?;
        if *version != VERSION {
            return Err(SealError::Format);
        }
        let (key_id, rest) = rest.split_first_chunk::<KEY_ID_BYTES>().ok_or(SealError::Format)?;
        let (nonce, bytes) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Format)?;
        if *key_id != self.key_id {
            let [wanted, found] = [key_id, &self.key_id].map(Key::id_text);
            return Err(SealError::OtherKey { wanted, found });
        }
        let sealed = SealedBytes { nonce: *nonce, bytes: bytes.to_vec() };
        self.key.open(&sealed, self.context(row).as_bytes()).ok_or(SealError::Mismatch)
    }

    fn context(&self, row: &[&str]) -> Context {
        Context::default().field(&[VERSION]).field(&self.key_id).list(row.iter().copied())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({})", Key::id_text(&self.key_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: [&str; 5] = ["credential", "owner", "notion", "https://login.example.com", "client"];

    #[test]
    fn what_is_sealed_for_a_row_opens_for_no_other() {
        let sealer = Sealer::new(&Key::random());
        let sealed = sealer.seal(b"token", &ROW);
        assert_eq!(sealer.open(&sealed, &ROW).unwrap().as_slice(), b"token");
        assert_eq!(sealed.len(), 5 + 49);
        let others: [&[&str]; 8] = [
            &["pending_login", "owner", "notion", "https://login.example.com", "client"],
            &["credential", "key:work/ci", "notion", "https://login.example.com", "client"],
            &["credential", "owner", "github", "https://login.example.com", "client"],
            &["credential", "owner", "notion", "https://evil.example.com", "client"],
            &["credential", "owner", "notion", "https://login.example.com", "other"],
            &["credential", "ownernotion", "https://login.example.com", "client"],
            &["credential", "owner", "notion", "https://login.example.com", "client", ""],
            &[],
        ];
        for row in others {
            assert_eq!(sealer.open(&sealed, row).unwrap_err(), SealError::Mismatch, "{row:?}");
        }
    }

    #[test]
    fn a_changed_byte_is_found() {
        let sealer = Sealer::new(&Key::random());
        let sealed = sealer.seal(b"token", &ROW);
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(sealer.open(&changed, &ROW).is_err(), "byte {index}");
        }
        for length in 0..sealed.len() {
            assert!(sealer.open(&sealed[..length], &ROW).is_err(), "{length} bytes");
        }
        assert_ne!(sealer.seal(b"token", &ROW), sealed, "a nonce is used once");
    }

    #[test]
    fn another_key_is_named_with_the_next_step() {
        let (key, other) = (Key::random(), Key::random());
        let sealed = Sealer::new(&key).seal(b"token", &ROW);
        let error = Sealer::new(&other).open(&sealed, &ROW).unwrap_err();
        assert_eq!(error, SealError::OtherKey { wanted: key.id(), found: other.id() });
        assert!(error.to_string().contains(&key.id()) && error.hint().contains("toolcrib login"), "{error}");
        assert!(SealError::Mismatch.hint().contains("toolcrib login"));
        assert_eq!(Sealer::new(&key).open(&[2], &ROW).unwrap_err(), SealError::Format);
    }

    #[test]
    fn the_vaults_own_key_does_not_open_a_row() {
        let key = Key::random();
        let sealer = Sealer::new(&key);
        let sealed = sealer.seal(b"token", &ROW);
        let rest = &sealed[1 + KEY_ID_BYTES..];
        let (nonce, bytes) = rest.split_first_chunk().unwrap();
        let bytes = SealedBytes { nonce: *nonce, bytes: bytes.to_vec() };
        assert!(key.open(&bytes, sealer.context(&ROW).as_bytes()).is_none());
        assert!(key.derive(b"another purpose").open(&bytes, sealer.context(&ROW).as_bytes()).is_none());
        let text = format!("{sealer:?}");
        assert!(text.contains(&key.id()) && !text.contains(sealer.key.to_text().as_str()), "{text}");
    }
}
