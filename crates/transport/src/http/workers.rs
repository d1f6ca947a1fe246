//! The threads that serve connections. Each has a runtime of its own with sockets and timers of its own, so that a request
//! is read, sent on and answered on one thread and wakes no other. Knows no HTTP.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot};

/// How far ahead the timer of a busy worker is at most: less than any deadline of a request.
const TICK: Duration = Duration::from_secs(1);

thread_local! {
    /// Which worker this thread is, from 1; 0 for every other thread.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static TICKER: Rc<Ticker> = Rc::default();
}

/// Keeps a timer ahead of all deadlines of requests while there are requests. A runtime of one thread writes to its own
/// event file, and wakes itself, for each deadline that comes before all others: without this, for every call.
#[derive(Debug, Default)]
struct Ticker {
    /// There was a request since the last tick.
    busy: Cell<bool>,
    /// There is one after a pause.
    begun: Notify,
}

/// Threads for connections. Clones are handles to the same threads, which end with the last handle.
#[derive(Debug, Clone)]
pub struct Workers(Arc<[Worker]>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: AtomicUsize,
    /// Dropped, it ends the thread.
    _end: oneshot::Sender<()>,
}

/// A place on a worker, for one connection.
#[derive(Debug)]
pub(crate) struct WorkerPlace {
    workers: Workers,
    index: usize,
}

// === impl Workers ===

impl Workers {
    /// None: connections are served in the runtime that accepts them.
    pub fn none() -> Self {
        Self(Arc::new([]))
    }

    /// One for each core that this process may use.
    ///
    /// # Errors
    /// The system gives no more threads, or no more files.
    pub fn for_each_core() -> io::Result<Self> {
        Self::start(thread::available_parallelism().map_or(1, usize::from))
    }

    /// So many.
    ///
    /// # Errors
    /// See [`Workers::for_each_core`].
    pub fn start(count: usize) -> io::Result<Self> {
        let workers: io::Result<Vec<Worker>> = (1..=count).map(Worker::start).collect();
        Ok(Self(workers?.into()))
    }

    /// A place on the worker with the fewest connections; `None` where there are no workers.
    pub(crate) fn place(&self) -> Option<WorkerPlace> {
        let load = |worker: &Worker| worker.connections.load(Ordering::Relaxed);
        let (index, worker) = self.0.iter().enumerate().min_by_key(|(_, worker)| load(worker))?;
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Some(WorkerPlace { workers: self.clone(), index })
    }
}

/// The number of the worker on whose thread this is called, from 1; 0 on any other thread.
pub(crate) fn current() -> usize {
    NUMBER.get()
}

/// Says that a request came on this thread.
pub(crate) fn note_request() {
    TICKER.with(|ticker| {
        if !ticker.busy.replace(true) {
            ticker.begun.notify_one();
        }
    });
}

// === impl Ticker ===

impl Ticker {
    async fn run(&self) -> std::convert::Infallible {
        loop {
            self.begun.notified().await;
            while self.busy.replace(false) {
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

// === impl Worker ===

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        thread::Builder::new().name(format!("http-{number}")).spawn(move || {
            NUMBER.set(number);
            let ticker = TICKER.with(Rc::clone);
            runtime.block_on(async {
                tokio::select! {
                    // An error: the last handle is gone.
                    _ = ended => {}
                    never = ticker.run() => match never {},
                }
            });
            // What still waits for the disk must not keep the thread.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, connections: AtomicUsize::new(0), _end: end })
    }
}

// === impl WorkerPlace ===

impl WorkerPlace {
    /// Where the connection is served.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.workers.0[self.index].runtime
    }
}

impl Drop for WorkerPlace {
    fn drop(&mut self) {
        self.workers.0[self.index].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shared_out_evenly() {
        let workers = Workers::start(3).unwrap();
        let places: Vec<_> = (0..9).filter_map(|_| workers.place()).collect();
        let counts = || -> Vec<usize> { workers.0.iter().map(|it| it.connections.load(Ordering::Relaxed)).collect() };
        assert_eq!(counts(), [3, 3, 3]);
        drop(places.into_iter().filter(|place| place.index == 1).collect::<Vec<_>>());
        assert_eq!(counts(), [0, 0, 0], "the others went with them");
        assert!(Workers::none().place().is_none());
    }

    #[tokio::test]
    async fn each_place_leads_to_the_thread_of_its_worker() {
        let workers = Workers::start(2).unwrap();
        let places: Vec<_> = (0..2).filter_map(|_| workers.place()).collect();
        for place in &places {
            let number = toolcrib_base::task::Scope::new().spawn_on(place.runtime(), async { current() });
            assert_eq!(number.await.unwrap(), place.index + 1);
        }
        assert_eq!(current(), 0);
    }

    #[tokio::test]
    async fn the_threads_end_with_the_last_handle() {
        let workers = Workers::start(1).unwrap();
        let place = workers.place().unwrap();
        let scope = toolcrib_base::task::Scope::new();
        let (waiting, ended) = oneshot::channel::<()>();
        scope.spawn_on(place.runtime(), async move {
            let _waiting = waiting;
            std::future::pending::<()>().await;
        });
        drop(workers);
        assert_eq!(place.runtime().metrics().num_workers(), 1);
        drop(place);
        assert!(ended.await.is_err(), "its tasks are dropped");
    }
}
