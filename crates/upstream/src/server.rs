//! The handle of one server: calls, its state, its inventory, orders to its task.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Limits, ServerName, Timestamp};
use toolcrib_protocol::{Raw, RpcError, convert};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::process::GuardCommand;
use toolcrib_transport::{Aside, CallOptions, LinkError};

use crate::config::{ServerConfig, Start};
use crate::event::Event;
use crate::inventory::Inventory;
use crate::open::Live;
use crate::status::{State, Status};
use crate::task::ServerTask;

/// How many orders may wait. More are repetitions: every caller that finds the server away orders a start.
const ORDERS: usize = 64;

/// What servers share.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The pool of HTTP connections.
    pub client: HttpClient,
    /// Tells the time of changes.
    pub clock: Arc<dyn Clock>,
    /// Takes what happens. Must be read at all times.
    pub events: mpsc::Sender<Event>,
    /// How child processes are guarded; `None` in tests.
    pub guard: Option<GuardCommand>,
    /// Bounds on what servers may send.
    pub limits: Limits,
    /// How long a server may take to end by itself.
    pub grace: std::time::Duration,
}

/// What callers order of the task.
#[derive(Debug)]
pub(crate) enum Order {
    /// Start unless it runs or waits for its next attempt.
    Start,
    /// Start now, whatever it is doing.
    Restart,
    /// Stop and stay stopped.
    Stop,
    /// The connection of this generation is of no use any more: open a new one, after a wait if this failure is named.
    Reopen(u64, Option<String>),
    /// List anew.
    Refresh,
}

/// Why a server cannot be called: which, since when, what failed, when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The server.
    pub server: ServerName,
    /// How it is.
    pub status: Status,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server `{}` is {} since {}", self.server, self.status.state.as_str(), self.status.since)?;
        if let Some(error) = &self.status.last_error {
            write!(f, ", last error: {error}")?;
        }
        if let Some(next) = self.status.next_retry {
            write!(f, ", next attempt at {next}")?;
        }
        Ok(())
    }
}

/// Why a call has no answer from the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no connection; the call has not run.
    #[error("{0}")]
    Away(Away),
    /// The connection gave no answer; see [`LinkError`] for whether the call may have run.
    #[error("server `{server}`: {error}")]
    Link {
        /// The server.
        server: ServerName,
        /// What happened.
        error: LinkError,
    },
}

impl CallError {
    /// The kind of error, for its code and its record.
    pub fn kind(&self) -> Kind {
        match self {
            CallError::Away(_) => Kind::Unavailable,
            CallError::Link { error, .. } => match error {
                LinkError::Timeout(_) => Kind::Timeout,
                LinkError::NotMcp(_) | LinkError::Status { .. } => Kind::BadServer,
                LinkError::Closed | LinkError::Unreachable(_) | LinkError::Broken(_) | LinkError::SessionLost => {
                    Kind::Unavailable
                }
            },
        }
    }
}

/// What both attempts of a call share.
struct Attempt {
    aside: Option<Arc<dyn Aside>>,
    wants_progress: bool,
    cancel_on_drop: Arc<AtomicBool>,
}

impl From<Call> for Attempt {
    fn from(call: Call) -> Self {
        Self { aside: call.aside, wants_progress: call.wants_progress, cancel_on_drop: call.cancel_on_drop }
    }
}

impl Attempt {
    fn options(&self, deadline: std::time::Duration) -> CallOptions {
        CallOptions {
            deadline,
            aside: self.aside.clone(),
            cancel_on_drop: Arc::clone(&self.cancel_on_drop),
            ..CallOptions::default()
        }
    }
}

/// Counts a call as running until it is dropped.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One call.
#[derive(Default)]
pub struct Call {
    /// Takes what the server says in the course of the call; progress has our token still in it.
    pub aside: Option<Arc<dyn Aside>>,
    /// Whether the caller wants progress: then a token is stamped on the request.
    pub wants_progress: bool,
    /// Whether dropping the call tells the server to cancel it. May be set while the call runs.
    pub cancel_on_drop: Arc<AtomicBool>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("wants_progress", &self.wants_progress).finish_non_exhaustive()
    }
}

/// A server. Clones are handles to the same one; its task ends with the scope or with [`Server::retire`].
#[derive(Debug, Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) live: ArcSwapOption<Live>,
    pub(crate) inventory: ArcSwap<Inventory>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) orders: mpsc::Sender<Order>,
    /// When a call last succeeded, on the clock.
    pub(crate) last_success: AtomicU64,
    /// How many calls wait for their answers.
    pub(crate) running: AtomicUsize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retired: Scope,
}

impl Server {
    /// Starts the server's task in `scope`. `known` is its last known inventory, served until it is listed anew.
    pub fn start(config: ServerConfig, around: Surroundings, known: Option<Inventory>, scope: &Scope) -> Self {
        let (orders, orders_rx) = mpsc::channel(ORDERS);
        let state = if config.start == Start::Manual { State::Stopped } else { State::Idle };
        let status = Status {
            state,
            since: around.clock.now(),
            last_error: None,
            next_retry: None,
            restarts: 0,
            listed: known.is_some(),
        };
        let wanted = config.start == Start::Eager || (config.start == Start::Lazy && known.is_none());
        let shared = Arc::new(Shared {
            config,
            live: ArcSwapOption::empty(),
            inventory: ArcSwap::from_pointee(known.unwrap_or_default()),
            status: watch::Sender::new(status),
            orders,
            last_success: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            clock: Arc::clone(&around.clock),
            retired: Scope::new(),
        });
        let task = ServerTask::new(Arc::clone(&shared), around, wanted);
        scope.spawn(task.run(orders_rx, scope.stop_signal()));
        Self { shared }
    }

