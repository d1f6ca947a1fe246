//! Sessions that a browser's cookie opens: by the digest of the cookie, idle and total limit, bounded in number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, Secret, Timestamp, random};

/// The digits of a session's name.
const NAME_DIGITS: usize = 12;

/// How long sessions last, in milliseconds, and how many there are.
#[derive(Debug, Clone, Copy)]
pub struct CookieLimits {
    /// One that is not used.
    pub idle: u64,
    /// Any.
    pub longest: u64,
    /// In all.
    pub sessions: usize,
    /// Of one owner.
    pub of_one: usize,
}

/// Sessions, each with what it stands for.
#[derive(Debug)]
pub struct CookieSessions<T> {
    clock: Arc<dyn Clock>,
    limits: CookieLimits,
    by_hash: Mutex<HashMap<[u8; 32], CookieSession<T>>>,
}

/// A session.
#[derive(Debug, Clone)]
pub struct CookieSession<T> {
    /// Its name; it opens nothing.
    pub name: String,
    /// What it stands for.
    pub value: T,
    /// When it began.
    pub begun: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
}

// === impl CookieSessions ===

impl<T: Clone> CookieSessions<T> {
    /// No sessions.
    pub fn new(clock: Arc<dyn Clock>, limits: CookieLimits) -> Self {
        Self { clock, limits, by_hash: Mutex::default() }
    }

    /// Begins a session; the value of its cookie. Where there are too many, of the same owner or in all, the one ends that
    /// was not used for longest.
    pub fn begin(&self, value: T, is_same: impl Fn(&T) -> bool) -> Secret {
        let (secret, now) = (random::token(), self.clock.now());
        let hash = hash(secret.expose());
        let mut sessions = self.lock();
        sessions.retain(|_, session| self.limits.last(session, now));
        let oldest = |of: &dyn Fn(&CookieSession<T>) -> bool| {
            let found = sessions.iter().filter(|(_, session)| of(session)).min_by_key(|(_, session)| session.used);
            found.map(|(hash, _)| *hash)
        };
        let is_full = sessions.values().filter(|session| is_same(&session.value)).count() >= self.limits.of_one;
        let gone = match (is_full, sessions.len() >= self.limits.sessions) {
            (true, _) => oldest(&|session| is_same(&session.value)),
            (false, true) => oldest(&|_| true),
            (false, false) => None,
        };
        if let Some(gone) = gone {
            sessions.remove(&gone);
        }
        sessions.insert(hash, CookieSession { name: name_of(&hash), value, begun: now, used: now });
        secret
    }

    /// The session of a cookie, which is then used.
    pub fn find(&self, secret: &str) -> Option<CookieSession<T>> {
        let now = self.clock.now();
        let mut sessions = self.lock();
        let session = sessions.get_mut(&hash(secret)).filter(|session| self.limits.last(session, now))?;
        session.used = now;
        Some(session.clone())
    }

    /// Whether a session of this name lasts. It is not used by that.
    pub fn lasts(&self, name: &str) -> bool {
        let now = self.clock.now();
        self.lock().values().any(|session| session.name == name && self.limits.last(session, now))
    }

    /// Ends the session of a name; whether there was one.
    pub fn end(&self, name: &str) -> bool {
        let mut sessions = self.lock();
        let before = sessions.len();
        sessions.retain(|_, session| session.name != name);
        sessions.len() < before
    }

    /// All that last, the one that was used last first.
    pub fn list(&self) -> Vec<CookieSession<T>> {
        let now = self.clock.now();
        let lasting = |session: &&CookieSession<T>| self.limits.last(*session, now);
        let mut all: Vec<CookieSession<T>> = self.lock().values().filter(lasting).cloned().collect();
        all.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], CookieSession<T>>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl CookieLimits ===

impl CookieLimits {
    fn last<T>(&self, session: &CookieSession<T>, now: Timestamp) -> bool {
        now.since(session.used) < self.idle && now.since(session.begun) < self.longest
    }
}

/// The digest under which a secret is kept.
pub(crate) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn name_of(hash: &[u8; 32]) -> String {
    hash[..NAME_DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}
