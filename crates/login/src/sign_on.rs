//! Single sign-on: how requests to a server prove a principal without a person. What is got is kept in memory only, per
//! principal and server, and who has logged out on disk; a failure is tried again later, and never makes up for it with another principal's credential.
//! The decisions are in `docs/adr/0016-single-sign-on.md`.

mod acquire;
mod attempt;
mod logout;
mod method;
mod token_request;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, ServerName, Timestamp};
use toolcrib_transport::http::checked::CheckedClient;

use crate::credentials::Rejection;
use crate::oauth::OAuth;
use crate::owner::Owner;
use crate::pending::Key;
use crate::possession::PossessionKeys;
use crate::quirks::Quirks;
use crate::rows::{LogoutRows, RowError};
use crate::subject::SubjectTokens;
use acquire::Acquirer;
use attempt::{Entry, bearer, digest, digest_of};
use logout::Logouts;

pub use method::{
    AudienceRule, ClientProof, EnterpriseSettings, ExchangeSettings, ProviderSettings, ReadSecret, SignOnClient,
    SignOnMethod, SignOnTarget, WorkloadSettings,
};

/// How long an attempt may take in all.
const ATTEMPT: Duration = Duration::from_secs(15);
/// How long a failed attempt is not repeated with the same token, in milliseconds: the first time, and the most.
const RETRY_MILLIS: (i64, i64) = (5 * 60_000, 30 * 60_000);
/// A token that came in place of one that the server refused, and is refused within this time, is of no use.
const REFUSED_AGAIN_MILLIS: u64 = 60_000;
/// How long no one can ask for an attempt again, in milliseconds: ten a minute, as in muster.
const ASKED_MILLIS: u64 = 6_000;
/// For how many principals and servers it is remembered what they got and what failed; more begin again.
const ENTRIES: usize = 32_768;

/// Signs principals on. Clones share everything.
#[derive(Debug, Clone)]
pub struct SignOns(Arc<Inner>);

struct Inner {
    acquirer: Acquirer,
    clock: Arc<dyn Clock>,
    scope: Scope,
    subjects: Arc<dyn SubjectTokens>,
    targets: ArcSwap<HashMap<ServerName, Arc<SignOnTarget>>>,
    entries: Mutex<HashMap<Key, Arc<Entry>>>,
    logouts: Logouts,
}

/// What a sign-on is made of.
#[derive(Debug)]
pub struct SignOnConfig {
    /// Sends requests to authorization servers.
    pub http: CheckedClient,
    /// What single authorization servers do differently.
    pub quirks: Quirks,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// In which attempts run.
    pub scope: Scope,
    /// The tokens that principals proved themselves with.
    pub subjects: Arc<dyn SubjectTokens>,
    /// Where it is remembered who has logged out.
    pub logouts: Arc<dyn LogoutRows>,
    /// The keys that tokens are bound to, for those who send requests.
    pub keys: PossessionKeys,
}

/// Why a principal is not signed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("single sign-on to `{server}` failed: {reason}")]
pub struct SignOnError {
    /// The server.
    pub server: ServerName,
    /// Why, as a fragment.
    pub reason: String,
}

/// How it stands between a principal and a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignOnStatus {
    /// The method, as a word.
    pub method: &'static str,
    /// How.
    pub state: SignOnState,
    /// The issuer of what requests carry, where it is known.
    pub issuer: Option<String>,
    /// The scopes that were given.
    pub scopes: Vec<String>,
}

/// How a sign-on stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignOnState {
    /// The principal came with nothing that could be used, or has logged out; why.
    Out(String),
    /// It was not needed yet.
    Ready,
    /// An attempt runs.
    Pending,
    /// Requests carry a token.
    On {
        /// When it ends.
        expires: Timestamp,
    },
    /// The last attempt failed.
    Failed {
        /// Why, as a fragment.
        reason: String,
        /// When it is tried again.
        retry_at: Timestamp,
    },
}

// === impl SignOns ===

