//! The handle of one server: calls, its state, its inventory, orders to its task.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, Timestamp};
use toolcrib_protocol::{Era, Raw, Revision, RpcError};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::process::GuardCommand;
use toolcrib_transport::{CallHandler, CallOptions, LinkError};

use crate::client::{Client, Key};
use crate::config::{ServerConfig, Start};
use crate::conversation::Conversation;
use crate::credentials::Credentials;
use crate::environment::Environment;
use crate::eras::{Eras, Failure};
use crate::event::Event;
use crate::failure::{Away, CallError};
use crate::gate::Gate;
use crate::inventory::Inventory;
use crate::live::{Live, Said};
use crate::places::Places;
use crate::pool::{self, Lease, NoLease, Pool};
use crate::starts::StartPlaces;
use crate::status::{State, Status};
use crate::subscribe::{self, Subscription, Wishes};
use crate::task::ServerTask;
use crate::unanswered::Unanswered;
use crate::{negotiate, patience};

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
    /// What requests over HTTP prove, for each principal; `None` where the definitions say it all.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Bounds on what servers may send.
    pub limits: Limits,
    /// How long a server may take to end by itself.
    pub grace: Duration,
    /// How many start at a time.
    pub starts: StartPlaces,
}

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
    /// List anew.
    Refresh,
    /// Lists have changed, as another connection tells: list anew once no more such news come.
    Changed,
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

    /// Whether it is of another era than the main connection.
    fn is_beside(&self) -> bool {
        matches!(self, Self::Extra(lease) if lease.beside)
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
    pub handler: Option<Arc<dyn CallHandler>>,
    /// Whether the caller wants progress: then a token is stamped on the request.
    pub wants_progress: bool,
    /// Whether dropping the call tells the server to cancel it. May be set while the call runs.
    pub cancel_on_drop: Arc<AtomicBool>,
    /// Headers for a modern server: what of the arguments is mirrored in them.
    pub headers: HeaderMap,
    /// How much of the time that a call may take is used up already, in the queue for a place.
    pub waited: Duration,
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
    /// Up to which of the changes that it told of its lists were read.
    pub(crate) read_changes: AtomicU64,
    /// What is wanted to be heard of it.
    pub(crate) wishes: Arc<Wishes>,
    /// Connections beside the main one, for legacy clients where the server takes `initialize`.
    pub(crate) pool: Pool,
    /// Which eras it speaks, and whether it asks without saying in which call.
    pub(crate) eras: Arc<Eras>,
    /// How many calls may run, and who is next.
    pub(crate) places: Places,
    /// Calls that were given up and not answered.
    pub(crate) unanswered: Unanswered,
    /// Whether it was there once by this definition: then nothing is installed any more.
    pub(crate) was_there: AtomicBool,
    /// Held by whoever opens a connection to a program that installs itself: two at a time would break its cache.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

// === impl Shared ===

impl Shared {
    /// Tells which eras it speaks.
    pub(crate) async fn tell_nature(&self) {
        let (server, nature) = (self.config.name.clone(), self.eras.nature());
        // The reader ends before us only when everything ends.
        let _ = self.pool.events().send(Event::Nature { server, nature }).await;
    }

    /// How it is. One whose main connection idles is ready as long as it can be called on another one.
    pub(crate) fn seen(&self) -> Status {
        let status = self.status.borrow().clone();
        match self.pool.live_since().filter(|_| status.state == State::Idle) {
            Some(since) => Status { state: State::Ready, since, ..status },
            None => status,
        }
    }

    /// Tells how it is where its main connection, which tells of itself, idles.
    pub(crate) async fn tell_if_idle(&self) {
        if self.status.borrow().state == State::Idle {
            let (server, status) = (self.config.name.clone(), self.seen());
            // The reader ends before us only when everything ends.
            let _ = self.pool.events().send(Event::Status { server, status }).await;
        }
    }

    /// Whether its next start may be a download.
    pub(crate) fn may_install(&self) -> bool {
        self.config.installs.is_some() && !self.was_there.load(Ordering::Relaxed)
    }

    /// Lists have changed, as another connection than the main one tells.
    pub(crate) fn lists_changed(&self) {
        // A full queue holds such an order already, or one that reads the lists anyway.
        let _ = self.orders.try_send(Order::Changed);
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
            timed_out: false,
            next_retry: None,
            restarts: 0,
            listed: known.is_some(),
            note: None,
            half_written: None,
        };
        let wanted = config.start == Start::Eager || (config.start == Start::Lazy && known.is_none());
        let shared = Arc::new(Shared {
            eras: Arc::new(Eras::new(config.only, config.nature, Arc::clone(&around.clock))),
            places: Places::new(config.concurrency),
            unanswered: Unanswered::default(),
            was_there: AtomicBool::new(known.is_some()),
            turn: Arc::default(),
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
            read_changes: AtomicU64::new(0),
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

    /// How it is. One whose main connection idles is ready as long as it can be called on another one.
    pub fn status(&self) -> Status {
        self.shared.seen()
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

    /// The places of the calls that may run. Taken before [`Server::call`] by whoever calls for somebody.
    pub fn places(&self) -> &Places {
        &self.shared.places
    }

    /// How many calls were given up and never answered, by tool, or by method where no tool was called.
    pub fn unanswered(&self) -> Vec<(Arc<str>, usize)> {
        self.shared.unanswered.by_tool()
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

    /// Waits until its lists are those of the connection that calls take, with every change that it has told of up to
    /// now. `false` when that does not happen within the time that connecting and listing may take. One that cannot be
    /// called has nothing to catch up with.
    pub async fn caught_up(&self) -> bool {
        let told = self.shared.wishes.list_changes();
        let is_behind = || {
            let state = self.shared.status.borrow().state;
            let is_read = self.shared.read_changes.load(Ordering::SeqCst) >= told;
            state == State::Idle || state.is_starting() || (state == State::Ready && !is_read)
        };
        if !is_behind() {
            return true;
        }
        let (mut listings, mut status) = (self.shared.listings.subscribe(), self.shared.status.subscribe());
        let reading = async {
            while is_behind() {
                let state = status.borrow_and_update().state;
                listings.borrow_and_update();
                match state {
                    State::Idle => self.order_start(),
                    State::Ready => self.order(Order::Refresh),
                    State::Starting | State::Installing | State::Failed | State::NeedsLogin | State::Stopped => {}
                }
                // Both are cancel-safe. An error: the server was removed, and no call reaches it.
                let ended = tokio::select! {
                    changed = listings.changed() => changed,
                    changed = status.changed() => changed,
                };
                if ended.is_err() {
                    return;
                }
            }
        };
        let timeouts = self.shared.config.timeouts;
        tokio::time::timeout(timeouts.connect + timeouts.list, reading).await.is_ok()
    }

    /// Starts it now if it has failed and waits for its next attempt.
    pub fn order_retry(&self) {
        self.order(Order::Retry);
    }

    /// Keeps it from being installed for as long as the guard lives; nothing while it is being installed.
    pub fn hold_installation(&self) -> Option<impl Drop + use<>> {
        Arc::clone(&self.shared.turn).try_lock_owned().ok()
    }

    /// Waits while it is on the way to another state by itself; how it is then, if there was something to wait for.
    pub async fn settled(&self) -> Option<Status> {
        let mut status = self.shared.status.subscribe();
        // What was never listed is about to be started, unless it starts on request only.
        let starts_by_itself = self.shared.config.start != Start::Manual;
        let is_under_way = |status: &Status| {
            status.state.is_starting() || (status.state == State::Idle && !status.listed && starts_by_itself)
        };
        if !is_under_way(&status.borrow_and_update()) {
            return None;
        }
        let bound = self.shared.config.longest_start() + self.shared.config.timeouts.list;
        let settled = tokio::time::timeout(bound, status.wait_for(|status| !is_under_way(status)));
        let _ = settled.await;
        Some(self.status())
    }

    /// Ends it for good, because its definition was changed or removed.
    pub async fn retire(&self, grace: Duration) {
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

    /// The era in which it is spoken to for a client of era `wanted`; `None` where nothing is known of it.
    pub fn era_for(&self, wanted: Era) -> Option<Era> {
        self.shared.eras.choice(Some(wanted))
    }

    /// Whether it has shown that it speaks an era.
    pub fn speaks(&self, era: Era) -> bool {
        self.shared.eras.speaks(era)
    }

    /// Whether there can be sessions with it: it takes `initialize`, says so, or is not known yet.
    pub fn may_have_sessions(&self) -> bool {
        self.shared.eras.may_have_sessions()
    }

    /// The era of the connection that lists it: the modern one where it speaks that.
    pub fn listing_era(&self) -> Option<Era> {
        self.shared.eras.main()
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
        let opens_anew = forgotten || (doubtful && self.shared.eras.may_doubt());
        if !opens_anew {
            return self.ended(&reached, first);
        }
        let mut other = generation;
        // Beside a main connection of the other era, the next opening finds out whether this one is still spoken.
        let beside = reached.is_beside();
        if doubtful && !beside {
            // Which era it is of now, only the main connection finds out.
            self.shared.eras.forget();
            other = self.shared.live.load().as_ref().map_or(generation, |main| main.generation);
        }
        if reached.is_main() || (doubtful && !beside) {
            // The session, or the era, was agreed on the main connection: it is opened anew, with a probe where needed.
            self.order(Order::Reopen(other, None));
        }
        if doubtful && beside {
            self.shared.pool.discard(generation);
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
        if !self.goes_beside(client) {
            let reached = self.reach_like_main(client, not).await?;
            // Only the main connection finds out that there may be a better one.
            if !reached.live().is_modern() || !self.goes_beside(client) {
                return Ok(reached);
            }
        }
        // Boxed: most servers speak one era, and the future of each call is moved.
        match Box::pin(self.reach_beside(client, not)).await {
            // It does not speak the client's era, or cannot be asked for now: its own will do.
            Err(_) if !self.goes_beside(client) => self.reach_like_main(client, not).await,
            reached => reached,
        }
    }

    /// Whether a client is served in its own era beside a main connection of the other one.
    fn goes_beside(&self, client: &Client) -> bool {
        let eras = &self.shared.eras;
        let main = eras.main();
        main.is_some() && eras.choice(client.wanted_era()) != main
    }

    /// A legacy connection of a client, where the main one is modern.
    async fn reach_beside(&self, client: &Client, not: Option<u64>) -> Result<Reached, CallError> {
        let offered = client.capabilities.within(Revision::LATEST_LEGACY);
        let key = Key::of(self.shared.config.session, client, offered).beside(Era::Legacy);
        self.lease(&key, client, not).await
    }

    /// A connection of the main one's era.
    async fn reach_like_main(&self, client: &Client, not: Option<u64>) -> Result<Reached, CallError> {
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
        let era = self.shared.eras.main();
        let key = match era {
            Some(Era::Modern) if key.environment.is_some() => Key::of_environment(key.environment),
            _ => key,
        };
        // A program runs with one environment, so another one needs another program, of whichever era.
        if key.environment.is_none() && era != Some(Era::Legacy) {
            // One connection serves everybody at a modern server; and which era it is of, the main one finds out.
            let main = self.main(not).await?;
            if main.live().is_modern() {
                return Ok(main);
            }
        }
        self.lease(&key, client, not).await
    }

    /// A connection from the pool.
    async fn lease(&self, key: &Key, client: &Client, not: Option<u64>) -> Result<Reached, CallError> {
        if matches!(self.shared.status.borrow().state, State::Stopped | State::NeedsLogin) {
            return Err(self.away(self.status()));
        }
        let of_handle = |conversation: &Arc<Conversation>| key.handle.as_ref() == Some(conversation.handle());
        let conversation = client.conversation.as_ref().filter(|it| of_handle(it));
        if conversation.is_some_and(|conversation| !conversation.is_in(&client.environment)) {
            return Err(CallError::Ended(self.shared.config.name.clone()));
        }
        let lease = self.shared.pool.lease(&self.shared, key, client, not).await;
        match lease {
            Ok(lease) => Ok(Reached::Extra(lease)),
            Err(NoLease::Ended) => Err(CallError::Ended(self.shared.config.name.clone())),
            Err(NoLease::Full | NoLease::InUse) => {
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
                if key.era.is_some() && self.shared.eras.failed_beside(Failure::Silent) {
                    self.shared.tell_nature().await;
                }
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
        CallError::Away(Box::new(Away { server: self.shared.config.name.clone(), status }))
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
        let limit = self.shared.config.timeouts.call.saturating_sub(call.waited);
        let options = CallOptions {
            deadline: limit,
            handler: call.handler.clone(),
            cancel_on_drop: Arc::clone(&call.cancel_on_drop),
            headers: self.headers(live, call).await?,
            status: None,
        };
        let _running = Running::new(&self.shared.running);
        let outcome = match options.handler.clone() {
            Some(handler) if !live.is_modern() && call.client.capabilities.can_be_asked() => {
                Box::pin(patience::call(live, method, params, &said, (options, handler))).await?
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
            let state = self.shared.status.borrow().state;
            match state {
                State::Failed | State::NeedsLogin | State::Stopped => return Err(away(&self.status())),
                // It may be waiting for its turn: whoever is called goes first.
                State::Starting => self.order_start(),
                State::Idle | State::Installing | State::Ready => {}
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
                } else if now.state.is_away() {
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
                if status.state != State::Installing {
                    status
                        .last_error
                        .get_or_insert_with(|| format!("not connected within {} ms", deadline.as_millis()));
                }
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
