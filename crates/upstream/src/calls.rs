//! The calls that run on one connection, and which of them a question of the server belongs to: never a guess.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use toolcrib_protocol::ask::InputKind;
use toolcrib_protocol::{Answer, Capabilities, Id, Notification, Raw, Request, RpcError, method};
use toolcrib_transport::{CallHandler, Reply};

use crate::unanswered::ConnectionCalls;

/// How many questions of one connection may wait for their answers.
const QUESTIONS: usize = 64;

/// How long after a call its messages may still come by another stream.
const LATE: Duration = Duration::from_secs(2);

/// The calls of one connection.
pub(crate) struct Calls {
    state: Mutex<State>,
    /// The capabilities that were declared to the server.
    offered: Arc<Capabilities>,
    /// The session that the connection belongs to alone.
    owner: Option<Arc<dyn CallHandler>>,
    /// Whether this server is known to ask without saying in which call: then each call gets its own connection.
    asks: Arc<AtomicBool>,
    /// Those that were given up.
    unanswered: ConnectionCalls,
}

#[derive(Default)]
struct State {
    /// With what hears them, where anyone does.
    running: BTreeMap<u64, Option<Arc<dyn CallHandler>>>,
    /// Questions that wait, by the server's id.
    asked: HashMap<String, Weak<dyn CallHandler>>,
    /// Whether calls ran at the same time since one last ran alone.
    overlapped: bool,
    /// What hears messages of the call that ran last, if it ran alone, and when it ended.
    last: Option<(Instant, Arc<dyn CallHandler>)>,
}

impl State {
    /// What hears a message that came on no call's stream; `None` where it cannot be known whose message it is.
    ///
    /// The answer of a call and its messages may take two connections, and the answer may be the first to arrive.
    fn hears_message(&self) -> Option<Arc<dyn CallHandler>> {
        let mut running = self.running.values();
        match (running.next(), running.next()) {
            (Some(one), None) => one.clone(),
            (None, _) => {
                let (ended, handler) = self.last.as_ref()?;
                (ended.elapsed() < LATE).then(|| Arc::clone(handler))
            }
            // Several run (2026-07-28: only on the request's stream).
            _ => None,
        }
    }
}

/// Why a question cannot be passed on.
#[derive(Debug, PartialEq, Eq)]
enum NoOwner {
    NotOffered(InputKind),
    Unknown,
    NoCall,
    Several(usize),
    TooMany,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("offered", &self.offered).finish_non_exhaustive()
    }
}

/// What was sent to call something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentCall<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: &'a Raw,
}

/// A call that runs; forgotten when dropped.
pub(crate) struct RunningCall<'a> {
    calls: &'a Calls,
    id: u64,
    /// What is called, where an answer may come when the call has been given up.
    called: Option<SentCall<'a>>,
}

impl RunningCall<'_> {
    /// It was answered, or there will be no answer.
    pub(crate) fn end(mut self) {
        self.called = None;
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let ended = self.calls.end(self.id);
        drop(ended);
        let Some(SentCall { method, params }) = self.called else { return };
        let tool = if method == method::TOOLS_CALL { params.text("name") } else { None };
        self.calls.unanswered.add(self.id, tool.as_deref().unwrap_or(method));
    }
}

/// A question that waits; forgotten when it is answered or when no one will answer it any more.
struct PendingQuestion {
    calls: Weak<Calls>,
    key: String,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        if let Some(calls) = self.calls.upgrade() {
            calls.lock().asked.remove(&self.key);
        }
    }
}

// === impl Calls ===

