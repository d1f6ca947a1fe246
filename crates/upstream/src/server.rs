//! The handle of one server: calls, its state, its inventory, orders to its task.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use toolcrib_base::task::Scope;
use toolcrib_base::{SessionName, Timestamp};
use toolcrib_protocol::{Era, Raw, Revision, RpcError};
use toolcrib_transport::LinkError;

use crate::call::Call;
use crate::client::{Client, ConnectionKey};
use crate::config::{ServerConfig, SessionPolicy, Start};
use crate::context::{Order, ServerContext};
use crate::conversation::Conversation;
use crate::deps::ServerDeps;
use crate::environment::Environment;
use crate::eras::Failure;
use crate::event::Event;
use crate::failure::{CallError, ServerUnavailable};
use crate::inventory::Inventory;
use crate::live::LiveConnection;
use crate::negotiate;
use crate::part::OwnPart;
use crate::places::Places;
use crate::pool::{self, Lease, LeaseError, Pool};
use crate::refusals::Refusals;
use crate::request::CallRequest;
use crate::status::{State, Status};
use crate::subscribe::{self, Subscription};
use crate::task::ServerTask;

/// The connection that a call takes.
#[derive(Debug)]
pub(crate) enum CallConnection {
    Main(Arc<LiveConnection>),
    Extra(Lease),
}

impl CallConnection {
    pub(crate) fn live(&self) -> &LiveConnection {
        match self {
            Self::Main(live) => live,
            Self::Extra(lease) => &lease.live,
        }
    }

    pub(crate) fn shared_live(&self) -> &Arc<LiveConnection> {
        match self {
            Self::Main(live) => live,
            Self::Extra(lease) => &lease.live,
        }
    }

    /// Waits until it is no more.
    pub(crate) async fn ended(&self, context: &ServerContext) {
        let live = match self {
            Self::Main(live) => live,
            Self::Extra(lease) => return lease.ended().await,
        };
        let mut status = context.status.subscribe();
        let is_there = || context.live.load().as_ref().is_some_and(|now| now.generation == live.generation);
        while is_there() && status.changed().await.is_ok() {}
    }

    /// What the server said of itself when the connection was opened, where that is this client's own.
    pub(crate) fn bare(&self) -> Option<Inventory> {
        match self {
            Self::Main(_) => None,
            Self::Extra(lease) => lease.bare(),
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

/// A server. Clones are handles to the same one; its task ends with the scope or with [`Server::retire`].
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) context: Arc<ServerContext>,
    /// Connections beside the main one, for legacy clients where the server takes `initialize`.
    pub(crate) pool: Arc<Pool>,
    /// What a principal sees of it; `None` is what everyone does.
    pub(crate) part: Option<Arc<OwnPart>>,
}

// === impl Server ===

impl Server {
    /// Starts the server's task in `scope`. `known` is its last known inventory, served until it is listed again.
    pub fn start(config: ServerConfig, deps: ServerDeps, known: Option<Inventory>, scope: &Scope) -> Self {
        let wanted = config.start == Start::Eager || (config.start == Start::Lazy && known.is_none());
        let (context, orders) = ServerContext::new(config, deps, known);
        let context = Arc::new(context);
        let pool = Arc::new(Pool::new(Arc::clone(&context)));
        let task = ServerTask::new(Arc::clone(&context), Arc::clone(&pool), wanted);
        scope.spawn(task.run(orders, scope.stop_signal()));
        Self { context, pool, part: None }
    }

    /// What it was started with.
    pub fn config(&self) -> &ServerConfig {
        &self.context.config
    }

    /// How it is. One whose main connection idles is ready as long as it can be called on another one.
    pub fn status(&self) -> Status {
        let status = self.pool.status();
        match &self.part {
            None => status,
            Some(part) => part.over(status),
        }
    }

    /// Waits for changes of its state.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.context.status.subscribe()
    }

    /// What it offers, as far as is known, and as far as this handle's principal may see it.
    pub fn inventory(&self) -> Arc<Inventory> {
        self.part.as_ref().map_or_else(|| self.main_inventory(), |part| Arc::clone(part.inventory()))
    }

    /// What its main connection lists.
    pub(crate) fn main_inventory(&self) -> Arc<Inventory> {
        self.context.inventory.load_full()
    }

