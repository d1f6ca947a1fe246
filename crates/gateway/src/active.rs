//! Active sets: which tools a principal has loaded in a profile.
//!
//! Legacy clients keep a set per session, unless the profile says `durable`; everybody else one per principal and
//! profile.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_base::{PrincipalId, ProfileName, ToolId};
use toolcrib_catalog::ActiveSet;

use crate::caller::Caller;

/// How many tools one set may hold.
pub(crate) const QUOTA: usize = 200;
/// How many sets are kept; the sets of principals that have loaded nothing are not kept at all.
const SETS: usize = 10_000;

type Key = (PrincipalId, ProfileName);

/// The sets that do not belong to a session.
#[derive(Debug, Default)]
pub(crate) struct ActiveTools {
    sets: Mutex<HashMap<Key, Arc<BTreeSet<ToolId>>>>,
}

/// Why tools were not loaded; none was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotLoaded {
    /// The set would be larger than the quota.
    Quota(usize),
    /// Too many principals have sets.
    Sets,
}

impl ActiveTools {
    /// The set of a caller, in order.
    pub(crate) fn of(&self, caller: &Caller, kind: ActiveSet) -> BTreeSet<ToolId> {
        if let Some(session) = in_session(caller, kind) {
            return session.loaded().iter().cloned().collect();
        }
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.get(&key(caller)).map(|set| (**set).clone()).unwrap_or_default()
    }

    /// Adds all or none. `true` when the set has changed.
    pub(crate) fn load(&self, caller: &Caller, kind: ActiveSet, tools: &[ToolId]) -> Result<bool, NotLoaded> {
        let mut set = self.of(caller, kind);
        let before = set.len();
        set.extend(tools.iter().cloned());
        if set.len() > QUOTA {
            return Err(NotLoaded::Quota(QUOTA));
        }
        let changed = set.len() != before;
        self.put(caller, kind, set)?;
        Ok(changed)
    }

    /// Takes tools out. `true` when the set has changed.
    pub(crate) fn unload(&self, caller: &Caller, kind: ActiveSet, tools: &[ToolId]) -> bool {
        let mut set = self.of(caller, kind);
        let before = set.len();
        for tool in tools {
            set.remove(tool);
        }
        let changed = set.len() != before;
        // A smaller set always has its place.
        changed && self.put(caller, kind, set).is_ok()
    }

    fn put(&self, caller: &Caller, kind: ActiveSet, set: BTreeSet<ToolId>) -> Result<(), NotLoaded> {
        if let Some(session) = in_session(caller, kind) {
            *session.loaded() = set.into_iter().collect();
            return Ok(());
        }
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(caller);
        if set.is_empty() {
            sets.remove(&key);
            return Ok(());
        }
        if sets.len() >= SETS && !sets.contains_key(&key) {
            return Err(NotLoaded::Sets);
        }
        sets.insert(key, Arc::new(set));
        Ok(())
    }
}

fn in_session(caller: &Caller, kind: ActiveSet) -> Option<&Arc<crate::session::Session>> {
    caller.session.as_ref().filter(|_| kind == ActiveSet::Session)
}

fn key(caller: &Caller) -> Key {
    (caller.principal.id.clone(), caller.profile.clone())
}
