//! The signed tokens that principals proved themselves with, for servers that want them forwarded or exchanged. They are
//! kept in memory only, while a definition wants them, and until they end.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use toolcrib_base::{PrincipalId, Secret, Timestamp};

use crate::claims::{Claims, SKEW};
use crate::known::{self, TokenHash};

/// How many tokens of a principal are kept: its clients may have one each, for different audiences.
const TOKENS_EACH: usize = 4;
/// The most principals whose tokens are kept.
const PRINCIPALS: usize = 10_000;
/// The longest token that is kept, in bytes: servers take no longer headers.
const TOKEN_BYTES: usize = 8 * 1024;

/// A token that a principal proved itself with.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken {
    /// The token, byte for byte.
    pub token: Secret,
    /// What it says to servers.
    pub kind: BearerKind,
    /// The issuer's identifier, as in `iss`.
    pub issuer: Box<str>,
    /// For whom it is.
    pub audiences: Vec<Box<str>>,
    /// When it ends.
    pub expires: Timestamp,
    issued: Timestamp,
    hash: TokenHash,
}

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearerKind {
    /// It opens a resource.
    Access,
    /// It says who signed in (OpenID Connect Core, section 2).
    Id,
}

/// A token that was proven a moment ago.
#[derive(Clone, Copy)]
pub(crate) struct ProvenToken<'a> {
    pub(crate) token: &'a str,
    pub(crate) hash: &'a TokenHash,
    pub(crate) claims: &'a Claims,
    pub(crate) kind: BearerKind,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bearers {
    is_wanted: AtomicBool,
    tokens: RwLock<HashMap<PrincipalId, Vec<Arc<BearerToken>>>>,
}

// === impl Bearers ===

impl Bearers {
    /// Whether tokens are kept from now on; otherwise those that are there are dropped.
    pub(crate) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Release);
        if !is_wanted {
            self.write().clear();
        }
    }

    /// Keeps a token that was proven. One that is bound to a key is of no use to anyone else, and an opaque one says
    /// nothing to a server of another issuer.
    pub(crate) fn keep(&self, proven: ProvenToken<'_>, now: Timestamp) {
        let ProvenToken { token, hash, claims, kind } = proven;
        if !self.is_wanted.load(Ordering::Acquire) || token.len() > TOKEN_BYTES || claims.bound_to.is_some() {
            return;
        }
        let Some(new) = BearerToken::of(token, hash, claims, kind) else { return };
        let (id, expires) = (&claims.known.id, new.expires);
        let is_needless = |own: &[Arc<BearerToken>]| {
            own.iter().any(|kept| kept.hash == *hash)
                || own.len() >= TOKENS_EACH && own.iter().all(|kept| kept.rank() >= (claims.issued, expires))
        };
        if self.read().get(id).is_some_and(|own| is_needless(own)) {
            return;
        }
        let mut tokens = self.write();
        if tokens.len() >= PRINCIPALS && !tokens.contains_key(id) {
            tokens.retain(|_, own| own.iter().any(|kept| kept.expires > now));
        }
        if tokens.len() >= PRINCIPALS && !tokens.contains_key(id) {
            return;
        }
        let own = tokens.entry(id.clone()).or_default();
        own.retain(|kept| kept.expires > now && kept.hash != *hash);
        // Who has renewed its token means the newer one, also where the older one lasts longer; of those that were issued at
        // one time the one that came last, as sorting keeps their order.
        own.insert(0, Arc::new(new));
        own.sort_by_key(|kept| std::cmp::Reverse(kept.rank()));
        own.truncate(TOKENS_EACH);
    }

    /// Drops a token that proves nothing any more.
    pub(crate) fn forget(&self, hash: &TokenHash) {
        if !self.is_wanted.load(Ordering::Acquire) {
            return;
        }
        self.write().retain(|_, own| {
            own.retain(|kept| kept.hash != *hash);
            !own.is_empty()
        });
    }

    /// The tokens of a principal, the newest first. Those that ended are dropped.
    pub(crate) fn of(&self, principal: &str, now: Timestamp) -> Vec<Arc<BearerToken>> {
        let id = PrincipalId::new(principal);
        let own = self.read().get(&id).cloned().unwrap_or_default();
        if own.iter().all(|kept| kept.expires > now) {
            return own;
        }
        let mut tokens = self.write();
        let Some(own) = tokens.get_mut(&id) else { return Vec::new() };
        own.retain(|kept| kept.expires > now);
        let left = own.clone();
        if left.is_empty() {
            tokens.remove(&id);
        }
        left
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<PrincipalId, Vec<Arc<BearerToken>>>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<PrincipalId, Vec<Arc<BearerToken>>>> {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BearerToken {
    /// A token that its maker has proven by itself.
    pub fn new(token: Secret, kind: BearerKind, issuer: &str, expires: Timestamp) -> Self {
        let hash = known::hash(token.expose());
        let (issuer, audiences) = (issuer.into(), Vec::new());
        Self { token, kind, issuer, audiences, expires, issued: Timestamp(0), hash }
    }

    /// What a proven token is to servers; `None` for an opaque one, which says nothing to them.
    pub(crate) fn of(token: &str, hash: &TokenHash, claims: &Claims, kind: BearerKind) -> Option<Self> {
        let expires = Timestamp(claims.known.expires.0.saturating_sub(SKEW));
        let (token, issuer, audiences) = (Secret::new(token), claims.signed_by.clone()?, claims.audiences.clone());
        Some(Self { token, kind, issuer, audiences, expires, issued: claims.issued, hash: *hash })
    }

    /// The newest is the first, of those the one that lasts longest.
    fn rank(&self) -> (Timestamp, Timestamp) {
        (self.issued, self.expires)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken")
            .field("issuer", &self.issuer)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
