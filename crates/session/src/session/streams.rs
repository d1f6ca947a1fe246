//! All streams of one session: those on which it hears news, and those of its requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Notification;
use toolcrib_protocol::event_id::EventId;

use super::stream::{Budget, Reader, Resumption, Stream};
use super::{Session, lock};

/// How many streams for news one session may hold open.
const OPEN: usize = 8;
/// How many streams one session keeps, so that they can be taken up again.
const KEPT: usize = 32;

/// How many requests of one session may go on without a connection.
const DETACHED: usize = 32;
/// How many of all sessions. Connections bound the others.
const ALL_DETACHED: usize = 1_024;

/// What all sessions share.
#[derive(Debug)]
pub(super) struct StreamLimits {
    /// What their streams keep.
    pub(super) budget: Arc<Budget>,
    detached: Arc<Semaphore>,
    /// Whether the gateway ends, so that there will be no more news.
    ending: AtomicBool,
}

/// The places of a request that goes on without a connection.
#[derive(Debug)]
pub struct DetachPermit(#[expect(dead_code, reason = "held until it is dropped")] [OwnedSemaphorePermit; 2]);

/// The streams of one session, oldest first.
#[derive(Debug)]
pub(super) struct Streams {
    kept: Mutex<VecDeque<StreamEntry>>,
    shared: Arc<StreamLimits>,
    detached: Arc<Semaphore>,
}

/// On which streams a message may wait for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// One that is read now.
    Live,
    /// One that is read now, else one that may be resumed.
    Resumable,
}

#[derive(Debug)]
struct StreamEntry {
    stream: Arc<Stream>,
    /// Whether it carries what belongs to no request.
    for_notifications: bool,
}

// === impl StreamLimits ===

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            budget: Arc::default(),
            detached: Arc::new(Semaphore::new(ALL_DETACHED)),
            ending: AtomicBool::new(false),
        }
    }
}

impl StreamLimits {
    /// From here on streams for news end as soon as their session is quiet.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }
}

// === impl Streams ===

impl Streams {
    pub(super) fn new(shared: Arc<StreamLimits>) -> Self {
        Self { kept: Mutex::default(), shared, detached: Arc::new(Semaphore::new(DETACHED)) }
    }

    /// Ends all: what was put is still read, by those who read.
    pub(super) fn close(&self) {
        for kept in lock(&self.kept).drain(..) {
            if kept.stream.is_attached() { kept.stream.finish(None) } else { kept.stream.expire() }
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.shared.ending.load(Ordering::SeqCst)
    }

    /// Ends the streams that carry what belongs to no request.
    pub(super) fn end_notifications(&self) {
        for kept in lock(&self.kept).iter().filter(|kept| kept.for_notifications) {
            kept.stream.finish(None);
        }
    }

    pub(super) fn are_quiet(&self) -> bool {
        !lock(&self.kept).iter().any(|kept| kept.stream.is_attached())
    }

    fn add(&self, kept: &mut VecDeque<StreamEntry>, resumption: Resumption, for_notifications: bool) -> Arc<Stream> {
        kept.retain(|kept| !kept.stream.is_expired());
        while kept.len() >= KEPT {
            // The oldest that has ended or that no one reads, else one of a request: it only cannot be taken up again.
            let idle = |kept: &StreamEntry| kept.stream.has_ended() || !kept.stream.is_attached();
            let oldest = (kept.iter().position(idle))
                .or_else(|| kept.iter().position(|kept| !kept.for_notifications))
                .unwrap_or(0);
            if let Some(gone) = kept.remove(oldest)
                && !gone.stream.is_attached()
            {
                gone.stream.expire();
            }
        }
        let stream = Stream::new(resumption, Arc::clone(&self.shared.budget));
        kept.push_back(StreamEntry { stream: Arc::clone(&stream), for_notifications });
        stream
    }
}

fn ended() -> Problem {
    Problem::new(Kind::NotFound, "the session has ended").hint("Send `initialize` again.")
}

// === impl Session ===

impl Session {
    /// Opens a stream for what the gateway says on its own.
    pub fn open_stream(&self) -> Result<Reader, Problem> {
        let mut kept = lock(&self.streams.kept);
        if self.is_closed() {
            return Err(ended());
        }
        if kept.iter().filter(|kept| kept.for_notifications && kept.stream.is_attached()).count() >= OPEN {
            return Err(Problem::new(Kind::Busy, format!("the session has {OPEN} open streams"))
                .hint("Close one before opening another."));
        }
        let stream = self.streams.add(&mut kept, Resumption::of(self.revision), true);
        Ok(stream.first_reader())
    }

    /// Whether it reads a stream for news now.
    pub fn is_listening(&self) -> bool {
        lock(&self.streams.kept).iter().any(|kept| kept.for_notifications && kept.stream.is_attached())
    }

    /// Begins the stream of a request, with its reader.
    pub fn begin_stream(&self) -> (Arc<Stream>, Reader) {
        let mut kept = lock(&self.streams.kept);
        let stream = self.streams.add(&mut kept, Resumption::of(self.revision), false);
        let reader = stream.first_reader();
        (stream, reader)
    }

    /// A place for a request that goes on although its connection broke; `None` when too many do.
    pub fn detach(&self) -> Option<DetachPermit> {
        let place = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().ok();
        Some(DetachPermit([place(&self.streams.detached)?, place(&self.streams.shared.detached)?]))
    }

    /// Takes a stream up again after the event that a client names, which must be one of this session's.
    pub fn resume_stream(&self, event: &str) -> Result<Reader, Problem> {
        let unknown = || {
            let shown: String = event.chars().take(64).collect();
            let message = format!("event `{shown}` is of no stream of this session, or not kept any more");
            Problem::new(Kind::InvalidRequest, message).hint(
                "Open a new stream without `Last-Event-ID`. A call whose answer is lost may have run: check before you \
                 repeat it.",
            )
        };
        let id = EventId::parse(event).ok_or_else(unknown)?;
        let kept = lock(&self.streams.kept);
        let found = kept.iter().find(|kept| kept.stream.is(id));
        found.and_then(|kept| kept.stream.read_after(id.sequence)).ok_or_else(unknown)
    }

    /// Sends a notification on one of the session's streams. `false` when it has none, or the client does not keep up.
    pub fn notify(&self, notification: &Notification) -> bool {
        self.put(&notification.to_bytes(), Delivery::Resumable)
    }

    /// Puts a message on one stream that has room; `false` when there is none.
    pub(super) fn put(&self, message: &Bytes, delivery: Delivery) -> bool {
        let kept = lock(&self.streams.kept);
        let with_room =
            || kept.iter().filter(|kept| kept.for_notifications && !kept.stream.is_expired() && kept.stream.has_room());
        let read = with_room().find(|kept| kept.stream.is_attached());
        match read.or_else(|| with_room().next_back().filter(|_| delivery == Delivery::Resumable)) {
            Some(kept) => {
                kept.stream.push(message.clone());
                true
            }
            None => false,
        }
    }
}
