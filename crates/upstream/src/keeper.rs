//! The task that keeps the subscriptions of one connection equal to what callers subscribe to at the server: of the main
//! one for everyone, of a principal's own for that one.

mod legacy;
mod modern;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::Stop;
use toolcrib_protocol::subscription::{Change, Filter};
use toolcrib_protocol::{Raw, RpcError};
use toolcrib_transport::LinkError;

use crate::call::Call;
use crate::context::ServerContext;
use crate::event::Event;
use crate::inventory::Inventory;
use crate::live::LiveConnection;
use crate::report::Report;
use crate::request::CallRequest;
use crate::subscribe::Subscriptions;

/// The shortest time between two rounds of forwarding: a server that notifies without end must not keep us busy.
const FORWARD_INTERVAL: Duration = Duration::from_millis(100);
/// The waits between attempts.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// Keeps the subscriptions of one connection.
pub(crate) struct Keeper {
    context: Arc<ServerContext>,
    live: Arc<LiveConnection>,
    subscriptions: Arc<Subscriptions>,
    /// In whose name it asks, where that is not the owner's.
    caller: Option<Arc<Call>>,
    reports: mpsc::Sender<Report>,
    /// The lists whose changes the server notifies.
    lists: Filter,
    /// Whether a legacy server takes subscriptions to resources.
    subscribes: bool,
    settled: watch::Sender<bool>,
    list_begun: Arc<AtomicBool>,
}

/// A principal that hears for itself, and of what.
pub(crate) struct Hearer {
    pub(crate) call: Call,
    pub(crate) subscriptions: Arc<Subscriptions>,
}

/// The other end of a keeper, for the task that lists.
pub(crate) struct KeeperHandle {
    settled: watch::Receiver<bool>,
    list_begun: Arc<AtomicBool>,
}

impl KeeperHandle {
    /// Waits until changes of lists are reported, or the server has shown that it does not report them, at most `longest`.
    /// Changes after that are reported.
    pub(crate) async fn before_listing(mut self, longest: Duration) {
        // A server that is slower than this has its lists read once more.
        let _ = tokio::time::timeout(longest, self.settled.wait_for(|settled| *settled)).await;
        self.list_begun.store(true, Ordering::Release);
    }
}

impl Keeper {
    pub(crate) fn new(
        context: &Arc<ServerContext>,
        live: &Arc<LiveConnection>,
        bare: &Inventory,
        reports: mpsc::Sender<Report>,
    ) -> (Self, KeeperHandle) {
        let list_begun = Arc::new(AtomicBool::new(false));
        let (settled, kept) = watch::channel(!live.is_modern());
        let keeper = Self {
            context: Arc::clone(context),
            live: Arc::clone(live),
            subscriptions: Arc::clone(&context.subscriptions),
            caller: None,
            reports,
            lists: lists_of(bare),
            subscribes: bare.declares("resources", "subscribe"),
            settled,
            list_begun: Arc::clone(&list_begun),
        };
        (keeper, KeeperHandle { settled: kept, list_begun })
    }

    /// Keeps what a principal subscribes to, on a connection that carries its credential. `bare` is what it is shown.
    pub(crate) fn own(
        context: &Arc<ServerContext>,
        live: &Arc<LiveConnection>,
        bare: &Inventory,
        hearer: Hearer,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let Hearer { call: caller, subscriptions } = hearer;
        let (keeper, _) = Self::new(context, live, bare, reports);
        Self { subscriptions, caller: Some(Arc::new(caller)), ..keeper }
    }

    /// The same, until it is of no use any more: there is nothing left to keep, or the session is lost.
    pub(crate) async fn run_own(self) {
        let keeping = async { if self.live.is_modern() { self.keep_modern().await } else { self.keep_legacy().await } };
        tokio::select! {
            () = keeping => {}
            () = self.forward_changes() => {}
        }
    }

    /// A request in the name of whom it is for.
    async fn ask(&self, method: &str, params: &Raw, deadline: Duration) -> Result<Result<Raw, RpcError>, LinkError> {
        let Some(call) = &self.caller else { return self.live.ask(method, params, deadline).await };
        let request = CallRequest { context: &self.context, live: &self.live, method, params, call };
        let asked = tokio::time::timeout(deadline, Box::pin(request.send())).await;
        asked.unwrap_or(Err(LinkError::Timeout(deadline)))
    }

    /// Runs until the connection is left.
    pub(crate) async fn run(self, mut stop: Stop) {
        let keeping = async { if self.live.is_modern() { self.keep_modern().await } else { self.keep_legacy().await } };
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            // Neither ends by itself. A drop leaves nothing half done: the connection ends with it.
            ((), ()) = async { tokio::join!(keeping, self.forward_changes()) } => {}
        }
    }

    /// Forwards changes as events. Those that come while the receiver is busy are merged.
    async fn forward_changes(&self) {
        let subscriptions = &self.subscriptions;
        loop {
            while let Some(change) = subscriptions.pop() {
                let server = self.context.config.name.clone();
                let principal = self.caller.as_ref().and_then(|caller| caller.client.principal.clone());
                let event = match change {
                    Change::Updated { uri, .. } => Event::ResourceUpdated { server, principal, uri: uri.to_string() },
                    Change::Task { params, .. } => Event::TaskChanged { server, principal, params },
                    Change::Tools | Change::Prompts | Change::Resources => continue,
                };
                if self.context.deps.events.send(event).await.is_err() {
                    return std::future::pending().await;
                }
            }
            tokio::time::sleep(FORWARD_INTERVAL).await;
            subscriptions.ready().await;
        }
    }

    /// The waits between attempts.
    pub(crate) fn backoff() -> Backoff {
        Backoff::new(FIRST_RETRY, LAST_RETRY)
    }

    /// Lists may be read now, as far as subscriptions are concerned. `true` when reading has begun already.
    fn settle_lists(&self) -> bool {
        self.settled.send_replace(true);
        self.list_begun.load(Ordering::Acquire)
    }

    /// Refuses whatever is wanted from now on, for ever.
    async fn refuse_on(&self, mut changed: watch::Receiver<()>) {
        loop {
            self.subscriptions.refuse_all();
            if changed.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// The lists of which a server says that it notifies of their changes.
fn lists_of(bare: &Inventory) -> Filter {
    Filter {
        tools: bare.declares("tools", "listChanged"),
        prompts: bare.declares("prompts", "listChanged"),
        resources: bare.declares("resources", "listChanged"),
        ..Filter::default()
    }
}
