//! What the handle, the task and the connections of one server share: its configuration, what it publishes, and the
//! orders to its task. Knows none of them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_protocol::RequestTrace;

use crate::config::{Endpoint, ServerConfig, Start};
use crate::credentials::CredentialHolder;
use crate::deps::ServerDeps;
use crate::eras::Eras;
use crate::event::Event;
use crate::gate::Gate;
use crate::install::{self, HalfWritten};
use crate::inventory::Inventory;
use crate::live::LiveConnection;
use crate::own_hearing::OwnHearing;
use crate::own_lists::OwnLists;
use crate::places::Places;
use crate::refusals::Refusals;
use crate::status::{State, Status};
use crate::subscribe::Subscriptions;
use crate::unanswered::UnansweredCalls;

/// How many orders may wait. More are repetitions: every caller that finds the server away orders a start.
const ORDERS: usize = 64;

/// What callers order of the task.
#[derive(Debug)]
pub(crate) enum Order {
    /// Start unless it runs or waits for its next attempt.
    Start,
    /// Start now, whatever it is doing.
    Restart,
    /// Start now if it waits for its next attempt.
    Retry,
    /// Stop and stay stopped.
    Stop,
    /// The connection of this generation is of no use any more: open a new one, after a wait if this failure is named.
    Reopen(u64, Option<String>),
    /// List again.
    Refresh,
    /// Lists have changed, as another connection tells: list again once no more such news come.
    Changed,
}

/// One server, as far as all its parts need it. Lives as long as a handle, its task or a connection beside the main
/// one.
#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) config: ServerConfig,
    /// What it shares with other servers.
    pub(crate) deps: ServerDeps,
    pub(crate) live: ArcSwapOption<LiveConnection>,
    pub(crate) inventory: ArcSwap<Inventory>,
    /// Whether its inventory has ever been one that only its owner may see. It stays so: whoever looks may have a view that
    /// was made of that one.
    was_own: AtomicBool,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) orders: mpsc::Sender<Order>,
    /// When a call last succeeded, on the clock.
    pub(crate) last_success: AtomicU64,
    /// How many calls wait for their answers.
    pub(crate) running: AtomicUsize,
    /// Keeps it from being stopped for idling.
    pub(crate) gate: Gate,
    pub(crate) retired: Scope,
    /// Counts the listings that ended well.
    pub(crate) listings: watch::Sender<u64>,
    /// How many of its announced list changes were read.
    pub(crate) read_changes: AtomicU64,
    /// What is wanted to be heard of it.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Which eras it speaks, and whether it asks without saying in which call.
    pub(crate) eras: Arc<Eras>,
    /// How many calls may run, and who is next.
    pub(crate) places: Places,
    /// How often its limits were met.
    pub(crate) refusals: Refusals,
    /// What it shows to principals with credentials of their own.
    pub(crate) own: OwnLists,
    /// What such principals subscribe to.
    pub(crate) hearing: OwnHearing,
    /// Calls that were given up and not answered.
    pub(crate) unanswered: UnansweredCalls,
    /// Whether it was there once by this definition: then nothing is installed any more.
    pub(crate) was_there: AtomicBool,
    /// Held by anyone who opens a connection to a program that installs itself: two at a time would break its cache.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    /// In which trace the call is made that the next connection is opened for.
    opener: Mutex<Option<RequestTrace>>,
}

// === impl ServerContext ===

