//! The keys of an issuer, kept: fetched again when they are old or a token names one that is not among them, at most once a
//! minute, whatever is presented. While the issuer is away the last ones count for a day.

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
    /// Held while one fetches; when that was tried last.
    attempt: Mutex<Option<Attempt>>,
}

#[derive(Debug)]
struct IssuerDocuments {
    metadata: Metadata,
    keys: KeySet,
    at: Timestamp,
}

#[derive(Debug, Clone)]
struct Attempt {
    at: Timestamp,
    /// Why it failed, if it did.
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
        Self { issuer, url, policy, client, clock, current: RwLock::new(None), attempt: Mutex::new(None) }
    }

    /// Checks the signature of a token with the issuer's keys. In `scope` keys that are old are fetched again, which
    /// no request waits for.
    pub(crate) async fn verify(self: &Arc<Self>, token: &SignedToken<'_>, scope: &Scope) -> Result<(), TokenRefusal> {
        let usable = |fetched: &Arc<IssuerDocuments>| fetched.keys.knows(token) && fetched.age(self.now()) < LONGEST;
        if let Some(fetched) = self.current().filter(usable) {
            if fetched.age(self.now()) >= FRESH && self.attempt.try_lock().is_ok_and(|last| self.may_try(&last)) {
                let keys = Arc::clone(self);
                scope.spawn(async move {
                    let _ = keys.fetch_unless_tried().await;
                });
            }
            return fetched.verify(token);
        }
        let error = self.fetch_unless_tried().await;
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
        let error = self.fetch_unless_tried().await;
        let fetched = self.current().ok_or_else(|| error.unwrap_or_else(|| "it was not reached".to_owned()))?;
        Ok(fetched.metadata.clone())
    }

    /// Fetches, once, unless that was tried a moment ago; why the last attempt failed, if it did.
    async fn fetch_unless_tried(&self) -> Option<String> {
        let mut last = self.attempt.lock().await;
        if self.may_try(&last) {
            let at = self.now();
            // Stored first: a request that goes away while it waits has made its attempt.
            *last = Some(Attempt { at, error: Some("it was not reached".to_owned()) });
            let error = self.fetch(at).await.err().map(|why| {
                tracing::warn!(issuer = self.issuer, error = why, "the keys of an issuer cannot be fetched");
                format!("issuer `{}`: {why}", self.issuer)
            });
            *last = Some(Attempt { at, error });
        }
        last.as_ref().and_then(|attempt| attempt.error.clone())
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

    fn may_try(&self, last: &Option<Attempt>) -> bool {
        let now = self.now();
        // A clock that was set back must not forbid it for ever.
        last.as_ref().is_none_or(|last| now.since(last.at) >= BETWEEN || last.at.since(now) >= BETWEEN)
    }

    fn current(&self) -> Option<Arc<IssuerDocuments>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
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
