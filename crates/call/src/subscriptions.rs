//! The subscriptions of clients of both eras, and how changes of servers reach them.
//!
//! However many clients watch a resource, its server has one subscription; one more for each principal that must hear
//! with its own credential. Each listener has its own queue of changes,
//! merged while they wait, so a slow reader delays no other and misses only repetitions.

mod session;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, ServerName, SessionName};
use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::subscription::{self, Change, ChangeQueue, Filter};
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_upstream::{Server, Subscription};
use toolcrib_view::ServerTable;
use toolcrib_view::view::ResourcePlace;

use crate::build::Build;
use crate::client::name_at_servers;
use crate::views::ViewTable;

/// How many `subscriptions/listen` one principal may have open.
const PER_PRINCIPAL: usize = 64;
/// How many may be open in all.
const IN_ALL: usize = 10_000;
/// How long changes are gathered before they are sent: they come in bursts.
pub(crate) const GATHER: Duration = Duration::from_millis(100);
/// How long servers may take to take subscriptions before the client is answered without them.
pub(crate) const TAKEN: Duration = Duration::from_secs(5);

/// All listeners and what they watch.
#[derive(Debug, Default)]
pub struct Subscriptions {
    state: Mutex<State>,
    closing: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    listeners: HashMap<u64, Entry>,
    /// How many `subscriptions/listen` are open, in all and of each principal.
    listens: usize,
    listens_of: HashMap<PrincipalId, usize>,
    /// The listeners of sessions, by session.
    sessions: HashMap<SessionName, u64>,
    /// What is watched.
    resources: Table,
    tasks: Table,
}

/// What is watched, by where it is heard and as the server spells it.
type Table = HashMap<Ear, BTreeMap<Arc<str>, Watch>>;
/// What one listener watches, by its own names.
type Places = HashMap<Arc<str>, WatchPlace>;

/// What kind of thing is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Resource,
    Task,
}

/// Where changes of a server are heard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Ear {
    server: ServerName,
    /// On whose own connection; `None` is the main one.
    principal: Option<Arc<str>>,
}

/// Where something that is watched is.
#[derive(Debug)]
struct WatchPlace {
    ear: Ear,
    /// The URI or task id, as the server spells it.
    key: Arc<str>,
}

/// A listener, and the name under which it knows what it watches.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Watcher {
    listener: u64,
    exposed: Arc<str>,
}

#[derive(Debug)]
struct Entry {
    listener: Arc<Listener>,
    /// Whether it is a `subscriptions/listen`, and not a session.
    is_listen: bool,
    resources: Places,
    tasks: Places,
}

/// One resource or task of a server, and who learns of it.
#[derive(Debug)]
struct Watch {
    server: Server,
    subscription: Subscription,
    /// Whether the watcher's profile still shows it.
    heard_by: BTreeMap<Watcher, bool>,
}

/// A receiver of changes: one stream or one session.
#[derive(Debug)]
pub(crate) struct Listener {
    number: u64,
    profile: ProfileName,
    /// Who listens.
    principal: Principal,
    /// The lists whose changes it receives.
    lists: Filter,
    changes: Mutex<ChangeQueue>,
    wake: Notify,
    ended: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Listener ===

impl Listener {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The lists whose changes it receives.
    pub(crate) fn lists(&self) -> &Filter {
        &self.lists
    }

    /// Waits for a change, or for its end. Cancel-safe.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn push(&self, change: Change) {
        lock(&self.changes).push(change);
        self.wake.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<Change> {
        lock(&self.changes).pop()
    }

