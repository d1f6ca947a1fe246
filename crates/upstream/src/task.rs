//! The task that owns one server: start, list, watch, restart. One loop over a closed set of causes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_base::{Timestamp, random};
use toolcrib_protocol::{Era, Raw, method};
use toolcrib_transport::LinkError;
use toolcrib_transport::peer::Peer;

use crate::context::{Order, ServerContext};
use crate::credentials::{Proof, Refusal, Renewal};
use crate::event::Event;
use crate::install;
use crate::inventory::{self, Inventory};
use crate::keeper::Keeper;
use crate::live::LiveConnection;
use crate::open::{self, Cause, OpenConnection, OpenRequest};
use crate::pool::Pool;
use crate::report::{REPORTS, Report};
use crate::starts::StartPlace;
use crate::status::{State, Status};
use crate::stderr::{SEARCHED, with_stderr};

/// The waits between attempts to start a server.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);
/// A server that stayed up this long has earned a fresh start of the waits.
const STABLE: Duration = Duration::from_secs(60);
/// How often a quiet server is asked whether it still answers.
const HEALTH_EVERY: Duration = Duration::from_secs(30);
/// How soon after such a reading the next one may begin: a server that announces a change at every reading must not
/// keep us busy.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// How long a modern server may take to acknowledge that it tells changes of its lists before they are read.
const FIRST_ACK: Duration = Duration::from_millis(500);
/// How long changes of lists are gathered before they are read: servers tend to announce each tool.
const GATHER: Duration = Duration::from_millis(100);

/// Why a connection was left.
enum ConnectionEnd {
    /// The whole gateway or this server is ending.
    Ending,
    /// Someone stopped the server.
    Stopped,
    /// No one has used it for long.
    Idle,
    /// Someone wants it restarted.
    Restart,
    /// It failed.
    Failed(String),
    /// It wants a login.
    NeedsLogin(String),
}

impl ConnectionEnd {
    /// Its name in the log.
    fn as_str(&self) -> &'static str {
        match self {
            ConnectionEnd::Ending => "gateway or server ends",
            ConnectionEnd::Stopped => "stopped",
            ConnectionEnd::Idle => "idle",
            ConnectionEnd::Restart => "restart",
            ConnectionEnd::Failed(_) => "failed",
            ConnectionEnd::NeedsLogin(_) => "needs login",
        }
    }
}

/// A connection whose lists were read.
struct ListedConnection {
    live: Arc<LiveConnection>,
    /// What the server said of itself when it was opened; without lists.
    bare: Inventory,
    /// When to list again.
    next_list: Option<Instant>,
}

/// How a listing ended.
struct ListOutcome {
    /// Whether someone asked for a new one in the meantime.
    again: bool,
    /// How long it may be taken as it is, where no one will tell when it changes.
    fresh: Option<Duration>,
}

impl ListOutcome {
    /// When to list again.
    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.again {
            return Some(now);
        }
        // Up to a tenth later, so that many servers are not listed at once.
        let jitter = |fresh: Duration| random::below(u64::try_from(fresh.as_millis() / 10).unwrap_or(0) + 1);
        self.fresh.map(|fresh| now + fresh + Duration::from_millis(jitter(fresh)))
    }
}

/// What the task listens to at all times.
struct Signals {
    /// The gateway ends.
    stop: Stop,
    /// The server ends permanently.
    retired: Stop,
    orders: mpsc::Receiver<Order>,
}

pub(crate) struct ServerTask {
    context: Arc<ServerContext>,
    pool: Arc<Pool>,
    wanted: bool,
    /// Whether someone waits for its start.
    urgent: bool,
    /// Whether it did not answer in time when it last failed.
    timed_out: bool,
    backoff: Backoff,
    generation: u64,
    /// How many of its starts followed a pause, and no failure.
    woken: u64,
    /// The era that it was of when it last answered, also while that is in doubt.
    era: Option<Era>,
}

// === impl ServerTask ===

impl ServerTask {
    pub(crate) fn new(context: Arc<ServerContext>, pool: Arc<Pool>, wanted: bool) -> Self {
        Self {
            context,
            pool,
            wanted,
            urgent: false,
            timed_out: false,
            backoff: Backoff::new(FIRST_RETRY, LAST_RETRY),
            generation: 0,
            woken: 0,
            era: None,
        }
    }

