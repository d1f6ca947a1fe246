//! Connections to a server beside its main one: to a legacy one for other principals, for clients that can be asked,
//! for their own conversations; to any program for the environment of a profile. Opened at the first call, closed when
//! no call uses them.
//!
//! Each has a task that owns it; callers wait for what it publishes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use toolcrib_base::task::Scope;
use toolcrib_base::{SessionName, Timestamp};
use toolcrib_protocol::{Era, Notification, Raw, method};
use toolcrib_transport::{CallHandler, Link};

use crate::client::{Client, ConnectionKey};
use crate::context::ServerContext;
use crate::conversation::Conversation;
use crate::environment::Environment;
use crate::eras::Failure;
use crate::event::Event;
use crate::inventory::Inventory;
use crate::live::LiveConnection;
use crate::open::{self, Cause, OpenConnection, OpenError, OpenRequest};
use crate::report::{REPORTS, Report};
use crate::status::{State, Status};

/// How many connections one server may have beside its main one, those that are being closed among them: each may be
/// a process.
pub const MOST: usize = 64;
/// How many of these may be for conversations, which are not ended to make room: two principals must not take all
/// places from the others.
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
    open: Mutex<HashMap<ConnectionKey, Arc<ExtraConnection>>>,
    context: Arc<ServerContext>,
    next: AtomicU64,
    scope: Scope,
    /// One for each that may be open.
    places: Arc<Semaphore>,
    /// Told whenever one is not in use any more.
    unused: Arc<Notify>,
}

/// One of them, in whatever state.
#[derive(Debug)]
struct ExtraConnection {
    state: watch::Receiver<ExtraState>,
    /// Ends it.
    quit: watch::Sender<bool>,
    used: Arc<Usage>,
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
    /// What the server said of itself when it was opened.
    bare: OnceLock<Inventory>,
}

/// When it was last used, and by how many calls now.
#[derive(Debug)]
struct Usage {
    calls: watch::Sender<usize>,
    since: Mutex<Instant>,
    /// Notified when it is no longer used.
    unused: Arc<Notify>,
}

impl Usage {
    fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone)]
enum ExtraState {
    Opening,
    Live(Arc<LiveConnection>),
    Failed(String),
    /// The principal whose connection it is must log in.
    NeedsLogin,
}

/// Which connection is wanted.
struct LeaseRequest<'a> {
    key: &'a ConnectionKey,
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
    pub(crate) live: Arc<LiveConnection>,
    pub(crate) environment: Option<Arc<Environment>>,
    /// Whether it is of another era than the main connection.
    pub(crate) beside: bool,
    extra: Arc<ExtraConnection>,
    _used: UseGuard,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Lease {
    /// Waits until the connection is no more.
    pub(crate) async fn ended(&self) {
        let mut state = self.extra.state.clone();
        while state.changed().await.is_ok() {}
    }

    /// What the server said of itself when the connection was opened.
    pub(crate) fn bare(&self) -> Option<Inventory> {
        self.extra.bare.get().cloned()
    }
}

/// Counts a use until it is dropped.
#[derive(Debug)]
struct UseGuard(Arc<Usage>);

impl UseGuard {
    fn new(used: &Arc<Usage>) -> Self {
        used.calls.send_modify(|calls| *calls += 1);
        Self(Arc::clone(used))
    }
}

