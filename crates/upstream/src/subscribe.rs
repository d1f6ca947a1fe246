//! What callers want to hear of a server: counted by resource and by task, and kept while connections come and go. What
//! is asked of the server on one connection is the keeper's business.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use toolcrib_protocol::subscription::{self, New, News};
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
    /// It tells.
    Accepted,
    /// It does not, with its error where it gave one.
    Refused(Option<RpcError>),
}

/// Something that someone wants to hear of.
#[derive(Debug)]
struct WatchedItem {
    /// Tells one wish from a later one for the same.
    number: u64,
    holders: usize,
    verdict: watch::Sender<Verdict>,
    /// Whether the server told once and was lost: what happened in the meantime is unknown.
    lapsed: bool,
}

#[derive(Debug, Default)]
struct State {
    resources: BTreeMap<Arc<str>, WatchedItem>,
    tasks: BTreeMap<Arc<str>, WatchedItem>,
    next: u64,
    news: News,
}

impl State {
    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Arc<str>, WatchedItem> {
        match kind {
            Kind::Resource => &mut self.resources,
            Kind::Task => &mut self.tasks,
        }
    }
}

/// All that is wanted of one server, and the news that came of it.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    told: Notify,
    /// How often the server has told that a list of it changed.
    list_changes: AtomicU64,
}

/// A wish to hear of a resource or a task, for as long as it, or a clone of it, lives. What is heard comes as events.
#[derive(Clone)]
pub struct Subscription {
    held: Arc<Holder>,
}

struct Holder {
    wishes: Arc<Subscriptions>,
    kind: Kind,
    key: Arc<str>,
    number: u64,
    verdict: watch::Receiver<Verdict>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("to", &self.held.key).finish_non_exhaustive()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.wishes.release(self.kind, &self.key, self.number);
    }
}

// === impl Subscription ===

impl Subscription {
    /// Whether the server has taken it, as far as is known within the deadline. A server that is lost and found again
    /// is asked again by itself.
    pub async fn accepted(&self, deadline: Duration) -> bool {
        let mut verdict = self.held.verdict.clone();
        let known = tokio::time::timeout(deadline, verdict.wait_for(|verdict| *verdict != Verdict::Open)).await;
        matches!(known, Ok(Ok(verdict)) if *verdict == Verdict::Accepted)
    }

