//! How both sides prove that they know the same secret, which itself never leaves them: an HMAC over what both just
//! chose. Pure but for the nonces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use toolcrib_base::{Secret, random};

/// A shorter secret could be guessed from a proof that someone recorded.
const SECRET_BYTES: usize = 32;

/// A secret that a gateway and its runners share.
#[derive(Debug, Clone)]
pub struct SharedSecret(Secret);

/// It cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret of runners has {0} bytes and needs at least {SECRET_BYTES}: make one with `openssl rand -hex 32`")]
pub struct SecretError(usize);

impl SharedSecret {
    /// White space around it does not count: files end with a line feed.
    ///
    /// # Errors
    /// It is too short.
    pub fn new(secret: &Secret) -> Result<Self, SecretError> {
        let text = secret.expose().trim();
        if text.len() < SECRET_BYTES { Err(SecretError(text.len())) } else { Ok(Self(Secret::new(text))) }
    }
}

/// By what the other side is known.
#[derive(Debug, Clone)]
pub enum Trust {
    /// By a secret.
    Secret(SharedSecret),
    /// By a certificate that TLS has checked, with the name in it; by a secret too where there is one.
    Certificate(String, Option<SharedSecret>),
}

impl Trust {
    pub(crate) fn secret(&self) -> Option<&SharedSecret> {
        match self {
            Self::Secret(secret) => Some(secret),
            Self::Certificate(_, secret) => secret.as_ref(),
        }
    }
}

/// Who proves. What one side says can never be said by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It has the tools.
    Gateway,
    /// It executes runs.
    Runner,
}

/// What both sides chose for one connection.
#[derive(Debug, Clone)]
pub struct Transcript<'a> {
    /// The protocol's version.
    pub version: u32,
    /// What the gateway chose.
    pub gateway_nonce: &'a str,
    /// What the runner chose.
    pub runner_nonce: &'a str,
    /// The runner's name.
    pub name: &'a str,
}

/// 256 random bits.
pub(crate) fn nonce() -> String {
    random::token().expose().to_owned()
}

impl Transcript<'_> {
    fn mac(&self, side: Side, secret: &SharedSecret) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret.0.expose().as_bytes()).expect("HMAC takes keys of any length");
        let side = if side == Side::Gateway { "gateway" } else { "runner" };
        let version = self.version.to_string();
        for part in ["toolcrib runner", side, version.as_str(), self.gateway_nonce, self.runner_nonce, self.name] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }

    /// What this side sends.
    pub fn prove(&self, side: Side, secret: &SharedSecret) -> String {
        STANDARD_NO_PAD.encode(self.mac(side, secret).finalize().into_bytes())
    }

    /// Whether the other side knows the secret. Takes as long for a wrong proof as for a right one.
    pub fn is_proven(&self, side: Side, secret: &SharedSecret, proof: Option<&str>) -> bool {
        let Some(proof) = proof.and_then(|proof| STANDARD_NO_PAD.decode(proof).ok()) else { return false };
        self.mac(side, secret).verify_slice(&proof).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_counts_for_one_connection_one_side_and_one_name() {
        let secret = SharedSecret::new(&Secret::new("a".repeat(32))).unwrap();
        let other = SharedSecret::new(&Secret::new("b".repeat(32))).unwrap();
        let (mine, theirs) = (nonce(), nonce());
        let said = Transcript { version: 1, gateway_nonce: &mine, runner_nonce: &theirs, name: "r" };
        let proof = said.prove(Side::Runner, &secret);
        let again = nonce();
        let check = |said: Transcript<'_>, side, secret| said.is_proven(side, secret, Some(&proof));
        assert!(check(said.clone(), Side::Runner, &secret));
        assert!(!check(said.clone(), Side::Gateway, &secret), "reflected");
        assert!(!check(said.clone(), Side::Runner, &other), "another secret");
        assert!(!check(Transcript { gateway_nonce: &again, ..said.clone() }, Side::Runner, &secret), "replayed");
        assert!(!check(Transcript { name: "q", ..said.clone() }, Side::Runner, &secret), "another name");
        assert!(!check(Transcript { version: 2, ..said.clone() }, Side::Runner, &secret), "another version");
        for wrong in [None, Some(""), Some("x"), Some("AAAA"), Some("ä")] {
            assert!(!said.is_proven(Side::Runner, &secret, wrong), "{wrong:?}");
        }
        assert!(!proof.contains("aaaa"));
    }

    #[test]
    fn a_short_secret_is_refused() {
        let error = SharedSecret::new(&Secret::new("  hunter2 \n")).unwrap_err();
        assert!(error.to_string().contains("7 bytes and needs at least 32"), "{error}");
        assert!(SharedSecret::new(&Secret::new("x".repeat(32) + "\n")).is_ok());
    }
}
