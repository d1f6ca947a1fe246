//! What is known of one principal at one server, and the attempt to get a token: one at a time, with a deadline, and not
//! again for a while after a failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use sha2::{Digest, Sha256};
use toolcrib_base::{Secret, Timestamp};
use toolcrib_transport::http::possession;

use super::token_request::IssuedToken;
use super::{ASKED_MILLIS, ATTEMPT, Inner, LOGGED_OUT, RETRY_MILLIS, SignOnTarget};
use crate::pending::Key;
use crate::possession::PossessionKey;
use crate::subject::SubjectToken;

/// How a token is presented that is not bound to a key.
const BEARER: &str = "Bearer ";

/// The SHA-256 of a principal's token.
pub(super) type TokenDigest = [u8; 32];

/// The principal's token that something came from; `None` where a method needs none.
pub(super) type Subject = Option<TokenDigest>;

/// One principal at one server.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    known: Mutex<EntryState>,
    /// Held while a token is got.
    change: tokio::sync::Mutex<()>,
    is_pending: AtomicBool,
}

#[derive(Debug, Default)]
struct EntryState {
    held: Option<Arc<HeldToken>>,
    failure: Option<Failure>,
    /// When someone asked for another attempt last.
    asked: Option<Timestamp>,
}

/// A token as it is used.
#[derive(Debug)]
pub(super) struct HeldToken {
    pub(super) headers: HeaderMap,
    /// The principal's token that it came from, and when that one ends.
    pub(super) subject: Option<(TokenDigest, Timestamp)>,
    /// The key that it is bound to, for as long as it may be used.
    _key: Option<Arc<PossessionKey>>,
    pub(super) issuer: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) received: Timestamp,
    pub(super) expires: Timestamp,
    /// Whether it came because the server refused the one before.
    pub(super) is_replacement: bool,
}

#[derive(Debug)]
struct Failure {
    reason: String,
    /// The principal's token that it failed with: another one is tried at once.
    subject: Subject,
    count: u32,
    until: Timestamp,
}

/// An attempt that runs.
struct PendingGuard<'a>(&'a AtomicBool);

// === impl PendingGuard ===

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

// === impl Entry ===

impl Entry {
    pub(super) fn new(key: Key) -> Self {
        Self { key, known: Mutex::default(), change: tokio::sync::Mutex::default(), is_pending: AtomicBool::new(false) }
    }

    pub(super) fn held(&self) -> Option<Arc<HeldToken>> {
        self.known().held.clone()
    }