    /// Runs until the gateway stops or the server is retired.
    pub(crate) async fn run(mut self, orders: mpsc::Receiver<Order>, stop: Stop) {
        let context = Arc::clone(&self.context);
        let mut signals = Signals { stop, retired: context.retired.stop_signal(), orders };
        // Retiring waits for this task: the other half of the channel is dropped when `run` ends.
        let (_running, ended) = oneshot::channel::<()>();
        context.retired.spawn(async move { drop(ended.await) });
        loop {
            if !self.wanted && !self.wait_until_wanted(&mut signals).await {
                break;
            }
            let left = self.one_connection(&mut signals).await;
            tracing::debug!(
                target: "toolcrib::server", server = %context.config.name, generation = self.generation,
                why = left.as_str(), "connection ends"
            );
            match left {
                ConnectionEnd::Ending => break,
                ConnectionEnd::Stopped => {
                    self.wanted = false;
                    self.publish(State::Stopped, None, None).await;
                    // What was leased before everyone knew ends too.
                    self.pool.clear();
                }
                ConnectionEnd::Idle => {
                    self.woken += 1;
                    self.backoff.reset();
                    self.publish(State::Idle, None, None).await;
                    // Anyone who came in the meantime has seen it idle, or will not see the gate closed.
                    context.gate.open();
                    // An item watched in the meantime either saw it idle and ordered a start, or is seen here.
                    self.wanted = !context.subscriptions.is_empty();
                }
                ConnectionEnd::Restart => self.wanted = true,
                ConnectionEnd::Failed(why) => {
                    let why = context.config.masked(&why);
                    tracing::warn!(target: "toolcrib::server", server = %context.config.name, "failed: {why}");
                    let wait = self.backoff.next_wait();
                    if !self.wait_away(State::Failed, why, Some(wait), &mut signals).await {
                        break;
                    }
                }
                ConnectionEnd::NeedsLogin(why) => {
                    tracing::warn!(target: "toolcrib::server", server = %context.config.name, "{why}");
                    if !self.wait_away(State::NeedsLogin, why, None, &mut signals).await {
                        break;
                    }
                }
            }
        }
        self.pool.close().await;
        // No one may wait for a server whose task has ended.
        let status = self.change_status(State::Stopped, None, None);
        let _ = self.context.deps.events.try_send(Event::Status { server: context.config.name.clone(), status });
    }

    /// Waits for an order to start; `false` when the task is to end.
    async fn wait_until_wanted(&mut self, signals: &mut Signals) -> bool {
        loop {
            tokio::select! {
                biased;
                () = signals.stop.stopped() => return false,
                () = signals.retired.stopped() => return false,
                order = signals.orders.recv() => match order {
                    None => return false,
                    Some(Order::Start | Order::Restart) => {
                        (self.wanted, self.urgent) = (true, true);
                        return true;
                    }
                    // A server that idles is stopped too: no call starts it any more.
                    Some(Order::Stop) => self.publish(State::Stopped, None, None).await,
                    Some(Order::Retry | Order::Reopen(..) | Order::Refresh | Order::Changed) => {}
                },
            }
        }
    }