impl Calls {
    pub(crate) fn new(
        offered: Arc<Capabilities>,
        owner: Option<Arc<dyn CallHandler>>,
        asks: Arc<AtomicBool>,
        unanswered: ConnectionCalls,
    ) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), offered, owner, asks, unanswered })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call that runs. `called` is what was sent, where an answer may still come after the call was given up.
    pub(crate) fn begin<'a>(
        &'a self,
        id: u64,
        handler: Option<&Arc<dyn CallHandler>>,
        called: Option<SentCall<'a>>,
    ) -> RunningCall<'a> {
        // Counted also where no one hears it: what the server says may belong to this one.
        let mut state = self.lock();
        state.overlapped = !state.running.is_empty();
        state.last = None;
        state.running.insert(id, handler.cloned());
        RunningCall { calls: self, id, called }
    }

    /// Forgets a call that runs, and gives back what heard it.
    fn end(&self, id: u64) -> Option<Arc<dyn CallHandler>> {
        let mut state = self.lock();
        let ended = state.running.remove(&id).flatten();
        if state.running.is_empty() && !state.overlapped {
            let after = ended.as_ref().and_then(|handler| handler.afterwards());
            state.last = after.map(|handler| (Instant::now(), handler));
        }
        ended
    }

    /// An answer came to a call that does not run; whether it was given up before.
    pub(crate) fn answered_late(&self, id: u64) -> bool {
        self.unanswered.answered(id)
    }

    /// A request of the server that came during no call in particular. `true` when it is
    /// news that this server asks in this way.
    pub(crate) fn ask(self: &Arc<Self>, request: Request, reply: Reply) -> bool {
        if request.method == method::PING {
            reply.send_default(&request);
            return false;
        }
        match self.owner_of(&request) {
            Ok(handler) => {
                let offered = InputKind::of(&request.method, &request.params).is_some_and(|it| it.fits(&self.offered));
                self.pass(&handler, request, reply);
                offered && !self.asks.swap(true, Ordering::Relaxed)
            }
            Err(why) => {
                let learned = matches!(why, NoOwner::Several(_)) && !self.asks.swap(true, Ordering::Relaxed);
                reply.send(Answer { id: Some(request.id.clone()), outcome: Err(why.to_error(&request.method)) });
                learned
            }
        }
    }

    fn owner_of(&self, request: &Request) -> Result<Arc<dyn CallHandler>, NoOwner> {
        let question = InputKind::of(&request.method, &request.params).ok_or(NoOwner::Unknown)?;
        let offered = question.fits(&self.offered);
        let state = self.lock();
        if state.asked.len() >= QUESTIONS {
            return Err(NoOwner::TooMany);
        }
        let mut running = state.running.values();
        match (running.next(), running.next(), &self.owner) {
            // Also what was not offered: its call refuses it, and knows then what its client lacks.
            (Some(Some(one)), None, _) => Ok(Arc::clone(one)),
            _ if !offered => Err(NoOwner::NotOffered(question)),
            // All calls are the owner's, so the question is for the owner whichever of them it belongs to.
            (_, _, Some(owner)) => Ok(Arc::clone(owner)),
            (None, ..) | (Some(None), None, _) => Err(NoOwner::NoCall),
            (Some(_), Some(_), None) => Err(NoOwner::Several(state.running.len())),
        }
    }

    fn pass(self: &Arc<Self>, handler: &Arc<dyn CallHandler>, request: Request, reply: Reply) {
        let key = request.id.as_str().to_owned();
        self.lock().asked.insert(key.clone(), Arc::downgrade(handler));
        let waiting = PendingQuestion { calls: Arc::downgrade(self), key };
        handler.request(
            request,
            Reply::new(move |answer| {
                drop(waiting);
                reply.send(answer);
            }),
        );
    }

    /// A notification that came during no call in particular; gives it back when it is for no one here.
    pub(crate) fn notify(&self, notification: Notification) -> Option<Notification> {
        let handler = match notification.method.as_str() {
            method::CANCELLED => {
                let id = notification.params.get("requestId").and_then(Id::from_raw);
                id.and_then(|id| self.lock().asked.remove(id.as_str())).and_then(|handler| handler.upgrade())
            }
            method::MESSAGE => {
                let state = self.lock();
                if state.running.len() == 1 {
                    state.hears_message()
                } else {
                    self.owner.clone().or_else(|| state.hears_message())
                }
            }
            _ => None,
        };
        match handler {
            Some(handler) => {
                handler.notification(notification);
                None
            }
            None => Some(notification),
        }
    }
}

