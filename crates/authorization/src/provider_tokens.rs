//! The tokens of the provider at which a person signed in: sealed with the session that came of it, renewed before they end,
//! gone with the session. Servers that people are signed on to get them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};
use toolcrib_auth::Sealer;
use toolcrib_base::{PrincipalId, Secret, Timestamp};
use toolcrib_identity::{BearerToken, KeepSignIns, SignInTokens};
use toolcrib_store::SessionRecord;

use crate::session::Person;

/// How long before its end a token is renewed, in milliseconds: an attempt that fails is made again in time.
const EARLY: i64 = 5 * 60_000;

/// The tokens that sessions hold.
#[derive(Debug)]
pub(crate) struct ProviderTokens {
    pub(crate) source: Arc<dyn KeepSignIns>,
    sealer: Sealer,
    /// Whether a server wants them: otherwise none are kept.
    are_wanted: AtomicBool,
    held: RwLock<HashMap<PrincipalId, BTreeMap<String, HeldTokens>>>,
}

#[derive(Debug, Clone)]
struct HeldTokens {
    tokens: SignInTokens,
    /// What servers are shown; `None` while there is nothing that counts.
    bearer: Option<Arc<BearerToken>>,
}

// === impl ProviderTokens ===

impl ProviderTokens {
    pub(crate) fn new(source: Arc<dyn KeepSignIns>, sealer: Sealer) -> Self {
        Self { source, sealer, are_wanted: AtomicBool::new(false), held: RwLock::default() }
    }

    pub(crate) fn want(&self, are_wanted: bool) {
        self.are_wanted.store(are_wanted, Ordering::Release);
    }

    /// What servers are shown of a principal, with the session that it came of.
    pub(crate) fn of(&self, principal: &str) -> Vec<(String, Arc<BearerToken>)> {
        if !self.are_wanted.load(Ordering::Acquire) {
            return Vec::new();
        }
        let held = self.read();
        let sessions = held.get(&PrincipalId::new(principal)).into_iter().flatten();
        sessions.filter_map(|(session, held)| Some((session.clone(), held.bearer.clone()?))).collect()
    }

    /// What a person signed in with a moment ago, sealed for the session that begins.
    pub(crate) fn taken(&self, session: &str, person: &Person) -> Option<Vec<u8>> {
        if person.issuer.is_none() || !self.are_wanted.load(Ordering::Acquire) {
            return None;
        }
        let tokens = self.source.taken(&PrincipalId::new(&person.principal))?;
        Some(self.seal(session, &tokens))
    }

    /// Takes in what a session has in its row.
    pub(crate) fn take_in(&self, record: &SessionRecord) {
        if let Some(tokens) = self.open(record) {
            self.hold(&record.principal, &record.id, tokens);
        }
    }

    /// Lets go of what a session had.
    pub(crate) fn forget(&self, principal: &str, session: &str) {
        let (mut held, principal) = (self.write(), PrincipalId::new(principal));
        if let Some(of_principal) = held.get_mut(&principal) {
            of_principal.remove(session);
            if of_principal.is_empty() {
                held.remove(&principal);
            }
        }
    }

    pub(crate) fn hold(&self, principal: &PrincipalId, session: &str, tokens: SignInTokens) {
        let bearer = self.source.bearer(&tokens).map(Arc::new);
        let mut held = self.write();
        held.entry(principal.clone()).or_default().insert(session.to_owned(), HeldTokens { tokens, bearer });
    }

    pub(crate) fn seal(&self, session: &str, tokens: &SignInTokens) -> Vec<u8> {
        let plain = json!({
            "issuer": tokens.issuer, "id_token": tokens.id_token.expose(),
            "refresh": tokens.refresh.as_ref().map(Secret::expose),
        });
        self.sealer.seal(plain.to_string().as_bytes(), &row(session))
    }

    fn open(&self, record: &SessionRecord) -> Option<SignInTokens> {
        let opened = self.sealer.open(record.sealed.as_ref()?, &row(&record.id));
        let opened = opened.map_err(|error| {
            tracing::warn!(session = record.id, "the tokens of a session cannot be opened: {error}");
        });
        let plain: Value = serde_json::from_slice(&opened.ok()?).ok()?;
        let text = |name: &str| plain.get(name).and_then(Value::as_str);
        let (issuer, id_token) = (text("issuer")?.into(), Secret::new(text("id_token")?));
        Some(SignInTokens { issuer, id_token, refresh: text("refresh").map(Secret::new) })
    }

    /// Those that end soon, or have ended, and can be renewed.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(PrincipalId, String, SignInTokens)> {
        let is_due = |held: &HeldTokens| {
            let ends = held.bearer.as_ref().map_or(i64::MIN, |bearer| bearer.expires.0);
            held.tokens.refresh.is_some() && ends <= now.0.saturating_add(EARLY)
        };
        let held = self.read();
        let all = held.iter().flat_map(|(principal, sessions)| sessions.iter().map(move |it| (principal, it)));
        let due = all.filter(|(_, (_, held))| is_due(held));
        due.map(|(principal, (session, held))| (principal.clone(), session.clone(), held.tokens.clone())).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<PrincipalId, BTreeMap<String, HeldTokens>>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<PrincipalId, BTreeMap<String, HeldTokens>>> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row(session: &str) -> [&str; 3] {
    ["authorization_session", session, "provider"]
}
