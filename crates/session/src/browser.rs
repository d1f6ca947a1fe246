//! Who signed in to the pages on this machine, by the cookies of their browsers, and the codes that begin such a session.
//! In memory: after a restart one signs in again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::{Clock, Secret, Timestamp, random};

use crate::Principal;
use crate::cookies::{CookieLimits, CookieSession, CookieSessions, hash};

/// How long a session lasts that is not used, and how long at all, in milliseconds.
const IDLE: u64 = 60 * 60 * 1_000;
const LONGEST: u64 = 12 * 60 * 60 * 1_000;
/// How long a code counts, in milliseconds.
const CODE_LIFE: u64 = 60 * 1_000;
/// How many sessions and how many codes there are.
const SESSIONS: usize = 64;
const CODES: usize = 64;
/// How much of what a browser calls itself is kept, in characters.
const BROWSER: usize = 200;

/// The sessions of browsers.
#[derive(Debug)]
pub struct BrowserSessions {
    clock: Arc<dyn Clock>,
    sessions: CookieSessions<SignedInBrowser>,
    codes: Mutex<HashMap<[u8; 32], Code>>,
}

/// A browser and who signed in with it.
#[derive(Debug, Clone)]
pub struct SignedInBrowser {
    /// Who.
    pub principal: Principal,
    /// What the browser calls itself.
    pub browser: String,
}

#[derive(Debug)]
struct Code {
    principal: Principal,
    made: Timestamp,
}

// === impl BrowserSessions ===

impl BrowserSessions {
    /// No sessions.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let limits = CookieLimits { idle: IDLE, longest: LONGEST, sessions: SESSIONS, of_one: SESSIONS };
        Self { sessions: CookieSessions::new(Arc::clone(&clock), limits), clock, codes: Mutex::default() }
    }

    /// A code that begins one session of a principal within a minute. The oldest is lost where there are too many.
    pub fn code(&self, principal: Principal) -> Secret {
        let (secret, now) = (random::token(), self.clock.now());
        let mut codes = self.codes();
        codes.retain(|_, code| now.since(code.made) < CODE_LIFE);
        if codes.len() >= CODES
            && let Some(oldest) = codes.iter().min_by_key(|(_, code)| code.made).map(|(hash, _)| *hash)
        {
            codes.remove(&oldest);
        }
        codes.insert(hash(secret.expose()), Code { principal, made: now });
        secret
    }

    /// Whom a code stands for. Once, whether it still counts or not.
    pub fn redeem(&self, code: &str) -> Option<Principal> {
        let now = self.clock.now();
        let code = self.codes().remove(&hash(code))?;
        (now.since(code.made) < CODE_LIFE).then_some(code.principal)
    }

    /// Begins a session; the value of its cookie. The one that was not used for longest ends where there are too many.
    pub fn begin(&self, principal: Principal, browser: &str) -> Secret {
        let id = principal.id.clone();
        let value = SignedInBrowser { principal, browser: browser.chars().take(BROWSER).collect() };
        self.sessions.begin(value, |other| other.principal.id == id)
    }

    /// The session of a cookie, which is then used.
    pub fn find(&self, secret: &str) -> Option<CookieSession<SignedInBrowser>> {
        self.sessions.find(secret)
    }

    /// Whether a session of this name lasts. It is not used by that.
    pub fn lasts(&self, name: &str) -> bool {
        self.sessions.lasts(name)
    }

    /// Ends the session of a name; whether there was one.
    pub fn end(&self, name: &str) -> bool {
        self.sessions.end(name)
    }

    /// All of them, the one that was used last first.
    pub fn list(&self) -> Vec<CookieSession<SignedInBrowser>> {
        self.sessions.list()
    }

    fn codes(&self) -> MutexGuard<'_, HashMap<[u8; 32], Code>> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::ManualClock;

    use super::*;

    fn sessions() -> (Arc<ManualClock>, BrowserSessions) {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        (Arc::clone(&clock), BrowserSessions::new(clock))
    }

    fn skip(clock: &ManualClock, millis: u64) {
        clock.advance(i64::try_from(millis).unwrap());
    }

    #[test]
    fn a_code_counts_once_and_for_a_minute() {
        let (clock, sessions) = sessions();
        let code = sessions.code(Principal::admin("admin"));
        assert!(sessions.redeem("").is_none());
        assert_eq!(sessions.redeem(code.expose()).unwrap().id.as_str(), "admin");
        assert!(sessions.redeem(code.expose()).is_none(), "replayed");
        let late = sessions.code(Principal::admin("admin"));
        skip(&clock, CODE_LIFE);
        assert!(sessions.redeem(late.expose()).is_none(), "a minute later");
        let first = sessions.code(Principal::admin("admin"));
        for _ in 0..CODES {
            clock.advance(1);
            sessions.code(Principal::admin("admin"));
        }
        assert!(sessions.redeem(first.expose()).is_none() && sessions.codes().len() == CODES);
    }

    #[test]
    fn a_session_ends_when_it_is_idle_old_ended_or_one_too_many() {
        let (clock, sessions) = sessions();
        let begin = || sessions.begin(Principal::admin("admin"), "Firefox");
        let (one, two) = (begin(), begin());
        let name = sessions.find(one.expose()).unwrap().name;
        assert_eq!(sessions.list().len(), 2);
        assert!(sessions.find(&name).is_none(), "a name opens nothing");
        for _ in 0..11 {
            skip(&clock, IDLE - 1);
            assert!(sessions.find(one.expose()).is_some());
        }
        assert!(sessions.find(two.expose()).is_none(), "idle");
        skip(&clock, IDLE - 1);
        assert!(sessions.find(one.expose()).is_some());
        skip(&clock, IDLE - 1);
        assert!(sessions.find(one.expose()).is_none() && !sessions.lasts(&name), "twelve hours");
        let ended = begin();
        let name = sessions.find(ended.expose()).unwrap().name;
        assert!(sessions.lasts(&name) && sessions.end(&name) && !sessions.end(&name));
        assert!(sessions.find(ended.expose()).is_none());
        let first = begin();
        for _ in 0..SESSIONS {
            clock.advance(1);
            begin();
        }
        assert!(sessions.find(first.expose()).is_none() && sessions.list().len() == SESSIONS);
    }
}
