//! Results that were cut on their way to a client: the whole is kept for a while, as a resource that only its caller can
//! read. In memory alone, so nothing of it outlives the process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_base::{PrincipalId, ProfileName, random};
use toolcrib_session::Caller;

/// What the URIs of such resources begin with.
pub(crate) const BEGINS: &str = "toolcrib://results/";
/// How long a result is kept. Its client reads it at once, or never.
pub(crate) const KEPT: Duration = Duration::from_secs(10 * 60);
/// How much is kept in all, and of one principal: two results of the size that a message may have.
const ALL_BYTES: usize = 256 << 20;
const OWN_BYTES: usize = 64 << 20;
/// How many are kept in all, so that small ones are bounded, too.
const ALL: usize = 4_096;

/// The results that are kept.
#[derive(Debug, Default)]
pub(crate) struct LargeResults(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<String, KeptResult>,
    /// Their ids, the oldest first.
    order: VecDeque<String>,
    bytes: usize,
    own_bytes: HashMap<PrincipalId, usize>,
}

#[derive(Debug)]
struct KeptResult {
    principal: PrincipalId,
    profile: ProfileName,
    text: Arc<str>,
    media_type: &'static str,
    until: Instant,
}

// === impl LargeResults ===

impl LargeResults {
    /// Keeps the whole of a result for a caller, and gives its URI; `None` where it is larger than one may keep.
    pub(crate) fn keep(&self, caller: &Caller, text: String, media_type: &'static str) -> Option<String> {
        if text.len() > OWN_BYTES {
            return None;
        }
        let (principal, profile) = (caller.principal.id.clone(), caller.profile.clone());
        let (id, now) = (random::hex_128(), Instant::now());
        let kept = KeptResult { principal, profile, text: text.into(), media_type, until: now + KEPT };
        let mut table = self.lock();
        table.forget_old(now);
        table.make_room(&kept);
        table.bytes += kept.text.len();
        *table.own_bytes.entry(kept.principal.clone()).or_default() += kept.text.len();
        table.order.push_back(id.clone());
        table.by_id.insert(id.clone(), kept);
        Some(format!("{BEGINS}{id}"))
    }

    /// What a URI stands for to this caller.
    pub(crate) fn find(&self, caller: &Caller, uri: &str) -> Option<(Arc<str>, &'static str)> {
        let id = uri.strip_prefix(BEGINS)?;
        let mut table = self.lock();
        table.forget_old(Instant::now());
        let kept = table.by_id.get(id)?;
        let is_own = kept.principal == caller.principal.id && kept.profile == caller.profile;
        is_own.then(|| (Arc::clone(&kept.text), kept.media_type))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // What is counted is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn forget_old(&mut self, now: Instant) {
        while let Some(id) = self.order.front() {
            if self.by_id.get(id).is_some_and(|kept| kept.until > now) {
                return;
            }
            let id = id.clone();
            self.forget(&id);
        }
    }

    /// A principal makes room of its own; where all together have too much, the one with most does.
    fn make_room(&mut self, coming: &KeptResult) {
        let bytes = coming.text.len();
        while self.own_bytes.get(&coming.principal).is_some_and(|own| own + bytes > OWN_BYTES) {
            self.forget_oldest_of(&coming.principal.clone());
        }
        while self.bytes + bytes > ALL_BYTES || self.order.len() >= ALL {
            let most = self.own_bytes.iter().max_by_key(|(_, bytes)| **bytes).map(|(principal, _)| principal.clone());
            let Some(most) = most else { return };
            self.forget_oldest_of(&most);
        }
    }

    fn forget_oldest_of(&mut self, principal: &PrincipalId) {
        let is_of = |id: &&String| self.by_id.get(*id).is_some_and(|kept| kept.principal == *principal);
        match self.order.iter().find(is_of).cloned() {
            Some(id) => self.forget(&id),
            None => drop(self.own_bytes.remove(principal)),
        }
    }

    fn forget(&mut self, id: &str) {
        self.order.retain(|other| other != id);
        let Some(kept) = self.by_id.remove(id) else { return };
        self.bytes -= kept.text.len();
        if let Some(own) = self.own_bytes.get_mut(&kept.principal) {
            *own -= kept.text.len();
            if *own == 0 {
                self.own_bytes.remove(&kept.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::tests::caller;

    fn kept(results: &LargeResults, who: &Caller, bytes: usize) -> Option<String> {
        results.keep(who, "x".repeat(bytes), "text/plain")
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_its_caller_s_alone_and_for_a_while() {
        let results = LargeResults::default();
        let ann = caller("ann", "work");
        let uri = kept(&results, &ann, 10).unwrap();
        assert_eq!(results.find(&ann, &uri).unwrap().0.len(), 10);
        for other in [caller("bob", "work"), caller("ann", "home")] {
            assert!(results.find(&other, &uri).is_none());
        }
        assert!(results.find(&ann, BEGINS).is_none() && results.find(&ann, "x").is_none());
        tokio::time::advance(KEPT).await;
        assert!(results.find(&ann, &uri).is_none());
        let table = results.lock();
        assert_eq!((table.bytes, table.own_bytes.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_keeps_is_bounded_and_takes_nothing_from_those_who_keep_less() {
        let results = LargeResults::default();
        assert!(kept(&results, &caller("ann", "work"), OWN_BYTES + 1).is_none());
        let few = kept(&results, &caller("few", "work"), 1_000).unwrap();
        for name in ["a", "b", "c", "d", "e"] {
            for _ in 0..6 {
                kept(&results, &caller(name, "work"), OWN_BYTES / 4).unwrap();
            }
            assert!(results.lock().own_bytes[&PrincipalId::new(name)] <= OWN_BYTES);
        }
        assert!(results.lock().bytes <= ALL_BYTES);
        assert!(results.find(&caller("few", "work"), &few).is_some());
        for _ in 0..ALL + 10 {
            kept(&results, &caller("small", "work"), 1).unwrap();
        }
        let table = results.lock();
        assert!(table.order.len() <= ALL);
        assert_eq!(table.order.len(), table.by_id.len());
    }
}