    /// Waits after a failure, for so long or until someone has it started; `false` when the task is to end.
    async fn wait_away(&mut self, state: State, why: String, wait: Option<Duration>, signals: &mut Signals) -> bool {
        let now = (Instant::now(), self.context.deps.clock.now());
        let next = wait.map(|wait| Timestamp(now.1.0 + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
        let until = now.0 + wait.unwrap_or_default();
        self.publish(state, Some(why), next).await;
        loop {
            tokio::select! {
                biased;
                () = signals.stop.stopped() => return false,
                () = signals.retired.stopped() => return false,
                order = signals.orders.recv() => match order {
                    None => return false,
                    Some(Order::Restart | Order::Retry) => {
                        self.urgent = true;
                        return true;
                    }
                    Some(Order::Stop) => {
                        self.wanted = false;
                        self.publish(State::Stopped, None, None).await;
                        return true;
                    }
                    Some(Order::Start | Order::Reopen(..) | Order::Refresh | Order::Changed) => {}
                },
                () = sleep_until(until), if wait.is_some() => return true,
            }
        }
    }

    /// Waits for a place among those that start, unless someone waits for this one.
    async fn place(&mut self, signals: &mut Signals) -> Result<StartPlace, ConnectionEnd> {
        let (places, context) = (self.context.deps.starts.clone(), Arc::clone(&self.context));
        let (config, installs) = (&context.config, context.may_install());
        if std::mem::take(&mut self.urgent) {
            return Ok(places.take_if_free(config, installs));
        }
        let mut taking = std::pin::pin!(places.take(config, installs));
        loop {
            tokio::select! {
                biased;
                () = signals.stop.stopped() => return Err(ConnectionEnd::Ending),
                () = signals.retired.stopped() => return Err(ConnectionEnd::Ending),
                place = &mut taking => return Ok(place),
                order = signals.orders.recv() => {
                    if matches!(order, Some(Order::Start)) {
                        return Ok(places.take_if_free(config, installs));
                    }
                    obey(order, self.generation)?;
                }
            }
        }
    }

    /// Opens a connection, lists it and stays with it until it ends.
    async fn one_connection(&mut self, signals: &mut Signals) -> ConnectionEnd {
        self.generation += 1;
        self.publish(State::Starting, None, None).await;
        let place = match self.place(signals).await {
            Ok(place) => place,
            Err(left) => return left,
        };
        let installs = self.context.may_install();
        if installs {
            self.publish(State::Installing, None, None).await;
        }
        let (scope, kept) = (Scope::new(), Mutex::default());
        let mut left = tokio::select! {
            biased;
            () = signals.stop.stopped() => ConnectionEnd::Ending,
            () = signals.retired.stopped() => ConnectionEnd::Ending,
            left = self.serve(&scope, &kept, place, &mut signals.orders) => left,
        };
        let live = self.context.live.swap(None);
        let was_open = live.is_some();
        if let Some(live) = live {
            live.link.close(self.context.deps.grace).await;
        }
        let is_installing = self.context.config.installs.is_some() && !was_open;
        // Ends whatever the connection started: its process with all below it, its streams.
        scope.close(self.context.ending(is_installing)).await;
        self.context.subscriptions.lapse();
        let kept: Option<Arc<Peer>> = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = kept.as_ref().and_then(|peer| peer.process()).filter(|_| is_installing) {
            self.find_half_written(&mut left, program.stderr().last(install::LINES)).await;
        }
        left
    }

    /// Looks for what a program that installs itself left half written when it ended.
    async fn find_half_written(&self, left: &mut ConnectionEnd, stderr: Vec<String>) {
        let Some(half) = self.context.half_written(stderr).await else { return };
        let told = install::told(&half);
        match left {
            ConnectionEnd::Failed(why) => why.push_str(&told),
            _ => tracing::warn!(
                target: "toolcrib::server", server = %self.context.config.name,
                "it was stopped during its installation{told}; clean up with `toolcrib doctor --fix`"
            ),
        }
    }

    async fn serve(
        &mut self,
        scope: &Scope,
        kept: &Mutex<Option<Arc<Peer>>>,
        place: StartPlace,
        orders: &mut mpsc::Receiver<Order>,
    ) -> ConnectionEnd {
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let opening = OpenRequest {
            config: &self.context.config,
            deps: &self.context.deps,
            scope,
            generation: self.generation,
            reports: reports.clone(),
            era: self.context.eras.main(),
            probes: true,
            offered: Arc::new(self.context.config.declares.clone()),
            owner: None,
            eras: Arc::clone(&self.context.eras),
            unanswered: self.context.unanswered.clone(),
            principal: None,
            subscriptions: Arc::clone(&self.context.subscriptions),
            turn: &self.context.turn,
            told: Some(&self.context.status),
            kept,
            opener: self.context.take_opener(),
        };
        let opened = unless_left(orders, self.generation, Box::pin(open::open(&opening))).await;
        let OpenConnection { live, mut bare, names_legacy } = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(failure)) => {
                // What was remembered of it may be why: the next attempt finds out again.
                self.context.eras.forget();
                self.timed_out = failure.cause == Cause::Timeout;
                return match failure.cause {
                    Cause::Login => ConnectionEnd::NeedsLogin(failure.why),
                    Cause::Timeout | Cause::Other => ConnectionEnd::Failed(failure.why),
                };
            }
            Err(left) => return left,
        };
        if opening.era == Some(Era::Legacy) && self.is_another_version(&bare) {
            // An earlier version of it was legacy; this one was not asked.
            self.context.eras.forget();
            live.link.close(self.context.deps.grace).await;
            return ConnectionEnd::Restart;
        }
        let live = Arc::new(live);
        self.context.was_there.store(true, Ordering::Relaxed);
        self.timed_out = false;
        self.note_era(&live, names_legacy).await;
        self.context.live.store(Some(Arc::clone(&live)));
        // Calls may use the connection from here on; the state says ready once the tools were listed.
        self.context.status.send_modify(|_| ());
        bare.warnings.clear();
        let (keeper, kept) = Keeper::new(&self.context, &live, &bare, reports);
        scope.spawn(keeper.run(scope.stop_signal()));
        if let Err(left) = unless_left(orders, self.generation, kept.before_listing(FIRST_ACK)).await {
            return left;
        }
        let listed = match self.list(&live, bare.clone(), orders).await {
            Ok(listed) => listed,
            Err(left) => return left,
        };
        drop(place);
        let since = Instant::now();
        self.publish(State::Ready, None, None).await;
        let connection = ListedConnection { next_list: listed.next(), live, bare };
        let left = self.attend(connection, orders, &mut reported).await;
        if since.elapsed() >= STABLE {
            self.backoff.reset();
        }
        left
    }