impl Drop for UseGuard {
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
pub(crate) enum LeaseError {
    Failed(String),
    /// The principal whose connection it is must log in.
    NeedsLogin,
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

// === impl ExtraConnection ===

impl ExtraConnection {
    /// Ends it, and the conversation that it is for. Called while the pool is locked, so that the conversation cannot
    /// begin again in the meantime. One that could not be opened has told nothing that would be lost: it may be tried
    /// again.
    fn end(&self) {
        self.quit.send_replace(true);
        if let Some(conversation) = &self.conversation
            && !matches!(&*self.state.borrow(), ExtraState::Failed(_) | ExtraState::NeedsLogin)
        {
            conversation.end();
        }
    }
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(context: Arc<ServerContext>) -> Self {
        let places = Arc::new(Semaphore::new(MOST));
        Self {
            open: Mutex::default(),
            context,
            next: AtomicU64::new(FIRST),
            scope: Scope::new(),
            places,
            unused: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionKey, Arc<ExtraConnection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a client's key, opened if need be. `not` is one that turned out to be of no use any more.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        key: &ConnectionKey,
        client: &Client,
        not: Option<u64>,
    ) -> Result<Lease, LeaseError> {
        let context = &self.context;
        let deadline = context.config.timeouts.connect;
        // What it asks must belong to one call: each is made alone, unless one session has them all.
        let alone = key.session.is_none() && key.offered.can_be_asked() && context.eras.asks().load(Ordering::Relaxed);
        let conversation = client.conversation.as_ref().filter(|it| key.handle.as_ref() == Some(it.handle()));
        let place = if key.once { Some(self.place(deadline).await?) } else { None };
        let task = |key: &ConnectionKey, extra: &Arc<ExtraConnection>, place| ExtraTask {
            context: Arc::clone(context),
            pool: Arc::clone(self),
            generation: self.next.fetch_add(1, Ordering::Relaxed),
            owner: client.own.clone().filter(|_| key.session.is_some()),
            key: key.clone(),
            extra: Arc::clone(extra),
            _place: place,
        };
        let alone_in = alone && conversation.is_none();
        let wanted = LeaseRequest { key, conversation, not, alone: alone_in, place };
        let (extra, used) = match self.extra(wanted, &task) {
            Err(LeaseError::Full | LeaseError::InUse) => {
                let wanted = LeaseRequest { key, conversation, not, alone: alone_in, place: None };
                Box::pin(self.room(wanted, &task, context.config.timeouts.call)).await?
            }
            other => other?,
        };
        let mut state = extra.state.clone();
        let wait = state.wait_for(|state| !matches!(state, ExtraState::Opening));
        let opened = match tokio::time::timeout(deadline, wait).await {
            Ok(Ok(opened)) => opened.clone(),
            Ok(Err(_)) => ExtraState::Failed("it is being stopped".into()),
            Err(_) => return Err(LeaseError::Timeout),
        };
        let live = match opened {
            ExtraState::Live(live) => live,
            ExtraState::Failed(why) => return Err(LeaseError::Failed(why)),
            ExtraState::NeedsLogin => return Err(LeaseError::NeedsLogin),
            ExtraState::Opening => return Err(LeaseError::Timeout),
        };
        // A conversation cannot have a second connection for a second call: they come one after the other.
        let turn = match conversation.filter(|_| alone) {
            None => None,
            Some(_) => {
                let turn = tokio::time::timeout(context.config.timeouts.call, Arc::clone(&extra.turn).acquire_owned());
                Some(turn.await.map_err(|_| LeaseError::Busy)?.map_err(|_| LeaseError::Ended)?)
            }
        };
        let (environment, beside) = (key.environment.clone(), key.era.is_some());
        Ok(Lease { live, environment, beside, extra, _used: used, _turn: turn })
    }

    /// Waits for room for one more: calls that have a connection each come one after the other where there are many.
    async fn place(&self, deadline: Duration) -> Result<OwnedSemaphorePermit, LeaseError> {
        let place = tokio::time::timeout(deadline, Arc::clone(&self.places).acquire_owned());
        place.await.map_err(|_| LeaseError::Full)?.map_err(|_| LeaseError::Full)
    }

    /// Waits for a connection where all are in use: one that pauses makes room, else the first whose call ends.
    async fn room(
        &self,
        wanted: LeaseRequest<'_>,
        task: &impl Fn(&ConnectionKey, &Arc<ExtraConnection>, OwnedSemaphorePermit) -> ExtraTask,
        deadline: Duration,
    ) -> Result<(Arc<ExtraConnection>, UseGuard), LeaseError> {
        let until = Instant::now() + deadline;
        let LeaseRequest { key, conversation, not, alone, mut place } = wanted;
        loop {
            let mut unused = std::pin::pin!(self.unused.notified());
            // Registered before the look, so that what ends in between is not missed.
            unused.as_mut().enable();
            let why = match self.extra(LeaseRequest { key, conversation, not, alone, place: place.take() }, task) {
                Err(why @ (LeaseError::Full | LeaseError::InUse)) => why,
                other => return other,
            };
            let may_open = why == LeaseError::Full;
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
        wanted: LeaseRequest<'_>,
        task: &impl Fn(&ConnectionKey, &Arc<ExtraConnection>, OwnedSemaphorePermit) -> ExtraTask,
    ) -> Result<(Arc<ExtraConnection>, UseGuard), LeaseError> {
        let LeaseRequest { key, conversation, not, alone, place } = wanted;
        let mut open = self.lock();
        let mut key = key.clone();
        while let Some(extra) = open.get(&key) {
            let of_no_use = matches!(&*extra.state.borrow(), ExtraState::Live(live) if Some(live.generation) == not);
            if of_no_use || extra.state.has_changed().is_err() {
                extra.end();
                open.remove(&key);
                break;
            }
            if !alone || *extra.used.calls.borrow() == 0 {
                // Counted while the lock is held, so that no two calls take the same one alone.
                return Ok((Arc::clone(extra), UseGuard::new(&extra.used)));
            }
            if key.slot >= SLOTS {
                return Err(LeaseError::InUse);
            }
            key.slot += 1;
        }
        if conversation.is_some_and(|conversation| conversation.has_ended()) {
            return Err(LeaseError::Ended);
        }
        let begun = |open: &HashMap<ConnectionKey, Arc<ExtraConnection>>| {
            open.values().filter(|it| it.conversation.is_some()).count()
        };
        if conversation.is_some() && begun(&open) >= CONVERSATIONS {
            return Err(LeaseError::Crowded);
        }
        let place = place.or_else(|| Arc::clone(&self.places).try_acquire_owned().ok()).ok_or(LeaseError::Full)?;
        let (publish, state) = watch::channel(ExtraState::Opening);
        let extra = Arc::new(ExtraConnection {
            state,
            quit: watch::Sender::new(false),
            used: Arc::new(Usage {
                calls: watch::Sender::new(0),
                since: Mutex::new(Instant::now()),
                unused: Arc::clone(&self.unused),
            }),
            outdated: AtomicBool::new(false),
            roots: watch::Sender::new(()),
            conversation: conversation.cloned(),
            turn: Arc::new(Semaphore::new(1)),
            begun: self.context.deps.clock.now(),
            bare: OnceLock::new(),
        });
        open.insert(key.clone(), Arc::clone(&extra));
        let in_use = UseGuard::new(&extra.used);
        self.scope.spawn(task(&key, &extra, place).run(publish));
        Ok((extra, in_use))
    }

    /// Ends the connection that no one has used for longest; `false` when all are in use. A conversation is not ended
    /// so.
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
            let ends = matches!(&*extra.state.borrow(), ExtraState::Live(live) if live.generation == generation);
            if ends {
                extra.end();
            }
            !ends
        });
    }

