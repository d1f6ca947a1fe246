//! The key and what it seals: XChaCha20-Poly1305, a random nonce for each sealing, the context as associated data.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// The bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
/// The bytes of a key's id.
pub(super) const KEY_ID_BYTES: usize = 8;
/// The bytes of a nonce.
pub(super) const NONCE_BYTES: usize = 24;

/// A key; wiped when it is dropped, printed by its id.
#[derive(Clone)]
pub(super) struct Key(Zeroizing<[u8; KEY_BYTES]>);

/// Something sealed: the nonce and the encrypted bytes with their tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SealedBytes {
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) bytes: Vec<u8>,
}

// === impl Key ===

impl Key {
    /// A new one, from the operating system.
    pub(super) fn random() -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(bytes.as_mut_slice()).expect("the operating system gives random bytes");
        Self(bytes)
    }

    /// Reads what [`Key::to_text`] gave.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * KEY_BYTES {
            return None;
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// The key as 64 hexadecimal digits.
    pub(super) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(hexadecimal(self.0.as_slice()))
    }

    /// A name of the key that reveals nothing of it.
    pub(super) fn id(&self) -> String {
        Self::id_text(&self.id_bytes())
    }

    /// The name as bytes.
    pub(super) fn id_bytes(&self) -> [u8; KEY_ID_BYTES] {
        let mut digest = Sha256::new_with_prefix(b"toolcrib vault key id\0");
        digest.update(self.0.as_slice());
        *digest.finalize().first_chunk().expect("a digest has 32 bytes")
    }

    /// The name of a key as text.
    pub(super) fn id_text(id: &[u8; KEY_ID_BYTES]) -> String {
        hexadecimal(id)
    }

    /// Another key for a purpose of its own, from which this one cannot be computed: HKDF-Expand of RFC 5869, whose
    /// first block is as long as a key.
    pub(super) fn derive(&self, purpose: &[u8]) -> Self {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(self.0.as_slice()).expect("HMAC takes keys of any length");
        mac.update(purpose);
        mac.update(&[1]);
        let mut bytes = mac.finalize().into_bytes();
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        key.copy_from_slice(&bytes);
        bytes.as_mut_slice().zeroize();
        Self(key)
    }

    /// Encrypts, bound to `context`.
    pub(super) fn seal(&self, plain: &[u8], context: &[u8]) -> SealedBytes {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
        let payload = Payload { msg: plain, aad: context };
        let bytes = self.cipher().encrypt(&XNonce::from(nonce), payload).expect("far below the cipher's 256 GiB");
        SealedBytes { nonce, bytes }
    }

    /// Decrypts what was sealed with this key and this context.
    pub(super) fn open(&self, sealed: &SealedBytes, context: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let payload = Payload { msg: &sealed.bytes, aad: context };
        self.cipher().decrypt(&XNonce::from(sealed.nonce), payload).ok().map(Zeroizing::new)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.0).into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// Fields one after the other, each with its length in front, so that no two contexts look the same.
#[derive(Debug, Default)]
pub(super) struct Context(Vec<u8>);

impl Context {
    pub(super) fn field(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn list<'a>(self, texts: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let counted = self.field(&(texts.len() as u64).to_le_bytes());
        texts.fold(counted, |context, text| context.field(text.as_bytes()))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_and_context_only() {
        let (key, other) = (Key::random(), Key::random());
        let sealed = key.seal(b"hello", b"here");
        assert_eq!(key.open(&sealed, b"here").unwrap().as_slice(), b"hello");
        assert!(key.open(&sealed, b"there").is_none());
        assert!(other.open(&sealed, b"here").is_none());
        for index in 0..sealed.bytes.len() {
            let mut bent = sealed.clone();
            bent.bytes[index] ^= 1;
            assert!(key.open(&bent, b"here").is_none());
        }
        assert!(key.open(&SealedBytes { bytes: Vec::new(), ..sealed.clone() }, b"here").is_none());
        assert_ne!(key.seal(b"hello", b"here"), sealed, "a nonce is used once");
    }

    #[test]
    fn a_key_is_a_text_and_prints_as_its_id() {
        let key = Key::random();
        let text = key.to_text();
        assert_eq!(Key::from_text(&format!(" {}\n", *text)).unwrap().id(), key.id());
        assert!(!format!("{key:?}").contains(text.as_str()));
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65), &"ä".repeat(32)] {
            assert!(Key::from_text(wrong).is_none(), "{wrong}");
        }
        // From draft-irtf-cfrg-xchacha-03, A.3.1.
        let key = Key::from_text("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f").unwrap();
        let nonce = std::array::from_fn(|index| 0x40 + u8::try_from(index).unwrap());
        let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let aad = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let sealed = key.cipher().encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &aad }).unwrap();
        assert_eq!(hexadecimal(&sealed[plain.len()..]), "c0875924c1c7987947deafd8780acf49");
    }

    #[test]
    fn a_derived_key_is_that_of_rfc_5869() {
        // Test case 1, whose pseudorandom key has 32 bytes; its output begins with the first block.
        let key = Key::from_text("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5").unwrap();
        let purpose: Vec<u8> = (0xf0..=0xf9).collect();
        let derived = key.derive(&purpose);
        assert_eq!(*derived.to_text(), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
        assert_ne!(key.derive(b"one").id(), key.derive(b"other").id());
    }

    #[test]
    fn contexts_do_not_run_into_each_other() {
        let (one, other) = (Context::default().field(b"ab").field(b"c"), Context::default().field(b"a").field(b"bc"));
        assert_ne!(one.as_bytes(), other.as_bytes());
        let (one, other) =
            (Context::default().list(["a", "b"].into_iter()), Context::default().list(["ab"].into_iter()));
        assert_ne!(one.as_bytes(), other.as_bytes());
    }
}