    pub(super) fn drop_held(&self) {
        self.known().held = None;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Why it is not tried now with this token, and until when.
    pub(super) fn failure(&self, subject: Subject, now: Timestamp) -> Option<(String, Timestamp)> {
        let known = self.known();
        let failure = known.failure.as_ref().filter(|failure| failure.subject == subject && failure.until > now)?;
        Some((failure.reason.clone(), failure.until))
    }

    /// Forgets what failed, because someone asks for it; not again too soon.
    pub(super) fn ask(&self, now: Timestamp) {
        let mut known = self.known();
        if known.failure.is_some() && known.asked.is_none_or(|asked| now.since(asked) >= ASKED_MILLIS) {
            (known.failure, known.asked) = (None, Some(now));
        }
    }

    /// Whether something is known that is not had again at once.
    pub(super) fn is_worth_keeping(&self, now: Timestamp) -> bool {
        let known = self.known();
        known.held.as_ref().is_some_and(|held| held.expires > now)
            || known.failure.as_ref().is_some_and(|failure| failure.until > now)
    }

    /// Drops what is held and what failed.
    pub(super) fn clear(&self) {
        let mut known = self.known();
        (known.held, known.failure) = (None, None);
    }

    /// Takes note of a failure: what is held is of no use.
    pub(super) fn fail(&self, subject: Subject, reason: &str, now: Timestamp) {
        let mut known = self.known();
        known.fail(subject, reason, now);
        known.held = None;
    }

    /// Takes note that the next token could not be had: what is held counts until it ends.
    fn fail_renewal(&self, subject: Subject, reason: &str, now: Timestamp) {
        self.known().fail(subject, reason, now);
    }

    /// Holds a token, unless the principal has logged out meanwhile.
    fn put(&self, held: HeldToken, is_out: impl FnOnce() -> bool) -> Result<Arc<HeldToken>, String> {
        let held = Arc::new(held);
        let mut known = self.known();
        // A logout is noted first and clears what is held then: it is seen here, or clears this.
        if is_out() {
            return Err(LOGGED_OUT.to_owned());
        }
        (known.held, known.failure) = (Some(Arc::clone(&held)), None);
        drop(known);
        Ok(held)
    }

    fn known(&self) -> MutexGuard<'_, EntryState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl EntryState ===

impl EntryState {
    fn fail(&mut self, subject: Subject, reason: &str, now: Timestamp) {
        let before = self.failure.as_ref().filter(|before| before.subject == subject);
        let count = before.map_or(0, |before| before.count);
        let pause = (RETRY_MILLIS.0 << count.min(10)).min(RETRY_MILLIS.1);
        let until = Timestamp(now.0.saturating_add(pause));
        self.failure = Some(Failure { reason: reason.to_owned(), subject, count: count + 1, until });
    }
}

// === impl HeldToken ===

impl HeldToken {
    fn new(
        issued: IssuedToken,
        subject: Option<&SubjectToken>,
        now: Timestamp,
        is_replacement: bool,
    ) -> Result<Self, String> {
        let life = i64::try_from(issued.lasts).unwrap_or(i64::MAX).saturating_mul(1_000);
        let scheme = if issued.key.is_some() { possession::SCHEME } else { BEARER };
        let headers = credential(scheme, &issued.token)?;
        let expires = Timestamp(now.0.saturating_add(life));
        let subject = subject.map(|subject| (digest_of(subject), subject.expires));
        let IssuedToken { issuer, scopes, key, .. } = issued;
        Ok(Self { headers, subject, _key: key, issuer, scopes, received: now, expires, is_replacement })
    }

    /// Whether less than a tenth of its life is left, or the clock was set back.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        now < self.received || now.0 >= self.expires.0.saturating_sub((self.expires.0 - self.received.0) / 10)
    }
}

impl Inner {
    /// Gets a token, or waits for who gets one already. It goes on when the caller is gone: others wait for it as well.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        target: &Arc<SignOnTarget>,
        entry: &Arc<Entry>,
        subject: Option<SubjectToken>,
        is_replacement: bool,
    ) -> Result<Arc<HeldToken>, String> {
        let (own, target, entry) = (Arc::clone(self), Arc::clone(target), Arc::clone(entry));
        let work =
            self.scope.spawn(async move { own.attempt_now(&target, &entry, subject.as_ref(), is_replacement).await });
        work.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Gets the next token while the one that is held still counts.
    pub(super) fn renew_soon(
        self: &Arc<Self>,
        target: &Arc<SignOnTarget>,
        entry: &Arc<Entry>,
        subject: Option<SubjectToken>,
    ) {
        let is_failing = entry.failure(digest(subject.as_ref()), self.clock.now()).is_some();
        if is_failing || entry.is_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        let (own, target, entry) = (Arc::clone(self), Arc::clone(target), Arc::clone(entry));
        self.scope.spawn(async move {
            let now = own.clock.now();
            let _pending = PendingGuard(&entry.is_pending);
            let _change = entry.change.lock().await;
            match own.acquired(&target, subject.as_ref(), false).await {
                Ok(held) => drop(entry.put(held, || own.logouts.is_out(&entry.key, digest(subject.as_ref())))),
                Err(reason) => entry.fail_renewal(digest(subject.as_ref()), &reason, now),
            }
        });
    }

    async fn attempt_now(
        &self,
        target: &SignOnTarget,
        entry: &Entry,
        subject: Option<&SubjectToken>,
        is_replacement: bool,
    ) -> Result<Arc<HeldToken>, String> {
        let _change = entry.change.lock().await;
        let (own, now) = (digest(subject), self.clock.now());
        if let Some(held) = entry.held().filter(|held| held.expires > now) {
            return Ok(held);
        }
        if let Some((reason, _)) = entry.failure(own, now) {
            return Err(reason);
        }
        if self.logouts.is_out(&entry.key, own) {
            return Err(LOGGED_OUT.to_owned());
        }
        entry.is_pending.store(true, Ordering::Release);
        let _pending = PendingGuard(&entry.is_pending);
        match self.acquired(target, subject, is_replacement).await {
            Ok(held) => entry.put(held, || self.logouts.is_out(&entry.key, own)),
            Err(reason) => {
                tracing::warn!(server = %target.server(), method = target.method.name(), "no sign-on: {reason}");
                entry.fail(own, &reason, now);
                Err(reason)
            }
        }
    }

    async fn acquired(
        &self,
        target: &SignOnTarget,
        subject: Option<&SubjectToken>,
        is_replacement: bool,
    ) -> Result<HeldToken, String> {
        let issued = tokio::time::timeout(ATTEMPT, self.acquirer.acquire(target, subject)).await;
        let late = || format!("no answer within {} seconds", ATTEMPT.as_secs());
        let issued = issued.map_err(|_| late())??;
        HeldToken::new(issued, subject, self.clock.now(), is_replacement)
    }
}

/// The header that carries a token which is of use to whoever has it.
pub(super) fn bearer(token: &Secret) -> Result<HeaderMap, String> {
    credential(BEARER, token)
}

fn credential(scheme: &str, token: &Secret) -> Result<HeaderMap, String> {
    let value = HeaderValue::from_str(&format!("{scheme}{}", token.expose()));
    let mut value = value.map_err(|_| "the token cannot stand in a header")?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// By what a principal's token is recognised.
pub(super) fn digest(subject: Option<&SubjectToken>) -> Subject {
    subject.map(digest_of)
}

pub(super) fn digest_of(subject: &SubjectToken) -> TokenDigest {
    Sha256::digest(subject.token.expose().as_bytes()).into()
}