    pub(crate) fn waiting(&self) -> usize {
        lock(&self.changes).len()
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Whether the gateway ends.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Ends every `subscriptions/listen` with its result, and takes no further ones.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// A place for one more `subscriptions/listen`.
    pub(crate) fn enter(
        &self,
        principal: &Principal,
        profile: &ProfileName,
        lists: Filter,
    ) -> Result<Arc<Listener>, Problem> {
        let mut state = lock(&self.state);
        let own = state.listens_of.get(&principal.id).copied().unwrap_or(0);
        if own >= PER_PRINCIPAL || state.listens >= IN_ALL {
            let (most, whose) = if own >= PER_PRINCIPAL { (PER_PRINCIPAL, "of yours ") } else { (IN_ALL, "") };
            let message = format!("the limit of {most} subscriptions {whose}is reached");
            return Err(Problem::new(Kind::Busy, message).hint("Close others, or put more into one."));
        }
        state.listens += 1;
        *state.listens_of.entry(principal.id.clone()).or_default() += 1;
        Ok(state.add(profile, principal, lists, true))
    }

    pub(crate) fn leave(&self, number: u64) {
        // Dropped after the lock is released: it reaches into servers.
        let gone = lock(&self.state).remove(number);
        drop(gone);
    }

    /// Has a listener hear of a resource that its profile exposes as `uri`, where that leads to what was `permitted`.
    pub(crate) fn watch(
        &self,
        views: &ViewTable,
        number: u64,
        uri: &str,
        permitted: &ResourcePlace,
    ) -> Option<Subscription> {
        let mut state = lock(&self.state);
        let listener = Arc::clone(&state.listeners.get(&number)?.listener);
        // Looked at under the lock: a view that is built later is compared with what is watched (see `reconcile`).
        let place = views.seen_by(&listener.profile, &listener.principal, Door::MCP)?.resources.place(uri)?;
        if (&place.name, &place.uri) != (&permitted.name, &permitted.uri) {
            return None;
        }
        let watcher = Watcher { listener: number, exposed: uri.into() };
        state.watch(WatchKind::Resource, &place.server, place.uri.into(), watcher)
    }

    /// Has a listener hear of a task that it knows as `exposed`.
    pub(crate) fn watch_task(&self, number: u64, server: &Server, id: &str, exposed: &str) -> Option<Subscription> {
        let watcher = Watcher { listener: number, exposed: exposed.into() };
        let mut state = lock(&self.state);
        state.watch(WatchKind::Task, server, id.into(), watcher)
    }

    /// Has a listener hear no longer of what it knows by this name.
    pub(crate) fn unwatch(&self, what: WatchKind, number: u64, exposed: &str) {
        let gone = lock(&self.state).unwatch(what, number, exposed);
        drop(gone);
    }

    /// A server says that a resource changed: to a principal alone, or to everyone.
    pub fn updated(&self, server: &ServerName, principal: Option<&Arc<str>>, uri: &str) {
        let state = lock(&self.state);
        let ear = Ear { server: server.clone(), principal: principal.cloned() };
        let Some(of_server) = state.resources.get(&ear) else { return };
        for (root, watched) in subscription::above(of_server, uri) {
            let part = uri.get(root.len()..).unwrap_or_default();
            state.notify(watched, |exposed| {
                let watched = Arc::clone(exposed);
                let uri = if part.is_empty() { Arc::clone(exposed) } else { format!("{exposed}{part}").into() };
                Change::Updated { uri, watched }
            });
        }
    }

    /// The same of a task.
    pub fn task_changed(&self, server: &ServerName, principal: Option<&Arc<str>>, params: &Raw) {
        let Some(id) = params.text("taskId") else { return };
        let state = lock(&self.state);
        let ear = Ear { server: server.clone(), principal: principal.cloned() };
        let Some(watched) = state.tasks.get(&ear).and_then(|tasks| tasks.get(&*id)) else { return };
        state.notify(watched, |exposed| {
            let id = Raw::from_value(&&**exposed);
            Change::Task { id: Arc::clone(exposed), params: params.edit(&[("taskId", Edit::Set(id.as_str()))]) }
        });
    }

    /// Ends the listening of principals that may do so no longer in a profile.
    pub fn end_of(&self, profile: &ProfileName, lost: impl Fn(&Principal) -> bool) {
        for Entry { listener, is_listen, .. } in lock(&self.state).listeners.values() {
            if *is_listen && listener.profile == *profile && lost(&listener.principal) {
                listener.end();
            }
        }
    }

    /// Who listens in a profile.
    pub fn principals_of(&self, profile: &ProfileName) -> BTreeMap<PrincipalId, Principal> {
        let state = lock(&self.state);
        let listeners = state.listeners.values().map(|entry| &entry.listener);
        let of_profile = listeners.filter(|it| it.profile == *profile);
        of_profile.map(|it| (it.principal.id.clone(), it.principal.clone())).collect()
    }

    /// Lists of a profile have changed for a principal.
    pub fn lists_changed(&self, profile: &ProfileName, principal: &PrincipalId, changed: &[Change]) {
        let state = lock(&self.state);
        let listeners = state.listeners.values().map(|entry| &entry.listener);
        for listener in listeners.filter(|it| it.profile == *profile && it.principal.id == *principal) {
            for change in changed.iter().filter(|change| listener.lists.admits(&change.to_notification())) {
                listener.push(change.clone());
            }
        }
    }

    /// Compares what is watched with new views and servers: what a profile shows no longer is heard no longer, a server
    /// that was replaced is subscribed to again, and listeners of a profile that is gone have ended.
    pub fn reconcile(&self, build: &Build, table: &ServerTable) {
        let mut state = lock(&self.state);
        let State { listeners, resources, .. } = &mut *state;
        let mut gone = Vec::new();
        for entry in listeners.values().filter(|entry| !build.main().contains_key(&entry.listener.profile)) {
            entry.listener.end();
        }
        for (ear, of_server) in resources.iter_mut() {
            let server = table.get(&ear.server).map(|running| &running.server);
            for (uri, watched) in of_server {
                let replaced = server.filter(|server| !watched.server.is_same(server));
                if let Some(server) = replaced {
                    gone.push(watched.follow(server, server.subscribe(ear.principal.as_deref(), uri)));
                }
                for (Watcher { listener, exposed }, shown) in &mut watched.heard_by {
                    let Some(entry) = listeners.get(listener) else { continue };
                    let Listener { profile, principal, .. } = &*entry.listener;
                    let view = build.seen_by(profile, principal, Door::MCP);
                    let place = view.and_then(|view| view.resources.place(exposed));
                    let is_here =
                        |place: ResourcePlace| *place.uri == **uri && Ear::of(&place.server, &principal.id) == *ear;
                    let before = std::mem::replace(shown, place.is_some_and(is_here));
                    if *shown && (!before || replaced.is_some()) {
                        // What happened while no one heard of it is not known.
                        let (uri, watched) = (Arc::clone(exposed), Arc::clone(exposed));
                        entry.listener.push(Change::Updated { uri, watched });
                    }
                }
            }
        }
        drop(state);
        drop(gone);
    }
}

// === impl State ===

impl State {
    fn add(&mut self, profile: &ProfileName, principal: &Principal, lists: Filter, is_listen: bool) -> Arc<Listener> {
        self.next += 1;
        let listener = Arc::new(Listener {
            number: self.next,
            profile: profile.clone(),
            principal: principal.clone(),
            lists,
            changes: Mutex::default(),
            wake: Notify::new(),
            ended: AtomicBool::new(false),
        });
        let entry =
            Entry { listener: Arc::clone(&listener), is_listen, resources: Places::new(), tasks: Places::new() };
        self.listeners.insert(self.next, entry);
        listener
    }

