//! A client on a connection of its own in both directions: stdio, and HTTP+SSE of 2024-11-05.
//!
//! The owner of the connection hands in each message as it comes and writes out what is queued. Requests run side
//! by side; everything goes out through the one queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_call::ProfileSnapshot;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Id, Message, Notification, Request, RequestTrace, RpcError, method};
use toolcrib_session::{Caller, Channel, Principal, Session};
use toolcrib_store::Door;

use crate::front::{self, Opening};
use crate::gateway::Gateway;

/// How many messages may wait for the client to read.
pub const OUT: usize = 256;
/// How many requests may run at a time.
const REQUESTS: usize = 256;
/// How many subscriptions may be open at a time: they do not end, and must not take the places of requests.
const LISTENS: usize = 64;
/// How many messages one batch may have.
const BATCH: usize = 50;

/// Who is at the other end, and what may come from there.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Who.
    pub principal: Principal,
    /// What was in force when it was let in.
    pub snapshot: ProfileSnapshot,
    /// Whether it runs as the owner of this process, so that keys of the profile do not count.
    pub is_owner: bool,
    /// How messages are read.
    pub rules: Rules,
    /// Whether stateless requests are taken too: over stdio.
    pub takes_modern: bool,
}

/// One client.
#[derive(Debug)]
pub struct Duplex {
    gateway: Arc<Gateway>,
    terms: Terms,
    out: mpsc::Sender<Bytes>,
    /// Requests and batches that run.
    requests: Scope,
    /// Subscriptions and the notifications of the session: what never ends by itself.
    endless: Scope,
    request_places: Arc<Semaphore>,
    listen_places: Arc<Semaphore>,
    session: Mutex<Option<Arc<Session>>>,
    /// The modern requests that run, by their ids: here they are cancelled by a notification.
    modern: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

/// A modern request that runs; forgotten when dropped.
struct CancelGuard {
    running: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
    id: String,
    cancelled: Arc<Notify>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Duplex ===

impl Duplex {
    /// A client that has said nothing yet. `out` is where everything goes that is said to it, one JSON text each.
    pub fn new(gateway: Arc<Gateway>, terms: Terms, out: mpsc::Sender<Bytes>) -> Self {
        Self {
            gateway,
            terms,
            out,
            requests: Scope::new(),
            endless: Scope::new(),
            request_places: Arc::new(Semaphore::new(REQUESTS)),
            listen_places: Arc::new(Semaphore::new(LISTENS)),
            session: Mutex::default(),
            modern: Arc::default(),
        }
    }

    /// Who is at the other end.
    pub fn principal(&self) -> &Principal {
        &self.terms.principal
    }

    /// The profile that it uses.
    pub fn profile(&self) -> &ProfileName {
        &self.terms.snapshot.profile().name
    }

    /// Takes a message, or a batch; `trace` is what carried it says of it. Waits only for room in the queue to the client.
    pub async fn take(&self, text: &Bytes, trace: RequestTrace) {
        match Message::parse(text, self.terms.rules) {
            Ok(Message::Request(request)) => self.request(request, trace).await,
            Ok(Message::Notification(notification)) => self.notification(&notification),
            Ok(Message::Answer(answer)) => {
                if let Some(session) = self.session() {
                    self.gateway.take_answer(&session, answer);
                }
            }
            Err(BadMessage::Batch) => self.batch(text, trace).await,
            Err(bad) => self.say(bad.to_answer().to_bytes()).await,
        }
    }

    /// Says something that answers no message in particular.
    pub async fn say(&self, message: Bytes) {
        // A client that is gone needs no answer.
        let _ = self.out.send(message).await;
    }

    /// The connection is gone: the session ends with everything that runs in it.
    pub fn end(&self) {
        if let Some(session) = self.session() {
            self.gateway.sessions.close(&session);
        }
    }

    /// What a message is decided by that comes now.
    ///
    /// # Errors
    /// The profile is gone, or its keys were changed so that who is at the other end may no longer enter.
    fn snapshot(&self) -> Result<ProfileSnapshot, Problem> {
        let now = self.gateway.snapshot(self.profile())?;
        if self.terms.is_owner { Ok(now) } else { self.terms.snapshot.renewed(&now, self.principal(), Door::MCP) }
    }

    /// Waits until the requests that run are answered. No notifications are sent meanwhile.
    pub async fn finish(&self) {
        self.endless.close(Duration::ZERO).await;
        // The requests have deadlines of their own, and so has the caller.
        self.requests.close(Duration::MAX).await;
    }

    /// The client says no more: what it asked for is still answered, for so long; then the session ends.
    pub async fn close(self, grace: Duration) {
        if let Some(session) = self.session() {
            session.stop_asking();
        }
        self.endless.close(Duration::ZERO).await;
        self.requests.close(grace).await;
    }

    fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    fn legacy(&self, session: &Arc<Session>) -> Caller {
        Caller::legacy(self.terms.principal.clone(), session)
    }

    fn notification(&self, notification: &Notification) {
        if notification.method == method::CANCELLED
            && let Some(id) = notification.params.get("requestId").and_then(Id::from_raw)
            && let Some(cancelled) = lock(&self.modern).get(id.as_str())
        {
            cancelled.notify_one();
        }
        if let Some(session) = self.session() {
            self.gateway.notification(&self.legacy(&session), notification);
        }
    }

    async fn refuse(&self, id: Id, error: RpcError) {
        self.say(Answer::error(Some(id), error).to_bytes()).await;
    }

