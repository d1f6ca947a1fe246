//! Who signed in to our pages at an issuer, by the cookies of their browsers. In memory: after a restart one signs in
//! again, which the issuer does without a question as long as its own session lasts.

use std::sync::Arc;

use toolcrib_base::{Clock, Secret};
use toolcrib_identity::KnownToken;
use toolcrib_session::{CookieLimits, CookieSession, CookieSessions};

/// How long a session lasts that is not used, and how long at all, in milliseconds.
const IDLE: u64 = 30 * 60 * 1_000;
const LONGEST: u64 = 12 * 60 * 60 * 1_000;
/// How many sessions there are, and of one principal.
const SESSIONS: usize = 10_000;
const OF_ONE: usize = 16;

/// The sessions.
#[derive(Debug)]
pub(crate) struct PageSessions(CookieSessions<Arc<KnownToken>>);

// === impl PageSessions ===

impl PageSessions {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let limits = CookieLimits { idle: IDLE, longest: LONGEST, sessions: SESSIONS, of_one: OF_ONE };
        Self(CookieSessions::new(clock, limits))
    }

    /// Begins a session; the value of its cookie. The oldest of the same principal ends where it has too many.
    pub(crate) fn begin(&self, known: Arc<KnownToken>) -> Secret {
        let id = known.id.clone();
        self.0.begin(known, |other| other.id == id)
    }

    /// The session of a cookie, which is then used.
    pub(crate) fn find(&self, secret: &str) -> Option<CookieSession<Arc<KnownToken>>> {
        self.0.find(secret)
    }

    /// Whether a session of this name lasts. It is not used by that.
    pub(crate) fn lasts(&self, name: &str) -> bool {
        self.0.lasts(name)
    }

    /// Ends the session of a name.
    pub(crate) fn end(&self, name: &str) {
        self.0.end(name);
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{Identity, ManualClock, PrincipalId, Proof, Timestamp};

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
        assert_eq!(sessions.find(ann.expose()).unwrap().value.id.as_str(), "ann");
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
        let name = sessions.find(many[1].expose()).unwrap().name;
        assert!(sessions.lasts(&name));
        sessions.end(&name);
        assert!(!sessions.lasts(&name));
        assert!(sessions.find(many[1].expose()).is_none());
    }
}
