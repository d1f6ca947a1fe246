//! Proofs of possession (DPoP, RFC 9449): that who presents a token has the key that it was given to. Each proof counts
//! once, for one request, with a nonce of ours that is a few minutes old.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use serde_json::Value;
use sha2::{Digest, Sha256};
use toolcrib_auth::jose::SignedToken;
use toolcrib_base::{PrincipalId, Secret, Timestamp, random};
use url::Url;

use crate::token::{PresentedToken, TokenRefusal};

/// How long a nonce is given out, in milliseconds; it counts for as long again.
const WINDOW: i64 = 180_000;
/// By how much the clock of a client may differ, in milliseconds.
const SKEW: i64 = 300_000;
/// The longest proof and the longest `jti`, in bytes.
const PROOF_BYTES: usize = 8 * 1024;
const ID_BYTES: usize = 256;
/// How many proofs of one window are remembered. Each costs its sender a token that counts.
const PROOFS: usize = 200_000;
/// How many of them are one principal's: 220 requests a second, whatever keys and tokens it has. So others are refused
/// only where five principals send that much.
const PROOFS_EACH: usize = PROOFS / 5;

/// What is remembered of proofs.
#[derive(Debug)]
pub(crate) struct Proofs {
    /// What nonces are made with. Another one after a restart: a proof of before does not count again.
    key: Secret,
    seen: Mutex<UsedProofs>,
}

/// Proofs of the present window and of the one before.
#[derive(Debug, Default)]
struct UsedProofs {
    window: i64,
    now: HashSet<[u8; 32]>,
    before: HashSet<[u8; 32]>,
    /// How many of those of the present window are whose.
    counts: HashMap<PrincipalId, usize>,
}

/// Who presents a token that is bound to a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProofBearer<'a> {
    pub(crate) principal: &'a PrincipalId,
    /// The thumbprint of the key.
    pub(crate) key: &'a str,
}

// === impl Proofs ===

impl Proofs {
    pub(crate) fn new() -> Self {
        Self { key: random::token(), seen: Mutex::default() }
    }

    /// Checks the proof that came with a token which is bound to the key of its bearer.
    pub(crate) fn check(
        &self,
        presented: &PresentedToken<'_>,
        bearer: ProofBearer<'_>,
        now: Timestamp,
    ) -> Result<(), TokenRefusal> {
        let wrong = |why: &str| TokenRefusal::Proof(format!("the proof of possession {why}"));
        let text = presented.proof.ok_or_else(|| wrong("is missing"))?;
        if text.len() > PROOF_BYTES {
            return Err(wrong("is too long"));
        }
        let proof = SignedToken::parse(text).map_err(|_| wrong("is not a signed token"))?;
        if proof.header("typ") != Some("dpop+jwt") {
            return Err(wrong("is not of the type `dpop+jwt`"));
        }
        let key = proof.own_key().map_err(|_| wrong("has no public key in its header"))?;
        if key.thumbprint() != bearer.key {
            return Err(wrong("is made with another key than the token's"));
        }
        proof.verify(&key).map_err(|_| wrong("has a wrong signature"))?;
        let claim = |name: &str| proof.claims().get(name).and_then(Value::as_str);
        if claim("htm") != Some(presented.method) {
            return Err(wrong("is for another method"));
        }
        if !claim("htu").is_some_and(|url| is_url_of(url, presented)) {
            return Err(wrong("is for another URL"));
        }
        let token_hash = URL_SAFE_NO_PAD.encode(Sha256::digest(presented.token.as_bytes()));
        if claim("ath") != Some(token_hash.as_str()) {
            return Err(wrong("is for another token"));
        }
        let id = claim("jti").filter(|id| !id.is_empty() && id.len() <= ID_BYTES);
        let id = id.ok_or_else(|| wrong("has no `jti`"))?;
        let made = proof.claims().get("iat").and_then(Value::as_i64).and_then(|seconds| seconds.checked_mul(1_000));
        if made.is_none_or(|made| made.abs_diff(now.0) > SKEW.unsigned_abs()) {
            return Err(wrong("is too old, or the clock of the client is wrong"));
        }
        let window = now.0.div_euclid(WINDOW);
        let is_ours = |nonce: &str| [window, window - 1].iter().any(|window| self.nonce(*window) == nonce);
        if !claim("nonce").is_some_and(is_ours) {
            return Err(TokenRefusal::Nonce(self.nonce(window)));
        }
        self.remember(bearer, id, window).map_err(wrong)
    }