impl SignOns {
    /// Signs on to no server yet. Reads who has logged out, and blocks.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn new(config: SignOnConfig) -> Result<Self, RowError> {
        let SignOnConfig { http, quirks, clock, scope, subjects, logouts, keys } = config;
        let logouts = Logouts::load(logouts)?;
        let (targets, entries) = (ArcSwap::default(), Mutex::default());
        let oauth = OAuth { http, quirks: Arc::new(quirks), keys };
        let acquirer = Acquirer { oauth, clock: Arc::clone(&clock) };
        Ok(Self(Arc::new(Inner { acquirer, clock, scope, subjects, targets, entries, logouts })))
    }

    /// Adds a server, or takes note of its new definition. What was got for it before is dropped.
    pub fn set_target(&self, target: SignOnTarget) {
        let (server, target) = (target.server().clone(), Arc::new(target));
        self.0.change(&server, |targets| drop(targets.insert(server.clone(), Arc::clone(&target))));
    }

    /// Forgets a server, and what was got for it.
    pub fn remove_target(&self, server: &ServerName) {
        self.0.change(server, |targets| drop(targets.remove(server)));
    }

    /// Whether a definition wants the tokens that principals prove themselves with.
    pub fn want_subjects(&self, are_wanted: bool) {
        self.0.subjects.want(are_wanted);
    }

    /// Whether a server is signed on to.
    pub fn has(&self, server: &ServerName) -> bool {
        self.0.targets.load().contains_key(server)
    }

    /// Whether a principal can be signed on to a server now, without a person.
    pub fn can(&self, server: &ServerName, principal: Option<&str>) -> bool {
        let Some(target) = self.0.target(server) else { return false };
        match self.0.subject(&target, principal) {
            Ok(subject) => {
                let (key, now, own) = (target.key(principal), self.0.clock.now(), digest(subject.as_ref()));
                let entry = self.0.existing(&key);
                !self.0.logouts.is_out(&key, own) && entry.is_none_or(|entry| entry.failure(own, now).is_none())
            }
            Err(_) => false,
        }
    }

    /// The headers that a principal's requests to a server carry. From memory, but for the first time and when a token is
    /// over. `None` where the server is not signed on to.
    ///
    /// # Errors
    /// The principal cannot be signed on now.
    pub async fn headers(
        &self,
        server: &ServerName,
        principal: Option<&str>,
    ) -> Option<Result<HeaderMap, SignOnError>> {
        let target = self.0.target(server)?;
        let headers = self.0.headers(&target, principal).await;
        Some(headers.map_err(|reason| SignOnError { server: server.clone(), reason }))
    }

    /// What to do after a server refused a request that carried `sent`.
    pub async fn rejected(&self, server: &ServerName, principal: Option<&str>, sent: Option<&HeaderMap>) -> Rejection {
        let Some(target) = self.0.target(server) else { return Rejection::NeedsLogin };
        if self.0.rejected(&target, principal, sent).await { Rejection::Renewed } else { Rejection::NeedsLogin }
    }

    /// Signs a principal on for a call of it: what failed a moment ago is not tried again.
    ///
    /// # Errors
    /// It cannot be signed on now.
    pub async fn join(&self, server: &ServerName, principal: Option<&str>) -> Result<(), SignOnError> {
        match self.headers(server, principal).await {
            Some(headers) => headers.map(drop),
            None => Err(SignOnError { server: server.clone(), reason: NO_METHOD.to_owned() }),
        }
    }

    /// Signs a principal on because it asks for it, whatever failed before.
    ///
    /// # Errors
    /// It cannot be signed on now.
    pub async fn begin(&self, server: &ServerName, principal: Option<&str>) -> Result<(), SignOnError> {
        if let Some(target) = self.0.target(server).filter(|target| target.is_own(principal)) {
            let key = target.key(principal);
            let removed = self.0.logouts.remove(&key).await;
            removed.map_err(|error| SignOnError { server: server.clone(), reason: error.to_string() })?;
            if let Some(entry) = self.0.existing(&key) {
                entry.ask(self.0.clock.now());
            }
        }
        self.join(server, principal).await
    }

    /// Ends it until the principal asks for it again, or comes with another token. Whether there was something to end.
    /// Remembered on disk when this returns.
    ///
    /// # Errors
    /// It cannot be remembered: nothing has ended.
    pub async fn end(&self, server: &ServerName, principal: Option<&str>) -> Result<bool, RowError> {
        let Some(target) = self.0.target(server).filter(|target| target.is_own(principal)) else { return Ok(false) };
        let (inner, key) = (Arc::clone(&self.0), target.key(principal));
        let (held, mut tokens) = (self.0.existing(&key).and_then(|entry| entry.held()), Vec::new());
        if target.method.needs_subject() {
            let presented = principal.map(|principal| self.0.subjects.tokens_of(principal)).unwrap_or_default();
            // The door may have forgotten the one that it came from.
            tokens.extend(held.as_ref().and_then(|held| held.subject));
            tokens.extend(presented.iter().rev().map(|token| (digest_of(token), token.expires)));
            if tokens.is_empty() {
                return Ok(false);
            }
        }
        let is_forwarded = matches!(target.method, SignOnMethod::Forward(_));
        let was_on = held.is_some() || is_forwarded && self.0.subject(&target, principal).is_ok();
        // It goes on when the caller is gone: what is on disk and what is held are one.
        let work = self.0.scope.spawn(async move {
            inner.logouts.add(&key, &tokens, inner.clock.now()).await?;
            if let Some(entry) = inner.existing(&key) {
                entry.clear();
            }
            Ok(())
        });
        work.await.unwrap_or_else(|error| Err(RowError(error.to_string())))?;
        Ok(was_on)
    }

    /// How it stands with a principal at a server; `None` where the server is not signed on to.
    pub fn status(&self, server: &ServerName, principal: Option<&str>) -> Option<SignOnStatus> {
        let target = self.0.target(server)?;
        let subject = self.0.subject(&target, principal);
        let key = target.key(principal);
        let entry = self.0.existing(&key);
        let now = self.0.clock.now();
        let mut status =
            SignOnStatus { method: target.method.name(), state: SignOnState::Ready, issuer: None, scopes: Vec::new() };
        let held = entry.as_ref().and_then(|entry| entry.held()).filter(|held| held.expires > now);
        status.state = match (&subject, held) {
            // Also while the next one is got.
            (_, Some(held)) => {
                (status.issuer, status.scopes) = (held.issuer.clone(), held.scopes.clone());
                SignOnState::On { expires: held.expires }
            }
            _ if entry.as_ref().is_some_and(|entry| entry.is_pending()) => SignOnState::Pending,
            (Err(why), None) => SignOnState::Out((*why).to_owned()),
            (Ok(subject), None) => {
                let own = digest(subject.as_ref());
                match entry.as_ref().and_then(|entry| entry.failure(own, now)) {
                    _ if self.0.logouts.is_out(&key, own) => SignOnState::Out(LOGGED_OUT.into()),
                    Some((reason, retry_at)) => SignOnState::Failed { reason, retry_at },
                    None => match (&target.method, subject) {
                        (SignOnMethod::Forward(_), Some(subject)) => {
                            status.issuer = Some(subject.issuer.to_string());
                            SignOnState::On { expires: subject.expires }
                        }
                        _ => SignOnState::Ready,
                    },
                }
            }
        };
        Some(status)
    }
}

