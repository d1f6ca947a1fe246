//! The task that owns one server: start, list, watch, restart. One loop over a closed set of causes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use toolcrib_base::Timestamp;
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_protocol::{Raw, method};
use toolcrib_transport::CallOptions;

use crate::event::Event;
use crate::inventory::{self, Inventory};
use crate::open::{self, Live, REPORTS, Report};
use crate::server::{Order, Shared, Surroundings};
use crate::status::{State, Status};

/// The waits between attempts to start a server.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);
/// A server that stayed up this long has earned a fresh start of the waits.
const STABLE: Duration = Duration::from_secs(60);
/// How often a quiet server is asked whether it still answers.
const HEALTH_EVERY: Duration = Duration::from_secs(30);
/// How long changes of lists are gathered before they are read: servers tend to announce each tool.
const GATHER: Duration = Duration::from_millis(100);

/// Why a connection was left.
enum Left {
    /// The whole gateway or this server is ending.
    Ending,
    /// Somebody stopped the server.
    Stopped,
    /// Somebody wants it started anew.
    Restart,
    /// It failed.
    Failed(String),
}

pub(crate) struct ServerTask {
    shared: Arc<Shared>,
    around: Surroundings,
    orders: mpsc::Receiver<Order>,
    wanted: bool,
    backoff: Backoff,
    generation: u64,
}

// === impl ServerTask ===

impl ServerTask {
    pub(crate) fn new(shared: Arc<Shared>, around: Surroundings, orders: mpsc::Receiver<Order>, wanted: bool) -> Self {
        Self { shared, around, orders, wanted, backoff: Backoff::new(FIRST_RETRY, LAST_RETRY), generation: 0 }
    }

    /// Runs until the gateway stops or the server is retired.
    pub(crate) async fn run(mut self, mut stop: Stop) {
        let shared = Arc::clone(&self.shared);
        let mut retired = shared.retired.stop_signal();
        // Retiring waits for this task: the other half of the channel is dropped when `run` ends.
        let (_running, ended) = oneshot::channel::<()>();
        shared.retired.spawn(async move { drop(ended.await) });
        loop {
            if !self.wanted && !self.wait_until_wanted(&mut stop, &mut retired).await {
                break;
            }
            let left = self.one_connection(&mut stop, &mut retired).await;
            match left {
                Left::Ending => break,
                Left::Stopped => {
                    self.wanted = false;
                    self.publish(State::Stopped, None, None).await;
                }
                Left::Restart => self.wanted = true,
                Left::Failed(why) => {
                    tracing::warn!(target: "toolcrib::server", server = %shared.config.name, "failed: {why}");
                    if !self.wait_for_retry(why, &mut stop, &mut retired).await {
                        break;
                    }
                }
            }
        }
    }

