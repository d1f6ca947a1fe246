//! Keys that sign: P-256 with SHA-256 (ES256), which every provider checks.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Map, Value};

use super::{JoseError, PublicKey, ring_provider};

/// A key pair that signs tokens.
#[derive(Clone)]
pub struct SigningKey {
    key: EncodingKey,
    public: PublicKey,
    jwk: Value,
}

// === impl SigningKey ===

impl SigningKey {
    /// A new key pair, as the document to keep (PKCS #8, DER). It is a secret.
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn generate() -> Vec<u8> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        document.expect("the operating system gives random bytes").as_ref().to_vec()
    }

    /// The key pair of a document in PKCS #8.
    ///
    /// # Errors
    /// It is no key pair on P-256.
    pub fn read(document: &[u8]) -> Result<Self, JoseError> {
        ring_provider::install();
        let key = EncodingKey::from_ec_der(document);
        let jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).map_err(|_| JoseError::Key)?;
        let mut jwk = serde_json::to_value(jwk).map_err(|_| JoseError::Key)?;
        let public = PublicKey::read(&jwk)?;
        jwk["kid"] = public.thumbprint().into();
        jwk["use"] = "sig".into();
        Ok(Self { key, public, jwk })
    }

    /// The public half with `kid` and `use` (RFC 7517).
    pub fn public_jwk(&self) -> &Value {
        &self.jwk
    }

    /// The id of the key, which is its thumbprint.
    pub fn id(&self) -> &str {
        self.public.thumbprint()
    }

    /// A token with these claims whose header names the key by its id. `kind` is the header's `typ`.
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn sign(&self, kind: &str, claims: &Map<String, Value>) -> String {
        let header = Header { kid: Some(self.id().to_owned()), ..header(kind) };
        self.encode(&header, claims)
    }

    /// A token with these claims whose header holds the public half itself: a proof of possession (RFC 9449).
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn sign_with_own_key(&self, kind: &str, claims: &Map<String, Value>) -> String {
        let jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).ok().map(|mut jwk| {
            jwk.common.key_algorithm = None;
            jwk
        });
        self.encode(&Header { jwk, ..header(kind) }, claims)
    }

    fn encode(&self, header: &Header, claims: &Map<String, Value>) -> String {
        jsonwebtoken::encode(header, claims, &self.key).expect("the key was read and there is randomness")
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SigningKey").field(&self.id()).finish()
    }
}

fn header(kind: &str) -> Header {
    Header { typ: Some(kind.to_owned()), ..Header::new(Algorithm::ES256) }
}
