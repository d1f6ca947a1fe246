//! Connections to a server beside its main one: to a legacy one for other principals, for clients that can be asked, for
//! conversations of their own; to any program for the environment of a profile. Opened at the first call, closed when nobody uses them.
//!
//! Each has a task that owns it; callers wait for what it publishes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use toolcrib_base::Timestamp;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Era, Notification, Raw, method};
use toolcrib_transport::{CallHandler, Link};

use crate::client::{Client, Key};
use crate::conversation::Conversation;
use crate::environment::Environment;
use crate::eras::Failure;
use crate::event::Event;
use crate::live::Live;
use crate::open::{self, Cause, NoConnection, Opening, REPORTS, Ready, Report};
use crate::server::{Shared, Surroundings};

/// How many connections one server may have beside its main one, those that are being closed among them: each may be
/// a process.
pub const MOST: usize = 64;
/// How many of these may be for conversations, which are not ended to make room: two principals must not take all places
/// from the others.
pub(crate) const CONVERSATIONS: usize = 48;
/// How many connections calls that must be alone may have beside each other, less one.
const SLOTS: u8 = 15;
/// How long one stays open without a call, unless the server idles sooner. Shorter than most sessions, longer than most
/// pauses.
pub const IDLE: Duration = Duration::from_secs(10 * 60);
/// How long a notification may take to be sent.
const NOTIFY: Duration = Duration::from_secs(5);
/// How long a failure to open one stands.
const FAILED: Duration = Duration::from_secs(1);
/// How many connections were counted before the first of these, so that their numbers differ from the main one's.
const FIRST: u64 = 1 << 32;

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Pool {
    open: Mutex<HashMap<Key, Arc<Extra>>>,
    around: Surroundings,
    next: AtomicU64,
    scope: Scope,
    /// One for each that may be open.
    places: Arc<Semaphore>,
    /// Told whenever one is not in use any more.
    unused: Arc<Notify>,
}

/// One of them, in whatever state.
#[derive(Debug)]
struct Extra {
    state: watch::Receiver<Opened>,
    /// Ends it.
    quit: watch::Sender<bool>,
    used: Arc<Used>,
    /// Set when its environment is none any more: it ends with the calls that run on it.
    outdated: AtomicBool,
    /// Changes when the client's roots do.
    roots: watch::Sender<()>,
    /// The conversation that it is for.
    conversation: Option<Arc<Conversation>>,
    /// Taken by calls of a conversation that must be alone on it.
    turn: Arc<Semaphore>,
    /// When its opening began.
    begun: Timestamp,
}

/// When it was last used, and by how many calls now.
#[derive(Debug)]
struct Used {
    calls: watch::Sender<usize>,
    since: Mutex<Instant>,
    /// Notified when it is no longer used.
    unused: Arc<Notify>,
}

impl Used {
    fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone)]
enum Opened {
    Opening,
    Live(Arc<Live>),
    Failed(String),
}

/// Which connection is wanted.
struct Wanted<'a> {
    key: &'a Key,
    conversation: Option<&'a Arc<Conversation>>,
    /// Not this one, which turned out to be of no use any more.
    not: Option<u64>,
    /// One that no other call uses.
    alone: bool,
    /// Its place, where that was waited for.
    place: Option<OwnedSemaphorePermit>,
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) live: Arc<Live>,
    pub(crate) environment: Option<Arc<Environment>>,
    /// Whether it is of another era than the main connection.
    pub(crate) beside: bool,
    _used: InUse,
    _turn: Option<OwnedSemaphorePermit>,
}

/// Counts a use until it is dropped.
#[derive(Debug)]
struct InUse(Arc<Used>);

