//! The handle of one server: calls, its state, its inventory, orders to its task.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, Timestamp};
use toolcrib_protocol::{Era, Raw, Revision, RpcError};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::process::GuardCommand;
use toolcrib_transport::{Aside, CallOptions, LinkError};

use crate::client::{Client, Key};
use crate::config::{ServerConfig, Start};
use crate::conversation::Conversation;
use crate::credentials::Credentials;
use crate::environment::Environment;
use crate::event::Event;
use crate::failure::{Away, CallError};
use crate::gate::Gate;
use crate::inventory::Inventory;
use crate::live::{Live, Said};
use crate::pool::{self, Lease, NoLease, Pool};
use crate::status::{State, Status};
use crate::subscribe::{self, Subscription, Wishes};
use crate::task::ServerTask;
use crate::{negotiate, patience};

/// How many orders may wait. More are repetitions: every caller that finds the server away orders a start.
const ORDERS: usize = 64;

/// How often an answer may make us doubt the era of a server, in milliseconds.
const DOUBT: i64 = 60_000;

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
    /// What requests over HTTP prove, for each principal; `None` where the definitions say it all.
    pub credentials: Option<Arc<dyn Credentials>>,
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

/// The connection that a call takes.
#[derive(Debug)]
enum Reached {
    Main(Arc<Live>),
    Extra(Lease),
}

impl Reached {
    fn live(&self) -> &Live {
        match self {
            Self::Main(live) => live,
            Self::Extra(lease) => &lease.live,
        }
    }

    fn is_main(&self) -> bool {
        matches!(self, Self::Main(_))
    }

    /// A text about it without secrets.
    fn masked(&self, config: &ServerConfig, text: &str) -> String {
        match self {
            Self::Extra(Lease { environment: Some(environment), .. }) => environment.over(config).masked(text),
            Self::Main(_) | Self::Extra(_) => config.masked(text),
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
    /// For whom it is made.
    pub client: Client,
    /// Takes what the server says in the course of the call; progress has our token still in it.
    pub aside: Option<Arc<dyn Aside>>,
    /// Whether the caller wants progress: then a token is stamped on the request.
    pub wants_progress: bool,
    /// Whether dropping the call tells the server to cancel it. May be set while the call runs.
    pub cancel_on_drop: Arc<AtomicBool>,
    /// Headers for a modern server: what of the arguments is mirrored in them.
    pub headers: HeaderMap,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("wants_progress", &self.wants_progress).finish_non_exhaustive()
    }
}

/// A server. Clones are handles to the same one; its task ends with the scope or with [`Server::retire`].
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
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
    /// Keeps it from being stopped for idling.
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retired: Scope,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    /// Counts the listings that ended well.
    pub(crate) listings: watch::Sender<u64>,
    /// What is wanted to be heard of it.
    pub(crate) wishes: Arc<Wishes>,
    /// Connections beside the main one, where the server is a legacy one.
    pub(crate) pool: Pool,
    /// The era that it was of when it last answered; 0 is unknown.
    era: AtomicU8,
    /// When an answer last made us doubt the era, on the clock; 0 is never.
    doubted: AtomicI64,
    /// Whether it is known to ask without saying in which call.
    pub(crate) asks: Arc<AtomicBool>,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn era(&self) -> Option<Era> {
        match self.era.load(Ordering::Relaxed) {
            1 => Some(Era::Legacy),
            2 => Some(Era::Modern),
            _ => None,
        }
    }

    /// Remembers the era; `true` when that is news.
    pub(crate) fn set_era(&self, era: Option<Era>) -> bool {
        let place = place_of(era);
        self.era.swap(place, Ordering::Relaxed) != place
    }

