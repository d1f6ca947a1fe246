//! Texts that only we can make: hashes of random secrets, and tags that show that a text is one of ours.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use toolcrib_base::{Secret, random};
use toolcrib_store::SecretHash;

/// The key of this installation for tags; tags of one purpose do not count for another.
pub(crate) struct TagKey([u8; 32]);

/// What a tag is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TagPurpose {
    /// The form that asks a person.
    Consent,
    /// A refresh token.
    Refresh,
}

// === impl TagKey ===

impl TagKey {
    /// Derives one, so that no other use of the same key makes a tag.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(Sha256::new().chain_update("toolcrib authorization server").chain_update(key).finalize().into())
    }

    /// The tag of these texts.
    pub(crate) fn tag(&self, purpose: TagPurpose, texts: &[&str]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("every key length fits");
        mac.update(&[purpose as u8]);
        for text in texts {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    pub(crate) fn is_tag(&self, tag: &str, purpose: TagPurpose, texts: &[&str]) -> bool {
        Secret::new(self.tag(purpose, texts)).matches(tag)
    }
}

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey(****)")
    }
}

/// The hash of a secret that has at least 128 random bits.
pub(crate) fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

/// 256 random bits in letters.
pub(crate) fn random_text() -> String {
    random::token().expose().to_owned()
}

/// The challenge of a verifier (RFC 7636, section 4.2).
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}