    /// Starts a task that ends with its connections.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.pool.spawn(task);
    }

    /// Ends the connections that carry the credential of a principal.
    pub(crate) fn forget_connections(&self, principal: &str) {
        self.pool.forget_principal(principal);
    }

    /// How many calls run at this moment.
    pub fn running(&self) -> usize {
        self.context.running.load(Ordering::Relaxed)
    }

    /// The places of the calls that may run. Taken before [`Server::call`] by anyone who calls for someone.
    pub fn places(&self) -> &Places {
        &self.context.places
    }

    /// How often its limits were met. Counted by anyone who keeps to them.
    pub fn refusals(&self) -> &Refusals {
        &self.context.refusals
    }

    /// How many calls were given up and never answered, by tool, or by method where no tool was called.
    pub fn unanswered(&self) -> Vec<(Arc<str>, usize)> {
        self.context.unanswered.by_tool()
    }

    /// Starts it unless it runs.
    pub fn order_start(&self) {
        self.context.order(Order::Start);
    }

    /// Restarts it.
    pub fn order_restart(&self) {
        self.pool.clear();
        self.context.order(Order::Restart);
    }

    /// Has the next call of a principal try again what failed a moment ago: the principal has another credential now.
    pub fn retry_for(&self, principal: Option<&str>) {
        self.pool.forget_failed(principal);
    }

    /// Restarts it with the credential that its owner has by now. The connections of others stay.
    pub fn owner_changed(&self) {
        self.pool.forget_owner();
        self.context.order(Order::Restart);
    }

    /// Forgets what it listed, until it is listed again: what a login showed is nobody's after it.
    pub async fn forget_lists(&self) {
        let inventory = Arc::<Inventory>::default();
        self.context.show(Arc::clone(&inventory));
        self.context.emit(Event::Inventory { server: self.context.config.name.clone(), inventory }).await;
    }

    /// Stops it until someone starts it.
    pub fn order_stop(&self) {
        self.pool.clear();
        self.context.order(Order::Stop);
    }

    /// Lists it again.
    pub fn order_refresh(&self) {
        self.context.order(Order::Refresh);
    }

    /// Has it listed again and waits for that; `None` when it does not happen within the time that lists may take.
    pub async fn listed_again(&self) -> Option<Arc<Inventory>> {
        let mut listings = self.context.listings.subscribe();
        listings.borrow_and_update();
        self.context.order(Order::Refresh);
        tokio::time::timeout(self.context.config.timeouts.list, listings.changed()).await.ok()?.ok()?;
        Some(self.inventory())
    }

    /// Waits until its lists are those of the connection that calls take, with every change that it has told of up to
    /// now. `false` when that does not happen within the time that connecting and listing may take. One that cannot be
    /// called has nothing to catch up with.
    pub async fn caught_up(&self) -> bool {
        let told = self.context.subscriptions.list_changes();
        let is_behind = || {
            let state = self.context.status.borrow().state;
            let is_read = self.context.read_changes.load(Ordering::SeqCst) >= told;
            state == State::Idle || state.is_starting() || (state == State::Ready && !is_read)
        };
        if !is_behind() {
            return true;
        }
        let (mut listings, mut status) = (self.context.listings.subscribe(), self.context.status.subscribe());
        let reading = async {
            while is_behind() {
                let state = status.borrow_and_update().state;
                listings.borrow_and_update();
                match state {
                    State::Idle => self.order_start(),
                    State::Ready => self.context.order(Order::Refresh),
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
        let timeouts = self.context.config.timeouts;
        tokio::time::timeout(timeouts.connect + timeouts.list, reading).await.is_ok()
    }

    /// Starts it now if it has failed and waits for its next attempt.
    pub fn order_retry(&self) {
        self.context.order(Order::Retry);
    }

    /// Keeps it from being installed for as long as the guard lives; nothing while it is being installed.
    pub fn hold_installation(&self) -> Option<impl Drop + use<>> {
        Arc::clone(&self.context.turn).try_lock_owned().ok()
    }

    /// Waits while it is on the way to another state by itself; how it is then, if there was something to wait for.
    pub async fn settled(&self) -> Option<Status> {
        let mut status = self.context.status.subscribe();
        // What was never listed is about to be started, unless it starts on request only.
        let starts_by_itself = self.context.config.start != Start::Manual;
        let is_under_way = |status: &Status| {
            status.state.is_starting() || (status.state == State::Idle && !status.listed && starts_by_itself)
        };
        if !is_under_way(&status.borrow_and_update()) {
            return None;
        }
        let bound = self.context.config.longest_start() + self.context.config.timeouts.list;
        let settled = tokio::time::timeout(bound, status.wait_for(|status| !is_under_way(status)));
        let _ = settled.await;
        Some(self.status())
    }

    /// Ends it permanently, because its definition was changed or removed.
    pub async fn retire(&self, grace: Duration) {
        self.context.retired.close(grace).await;
    }

    /// Ends what belongs to a session that has ended.
    pub fn forget_session(&self, session: &SessionName) {
        self.pool.forget_session(session);
    }

    /// Tells the servers' ends of a session's own connections that its client's roots have changed.
    pub fn roots_changed(&self, session: &SessionName) {
        self.pool.roots_changed(session);
    }

    /// Watches a resource and what is below it until the last clone of the subscription is dropped. Changes
    /// come as [`Event::ResourceUpdated`]. A server that idles is started. `hearer` is what [`Server::hearer`] gives.
    pub fn subscribe(&self, hearer: Option<&str>, uri: &str) -> Subscription {
        self.watch_for(hearer, subscribe::Kind::Resource, uri)
    }

    /// Watches a task until the last clone of the subscription is dropped. Changes come as
    /// [`Event::TaskChanged`].
    pub fn watch_task(&self, hearer: Option<&str>, task: &str) -> Subscription {
        self.watch_for(hearer, subscribe::Kind::Task, task)
    }

    pub(crate) fn watch(&self, kind: subscribe::Kind, key: &str) -> Subscription {
        let subscription = self.context.subscriptions.subscribe(kind, key);
        if self.context.status.borrow().state == State::Idle {
            self.order_start();
        }
        subscription
    }

    /// A profile's environment is another one now, or none: what runs with it ends when it is not in use any more.
    pub fn retire_environment(&self, environment: &Environment) {
        self.pool.retire(environment);
    }

    /// Whether both are handles to the same connections.
    pub fn is_same(&self, other: &Server) -> bool {
        Arc::ptr_eq(&self.context, &other.context)
    }

    /// Ends a conversation: calls that run in it fail, others are refused.
    pub fn end(&self, conversation: &Conversation) {
        self.pool.end(conversation);
    }

    /// How many connections it has beside its main one.
    pub fn extra_connections(&self) -> usize {
        self.pool.len()
    }

    /// The era in which it is spoken to for a client of era `wanted`; `None` where nothing is known of it.
    pub fn era_for(&self, wanted: Era) -> Option<Era> {
        self.context.eras.choice(Some(wanted))
    }

    /// Whether it has shown that it speaks an era.
    pub fn speaks(&self, era: Era) -> bool {
        self.context.eras.speaks(era)
    }

    /// Whether there can be sessions with it: it takes `initialize`, says so, or is not known yet.
    pub fn may_have_sessions(&self) -> bool {
        self.context.eras.may_have_sessions()
    }

    /// The era of the connection that lists it: the modern one where it speaks that.
    pub fn listing_era(&self) -> Option<Era> {
        self.context.eras.main()
    }

    /// Makes a call, starting the server first when it idles.
    ///
    /// `params` must not carry reserved `_meta` keys of another hop's; they are stripped and stamped here. A call that
    /// may have run is never repeated; one that the server refused because it forgot the session, or because it is of
    /// another era now, is, once.
    pub async fn call(&self, method: &str, params: &Raw, call: Call) -> Result<Result<Raw, RpcError>, CallError> {
        let _inside = self.context.gate.enter();
        if call.trace.context.is_some() {
            self.context.note_opener(&call.trace);
        }
        let reached = self.reach(&call.client, None).await?;
        let first = self.request(&reached, method, params, &call).send().await;
        let generation = reached.live().generation;
        let forgotten = matches!(first, Err(LinkError::SessionLost));
        let doubtful = !forgotten && self.speaks_of_another_era(&reached, &first);
        // An address that answers like this each time must not be reopened each time.
        let reopens = forgotten || (doubtful && self.context.eras.may_doubt());
        if !reopens {
            return self.ended(&reached, first);
        }
        let mut other = generation;
        // Beside a main connection of the other era, the next opening finds out whether this one is still spoken.
        let beside = reached.is_beside();
        if doubtful && !beside {
            // Which era it is of now, only the main connection finds out.
            self.context.eras.forget();
            other = self.context.live.load().as_ref().map_or(generation, |main| main.generation);
        }
        if reached.is_main() || (doubtful && !beside) {
            // The session, or the era, was agreed on the main connection: it is reopened, with a probe where needed.
            self.context.order(Order::Reopen(other, None));
        }
        if doubtful && beside {
            self.pool.discard(generation);
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
        let again = self.request(&reached, method, params, &call).send().await;
        self.ended(&reached, again)
    }

    /// Whether an answer over HTTP shows that the server may be of another era now. A program is of one as long as it
    /// runs.
    fn speaks_of_another_era(
        &self,
        reached: &CallConnection,
        outcome: &Result<Result<Raw, RpcError>, LinkError>,
    ) -> bool {
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
        reached: &CallConnection,
        outcome: Result<Result<Raw, RpcError>, LinkError>,
    ) -> Result<Result<Raw, RpcError>, CallError> {
        let error = match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        if error == LinkError::NeedsLogin {
            return Err(CallError::NeedsLogin(self.context.config.name.clone()));
        }
        if let LinkError::Unreachable(why) = &error
            && reached.is_main()
        {
            self.context.order(Order::Reopen(reached.live().generation, Some(why.clone())));
        }
        let masked = |text: String| reached.masked(&self.context.config, &text);
        let error = match error {
            LinkError::Status { status, body, challenge } => {
                LinkError::Status { status, body: masked(body), challenge: challenge.map(masked) }
            }
            LinkError::NotMcp(what) => LinkError::NotMcp(masked(what)),
            other => other,
        };
        Err(CallError::Link { server: self.context.config.name.clone(), error })
    }

    /// The connection that a client's calls take. `not` is one that turned out to be of no use any more.
    pub(crate) async fn reach(&self, client: &Client, not: Option<u64>) -> Result<CallConnection, CallError> {
        if self.goes_alone(client) {
            return Box::pin(self.reach_alone(client, not)).await;
        }
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

    /// The connection on which a principal's own lists are read.
    pub(crate) async fn reach_own(&self, client: &Client) -> Result<CallConnection, CallError> {
        if self.context.eras.main() == Some(Era::Modern) && self.goes_alone(client) && self.may_wait_for_main() {
            // It is about to be there, and serves everyone.
            if let Ok(main) = self.main(None).await {
                return Ok(main);
            }
        }
        self.reach(client, None).await
    }

    /// Whether the main connection comes by itself when it is asked for.
    fn may_wait_for_main(&self) -> bool {
        !self.context.status.borrow().state.is_away()
    }

    /// Whether what a client proves keeps it from the connections of others: from all that hold a session, and from the
    /// main one as long as it is not there. Where each request stands alone, it says itself for whom it is.
    fn goes_alone(&self, client: &Client) -> bool {
        self.context.proves_own(client.principal.as_deref())
            && match &*self.context.live.load() {
                Some(main) => !main.is_modern(),
                None => self.context.eras.main() != Some(Era::Modern) || !self.may_wait_for_main(),
            }
    }

    /// The connection of a principal that goes alone, in whatever era the server speaks.
    async fn reach_alone(&self, client: &Client, not: Option<u64>) -> Result<CallConnection, CallError> {
        let offered = client.capabilities.within(Revision::LATEST_LEGACY);
        let key = ConnectionKey::of(self.policy_for(client), client, offered);
        let key = if self.context.eras.main() == Some(Era::Legacy) { key } else { key.of_any_era() };
        self.lease(&key, client, not).await
    }

    /// Whose calls share a connection: never those of principals with credentials of their own.
    fn policy_for(&self, client: &Client) -> SessionPolicy {
        match self.context.config.session {
            SessionPolicy::Shared if self.context.proves_own(client.principal.as_deref()) => SessionPolicy::Principal,
            policy => policy,
        }
    }

    /// Whether a client is served in its own era beside a main connection of the other one.
    fn goes_beside(&self, client: &Client) -> bool {
        let eras = &self.context.eras;
        let main = eras.main();
        main.is_some() && eras.choice(client.wanted_era()) != main
    }

    /// A legacy connection of a client, where the main one is modern.
    async fn reach_beside(&self, client: &Client, not: Option<u64>) -> Result<CallConnection, CallError> {
        let offered = client.capabilities.within(Revision::LATEST_LEGACY);
        let key = ConnectionKey::of(self.policy_for(client), client, offered).beside(Era::Legacy);
        self.lease(&key, client, not).await
    }

    /// A connection of the main one's era.
    async fn reach_like_main(&self, client: &Client, not: Option<u64>) -> Result<CallConnection, CallError> {
        let policy = self.policy_for(client);
        let offered = client.capabilities.within(Revision::LATEST_LEGACY);
        if client.is_owner(policy) && offered == self.context.config.declares && offered.is_none() {
            // What most calls are, without making a key for each.
            return self.main(not).await;
        }
        let key = ConnectionKey::of(policy, client, offered);
        if key.is_main(&self.context.config.declares) {
            return self.main(not).await;
        }
        let era = self.context.eras.main();
        let key = match era {
            Some(Era::Modern) if key.environment.is_some() => ConnectionKey::of_environment(key.environment),
            _ => key,
        };
        // A program runs with one environment, so another one needs another program, of whichever era.
        if key.environment.is_none() && era != Some(Era::Legacy) {
            // One connection serves everyone at a modern server; and which era it is of, the main one finds out.
            let main = self.main(not).await?;
            if main.live().is_modern() {
                return Ok(main);
            }
        }
        self.lease(&key, client, not).await
    }

    /// A connection from the pool.
    async fn lease(&self, key: &ConnectionKey, client: &Client, not: Option<u64>) -> Result<CallConnection, CallError> {
        let state = self.context.status.borrow().state;
        let is_own = self.context.proves_own(key.principal.as_deref());
        if state == State::Stopped || (state == State::NeedsLogin && !is_own) {
            return Err(self.away(self.status()));
        }
        let of_handle = |conversation: &Arc<Conversation>| key.handle.as_ref() == Some(conversation.handle());
        let conversation = client.conversation.as_ref().filter(|it| of_handle(it));
        if conversation.is_some_and(|conversation| !conversation.is_in(&client.environment)) {
            return Err(CallError::Ended(self.context.config.name.clone()));
        }
        let lease = self.pool.lease(key, client, not).await;
        match lease {
            Ok(lease) => Ok(CallConnection::Extra(lease)),
            Err(LeaseError::Ended) => Err(CallError::Ended(self.context.config.name.clone())),
            Err(LeaseError::Full | LeaseError::InUse) => {
                Err(self.full(format!("the limit of {} connections to it is reached", pool::MOST)))
            }
            Err(LeaseError::Crowded) => {
                Err(self.full(format!("the limit of {} sessions with it is reached", pool::CONVERSATIONS)))
            }
            Err(LeaseError::Busy) => {
                Err(self.full("other calls of this session are waiting for answers of the client".to_owned()))
            }
            Err(LeaseError::NeedsLogin) => Err(CallError::NeedsLogin(self.context.config.name.clone())),
            Err(LeaseError::Failed(why)) => {
                Err(self.no_own(format!("cannot open a dedicated connection for this client: {why}")))
            }
            Err(LeaseError::Timeout) => {
                if key.era.is_some() && self.context.eras.failed_beside(Failure::Silent) {
                    self.context.emit_nature().await;
                }
                Err(self.no_own("timed out opening a dedicated connection for this client".to_owned()))
            }
        }
    }

    pub(crate) fn request<'a>(
        &'a self,
        reached: &'a CallConnection,
        method: &'a str,
        params: &'a Raw,
        call: &'a Call,
    ) -> CallRequest<'a> {
        CallRequest { context: &self.context, live: reached.live(), method, params, call }
    }

    fn full(&self, why: String) -> CallError {
        CallError::Full { server: self.context.config.name.clone(), why }
    }

    fn no_own(&self, why: String) -> CallError {
        self.away(Status { last_error: Some(why), ..self.status() })
    }

    async fn main(&self, not: Option<u64>) -> Result<CallConnection, CallError> {
        match self.context.live.load_full() {
            Some(live) if Some(live.generation) != not && !self.context.gate.is_closed() => {
                Ok(CallConnection::Main(live))
            }
            _ => Ok(CallConnection::Main(self.connected(not).await?)),
        }
    }

    fn away(&self, status: Status) -> CallError {
        CallError::Unavailable(Box::new(ServerUnavailable { server: self.context.config.name.clone(), status }))
    }

    /// Waits for a connection other than the one of generation `not`, starting the server if need be.
    async fn connected(&self, not: Option<u64>) -> Result<Arc<LiveConnection>, CallError> {
        let mut status = self.context.status.subscribe();
        let away = |status: &Status| self.away(status.clone());
        if not.is_none() {
            let state = self.context.status.borrow().state;
            match state {
                State::Failed | State::NeedsLogin | State::Stopped => return Err(away(&self.status())),
                // It may be waiting for its turn: anyone who is called goes first.
                State::Starting => self.order_start(),
                State::Idle | State::Installing | State::Ready => {}
            }
        }
        let deadline = self.context.config.timeouts.connect;
        let waiting = async {
            loop {
                let now = status.borrow_and_update().clone();
                let live = self.context.live.load_full().filter(|_| !self.context.gate.is_closed());
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
        match self.context.last_success.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))),
        }
    }
}
