//! The table of one server: what each principal subscribes to that has a credential of its own there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::subscribe::Subscriptions;

/// For how many principals a server is listened to at a time: each may take one of its connections.
const HEARERS: usize = 64;

/// What principals subscribe to.
#[derive(Debug, Default)]
pub(crate) struct OwnHearing {
    table: Mutex<HashMap<Arc<str>, Entry>>,
}

#[derive(Debug)]
struct Entry {
    subscriptions: Arc<Subscriptions>,
    /// Changes when the principal's credential does.
    renewed: watch::Sender<()>,
    /// Whether a task keeps the subscriptions.
    is_kept: bool,
}

/// What becomes of a subscription of a principal.
#[derive(Debug)]
pub(crate) enum HearingStart {
    /// A task keeps it already.
    Kept,
    /// A task is needed, which ends a connection when this changes.
    New(watch::Receiver<()>),
    /// There is no place for one more.
    Full,
}

// === impl OwnHearing ===

impl OwnHearing {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything is subscribed to by anyone.
    pub(crate) fn is_any(&self) -> bool {
        self.lock().values().any(|entry| entry.is_kept)
    }

    /// What a principal subscribes to. The same for as long as someone holds it.
    pub(crate) fn of(&self, principal: &str) -> Arc<Subscriptions> {
        let mut table = self.lock();
        if let Some(entry) = table.get(principal) {
            return Arc::clone(&entry.subscriptions);
        }
        table.retain(|_, entry| entry.is_kept || Arc::strong_count(&entry.subscriptions) > 1);
        let entry = Entry { subscriptions: Arc::default(), renewed: watch::Sender::new(()), is_kept: false };
        Arc::clone(&table.entry(principal.into()).or_insert(entry).subscriptions)
    }

    /// Has the subscriptions of a principal kept.
    pub(crate) fn begin(&self, principal: &str) -> HearingStart {
        let mut table = self.lock();
        let is_full = table.values().filter(|entry| entry.is_kept).count() >= HEARERS;
        match table.get_mut(principal) {
            Some(entry) if entry.is_kept => HearingStart::Kept,
            Some(entry) if !is_full => {
                entry.is_kept = true;
                HearingStart::New(entry.renewed.subscribe())
            }
            _ => HearingStart::Full,
        }
    }

    /// Ends that, unless something is subscribed to again.
    pub(crate) fn end(&self, principal: &str) -> bool {
        let mut table = self.lock();
        let Some(entry) = table.get_mut(principal) else { return true };
        entry.is_kept = !entry.subscriptions.is_empty();
        !entry.is_kept
    }

    /// The credential of a principal is another one now, or none.
    pub(crate) fn renew(&self, principal: &str) {
        if let Some(entry) = self.lock().get(principal) {
            entry.renewed.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscribe::Kind;

    #[test]
    fn subscriptions_are_each_principals_own_and_kept_for_so_many() {
        let hearing = OwnHearing::default();
        let all: Vec<_> = (0..=HEARERS)
            .map(|number| {
                let principal = format!("user:acme/{number}");
                let held = hearing.of(&principal).subscribe(Kind::Resource, "a:1");
                (hearing.begin(&principal), held, principal)
            })
            .collect();
        let (last, rest) = all.split_last().unwrap();
        assert!(rest.iter().all(|(start, _, _)| matches!(start, HearingStart::New(_))));
        assert!(matches!(last.0, HearingStart::Full));
        let first = &rest[0].2;
        assert!(matches!(hearing.begin(first), HearingStart::Kept));
        assert!(!Arc::ptr_eq(&hearing.of(first), &hearing.of(&rest[1].2)));
        assert!(Arc::ptr_eq(&hearing.of(first), &hearing.of(first)));
        assert!(!hearing.end(first), "it is subscribed to");
        assert!(hearing.is_any());
        drop(all);
        assert!((0..=HEARERS).all(|number| hearing.end(&format!("user:acme/{number}"))) && !hearing.is_any());
        hearing.of("user:acme/new");
        assert_eq!(hearing.lock().len(), 1, "what no one holds is forgotten");
    }
}