    /// What it was started with.
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.shared.status.borrow().clone()
    }

    /// Waits for changes of its state.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// What it offers, as far as is known.
    pub fn inventory(&self) -> Arc<Inventory> {
        self.shared.inventory.load_full()
    }

    /// How many calls run at this moment.
    pub fn running(&self) -> usize {
        self.shared.running.load(Ordering::Relaxed)
    }

    /// Starts it unless it runs.
    pub fn order_start(&self) {
        self.order(Order::Start);
    }

    /// Starts it anew.
    pub fn order_restart(&self) {
        self.order(Order::Restart);
    }

    /// Stops it until somebody starts it.
    pub fn order_stop(&self) {
        self.order(Order::Stop);
    }

    /// Lists it anew.
    pub fn order_refresh(&self) {
        self.order(Order::Refresh);
    }

    /// Ends it for good, because its definition was changed or removed.
    pub async fn retire(&self, grace: std::time::Duration) {
        self.shared.retired.close(grace).await;
    }

    fn order(&self, order: Order) {
        // A full queue means that the task is being asked for the same by many; their waits see the outcome.
        let _ = self.shared.orders.try_send(order);
    }

    /// Makes a call, starting the server first when it idles.
    ///
    /// `params` must not carry reserved `_meta` keys of another hop's; they are stripped and stamped here. A call that
    /// may have run is never repeated; one that the server refused because it forgot the session is, once.
    pub async fn call(&self, method: &str, params: &Raw, call: Call) -> Result<Result<Raw, RpcError>, CallError> {
        let live = match self.shared.live.load_full() {
            Some(live) => live,
            None => self.connected(None).await?,
        };
        let attempt = Attempt::from(call);
        let first = self.call_on(&live, method, params, &attempt).await;
        let error = match first {
            Ok(outcome) => return Ok(outcome),
            Err(LinkError::SessionLost) => {
                self.order(Order::Reopen(live.generation, None));
                let live = self.connected(Some(live.generation)).await?;
                match self.call_on(&live, method, params, &attempt).await {
                    Ok(outcome) => return Ok(outcome),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if let LinkError::Unreachable(why) = &error {
            self.order(Order::Reopen(live.generation, Some(why.clone())));
        }
        let masked = |text: String| self.shared.config.masked(&text);
        let error = match error {
            LinkError::Status { status, body, challenge } => {
                LinkError::Status { status, body: masked(body), challenge: challenge.map(masked) }
            }
            LinkError::NotMcp(what) => LinkError::NotMcp(masked(what)),
            other => other,
        };
        Err(CallError::Link { server: self.shared.config.name.clone(), error })
    }

    async fn call_on(
        &self,
        live: &Live,
        method: &str,
        params: &Raw,
        attempt: &Attempt,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        let id = live.link.next_id();
        let params = convert::params_for(live.revision, params, attempt.wants_progress.then_some(id));
        let options = attempt.options(self.shared.config.timeouts.call);
        let _running = Running::new(&self.shared.running);
        let outcome = live.link.call(id, method, params, options).await?;
        self.shared.last_success.store(self.shared.clock.now().0.unsigned_abs(), Ordering::Relaxed);
        Ok(outcome)
    }

    /// Waits for a connection other than the one of generation `not`, starting the server if need be.
    async fn connected(&self, not: Option<u64>) -> Result<Arc<Live>, CallError> {
        let mut status = self.shared.status.subscribe();
        let away =
            |status: &Status| CallError::Away(Away { server: self.shared.config.name.clone(), status: status.clone() });
        if not.is_none() {
            let state = self.status().state;
            match state {
                State::Failed | State::Stopped => return Err(away(&self.status())),
                State::Idle => self.order_start(),
                State::Starting | State::Ready => {}
            }
        }
        let deadline = self.shared.config.timeouts.connect;
        let waiting = async {
            loop {
                let now = status.borrow_and_update().clone();
                if let Some(live) = self.shared.live.load_full() {
                    if Some(live.generation) != not {
                        return Ok(live);
                    }
                } else if matches!(now.state, State::Failed | State::Stopped) {
                    return Err(away(&now));
                }
                if status.changed().await.is_err() {
                    return Err(away(&now));
                }
            }
        };
        match tokio::time::timeout(deadline, waiting).await {
            Ok(connected) => connected,
            Err(_) => {
                let mut status = self.status();
                status.last_error.get_or_insert_with(|| format!("not connected within {} ms", deadline.as_millis()));
                Err(away(&status))
            }
        }
    }

    /// The time of the last success on the clock, where there was one.
    pub fn last_success(&self) -> Option<Timestamp> {
        match self.shared.last_success.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))),
        }
    }
}