    /// Forgets a listener. Gives what no one watches any more.
    fn remove(&mut self, number: u64) -> Vec<Watch> {
        let Some(entry) = self.listeners.remove(&number) else { return Vec::new() };
        entry.listener.end();
        if entry.is_listen {
            let principal = &entry.listener.principal;
            self.listens -= 1;
            if let Some(count) = self.listens_of.get_mut(&principal.id) {
                *count -= 1;
                if *count == 0 {
                    self.listens_of.remove(&principal.id);
                }
            }
        }
        let mut gone = Vec::new();
        for (table, places) in [(&mut self.resources, entry.resources), (&mut self.tasks, entry.tasks)] {
            let watched = places.into_iter().map(|(exposed, place)| (place, Watcher { listener: number, exposed }));
            gone.extend(watched.filter_map(|(place, watcher)| forget(table, &place, &watcher)));
        }
        gone
    }

    pub(crate) fn watch(
        &mut self,
        what: WatchKind,
        server: &Server,
        key: Arc<str>,
        watcher: Watcher,
    ) -> Option<Subscription> {
        // What it knew by this name before may have been another.
        let gone = self.unwatch(what, watcher.listener, &watcher.exposed);
        let entry = self.listeners.get_mut(&watcher.listener)?;
        let ear = Ear::of(server, &entry.listener.principal.id);
        let (table, places) = match what {
            WatchKind::Resource => (&mut self.resources, &mut entry.resources),
            WatchKind::Task => (&mut self.tasks, &mut entry.tasks),
        };
        let subscribe = || match what {
            WatchKind::Resource => server.subscribe(ear.principal.as_deref(), &key),
            WatchKind::Task => server.watch_task(ear.principal.as_deref(), &key),
        };
        let watched = table.entry(ear.clone()).or_default();
        let watched = watched.entry(Arc::clone(&key)).or_insert_with(|| Watch::new(server, subscribe()));
        if !watched.server.is_same(server) {
            watched.follow(server, subscribe());
        }
        places.insert(Arc::clone(&watcher.exposed), WatchPlace { ear: ear.clone(), key });
        watched.heard_by.insert(watcher, true);
        drop(gone);
        Some(watched.subscription.clone())
    }

