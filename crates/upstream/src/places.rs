//! The places of one server: how many calls it may have running, and who comes next when all are taken.
//!
//! Callers take turns: anyone who waits longest among the principals, and of its calls the tool that waits longest. No
//! tool takes all places, so that one that hangs leaves some to the others (`SHARE`). Without a queue a call costs two
//! short locks; the state is never locked across an await.
//!
//! What waits is bounded, and shared out: in a full queue, one who has few calls waiting takes the place of the newest
//! call of the one who has most. So no flood keeps the queue from others.

mod queue;
mod shares;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use toolcrib_base::{Glob, PrincipalId};

use queue::{Queue, Ticket};

/// How many calls one server may have running unless its definition says otherwise. Each is a line, or a connection,
/// that waits for its answer.
pub const PLACES: usize = 256;

/// How many calls may wait for a place at one server unless its definition says otherwise. Each is a request that was read, with its future: some 8 KiB
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

/// What the places of a server are bounded by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceLimits {
    /// How many calls may run.
    pub concurrency: Concurrency,
    /// How many may wait.
    pub queue: usize,
    /// What holds for some tools beside that. Of several patterns for one tool the least number counts.
    pub tools: Arc<[ToolPlaces]>,
}

/// What the tools of a pattern are bounded by, each by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPlaces {
    /// Which tools, as the server names them.
    pub pattern: Glob,
    /// How many calls of one may run.
    pub concurrent: Option<usize>,
    /// How many may wait.
    pub queue: Option<usize>,
}

impl Default for PlaceLimits {
    fn default() -> Self {
        Self { concurrency: Concurrency::default(), queue: WAITING, tools: Arc::new([]) }
    }
}

/// What takes turns with others at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane<'a> {
    /// A tool, or a method for everything else.
    pub name: &'a str,
    /// Whether it is a tool, so that the limits of tools hold for it.
    pub is_tool: bool,
}

impl<'a> Lane<'a> {
    /// That of a tool.
    pub fn tool(name: &'a str) -> Self {
        Self { name, is_tool: true }
    }

    /// That of requests that call no tool.
    pub fn method(name: &'a str) -> Self {
        Self { name, is_tool: false }
    }
}

/// Why a call got no place. It was not sent to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// As many calls wait at the server as may, and of this caller no fewer than of any other.
    Full {
        /// How many may.
        most: usize,
    },
    /// The same of the calls of its tool.
    ToolFull {
        /// How many may.
        most: usize,
    },
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
    /// How many calls may wait.
    pub queue: usize,
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
/// place on; dropped when another took its place in the queue it has nothing to give back.
struct QueuedCall<'a> {
    places: &'a Places,
    ticket: Ticket,
    turn: oneshot::Receiver<Turn>,
    is_over: bool,
}

/// What becomes of a call that waits.
type Turn = Result<(), NoPlace>;

// === impl Places ===

impl Places {
    /// All free.
    pub fn new(limits: PlaceLimits) -> Self {
        Self { queue: Arc::new(Mutex::new(Queue::new(limits))) }
    }

    /// Other limits from now on. What runs and what waits stays.
    pub fn set_limits(&self, limits: PlaceLimits) {
        self.lock().set_limits(limits);
    }

    /// Waits for a place, its turn coming after at most one call of every other principal that waits. Cancel-safe.
    ///
    /// # Errors
    /// Too many wait already, or there was none within `timeout`.
    pub async fn take(&self, principal: &PrincipalId, lane: Lane<'_>, timeout: Duration) -> Result<Place, NoPlace> {
        let mut waiting = {
            let mut queue = self.lock();
            if let Some(tool) = queue.take(lane) {
                return Ok(Place { places: self.clone(), tool, waited: Duration::ZERO });
            }
            let (sender, turn) = oneshot::channel();
            let ticket = queue.enter(principal, lane, sender)?;
            QueuedCall { places: self, ticket, turn, is_over: false }
        };
        let since = Instant::now();
        // Boxed: hardly any call waits, and the future of each is moved.
        let waited = Box::pin(tokio::time::timeout(timeout, &mut waiting.turn)).await;
        // The sender lives in the queue until it is the call's turn, so it never just goes away.
        let Ok(Ok(turn)) = waited else { return Err(NoPlace::Timeout(timeout)) };
        waiting.is_over = true;
        turn?;
        let tool = Arc::clone(&waiting.ticket.tool);
        Ok(Place { places: self.clone(), tool, waited: since.elapsed() })
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
        if self.is_over {
            return;
        }
        // Locked first: what became of it does not change meanwhile.
        let mut queue = self.places.lock();
        match self.turn.try_recv() {
            Ok(Ok(())) => queue.give_back(&self.ticket.tool),
            Ok(Err(_)) => {}
            Err(_) => queue.leave(&self.ticket),
        }
    }
}

#[cfg(test)]
mod tests;
