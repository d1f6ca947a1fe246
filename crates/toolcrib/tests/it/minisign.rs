//! Keys and signatures in the form of minisign, pre-hashed, made here so that the tests need no such program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::{Blake2b512, Digest};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// A key that signs.
pub(crate) struct SigningKey {
    pair: Ed25519KeyPair,
    id: [u8; 8],
}

impl SigningKey {
    /// One of 256 keys.
    pub(crate) fn number(number: u8) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap();
        Self { pair, id: [number; 8] }
    }

    /// The file with its public half.
    pub(crate) fn public(&self) -> String {
        let bytes = [b"Ed".as_slice(), &self.id, self.pair.public_key().as_ref()].concat();
        format!("untrusted comment: for a test\n{}\n", STANDARD.encode(bytes))
    }

    /// The file with the signature of these bytes and a comment.
    pub(crate) fn sign(&self, bytes: &[u8], comment: &str) -> Vec<u8> {
        let signature = self.pair.sign(&Blake2b512::digest(bytes));
        let whole = self.pair.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let first = STANDARD.encode([b"ED".as_slice(), &self.id, signature.as_ref()].concat());
        let second = STANDARD.encode(whole.as_ref());
        format!("untrusted comment: for a test\n{first}\ntrusted comment: {comment}\n{second}\n").into_bytes()
    }
}