    /// Whether a server says that it is another one, or another version, than the one whose lists are known, and may
    /// therefore speak other eras.
    fn is_another_version(&self, bare: &Inventory) -> bool {
        let known = self.context.inventory.load();
        let named = |info: &Option<Raw>| info.as_ref().map(|info| (info.text("name"), info.text("version")));
        let (known, now) = (named(&known.server_info), named(&bare.server_info));
        self.context.eras.only().is_none() && known.is_some() && now.is_some() && known != now
    }

    /// Remembers the era of a server that has just answered.
    async fn note_era(&mut self, live: &LiveConnection, names_legacy: bool) {
        let era = live.revision.era();
        self.context.eras.opened(era, names_legacy);
        if self.era.replace(era).is_some_and(|before| before != era) {
            // Connections that were opened in another era are of no use.
            self.pool.clear();
        }
        let nature = self.context.eras.nature();
        if self.context.config.nature != nature {
            self.context.emit(Event::Nature { server: self.context.config.name.clone(), nature }).await;
        }
    }

    /// Stays with a connection until it is left.
    async fn attend(
        &self,
        connection: ListedConnection,
        orders: &mut mpsc::Receiver<Order>,
        reported: &mut mpsc::Receiver<Report>,
    ) -> ConnectionEnd {
        let ListedConnection { live, bare, mut next_list } = connection;
        let mut next_health = Instant::now() + HEALTH_EVERY;
        let mut not_before = Instant::now();
        let mut missed = 0;
        let idle = self.context.config.idle;
        let mut idle_at = idle.map(|idle| Instant::now() + idle);
        loop {
            let list_due = next_list.unwrap_or_else(|| Instant::now() + HEALTH_EVERY);
            tokio::select! {
                biased;
                order = orders.recv() => match obey(order, live.generation) {
                    Ok(ListRequest::Nothing) => {}
                    Ok(ListRequest::ListNow) => next_list = Some(Instant::now()),
                    Ok(ListRequest::ListSoon) => next_list = Some(soon(next_list, not_before)),
                    Err(left) => return left,
                },
                report = reported.recv() => match report {
                    Some(Report::Closed(generation)) if generation == live.generation => {
                        return ConnectionEnd::Failed(self.why_closed(&live).await);
                    }
                    Some(Report::ListChanged(_)) => next_list = Some(soon(next_list, not_before)),
                    Some(Report::Closed(_)) | None => {}
                },
                () = sleep_until(list_due), if next_list.is_some() => {
                    match self.list(&live, bare.clone(), orders).await {
                        Ok(listed) => next_list = listed.next(),
                        Err(left) => return left,
                    }
                    not_before = Instant::now() + READ_AGAIN;
                }
                () = sleep_until(idle_at.unwrap_or(next_health)), if idle_at.is_some() => {
                    match idle.and_then(|idle| self.pause(idle)) {
                        None => return ConnectionEnd::Idle,
                        later => idle_at = later,
                    }
                }
                () = sleep_until(next_health) => {
                    next_health = Instant::now() + HEALTH_EVERY;
                    match unless_left(orders, live.generation, self.check_health(&live, &mut missed)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(why)) => return ConnectionEnd::Failed(why),
                        Err(left) => return left,
                    }
                }
            }
        }
    }

    /// Closes the gate when no one has used the server for so long, and gives when to look again when someone has.
    fn pause(&self, idle: Duration) -> Option<Instant> {
        let (context, now) = (&self.context, Instant::now());
        let due = context.gate.last_left() + idle;
        if due > now {
            return Some(due);
        }
        // Connections of others and of conversations end by themselves when they idle.
        let in_use = self.pool.len() > 0 || !context.subscriptions.is_empty() || context.hearing.is_any();
        (in_use || !context.gate.close_if_empty()).then(|| now + idle)
    }

    /// Lists the server and emits what changed.
    async fn list(
        &self,
        live: &LiveConnection,
        bare: Inventory,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Result<ListOutcome, ConnectionEnd> {
        let before = self.context.inventory.load_full();
        let told = self.context.subscriptions.list_changes();
        let deadline = self.context.config.timeouts.list;
        let mut again = false;
        let draining = inventory::drain(live, bare, &before, deadline);
        let listed = unless_left_noting(orders, live.generation, draining, &mut again).await?;
        let (inventory, fresh) = match listed {
            Ok((inventory, fresh)) => (Arc::new(inventory), fresh),
            Err(error) => {
                return Err(self.unlisted(live, &error).await);
            }
        };
        for warning in &inventory.warnings {
            tracing::warn!(target: "toolcrib::server", server = %self.context.config.name, "{warning}");
        }
        let first = !self.context.status.borrow().listed;
        self.context.show(Arc::clone(&inventory));
        self.context.read_changes.store(told, std::sync::atomic::Ordering::SeqCst);
        self.context.listings.send_modify(|count| *count += 1);
        if first {
            self.context.status.send_modify(|status| status.listed = true);
        }
        if *before != *inventory {
            // What changed for one may have changed for others, and no one tells those.
            self.context.own.doubt_all();
        }
        if first || *before != *inventory {
            let server = self.context.config.name.clone();
            self.context.emit(Event::Inventory { server, inventory }).await;
        }
        Ok(ListOutcome { again, fresh })
    }

    /// What becomes of a connection whose server does not list its tools: one that has let us in and now refuses the
    /// credential wants a login, unless there is another credential for the next attempt.
    async fn unlisted(&self, live: &LiveConnection, error: &LinkError) -> ConnectionEnd {
        let failed = ConnectionEnd::Failed(self.explain(live, "its tools cannot be listed", error).await);
        let config = &self.context.config;
        let Some(credentials) = &self.context.deps.credentials else { return failed };
        let sent = match credentials.headers(config, None) {
            Proof::Known(headers) => headers.get(AUTHORIZATION).cloned(),
            Proof::Awaited(_) => None,
        };
        let Some(refusal) = Refusal::of(error, config, None, sent.as_ref()) else { return failed };
        match tokio::time::timeout(config.timeouts.connect, credentials.renew(refusal)).await {
            Ok(Renewal::NeedsLogin) => ConnectionEnd::NeedsLogin(open::LOGIN.to_owned()),
            Ok(Renewal::Renewed | Renewal::Unknown) | Err(_) => failed,
        }
    }

    /// Asks a server that was quiet whether it still answers. An answer with an error is an answer.
    ///
    /// Many servers do one thing after the other: as long as a call may still be running, silence is not a failure.
    async fn check_health(&self, live: &LiveConnection, missed: &mut u32) -> Result<(), String> {
        let last = self.context.last_success.load(std::sync::atomic::Ordering::Relaxed);
        let quiet = self.context.deps.clock.now().since(Timestamp(i64::try_from(last).unwrap_or(0)));
        if last != 0 && u128::from(quiet) < HEALTH_EVERY.as_millis() {
            *missed = 0;
            return Ok(());
        }
        let timeouts = self.context.config.timeouts;
        // No one pings in the modern era; who it is, every server tells.
        let method = if live.is_modern() { method::DISCOVER } else { method::PING };
        let answered = live.ask(method, &Raw::empty_object(), timeouts.list).await;
        let Err(error) = answered else {
            *missed = 0;
            return Ok(());
        };
        *missed += 1;
        let busy = self.context.running.load(std::sync::atomic::Ordering::Relaxed) > 0;
        if busy && matches!(error, LinkError::Timeout(_)) && HEALTH_EVERY * *missed < timeouts.call {
            return Ok(());
        }
        Err(self.explain(live, "it does not answer", &error).await)
    }

    /// What failed, or how the program behind it ended.
    async fn explain(&self, live: &LiveConnection, what: &str, error: &LinkError) -> String {
        match error {
            LinkError::Closed => self.why_closed(live).await,
            _ => format!("{what}: {error}"),
        }
    }

    async fn why_closed(&self, live: &LiveConnection) -> String {
        let toolcrib_transport::Link::Peer(peer) = &live.link else {
            return "the connection was closed".into();
        };
        let Some(process) = peer.process() else { return "the connection was closed".into() };
        let stopped = tokio::time::timeout(self.context.deps.grace, process.exited()).await;
        let end = stopped
            .map_or_else(|_| "its program closed stdout".to_owned(), |exit| format!("its program ended with {exit}"));
        with_stderr(end, &process.stderr().last(SEARCHED))
    }

    async fn publish(&self, state: State, error: Option<String>, next_retry: Option<Timestamp>) {
        let status = self.change_status(state, error, next_retry);
        self.context.emit(Event::Status { server: self.context.config.name.clone(), status }).await;
    }

    fn change_status(&self, state: State, error: Option<String>, next_retry: Option<Timestamp>) -> Status {
        let now = self.context.deps.clock.now();
        let (generation, woken) = (self.generation, self.woken);
        let before = self.context.status.borrow().state;
        tracing::debug!(
            target: "toolcrib::server", server = %self.context.config.name, from = before.as_str(), to = state.as_str(),
            generation, error, next_retry = next_retry.map(tracing::field::display), "state changes"
        );
        self.context.status.send_modify(|status| {
            let since = if status.state == state { status.since } else { now };
            let keeps_error = matches!(state, State::Starting | State::Installing | State::Stopped);
            let last_error = error.or_else(|| status.last_error.take().filter(|_| keeps_error));
            let restarts = u32::try_from(generation.saturating_sub(1 + woken)).unwrap_or(u32::MAX);
            // A failed first listing has ended too: no one must wait for it any longer.
            let listed = status.listed || matches!(state, State::Failed | State::NeedsLogin);
            let half_written = status.half_written.take().filter(|_| state != State::Ready);
            let timed_out = self.timed_out && last_error.is_some();
            let note = None;
            *status = Status { state, since, last_error, timed_out, next_retry, restarts, listed, note, half_written };
        });
        self.context.status.borrow().clone()
    }
}