    /// Starts a task that ends with the connections.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.scope.spawn(task);
    }

    /// Ends the connections that carry the credential of a principal.
    pub(crate) fn forget_principal(&self, principal: &str) {
        self.forget_of(Some(principal));
    }

    /// Ends the connections that carry that of the owner.
    pub(crate) fn forget_owner(&self) {
        self.forget_of(None);
    }

    fn forget_of(&self, principal: Option<&str>) {
        self.lock().retain(|key, extra| {
            let ends = key.principal.as_deref() == principal;
            if ends {
                extra.end();
            }
            !ends
        });
    }

    /// Ends the connections of a session that has ended.
    pub(crate) fn forget_session(&self, session: &SessionName) {
        self.lock().retain(|key, extra| {
            let ends = key.session.as_ref() == Some(session);
            if ends {
                extra.end();
            }
            !ends
        });
    }

    /// The roots of a session's client have changed: said on the connections that are its own.
    pub(crate) fn roots_changed(&self, session: &SessionName) {
        let open = self.lock();
        let own = open.iter().filter(|(key, _)| key.session.as_ref() == Some(session) && key.offered.roots_changed);
        own.for_each(|(_, extra)| extra.roots.send_replace(()));
    }

    /// An environment is none any more: its connections end, those in use when they are no longer.
    pub(crate) fn retire(&self, environment: &Environment) {
        self.lock().retain(|key, extra| {
            if key.environment.as_deref() != Some(environment) {
                return true;
            }
            // In this order: anyone who ends the last call in the meantime sees the mark.
            extra.outdated.store(true, Ordering::SeqCst);
            let unused = *extra.used.calls.borrow() == 0;
            if unused {
                extra.end();
            }
            !unused
        });
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

    /// Forgets that connections of a principal could not be opened: what it was for has changed.
    pub(crate) fn forget_failed(&self, principal: Option<&str>) {
        self.lock().retain(|key, extra| {
            let has_failed = matches!(&*extra.state.borrow(), ExtraState::Failed(_) | ExtraState::NeedsLogin);
            let goes = has_failed && key.principal.as_deref() == principal;
            if goes {
                extra.end();
            }
            !goes
        });
    }

    /// Ends all of them: the server is stopped, restarted or of another era now.
    pub(crate) fn clear(&self) {
        self.lock().drain().for_each(|(_, extra)| extra.end());
    }

    /// Ends all of them and waits for it.
    pub(crate) async fn close(&self) {
        self.clear();
        self.scope.close(self.context.deps.grace * 3).await;
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Since when one of them can be called.
    fn live_since(&self) -> Option<Timestamp> {
        let open = self.lock();
        let live = open.values().filter(|extra| matches!(&*extra.state.borrow(), ExtraState::Live(_)));
        live.map(|extra| extra.begun).min()
    }

    /// How the server is. One whose main connection idles is ready as long as it can be called on another one.
    pub(crate) fn status(&self) -> Status {
        let status = self.context.status.borrow().clone();
        match self.live_since().filter(|_| status.state == State::Idle) {
            Some(since) => Status { state: State::Ready, since, ..status },
            None => status,
        }
    }

    /// Emits the server's status while its main connection, which reports itself, idles.
    async fn emit_status_if_idle(&self) {
        if self.context.status.borrow().state == State::Idle {
            let (server, status) = (self.context.config.name.clone(), self.status());
            self.context.emit(Event::Status { server, status }).await;
        }
    }

    /// Takes out one that has ended.
    fn remove(&self, key: &ConnectionKey, extra: &Arc<ExtraConnection>) {
        let mut open = self.lock();
        extra.end();
        if open.get(key).is_some_and(|known| Arc::ptr_eq(known, extra)) {
            open.remove(key);
        }
    }

    /// Takes out one that no one uses; `false` when someone does by now.
    fn remove_unused(&self, key: &ConnectionKey, extra: &Arc<ExtraConnection>) -> bool {
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
    context: Arc<ServerContext>,
    pool: Arc<Pool>,
    generation: u64,
    key: ConnectionKey,
    owner: Option<Arc<dyn CallHandler>>,
    extra: Arc<ExtraConnection>,
    /// Kept until its end, however long that takes.
    _place: OwnedSemaphorePermit,
}

impl ExtraTask {
    async fn run(self, publish: watch::Sender<ExtraState>) {
        let mut quit = self.extra.quit.subscribe();
        let mut calls = self.extra.used.calls.subscribe();
        let mut stop = self.pool.scope.stop_signal();
        let scope = Scope::new();
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let (own, beside, any_era) = (self.key.environment.as_ref(), self.key.era.is_some(), self.key.any_era);
        let config =
            own.map_or_else(|| self.context.config.clone(), |environment| environment.over(&self.context.config));
        let opening = OpenRequest {
            config: &config,
            deps: &self.context.deps,
            scope: &scope,
            generation: self.generation,
            reports,
            // Beside a modern main connection there are those of other environments, and those of legacy clients.
            era: if beside || (own.is_none() && !any_era) { Some(Era::Legacy) } else { self.context.eras.main() },
            probes: (own.is_some() || any_era) && !beside,
            offered: Arc::clone(&self.key.offered),
            owner: self.owner.clone(),
            eras: Arc::clone(&self.context.eras),
            unanswered: self.context.unanswered.clone(),
            principal: self.key.principal.clone(),
            // What is said on a connection with a principal's credential is for that one alone.
            subscriptions: match &self.key.principal {
                Some(principal) if self.context.proves_own(Some(principal)) => self.context.hearing.of(principal),
                _ => Arc::clone(&self.context.subscriptions),
            },
            turn: &self.context.turn,
            told: None,
            kept: &Mutex::default(),
            opener: None,
        };
        let opened = tokio::select! {
            biased;
            () = stop.stopped() => Err("it is being stopped".into()),
            _ = quit.wait_for(|quit| *quit) => Err("it is being stopped".into()),
            _ = calls.wait_for(|calls| *calls == 0), if self.key.once => Err("the call was cancelled".into()),
            opened = self.open(&opening) => opened,
        };
        match opened {
            Err(OpenError { why, cause, .. }) => {
                publish.send_replace(match cause {
                    Cause::Login => ExtraState::NeedsLogin,
                    Cause::Timeout | Cause::Other => ExtraState::Failed(config.masked(&why)),
                });
                // Anyone who calls within a moment hears the same: a client must not start a program at each call.
                let moment = if self.key.once { Duration::ZERO } else { FAILED };
                tokio::select! {
                    () = stop.stopped() => {}
                    _ = quit.wait_for(|quit| *quit) => {}
                    () = tokio::time::sleep(moment) => {}
                }
            }
            Ok(OpenConnection { live, bare, .. }) => {
                // Nothing else sets it.
                let _ = self.extra.bare.set(bare);
                let live = Arc::new(live);
                if let Some(conversation) = &self.extra.conversation {
                    conversation.begin();
                }
                publish.send_replace(ExtraState::Live(Arc::clone(&live)));
                self.pool.emit_status_if_idle().await;
                tokio::select! {
                    () = stop.stopped() => {}
                    _ = quit.wait_for(|quit| *quit) => {}
                    () = self.attend(&live, &mut reported) => {}
                }
                self.pool.remove(&self.key, &self.extra);
                self.pool.emit_status_if_idle().await;
                live.link.close(self.context.deps.grace).await;
            }
        }
        self.pool.remove(&self.key, &self.extra);
        scope.close(self.context.deps.grace * 3).await;
    }

    async fn open(&self, opening: &OpenRequest<'_>) -> Result<OpenConnection, OpenError> {
        let mut opened = open::open(opening).await;
        if self.key.era.is_some() {
            if let Ok(ready) = &opened
                && let Link::Http(http) = &ready.live.link
                && !http.has_session()
            {
                // Without one it can neither ask the client nor tell it anything, as it can in the modern era.
                ready.live.link.close(self.context.deps.grace).await;
                let why = "it keeps no sessions with legacy clients".to_owned();
                opened = Err(OpenError { why, beside: Failure::Refused, cause: Cause::Other });
            }
            // Before it is published, so that anyone who waits for it knows where to go instead.
            self.learn(opened.as_ref().err()).await;
        }
        opened
    }

    /// Notes what the attempt to open a connection beside a modern one shows of the server.
    async fn learn(&self, failed: Option<&OpenError>) {
        let (eras, server) = (&self.context.eras, &self.context.config.name);
        let is_news = match failed {
            None => eras.opened_beside(),
            Some(failed) => eras.failed_beside(failed.beside),
        };
        if !is_news {
            return;
        }
        match failed {
            None => {
                tracing::info!(target: "toolcrib::server", %server, "speaks both eras; each client is served in its own");
            }
            Some(failed) => {
                let why = self.context.config.masked(&failed.why);
                tracing::info!(target: "toolcrib::server", %server, "legacy clients are bridged: {why}");
            }
        }
        self.context.emit_nature().await;
    }

    /// What a principal with a credential of its own is shown has changed: whoever looks next reads it again.
    async fn own_lists_changed(&self) {
        let Some(principal) = self.key.principal.clone() else { return };
        if self.context.proves_own(Some(&principal)) {
            self.context.own.doubt(&principal);
            self.context.emit(Event::Own { server: self.context.config.name.clone(), principal }).await;
        }
    }

    /// Until the connection ends, no one has used it for long, or the one call that it is for has ended.
    async fn attend(&self, live: &LiveConnection, reported: &mut mpsc::Receiver<Report>) {
        let mut calls = self.extra.used.calls.subscribe();
        let mut roots = self.extra.roots.subscribe();
        // What a session or a conversation has said on it would be lost; all others come back as the server does.
        let is_own = self.key.session.is_some() || self.extra.conversation.is_some();
        let idle = self.context.config.idle.filter(|_| !is_own).map_or(IDLE, |idle| idle.min(IDLE));
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
                    Some(Report::ListChanged(_)) => {
                        self.context.lists_changed();
                        self.own_lists_changed().await;
                    }
                },
                changed = calls.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    idle_at = Instant::now() + idle;
                    let unused = *calls.borrow() == 0;
                    let outdated = self.extra.outdated.load(Ordering::SeqCst);
                    if unused && outdated && self.pool.remove_unused(&self.key, &self.extra) {
                        return;
                    }
                }
                Ok(()) = roots.changed() => {
                    let news = Notification::new(method::ROOTS_CHANGED, Raw::empty_object());
                    // Changes that come in the meantime are reported as one. Whether the server hears it is its own
                    // business.
                    let _ = tokio::time::timeout(NOTIFY, live.link.notify(news)).await;
                }
                () = tokio::time::sleep_until(idle_at), if !busy => {
                    if self.pool.remove_unused(&self.key, &self.extra) {
                        return;
                    }
                }
            }
        }
    }
}
