//! A connection on which messages flow both ways in order. Calls run concurrently and are matched by id.

mod events;
mod sink;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::broken::answered_id;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Id, Message, Notification, Raw, Request, RpcError, meta, method};

use crate::call::{CallHandler, CallOptions, Inbox, LinkError, Reply, cancelled};
use crate::http::client::{Endpoint, HttpClient};
use crate::http::link::Bounds;
use crate::process::{Line, Process};

use sink::MessageSink;

/// How many messages may wait in memory for the other side. Enough for a burst of concurrent calls.
const MEMORY_QUEUE: usize = 256;
/// How many requests of the other side may be unanswered at a time, those parked until a person decides among them.
const ASKED: usize = 64;

type Outcome = Result<Raw, RpcError>;

/// The shared half of a connection: what was sent and waits for its answer.
pub struct Peer {
    out: MessageSink,
    next: AtomicU64,
    /// `None` once the connection has ended: later calls fail at once.
    waiting: Mutex<Option<HashMap<u64, WaitingCall>>>,
    inbox: Arc<dyn Inbox>,
    rules: Rules,
    asked: Arc<Semaphore>,
}

struct WaitingCall {
    answer: oneshot::Sender<Result<Outcome, LinkError>>,
    handler: Option<Arc<dyn CallHandler>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

// === impl Peer ===

impl Peer {
    /// A connection to a child process. `start` starts it with the callback that its lines must go to.
    pub fn over_process<E>(
        inbox: Arc<dyn Inbox>,
        depth: usize,
        start: impl FnOnce(Box<dyn FnMut(Line) + Send>) -> Result<Process, E>,
    ) -> Result<Arc<Self>, E> {
        // The reader may see a line before `Arc<Peer>` exists, so the first lines wait in this cell.
        let cell: Arc<std::sync::OnceLock<std::sync::Weak<Peer>>> = Arc::default();
        let early: Arc<Mutex<Vec<Line>>> = Arc::default();
        let (reader_cell, reader_early) = (Arc::clone(&cell), Arc::clone(&early));
        let process = start(Box::new(move |line| {
            if reader_cell.get().is_none() {
                let mut early = reader_early.lock().unwrap_or_else(PoisonError::into_inner);
                // Filled under the lock, so what is still empty now will be filled after this line was taken.
                if reader_cell.get().is_none() {
                    early.push(line);
                    return;
                }
            }
            if let Some(peer) = reader_cell.get().and_then(std::sync::Weak::upgrade) {
                peer.line(line);
            }
        }))?;
        let sender = process.sender();
        let peer = Arc::new(Self::new(MessageSink::Process(process, sender), inbox, depth));
        let mut early = early.lock().unwrap_or_else(PoisonError::into_inner);
        for line in early.drain(..) {
            peer.line(line);
        }
        let _ = cell.set(Arc::downgrade(&peer));
        drop(early);
        Ok(peer)
    }

    /// Two ends of a connection in memory: the client's half and, for the server's half, a queue each way.
    pub fn in_memory(inbox: Arc<dyn Inbox>, depth: usize) -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (queue, other) = mpsc::channel(MEMORY_QUEUE);
        (Arc::new(Self::new(MessageSink::Memory(queue), inbox, depth)), other)
    }

    /// A connection over HTTP+SSE, the transport of 2024-11-05: one stream of events for all that the server says, and a
    /// POST for each message to the URL that the stream names first. The caller may bring a shorter deadline. Tasks
    /// belong to `scope`, with whose end the connection ends.
    pub async fn over_events(
        client: HttpClient,
        endpoint: Endpoint,
        inbox: Arc<dyn Inbox>,
        scope: Scope,
        bounds: Bounds,
    ) -> Result<Arc<Self>, LinkError> {
        let (posts, stream) = events::open(client, &endpoint, &scope, bounds).await?;
        let closed = posts.closed();
        let peer = Arc::new(Self::new(MessageSink::Posts(Box::new(posts)), inbox, bounds.depth));
        scope.spawn(events::read(Arc::downgrade(&peer), stream, closed, scope.stop_signal()));
        Ok(peer)
    }

    fn new(out: MessageSink, inbox: Arc<dyn Inbox>, depth: usize) -> Self {
        Self {
            out,
            next: AtomicU64::new(1),
            waiting: Mutex::new(Some(HashMap::new())),
            inbox,
            rules: Rules::foreign(depth),
            asked: Arc::new(Semaphore::new(ASKED)),
        }
    }

    /// The child process behind, where there is one.
    pub fn process(&self) -> Option<&Process> {
        match &self.out {
            MessageSink::Process(process, _) => Some(process),
            MessageSink::Memory(_) | MessageSink::Posts(_) => None,
        }
    }