impl ServerContext {
    /// Notes in which trace a call is made, where it has to wait for a connection.
    pub(crate) fn note_opener(&self, trace: &RequestTrace) {
        if self.live.load().is_none() {
            *self.opener.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace.clone());
        }
    }

    /// The trace of the call that waits for the connection that is opened now, if one does.
    pub(crate) fn take_opener(&self) -> Option<RequestTrace> {
        self.opener.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A server that has not been started. `known` is its last known inventory. Orders go to the receiver.
    pub(crate) fn new(
        config: ServerConfig,
        deps: ServerDeps,
        known: Option<Inventory>,
    ) -> (Self, mpsc::Receiver<Order>) {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let state = if config.start == Start::Manual { State::Stopped } else { State::Idle };
        let status = Status {
            state,
            since: deps.clock.now(),
            last_error: None,
            timed_out: false,
            next_retry: None,
            restarts: 0,
            listed: known.is_some(),
            note: None,
            half_written: None,
        };
        let was_own = AtomicBool::new(known.as_ref().is_some_and(|known| known.is_own));
        let context = Self {
            was_own,
            eras: Arc::new(Eras::new(config.only, config.nature, Arc::clone(&deps.clock))),
            places: Places::new(config.places.clone()),
            refusals: Refusals::default(),
            own: OwnLists::default(),
            hearing: OwnHearing::default(),
            unanswered: UnansweredCalls::default(),
            was_there: AtomicBool::new(known.is_some()),
            turn: Arc::default(),
            opener: Mutex::default(),
            config,
            deps,
            live: ArcSwapOption::empty(),
            inventory: ArcSwap::from_pointee(known.unwrap_or_default()),
            status: watch::Sender::new(status),
            orders,
            last_success: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            gate: Gate::default(),
            retired: Scope::new(),
            listings: watch::Sender::new(0),
            read_changes: AtomicU64::new(0),
            subscriptions: Arc::default(),
        };
        (context, receiver)
    }

    /// Sends an order to its task.
    pub(crate) fn order(&self, order: Order) {
        // A full queue means that the task is being asked for the same by many; their waits see the outcome.
        let _ = self.orders.try_send(order);
    }

    /// Emits an event of this server.
    pub(crate) async fn emit(&self, event: Event) {
        // The reader ends before us only when everything ends.
        let _ = self.deps.events.send(event).await;
    }

    /// Emits the eras that it speaks.
    pub(crate) async fn emit_nature(&self) {
        self.emit(Event::Nature { server: self.config.name.clone(), nature: self.eras.nature() }).await;
    }

    /// Whether its next start may be a download.
    pub(crate) fn may_install(&self) -> bool {
        self.config.installs.is_some() && !self.was_there.load(Ordering::Relaxed)
    }

    /// Shows what was listed by the main connection from now on.
    pub(crate) fn show(&self, inventory: Arc<Inventory>) {
        if inventory.is_own {
            // Before anyone can see it.
            self.was_own.store(true, Ordering::SeqCst);
        }
        self.inventory.store(inventory);
    }

    /// Whether it may look different to principals.
    pub(crate) fn tells_apart(&self) -> bool {
        let is_remote = matches!(self.config.endpoint, Endpoint::Http(_) | Endpoint::Sse(_));
        self.deps.credentials.is_some() && is_remote
    }

    /// Whether what its main connection lists is its owner's alone.
    pub(crate) fn is_personal(&self) -> bool {
        let says_so = || self.was_own.load(Ordering::SeqCst) || self.status.borrow().state == State::NeedsLogin;
        self.tells_apart() && (self.config.wants_login || says_so())
    }

    /// Whether requests of a principal carry what is its own, so that no connection of another one will do.
    pub(crate) fn proves_own(&self, principal: Option<&str>) -> bool {
        let (Some(credentials), Some(principal)) = (&self.deps.credentials, principal) else { return false };
        self.tells_apart() && credentials.whose(&self.config, Some(principal)) == CredentialHolder::Own
    }

    /// Lists have changed: another connection than the main one reports it.
    pub(crate) fn lists_changed(&self) {
        // A full queue holds such an order already, or one that reads the lists anyway.
        self.order(Order::Changed);
    }

    /// How long the end of a connection may take; `installs` says that its program may have to clean up.
    pub(crate) fn ending(&self, installs: bool) -> Duration {
        let usual = self.deps.grace * 3;
        if installs { usual.max(install::CLOSING + install::CLEAN_UP * 3 / 2) } else { usual }
    }

    /// What an installation left half written, once its program has ended. Reported in the server's status.
    pub(crate) async fn half_written(&self, stderr: Vec<String>) -> Option<HalfWritten> {
        let cache = Arc::clone(&self.config.installs.as_ref()?.cache);
        let half = tokio::task::spawn_blocking(move || cache.half_written(&stderr)).await.ok().flatten();
        let news = half.clone();
        self.status.send_if_modified(|status| {
            let is_news = status.half_written != news;
            status.half_written = news;
            is_news
        });
        half
    }
}
