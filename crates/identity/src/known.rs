//! Tokens that were proven a moment ago, by their hashes. The tokens themselves are kept nowhere.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use toolcrib_base::{CredentialName, Identity, Timestamp};

use crate::claims::Claims;
use crate::token::{KnownToken, Resource};

/// How many tokens are remembered.
const TOKENS: usize = 20_000;

/// The SHA-256 of a token.
pub(crate) type TokenHash = [u8; 32];

/// The tokens. Reading waits for no one but who adds one.
#[derive(Debug, Default)]
pub(crate) struct KnownTokens(RwLock<HashMap<TokenHash, Entry>>);

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    claims: Arc<Claims>,
    known: Arc<KnownToken>,
    /// From when on it must be checked again.
    until: Timestamp,
}

// === impl KnownTokens ===

impl KnownTokens {
    /// A token that need not be checked again.
    pub(crate) fn get(&self, hash: &TokenHash, now: Timestamp) -> Option<Entry> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(hash).filter(|entry| entry.until > now).cloned()
    }

    /// Remembers what a token proves until a moment, at most until it ends.
    pub(crate) fn add(&self, hash: TokenHash, claims: Claims, until: Timestamp, now: Timestamp) -> Entry {
        let until = until.min(claims.known.expires);
        let mut known = claims.known.clone();
        let credential = Some(CredentialName::of_hash(&hash));
        known.identity = Arc::new(Identity { credential, ..(*known.identity).clone() });
        let known = Arc::new(known);
        let entry = Entry { claims: Arc::new(claims), known, until };
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= TOKENS {
            tokens.retain(|_, entry| entry.until > now);
        }
        if tokens.len() >= TOKENS {
            // Those that go are checked again when they come back. Which they are cannot be chosen from outside: hashes
            // are spread evenly.
            tokens.retain(|hash, _| hash[0] & 1 == 0);
        }
        tokens.insert(hash, entry.clone());
        entry
    }
}

// === impl Entry ===

impl Entry {
    /// What it proves, if it is for this resource.
    pub(crate) fn in_resource(&self, resource: &Resource<'_>) -> Option<&Arc<KnownToken>> {
        self.claims.is_for(resource).then_some(&self.known)
    }

    /// What it says.
    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The thumbprint of the key that its bearer must prove.
    pub(crate) fn bound_to(&self) -> Option<&str> {
        self.claims.bound_to.as_deref()
    }
}

/// The hash of a token.
pub(crate) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}
