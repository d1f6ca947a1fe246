//! The private key of a client, as people keep it: PEM or DER in PKCS #8, of any kind that `ring` signs with.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Map, Value, json};

use super::JoseError;

/// A key pair that signs a client's assertions (RFC 7523), in the way that fits its kind.
pub struct ClientKey(Pair);

enum Pair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

// === impl ClientKey ===

impl ClientKey {
    /// Reads a key: a text in PEM (`BEGIN PRIVATE KEY`, or `BEGIN RSA PRIVATE KEY`), or its content in base64.
    ///
    /// # Errors
    /// It is no private key on P-256 or P-384, of Ed25519, or of RSA with 2048 bits and more.
    pub fn read(text: &str) -> Result<Self, JoseError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        let der = STANDARD.decode(lines.collect::<String>()).map_err(|_| JoseError::Key)?;
        let random = SystemRandom::new();
        let ec = |curve| EcdsaKeyPair::from_pkcs8(curve, &der, &random);
        if let Ok(pair) = ec(&ECDSA_P256_SHA256_FIXED_SIGNING) {
            return Ok(Self(Pair::P256(pair)));
        }
        if let Ok(pair) = ec(&ECDSA_P384_SHA384_FIXED_SIGNING) {
            return Ok(Self(Pair::P384(pair)));
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            return Ok(Self(Pair::Ed25519(pair)));
        }
        let pair = RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der));
        pair.map(|pair| Self(Pair::Rsa(pair))).map_err(|_| JoseError::Key)
    }

    /// The algorithm that it signs with, as `alg` has it.
    pub fn algorithm(&self) -> &'static str {
        match &self.0 {
            Pair::P256(_) => "ES256",
            Pair::P384(_) => "ES384",
            Pair::Ed25519(_) => "EdDSA",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// A token with these claims. `id` is what the verifier calls the key.
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn sign(&self, id: Option<&str>, claims: &Map<String, Value>) -> String {
        let mut header = json!({ "alg": self.algorithm(), "typ": "JWT" });
        if let Some(id) = id {
            header["kid"] = id.into();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(&Value::Object(claims.clone())));
        let random = SystemRandom::new();
        let signature = match &self.0 {
            Pair::P256(pair) | Pair::P384(pair) => {
                pair.sign(&random, message.as_bytes()).map(|signature| signature.as_ref().to_vec())
            }
            Pair::Ed25519(pair) => Ok(pair.sign(message.as_bytes()).as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).map(|()| signature)
            }
        };
        let signature = signature.expect("the operating system gives random bytes");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

impl std::fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ClientKey").field(&self.algorithm()).finish()
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
        UnparsedPublicKey,
    };

    use super::super::tests::RSA;
    use super::*;

    #[test]
    fn a_key_of_each_kind_signs() {
        let random = SystemRandom::new();
        let ec = |curve| STANDARD.encode(EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap());
        let ed = STANDARD.encode(Ed25519KeyPair::generate_pkcs8(&random).unwrap());
        let rsa: String = RSA.split_whitespace().collect();
        for (key, algorithm) in [
            (ec(&ECDSA_P256_SHA256_FIXED_SIGNING), "ES256"),
            (ec(&ECDSA_P384_SHA384_FIXED_SIGNING), "ES384"),
            (ed, "EdDSA"),
            (rsa, "RS256"),
        ] {
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
            let key = ClientKey::read(&pem).unwrap();
            assert_eq!((key.algorithm(), format!("{key:?}")), (algorithm, format!("ClientKey({algorithm:?})")));
            let claims = json!({ "iss": "ours" });
            let token = key.sign(Some("k1"), claims.as_object().unwrap());
            let (message, signature) = token.rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let is_good = match &key.0 {
                Pair::P256(pair) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
                    .verify(message.as_bytes(), &signature),
                Pair::P384(pair) => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, pair.public_key().as_ref())
                    .verify(message.as_bytes(), &signature),
                Pair::Ed25519(pair) => {
                    UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref()).verify(message.as_bytes(), &signature)
                }
                Pair::Rsa(pair) => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref())
                    .verify(message.as_bytes(), &signature),
            };
            assert!(is_good.is_ok(), "{algorithm}");
            let header = URL_SAFE_NO_PAD.decode(message.split_once('.').unwrap().0).unwrap();
            let header: Value = serde_json::from_slice(&header).unwrap();
            assert_eq!(header, json!({ "alg": algorithm, "typ": "JWT", "kid": "k1" }));
        }
    }

    #[test]
    fn what_is_no_private_key_is_refused() {
        let public = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----";
        for text in ["", "hush", public, "-----BEGIN PRIVATE KEY-----\n\n-----END PRIVATE KEY-----"] {
            assert_eq!(ClientKey::read(text).map(|_| ()), Err(JoseError::Key), "{text}");
        }
    }
}
