//! The codes that the owner approves, and that they cannot be guessed.

use sha2::{Digest, Sha256};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_store::SecretHash;

use crate::secrets::hash;

/// The letters of codes: no vowels, so no words, and none that looks like a digit (RFC 8628, section 6.1).
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// How many letters a code has: 34 bits, for ten minutes.
const LENGTH: usize = 8;
/// How many codes may be tried that are none, and in which time, in milliseconds.
const TRIES: u32 = 10;
const TRIES_TIME: u64 = 60_000;

/// Codes that were tried and are none.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    since: Option<Timestamp>,
    count: u32,
}

impl Tries {
    /// Whether another one may be tried.
    pub(crate) fn check(&mut self, now: Timestamp) -> Result<(), Problem> {
        let lasts = self.since.is_some_and(|since| now >= since && now.since(since) < TRIES_TIME);
        if !lasts {
            *self = Self { since: Some(now), count: 0 };
        }
        if self.count >= TRIES {
            return Err(Problem::new(Kind::Busy, "too many codes were tried").hint("Try again in a minute."));
        }
        Ok(())
    }

    /// Notes one that is none.
    pub(crate) fn note(&mut self) {
        self.count += 1;
    }
}

/// The code of a request, which only its secret name gives.
pub(crate) fn code_of(id: &str) -> String {
    let digest = Sha256::new().chain_update("toolcrib approval\0").chain_update(id).finalize();
    let letters = digest.iter().take(LENGTH).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
    let letters: String = letters.collect();
    format!("{}-{}", &letters[..LENGTH / 2], &letters[LENGTH / 2..])
}

/// The hash of a code, however it is typed.
pub(crate) fn hash_of(code: &str) -> SecretHash {
    let letters = code.chars().filter(char::is_ascii_alphanumeric).take(64);
    hash(&letters.map(|letter| letter.to_ascii_uppercase()).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_typed_in_many_ways() {
        let code = code_of("a name");
        assert_eq!((code.len(), code.as_bytes()[4]), (9, b'-'));
        assert_eq!(code, code_of("a name"));
        assert_ne!(code, code_of("another name"));
        for typed in [code.to_lowercase(), code.replace('-', ""), format!(" {} ", code.replace('-', " "))] {
            assert_eq!(hash_of(&typed), hash_of(&code), "{typed}");
        }
        assert_ne!(hash_of("BBBB-BBBB"), hash_of(&code));
    }

    #[test]
    fn codes_cannot_be_tried_without_end() {
        let mut tries = Tries::default();
        for _ in 0..TRIES {
            tries.check(Timestamp(1_000)).unwrap();
            tries.note();
        }
        assert_eq!(tries.check(Timestamp(2_000)).unwrap_err().kind, Kind::Busy);
        tries.check(Timestamp(61_000)).unwrap();
        tries.count = TRIES;
        tries.check(Timestamp(0)).unwrap();
    }
}
