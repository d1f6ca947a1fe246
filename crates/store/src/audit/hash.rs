//! The two hashes of the log: of a call's arguments, keyed, and of a row, chained.

use std::fmt;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

/// Appends `bytes` as lower-case hexadecimal digits.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// 32 bytes; prints and serializes as 64 hexadecimal digits.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub(crate) [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = String::with_capacity(64);
                push_hex(&mut text, &self.0);
                f.write_str(&text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

hash_type! {
    /// The keyed hash of a call's raw arguments: equal arguments can be recognized, but not guessed from a list of
    /// likely ones without the installation's key.
    ArgsHash
}
hash_type! {
    /// The hash of a row of the log and, through it, of all rows before.
    RowHash
}

impl RowHash {
    /// What the first row has before it.
    pub(crate) const GENESIS: Self = Self([0; 32]);
}

impl std::str::FromStr for RowHash {
    type Err = BadHash;

    /// Reads 64 hexadecimal digits, as a remembered head is given on a command line.
    fn from_str(text: &str) -> Result<Self, BadHash> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(BadHash);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = digit(0).zip(digit(1)).map(|(high, low)| high << 4 | low).ok_or(BadHash)?;
        }
        Ok(Self(bytes))
    }
}

impl<'de> Deserialize<'de> for RowHash {
    /// Only as it is written: one hash has one text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = text.parse::<Self>().ok().filter(|hash| hash.to_string() == text);
        hash.ok_or_else(|| serde::de::Error::custom(BadHash))
    }
}

/// A text that is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct BadHash;

/// Hashes arguments under one key. Holds the state after the key, so that a small input costs two blocks.
#[derive(Clone)]
pub(crate) struct ArgumentHasher(Hmac<Sha256>);

impl ArgumentHasher {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    pub(crate) fn hash(&self, arguments: &[u8]) -> ArgsHash {
        let mut state = self.0.clone();
        state.update(arguments);
        ArgsHash(state.finalize().into_bytes().into())
    }
}

impl fmt::Debug for ArgumentHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArgumentHasher(****)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_hashes_are_hmac_sha_256() {
        // RFC 4231, test case 2.
        let hash = ArgumentHasher::new(b"Jefe").hash(b"what do ya want for nothing?");
        assert_eq!(hash.to_string(), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert_ne!(hash, ArgumentHasher::new(b"other").hash(b"what do ya want for nothing?"));
    }

    #[test]
    fn row_hashes_are_read_back() {
        let hash = RowHash([0xa5; 32]);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for bad in ["", "a5", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(bad.parse::<RowHash>(), Err(BadHash), "{bad}");
        }
    }
}
