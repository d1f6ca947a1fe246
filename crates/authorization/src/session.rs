//! What a person granted to a client: as it is kept, as it lives in memory, and the tokens of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolcrib_base::{Identity, PrincipalId, ProfileName, Proof, Timestamp};
use toolcrib_identity::{KnownToken, TokenGrant, actors};
use toolcrib_store::{SecretHash, SessionRecord};

/// How long an access token lives, in milliseconds.
pub(crate) const ACCESS_LIFE: i64 = 15 * 60_000;
/// How long a session lasts, in milliseconds.
pub(crate) const SESSION_LIFE: i64 = 30 * 24 * 3_600_000;
/// How many sessions were given one in the other at most: each client may exchange what another one exchanged.
const GENERATIONS: usize = 16;

/// Who was proven, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    pub(crate) principal: String,
    #[serde(default)]
    pub(crate) issuer: Option<String>,
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    /// What the owner granted. Without it the settings say at each decision what is granted.
    #[serde(default)]
    pub(crate) granted: Option<OwnGrant>,
}

/// What the owner of this installation granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnGrant {
    pub(crate) role: String,
    pub(crate) profiles: Vec<String>,
}

/// What a session is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionDetails {
    pub(crate) person: Person,
    pub(crate) client: String,
    pub(crate) client_name: String,
    pub(crate) redirect: Option<String>,
    pub(crate) resource: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) begun_at: i64,
    /// Who acts in the person's name (RFC 8693, section 4.1).
    #[serde(default)]
    pub(crate) actor: Option<Value>,
    /// The session in which it was given, and with which it ends.
    #[serde(default)]
    pub(crate) parent: Option<String>,
    /// The run with which it ends. Such a session is not written down.
    #[serde(default)]
    pub(crate) run: Option<String>,
}

/// A session for those who list them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDescription {
    /// Its name.
    pub id: String,
    /// In whose name the client acts.
    pub principal: PrincipalId,
    /// `client_id`.
    pub client: String,
    /// What the client calls itself.
    pub client_name: String,
    /// For which URL of this gateway.
    pub resource: String,
    /// When it was granted.
    pub begun_at: Timestamp,
    /// When its tokens were renewed last.
    pub used_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
}

/// A session whose tokens count.
#[derive(Debug)]
pub(crate) struct LiveSession {
    pub(crate) id: String,
    pub(crate) details: SessionDetails,
    pub(crate) identity: Arc<Identity>,
    pub(crate) expires_at: Timestamp,
    ended: AtomicBool,
}

/// All of them. A bound is that of their rows.
#[derive(Debug, Default)]
pub(crate) struct LiveSessions(RwLock<HashMap<String, Arc<LiveSession>>>);

// === impl Person ===

impl Person {
    pub(crate) fn of_known(known: &KnownToken) -> Self {
        let identity = &known.identity;
        Self {
            principal: known.id.as_str().to_owned(),
            issuer: identity.issuer.as_deref().map(str::to_owned),
            tenant: identity.tenant.as_deref().map(str::to_owned),
            groups: identity.groups.iter().map(ToString::to_string).collect(),
            granted: None,
        }
    }

    /// The owner of this installation, with what the owner granted.
    pub(crate) fn owner(granted: OwnGrant) -> Self {
        Self { principal: "local".to_owned(), issuer: None, tenant: None, groups: Vec::new(), granted: Some(granted) }
    }
}

// === impl OwnGrant ===

impl OwnGrant {
    pub(crate) fn new(grant: &TokenGrant) -> Self {
        let profiles = grant.profiles.iter().map(ToString::to_string).collect();
        Self { role: grant.role.as_str().to_owned(), profiles }
    }

    /// `None` for what no version of this program wrote.
    pub(crate) fn grant(&self) -> Option<TokenGrant> {
        let profiles = self.profiles.iter().map(|name| ProfileName::new(name).ok()).collect::<Option<_>>()?;
        Some(TokenGrant { role: self.role.parse().ok()?, profiles })
    }
}