    /// Waits for an order to start; `false` when the task is to end.
    async fn wait_until_wanted(&mut self, stop: &mut Stop, retired: &mut Stop) -> bool {
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return false,
                () = retired.stopped() => return false,
                order = self.orders.recv() => match order {
                    None => return false,
                    Some(Order::Start | Order::Restart) => {
                        self.wanted = true;
                        return true;
                    }
                    Some(Order::Stop | Order::Reopen(..) | Order::Refresh) => {}
                },
            }
        }
    }

    /// Waits after a failure; `false` when the task is to end.
    async fn wait_for_retry(&mut self, why: String, stop: &mut Stop, retired: &mut Stop) -> bool {
        let wait = self.backoff.next_wait();
        let until = Instant::now() + wait;
        let next = Timestamp(self.around.clock.now().0 + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        self.publish(State::Failed, Some(why), Some(next)).await;
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return false,
                () = retired.stopped() => return false,
                order = self.orders.recv() => match order {
                    None => return false,
                    Some(Order::Restart) => return true,
                    Some(Order::Stop) => {
                        self.wanted = false;
                        self.publish(State::Stopped, None, None).await;
                        return true;
                    }
                    Some(Order::Start | Order::Reopen(..) | Order::Refresh) => {}
                },
                () = sleep_until(until) => return true,
            }
        }
    }

    /// Opens a connection, lists it and stays with it until it ends.
    async fn one_connection(&mut self, stop: &mut Stop, retired: &mut Stop) -> Left {
        self.generation += 1;
        self.publish(State::Starting, None, None).await;
        let scope = Scope::new();
        let left = tokio::select! {
            biased;
            () = stop.stopped() => Left::Ending,
            () = retired.stopped() => Left::Ending,
            left = self.serve(&scope) => left,
        };
        let live = self.shared.live.swap(None);
        if let Some(live) = live {
            live.link.close(self.around.grace).await;
        }
        // Ends whatever the connection started: its process with all below it, its streams.
        scope.close(self.around.grace * 3).await;
        left
    }

    async fn serve(&mut self, scope: &Scope) -> Left {
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let config = self.shared.config.clone();
        let opening = open::open(&config, &self.around, self.generation, reports, scope);
        let opened = tokio::time::timeout(config.timeouts.connect, opening).await;
        let (live, mut bare) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(why)) => return Left::Failed(why),
            Err(_) => return Left::Failed(format!("not ready within {} ms", config.timeouts.connect.as_millis())),
        };
        let live = Arc::new(live);
        self.shared.live.store(Some(Arc::clone(&live)));
        // Calls may use the connection from here on; the state says ready once the tools were listed.
        self.shared.status.send_modify(|_| ());
        bare.warnings.clear();
        if let Err(why) = self.list(&live, bare.clone()).await {
            return Left::Failed(why);
        }
        let since = Instant::now();
        self.publish(State::Ready, None, None).await;
        let left = self.attend(&live, bare, &mut reported).await;
        if since.elapsed() >= STABLE {
            self.backoff.reset();
        }
        left
    }

    /// Stays with a connection until it is left.
    async fn attend(&mut self, live: &Arc<Live>, bare: Inventory, reported: &mut mpsc::Receiver<Report>) -> Left {
        let mut next_health = Instant::now() + HEALTH_EVERY;
        let mut next_list: Option<Instant> = None;
        loop {
            let list_due = next_list.unwrap_or_else(|| Instant::now() + HEALTH_EVERY);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return Left::Ending,
                    Some(Order::Stop) => return Left::Stopped,
                    Some(Order::Restart) => return Left::Restart,
                    Some(Order::Reopen(generation, failure)) if generation == live.generation => {
                        // A forgotten session is opened anew at once, an unreachable server after a wait.
                        return failure.map_or(Left::Restart, Left::Failed);
                    }
                    Some(Order::Refresh) => next_list = Some(Instant::now()),
                    Some(Order::Start | Order::Reopen(..)) => {}
                },
                report = reported.recv() => match report {
                    Some(Report::Closed(generation)) if generation == live.generation => {
                        return Left::Failed(self.why_closed(live).await);
                    }
                    Some(Report::ListChanged(_)) => {
                        next_list.get_or_insert_with(|| Instant::now() + GATHER);
                    }
                    Some(Report::Closed(_)) | None => {}
                },
                () = sleep_until(list_due), if next_list.is_some() => {
                    next_list = None;
                    if let Err(why) = self.list(live, bare.clone()).await {
                        return Left::Failed(why);
                    }
                }
                () = sleep_until(next_health) => {
                    next_health = Instant::now() + HEALTH_EVERY;
                    if let Err(why) = self.check_health(live).await {
                        return Left::Failed(why);
                    }
                }
            }
        }
    }

    /// Lists the server and tells what changed.
    async fn list(&mut self, live: &Live, bare: Inventory) -> Result<(), String> {
        let before = self.shared.inventory.load_full();
        let deadline = self.shared.config.timeouts.list;
        let listed = inventory::drain(&live.link, bare, &before, deadline).await;
        let inventory = Arc::new(listed.map_err(|error| format!("its tools cannot be listed: {error}"))?);
        for warning in &inventory.warnings {
            tracing::warn!(target: "toolcrib::server", server = %self.shared.config.name, "{warning}");
        }
        let first = !self.shared.status.borrow().listed;
        self.shared.inventory.store(Arc::clone(&inventory));
        if first {
            self.shared.status.send_modify(|status| status.listed = true);
        }
        if first || *before != *inventory {
            let server = self.shared.config.name.clone();
            self.tell(Event::Inventory { server, inventory }).await;
        }
        Ok(())
    }

    /// Asks a server that was quiet whether it still answers. An answer with an error is an answer.
    async fn check_health(&self, live: &Live) -> Result<(), String> {
        let last = self.shared.last_success.load(std::sync::atomic::Ordering::Relaxed);
        let quiet = self.around.clock.now().since(Timestamp(i64::try_from(last).unwrap_or(0)));
        if last != 0 && u128::from(quiet) < HEALTH_EVERY.as_millis() {
            return Ok(());
        }
        let options = CallOptions::within(self.shared.config.timeouts.list);
        let answered = live.link.call(live.link.next_id(), method::PING, Raw::empty_object(), options).await;
        answered.map(drop).map_err(|error| format!("it does not answer a ping: {error}"))
    }

    async fn why_closed(&self, live: &Live) -> String {
        let toolcrib_transport::Link::Peer(peer) = &live.link else {
            return "the connection was closed".into();
        };
        let Some(process) = peer.process() else { return "the connection was closed".into() };
        let stopped = tokio::time::timeout(self.around.grace, process.exited()).await;
        let end = stopped
            .map_or_else(|_| "its program closed stdout".to_owned(), |exit| format!("its program ended with {exit}"));
        let tail = process.stderr().last(3).join(" / ");
        if tail.is_empty() { end } else { format!("{end}; stderr ends with: {tail}") }
    }

    async fn publish(&mut self, state: State, error: Option<String>, next_retry: Option<Timestamp>) {
        let now = self.around.clock.now();
        let generation = self.generation;
        let mut changed = None;
        self.shared.status.send_modify(|status| {
            let since = if status.state == state { status.since } else { now };
            let keeps_error = matches!(state, State::Starting | State::Stopped);
            let last_error = error.or_else(|| status.last_error.take().filter(|_| keeps_error));
            let restarts = u32::try_from(generation.saturating_sub(1)).unwrap_or(u32::MAX);
            // A failed first listing has ended too: nobody must wait for it any longer.
            let listed = status.listed || state == State::Failed;
            *status = Status { state, since, last_error, next_retry, restarts, listed };
            changed = Some(status.clone());
        });
        if let Some(status) = changed {
            self.tell(Event::Status { server: self.shared.config.name.clone(), status }).await;
        }
    }

    async fn tell(&self, event: Event) {
        // The reader ends before us only when everything ends.
        let _ = self.around.events.send(event).await;
    }
}
