//! Who signed in to our pages, by the cookies of their browsers. In memory: after a restart one signs in again, which the
//! issuer does without a question as long as its own session lasts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, Secret, Timestamp, random};
use toolcrib_identity::KnownToken;

/// How long a session lasts that is not used, and how long at all, in milliseconds.
const IDLE: u64 = 30 * 60 * 1_000;
const LONGEST: u64 = 12 * 60 * 60 * 1_000;
/// How many sessions there are, and of one principal.
const SESSIONS: usize = 10_000;
const OF_ONE: usize = 16;

/// The sessions.
#[derive(Debug)]
pub(crate) struct PageSessions {
    clock: Arc<dyn Clock>,
    by_hash: Mutex<HashMap<[u8; 32], PageSession>>,
}

#[derive(Debug)]
struct PageSession {
    known: Arc<KnownToken>,
    begun: Timestamp,
    used: Timestamp,
}

// === impl PageSessions ===

impl PageSessions {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, by_hash: Mutex::default() }
    }

    /// Begins a session; the value of its cookie. The oldest of the same principal ends where it has too many.
    pub(crate) fn begin(&self, known: Arc<KnownToken>) -> Secret {
        let (secret, now) = (random::token(), self.clock.now());
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.lasts(now));
        let oldest = |sessions: &HashMap<[u8; 32], PageSession>, of: &dyn Fn(&PageSession) -> bool| {
            let found = sessions.iter().filter(|(_, session)| of(session)).min_by_key(|(_, session)| session.used);
            found.map(|(hash, _)| *hash)
        };
        let is_same = |session: &PageSession| session.known.id == known.id;
        let is_full = sessions.values().filter(|session| is_same(session)).count() >= OF_ONE;
        let gone = match (is_full, sessions.len() >= SESSIONS) {
            (true, _) => oldest(&sessions, &is_same),
            (false, true) => oldest(&sessions, &|_| true),
            (false, false) => None,
        };
        if let Some(gone) = gone {
            sessions.remove(&gone);
        }
        sessions.insert(hash(secret.expose()), PageSession { known, begun: now, used: now });
        secret
    }

    /// Whose session it is.
    pub(crate) fn find(&self, secret: &str) -> Option<Arc<KnownToken>> {
        let now = self.clock.now();
        let mut sessions = self.lock();
        let session = sessions.get_mut(&hash(secret)).filter(|session| session.lasts(now))?;
        session.used = now;
        Some(Arc::clone(&session.known))
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        self.lock().remove(&hash(secret));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], PageSession>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PageSession ===

impl PageSession {
    fn lasts(&self, now: Timestamp) -> bool {
        now.since(self.used) < IDLE && now.since(self.begun) < LONGEST
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{Identity, ManualClock, PrincipalId, Proof};

    use super::*;

    fn known(name: &str) -> Arc<KnownToken> {
        Arc::new(KnownToken {
            id: PrincipalId::new(name),
            identity: Arc::new(Identity::by(Proof::AccessToken)),
            scopes: Vec::new(),
            expires: Timestamp(0),
            grants: Vec::new(),
        })
    }

    #[test]
    fn sessions_end_when_they_are_idle_old_or_too_many() {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let sessions = PageSessions::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let (ann, bob) = (sessions.begin(known("ann")), sessions.begin(known("bob")));
        assert_eq!(sessions.find(ann.expose()).unwrap().id.as_str(), "ann");
        assert!(sessions.find("").is_none() && sessions.find(&ann.expose()[1..]).is_none());
        for _ in 0..23 {
            clock.advance(29 * 60 * 1_000);
            assert!(sessions.find(ann.expose()).is_some());
        }
        assert!(sessions.find(bob.expose()).is_none(), "idle");
        for _ in 0..2 {
            clock.advance(29 * 60 * 1_000);
            let _ = sessions.find(ann.expose());
        }
        assert!(sessions.find(ann.expose()).is_none(), "twelve hours");
        let many: Vec<Secret> = (0..=OF_ONE)
            .map(|_| {
                clock.advance(1);
                sessions.begin(known("ann"))
            })
            .collect();
        assert!(sessions.find(many[0].expose()).is_none() && sessions.find(many[1].expose()).is_some());
        sessions.end(many[1].expose());
        assert!(sessions.find(many[1].expose()).is_none());
    }
}