    /// Whether it is HTTP+SSE.
    pub(crate) fn is_over_events(&self) -> bool {
        matches!(self.out, MessageSink::Posts(_))
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        id: u64,
        method: &str,
        params: Raw,
        mut options: CallOptions,
    ) -> Result<Outcome, LinkError> {
        let (answer, answered) = oneshot::channel();
        let handler = options.handler.take();
        match self.lock().as_mut() {
            Some(waiting) => waiting.insert(id, WaitingCall { answer, handler }),
            None => return Err(LinkError::Closed),
        };
        let request = Request { id: Id::from_number(id), method: method.to_owned(), params };
        let line = request.to_bytes();
        // From here on leaving early, in whatever way, takes the call back.
        let mut pending = PendingCall { peer: self, id, options: &options, answered: false };
        let deadline = options.deadline;
        let exchange = self.out.exchange(id, line, &options.headers, answered);
        let outcome = match tokio::time::timeout(deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                options.cancel_on_drop.store(true, Ordering::Relaxed);
                return Err(LinkError::Timeout(deadline));
            }
        };
        pending.answered = true;
        if !matches!(outcome, Ok(Ok(_))) {
            // A refusal of the message itself leaves the call waiting.
            self.lock().as_mut().and_then(|waiting| waiting.remove(&id));
        }
        outcome
    }

    pub(crate) async fn notify(&self, notification: &Notification) -> Result<(), LinkError> {
        self.out.send(notification.to_bytes()).await
    }

    pub(crate) async fn close(&self, grace: Duration) {
        match &self.out {
            MessageSink::Process(process, _) => drop(process.stop(grace).await),
            MessageSink::Posts(posts) => posts.close(),
            MessageSink::Memory(_) => {}
        }
        self.end();
    }

    /// Takes a line that the other side sent.
    pub fn line(self: &Arc<Self>, line: Line) {
        match line {
            Line::Text(line) => self.message(&line),
            Line::TooLong { bytes, edges } => {
                let what = format!("a line of {bytes} bytes was thrown away");
                self.unreadable(&what, answered_id(&edges.start, &edges.end));
            }
            Line::End => self.end(),
        }
    }

    /// Takes a message that the other side sent.
    pub fn message(self: &Arc<Self>, line: &Bytes) {
        match Message::parse(line, self.rules) {
            // Servers of 2025-03-26 may send several at once.
            Err(BadMessage::Batch) => match Message::parse_batch(line, self.rules) {
                Ok(batch) => batch.into_iter().for_each(|message| self.take(message, line)),
                Err(error) => self.take(Err(error), line),
            },
            message => self.take(message, line),
        }
    }

    fn take(self: &Arc<Self>, message: Result<Message, BadMessage>, line: &Bytes) {
        match message {
            Ok(Message::Answer(answer)) => self.answer(answer),
            Ok(Message::Notification(notification)) => self.notification(notification),
            Ok(Message::Request(request)) => self.request(request),
            Err(error) => {
                let start = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                self.unreadable(&format!("a line that is not a message ({error}): {start}"), answered_id(line, line));
            }
        }
    }

    /// Takes note of what is no message. The call that it was meant to answer, as far as that shows, need not wait for
    /// another answer.
    fn unreadable(&self, what: &str, id: Option<u64>) {
        self.inbox.oddity(what);
        if let Some(waiting) = id.and_then(|id| self.lock().as_mut()?.remove(&id)) {
            // What the server wrote is in its log, and not for the client.
            let why = what.split_once("): ").map_or(what.to_owned(), |(start, _)| format!("{start})"));
            drop(waiting.answer.send(Err(LinkError::NotMcp(why))));
        }
    }

    fn request(self: &Arc<Self>, request: Request) {
        let Ok(place) = Arc::clone(&self.asked).try_acquire_owned() else {
            self.inbox.oddity(&format!("a request `{}` beyond {ASKED} at a time is refused", request.method));
            let problem = Problem::new(Kind::Busy, format!("the limit of {ASKED} pending requests is reached"));
            let refusal = Answer { id: Some(request.id), outcome: Err(RpcError::from(&problem)) };
            return self.out.send_or_drop(refusal.to_bytes());
        };
        let peer = Arc::clone(self);
        let reply = Reply::new(move |answer| {
            peer.out.send_or_drop(answer.to_bytes());
            drop(place);
        });
        self.inbox.request(request, reply);
    }

    fn answer(&self, answer: Answer) {
        let id = answer.id.as_ref().and_then(Id::number);
        let waiting = id.and_then(|id| self.lock().as_mut()?.remove(&id));
        match waiting {
            // The caller may have gone in this very moment; then no one needs the answer.
            Some(waiting) => drop(waiting.answer.send(Ok(answer.outcome))),
            None if id.is_some_and(|id| self.inbox.late_answer(id)) => {}
            None => self.inbox.oddity(&match answer.id {
                Some(id) => format!("an answer with the id {id}, which no running call has"),
                None => format!("an error without an id: {:?}", answer.outcome.err().map(|error| error.message)),
            }),
        }
    }

    fn notification(&self, notification: Notification) {
        let params = &notification.params;
        let is_progress = notification.method == method::PROGRESS;
        let call = match is_progress {
            true => params.get(meta::PROGRESS_TOKEN),
            false => params.get("_meta").and_then(|stamps| stamps.get(meta::SUBSCRIPTION_ID)),
        };
        // Taken out of the lock before it is called.
        let handler = call
            .and_then(Id::from_raw)
            .and_then(|id| id.number())
            .and_then(|id| self.lock().as_ref()?.get(&id)?.handler.clone());
        match handler {
            Some(handler) => handler.notification(notification),
            None if is_progress => {}
            None => self.inbox.notification(notification),
        }
    }

    /// The connection has ended: every waiting call fails now.
    fn end(&self) {
        let waiting = self.lock().take();
        if waiting.is_some() {
            self.inbox.closed();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HashMap<u64, WaitingCall>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in flight; its drop before the answer takes the call back.
struct PendingCall<'a> {
    peer: &'a Arc<Peer>,
    id: u64,
    options: &'a CallOptions,
    answered: bool,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let known = self.peer.lock().as_mut().is_some_and(|waiting| waiting.remove(&self.id).is_some());
        if known && self.options.cancels() {
            self.peer.out.send_or_drop(cancelled(self.id).to_bytes());
        }
    }
}
