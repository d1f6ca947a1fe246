//! A stream of messages towards one client: what the client has not read waits in it, and what it has read stays for a
//! while, so that a broken connection can go on where it broke.
//!
//! A stream has at most one reader at a time, the newest. Anyone who writes is never held up: writers ask whether there
//! is room and leave out what may be left out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;
use toolcrib_base::random;
use toolcrib_protocol::Revision;
use toolcrib_protocol::event_id::EventId;
use toolcrib_protocol::sse::Event;

use super::{STREAM_QUEUE, lock};

/// How much may wait for the reader before there is no room, in bytes. The last message may exceed it.
const UNREAD_BYTES: usize = 1024 * 1024;
/// How many messages that were read stay for a client that comes back.
const KEPT: usize = 256;
/// How much of what was read stays, in bytes.
const KEPT_BYTES: usize = 1024 * 1024;
/// How much all streams of all sessions may keep for clients that may come back, in bytes.
const ALL_KEPT: usize = 256 * 1024 * 1024;
/// How long a client should wait before it comes back, in milliseconds.
const RETRY: u64 = 1_000;

/// What all streams together keep.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicUsize);

/// How far a stream can be taken up again, by the session's revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resumption {
    /// Events carry ids.
    ids: bool,
    /// The first event only says where to come back.
    primed: bool,
}

/// One stream.
#[derive(Debug)]
pub struct Stream {
    /// Random, since an id of another session's stream must be unknown here.
    id: u64,
    resumption: Resumption,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Something changed for the writer: there is room, or the reader came or went.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What is kept, read or not; the first has the number `first`.
    messages: VecDeque<Bytes>,
    first: u64,
    /// The number of the next message to be read.
    read: u64,
    unread_bytes: usize,
    read_bytes: usize,
    ended: bool,
    expired: bool,
    /// Which reader it is the turn of; counts up.
    turn: u64,
    attached: bool,
    waker: Option<Waker>,
}

/// Reads a stream. Another one on the same stream ends it.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<Stream>,
    turn: u64,
}

// === impl Resumption ===

impl Resumption {
    /// A stream that is lost when its connection is.
    pub(super) const NONE: Self = Self { ids: false, primed: false };

    pub(super) fn of(revision: Revision) -> Self {
        Self { ids: revision.has_resumption(), primed: revision.has_primed_streams() }
    }
}

// === impl Budget ===

impl Budget {
    fn is_exceeded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > ALL_KEPT
    }
}

// === impl State ===