impl InUse {
    fn new(used: &Arc<Used>) -> Self {
        used.calls.send_modify(|calls| *calls += 1);
        Self(Arc::clone(used))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *self.0.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.calls.send_modify(|calls| *calls -= 1);
        if *self.0.calls.borrow() == 0 {
            self.0.unused.notify_waiters();
        }
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoLease {
    Failed(String),
    /// As many are open as may be.
    Full,
    /// All that calls of this kind may have are in use, each by one.
    InUse,
    /// There are as many conversations as may be.
    Crowded,
    Timeout,
    /// Another call of the conversation must end first.
    Busy,
    /// The conversation is over.
    Ended,
}

// === impl Extra ===

impl Extra {
    /// Ends it, and the conversation that it is for. Called while the pool is locked, so that the conversation cannot
    /// begin again meanwhile. One that could not be opened has told nothing that would be lost: it may be tried again.
    fn end(&self) {
        self.quit.send_replace(true);
        if let Some(conversation) = &self.conversation
            && !matches!(&*self.state.borrow(), Opened::Failed(_))
        {
            conversation.end();
        }
    }
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(around: Surroundings) -> Self {
        let places = Arc::new(Semaphore::new(MOST));
        Self {
            open: Mutex::default(),
            around,
            next: AtomicU64::new(FIRST),
            scope: Scope::new(),
            places,
            unused: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Extra>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a client's key, opened if need be. `not` is one that turned out to be of no use any more.
    pub(crate) async fn lease(
        &self,
        shared: &Arc<Shared>,
        key: &Key,
        client: &Client,
        not: Option<u64>,
    ) -> Result<Lease, NoLease> {
        let deadline = shared.config.timeouts.connect;
        // What it asks must belong to one call: each is made alone, unless one session has them all.
        let alone = key.session.is_none() && key.offered.can_be_asked() && shared.eras.asks().load(Ordering::Relaxed);
        let conversation = client.conversation.as_ref().filter(|it| key.handle.as_ref() == Some(it.handle()));
        let place = if key.once { Some(self.place(deadline).await?) } else { None };
        let task = |key: &Key, extra: &Arc<Extra>, place| ExtraTask {
            shared: Arc::clone(shared),
            around: self.around.clone(),
            generation: self.next.fetch_add(1, Ordering::Relaxed),
            owner: client.own.clone().filter(|_| key.session.is_some()),
            key: key.clone(),
            extra: Arc::clone(extra),
            _place: place,
        };
        let alone_in = alone && conversation.is_none();
        let wanted = Wanted { key, conversation, not, alone: alone_in, place };
        let (extra, used) = match self.extra(wanted, &task) {
            Err(NoLease::Full | NoLease::InUse) => {
                let wanted = Wanted { key, conversation, not, alone: alone_in, place: None };
                Box::pin(self.room(wanted, &task, shared.config.timeouts.call)).await?
            }
            other => other?,
        };
        let mut state = extra.state.clone();
        let wait = state.wait_for(|state| !matches!(state, Opened::Opening));
        let opened = match tokio::time::timeout(deadline, wait).await {
            Ok(Ok(opened)) => opened.clone(),
            Ok(Err(_)) => Opened::Failed("it is being stopped".into()),
            Err(_) => return Err(NoLease::Timeout),
        };
        let live = match opened {
            Opened::Live(live) => live,
            Opened::Failed(why) => return Err(NoLease::Failed(why)),
            Opened::Opening => return Err(NoLease::Timeout),
        };
        // A conversation cannot have a second connection for a second call: they come one after the other.
        let turn = match conversation.filter(|_| alone) {
            None => None,
            Some(_) => {
                let turn = tokio::time::timeout(shared.config.timeouts.call, Arc::clone(&extra.turn).acquire_owned());
                Some(turn.await.map_err(|_| NoLease::Busy)?.map_err(|_| NoLease::Ended)?)
            }
        };
        let (environment, beside) = (key.environment.clone(), key.era.is_some());
        Ok(Lease { live, environment, beside, _used: used, _turn: turn })
    }

    /// Waits for room for one more: calls that have a connection each come one after the other where there are many.
    async fn place(&self, deadline: Duration) -> Result<OwnedSemaphorePermit, NoLease> {
        let place = tokio::time::timeout(deadline, Arc::clone(&self.places).acquire_owned());
        place.await.map_err(|_| NoLease::Full)?.map_err(|_| NoLease::Full)
    }

    /// Waits for a connection where all are in use: one that pauses makes room, else the first whose call ends.
    async fn room(
        &self,
        wanted: Wanted<'_>,
        task: &impl Fn(&Key, &Arc<Extra>, OwnedSemaphorePermit) -> ExtraTask,
        patience: Duration,
    ) -> Result<(Arc<Extra>, InUse), NoLease> {
        let until = Instant::now() + patience;
        let Wanted { key, conversation, not, alone, mut place } = wanted;
        loop {
            let mut unused = std::pin::pin!(self.unused.notified());
            // Registered before the look, so that what ends in between is not missed.
            unused.as_mut().enable();
            let why = match self.extra(Wanted { key, conversation, not, alone, place: place.take() }, task) {
                Err(why @ (NoLease::Full | NoLease::InUse)) => why,
                other => return other,
            };
            let may_open = why == NoLease::Full;
            if may_open {
                self.end_idle();
            }
            place = tokio::select! {
                place = Arc::clone(&self.places).acquire_owned(), if may_open => place.ok(),
                () = unused => None,
                () = tokio::time::sleep_until(until) => return Err(why),
            };
        }
    }

    fn extra(
        &self,
        wanted: Wanted<'_>,
        task: &impl Fn(&Key, &Arc<Extra>, OwnedSemaphorePermit) -> ExtraTask,
    ) -> Result<(Arc<Extra>, InUse), NoLease> {
        let Wanted { key, conversation, not, alone, place } = wanted;
        let mut open = self.lock();
        let mut key = key.clone();
        while let Some(extra) = open.get(&key) {
            let of_no_use = matches!(&*extra.state.borrow(), Opened::Live(live) if Some(live.generation) == not);
            if of_no_use || extra.state.has_changed().is_err() {
                extra.end();
                open.remove(&key);
                break;
            }
            if !alone || *extra.used.calls.borrow() == 0 {
                // Counted while the lock is held, so that no two calls take the same one alone.
                return Ok((Arc::clone(extra), InUse::new(&extra.used)));
            }
            if key.slot >= SLOTS {
                return Err(NoLease::InUse);
            }
            key.slot += 1;
        }
        if conversation.is_some_and(|conversation| conversation.has_ended()) {
            return Err(NoLease::Ended);
        }
        let begun = |open: &HashMap<Key, Arc<Extra>>| open.values().filter(|it| it.conversation.is_some()).count();
        if conversation.is_some() && begun(&open) >= CONVERSATIONS {
            return Err(NoLease::Crowded);
        }
        let place = place.or_else(|| Arc::clone(&self.places).try_acquire_owned().ok()).ok_or(NoLease::Full)?;
        let (publish, state) = watch::channel(Opened::Opening);
        let extra = Arc::new(Extra {
            state,
            quit: watch::Sender::new(false),
            used: Arc::new(Used {
                calls: watch::Sender::new(0),
                since: Mutex::new(Instant::now()),
                unused: Arc::clone(&self.unused),
            }),
            outdated: AtomicBool::new(false),
            roots: watch::Sender::new(()),
            conversation: conversation.cloned(),
            turn: Arc::new(Semaphore::new(1)),
            begun: self.around.clock.now(),
        });
        open.insert(key.clone(), Arc::clone(&extra));
        let in_use = InUse::new(&extra.used);
        self.scope.spawn(task(&key, &extra, place).run(publish));
        Ok((extra, in_use))
    }

    /// Ends the connection that nobody has used for longest; `false` when all are in use. A conversation is not ended so.
    fn end_idle(&self) -> bool {
        let mut open = self.lock();
        let idle = open.iter().filter(|(_, extra)| extra.conversation.is_none() && *extra.used.calls.borrow() == 0);
        let longest = idle.min_by_key(|(_, extra)| extra.used.since()).map(|(key, _)| key.clone());
        let ended = longest.and_then(|key| open.remove(&key));
        ended.as_ref().inspect(|extra| extra.end());
        ended.is_some()
    }

    /// Ends the connection with this number: the server does not speak its era any more.
    pub(crate) fn discard(&self, generation: u64) {
        self.lock().retain(|_, extra| {
            let ends = matches!(&*extra.state.borrow(), Opened::Live(live) if live.generation == generation);
            if ends {
                extra.end();
            }
            !ends
        });
    }

    /// Ends the connections of a session that has ended.
    pub(crate) fn forget_session(&self, session: &str) {
        self.lock().retain(|key, extra| {
            let ends = key.session.as_deref() == Some(session);
            if ends {
                extra.end();
            }
            !ends
        });
    }

    /// The roots of a session's client have changed: said on the connections that are its own.
    pub(crate) fn roots_changed(&self, session: &str) {
        let open = self.lock();
        let own = open.iter().filter(|(key, _)| key.session.as_deref() == Some(session) && key.offered.roots_changed);
        own.for_each(|(_, extra)| extra.roots.send_replace(()));
    }

    /// An environment is none any more: its connections end, those in use when they are not any more.
    pub(crate) fn retire(&self, environment: &Environment) {
        self.lock().retain(|key, extra| {
            if key.environment.as_deref() != Some(environment) {
                return true;
            }
            // In this order: whoever ends the last call meanwhile sees the mark.
            extra.outdated.store(true, Ordering::SeqCst);
            let unused = *extra.used.calls.borrow() == 0;
            if unused {
                extra.end();
            }
            !unused
        });
    }

    /// What the server shares with others.
    pub(crate) fn around(&self) -> &Surroundings {
        &self.around
    }

    /// Where what happens is told.
    pub(crate) fn events(&self) -> &mpsc::Sender<Event> {
        &self.around.events
    }

    /// Ends a conversation, and its connection where it has one.
    pub(crate) fn end(&self, conversation: &Conversation) {
        let mut open = self.lock();
        conversation.end();
        open.retain(|key, extra| {
            let ends = key.handle.as_ref() == Some(conversation.handle());
            if ends {
                extra.end();
            }
            !ends
        });
    }

    /// Ends all of them: the server is stopped, restarted or of another era now.
    pub(crate) fn clear(&self) {
        self.lock().drain().for_each(|(_, extra)| extra.end());
    }

    /// Ends all of them and waits for it.
    pub(crate) async fn close(&self) {
        self.clear();
        self.scope.close(self.around.grace * 3).await;
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Since when one of them can be called.
    pub(crate) fn live_since(&self) -> Option<Timestamp> {
        let open = self.lock();
        let live = open.values().filter(|extra| matches!(&*extra.state.borrow(), Opened::Live(_)));
        live.map(|extra| extra.begun).min()
    }

    /// Takes out one that has ended.
    fn remove(&self, key: &Key, extra: &Arc<Extra>) {
        let mut open = self.lock();
        extra.end();
        if open.get(key).is_some_and(|known| Arc::ptr_eq(known, extra)) {
            open.remove(key);
        }
    }

    /// Takes out one that nobody uses; `false` when somebody does by now.
    fn remove_unused(&self, key: &Key, extra: &Arc<Extra>) -> bool {
        let mut open = self.lock();
        let unused = *extra.used.calls.borrow() == 0;
        if unused {
            extra.end();
            if open.get(key).is_some_and(|known| Arc::ptr_eq(known, extra)) {
                open.remove(key);
            }
        }
        unused
    }
}

/// Owns one connection from its opening to its end.
struct ExtraTask {
    shared: Arc<Shared>,
    around: Surroundings,
    generation: u64,
    key: Key,
    owner: Option<Arc<dyn CallHandler>>,
    extra: Arc<Extra>,
    /// Kept until its end, however long that takes.
    _place: OwnedSemaphorePermit,
}

impl ExtraTask {
    async fn run(self, publish: watch::Sender<Opened>) {
        let mut quit = self.extra.quit.subscribe();
        let mut calls = self.extra.used.calls.subscribe();
        let mut stop = self.shared.pool.scope.stop_signal();
        let scope = Scope::new();
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let (own, beside) = (self.key.environment.as_ref(), self.key.era.is_some());
        let config =
            own.map_or_else(|| self.shared.config.clone(), |environment| environment.over(&self.shared.config));
        let opening = Opening {
            config: &config,
            around: &self.around,
            scope: &scope,
            generation: self.generation,
            reports,
            // Beside a modern main connection there are those of other environments, and those of legacy clients.
            era: if beside || own.is_none() { Some(Era::Legacy) } else { self.shared.eras.main() },
            probes: own.is_some() && !beside,
            offered: Arc::clone(&self.key.offered),
            owner: self.owner.clone(),
            eras: Arc::clone(&self.shared.eras),
            unanswered: self.shared.unanswered.clone(),
            principal: self.key.principal.clone(),
            wishes: Arc::clone(&self.shared.wishes),
            turn: &self.shared.turn,
            told: None,
            kept: &Mutex::default(),
        };
        let opened = tokio::select! {
            biased;
            () = stop.stopped() => Err("it is being stopped".to_owned()),
            _ = quit.wait_for(|quit| *quit) => Err("it is being stopped".to_owned()),
            _ = calls.wait_for(|calls| *calls == 0), if self.key.once => Err("the call was taken back".to_owned()),
            opened = self.open(&opening) => opened,
        };
        match opened {
            Err(why) => {
                publish.send_replace(Opened::Failed(config.masked(&why)));
                // Whoever calls within a moment hears the same: a client must not start a program at each call.
                let moment = if self.key.once { Duration::ZERO } else { FAILED };
                tokio::select! {
                    () = stop.stopped() => {}
                    _ = quit.wait_for(|quit| *quit) => {}
                    () = tokio::time::sleep(moment) => {}
                }
            }
            Ok(Ready { live, .. }) => {
                let live = Arc::new(live);
                if let Some(conversation) = &self.extra.conversation {
                    conversation.begin();
                }
                publish.send_replace(Opened::Live(Arc::clone(&live)));
                self.shared.tell_if_idle().await;
                tokio::select! {
                    () = stop.stopped() => {}
                    _ = quit.wait_for(|quit| *quit) => {}
                    () = self.attend(&live, &mut reported) => {}
                }
                self.shared.pool.remove(&self.key, &self.extra);
                self.shared.tell_if_idle().await;
                live.link.close(self.around.grace).await;
            }
        }
        self.shared.pool.remove(&self.key, &self.extra);
        scope.close(self.around.grace * 3).await;
    }

    async fn open(&self, opening: &Opening<'_>) -> Result<Ready, String> {
        let mut opened = open::open(opening).await;
        if self.key.era.is_some() {
            if let Ok(ready) = &opened
                && let Link::Http(http) = &ready.live.link
                && !http.has_session()
            {
                // Without one it can neither ask the client nor tell it anything, as it can in the modern era.
                ready.live.link.close(self.around.grace).await;
                let why = "it keeps no session with legacy clients".to_owned();
                opened = Err(NoConnection { why, beside: Failure::Refused, cause: Cause::Other });
            }
            // Before it is published, so that whoever waits for it knows where to go instead.
            self.learn(opened.as_ref().err()).await;
        }
        opened.map_err(|failed| failed.why)
    }

    /// Notes what the attempt to open a connection beside a modern one shows of the server.
    async fn learn(&self, failed: Option<&NoConnection>) {
        let (eras, server) = (&self.shared.eras, &self.shared.config.name);
        let is_news = match failed {
            None => eras.opened_beside(),
            Some(failed) => eras.failed_beside(failed.beside),
        };
        if !is_news {
            return;
        }
        match failed {
            None => tracing::info!(target: "toolcrib::server", %server, "speaks both eras: each client gets its own"),
            Some(failed) => {
                let why = self.shared.config.masked(&failed.why);
                tracing::info!(target: "toolcrib::server", %server, "legacy clients are bridged: {why}");
            }
        }
        self.shared.tell_nature().await;
    }

    /// Until the connection ends, nobody has used it for long, or the one call that it is for has ended.
    async fn attend(&self, live: &Live, reported: &mut mpsc::Receiver<Report>) {
        let mut calls = self.extra.used.calls.subscribe();
        let mut roots = self.extra.roots.subscribe();
        // What a session or a conversation has said on it would be lost; all others come back as the server does.
        let is_own = self.key.session.is_some() || self.extra.conversation.is_some();
        let idle = self.shared.config.idle.filter(|_| !is_own).map_or(IDLE, |idle| idle.min(IDLE));
        let mut idle_at = Instant::now() + idle;
        loop {
            let busy = *calls.borrow_and_update() > 0;
            if self.key.once && !busy {
                return;
            }
            tokio::select! {
                report = reported.recv() => match report {
                    Some(Report::Closed(_)) | None => return,
                    // What it shows here it shows on the main connection too, which is the one that lists.
                    Some(Report::ListChanged(_)) => self.shared.lists_changed(),
                },
                changed = calls.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    idle_at = Instant::now() + idle;
                    let unused = *calls.borrow() == 0;
                    let outdated = self.extra.outdated.load(Ordering::SeqCst);
                    if unused && outdated && self.shared.pool.remove_unused(&self.key, &self.extra) {
                        return;
                    }
                }
                Ok(()) = roots.changed() => {
                    let news = Notification::new(method::ROOTS_CHANGED, Raw::empty_object());
                    // Changes that come meanwhile are told as one. Whether the server hears it is its own business.
                    let _ = tokio::time::timeout(NOTIFY, live.link.notify(news)).await;
                }
                () = tokio::time::sleep_until(idle_at), if !busy => {
                    if self.shared.pool.remove_unused(&self.key, &self.extra) {
                        return;
                    }
                }
            }
        }
    }
}