/// Why no one is signed on to a server whose definition does not say how.
const NO_METHOD: &str = "its definition names no method";
/// Why a token is not sent again for a while.
const REFUSED: &str = "the server refuses the token that was obtained for it (HTTP 401)";
/// The same of the caller's own.
const REFUSED_FORWARDED: &str = "the server refuses the token of the caller that was forwarded to it (HTTP 401)";
/// Why there is nothing after a logout.
const LOGGED_OUT: &str = "the caller has logged out of it";

impl Inner {
    fn change(&self, server: &ServerName, change: impl Fn(&mut HashMap<ServerName, Arc<SignOnTarget>>)) {
        self.targets.rcu(|targets| {
            let mut targets = HashMap::clone(targets);
            change(&mut targets);
            targets
        });
        self.entries().retain(|key, _| key.server != *server);
    }

    fn target(&self, server: &ServerName) -> Option<Arc<SignOnTarget>> {
        self.targets.load().get(server).cloned()
    }

    /// The token of the principal that is used; `None` for a method that needs none.
    fn subject(
        &self,
        target: &SignOnTarget,
        principal: Option<&str>,
    ) -> Result<Option<crate::subject::SubjectToken>, &'static str> {
        if !target.method.needs_subject() {
            return Ok(None);
        }
        let tokens = principal.map(|principal| self.subjects.tokens_of(principal)).unwrap_or_default();
        target.subject(tokens).map(Some)
    }

    async fn headers(
        self: &Arc<Self>,
        target: &Arc<SignOnTarget>,
        principal: Option<&str>,
    ) -> Result<HeaderMap, String> {
        let (key, now) = (target.key(principal), self.clock.now());
        if let Some(entry) = self.existing(&key)
            && let Some(held) = entry.held().filter(|held| held.expires > now)
        {
            if held.is_due(now) {
                // The principal may be gone: then this one counts until it ends.
                if let Ok(subject) = self.subject(target, principal) {
                    self.renew_soon(target, &entry, subject);
                }
            }
            return Ok(held.headers.clone());
        }
        let subject = self.subject(target, principal)?;
        let own = digest(subject.as_ref());
        if self.logouts.is_out(&key, own) {
            return Err(LOGGED_OUT.to_owned());
        }
        let entry = match (&target.method, &subject) {
            (SignOnMethod::Forward(_), Some(subject)) => match self.existing(&key) {
                None => return bearer(&subject.token),
                Some(entry) => entry,
            },
            _ => self.entry(&key),
        };
        if let Some((reason, _)) = entry.failure(own, now) {
            return Err(reason);
        }
        match (&target.method, subject) {
            (SignOnMethod::Forward(_), Some(subject)) => bearer(&subject.token),
            (_, subject) => self.attempt(target, &entry, subject, false).await.map(|held| held.headers.clone()),
        }
    }

    /// Whether there is another token than the one that the server refused.
    async fn rejected(
        self: &Arc<Self>,
        target: &Arc<SignOnTarget>,
        principal: Option<&str>,
        sent: Option<&HeaderMap>,
    ) -> bool {
        let is_sent = |headers: &HeaderMap| sent.and_then(|sent| sent.get(AUTHORIZATION)) == headers.get(AUTHORIZATION);
        let Ok(subject) = self.subject(target, principal) else { return false };
        let (own, key, now) = (digest(subject.as_ref()), target.key(principal), self.clock.now());
        if self.logouts.is_out(&key, own) {
            return false;
        }
        let entry = self.entry(&key);
        if let (SignOnMethod::Forward(_), Some(subject)) = (&target.method, &subject) {
            let is_same = bearer(&subject.token).is_ok_and(|headers| is_sent(&headers));
            if is_same {
                entry.fail(own, REFUSED_FORWARDED, now);
            }
            return !is_same && entry.failure(own, now).is_none();
        }
        match entry.held() {
            Some(held) if !is_sent(&held.headers) => return true,
            Some(held) if held.is_replacement && now.since(held.received) < REFUSED_AGAIN_MILLIS => {
                entry.fail(own, REFUSED, now);
                return false;
            }
            Some(_) => entry.drop_held(),
            None => {}
        }
        if entry.failure(own, now).is_some() {
            return false;
        }
        self.attempt(target, &entry, subject, true).await.is_ok()
    }

    fn existing(&self, key: &Key) -> Option<Arc<Entry>> {
        self.entries().get(key).cloned()
    }

    fn entry(&self, key: &Key) -> Arc<Entry> {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES && !entries.contains_key(key) {
            make_room(&mut entries, self.clock.now());
        }
        Arc::clone(entries.entry(key.clone()).or_insert_with(|| Arc::new(Entry::new(key.clone()))))
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops what is of no use, or else a quarter of what is not used at this moment: it can be had again.
fn make_room(entries: &mut HashMap<Key, Arc<Entry>>, now: Timestamp) {
    entries.retain(|_, entry| entry.is_pending() || entry.is_worth_keeping(now));
    let mut surplus = if entries.len() >= ENTRIES { ENTRIES / 4 } else { 0 };
    entries.retain(|_, entry| {
        let goes = surplus > 0 && !entry.is_pending();
        surplus -= usize::from(goes);
        !goes
    });
}

// === impl SignOnTarget ===

impl SignOnTarget {
    /// Whether a principal may begin and end it: what is one for all is the owner's.
    fn is_own(&self, principal: Option<&str>) -> bool {
        self.method.needs_subject() || Owner::of(principal).is_installation()
    }

    /// Whose token it is: what needs none of the principal is one for all.
    fn key(&self, principal: Option<&str>) -> Key {
        let owner = Owner::of(principal.filter(|_| self.method.needs_subject()));
        Key { server: self.server().clone(), owner }
    }
}

// === impl SignOnError ===

impl SignOnError {
    /// The same for people.
    pub fn problem(&self) -> Problem {
        Problem::new(Kind::Unauthenticated, self.to_string())
            .hint(format!("another token is tried at once; see `toolcrib auth status --server {}`", self.server))
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignOns").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}
