//! Checkpoints: what the log was at a moment, signed. Each names the rows since the one before by the root of a tree over
//! them, and the one before by its digest, so that the newest speaks for all.

use std::fmt;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcrib_base::Timestamp;

use super::Head;
use super::hash::{BadHash, RowHash, push_hex};

/// Names this form of what is signed; a later one begins with another text.
const DOMAIN: &str = "toolcrib audit checkpoint 1";

/// How many rows one checkpoint covers at most: proofs stay short, and what is not signed yet has a bound.
pub const CHECKPOINT_EVENTS: u64 = 10_000;

/// The public half of a key that signs checkpoints: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckpointKey([u8; 32]);

/// What the log was at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Its number, from 1 without gaps.
    pub number: u64,
    /// The first row that it covers: the one after those of the checkpoint before.
    pub first: u64,
    /// The last row that it covers.
    pub seq: u64,
    /// The hash of that row.
    pub hash: RowHash,
    /// The root of the tree over the rows that it covers.
    pub root: RowHash,
    /// When it was made, as the clock said. Nothing is concluded from it.
    pub at: Timestamp,
    /// The digest of the checkpoint before; zeroes for the first.
    pub previous: RowHash,
    /// The key that it is signed with.
    pub key: CheckpointKey,
    /// The key that signs from the next one on, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<CheckpointKey>,
    /// The signature, in 128 hexadecimal digits.
    pub signature: String,
}

/// A pair of keys that signs. It is wiped by no one: a process that is read can sign anyway.
pub(super) struct SigningPair(Ed25519KeyPair);

// === impl CheckpointKey ===

impl CheckpointKey {
    /// What stands for a text that is no key; it signs nothing.
    pub(super) const NONE: Self = Self([0; 32]);

    /// Whether it signed these bytes.
    fn signed(self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }
}

impl std::str::FromStr for CheckpointKey {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        text.parse::<RowHash>().map(|digits| Self(digits.0))
    }
}

impl fmt::Display for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&RowHash(self.0), f)
    }
}

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for CheckpointKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CheckpointKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

// === impl Checkpoint ===

impl Checkpoint {
    /// What is signed: a line for each part.
    fn body(&self) -> String {
        // Taken apart by name, so that a new part cannot be forgotten here.
        let Self { number, first, seq, hash, root, at, previous, key, next, signature: _ } = self;
        let next = next.map(|next| next.to_string()).unwrap_or_default();
        format!("{DOMAIN}\n{number}\n{first}\n{seq}\n{hash}\n{root}\n{}\n{previous}\n{key}\n{next}\n", at.0)
    }

    /// The same, signed.
    pub(super) fn signed(mut self, pair: &SigningPair) -> Self {
        self.key = pair.public();
        let signature = pair.0.sign(self.body().as_bytes());
        self.signature.clear();
        push_hex(&mut self.signature, signature.as_ref());
        self
    }

    /// Whether its key signed it.
    pub fn is_signed(&self) -> bool {
        let digits = self.signature.as_bytes();
        if digits.len() != 128 || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return false;
        }
        let digit = |at: usize| char::from(digits[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let byte = |at: usize| digit(2 * at).zip(digit(2 * at + 1)).map(|(high, low)| high << 4 | low);
        let signature: Option<Vec<u8>> = (0..64).map(byte).collect();
        signature.is_some_and(|signature| self.key.signed(self.body().as_bytes(), &signature))
    }

    /// What the next one names it by.
    pub(super) fn digest(&self) -> RowHash {
        let digest = Sha256::new().chain_update(self.body()).chain_update(&self.signature);
        RowHash(digest.finalize().into())
    }

    /// The row that it ends with.
    pub fn head(&self) -> Head {
        Head { seq: self.seq, hash: self.hash }
    }

    /// The key that the next one must be signed with.
    pub fn next_key(&self) -> CheckpointKey {
        self.next.unwrap_or(self.key)
    }

    /// Whether it is what follows `before`: by number, by rows, by digest and by key.
    pub fn follows(&self, before: &Self) -> bool {
        self.number == before.number + 1
            && self.first == before.seq + 1
            && self.seq >= before.seq
            && self.previous == before.digest()
            && self.key == before.next_key()
    }
}

// === impl SigningPair ===

impl SigningPair {
    /// A new pair, as a document (PKCS #8) that must be kept secret.
    pub(super) fn document() -> Option<Vec<u8>> {
        let made = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).ok()?;
        Some(made.as_ref().to_vec())
    }

    pub(super) fn read(document: &[u8]) -> Option<Self> {
        Ed25519KeyPair::from_pkcs8(document).ok().map(Self)
    }

    pub(super) fn public(&self) -> CheckpointKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        CheckpointKey(key)
    }
}

impl fmt::Debug for SigningPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningPair").field(&self.public()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(seed: u8) -> SigningPair {
        SigningPair(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn checkpoint() -> Checkpoint {
        let unsigned = Checkpoint {
            number: 2,
            first: 11,
            seq: 20,
            hash: RowHash([1; 32]),
            root: RowHash([2; 32]),
            at: Timestamp(1_795_132_800_001),
            previous: RowHash([3; 32]),
            key: CheckpointKey([0; 32]),
            next: None,
            signature: String::new(),
        };
        unsigned.signed(&pair(7))
    }

    /// The expected value was computed by another program. Changing what is signed would break every proof there is.
    #[test]
    fn the_signature_of_a_known_checkpoint_stays() {
        assert_eq!(checkpoint().key.to_string(), "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c");
        assert_eq!(
            checkpoint().signature,
            "280138d16e61c01b0a049e16aefa54166dc15cd362003aea1b677eab7b0cfb919a3ad6e85bd00b6f482be0368ffc22b80cbb6302a4f48cdf4351d499f881e30e"
        );
        assert!(checkpoint().is_signed());
    }

    #[test]
    fn a_signature_is_for_every_part() {
        let good = checkpoint();
        let changes: [fn(&mut Checkpoint); 12] = [
            |it: &mut Checkpoint| it.number += 1,
            |it: &mut Checkpoint| it.first -= 1,
            |it: &mut Checkpoint| it.seq += 1,
            |it: &mut Checkpoint| it.hash = RowHash([9; 32]),
            |it: &mut Checkpoint| it.root = RowHash([9; 32]),
            |it: &mut Checkpoint| it.at.0 += 1,
            |it: &mut Checkpoint| it.previous = RowHash::GENESIS,
            |it: &mut Checkpoint| it.key = pair(8).public(),
            |it: &mut Checkpoint| it.next = Some(pair(8).public()),
            |it: &mut Checkpoint| it.signature = it.signature.to_ascii_uppercase(),
            |it: &mut Checkpoint| it.signature.truncate(126),
            |it: &mut Checkpoint| it.signature.push('0'),
        ];
        for change in changes {
            let mut changed = good.clone();
            change(&mut changed);
            assert!(changed != good && !changed.is_signed(), "{changed:?}");
        }
    }

    #[test]
    fn a_checkpoint_is_read_as_it_is_written() {
        let text = serde_json::to_string(&checkpoint()).unwrap();
        assert_eq!(serde_json::from_str::<Checkpoint>(&text).unwrap(), checkpoint());
        assert!(serde_json::from_str::<Checkpoint>(&text.replace("\"seq\"", "\"x\":1,\"seq\"")).is_err());
    }
}