impl NoOwner {
    fn to_error(&self, asked: &str) -> RpcError {
        let refuse = |message: String| RpcError::new(toolcrib_protocol::error::METHOD_NOT_FOUND, message);
        match self {
            Self::NotOffered(question) => question.refused(),
            Self::Unknown => refuse(format!("this client does not answer `{asked}`")),
            Self::NoCall => refuse(format!("`{asked}` belongs to no running call, so no client can answer it")),
            Self::Several(count) => {
                refuse(format!("`{asked}` may belong to any of {count} running calls; from now on each runs by itself"))
            }
            Self::TooMany => refuse(format!("the limit of {QUESTIONS} pending questions is reached")),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::ServerName;

    use super::*;
    use crate::unanswered::UnansweredCalls;

    fn unanswered() -> ConnectionCalls {
        UnansweredCalls::default().on(&ServerName::new("a").unwrap(), 1)
    }

    /// Answers every question with its name.
    struct NamedHandler(&'static str);

    impl CallHandler for NamedHandler {
        fn notification(&self, _: Notification) {}
        fn request(&self, request: Request, reply: Reply) {
            reply.send(Answer::ok(request.id, Raw::from_value(&self.0)));
        }
    }

    fn ask(calls: &Arc<Calls>, method: &str) -> Result<String, i64> {
        let (sent, got) = std::sync::mpsc::channel();
        let request = Request { id: Id::from_number(1), method: method.into(), params: Raw::empty_object() };
        calls.ask(request, Reply::new(move |answer| sent.send(answer.outcome).unwrap()));
        got.try_recv().expect("an answer").map(|raw| raw.as_str().to_owned()).map_err(|error| error.code)
    }

    fn handler(name: &'static str) -> Arc<dyn CallHandler> {
        Arc::new(NamedHandler(name))
    }

    #[test]
    fn a_question_belongs_to_exactly_one_call_or_to_no_one() {
        let form = Arc::new(Capabilities { form: true, ..Capabilities::NONE });
        let asks: Arc<AtomicBool> = Arc::default();
        let calls = Calls::new(Arc::clone(&form), None, Arc::clone(&asks), unanswered());
        let (a, b) = (handler("a"), handler("b"));
        assert_eq!(ask(&calls, "elicitation/create"), Err(-32_601));
        let first = calls.begin(1, Some(&a), None);
        assert_eq!(ask(&calls, "sampling/createMessage"), Ok(r#""a""#.into()), "was not offered: the call refuses it");
        assert_eq!(ask(&calls, "ping"), Ok("{}".into()));
        assert!(!asks.load(Ordering::Relaxed));
        assert_eq!(ask(&calls, "elicitation/create"), Ok(r#""a""#.into()));
        assert!(asks.load(Ordering::Relaxed), "that it asks is remembered");
        let second = calls.begin(2, Some(&b), None);
        assert_eq!(ask(&calls, "elicitation/create"), Err(-32_601), "no guess between two");
        drop(first);
        assert_eq!(ask(&calls, "elicitation/create"), Ok(r#""b""#.into()));
        drop(second);
        let owned = Calls::new(form, Some(handler("owner")), asks, unanswered());
        let _two = (owned.begin(1, Some(&a), None), owned.begin(2, Some(&b), None));
        assert_eq!(ask(&owned, "elicitation/create"), Ok(r#""owner""#.into()));
    }

    /// Never answers.
    struct SilentHandler;

    impl CallHandler for SilentHandler {
        fn notification(&self, _: Notification) {}
        fn request(&self, _: Request, _: Reply) {}
    }

    #[test]
    fn questions_that_no_one_answers_are_forgotten_with_their_calls() {
        let form = Arc::new(Capabilities { form: true, ..Capabilities::NONE });
        let calls = Calls::new(form, None, Arc::default(), unanswered());
        for number in 0..=QUESTIONS {
            let handler: Arc<dyn CallHandler> = Arc::new(SilentHandler);
            let ended = Arc::downgrade(&handler);
            let call = calls.begin(1, Some(&handler), None);
            let id = Id::from_number(u64::try_from(number).unwrap());
            let request = Request { id, method: "elicitation/create".into(), params: Raw::empty_object() };
            let (sent, got) = std::sync::mpsc::channel();
            calls.ask(request, Reply::new(move |answer| drop(sent.send(answer.outcome))));
            if number == QUESTIONS {
                assert!(got.try_recv().is_err(), "every call before has ended, and with it its question");
            } else {
                drop(handler);
                drop(call);
                assert!(ended.upgrade().is_none(), "what ends with the call does not live on in here");
            }
        }
    }

    #[test]
    fn a_log_message_that_may_be_of_another_call_goes_to_no_one() {
        struct CountingHandler(std::sync::atomic::AtomicUsize);
        impl CallHandler for CountingHandler {
            fn notification(&self, _: Notification) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            fn request(&self, _: Request, _: Reply) {}
        }
        let calls = Calls::new(Arc::default(), None, Arc::default(), unanswered());
        let heard = Arc::new(CountingHandler(std::sync::atomic::AtomicUsize::new(0)));
        let handler: Arc<dyn CallHandler> = Arc::<CountingHandler>::clone(&heard);
        let _listens = calls.begin(1, Some(&handler), None);
        let _does_not = calls.begin(2, None, None);
        calls.notify(Notification::new(method::MESSAGE, Raw::empty_object()));
        assert_eq!(heard.0.load(Ordering::Relaxed), 0, "two calls run, so it is unknown whose message it is");
    }

    /// Hears nothing itself; what comes after its call is counted.
    struct LateHandler(Arc<std::sync::atomic::AtomicUsize>);

    impl CallHandler for LateHandler {
        fn notification(&self, _: Notification) {}
        fn request(&self, _: Request, _: Reply) {}
        fn afterwards(&self) -> Option<Arc<dyn CallHandler>> {
            let heard = Arc::clone(&self.0);
            Some(Arc::new(move |_: Notification| {
                heard.fetch_add(1, Ordering::Relaxed);
            }))
        }
    }

    #[test]
    fn a_log_message_that_arrives_after_the_answer_is_heard_if_its_call_ran_alone() {
        let heard = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let handler: Arc<dyn CallHandler> = Arc::new(LateHandler(Arc::clone(&heard)));
        let calls = Calls::new(Arc::default(), None, Arc::default(), unanswered());
        let message = || Notification::new(method::MESSAGE, Raw::empty_object());
        calls.begin(1, Some(&handler), None).end();
        assert!(calls.notify(message()).is_none(), "it is heard");
        assert_eq!(heard.load(Ordering::Relaxed), 1);
        let (first, second) = (calls.begin(2, Some(&handler), None), calls.begin(3, Some(&handler), None));
        first.end();
        second.end();
        assert!(calls.notify(message()).is_some(), "two calls ran, so it is unknown whose message it is");
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
}
