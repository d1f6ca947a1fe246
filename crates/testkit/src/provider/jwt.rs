//! Access tokens that can be read (RFC 9068): signed by ES256 with keys that live as long as their remote.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// The keys of a provider; the newest one signs.
#[derive(Debug, Default)]
pub(super) struct KeyRing(Vec<SigningKey>);

#[derive(Debug)]
struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

// === impl KeyRing ===

impl KeyRing {
    /// Adds a key, which signs from now on.
    pub(super) fn add(&mut self) {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let document = document.expect("this machine has random numbers");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        let id = format!("simulated-key-{}", self.0.len() + 1);
        self.0.push(SigningKey { pair: pair.expect("it was written a moment ago"), id });
    }

    /// A token with these claims.
    pub(super) fn sign(&mut self, claims: &Value) -> String {
        if self.0.is_empty() {
            self.add();
        }
        let key = self.0.last().expect("there is one from now on");
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": key.id});
        let signed = [header, claims.clone()].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = key.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.expect("this machine has random numbers");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// The public halves (RFC 7517).
    pub(super) fn document(&self) -> Value {
        let keys = self.0.iter().map(|key| {
            // 4, then both coordinates (SEC 1, 2.3.3).
            let point = key.pair.public_key().as_ref();
            let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
            json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": key.id, "x": x, "y": y})
        });
        json!({"keys": keys.collect::<Vec<_>>()})
    }
}