// === impl SessionDetails ===

impl SessionDetails {
    pub(crate) fn record(&self, id: &str, refresh: Option<SecretHash>, now: Timestamp) -> SessionRecord {
        let life = if refresh.is_some() { SESSION_LIFE } else { ACCESS_LIFE };
        SessionRecord {
            id: id.to_owned(),
            principal: PrincipalId::new(&self.person.principal),
            client: self.client.clone(),
            details: serde_json::to_string(self).expect("texts and numbers become JSON"),
            sealed: None,
            refresh,
            used_at: now,
            expires_at: Timestamp(now.0.saturating_add(life)),
        }
    }

    /// `None`, with a warning, for a row that no version of this program wrote.
    pub(crate) fn read(record: &SessionRecord) -> Option<Self> {
        let read = serde_json::from_str(&record.details);
        read.map_err(|_| tracing::warn!(session = record.id, "a session is left out: it cannot be read")).ok()
    }
}

// === impl LiveSession ===

impl LiveSession {
    pub(crate) fn new(record: &SessionRecord, details: SessionDetails) -> Self {
        let person = &details.person;
        let identity = Identity {
            issuer: person.issuer.as_deref().map(Into::into),
            tenant: person.tenant.as_deref().map(Into::into),
            groups: person.groups.iter().map(|group| group.as_str().into()).collect(),
            client: Some(details.client.as_str().into()),
            session: Some(record.id.as_str().into()),
            actors: actors(details.actor.as_ref()),
            ..Identity::by(Proof::AccessToken)
        };
        let (id, expires_at) = (record.id.clone(), record.expires_at);
        Self { id, identity: Arc::new(identity), details, expires_at, ended: AtomicBool::new(false) }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The claims of an access token (RFC 9068, section 2.2).
    pub(crate) fn claims(&self, origin: &str, now: Timestamp) -> Map<String, Value> {
        let seconds = now.0 / 1_000;
        let mut claims = json!({
            "iss": origin,
            "sub": self.details.person.principal,
            "aud": self.details.resource,
            "client_id": self.details.client,
            "sid": self.id,
            "jti": toolcrib_base::random::hex_128(),
            "iat": seconds,
            "exp": self.token_end(now).0 / 1_000,
        });
        if !self.details.scopes.is_empty() {
            claims["scope"] = self.details.scopes.join(" ").into();
        }
        if let Some(actor) = &self.details.actor {
            claims["act"] = actor.clone();
        }
        if let Some(run) = &self.details.run {
            claims["run"] = run.as_str().into();
        }
        match claims {
            Value::Object(claims) => claims,
            _ => Map::new(),
        }
    }

    /// When a token ends that is made now.
    pub(crate) fn token_end(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_add(ACCESS_LIFE).min(self.expires_at.0))
    }
}

// === impl LiveSessions ===

impl LiveSessions {
    pub(crate) fn put(&self, session: Arc<LiveSession>) {
        let mut sessions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = sessions.insert(session.id.clone(), session) {
            before.ended.store(true, Ordering::Release);
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<LiveSession>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Whether tokens of a session count as far as those go in which it was given: its parent, and so on.
    pub(crate) fn has_parent(&self, session: &LiveSession, now: Timestamp) -> bool {
        let mut next = session.details.parent.clone();
        for _ in 0..GENERATIONS {
            let Some(parent) = next else { return true };
            let Some(parent) = self.get(&parent).filter(|it| !it.has_ended() && it.expires_at > now) else {
                return false;
            };
            next = parent.details.parent.clone();
        }
        next.is_none()
    }

    /// Ends one, whose tokens count no longer.
    pub(crate) fn end(&self, id: &str) {
        if let Some(session) = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id) {
            session.ended.store(true, Ordering::Release);
        }
    }

    /// Lets go of those that have ended by themselves.
    pub(crate) fn forget_expired(&self, now: Timestamp) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|_, session| session.expires_at > now);
    }
}
