//! Who signed in to the pages on this machine, by the cookies of their browsers, and the codes that begin such a session.
//! In memory: after a restart one signs in again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, Secret, Timestamp, random};

use crate::Principal;

/// How long a session lasts that is not used, and how long at all, in milliseconds.
const IDLE: u64 = 60 * 60 * 1_000;
const LONGEST: u64 = 12 * 60 * 60 * 1_000;
/// How long a code counts, in milliseconds.
const CODE_LIFE: u64 = 60 * 1_000;
/// How many sessions and how many codes there are.
const SESSIONS: usize = 64;
const CODES: usize = 64;
/// The digits of a session's name.
const NAME_DIGITS: usize = 12;

/// The sessions of browsers.
#[derive(Debug)]
pub struct BrowserSessions {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_hash: HashMap<[u8; 32], BrowserSession>,
    codes: HashMap<[u8; 32], Code>,
}

#[derive(Debug)]
struct BrowserSession {
    description: BrowserSessionDescription,
    principal: Principal,
}

#[derive(Debug)]
struct Code {
    principal: Principal,
    made: Timestamp,
}

/// A session as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSessionDescription {
    /// Its name; it opens nothing.
    pub name: String,
    /// What the browser calls itself.
    pub browser: String,
    /// Whose it is.
    pub principal: toolcrib_base::PrincipalId,
    /// When it began.
    pub begun: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
}

// === impl BrowserSessions ===

impl BrowserSessions {
    /// No sessions.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, table: Mutex::default() }
    }

    /// A code that begins one session of a principal within a minute. The oldest is lost where there are too many.
    pub fn code(&self, principal: Principal) -> Secret {
        let (secret, now) = (random::token(), self.clock.now());
        let mut table = self.lock();
        table.codes.retain(|_, code| now.since(code.made) < CODE_LIFE);
        if table.codes.len() >= CODES
            && let Some(oldest) = table.codes.iter().min_by_key(|(_, code)| code.made).map(|(hash, _)| *hash)
        {
            table.codes.remove(&oldest);
        }
        table.codes.insert(hash(secret.expose()), Code { principal, made: now });
        secret
    }

    /// Whom a code stands for. Once, whether it still counts or not.
    pub fn redeem(&self, code: &str) -> Option<Principal> {
        let now = self.clock.now();
        let code = self.lock().codes.remove(&hash(code))?;
        (now.since(code.made) < CODE_LIFE).then_some(code.principal)
    }

    /// Begins a session; the value of its cookie. The one that was not used for longest ends where there are too many.
    pub fn begin(&self, principal: Principal, browser: &str) -> Secret {
        let (secret, now) = (random::token(), self.clock.now());
        let hash = hash(secret.expose());
        let mut table = self.lock();
        table.by_hash.retain(|_, session| session.description.lasts(now));
        if table.by_hash.len() >= SESSIONS {
            let oldest = table.by_hash.iter().min_by_key(|(_, session)| session.description.used);
            if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
                table.by_hash.remove(&oldest);
            }
        }
        let name: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let description = BrowserSessionDescription {
            name: name[..NAME_DIGITS].to_owned(),
            browser: browser.chars().take(200).collect(),
            principal: principal.id.clone(),
            begun: now,
            used: now,
        };
        table.by_hash.insert(hash, BrowserSession { description, principal });
        secret
    }

    /// Whose session it is, which is then used, and its name.
    pub fn find(&self, secret: &str) -> Option<(Principal, String)> {
        let now = self.clock.now();
        let mut table = self.lock();
        let session = table.by_hash.get_mut(&hash(secret)).filter(|session| session.description.lasts(now))?;
        session.description.used = now;
        Some((session.principal.clone(), session.description.name.clone()))
    }

    /// Whether a session of this name lasts.
    pub fn lasts(&self, name: &str) -> bool {
        let now = self.clock.now();
        self.lock().by_hash.values().any(|it| it.description.name == name && it.description.lasts(now))
    }

    /// Ends the session of a name; whether there was one.
    pub fn end(&self, name: &str) -> bool {
        let mut table = self.lock();
        let before = table.by_hash.len();
        table.by_hash.retain(|_, session| session.description.name != name);
        table.by_hash.len() < before
    }

    /// All of them, the one that was used last first.
    pub fn list(&self) -> Vec<BrowserSessionDescription> {
        let now = self.clock.now();
        let table = self.lock();
        let lasting = table.by_hash.values().map(|session| &session.description).filter(|it| it.lasts(now));
        let mut all: Vec<BrowserSessionDescription> = lasting.cloned().collect();
        all.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        all
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl BrowserSessionDescription ===

impl BrowserSessionDescription {
    fn lasts(&self, now: Timestamp) -> bool {
        now.since(self.used) < IDLE && now.since(self.begun) < LONGEST
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
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
        assert!(sessions.redeem(first.expose()).is_none() && sessions.lock().codes.len() == CODES);
    }

    #[test]
    fn a_session_ends_when_it_is_idle_old_ended_or_one_too_many() {
        let (clock, sessions) = sessions();
        let begin = || sessions.begin(Principal::admin("admin"), "Firefox");
        let (one, two) = (begin(), begin());
        let name = sessions.find(one.expose()).unwrap().1;
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
        let name = sessions.find(ended.expose()).unwrap().1;
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
