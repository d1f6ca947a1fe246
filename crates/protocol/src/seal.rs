//! Sealed tokens: what we give to clients to hold for us and take back. They can neither read nor change it.
//!
//! The construction is a synthetic IV over HMAC-SHA-256 (Rogaway and Shrimpton, deterministic authenticated
//! encryption): the tag is the MAC of purpose and payload, the payload is encrypted by the key stream that follows from
//! the tag. It needs no nonce, and there is no randomness in this crate. Equal payloads give equal tokens, so anyone
//! who minds puts something unique into the payload.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The longest token that is looked at, in characters.
pub const TOKEN_LIMIT: usize = 8 * 1024;
/// The longest payload whose token is within [`TOKEN_LIMIT`], in bytes.
pub const PAYLOAD_LIMIT: usize = TOKEN_LIMIT / 4 * 3 - TAG;

/// The length of the tag, and of one block of the key stream.
const TAG: usize = 32;

/// Seals and opens tokens with one key.
#[derive(Clone)]
pub struct Sealer {
    tags: Hmac<Sha256>,
    stream: Hmac<Sha256>,
}

impl Sealer {
    /// A sealer with 32 random bytes as its key. Replicas that open each other's tokens share it.
    pub fn new(key: [u8; 32]) -> Self {
        let part = |label: &[u8]| keyed(&keyed(&key).chain_update(label).finalize().into_bytes());
        Self { tags: part(b"toolcrib token tag"), stream: part(b"toolcrib token stream") }
    }

    /// Seals `payload` for one purpose; a token of one purpose does not open for another.
    ///
    /// A payload above [`PAYLOAD_LIMIT`] becomes a token that does not open again: check it where it may be long.
    pub fn seal(&self, purpose: &str, payload: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.seal_bytes(purpose, payload))
    }

    /// The same of a payload of any length, as bytes, for what no client holds.
    pub fn seal_bytes(&self, purpose: &str, payload: &[u8]) -> Vec<u8> {
        let tag: [u8; TAG] = self.tag(purpose, payload).finalize().into_bytes().into();
        let mut token = Vec::with_capacity(TAG + payload.len());
        token.extend_from_slice(&tag);
        token.extend_from_slice(payload);
        self.apply_stream(&tag, &mut token[TAG..]);
        token
    }

    /// Opens what [`Sealer::seal`] made with this key for this purpose; `None` for everything else.
    pub fn open(&self, purpose: &str, token: &str) -> Option<Vec<u8>> {
        if token.len() > TOKEN_LIMIT {
            return None;
        }
        self.open_bytes(purpose, &URL_SAFE_NO_PAD.decode(token).ok()?)
    }

    /// Opens what [`Sealer::seal_bytes`] made with this key for this purpose; `None` for everything else.
    pub fn open_bytes(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (tag, sealed) = sealed.split_first_chunk::<TAG>()?;
        let mut payload = sealed.to_vec();
        self.apply_stream(tag, &mut payload);
        // Takes the same time wherever the tags differ.
        self.tag(purpose, &payload).verify_slice(tag).ok()?;
        Some(payload)
    }

    fn tag(&self, purpose: &str, payload: &[u8]) -> Hmac<Sha256> {
        // The length keeps the end of the purpose and the beginning of the payload apart.
        let length = (purpose.len() as u64).to_be_bytes();
        self.tags.clone().chain_update(length).chain_update(purpose).chain_update(payload)
    }

    fn apply_stream(&self, tag: &[u8; TAG], text: &mut [u8]) {
        for (index, block) in (0_u64..).zip(text.chunks_mut(TAG)) {
            let key = self.stream.clone().chain_update(tag).chain_update(index.to_be_bytes()).finalize().into_bytes();
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
        }
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(****)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealer() -> Sealer {
        Sealer::new([7; 32])
    }

    #[test]
    fn only_the_same_key_and_purpose_open() {
        let token = sealer().seal("park", b"payload");
        assert_eq!(sealer().open("park", &token).as_deref(), Some(&b"payload"[..]));
        assert_eq!(sealer().open("cursor", &token), None);
        assert_eq!(sealer().open("par", &token), None);
        assert_eq!(Sealer::new([8; 32]).open("park", &token), None);
        assert_eq!(format!("{:?}", sealer()), "Sealer(****)");
    }

    #[test]
    fn the_purpose_does_not_run_into_the_payload() {
        let token = sealer().seal("a", b"bc");
        assert_ne!(token, sealer().seal("ab", b"c"));
        assert_eq!(sealer().open("ab", &token), None);
    }

    #[test]
    fn a_changed_or_cut_token_does_not_open() {
        let token = sealer().seal("park", b"a payload that is longer than one block of the stream");
        for at in 0..token.len() {
            for other in [b'A', b'b', b'_', b'='] {
                let mut changed = token.clone().into_bytes();
                if changed[at] != other {
                    changed[at] = other;
                    let changed = String::from_utf8(changed).unwrap();
                    assert_eq!(sealer().open("park", &changed), None, "{at}");
                }
            }
            assert_eq!(sealer().open("park", &token[..at]), None, "cut at {at}");
        }
        for odd in ["", "=", "ä", &format!("{token}="), &format!("{token}A"), &format!(" {token}"), &"A".repeat(43)] {
            assert_eq!(sealer().open("park", odd), None, "{odd}");
        }
    }

    #[test]
    fn the_payload_cannot_be_read() {
        let token = sealer().seal("park", &[0; 100]);
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        let blocks: std::collections::HashSet<_> = bytes.chunks(TAG).collect();
        assert_eq!(blocks.len(), 5, "each block of the stream is another one");
        assert!(!bytes.windows(4).any(|window| window == [0; 4]));
    }

    #[test]
    fn the_length_is_bounded() {
        let fits = vec![1; PAYLOAD_LIMIT];
        let token = sealer().seal("park", &fits);
        assert!(token.len() <= TOKEN_LIMIT);
        assert_eq!(sealer().open("park", &token), Some(fits));
        let token = sealer().seal("park", &[1; PAYLOAD_LIMIT + 1]);
        assert_eq!(sealer().open("park", &token), None);
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens(key: [u8; 32], purpose in ".{0,8}", payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let sealer = Sealer::new(key);
            let token = sealer.seal(&purpose, &payload);
            prop_assert_eq!(sealer.open(&purpose, &token), Some(payload));
        }

        #[test]
        fn what_is_not_sealed_does_not_open(token in "[A-Za-z0-9_-]{0,120}") {
            prop_assert_eq!(sealer().open("park", &token), None);
        }
    }
}