/// What an order that does not end a connection means for its lists.
#[derive(Debug, PartialEq, Eq)]
enum ListRequest {
    Nothing,
    ListNow,
    ListSoon,
}

/// When to list after news of a change, which two connections may tell at the same time.
fn soon(planned: Option<Instant>, not_before: Instant) -> Instant {
    let due = not_before.max(Instant::now() + GATHER);
    planned.map_or(due, |planned| planned.min(due))
}

/// What an order means for the connection of this generation; an error is its end.
fn obey(order: Option<Order>, generation: u64) -> Result<ListRequest, ConnectionEnd> {
    match order {
        None => Err(ConnectionEnd::Ending),
        Some(Order::Stop) => Err(ConnectionEnd::Stopped),
        Some(Order::Restart) => Err(ConnectionEnd::Restart),
        // A forgotten session is reopened at once, an unreachable server after a wait.
        Some(Order::Reopen(other, failure)) if other == generation => {
            Err(failure.map_or(ConnectionEnd::Restart, ConnectionEnd::Failed))
        }
        Some(Order::Refresh) => Ok(ListRequest::ListNow),
        Some(Order::Changed) => Ok(ListRequest::ListSoon),
        Some(Order::Start | Order::Retry | Order::Reopen(..)) => Ok(ListRequest::Nothing),
    }
}

/// Does `work` unless an order ends the connection first: no one who stops a server waits for its deadlines.
async fn unless_left<T>(
    orders: &mut mpsc::Receiver<Order>,
    generation: u64,
    work: impl Future<Output = T>,
) -> Result<T, ConnectionEnd> {
    // Lists are read after an opening in any case.
    unless_left_noting(orders, generation, work, &mut false).await
}

/// As [`unless_left`], and notes in `again` that someone asked for a new list.
async fn unless_left_noting<T>(
    orders: &mut mpsc::Receiver<Order>,
    generation: u64,
    work: impl Future<Output = T>,
    again: &mut bool,
) -> Result<T, ConnectionEnd> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => *again |= obey(order, generation)? != ListRequest::Nothing,
            done = &mut work => return Ok(done),
        }
    }
}
