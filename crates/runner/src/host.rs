//! The gateway's side: it accepts runners, gives them runs, answers what they ask, and takes runs back.
//!
//! [`RunnerHost`] stands where [`Runs`] stands without runners, and is one too: a run without a runner is executed here.
//! A run that was given away has a lease, one task each (`host/lease.rs`), which holds its ledger (`host/ledger.rs`).

mod connection;
mod lease;
mod ledger;
mod table;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use toolcrib_agent::driver::{DriveError, DriveRuns, Observe, Rest, Runs, Surroundings};
use toolcrib_agent::{Action, Entry, Event, Run, Start};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem};

use crate::link::ConnectionError;
use crate::payload::RunnerConfig;
use crate::proof::Trust;
use lease::{Lease, LeaseEnd, Order};
use table::{Place, Table};

/// Orders that wait for a lease.
const ORDERS: usize = 64;

/// How runners are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostConfig {
    /// Runs that one runner executes at once.
    pub runs: usize,
    /// How often a runner says that it lives.
    pub heartbeat: std::time::Duration,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { runs: 256, heartbeat: std::time::Duration::from_secs(10) }
    }
}

/// Beats that may be missing before a runner counts as lost.
const MISSED_BEATS: u32 = 3;

impl HostConfig {
    fn for_runners(self) -> RunnerConfig {
        let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        RunnerConfig {
            runs: self.runs,
            heartbeat_ms: ms(self.heartbeat),
            silence_ms: ms(self.heartbeat * MISSED_BEATS),
        }
    }

    fn silence(self) -> std::time::Duration {
        self.heartbeat * MISSED_BEATS
    }
}

/// A runner that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerDescription {
    /// Its name.
    pub name: String,
    /// Runs that it executes.
    pub runs: usize,
    /// It ends what it has.
    pub stops: bool,
    /// The version of the configuration that applies there.
    pub config: u64,
}

/// Runs, executed here or by runners. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct RunnerHost {
    shared: Arc<HostState>,
}

#[derive(Debug)]
struct HostState {
    around: Surroundings,
    scope: Scope,
    local: OnceLock<Runs>,
    table: std::sync::Mutex<Table>,
    config: watch::Sender<(u64, HostConfig)>,
    next: AtomicU64,
}

/// Watches runs that are executed here, so that the table forgets them.
struct LocalObserver {
    inner: Arc<dyn Observe>,
    shared: Weak<HostState>,
}

impl Observe for LocalObserver {
    fn delta(&self, run: &str, text: &str) {
        self.inner.delta(run, text);
    }

    fn entry(&self, run: &str, entry: &Entry) {
        self.inner.entry(run, entry);
    }

    fn rest(&self, run: &str, rest: &Result<Rest, DriveError>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.forget_local(run);
        }
        self.inner.rest(run, rest);
    }
}

/// What is to be done with a run.
enum Work {
    Start(Box<Start>),
    Resume,
    Tell(Event),
}

// === impl RunnerHost ===

impl RunnerHost {
    /// A host whose tasks belong to `scope`.
    pub fn new(around: Surroundings, scope: Scope, config: HostConfig) -> Self {
        let shared = Arc::new_cyclic(|own: &Weak<HostState>| {
            let observer = LocalObserver { inner: Arc::clone(&around.observer), shared: own.clone() };
            let local = Surroundings { observer: Arc::new(observer), ..around.clone() };
            HostState {
                local: OnceLock::from(Runs::new(local, scope.clone())),
                around,
                scope,
                table: std::sync::Mutex::default(),
                config: watch::Sender::new((1, config)),
                next: AtomicU64::new(1),
            }
        });
        Self { shared }
    }

    /// Uses runners differently from now on. Each connected one is sent the next version.
    pub fn configure(&self, config: HostConfig) {
        self.shared.config.send_if_modified(|(version, applied)| {
            let changed = *applied != config;
            (*version, *applied) = (*version + u64::from(changed), config);
            changed
        });
    }

    /// The runners that are connected, by name.
    pub fn runners(&self) -> Vec<RunnerDescription> {
        self.shared.table().runners()
    }

    /// Runs a connection to a runner until it ends, and says why. Its runs go on elsewhere.
    pub async fn serve<S>(&self, stream: S, trust: Trust) -> ConnectionError
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        connection::serve(Arc::clone(&self.shared), stream, trust).await
    }
}

#[async_trait]
impl DriveRuns for RunnerHost {
    async fn start(&self, start: Start) -> Result<(), DriveError> {
        start.check()?;
        let id = start.run.clone();
        self.shared.work(&id, Work::Start(Box::new(start))).await
    }

    async fn resume(&self, id: &str) -> Result<(), DriveError> {
        self.shared.work(id, Work::Resume).await
    }

    async fn tell(&self, id: &str, event: Event) -> Result<(), DriveError> {
        self.shared.work(id, Work::Tell(event)).await
    }

    fn count(&self) -> usize {
        self.shared.table().runs()
    }

    fn is_running(&self, id: &str) -> bool {
        self.shared.table().has(id)
    }
}

// === impl HostState ===

fn stopped() -> DriveError {
    DriveError::Storage(Problem::new(Kind::Cancelled, "the program stops"))
}

impl HostState {
    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn local(&self) -> &Runs {
        self.local.get().expect("it is set where this value is made")
    }