impl State {
    fn next(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn unread(&self) -> usize {
        usize::try_from(self.next() - self.read).unwrap_or(usize::MAX)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

// === impl Stream ===

impl Stream {
    /// A stream without a session, with its reader: it is lost when its connection is.
    pub fn passing() -> (Arc<Self>, Reader) {
        let stream = Self::new(Resumption::NONE, Arc::default());
        let reader = stream.first_reader();
        (stream, reader)
    }

    pub(super) fn new(resumption: Resumption, budget: Arc<Budget>) -> Arc<Self> {
        let id = u64::from_str_radix(&random::hex_128()[..16], 16).expect("sixteen hexadecimal digits fit");
        // The first event has the number 1, so that 0 can stand for what comes before any.
        let state = Mutex::new(State { first: 1, read: 1, ..State::default() });
        let stream = Self { id, resumption, budget, state, changed: Notify::new() };
        if resumption.primed {
            stream.push(Bytes::new());
        }
        Arc::new(stream)
    }

    pub(super) fn is(&self, id: EventId) -> bool {
        self.resumption.ids && self.id == id.stream
    }

    /// Whether a lossy message may be put now: what waits for the reader is within its bounds.
    pub fn has_room(&self) -> bool {
        let state = lock(&self.state);
        state.expired || (state.unread() < STREAM_QUEUE && state.unread_bytes < UNREAD_BYTES)
    }

    /// Puts a message; nothing happens when the stream has ended.
    pub fn push(&self, message: Bytes) {
        let mut state = lock(&self.state);
        if state.ended || state.expired {
            return;
        }
        state.unread_bytes += message.len();
        self.budget.0.fetch_add(message.len(), Ordering::Relaxed);
        state.messages.push_back(message);
        self.trim(&mut state);
        state.wake();
    }

    /// Puts the last message, if there is one, and ends the stream.
    pub fn finish(&self, message: Option<Bytes>) {
        if let Some(message) = message {
            self.push(message);
        }
        let mut state = lock(&self.state);
        state.ended = true;
        state.wake();
    }

    /// Whether a client reads it.
    pub fn is_attached(&self) -> bool {
        lock(&self.state).attached
    }

    /// Whether no one will ever read it again.
    pub fn is_expired(&self) -> bool {
        lock(&self.state).expired
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).ended
    }

    /// Waits until there may be room, or the reader came or went. For one writer. Cancel-safe.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Frees everything that it keeps; no one can read it again.
    pub(super) fn expire(&self) {
        self.forget(&mut lock(&self.state));
        self.changed.notify_one();
    }

    /// Begins to read a stream that is new.
    pub(super) fn first_reader(self: &Arc<Self>) -> Reader {
        self.attach(lock(&self.state))
    }

    /// Reads on after a message that the client names. `None` when what comes after it is not kept, or was never there.
    pub(super) fn read_after(self: &Arc<Self>, after: u64) -> Option<Reader> {
        let mut state = lock(&self.state);
        if state.expired {
            return None;
        }
        // The next one must still be here, or not be there yet.
        let next = after.checked_add(1).filter(|next| (state.first..=state.next()).contains(next))?;
        let from = usize::try_from(next - state.first).ok()?;
        let read_bytes = state.messages.iter().take(from).map(Bytes::len).sum();
        state.unread_bytes = state.read_bytes + state.unread_bytes - read_bytes;
        (state.read, state.read_bytes) = (next, read_bytes);
        Some(self.attach(state))
    }

    fn attach(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> Reader {
        state.turn += 1;
        state.attached = true;
        state.wake();
        let turn = state.turn;
        drop(state);
        self.changed.notify_one();
        Reader { stream: Arc::clone(self), turn }
    }

    /// Forgets what was read long ago; a stream that no one reads, and that there is no place for, altogether.
    fn trim(&self, state: &mut State) {
        let most = if self.resumption.ids { KEPT } else { 0 };
        loop {
            let read = state.messages.len() - state.unread();
            let too_much = read > most || state.read_bytes > KEPT_BYTES || self.budget.is_exceeded();
            if read == 0 || !too_much {
                break;
            }
            if let Some(message) = state.messages.pop_front() {
                state.first += 1;
                state.read_bytes -= message.len();
                self.budget.0.fetch_sub(message.len(), Ordering::Relaxed);
            }
        }
        if self.budget.is_exceeded() && !state.attached && state.turn > 0 {
            self.forget(state);
        }
    }

    fn forget(&self, state: &mut State) {
        self.budget.0.fetch_sub(state.read_bytes + state.unread_bytes, Ordering::Relaxed);
        state.first = state.next();
        state.read = state.first;
        state.messages = VecDeque::new();
        (state.read_bytes, state.unread_bytes) = (0, 0);
        (state.expired, state.attached) = (true, false);
        state.wake();
    }

    fn event(&self, number: u64, data: Bytes) -> Event {
        let id = self.resumption.ids.then(|| EventId { stream: self.id, sequence: number }.to_string());
        let retry = data.is_empty().then_some(RETRY);
        Event { event: None, data, id, retry }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let state = lock(&self.state);
        self.budget.0.fetch_sub(state.read_bytes + state.unread_bytes, Ordering::Relaxed);
    }
}

// === impl Reader ===

impl Reader {
    /// The next event; `None` at the end, or when another reader has taken over.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = lock(&self.stream.state);
        if state.turn != self.turn || state.expired {
            return Poll::Ready(None);
        }
        let number = state.read;
        let index = usize::try_from(number - state.first).unwrap_or(usize::MAX);
        let Some(message) = state.messages.get(index).cloned() else {
            if state.ended {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.read += 1;
        state.unread_bytes -= message.len();
        state.read_bytes += message.len();
        self.stream.trim(&mut state);
        drop(state);
        self.stream.changed.notify_one();
        Poll::Ready(Some(self.stream.event(number, message)))
    }

    /// The next message. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Bytes> {
        loop {
            let event = poll_fn(|cx| self.poll_event(cx)).await?;
            if !event.data.is_empty() {
                return Some(event.data);
            }
        }
    }

    /// The next message, if it is there already.
    pub fn try_recv(&mut self) -> Option<Bytes> {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(event)) = self.poll_event(&mut cx) {
            if !event.data.is_empty() {
                return Some(event.data);
            }
        }
        None
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.stream.state);
        if state.turn != self.turn {
            return;
        }
        (state.attached, state.waker) = (false, None);
        if !self.stream.resumption.ids {
            self.stream.forget(&mut state);
        }
        drop(state);
        self.stream.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
