//! Signed tokens (RFC 7515) by ES256. The key lives as long as its provider.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

/// What the one key is called.
const KEY: &str = "mock-key";

pub(super) struct Signer(EcdsaKeyPair);

// === impl Signer ===

impl Signer {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let document = document.expect("the operating system gives random bytes");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        Self(pair.expect("it was written a moment ago"))
    }

    /// A token with these claims.
    pub(super) fn sign(&self, typ: &str, claims: &Map<String, Value>) -> String {
        let header = json!({ "alg": "ES256", "typ": typ, "kid": KEY }).to_string();
        let claims = Value::Object(claims.clone()).to_string();
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.expect("the operating system gives random bytes");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// The public half (RFC 7517).
    pub(super) fn document(&self) -> Value {
        // 4, then both coordinates (SEC 1, section 2.3.3).
        let point = self.0.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        let key = json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": KEY, "x": x, "y": y });
        json!({ "keys": [key] })
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// The challenge that belongs to a verifier by S256 (RFC 7636, section 4.2).
pub(super) fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}
