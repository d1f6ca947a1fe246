//! The signatures of `jsonwebtoken`, made and checked by `ring`. HMAC is left out: there is no signer and no verifier for it.

use std::sync::Once;

use ::signature::{Error, Signer, Verifier};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::jwk::{EllipticCurve, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RsaParameters, RsaPublicKeyComponents,
    VerificationAlgorithm,
};

/// Makes `ring` what `jsonwebtoken` uses in this process. The first call counts.
pub(super) fn install() {
    static INSTALL: Once = Once::new();
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |algorithm, key| Ok(Box::new(KeyPairSigner::new(*algorithm, key)?)),
        verifier_factory: |algorithm, key| Ok(Box::new(KeyVerifier::new(*algorithm, key)?)),
        key_utils: KeyUtils {
            ec_pub_components_from_private_key: p256_public_key,
            compute_digest,
            ..KeyUtils::new_unimplemented()
        },
    };
    INSTALL.call_once(|| PROVIDER.install_default().expect("nothing else in this process installs a provider"));
}

/// A public key with the algorithm to use it with.
struct KeyVerifier {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKeyKind,
}

enum Check {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

/// A P-256 key pair.
struct KeyPairSigner(EcdsaKeyPair);

// === impl KeyVerifier ===

impl KeyVerifier {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self> {
        let check = match algorithm {
            Algorithm::RS256 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Check::Other(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Check::Other(&signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Check::Other(&signature::ED25519),
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        Ok(Self { algorithm, check, key: key.kind().clone() })
    }
}

impl Verifier<Vec<u8>> for KeyVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.check, &self.key) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                signature::UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for KeyVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

// === impl KeyPairSigner ===

impl KeyPairSigner {
    fn new(algorithm: Algorithm, key: &EncodingKey) -> Result<Self> {
        if algorithm != Algorithm::ES256 {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Self(p256(key.as_bytes())?))
    }
}

impl Signer<Vec<u8>> for KeyPairSigner {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        let signature = self.0.sign(&SystemRandom::new(), message).map_err(|_| Error::new())?;
        Ok(signature.as_ref().to_vec())
    }
}

impl JwtSigner for KeyPairSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

fn p256(document: &[u8]) -> Result<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &SystemRandom::new())
        .map_err(|_| ErrorKind::InvalidEcdsaKey.into())
}

fn p256_public_key(document: &[u8], algorithm: Algorithm) -> Result<(EllipticCurve, Vec<u8>, Vec<u8>)> {
    if algorithm != Algorithm::ES256 {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let pair = p256(document)?;
    // 4, then both coordinates (SEC 1, section 2.3.3).
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    Ok((EllipticCurve::P256, x.to_vec(), y.to_vec()))
}

#[allow(clippy::needless_pass_by_value, reason = "`jsonwebtoken` gives the type")]
fn compute_digest(bytes: &[u8], hash: ThumbprintHash) -> Result<Vec<u8>> {
    match hash {
        ThumbprintHash::SHA256 => Ok(digest::digest(&digest::SHA256, bytes).as_ref().to_vec()),
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}
