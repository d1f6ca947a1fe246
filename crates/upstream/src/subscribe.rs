//! What callers subscribe to at a server: counted by resource and by task, and kept while connections come and go. The
//! keeper decides what the server is asked on one connection.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use toolcrib_protocol::subscription::{self, Change, ChangeQueue};
use toolcrib_protocol::{Raw, RpcError};

/// How many resources, and how many tasks, one server is asked to watch: what a filter may hold (see
/// [`toolcrib_protocol::subscription::Filter`]).
const WATCHED: usize = 1_000;
/// The longest URI or task id that is watched, in bytes.
const LENGTH: usize = 8 * 1024;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Resource,
    Task,
}

/// What the server makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not known yet, or no longer.
    Open,
    /// The server reports changes.
    Accepted,
    /// It does not, with its error where it gave one.
    Refused(Option<RpcError>),
}

/// A resource or a task that at least one caller watches.
#[derive(Debug)]
struct WatchedItem {
    /// Distinguishes this item from a later one with the same key.
    number: u64,
    holders: usize,
    verdict: watch::Sender<Verdict>,
    /// Whether an accepted subscription was lost with its connection: changes since then are unknown.
    lapsed: bool,
}

#[derive(Debug, Default)]
struct State {
    resources: BTreeMap<Arc<str>, WatchedItem>,
    tasks: BTreeMap<Arc<str>, WatchedItem>,
    next: u64,
    changes: ChangeQueue,
}

impl State {
    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Arc<str>, WatchedItem> {
        match kind {
            Kind::Resource => &mut self.resources,
            Kind::Task => &mut self.tasks,
        }
    }
}

/// What callers watch at one server, and the changes that it has reported.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    ready: Notify,
    /// How often the server has reported a changed list.
    list_changes: AtomicU64,
}

/// A subscription to a resource or a task; it ends with its last clone. Changes arrive as events.
#[derive(Clone)]
pub struct Subscription {
    holder: Arc<Holder>,
}

struct Holder {
    subscriptions: Arc<Subscriptions>,
    kind: Kind,
    key: Arc<str>,
    number: u64,
    verdict: watch::Receiver<Verdict>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("to", &self.holder.key).finish_non_exhaustive()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.subscriptions.release(self.kind, &self.key, self.number);
    }
}

// === impl Subscription ===

impl Subscription {
    /// Whether the server has taken it, as far as is known within the deadline. A server that is lost and found again
    /// is asked again by itself.
    pub async fn accepted(&self, deadline: Duration) -> bool {
        let mut verdict = self.holder.verdict.clone();
        let known = tokio::time::timeout(deadline, verdict.wait_for(|verdict| *verdict != Verdict::Open)).await;
        matches!(known, Ok(Ok(verdict)) if *verdict == Verdict::Accepted)
    }