    /// Unguessable, and the same for everyone in a window: it says only that a proof is new.
    fn nonce(&self, window: i64) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose().as_bytes()).expect("any length is a key");
        mac.update(&window.to_be_bytes());
        URL_SAFE_NO_PAD.encode(&mac.finalize().into_bytes()[..18])
    }

    fn remember(&self, bearer: ProofBearer<'_>, id: &str, window: i64) -> Result<(), &'static str> {
        let proof: [u8; 32] =
            Sha256::new().chain_update(bearer.key).chain_update([0]).chain_update(id).finalize().into();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.turn(window);
        if seen.before.contains(&proof) || seen.now.contains(&proof) {
            return Err("was used before");
        }
        let own = seen.counts.get(bearer.principal).copied().unwrap_or_default();
        if own >= PROOFS_EACH || seen.now.len() >= PROOFS {
            return Err("cannot be checked: too many came in a few minutes");
        }
        seen.now.insert(proof);
        match seen.counts.get_mut(bearer.principal) {
            Some(count) => *count += 1,
            None => drop(seen.counts.insert(bearer.principal.clone(), 1)),
        }
        Ok(())
    }
}

// === impl UsedProofs ===

impl UsedProofs {
    /// Forgets what cannot come again: its nonce no longer counts.
    fn turn(&mut self, window: i64) {
        match window - self.window {
            0 => {}
            1 => {
                self.before = std::mem::take(&mut self.now);
                self.counts.clear();
                self.window = window;
            }
            // The clock was set back: what was seen then may be seen again, so it is kept.
            ..0 => {}
            _ => *self = Self { window, ..Self::default() },
        }
    }
}

/// Whether `htu` is the URL of the request, without query and fragment (RFC 9449, section 4.3).
fn is_url_of(stated: &str, presented: &PresentedToken<'_>) -> bool {
    let asked = format!("{}{}", presented.resource.origin, presented.path);
    let (Ok(mut stated), Ok(asked)) = (Url::parse(stated), Url::parse(&asked)) else { return false };
    stated.set_query(None);
    stated.set_fragment(None);
    stated == asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bearer_of_many_keys_leaves_room_for_the_proofs_of_others() {
        let proofs = Proofs::new();
        let (greedy, other) = (PrincipalId::new("user:acme/greedy"), PrincipalId::new("user:acme/ann"));
        let send = |principal, number: usize, window| {
            let key = format!("key {}", number % 100);
            proofs.remember(ProofBearer { principal, key: &key }, &number.to_string(), window)
        };
        for number in 0..PROOFS_EACH {
            send(&greedy, number, 7).unwrap();
        }
        assert!(send(&greedy, PROOFS_EACH, 7).unwrap_err().contains("too many"));
        assert!(send(&greedy, 0, 7).unwrap_err().contains("before"));
        send(&other, PROOFS_EACH, 7).unwrap();
        // Its next ones count in the next window, and those of this one still not twice.
        send(&greedy, PROOFS_EACH + 1, 8).unwrap();
        assert!(send(&greedy, 0, 8).unwrap_err().contains("before"));
    }

    #[test]
    fn all_proofs_together_are_bounded() {
        let proofs = Proofs::new();
        let mut taken = 0;
        for principal in 0..6 {
            let principal = PrincipalId::new(&format!("user:acme/{principal}"));
            for number in 0..PROOFS_EACH {
                let bearer = ProofBearer { principal: &principal, key: principal.as_str() };
                taken += usize::from(proofs.remember(bearer, &number.to_string(), 7).is_ok());
            }
        }
        assert_eq!(taken, PROOFS);
    }
}
