//! The places of one server: how many calls it may have running, and who comes next when all are taken.
//!
//! Callers take turns: anyone who waits longest among the principals, and of its calls the tool that waits longest. No
//! tool takes all places, so that one that hangs leaves some to the others (`SHARE`). Without a queue a call costs two
//! short locks; the state is never locked across an await.

mod queue;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use toolcrib_base::PrincipalId;

use queue::{Queue, Ticket};

/// How many calls one server may have running unless its definition says otherwise. Each is a line, or a connection,
/// that waits for its answer.
pub const PLACES: usize = 256;

/// How many calls may wait for a place at one server. Each is a request that was read, with its future: some 8 KiB
/// beside its body, so 64 MiB; what waits in their bodies is bounded where bodies are read.
pub const WAITING: usize = 8_192;

/// Unless its definition says otherwise, a tool may hold so many times as many places as are left free: 224 of 256
/// where one alone hangs, 119 where two do. Whatever hangs, a tool that holds none finds one.
pub(crate) const SHARE: usize = 7;

/// What a definition says of the calls that may run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// All together.
    pub calls: usize,
    /// Those of one tool; `None` is what `SHARE` allows.
    pub per_tool: Option<usize>,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { calls: PLACES, per_tool: None }
    }
}

/// Why a call got no place. It was not sent to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// As many calls wait as may.
    Full,
    /// None became free in time.
    Timeout(Duration),
}

/// The places of one server.
#[derive(Clone)]
pub struct Places {
    queue: Arc<Mutex<Queue>>,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("load", &self.load()).finish_non_exhaustive()
    }
}

/// How the places of a server are used at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// What the definition allows.
    pub concurrency: Concurrency,
    /// Calls that have a place.
    pub running: usize,
    /// Calls that wait for one.
    pub waiting: usize,
}

/// A place at a server, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    tool: Arc<str>,
    /// How long the call has waited for it.
    pub waited: Duration,
}

/// A call in the queue. Dropped before its turn it leaves the queue; dropped in the moment of its turn it passes the
/// place on.
struct QueuedCall<'a> {
    places: &'a Places,
    ticket: Option<Ticket>,
}

// === impl Places ===

impl Places {
    /// All free.
    pub fn new(concurrency: Concurrency) -> Self {
        Self { queue: Arc::new(Mutex::new(Queue::new(concurrency))) }
    }

    /// Waits for a place for a call of `tool`, its turn coming after at most one call of every other principal that
    /// waits. Cancel-safe.
    ///
    /// # Errors
    /// Too many wait already, or there was none within `timeout`.
    pub async fn take(&self, principal: &PrincipalId, tool: &str, timeout: Duration) -> Result<Place, NoPlace> {
        let (mut waiting, turn) = {
            let mut queue = self.lock();
            if let Some(tool) = queue.take(tool) {
                return Ok(Place { places: self.clone(), tool, waited: Duration::ZERO });
            }
            let (sender, turn) = oneshot::channel();
            let ticket = queue.enter(principal, tool, sender).ok_or(NoPlace::Full)?;
            (QueuedCall { places: self, ticket: Some(ticket) }, turn)
        };
        let since = Instant::now();
        // Boxed: hardly any call waits, and the future of each is moved.
        let waited = Box::pin(tokio::time::timeout(timeout, turn)).await;
        match waited {
            // The sender lives in the queue until it is the call's turn.
            Ok(_) => {
                let tool = waiting.ticket.take().map_or_else(|| tool.into(), |ticket| ticket.tool);
                Ok(Place { places: self.clone(), tool, waited: since.elapsed() })
            }
            Err(_) => Err(NoPlace::Timeout(timeout)),
        }
    }

    /// How many calls of a tool have a place.
    pub fn running(&self, tool: &str) -> usize {
        self.lock().running(tool)
    }

    /// How they are used.
    pub fn load(&self) -> Load {
        self.lock().load()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // What is counted is whole after every statement.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().give_back(&self.tool);
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.places.lock().leave(&ticket);
        }
    }
}

#[cfg(test)]
mod tests;