    /// The server's error, where it refused with one.
    pub fn refusal(&self) -> Option<RpcError> {
        match &*self.holder.verdict.borrow() {
            Verdict::Refused(error) => error.clone(),
            Verdict::Open | Verdict::Accepted => None,
        }
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Counts a changed list that the server reports.
    pub(crate) fn list_changed(&self) {
        self.list_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How many changed lists the server has reported.
    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is watched.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.resources.is_empty() && state.tasks.is_empty()
    }

    /// Watches an item, or adds a holder to it. Beyond the bounds it is refused at once.
    pub(crate) fn subscribe(self: &Arc<Self>, kind: Kind, key: &str) -> Subscription {
        let mut state = self.lock();
        let held = |key, number, verdict| Subscription {
            holder: Arc::new(Holder { subscriptions: Arc::clone(self), kind, key, number, verdict }),
        };
        if let Some((key, item)) = state.of(kind).get_key_value(key) {
            let (key, number, verdict) = (Arc::clone(key), item.number, item.verdict.subscribe());
            state.of(kind).entry(Arc::clone(&key)).and_modify(|item| item.holders += 1);
            return held(key, number, verdict);
        }
        state.next += 1;
        let (number, key) = (state.next, Arc::<str>::from(key));
        if state.of(kind).len() >= WATCHED || key.is_empty() || key.len() > LENGTH {
            // No one knows this number, so nothing is released with it.
            return held(key, number, watch::channel(Verdict::Refused(None)).1);
        }
        let (sender, verdict) = watch::channel(Verdict::Open);
        state.of(kind).insert(Arc::clone(&key), WatchedItem { number, holders: 1, verdict: sender, lapsed: false });
        drop(state);
        self.changed.send_replace(());
        held(key, number, verdict)
    }

    fn release(&self, kind: Kind, key: &str, number: u64) {
        let mut state = self.lock();
        let Some(item) = state.of(kind).get_mut(key).filter(|item| item.number == number) else { return };
        item.holders -= 1;
        if item.holders == 0 {
            state.of(kind).remove(key);
            drop(state);
            self.changed.send_replace(());
        }
    }

    /// Signals each change of what is watched.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until there may be a change for [`Self::pop`].
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// What is watched now, by key, with the number of each item.
    pub(crate) fn wanted(&self, kind: Kind) -> BTreeMap<Arc<str>, u64> {
        self.lock().of(kind).iter().map(|(key, item)| (Arc::clone(key), item.number)).collect()
    }

    /// Records the server's verdict. An item that had lapsed may have missed a change, so it is reported as changed.
    pub(crate) fn settle(&self, kind: Kind, key: &str, verdict: &Verdict) {
        let mut state = self.lock();
        let Some((key, item)) = state.of(kind).get_key_value(key) else { return };
        let missed = (item.lapsed && *verdict == Verdict::Accepted && kind == Kind::Resource).then(|| Arc::clone(key));
        item.verdict.send_if_modified(|known| {
            let differs = known != verdict;
            known.clone_from(verdict);
            differs
        });
        let Some(uri) = missed else { return };
        state.of(kind).entry(Arc::clone(&uri)).and_modify(|item| item.lapsed = false);
        state.changes.push(Change::Updated { watched: Arc::clone(&uri), uri });
        drop(state);
        self.ready.notify_one();
    }

    /// The server takes none of all that is wanted.
    pub(crate) fn refuse_all(&self) {
        for kind in [Kind::Resource, Kind::Task] {
            self.wanted(kind).keys().for_each(|key| self.settle(kind, key, &Verdict::Refused(None)));
        }
    }

    /// The connection is lost: all verdicts are open until the next connection settles them.
    pub(crate) fn lapse(&self) {
        let mut state = self.lock();
        let State { resources, tasks, .. } = &mut *state;
        for item in resources.values_mut().chain(tasks.values_mut()) {
            item.lapsed |= *item.verdict.borrow() == Verdict::Accepted;
            item.verdict.send_if_modified(|verdict| std::mem::replace(verdict, Verdict::Open) != Verdict::Open);
        }
    }

    /// A resource changed. Without effect unless it, or what it is a part of, is watched.
    pub(crate) fn updated(&self, uri: &str) {
        if uri.len() > LENGTH {
            return;
        }
        let mut state = self.lock();
        let Some(watched) = subscription::above(&state.resources, uri).first().map(|(key, _)| Arc::clone(key)) else {
            return;
        };
        let uri = if *watched == *uri { Arc::clone(&watched) } else { uri.into() };
        state.changes.push(Change::Updated { uri, watched });
        drop(state);
        self.ready.notify_one();
    }

    /// A task changed. Without effect unless it is watched.
    pub(crate) fn task(&self, params: Raw) {
        let Some(id) = params.text("taskId") else { return };
        let mut state = self.lock();
        let Some((id, _)) = state.tasks.get_key_value(&*id) else { return };
        let id = Arc::clone(id);
        state.changes.push(Change::Task { id, params });
        drop(state);
        self.ready.notify_one();
    }

    /// The oldest change.
    pub(crate) fn pop(&self) -> Option<Change> {
        self.lock().changes.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[tokio::test]
    async fn watched_items_are_counted() {
        let subscriptions = Arc::new(Subscriptions::default());
        let (first, second) =
            (subscriptions.subscribe(Kind::Resource, "a:1"), subscriptions.subscribe(Kind::Resource, "a:1"));
        assert_eq!(subscriptions.wanted(Kind::Resource).len(), 1);
        assert!(!first.accepted(NOW).await);
        subscriptions.settle(Kind::Resource, "a:1", &Verdict::Accepted);
        assert!(first.accepted(NOW).await && second.accepted(NOW).await);
        drop(first);
        let third = second.clone();
        drop(second);
        assert_eq!(subscriptions.wanted(Kind::Resource).len(), 1);
        assert!(subscriptions.wanted(Kind::Task).is_empty());
        drop(third);
        assert!(subscriptions.wanted(Kind::Resource).is_empty());
        let again = subscriptions.subscribe(Kind::Resource, "a:1");
        assert!(!again.accepted(NOW).await, "what was known of an earlier item is forgotten");
    }

    #[tokio::test]
    async fn watched_items_are_bounded_and_a_refused_one_releases_nothing() {
        let subscriptions = Arc::new(Subscriptions::default());
        let held: Vec<_> =
            (0..WATCHED).map(|number| subscriptions.subscribe(Kind::Resource, &format!("a:{number}"))).collect();
        let beyond = subscriptions.subscribe(Kind::Resource, "a:beyond");
        assert!(!beyond.accepted(Duration::MAX).await);
        assert_eq!(subscriptions.wanted(Kind::Resource).len(), WATCHED);
        drop(held);
        let now = subscriptions.subscribe(Kind::Resource, "a:beyond");
        drop(beyond);
        assert_eq!(subscriptions.wanted(Kind::Resource).len(), 1);
        drop(now);
        for odd in [String::new(), "x".repeat(LENGTH + 1)] {
            assert!(!subscriptions.subscribe(Kind::Task, &odd).accepted(Duration::MAX).await);
        }
        assert!(subscriptions.wanted(Kind::Task).is_empty());
    }

    #[tokio::test]
    async fn only_what_is_watched_is_news() {
        let subscriptions = Arc::new(Subscriptions::default());
        let _held = (subscriptions.subscribe(Kind::Resource, "a:/"), subscriptions.subscribe(Kind::Task, "t"));
        subscriptions.updated("b:/");
        subscriptions.updated(&format!("a:/{}", "x".repeat(LENGTH)));
        subscriptions.task(Raw::from_value(&json!({"taskId": "u"})));
        subscriptions.task(Raw::from_value(&json!({"taskId": 7})));
        assert_eq!(subscriptions.pop(), None);
        subscriptions.updated("a:/b");
        subscriptions.task(Raw::from_value(&json!({"taskId": "t"})));
        assert!(
            matches!(subscriptions.pop(), Some(Change::Updated { uri, watched }) if &*uri == "a:/b" && &*watched == "a:/")
        );
        assert!(matches!(subscriptions.pop(), Some(Change::Task { id, .. }) if &*id == "t"));
        assert_eq!(subscriptions.pop(), None);
    }

    #[tokio::test]
    async fn what_was_missed_is_reported_once_the_server_tells_again() {
        let subscriptions = Arc::new(Subscriptions::default());
        let held = [subscriptions.subscribe(Kind::Resource, "a:1"), subscriptions.subscribe(Kind::Resource, "a:2")];
        subscriptions.settle(Kind::Resource, "a:1", &Verdict::Accepted);
        subscriptions.settle(Kind::Resource, "a:2", &Verdict::Refused(None));
        subscriptions.lapse();
        assert!(!held[0].accepted(NOW).await);
        assert_eq!(subscriptions.pop(), None);
        for _ in 0..2 {
            subscriptions.settle(Kind::Resource, "a:1", &Verdict::Accepted);
            subscriptions.settle(Kind::Resource, "a:2", &Verdict::Accepted);
        }
        assert!(held[0].accepted(NOW).await);
        assert!(matches!(subscriptions.pop(), Some(Change::Updated { uri, .. }) if &*uri == "a:1"));
        assert_eq!(subscriptions.pop(), None);
    }
}