    fn forget_local(&self, run: &str) {
        self.table().forget_local(run, || self.local().is_running(run));
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Does it where the run is, or gives the run a place.
    async fn work(self: &Arc<Self>, id: &str, work: Work) -> Result<(), DriveError> {
        let mut work = work;
        loop {
            let place = self.table().place(id, || self.number());
            match place {
                Place::Local => {
                    let done = match work {
                        Work::Start(start) => self.local().start(*start).await,
                        Work::Resume => self.local().resume(id).await,
                        Work::Tell(event) => self.local().tell(id, event).await,
                    };
                    self.table().local_work_done(id, || self.local().is_running(id));
                    return done;
                }
                Place::New(place) => {
                    let (shared, id) = (Arc::clone(self), id.to_owned());
                    // Whole, also if who waits for it goes away.
                    let done = self.scope.spawn(async move { shared.lend(id, place, work).await }).await;
                    return done.unwrap_or_else(|_| Err(stopped()));
                }
                Place::Leased(mut handle) => {
                    let event = match work {
                        Work::Start(_) => return Err(DriveError::Taken(id.to_owned())),
                        Work::Resume => return Ok(()),
                        Work::Tell(event) => event,
                    };
                    let (reply, answer) = oneshot::channel();
                    match handle.orders.send(Order { event, reply }).await {
                        Ok(()) => return answer.await.unwrap_or_else(|_| Err(stopped())),
                        Err(mpsc::error::SendError(order)) => work = Work::Tell(order.event),
                    }
                    // The lease ends: there is another place soon.
                    let _ = handle.gone.changed().await;
                }
            }
        }
    }

    /// The same from within a lease's end, which itself is begun by it.
    fn again<'a>(self: &'a Arc<Self>, id: &'a str, work: Work) -> BoxFuture<'a, Result<(), DriveError>> {
        self.work(id, work).boxed()
    }

    /// Prepares a run and gives it to a runner.
    async fn lend(self: Arc<Self>, id: String, place: table::NewPlace, work: Work) -> Result<(), DriveError> {
        let prepared = self.prepare(&id, work).await;
        let (run, news) = match prepared {
            Ok(Some(prepared)) => prepared,
            nothing => {
                place.connection.take_back(place.lease);
                self.table().remove(&id);
                return nothing.map(drop);
            }
        };
        let shared = Arc::clone(&self);
        self.scope.spawn(async move {
            let (lease, gone) = Lease::new(Arc::clone(&shared), id.clone(), run, place);
            let (end, orders) = lease.drive(news).await;
            shared.end(id, end, orders, gone).await;
        });
        Ok(())
    }

    /// The run as its journal says, and what it is to be told; nothing if there is nothing to do.
    async fn prepare(&self, id: &str, work: Work) -> Result<Option<(Run, Vec<Event>)>, DriveError> {
        let read = self.around.journal.read(id).await.map_err(DriveError::Storage)?;
        let read = read.filter(|entries| !entries.is_empty());
        if let Work::Start(start) = work {
            if read.is_some() {
                return Err(DriveError::Taken(id.to_owned()));
            }
            let entry = Entry { at: self.around.clock.now(), event: Event::Started(start) };
            let mut run = Run::default();
            run.admit(&entry.event)?;
            self.around.journal.append(id, std::slice::from_ref(&entry), true).await?;
            run.apply(&entry)?;
            self.around.observer.entry(id, &entry);
            return Ok(Some((run, Vec::new())));
        }
        let entries = read.ok_or_else(|| DriveError::NoRun(id.to_owned()))?;
        let run = Run::fold(&entries)?;
        match work {
            Work::Tell(event) => {
                run.admit(&event)?;
                Ok(Some((run, vec![event])))
            }
            _ => {
                run.admit(&Event::Resumed)?;
                if let [Action::Wait(waits)] = run.actions().as_slice() {
                    self.around.observer.rest(id, &Ok(Rest::Waiting(waits.clone())));
                    return Ok(None);
                }
                Ok(Some((run, Vec::new())))
            }
        }
    }

    /// A lease ended: the run has no place any more. What is to go on elsewhere is given back.
    fn take_back(&self, id: &str, end: LeaseEnd) -> Option<Vec<Event>> {
        let mut table = self.table();
        table.remove(id);
        match end {
            LeaseEnd::Rest(rest) => {
                table.rested(id);
                drop(table);
                self.around.observer.rest(id, &rest);
                None
            }
            LeaseEnd::Elsewhere { runner_is_lost, only_here, news } => {
                if only_here {
                    table.keep_here(id);
                } else if runner_is_lost {
                    table.lost(id);
                }
                Some(news)
            }
        }
    }

    /// A lease ended: the run rests, or goes on elsewhere.
    async fn end(self: Arc<Self>, id: String, end: LeaseEnd, orders: mpsc::Receiver<Order>, gone: watch::Sender<()>) {
        let mut orders = orders;
        let news = self.take_back(&id, end);
        drop(gone);
        if let Some(news) = news {
            if let Err(error) = self.again(&id, Work::Resume).await {
                self.around.observer.rest(&id, &Err(error));
            }
            for event in news {
                if let Err(error) = self.again(&id, Work::Tell(event)).await {
                    tracing::warn!(run = id, "news for a run do not fit any more: {error}");
                }
            }
        }
        while let Some(order) = orders.recv().await {
            let _ = order.reply.send(self.again(&id, Work::Tell(order.event)).await);
        }
    }
}