    async fn request(&self, request: Request, trace: RequestTrace) {
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(problem) => return self.refuse(request.id, RpcError::from(&problem)).await,
        };
        match front::classify(&request, None) {
            Err(error) => self.refuse(request.id, error).await,
            Ok(Opening::Initialize) => {
                let (answer, session) = self.gateway.initialize(&snapshot, &request, &self.terms.principal, None);
                self.say(answer.to_bytes()).await;
                if let Some(session) = session {
                    self.opened(session);
                }
            }
            Ok(Opening::Modern(_)) if !self.terms.takes_modern => {
                let problem = Problem::new(
                    Kind::InvalidRequest,
                    "stateless requests are not supported on this \
                     connection",
                );
                self.refuse(request.id, RpcError::from(&problem.hint("Send them to /mcp."))).await;
            }
            Ok(Opening::Modern(declared)) => {
                let (principal, profile) = (self.terms.principal.clone(), self.profile().clone());
                self.run(snapshot, Caller::modern(principal, profile, declared).traced(trace), request);
            }
            Ok(Opening::Legacy) => match self.session() {
                Some(session) => self.run(snapshot, self.legacy(&session).traced(trace), request),
                None => {
                    let problem = Problem::new(Kind::InvalidRequest, "send `initialize` first");
                    self.refuse(request.id, RpcError::from(&problem)).await;
                }
            },
        }
    }

    /// A client opens one session; another `initialize` ends the one before.
    fn opened(&self, session: Arc<Session>) {
        if let Ok(mut news) = session.open_stream() {
            let out = self.out.clone();
            self.endless.spawn(async move {
                while let Some(message) = news.recv().await {
                    if out.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
        let before = lock(&self.session).replace(session);
        if let Some(before) = before {
            self.gateway.sessions.close(&before);
        }
    }

    /// A place to run in; a client that takes all of them gets an error.
    fn place(&self, id: Option<&Id>, method: &str) -> Option<OwnedSemaphorePermit> {
        let (places, most) = match method {
            method::LISTEN => (&self.listen_places, LISTENS),
            _ => (&self.request_places, REQUESTS),
        };
        let place = Arc::clone(places).try_acquire_owned().ok();
        if place.is_none() {
            let problem = Problem::new(Kind::Busy, format!("{most} requests are running"));
            let error = RpcError::from(&problem.hint("Read their answers first."));
            // A client that does not read misses this one too.
            let _ = self.out.try_send(Answer::error(id.cloned(), error).to_bytes());
        }
        place
    }

    /// Answers in a task of its own: a slow tool holds no one up.
    fn run(&self, snapshot: ProfileSnapshot, caller: Caller, request: Request) {
        let Some(place) = self.place(Some(&request.id), &request.method) else { return };
        let (gateway, out) = (Arc::clone(&self.gateway), self.out.clone());
        let cancelled = Arc::new(Notify::new());
        let noted = caller.session.is_none().then(|| self.note(&request.id, &cancelled));
        let scope = if request.method == method::LISTEN { &self.endless } else { &self.requests };
        scope.spawn(async move {
            let (_place, _noted) = (place, noted);
            let channel = Channel::new(out.clone());
            // Dropping a request takes it back at its server.
            let answer = tokio::select! {
                answer = gateway.request(&snapshot, &caller, request, Some(channel)) => answer,
                () = cancelled.notified() => None,
                // What is said is not read any more.
                () = out.closed() => None,
            };
            if let Some(answer) = answer {
                // A client that is gone needs no answer.
                let _ = out.send(answer.to_bytes()).await;
            }
        });
    }

    fn note(&self, id: &Id, cancelled: &Arc<Notify>) -> CancelGuard {
        let id = id.as_str().to_owned();
        lock(&self.modern).insert(id.clone(), Arc::clone(cancelled));
        CancelGuard { running: Arc::clone(&self.modern), id, cancelled: Arc::clone(cancelled) }
    }

    async fn batch(&self, text: &Bytes, trace: RequestTrace) {
        let session = self.session().filter(|session| session.revision.has_batches());
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(problem) => return self.say(Answer::error(None, RpcError::from(&problem)).to_bytes()).await,
        };
        let refused = match (Message::parse_batch(text, self.terms.rules), session) {
            (Ok(messages), Some(session)) if messages.len() <= BATCH => {
                return self.run_batch(snapshot, self.legacy(&session).traced(trace), messages);
            }
            (Ok(_), Some(_)) => {
                let problem = Problem::new(Kind::TooLarge, format!("a batch of more than {BATCH} messages"));
                Answer::error(None, RpcError::from(&problem))
            }
            (Ok(_), None) => BadMessage::Batch.to_answer(),
            (Err(bad), _) => bad.to_answer(),
        };
        self.say(refused.to_bytes()).await;
    }

    fn run_batch(&self, snapshot: ProfileSnapshot, caller: Caller, messages: Vec<Result<Message, BadMessage>>) {
        let asked = self.gateway.take_batch(&caller, messages);
        if asked.is_empty() {
            return;
        }
        let Some(place) = self.place(None, "") else { return };
        let (gateway, out) = (Arc::clone(&self.gateway), self.out.clone());
        self.requests.spawn(async move {
            let _place = place;
            let answers = gateway.batch(&snapshot, &caller, asked, &Channel::new(out.clone())).await;
            if !answers.is_empty() {
                let _ = out.send(Answer::array(&answers)).await;
            }
        });
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.end();
    }
}

// === impl CancelGuard ===

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        if running.get(&self.id).is_some_and(|entry| Arc::ptr_eq(entry, &self.cancelled)) {
            running.remove(&self.id);
        }
    }
}
