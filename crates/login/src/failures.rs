//! How the last logins failed, for whoever waits for them elsewhere: the page with the reason is in the browser. In memory
//! only; what is awaited after a restart has its link.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolcrib_base::Timestamp;

use crate::error::LoginError;
use crate::pending::{Key, LIFE_MILLIS};

/// How many are remembered: as many as logins can wait.
const FAILURES: usize = 1_024;

/// How a login failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFailure {
    /// What happened, as a fragment.
    pub reason: String,
    /// Whether the authorization server said no.
    pub is_refusal: bool,
}

/// The last failure of each login.
#[derive(Debug, Default)]
pub(crate) struct LoginFailures(Mutex<HashMap<Key, KnownFailure>>);

#[derive(Debug)]
struct KnownFailure {
    failure: LoginFailure,
    at: Timestamp,
}

impl LoginFailures {
    /// Takes note of how a login ended.
    pub(crate) fn add(&self, key: &Key, error: &LoginError, now: Timestamp) {
        let is_refusal = matches!(error, LoginError::Refused { .. });
        let failure = LoginFailure { reason: error.to_string(), is_refusal };
        let mut table = self.table();
        if table.len() >= FAILURES && !table.contains_key(key) {
            table.retain(|_, known| known.is_new(now));
        }
        if table.len() < FAILURES || table.contains_key(key) {
            table.insert(key.clone(), KnownFailure { failure, at: now });
        }
    }

    /// Forgets it: another login begins, or one has worked.
    pub(crate) fn remove(&self, key: &Key) {
        self.table().remove(key);
    }

    /// How the last login failed, for as long as someone may wait for it.
    pub(crate) fn of(&self, key: &Key, now: Timestamp) -> Option<LoginFailure> {
        let table = self.table();
        table.get(key).filter(|known| known.is_new(now)).map(|known| known.failure.clone())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, KnownFailure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownFailure {
    fn is_new(&self, now: Timestamp) -> bool {
        now.0.abs_diff(self.at.0) < LIFE_MILLIS.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::ServerName;

    use super::*;
    use crate::owner::Owner;

    #[test]
    fn failures_end_and_are_bounded() {
        let failures = LoginFailures::default();
        let key = |number: usize| Key {
            server: ServerName::new("notion").unwrap(),
            owner: Owner::of(Some(&format!("key:p/{number}"))),
        };
        let now = Timestamp(1_000_000);
        for number in 0..2 * FAILURES {
            failures.add(&key(number), &LoginError::State, now);
        }
        assert_eq!(failures.table().len(), FAILURES);
        assert!(failures.of(&key(0), now).is_some_and(|failure| !failure.is_refusal));
        assert_eq!(failures.of(&key(0), Timestamp(now.0 + LIFE_MILLIS)), None);
        failures.add(&key(FAILURES), &LoginError::State, Timestamp(now.0 + LIFE_MILLIS));
        assert_eq!(failures.table().len(), 1);
        failures.remove(&key(FAILURES));
        assert_eq!(failures.of(&key(FAILURES), now), None);
    }
}
