//! A connection on which messages flow both ways in order. Calls run concurrently and are matched by id.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, Id, Message, Notification, Raw, Request, RpcError, meta, method};

use crate::link::{Aside, CallOptions, Inbox, LinkError, Reply};
use crate::process::{Line, Process, Sender};

/// How many messages may wait in memory for the other side. Enough for a burst of concurrent calls.
const MEMORY_QUEUE: usize = 256;

type Outcome = Result<Raw, RpcError>;

/// The shared half of a connection: what was sent and waits for its answer.
pub struct Peer {
    out: Out,
    next: AtomicU64,
    /// `None` once the connection has ended: later calls fail at once.
    waiting: Mutex<Option<HashMap<u64, Waiting>>>,
    inbox: Arc<dyn Inbox>,
    rules: Rules,
}

struct Waiting {
    answer: oneshot::Sender<Outcome>,
    aside: Option<Arc<dyn Aside>>,
}

/// Where messages go.
enum Out {
    Process(Process, Sender),
    Memory(mpsc::Sender<Bytes>),
}

impl Out {
    async fn send(&self, line: Bytes) -> Result<(), LinkError> {
        match self {
            Out::Process(_, sender) => sender.send(line).await.map_err(|_| LinkError::Closed),
            Out::Memory(queue) => queue.send(line).await.map_err(|_| LinkError::Closed),
        }
    }

    /// Sends if there is room: for what nobody waits for, from places that cannot wait.
    fn send_or_drop(&self, line: Bytes) {
        match self {
            Out::Process(_, sender) => drop(sender.try_send(line)),
            Out::Memory(queue) => drop(queue.try_send(line)),
        }
    }
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
        let peer = Arc::new(Self::new(Out::Process(process, sender), inbox, depth));
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
        (Arc::new(Self::new(Out::Memory(queue), inbox, depth)), other)
    }

    fn new(out: Out, inbox: Arc<dyn Inbox>, depth: usize) -> Self {
        Self {
            out,
            next: AtomicU64::new(1),
            waiting: Mutex::new(Some(HashMap::new())),
            inbox,
            rules: Rules::relayed(depth),
        }
    }

    /// The child process behind, where there is one.
    pub fn process(&self) -> Option<&Process> {
        match &self.out {
            Out::Process(process, _) => Some(process),
            Out::Memory(_) => None,
        }
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
        let aside = options.aside.take();
        match self.lock().as_mut() {
            Some(waiting) => waiting.insert(id, Waiting { answer, aside }),
            None => return Err(LinkError::Closed),
        };
        let request = Request { id: Id::from_number(id), method: method.to_owned(), params };
        let line = request.to_bytes();
        // From here on leaving early, in whatever way, takes the call back.
        let mut pending = Pending { peer: self, id, options: &options, answered: false };
        let deadline = options.deadline;
        let exchange = async {
            self.out.send(line).await?;
            answered.await.map_err(|_| LinkError::Closed)
        };
        let outcome = match tokio::time::timeout(deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                options.cancel_on_drop.store(true, Ordering::Relaxed);
                return Err(LinkError::Timeout(deadline));
            }
        };
        pending.answered = true;
        outcome
    }

    pub(crate) async fn notify(&self, notification: &Notification) -> Result<(), LinkError> {
        self.out.send(notification.to_bytes()).await
    }

    pub(crate) async fn close(&self, grace: Duration) {
        if let Out::Process(process, _) = &self.out {
            process.stop(grace).await;
        }
        self.end();
    }

    /// Takes a line that the other side sent.
    pub fn line(self: &Arc<Self>, line: Line) {
        match line {
            Line::Text(line) => self.message(&line),
            Line::TooLong { bytes } => self.inbox.oddity(&format!("a line of {bytes} bytes was thrown away")),
            Line::End => self.end(),
        }
    }

    /// Takes a message that the other side sent.
    pub fn message(self: &Arc<Self>, line: &Bytes) {
        match Message::parse(line, self.rules) {
            Ok(Message::Answer(answer)) => self.answer(answer),
            Ok(Message::Notification(notification)) => self.notification(notification),
            Ok(Message::Request(request)) => {
                let peer = Arc::clone(self);
                let reply = Reply::new(move |answer| peer.out.send_or_drop(answer.to_bytes()));
                self.inbox.request(request, reply);
            }
            Err(error) => {
                let start = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                self.inbox.oddity(&format!("a line that is no message ({error}): {start}"));
            }
        }
    }

    fn answer(&self, answer: Answer) {
        let waiting = answer.id.as_ref().and_then(Id::number).and_then(|id| self.lock().as_mut()?.remove(&id));
        match waiting {
            // The caller may have gone in this very moment; then nobody needs the answer.
            Some(waiting) => drop(waiting.answer.send(answer.outcome)),
            None => self.inbox.oddity(&match answer.id {
                Some(id) => format!("an answer with the id {id}, which no running call has"),
                None => format!("an error without an id: {:?}", answer.outcome.err().map(|error| error.message)),
            }),
        }
    }

    fn notification(&self, notification: Notification) {
        if notification.method == method::PROGRESS {
            let token = notification.params.get(meta::PROGRESS_TOKEN).and_then(Id::from_raw);
            if let Some(token) = token.as_ref().and_then(Id::number) {
                let aside = self.lock().as_ref().and_then(|waiting| waiting.get(&token)?.aside.clone());
                if let Some(aside) = aside {
                    aside.notification(notification);
                }
            }
            return;
        }
        self.inbox.notification(notification);
    }

    /// The connection has ended: every waiting call fails now.
    fn end(&self) {
        let waiting = self.lock().take();
        if waiting.is_some() {
            self.inbox.closed();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HashMap<u64, Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in flight; its drop before the answer takes the call back.
struct Pending<'a> {
    peer: &'a Arc<Peer>,
    id: u64,
    options: &'a CallOptions,
    answered: bool,
}

impl Drop for Pending<'_> {
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

/// `notifications/cancelled` for a call of ours.
pub(crate) fn cancelled(id: u64) -> Notification {
    Notification::new(method::CANCELLED, Raw::from_value(&serde_json::json!({ "requestId": id })))
}
