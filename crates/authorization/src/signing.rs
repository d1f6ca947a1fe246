//! The keys that sign our tokens: the next, the current and the old one. All three are published, so that whoever keeps the
//! set knows a key before it signs, and as long as what it signed counts.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value, json};
use toolcrib_auth::Sealer;
use toolcrib_auth::jose::{KeySet, SignedToken, SigningKey};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_store::{Authorizations, KeyPhase, KeyRecord};

use crate::session::ACCESS_LIFE;

/// The type of our access tokens (RFC 9068, section 2.1).
pub(crate) const ACCESS_TOKEN: &str = "at+jwt";

/// The keys, as they are now.
pub(crate) struct SigningKeys {
    rows: Authorizations,
    sealer: Sealer,
    ring: RwLock<Arc<KeyRing>>,
}

#[derive(Debug)]
struct KeyRing {
    next: PhasedKey,
    current: PhasedKey,
    old: Option<PhasedKey>,
    /// The public halves.
    set: KeySet,
    published: Value,
    /// What tokens of each key begin with.
    beginnings: Vec<String>,
}

#[derive(Debug, Clone)]
struct PhasedKey {
    key: SigningKey,
    record: KeyRecord,
}

// === impl SigningKeys ===

impl SigningKeys {
    /// The keys of this installation; made where there are none. Blocks.
    pub(crate) fn open(rows: Authorizations, sealer: Sealer, now: Timestamp) -> Result<Self, Problem> {
        let mut found = Vec::new();
        for record in rows.keys()? {
            match read(&sealer, record) {
                Ok(key) => found.push(key),
                // Tokens live for minutes: who has one renews it with a new key.
                Err(why) => tracing::error!(error = why, "a signing key cannot be opened; a new one takes its place"),
            }
        }
        let take = |phase| found.iter().find(|key: &&PhasedKey| key.record.phase == phase).cloned();
        let (next, current, old) = (take(KeyPhase::Next), take(KeyPhase::Current), take(KeyPhase::Old));
        let is_whole = next.is_some() && current.is_some();
        let next = next.map_or_else(|| make(&sealer, KeyPhase::Next, now), Ok)?;
        let current = current.map_or_else(|| make(&sealer, KeyPhase::Current, now), Ok)?;
        let ring = KeyRing::new(next, current, old)?;
        if !is_whole {
            rows.put_keys(&ring.records())?;
        }
        Ok(Self { rows, sealer, ring: RwLock::new(Arc::new(ring)) })
    }

    /// Signs with the current key.
    pub(crate) fn sign(&self, claims: &Map<String, Value>) -> String {
        self.ring().current.key.sign(ACCESS_TOKEN, claims)
    }

    /// Whether a token says that it is ours. Nothing is proven by it.
    pub(crate) fn is_ours(&self, token: &str) -> bool {
        self.ring().beginnings.iter().any(|beginning| token.starts_with(beginning.as_str()))
    }

    /// Whether one of our keys signed a token.
    pub(crate) fn verify(&self, token: &SignedToken<'_>) -> bool {
        self.ring().set.verify(token).is_ok()
    }

    /// The public halves (RFC 7517, section 5).
    pub(crate) fn published(&self) -> Value {
        self.ring().published.clone()
    }

    /// The next key signs from now on, and a new one is the next. Gives the id of the current one. Blocks.
    pub(crate) fn rotate(&self, now: Timestamp) -> Result<String, Problem> {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        // The old key goes: nothing that it signed may count any more.
        let since = ring.old.as_ref().map(|_| ring.current.record.since);
        if since.is_some_and(|since| now >= since && now.since(since) < ACCESS_LIFE.unsigned_abs()) {
            let minutes = ACCESS_LIFE / 60_000;
            let message = format!("the keys were rotated less than {minutes} minutes ago");
            return Err(Problem::new(Kind::Conflict, message)
                .hint("Wait until the tokens of the old key have ended, then rotate again."));
        }
        let moved = |key: &PhasedKey, phase| -> Result<PhasedKey, Problem> {
            let plain = open(&self.sealer, &key.record).map_err(|why| Problem::new(Kind::Internal, why))?;
            let sealed = self.sealer.seal(&plain, &row(phase, &key.record.id));
            let record = KeyRecord { phase, sealed, since: now, ..key.record.clone() };
            Ok(PhasedKey { key: key.key.clone(), record })
        };
        let old = moved(&ring.current, KeyPhase::Old)?;
        let current = moved(&ring.next, KeyPhase::Current)?;
        let new = KeyRing::new(make(&self.sealer, KeyPhase::Next, now)?, current, Some(old))?;
        self.rows.put_keys(&new.records())?;
        let id = new.current.record.id.clone();
        *ring = Arc::new(new);
        Ok(id)
    }

    fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SigningKeys").field(&self.ring().current.record.id).finish()
    }
}

// === impl KeyRing ===

impl KeyRing {
    fn new(next: PhasedKey, current: PhasedKey, old: Option<PhasedKey>) -> Result<Self, Problem> {
        let keys = || [Some(&current), Some(&next), old.as_ref()].into_iter().flatten();
        let published = json!({ "keys": keys().map(|key| key.key.public_jwk()).collect::<Vec<_>>() });
        let set = KeySet::read(published.to_string().as_bytes());
        let set = set.map_err(|error| Problem::new(Kind::Internal, format!("the signing keys: {error}")))?;
        let beginning = |key: &PhasedKey| {
            let token = key.key.sign(ACCESS_TOKEN, &Map::new());
            token.split_inclusive('.').next().unwrap_or_default().to_owned()
        };
        let beginnings = keys().map(beginning).collect();
        Ok(Self { set, published, beginnings, next, current, old })
    }

    fn records(&self) -> Vec<KeyRecord> {
        [Some(&self.next), Some(&self.current), self.old.as_ref()]
            .into_iter()
            .flatten()
            .map(|key| key.record.clone())
            .collect()
    }
}

fn make(sealer: &Sealer, phase: KeyPhase, now: Timestamp) -> Result<PhasedKey, Problem> {
    let document = SigningKey::generate();
    let key = SigningKey::read(&document).map_err(|error| Problem::new(Kind::Internal, error.to_string()))?;
    let sealed = sealer.seal(&document, &row(phase, key.id()));
    Ok(PhasedKey { record: KeyRecord { phase, id: key.id().to_owned(), sealed, since: now }, key })
}

fn read(sealer: &Sealer, record: KeyRecord) -> Result<PhasedKey, String> {
    let key = SigningKey::read(&open(sealer, &record)?).map_err(|error| error.to_string())?;
    Ok(PhasedKey { key, record })
}

fn open(sealer: &Sealer, record: &KeyRecord) -> Result<Vec<u8>, String> {
    let opened = sealer.open(&record.sealed, &row(record.phase, &record.id));
    opened.map(|plain| plain.to_vec()).map_err(|error| error.to_string())
}

fn row(phase: KeyPhase, id: &str) -> [&str; 3] {
    let phase = match phase {
        KeyPhase::Next => "next",
        KeyPhase::Current => "current",
        KeyPhase::Old => "old",
    };
    ["authorization_key", phase, id]
}