    pub(crate) fn unwatch(&mut self, what: WatchKind, number: u64, exposed: &str) -> Option<Watch> {
        let entry = self.listeners.get_mut(&number)?;
        let (table, places) = match what {
            WatchKind::Resource => (&mut self.resources, &mut entry.resources),
            WatchKind::Task => (&mut self.tasks, &mut entry.tasks),
        };
        let (exposed, place) = places.remove_entry(exposed)?;
        forget(table, &place, &Watcher { listener: number, exposed })
    }

    fn notify(&self, watched: &Watch, change: impl Fn(&Arc<str>) -> Change) {
        for (Watcher { listener, exposed }, _) in watched.heard_by.iter().filter(|(_, shown)| **shown) {
            if let Some(entry) = self.listeners.get(listener) {
                entry.listener.push(change(exposed));
            }
        }
    }
}

impl Ear {
    /// Where changes of a server are heard for a principal: what a server tells its main connection is not for all.
    fn of(server: &Server, principal: &PrincipalId) -> Self {
        let hearer = server.hearer(name_at_servers(principal));
        Self { server: server.config().name.clone(), principal: hearer.map(Into::into) }
    }
}

/// Has a listener hear no more of a place. Gives what nobody watches any more.
fn forget(table: &mut Table, WatchPlace { ear, key }: &WatchPlace, watcher: &Watcher) -> Option<Watch> {
    let of_server = table.get_mut(ear)?;
    let watched = of_server.get_mut(key)?;
    watched.heard_by.remove(watcher);
    if !watched.heard_by.is_empty() {
        return None;
    }
    let gone = of_server.remove(key);
    if of_server.is_empty() {
        table.remove(ear);
    }
    gone
}

// === impl Watched ===

impl Watch {
    fn new(server: &Server, subscription: Subscription) -> Self {
        Self { server: server.clone(), subscription, heard_by: BTreeMap::new() }
    }

    /// From now on another server of the same name is watched. Gives the old subscription.
    fn follow(&mut self, server: &Server, subscription: Subscription) -> Subscription {
        self.server = server.clone();
        std::mem::replace(&mut self.subscription, subscription)
    }
}