    /// Whether an answer may make us doubt the era by now; not more often than once a minute.
    fn may_doubt(&self) -> bool {
        let now = self.clock.now().0;
        let last = self.doubted.load(Ordering::Relaxed);
        let long_ago = last == 0 || now.saturating_sub(last) >= DOUBT;
        long_ago && self.doubted.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Has the lists read anew.
    pub(crate) fn refresh(&self) {
        // A full queue holds such an order already, or one that reads the lists anyway.
        let _ = self.orders.try_send(Order::Refresh);
    }
}

fn place_of(era: Option<Era>) -> u8 {
    match era {
        None => 0,
        Some(Era::Legacy) => 1,
        Some(Era::Modern) => 2,
    }
}

// === impl Server ===

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
            era: AtomicU8::new(place_of(config.nature.era)),
            doubted: AtomicI64::new(0),
            asks: Arc::new(AtomicBool::new(config.nature.asks)),
            config,
            live: ArcSwapOption::empty(),
            inventory: ArcSwap::from_pointee(known.unwrap_or_default()),
            status: watch::Sender::new(status),
            orders,
            last_success: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            gate: Gate::default(),
            clock: Arc::clone(&around.clock),
            retired: Scope::new(),
            credentials: around.credentials.clone(),
            listings: watch::Sender::new(0),
            wishes: Arc::default(),
            pool: Pool::new(around.clone()),
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
        self.shared.pool.clear();
        self.order(Order::Restart);
    }

    /// Stops it until somebody starts it.
    pub fn order_stop(&self) {
        self.shared.pool.clear();
        self.order(Order::Stop);
    }

    /// Lists it anew.
    pub fn order_refresh(&self) {
        self.order(Order::Refresh);
    }

    /// Has it listed anew and waits for that; `None` when it does not happen within the time that lists may take.
    pub async fn listed_again(&self) -> Option<Arc<Inventory>> {
        let mut listings = self.shared.listings.subscribe();
        listings.borrow_and_update();
        self.order(Order::Refresh);
        tokio::time::timeout(self.shared.config.timeouts.list, listings.changed()).await.ok()?.ok()?;
        Some(self.inventory())
    }

    /// Ends it for good, because its definition was changed or removed.
    pub async fn retire(&self, grace: std::time::Duration) {
        self.shared.retired.close(grace).await;
    }

    fn order(&self, order: Order) {
        // A full queue means that the task is being asked for the same by many; their waits see the outcome.
        let _ = self.shared.orders.try_send(order);
    }

    /// Ends what belongs to a session that has ended.
    pub fn forget_session(&self, session: &str) {
        self.shared.pool.forget_session(session);
    }

    /// Tells the servers' ends of a session's own connections that its client's roots have changed.
    pub fn roots_changed(&self, session: &str) {
        self.shared.pool.roots_changed(session);
    }

    /// Wishes to hear of a resource's changes, and of those of what lies below it, for as long as the guard lives. They
    /// come as [`Event::ResourceUpdated`]. A server that idles is started.
    pub fn subscribe(&self, uri: &str) -> Subscription {
        self.hold(subscribe::Kind::Resource, uri)
    }

    /// Wishes to hear of a task's changes for as long as the guard lives. They come as [`Event::TaskChanged`].
    pub fn watch_task(&self, task: &str) -> Subscription {
        self.hold(subscribe::Kind::Task, task)
    }

    fn hold(&self, kind: subscribe::Kind, key: &str) -> Subscription {
        let held = self.shared.wishes.hold(kind, key);
        if self.shared.status.borrow().state == State::Idle {
            self.order_start();
        }
        held
    }

    /// A profile's environment is another one now, or none: what runs with it ends when it is not in use any more.
    pub fn retire_environment(&self, environment: &Environment) {
        self.shared.pool.retire(environment);
    }

    /// Whether both are handles to the same connections.
    pub fn is_same(&self, other: &Server) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Ends a conversation: calls that run in it fail, others are refused.
    pub fn end(&self, conversation: &Conversation) {
        self.shared.pool.end(conversation);
    }

    /// How many connections it has beside its main one.
    pub fn extra_connections(&self) -> usize {
        self.shared.pool.len()
    }

    /// Whether it is known to be stateless: then everything that a call needs travels with it.
    pub fn is_modern(&self) -> bool {
        self.shared.era() == Some(Era::Modern)
    }

    /// Makes a call, starting the server first when it idles.
    ///
    /// `params` must not carry reserved `_meta` keys of another hop's; they are stripped and stamped here. A call that
    /// may have run is never repeated; one that the server refused because it forgot the session, or because it is of
    /// another era now, is, once.
    pub async fn call(&self, method: &str, params: &Raw, call: Call) -> Result<Result<Raw, RpcError>, CallError> {
        let _inside = self.shared.gate.enter();
        let reached = self.reach(&call.client, None).await?;
        let first = self.call_on(&reached, method, params, &call).await;
        let generation = reached.live().generation;
        let forgotten = matches!(first, Err(LinkError::SessionLost));
        let doubtful = !forgotten && self.speaks_of_another_era(&reached, &first);
        // An address that answers like this each time must not be opened anew each time.
        let opens_anew = forgotten || (doubtful && self.shared.may_doubt());
        if !opens_anew {
            return self.ended(&reached, first);
        }
        let mut other = generation;
        if doubtful {
            // Which era it is of now, only the main connection finds out.
            self.shared.set_era(None);
            other = self.shared.live.load().as_ref().map_or(generation, |main| main.generation);
        }
        if reached.is_main() || doubtful {
            // The session, or the era, was agreed on the main connection: it is opened anew, with a probe where needed.
            self.order(Order::Reopen(other, None));
        }
        if doubtful && first.is_ok() {
            // The server answered, so the call may have run: the next one is made in whatever era it is of then.
            return self.ended(&reached, first);
        }
        let was_modern = reached.live().is_modern();
        drop(reached);
        let reached = self.reach(&call.client, Some(other)).await?;
        if doubtful && reached.live().is_modern() == was_modern {
            return self.ended(&reached, first);
        }
        let again = self.call_on(&reached, method, params, &call).await;
        self.ended(&reached, again)
    }

    /// Whether an answer over HTTP shows that the server may be of another era now. A program is of one as long as it runs.
    fn speaks_of_another_era(&self, reached: &Reached, outcome: &Result<Result<Raw, RpcError>, LinkError>) -> bool {
        let modern = reached.live().is_modern();
        match outcome {
            _ if reached.live().link.is_ordered() => false,
            // A legacy server gets a session, and refuses a request without one (2025-11-25, basic/transports).
            Err(LinkError::Status { status: 400 | 404 | 405 | 406, .. }) => modern,
            Ok(Err(error)) if modern => negotiate::speaks_of_legacy_rules(error),
            Ok(Err(error)) => negotiate::speaks_of_modern_rules(error),
            _ => false,
        }
    }

    fn ended(
        &self,
        reached: &Reached,
        outcome: Result<Result<Raw, RpcError>, LinkError>,
    ) -> Result<Result<Raw, RpcError>, CallError> {
        let error = match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        if let LinkError::Unreachable(why) = &error
            && reached.is_main()
        {
            self.order(Order::Reopen(reached.live().generation, Some(why.clone())));
        }
        let masked = |text: String| reached.masked(&self.shared.config, &text);
        let error = match error {
            LinkError::Status { status, body, challenge } => {
                LinkError::Status { status, body: masked(body), challenge: challenge.map(masked) }
            }
            LinkError::NotMcp(what) => LinkError::NotMcp(masked(what)),
            other => other,
        };
        Err(CallError::Link { server: self.shared.config.name.clone(), error })
    }

    /// The connection that a client's calls take. `not` is one that turned out to be of no use any more.
    async fn reach(&self, client: &Client, not: Option<u64>) -> Result<Reached, CallError> {
        let policy = self.shared.config.session;
        let offered = client.capabilities.within(Revision::LATEST_LEGACY);
        if client.is_owner(policy) && offered == self.shared.config.declares && offered.is_none() {
            // What most calls are, without making a key for each.
            return self.main(not).await;
        }
        let key = Key::of(policy, client, offered);
        if key.is_main(&self.shared.config.declares) {
            return self.main(not).await;
        }
        let key = match self.shared.era() {
            Some(Era::Modern) if key.environment.is_some() => Key::of_environment(key.environment),
            _ => key,
        };
        // A program runs with one environment, so another one needs another program, of whichever era.
        if key.environment.is_none() && self.shared.era() != Some(Era::Legacy) {
            // One connection serves everybody at a modern server; and which era it is of, the main one finds out.
            let main = self.main(not).await?;
            if main.live().is_modern() {
                return Ok(main);
            }
        }
        if matches!(self.status().state, State::Stopped) {
            return Err(self.away(self.status()));
        }
        let of_handle = |conversation: &Arc<Conversation>| key.handle.as_ref() == Some(conversation.handle());
        let conversation = client.conversation.as_ref().filter(|it| of_handle(it));
        if conversation.is_some_and(|conversation| !conversation.is_in(&client.environment)) {
            return Err(CallError::Ended(self.shared.config.name.clone()));
        }
        let lease = self.shared.pool.lease(&self.shared, &key, client, not).await;
        match lease {
            Ok(lease) => Ok(Reached::Extra(lease)),
            Err(NoLease::Ended) => Err(CallError::Ended(self.shared.config.name.clone())),
            Err(NoLease::Full) => {
                Err(self.full(format!("{} connections to it are open, which is the limit", pool::MOST)))
            }
            Err(NoLease::Crowded) => {
                Err(self.full(format!("{} sessions with it are open, which is the limit", pool::CONVERSATIONS)))
            }
            Err(NoLease::Busy) => {
                Err(self.full("other calls of this session wait for answers of the client".to_owned()))
            }
            Err(NoLease::Failed(why)) => {
                Err(self.no_own(format!("a connection of its own for this client failed: {why}")))
            }
            Err(NoLease::Timeout) => {
                Err(self.no_own("a connection of its own for this client was not opened in time".to_owned()))
            }
        }
    }

    fn full(&self, why: String) -> CallError {
        CallError::Full { server: self.shared.config.name.clone(), why }
    }

    fn no_own(&self, why: String) -> CallError {
        self.away(Status { last_error: Some(why), ..self.status() })
    }

    async fn main(&self, not: Option<u64>) -> Result<Reached, CallError> {
        match self.shared.live.load_full() {
            Some(live) if Some(live.generation) != not && !self.shared.gate.is_closed() => Ok(Reached::Main(live)),
            _ => Ok(Reached::Main(self.connected(not).await?)),
        }
    }

    fn away(&self, status: Status) -> CallError {
        CallError::Away(Away { server: self.shared.config.name.clone(), status })
    }

    async fn call_on(
        &self,
        reached: &Reached,
        method: &str,
        params: &Raw,
        call: &Call,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        let live = reached.live();
        let said = Said {
            capabilities: &call.client.capabilities,
            level: call.client.level,
            wants_progress: call.wants_progress,
        };
        let limit = self.shared.config.timeouts.call;
        let options = CallOptions {
            deadline: limit,
            aside: call.aside.clone(),
            cancel_on_drop: Arc::clone(&call.cancel_on_drop),
            headers: self.headers(live, call).await?,
            status: None,
        };
        let _running = Running::new(&self.shared.running);
        let outcome = match options.aside.clone() {
            Some(aside) if !live.is_modern() && call.client.capabilities.can_be_asked() => {
                Box::pin(patience::call(live, method, params, &said, (options, aside))).await?
            }
            _ => live.call(method, params, &said, options).await?,
        };
        self.shared.last_success.store(self.shared.clock.now().0.unsigned_abs(), Ordering::Relaxed);
        Ok(outcome)
    }

    /// The headers of one request: what proves for whom it is, and what of its arguments is mirrored.
    async fn headers(&self, live: &Live, call: &Call) -> Result<HeaderMap, LinkError> {
        let mirrored = || if live.is_modern() { call.headers.clone() } else { HeaderMap::new() };
        let Some(credentials) = self.shared.credentials.as_ref().filter(|_| !live.link.is_ordered()) else {
            return Ok(mirrored());
        };
        let name = &self.shared.config.name;
        let proof = credentials.headers(name, call.client.principal.as_deref());
        let proven = tokio::time::timeout(self.shared.config.timeouts.connect, proof).await;
        // Nothing was sent, as when there is nobody to connect to.
        let mut headers = match proven {
            Ok(Ok(headers)) => headers,
            Ok(Err(why)) => return Err(LinkError::Unproven(why)),
            Err(_) => return Err(LinkError::Unproven("no credential in time".into())),
        };
        headers.extend(mirrored());
        Ok(headers)
    }

    /// Waits for a connection other than the one of generation `not`, starting the server if need be.
    async fn connected(&self, not: Option<u64>) -> Result<Arc<Live>, CallError> {
        let mut status = self.shared.status.subscribe();
        let away = |status: &Status| self.away(status.clone());
        if not.is_none() {
            let state = self.status().state;
            match state {
                State::Failed | State::Stopped => return Err(away(&self.status())),
                State::Idle | State::Starting | State::Ready => {}
            }
        }
        let deadline = self.shared.config.timeouts.connect;
        let waiting = async {
            loop {
                let now = status.borrow_and_update().clone();
                let live = self.shared.live.load_full().filter(|_| !self.shared.gate.is_closed());
                if let Some(live) = live {
                    if Some(live.generation) != not {
                        return Ok(live);
                    }
                } else if matches!(now.state, State::Failed | State::Stopped) {
                    return Err(away(&now));
                } else if now.state == State::Idle {
                    self.order_start();
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
