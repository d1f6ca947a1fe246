//! The snapshot that one request is decided by: a profile's view, its rules and its keys, taken once and of one build.
//!
//! The code that proves the caller takes the snapshot, and everything that is decided for the request is decided by that
//! one: a reload in between changes nothing of it. A request that has waited may take a newer one by
//! [`ProfileSnapshot::renewed`] only, which asks again whether the caller may still enter.

use std::sync::Arc;

use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Proof};
use toolcrib_catalog::{GatewayKey, ProfileDefinition};
use toolcrib_policy::Rules;
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_view::View;

use crate::build::Build;

/// The view, the rules and the keys of one profile, as they were together. Clones share them.
#[derive(Debug, Clone)]
pub struct ProfileSnapshot {
    /// What the view is of, also that of any other principal.
    build: Arc<Build>,
    /// One value that is built at once, so that no part of it can be of another build.
    view: Arc<View>,
}

// === impl ProfileSnapshot ===

impl ProfileSnapshot {
    /// The snapshot of a view that has just been looked up.
    pub(crate) fn new(build: Arc<Build>, view: Arc<View>) -> Self {
        Self { build, view }
    }

    /// The same for a principal, with what only this one sees: of the same build, whatever was built meanwhile.
    #[must_use]
    pub fn seen_by(&self, principal: &Principal, door: Door) -> Self {
        let view = self.build.seen_by(&self.profile().name, principal, door);
        Self { build: Arc::clone(&self.build), view: view.unwrap_or_else(|| Arc::clone(&self.view)) }
    }

    /// The same with what the principal sees by now, although that may not be announced yet.
    #[must_use]
    pub(crate) fn seen_now_by(&self, principal: &Principal, door: Door) -> Self {
        let view = self.build.seen_now_by(&self.profile().name, principal, door);
        Self { build: Arc::clone(&self.build), view: view.unwrap_or_else(|| Arc::clone(&self.view)) }
    }

    /// What the profile shows.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// What may be called.
    pub fn rules(&self) -> &Rules {
        &self.view.rules
    }

    /// The profile.
    pub fn profile(&self) -> &ProfileDefinition {
        &self.view.profile
    }

    /// The keys that open the profile; `None` where it needs none.
    pub fn keys(&self) -> Option<&[GatewayKey]> {
        self.view.profile.keys.as_deref()
    }

    /// A newer snapshot of the same profile, for a request of `principal` that was admitted by this one.
    ///
    /// # Errors
    /// The key with which the principal came is revoked, or the profile needs one by now.
    pub fn renewed(&self, newer: &Self, principal: &Principal, door: Door) -> Result<Self, Problem> {
        let newer = newer.seen_by(principal, door);
        let is_same = Arc::ptr_eq(&self.view, &newer.view) || self.keys() == newer.keys();
        if is_same
            || matches!(principal.identity.proof, Proof::GatewayToken | Proof::AccessToken)
            || !is_shut_out(&self.profile().name, &principal.id, self.keys(), newer.keys())
        {
            return Ok(newer);
        }
        let message = format!("the access to profile `{}` has ended: its keys were changed", self.profile().name);
        Err(Problem::new(Kind::Unauthenticated, message).hint("Connect again with a key of the profile."))
    }
}

/// Whether a principal that was admitted to a profile with the keys `before` would not be admitted with those of `after`.
/// Of two keys with one name either may be revoked: who came with the other is sent away too, and comes back.
pub fn is_shut_out(
    profile: &ProfileName,
    principal: &PrincipalId,
    before: Option<&[GatewayKey]>,
    after: Option<&[GatewayKey]>,
) -> bool {
    // Neither tokens of issuers nor certificates are opened or shut by keys.
    if ["user:", "service:", "cert:"].iter().any(|proven| principal.as_str().starts_with(proven)) {
        return false;
    }
    let of_key = |keys: Option<&[GatewayKey]>| -> Vec<GatewayKey> {
        let keys = keys.unwrap_or_default().iter();
        keys.filter(|key| key_principal(profile, key.name.as_str()) == *principal).cloned().collect()
    };
    let (had, has) = (of_key(before), of_key(after));
    match after {
        None => !had.is_empty(),
        Some(_) => {
            has.is_empty()
                || had.iter().any(|key| !has.iter().any(|kept| kept.hash == key.hash && kept.role == key.role))
        }
    }
}

/// Who comes with a key: two profiles may have keys of one name, which are not the same principal. Neither name has a `/`.
pub fn key_principal(profile: &ProfileName, key: &str) -> PrincipalId {
    PrincipalId::new(&format!("key:{profile}/{key}"))
}