    /// The server's error, where it refused with one.
    pub fn refusal(&self) -> Option<RpcError> {
        match &*self.held.verdict.borrow() {
            Verdict::Refused(error) => error.clone(),
            Verdict::Open | Verdict::Accepted => None,
        }
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Notes that the server has told of a changed list.
    pub(crate) fn list_changed(&self) {
        self.list_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How often it has.
    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is wanted to be heard.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.resources.is_empty() && state.tasks.is_empty()
    }

    /// Adds a wish, or a holder to one. Beyond the bounds it is refused at once.
    pub(crate) fn hold(self: &Arc<Self>, kind: Kind, key: &str) -> Subscription {
        let mut state = self.lock();
        let held = |key, number, verdict| Subscription {
            held: Arc::new(Holder { wishes: Arc::clone(self), kind, key, number, verdict }),
        };
        if let Some((key, wish)) = state.of(kind).get_key_value(key) {
            let (key, number, verdict) = (Arc::clone(key), wish.number, wish.verdict.subscribe());
            state.of(kind).entry(Arc::clone(&key)).and_modify(|wish| wish.holders += 1);
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
        let Some(wish) = state.of(kind).get_mut(key).filter(|wish| wish.number == number) else { return };
        wish.holders -= 1;
        if wish.holders == 0 {
            state.of(kind).remove(key);
            drop(state);
            self.changed.send_replace(());
        }
    }

    /// Changes whenever something else is wanted.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until there may be news for [`Self::next`].
    pub(crate) async fn news(&self) {
        self.told.notified().await;
    }

    /// What is wanted now, with the numbers of the wishes.
    pub(crate) fn wanted(&self, kind: Kind) -> BTreeMap<Arc<str>, u64> {
        self.lock().of(kind).iter().map(|(key, wish)| (Arc::clone(key), wish.number)).collect()
    }

    /// Notes what the server makes of a wish. One that was lost in the meantime may have missed something.
    pub(crate) fn settle(&self, kind: Kind, key: &str, verdict: &Verdict) {
        let mut state = self.lock();
        let Some((key, wish)) = state.of(kind).get_key_value(key) else { return };
        let missed = (wish.lapsed && *verdict == Verdict::Accepted && kind == Kind::Resource).then(|| Arc::clone(key));
        wish.verdict.send_if_modified(|known| {
            let differs = known != verdict;
            known.clone_from(verdict);
            differs
        });
        let Some(uri) = missed else { return };
        state.of(kind).entry(Arc::clone(&uri)).and_modify(|wish| wish.lapsed = false);
        state.news.note(New::Updated { watched: Arc::clone(&uri), uri });
        drop(state);
        self.told.notify_one();
    }

    /// The connection is lost: nothing is known of the wishes until they are settled on the next one.
    pub(crate) fn lapse(&self) {
        let mut state = self.lock();
        let State { resources, tasks, .. } = &mut *state;
        for wish in resources.values_mut().chain(tasks.values_mut()) {
            wish.lapsed |= *wish.verdict.borrow() == Verdict::Accepted;
            wish.verdict.send_if_modified(|verdict| std::mem::replace(verdict, Verdict::Open) != Verdict::Open);
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
        state.news.note(New::Updated { uri, watched });
        drop(state);
        self.told.notify_one();
    }

    /// A task changed. Without effect unless it is watched.
    pub(crate) fn task(&self, params: Raw) {
        let Some(id) = params.text("taskId") else { return };
        let mut state = self.lock();
        let Some((id, _)) = state.tasks.get_key_value(&*id) else { return };
        let id = Arc::clone(id);
        state.news.note(New::Task { id, params });
        drop(state);
        self.told.notify_one();
    }

    /// The next piece of news.
    pub(crate) fn next(&self) -> Option<New> {
        self.lock().news.take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[tokio::test]
    async fn wishes_are_counted() {
        let wishes = Arc::new(Subscriptions::default());
        let (first, second) = (wishes.hold(Kind::Resource, "a:1"), wishes.hold(Kind::Resource, "a:1"));
        assert_eq!(wishes.wanted(Kind::Resource).len(), 1);
        assert!(!first.accepted(NOW).await);
        wishes.settle(Kind::Resource, "a:1", &Verdict::Accepted);
        assert!(first.accepted(NOW).await && second.accepted(NOW).await);
        drop(first);
        let third = second.clone();
        drop(second);
        assert_eq!(wishes.wanted(Kind::Resource).len(), 1);
        assert!(wishes.wanted(Kind::Task).is_empty());
        drop(third);
        assert!(wishes.wanted(Kind::Resource).is_empty());
        let again = wishes.hold(Kind::Resource, "a:1");
        assert!(!again.accepted(NOW).await, "what was known of an earlier wish is forgotten");
    }

    #[tokio::test]
    async fn wishes_are_bounded_and_what_is_refused_releases_nothing() {
        let wishes = Arc::new(Subscriptions::default());
        let held: Vec<_> = (0..WATCHED).map(|number| wishes.hold(Kind::Resource, &format!("a:{number}"))).collect();
        let beyond = wishes.hold(Kind::Resource, "a:beyond");
        assert!(!beyond.accepted(Duration::MAX).await);
        assert_eq!(wishes.wanted(Kind::Resource).len(), WATCHED);
        drop(held);
        let now = wishes.hold(Kind::Resource, "a:beyond");
        drop(beyond);
        assert_eq!(wishes.wanted(Kind::Resource).len(), 1);
        drop(now);
        for odd in [String::new(), "x".repeat(LENGTH + 1)] {
            assert!(!wishes.hold(Kind::Task, &odd).accepted(Duration::MAX).await);
        }
        assert!(wishes.wanted(Kind::Task).is_empty());
    }

    #[tokio::test]
    async fn only_what_is_watched_is_news() {
        let wishes = Arc::new(Subscriptions::default());
        let _held = (wishes.hold(Kind::Resource, "a:/"), wishes.hold(Kind::Task, "t"));
        wishes.updated("b:/");
        wishes.updated(&format!("a:/{}", "x".repeat(LENGTH)));
        wishes.task(Raw::from_value(&json!({"taskId": "u"})));
        wishes.task(Raw::from_value(&json!({"taskId": 7})));
        assert_eq!(wishes.next(), None);
        wishes.updated("a:/b");
        wishes.task(Raw::from_value(&json!({"taskId": "t"})));
        assert!(matches!(wishes.next(), Some(New::Updated { uri, watched }) if &*uri == "a:/b" && &*watched == "a:/"));
        assert!(matches!(wishes.next(), Some(New::Task { id, .. }) if &*id == "t"));
        assert_eq!(wishes.next(), None);
    }

    #[tokio::test]
    async fn what_was_missed_is_told_once_the_server_tells_again() {
        let wishes = Arc::new(Subscriptions::default());
        let held = [wishes.hold(Kind::Resource, "a:1"), wishes.hold(Kind::Resource, "a:2")];
        wishes.settle(Kind::Resource, "a:1", &Verdict::Accepted);
        wishes.settle(Kind::Resource, "a:2", &Verdict::Refused(None));
        wishes.lapse();
        assert!(!held[0].accepted(NOW).await);
        assert_eq!(wishes.next(), None);
        for _ in 0..2 {
            wishes.settle(Kind::Resource, "a:1", &Verdict::Accepted);
            wishes.settle(Kind::Resource, "a:2", &Verdict::Accepted);
        }
        assert!(held[0].accepted(NOW).await);
        assert!(matches!(wishes.next(), Some(New::Updated { uri, .. }) if &*uri == "a:1"));
        assert_eq!(wishes.next(), None);
    }
}
