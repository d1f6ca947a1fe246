//! The table of parked calls, with its limits: those that run, and a few that have ended and are kept for a client that
//! lost the answer.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use toolcrib_base::PrincipalId;

use super::{ParkedCall, ParkedCallId, lock};

/// How many calls there may be. Those that run have a place at their server, or wait for one.
const MOST: usize = 8_192;
/// How many of one principal.
const OF_ONE: usize = 4_096;
/// How many that have ended are kept; each may hold a result of [`super::SMALL`] bytes for [`super::RETURN`].
const KEPT: usize = 256;
/// How many of one principal.
const KEPT_OF_ONE: usize = 64;

/// The calls by principal and name.
#[derive(Debug, Default)]
pub(super) struct Table {
    principals: HashMap<PrincipalId, HashMap<ParkedCallId, Arc<ParkedCall>>>,
    count: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, principal: &PrincipalId, call: &ParkedCallId) -> Option<Arc<ParkedCall>> {
        self.principals.get(principal)?.get(call).cloned()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<ParkedCall>> {
        self.principals.values().flat_map(HashMap::values).cloned().collect()
    }

    /// Puts one in; `false` when there are too many.
    pub(super) fn insert(&mut self, principal: &PrincipalId, call: ParkedCallId, parked: Arc<ParkedCall>) -> bool {
        let of_one = self.principals.get(principal).map_or(0, HashMap::len);
        if self.count >= MOST || of_one >= OF_ONE {
            return false;
        }
        self.count += 1;
        self.principals.entry(principal.clone()).or_default().insert(call, parked);
        true
    }

    pub(super) fn remove(&mut self, principal: &PrincipalId, call: &ParkedCallId) {
        let Some(calls) = self.principals.get_mut(principal) else { return };
        self.count -= usize::from(calls.remove(call).is_some());
        if calls.is_empty() {
            self.principals.remove(principal);
        }
    }

    /// One of this principal has ended and is kept: the one that was kept longest goes, where there are too many.
    pub(super) fn make_room_to_keep(&mut self, principal: &PrincipalId) {
        let kept = |calls: &HashMap<ParkedCallId, Arc<ParkedCall>>| -> Vec<(Instant, ParkedCallId)> {
            calls.iter().filter_map(|(call, it)| Some((lock(&it.state).kept_since?, call.clone()))).collect()
        };
        let of_one = self.principals.get(principal).map(kept).unwrap_or_default();
        if of_one.len() > KEPT_OF_ONE
            && let Some((_, call)) = of_one.into_iter().min()
        {
            return self.remove(principal, &call);
        }
        let all = self.principals.iter().flat_map(|(who, calls)| kept(calls).into_iter().map(|it| (it, who.clone())));
        let all: Vec<_> = all.collect();
        if all.len() > KEPT
            && let Some(((_, call), who)) = all.into_iter().min()
        {
            self.remove(&who, &call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> PrincipalId {
        PrincipalId::new(name)
    }

    fn id(number: usize) -> ParkedCallId {
        ParkedCallId(number.to_string())
    }

    fn call(table: &mut Table, principal: &str, name: usize, is_kept: bool) -> bool {
        let parked = ParkedCall::begin();
        lock(&parked.state).kept_since = is_kept.then(Instant::now);
        let is_in = table.insert(&who(principal), id(name), parked);
        if is_kept {
            table.make_room_to_keep(&who(principal));
        }
        is_in
    }

    #[test]
    fn four_thousand_calls_of_one_principal_may_run_and_others_still_find_room() {
        let mut table = Table::default();
        assert!((0..OF_ONE).all(|name| call(&mut table, "a", name, false)));
        assert!(!call(&mut table, "a", OF_ONE, false));
        assert!((0..OF_ONE).all(|name| call(&mut table, "b", name, false)));
        assert!(!call(&mut table, "c", 0, false));
        table.remove(&who("a"), &id(7));
        table.remove(&who("a"), &id(7));
        assert!(
            call(&mut table, "c", 0, false)
                && table.get(&who("c"), &id(0)).is_some()
                && table.get(&who("a"), &id(0)).is_some()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn of_those_that_have_ended_few_are_kept_and_the_oldest_go() {
        let mut table = Table::default();
        call(&mut table, "a", 9_999, false);
        for name in 0..=KEPT_OF_ONE {
            call(&mut table, "a", name, true);
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(table.len(), KEPT_OF_ONE + 1);
        assert!(
            table.get(&who("a"), &id(0)).is_none()
                && table.get(&who("a"), &id(1)).is_some()
                && table.get(&who("a"), &id(9999)).is_some()
        );
        for principal in ["b", "c", "d", "e"] {
            for name in 0..KEPT_OF_ONE {
                call(&mut table, principal, name, true);
            }
        }
        assert_eq!(table.len(), KEPT + 1);
        assert!(table.get(&who("a"), &id(9999)).is_some(), "one that runs is never forgotten");
    }
}
