//! The keys of an issuer, kept: fetched again when they are old, and when a token names one that is not among them. Each is
//! tried at most once a minute, whatever is presented. While the issuer is away the last ones count for a day.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;
use toolcrib_auth::jose::{KeySet, SignedToken};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Timestamp};
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use url::Url;

use crate::metadata::{self, Metadata};
use crate::token::TokenRefusal;

/// After how long keys are fetched again, in milliseconds: so long may a key count that was taken back.
const FRESH: u64 = 600_000;
/// How long keys count that cannot be fetched again, in milliseconds.
const LONGEST: u64 = 24 * 3_600_000;
/// How long it is at least from one attempt to the next, in milliseconds.
const BETWEEN: u64 = 60_000;

/// What is known of an issuer from its own documents.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    issuer: String,
    url: Url,
    policy: AddressPolicy,
    client: CheckedClient,
    clock: Arc<dyn Clock>,
    current: RwLock<Option<Arc<IssuerDocuments>>>,
    /// Held while one fetches.
    attempts: Mutex<Attempts>,
}

#[derive(Debug)]
struct IssuerDocuments {
    metadata: Metadata,
    keys: KeySet,
    at: Timestamp,
}

/// Why keys are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchReason {
    /// There are none, or they are old.
    Age,
    /// A token names one that is not there. Anyone can write such a token.
    UnknownKey,
}

/// When keys were fetched last, or that was tried.
#[derive(Debug, Default)]
struct Attempts {
    of_age: Option<Timestamp>,
    of_unknown_key: Option<Timestamp>,
    /// Why the last one failed, if it did.
    error: Option<String>,
}

// === impl IssuerKeys ===

impl IssuerKeys {
    /// Nothing is fetched before it is needed.
    pub(crate) fn new(
        issuer: String,
        url: Url,
        policy: AddressPolicy,
        client: CheckedClient,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { issuer, url, policy, client, clock, current: RwLock::new(None), attempts: Mutex::default() }
    }

    /// Checks the signature of a token with the issuer's keys. In `scope` keys that are old are fetched again, which
    /// no request waits for.
    pub(crate) async fn verify(self: &Arc<Self>, token: &SignedToken<'_>, scope: &Scope) -> Result<(), TokenRefusal> {
        let usable = |fetched: &Arc<IssuerDocuments>| fetched.keys.knows(token) && fetched.age(self.now()) < LONGEST;
        if let Some(fetched) = self.current().filter(usable) {
            let may_try = |attempts: &Attempts| attempts.allow(FetchReason::Age, self.now());
            if fetched.age(self.now()) >= FRESH && self.attempts.try_lock().is_ok_and(|attempts| may_try(&attempts)) {
                let keys = Arc::clone(self);
                scope.spawn(async move {
                    let _ = keys.fetch_unless_tried(FetchReason::Age).await;
                });
            }
            return fetched.verify(token);
        }
        let is_fresh = self.current().is_some_and(|fetched| fetched.age(self.now()) < FRESH);
        let reason = if is_fresh { FetchReason::UnknownKey } else { FetchReason::Age };
        let error = self.fetch_unless_tried(reason).await;
        match (self.current().filter(usable), self.current(), error) {
            (Some(fetched), ..) => fetched.verify(token),
            (None, Some(fetched), _) if fetched.age(self.now()) < FRESH => {
                Err(TokenRefusal::Invalid("the token is signed with a key that its issuer does not have".to_owned()))
            }
            // Neither the token nor its bearer can be blamed.
            (None, _, Some(why)) => Err(TokenRefusal::Unavailable(format!("the token cannot be checked now: {why}"))),
            (None, ..) => {
                Err(TokenRefusal::Invalid("the token is signed with a key that its issuer does not have".to_owned()))
            }
        }
    }

    /// The metadata, fetched if there are none.
    pub(crate) async fn metadata(&self) -> Result<Metadata, String> {
        let known = |fetched: &Arc<IssuerDocuments>| fetched.age(self.now()) < LONGEST;
        if let Some(fetched) = self.current().filter(known) {
            return Ok(fetched.metadata.clone());
        }
        let error = self.fetch_unless_tried(FetchReason::Age).await;
        let fetched = self.current().ok_or_else(|| error.unwrap_or_else(|| "it was not reached".to_owned()))?;
        Ok(fetched.metadata.clone())
    }

    /// Fetches, once, unless that was tried for this reason a moment ago; why the last attempt failed, if it did.
    async fn fetch_unless_tried(&self, reason: FetchReason) -> Option<String> {
        let mut attempts = self.attempts.lock().await;
        let now = self.now();
        if attempts.allow(reason, now) {
            // Stored first: a request that goes away while it waits has made its attempt.
            attempts.add(reason, now);
            attempts.error = Some("it was not reached".to_owned());
            attempts.error = self.fetch(now).await.err().map(|why| {
                tracing::warn!(issuer = self.issuer, error = why, "the keys of an issuer cannot be fetched");
                format!("issuer `{}`: {why}", self.issuer)
            });
        }
        attempts.error.clone()
    }

    /// Fetches and keeps what came; what was there stays where something is missing.
    async fn fetch(&self, at: Timestamp) -> Result<(), String> {
        let metadata = metadata::find(&self.client, self.policy, &self.issuer, &self.url).await?;
        let keys = match &metadata.keys {
            Some(url) => metadata::get(&self.client, self.policy, url).await.and_then(|document| {
                KeySet::read(&document).map_err(|_| "it publishes no keys that can be used".to_owned())
            }),
            None => Err("its metadata has no `jwks_uri`".to_owned()),
        };
        // One that gives opaque tokens needs no keys.
        let keys = match keys {
            Err(_) if metadata.introspection.is_some() && self.current().is_none() => KeySet::default(),
            other => other?,
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(IssuerDocuments { metadata, keys, at }));
        Ok(())
    }

    fn current(&self) -> Option<Arc<IssuerDocuments>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

// === impl Attempts ===

impl Attempts {
    fn allow(&self, reason: FetchReason, now: Timestamp) -> bool {
        let last = match reason {
            FetchReason::Age => self.of_age,
            FetchReason::UnknownKey => self.of_unknown_key,
        };
        // A clock that was set back must not forbid it for ever.
        last.is_none_or(|last| now.since(last) >= BETWEEN || last.since(now) >= BETWEEN)
    }

    fn add(&mut self, reason: FetchReason, now: Timestamp) {
        match reason {
            FetchReason::Age => self.of_age = Some(now),
            FetchReason::UnknownKey => self.of_unknown_key = Some(now),
        }
    }
}

// === impl IssuerDocuments ===

impl IssuerDocuments {
    /// In milliseconds. Keys from the future, after the clock was set back, are old but not too old.
    fn age(&self, now: Timestamp) -> u64 {
        if self.at.since(now) >= BETWEEN { FRESH } else { now.since(self.at) }
    }

    fn verify(&self, token: &SignedToken<'_>) -> Result<(), TokenRefusal> {
        self.keys.verify(token).map_err(|error| TokenRefusal::Invalid(error.to_string()))
    }
}
