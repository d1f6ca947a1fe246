//! What issuers gave at sign-ins, until someone takes it who keeps it: for servers that people are signed on to later.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolcrib_base::{PrincipalId, Secret, Timestamp};

/// How many sign-ins are remembered that no one has taken; the oldest goes first.
const SIGN_INS: usize = 1_024;
/// How long one is remembered, in milliseconds: as long as it opens our pages, in which a person agrees that a client acts in
/// its name.
const LIFE: u64 = 12 * 60 * 60_000;
/// The longest token that is kept, in bytes.
const TOKEN_BYTES: usize = 8 * 1024;

/// What an issuer gave at a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInTokens {
    /// The issuer's name in the settings.
    pub issuer: Box<str>,
    /// Who signed in (OpenID Connect Core, section 2).
    pub id_token: Secret,
    /// With which the next one is had, where the issuer gives such.
    pub refresh: Option<Secret>,
}

/// The sign-ins that no one has taken.
#[derive(Debug, Default)]
pub(crate) struct SignIns(Mutex<HashMap<PrincipalId, (SignInTokens, Timestamp)>>);

// === impl SignIns ===

impl SignIns {
    pub(crate) fn put(&self, principal: &PrincipalId, tokens: SignInTokens, now: Timestamp) {
        if tokens.id_token.expose().len() > TOKEN_BYTES {
            return;
        }
        let mut all = self.lock();
        all.retain(|_, (_, since)| now.since(*since) < LIFE);
        if all.len() >= SIGN_INS && !all.contains_key(principal) {
            let oldest = all.iter().min_by_key(|(_, (_, since))| *since).map(|(principal, _)| principal.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        all.insert(principal.clone(), (tokens, now));
    }

    /// What a principal signed in with; what renews it once.
    pub(crate) fn take(&self, principal: &PrincipalId, now: Timestamp) -> Option<SignInTokens> {
        let mut all = self.lock();
        let (tokens, _) = all.get_mut(principal).filter(|(_, since)| now.since(*since) < LIFE)?;
        let refresh = tokens.refresh.take().filter(|token| token.expose().len() <= TOKEN_BYTES);
        Some(SignInTokens { refresh, ..tokens.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PrincipalId, (SignInTokens, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
