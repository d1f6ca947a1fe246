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
            return session.loaded().clone();
        }
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.get(&key(caller)).map(|set| (**set).clone()).unwrap_or_default()
    }

    /// Adds all or none. `true` when the set has changed.
    pub(crate) fn load(&self, caller: &Caller, kind: ActiveSet, tools: &[ToolId]) -> Result<bool, NotLoaded> {
        self.change(caller, kind, |set| {
            let mut after = set.clone();
            after.extend(tools.iter().cloned());
            if after.len() > QUOTA {
                return Err(NotLoaded::Quota(QUOTA));
            }
            *set = after;
            Ok(())
        })
    }

    /// Takes tools out. `true` when the set has changed.
    pub(crate) fn unload(&self, caller: &Caller, kind: ActiveSet, tools: &[ToolId]) -> bool {
        let changed = self.change(caller, kind, |set| {
            for tool in tools {
                set.remove(tool);
            }
            Ok(())
        });
        changed.unwrap_or(false)
    }

    /// Changes a set in one step, so that two changes at the same time both count.
    fn change(
        &self,
        caller: &Caller,
        kind: ActiveSet,
        change: impl FnOnce(&mut BTreeSet<ToolId>) -> Result<(), NotLoaded>,
    ) -> Result<bool, NotLoaded> {
        if let Some(session) = in_session(caller, kind) {
            let mut loaded = session.loaded();
            let before = loaded.len();
            change(&mut loaded)?;
            return Ok(loaded.len() != before);
        }
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(caller);
        let mut set = sets.get(&key).map(|set| (**set).clone()).unwrap_or_default();
        let before = set.len();
        change(&mut set)?;
        let changed = set.len() != before;
        if set.is_empty() {
            sets.remove(&key);
        } else if sets.len() >= SETS && !sets.contains_key(&key) {
            return Err(NotLoaded::Sets);
        } else {
            sets.insert(key, Arc::new(set));
        }
        Ok(changed)
    }
}

fn in_session(caller: &Caller, kind: ActiveSet) -> Option<&Arc<crate::session::Session>> {
    caller.session.as_ref().filter(|_| kind == ActiveSet::Session)
}

fn key(caller: &Caller) -> Key {
    (caller.principal.id.clone(), caller.profile.clone())
}
