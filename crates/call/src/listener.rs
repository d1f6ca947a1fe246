//! What a server sends during a call, on its way to the client: progress, log messages, questions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use toolcrib_base::random;
use toolcrib_base::task::Scope;
use toolcrib_protocol::ask::{self, InputKind, InputRequest};
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::level::Level;
use toolcrib_protocol::{Answer, Era, Id, Notification, Request, Revision, RpcError, method};
use toolcrib_session::{Caller, Channel, Session};
use toolcrib_upstream::{CallHandler, Reply};

use crate::client::ClientOptions;
use crate::reply::ReplyChannel;
use crate::talk_guard::TalkGuard;

/// How long a legacy client may take for one answer: people read before they agree.
pub(crate) const ANSWER: Duration = Duration::from_secs(10 * 60);

/// Takes what a server says in the course of one call, for a client that hears it on its request's own stream.
pub(crate) struct CallListener {
    reply: ReplyChannel,
    revision: Revision,
    client: ClientOptions,
    rising: Mutex<f64>,
    /// The session of a legacy client.
    session: Option<Weak<Session>>,
    /// What asks this session; a modern client is not asked in this way.
    relay: Option<QuestionRelay>,
    /// What the server asked first although the client does not offer it.
    missing: OnceLock<InputKind>,
    guard: TalkGuard,
}

/// What a call listens with.
pub(crate) struct CallTalk {
    /// Leads to the session of a legacy client that can be asked.
    pub(crate) relay: Option<QuestionRelay>,
    /// Looks for secrets in what is said.
    pub(crate) guard: TalkGuard,
}

impl fmt::Debug for CallListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallListener").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl CallListener {
    pub(crate) fn new(reply: ReplyChannel, caller: &Caller, client: ClientOptions, talk: CallTalk) -> Self {
        let CallTalk { relay, guard } = talk;
        let (rising, missing) = (Mutex::new(f64::NEG_INFINITY), OnceLock::new());
        let session = caller.session.as_ref().map(Arc::downgrade);
        Self { reply, revision: caller.revision, client, rising, session, relay, missing, guard }
    }
}

impl CallListener {
    /// What the server asked in vain, because the client does not offer it.
    pub(crate) fn missing(&self) -> Option<InputKind> {
        self.missing.get().copied()
    }
}

impl CallHandler for CallListener {
    fn notification(&self, notification: Notification) {
        let modern = self.revision.era() == Era::Modern;
        match notification.method.as_str() {
            method::PROGRESS => {
                if let Some(notification) = self.guard.message(notification) {
                    self.reply.progress(&notification, modern.then_some(&self.rising));
                }
            }
            // A modern client hears messages only if it asked for a level.
            method::MESSAGE if modern && self.client.level.is_none() => {}
            method::MESSAGE => {
                if let Some(notification) = self.guard.message(notification) {
                    self.reply.message(&notification, self.client.level);
                }
            }
            method::CANCELLED => {
                if let Some(relay) = &self.relay {
                    relay.withdraw(&notification);
                }
            }
            _ => {}
        }
    }

    fn request(&self, request: Request, reply: Reply) {
        match (&self.relay, InputKind::of(&request.method, &request.params)) {
            _ if request.method == method::PING => reply.send_default(&request),
            (Some(relay), Some(question)) if question.fits(&self.client.capabilities) => {
                relay.ask(self.reply.channel.clone(), request, reply);
            }
            (_, question) => {
                if let Some(question) = question {
                    // The first one is the one that the call failed for.
                    let _ = self.missing.set(question);
                }
                refuse(question, &request, reply);
            }
        }
    }

    fn afterwards(&self) -> Option<Arc<dyn CallHandler>> {
        let (session, guard) = (Weak::clone(self.session.as_ref()?), self.guard.clone());
        Some(Arc::new(move |notification: Notification| {
            if let Some(session) = session.upgrade().filter(|_| notification.method == method::MESSAGE) {
                pass_message(&session, notification, &guard);
            }
        }))
    }
}

/// Sends a log message on to a session that wants to hear its level.
fn pass_message(session: &Session, message: Notification, guard: &TalkGuard) {
    let heard = session
        .level()
        .is_none_or(|threshold| Level::of_message(&message.params).is_none_or(|level| level.passes(threshold)));
    if heard && let Some(message) = guard.message(message) {
        session.notify(&message);
    }
}

/// Answers a question that cannot be passed on.
pub(crate) fn refuse(question: Option<InputKind>, request: &Request, reply: Reply) {
    let error = question.map_or_else(
        || RpcError::new(METHOD_NOT_FOUND, format!("this client does not answer `{}`", request.method)),
        InputKind::refused,
    );
    reply.send(Answer { id: Some(request.id.clone()), outcome: Err(error) });
}

/// Passes questions of servers on to a session. Those that still wait are taken back when it is dropped.
#[derive(Debug)]
pub(crate) struct QuestionRelay {
    session: Weak<Session>,
    scope: Scope,
    from: Option<String>,
    guard: TalkGuard,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
    ended: watch::Sender<()>,
}

/// What questions are passed on with.
#[derive(Debug)]
pub(crate) struct RelayParts {
    /// In which they wait for their answers.
    pub(crate) scope: Scope,
    /// The name of the server that a user reads before its questions.
    pub(crate) from: Option<String>,
    /// Looks for secrets in them, and in their answers.
    pub(crate) guard: TalkGuard,
}

impl QuestionRelay {
    pub(crate) fn new(session: &Arc<Session>, parts: RelayParts) -> Self {
        let (session, RelayParts { scope, from, guard }) = (Arc::downgrade(session), parts);
        Self { session, scope, from, guard, waiting: Arc::default(), ended: watch::Sender::new(()) }
    }

    fn ask(&self, channel: Option<Channel>, request: Request, reply: Reply) {
        let Some(session) = self.session.upgrade() else {
            let gone = RpcError::new(METHOD_NOT_FOUND, "the client disconnected");
            return reply.send(Answer { id: Some(request.id), outcome: Err(gone) });
        };
        let params = match self.guard.question(request.params) {
            Ok(params) => params,
            Err(problem) => {
                return reply.send(Answer { id: Some(request.id), outcome: Err(RpcError::from(&problem)) });
            }
        };
        let asked = InputRequest { method: request.method, params };
        let asked = ask::question_for(session.revision, &asked, &random::hex_128(), self.from.as_deref());
        let key = request.id.as_str().to_owned();
        let (withdraw, withdrawn) = oneshot::channel();
        lock(&self.waiting).insert(key.clone(), withdraw);
        let (waiting, mut ended, guard) = (Arc::clone(&self.waiting), self.ended.subscribe(), self.guard.clone());
        self.scope.spawn(async move {
            let asking = session.ask(channel.as_ref(), &asked.method, asked.params, ANSWER);
            let outcome = tokio::select! {
                outcome = asking => Some(outcome),
                // Dropping the question cancels it at the client.
                _ = withdrawn => None,
                // The call has ended: the other half was dropped.
                _ = ended.changed() => None,
            };
            lock(&waiting).remove(&key);
            if let Some(outcome) = outcome {
                let outcome = outcome.unwrap_or_else(|unasked| {
                    Err(RpcError::new(toolcrib_protocol::error::INTERNAL, unasked.to_string()))
                });
                reply.send(Answer { id: Some(request.id), outcome: guard.outcome(outcome) });
            }
        });
    }

    /// The server no longer wants its question answered.
    fn withdraw(&self, notification: &Notification) {
        let id = notification.params.get("requestId").and_then(Id::from_raw);
        if let Some(withdraw) = id.and_then(|id| lock(&self.waiting).remove(id.as_str())) {
            // The task may have ended in this very moment.
            let _ = withdraw.send(());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what a server says outside of any call, on a connection that belongs to one session alone.
#[derive(Debug)]
pub(crate) struct SessionListener {
    session: Weak<Session>,
    relay: QuestionRelay,
}

impl SessionListener {
    pub(crate) fn new(session: &Arc<Session>, relay: RelayParts) -> Arc<Self> {
        Arc::new(Self { session: Arc::downgrade(session), relay: QuestionRelay::new(session, relay) })
    }
}

impl CallHandler for SessionListener {
    fn notification(&self, notification: Notification) {
        let Some(session) = self.session.upgrade() else { return };
        match notification.method.as_str() {
            method::MESSAGE => pass_message(&session, notification, &self.relay.guard),
            method::CANCELLED => self.relay.withdraw(&notification),
            _ => {}
        }
    }

    fn request(&self, request: Request, reply: Reply) {
        let question = InputKind::of(&request.method, &request.params);
        let fits = self
            .session
            .upgrade()
            .is_some_and(|session| question.is_some_and(|question| question.fits(session.relayed())));
        if fits { self.relay.ask(None, request, reply) } else { refuse(question, &request, reply) }
    }
}
