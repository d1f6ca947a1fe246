//! Parked calls: calls of modern clients that wait, at a legacy server, for answers. The server asks and keeps its call
//! open; the client gets the questions and sends the answers in a request of its own.
//!
//! A call runs once, in a task of its own. The first request and every retry attach to it and leave with its outcome or
//! with its questions. What leads back to it is a sealed state, bound to principal, profile, the call itself and a time.
//! Calls wait in the memory of this process.

mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib_base::{Kind, PrincipalId, Problem, random};
use toolcrib_protocol::ask::{self, InputKind, InputRequest};
use toolcrib_protocol::park::{OpenQuestion, ParkState};
use toolcrib_protocol::seal::Sealer;
use toolcrib_protocol::{Answer, Id, Notification, Raw, Request, Revision, method};
use toolcrib_upstream::{CallHandler, Reply};

use crate::client::ClientOptions;
use crate::dispatch::CallOutcome;
use crate::listener::refuse;
use crate::reply::ReplyChannel;
use crate::talk_guard::TalkGuard;
use table::Table;

/// What the sealed states are for.
const PURPOSE: &str = "parked-call";
/// How long a call waits for its client to come back.
const RETURN: Duration = Duration::from_secs(10 * 60);
/// How long one waits for the person of a run: no longer than any call lasts.
const RETURN_OF_RUN: Duration = Duration::from_secs(60 * 60);
/// [`RETURN`] in milliseconds of the clock.
pub(crate) const RETURN_MS: i64 = 10 * 60 * 1_000;
/// For how long a run is led back to a call, in milliseconds of the clock: it learns then how the call ended.
pub(crate) const RETURN_OF_RUN_MS: i64 = 24 * 60 * 60 * 1_000;
/// How many bytes the result of a finished call may have to be kept that long too.
const SMALL: usize = 256 * 1024;
/// How long a finished call with a larger one is kept.
const KEPT: Duration = Duration::from_secs(60);

/// The calls that are parked.
pub(crate) struct ParkedCalls {
    calls: Mutex<Table>,
    sealer: Sealer,
}

impl fmt::Debug for ParkedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedCalls").field("calls", &lock(&self.calls).len()).finish_non_exhaustive()
    }
}

/// The id of a parked call: 128 random bits, known to the client inside a sealed state only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ParkedCallId(String);

/// What a sealed state says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ParkTicket {
    pub(crate) call: ParkedCallId,
    pub(crate) principal: String,
    pub(crate) profile: String,
    pub(crate) digest: String,
    /// Milliseconds of the clock.
    pub(crate) until: i64,
}

/// One call that runs.
#[derive(Debug)]
pub(crate) struct ParkedCall {
    state: Mutex<State>,
    /// The highest progress sent: for a modern client it must rise.
    rising: Mutex<f64>,
    /// Counts what happened, so that those who are attached look again.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    park: ParkState<(Request, Reply)>,
    /// How it ended.
    ended: Option<CallOutcome>,
    /// Since when it is only kept in case its client asks again.
    kept_since: Option<Instant>,
    /// The channel of the request that attached last.
    reply: ReplyChannel,
    client: ClientOptions,
    from: Option<String>,
    /// Looks for secrets in progress and log messages; what is asked is looked at where it leaves.
    guard: Option<TalkGuard>,
    /// What the server asked in vain, because the client that was there did not offer it.
    missing: Option<InputKind>,
    /// The run that it is a call of: its person takes longer than a client does.
    run: Option<String>,
    /// Its run has ended: no one comes back.
    is_given_up: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("ended", &self.ended.is_some()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Parked ===

impl ParkedCall {
    fn begin() -> Arc<Self> {
        let (rising, changes) = (Mutex::new(f64::NEG_INFINITY), watch::Sender::new(0));
        Arc::new(Self { state: Mutex::default(), rising, changes })
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Counts what happens to it.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The name that a user reads before its questions, and what looks for secrets in its words.
    pub(crate) fn asks_for(&self, from: Option<String>, guard: TalkGuard) {
        let mut state = lock(&self.state);
        (state.from, state.guard) = (from, Some(guard));
    }

    /// It is a call of a run.
    pub(crate) fn is_of_run(&self, run: &str) {
        lock(&self.state).run = Some(run.to_owned());
    }

    /// Notes how it ended, for a client whose answer got lost, or who answers a question that the server has given up.
    /// Gives for how long it is kept; `None` for one that never left its first request.
    pub(crate) fn ended_with(&self, outcome: CallOutcome) -> Option<Duration> {
        let kept = if is_small(&outcome) { RETURN } else { KEPT };
        let was_parked = {
            let mut state = lock(&self.state);
            state.ended = Some(outcome);
            state.kept_since = Some(Instant::now());
            let was_parked = state.park.was_parked();
            state.park.end();
            was_parked
        };
        self.changed();
        was_parked.then_some(kept)
    }

    /// How it is by now: ended, asking, or neither.
    pub(crate) fn look(&self) -> Option<Result<CallOutcome, Vec<(String, InputRequest)>>> {
        let mut state = lock(&self.state);
        if let Some(ended) = &state.ended {
            let missing = state.missing.filter(|_| ended.has_failed());
            return Some(Ok(missing.map_or_else(|| ended.clone(), |it| CallOutcome::Answered(Err(it.missing())))));
        }
        // What this client cannot be asked is refused now: the one that came before may have declared more.
        let capabilities = Arc::clone(&state.client.capabilities);
        let unfit = state.park.unfit(&capabilities);
        let questions = unfit.iter().filter_map(|it| InputKind::of(&it.input.method, &it.input.params));
        state.missing = state.missing.or(questions.into_iter().next());
        let left = state.park.is_asking().then(|| state.park.leave());
        drop(state);
        for OpenQuestion { input, reply_to: (request, reply), .. } in unfit {
            refuse(InputKind::of(&input.method, &input.params), &request, reply);
        }
        left.map(Err)
    }

    pub(crate) fn is_asking(&self) -> bool {
        let state = lock(&self.state);
        state.ended.is_none() && state.park.is_asking()
    }

    pub(crate) fn answer(&self, answers: BTreeMap<String, Raw>) {
        let answered = lock(&self.state).park.answer(answers);
        for (OpenQuestion { reply_to: (request, reply), .. }, answer) in answered {
            reply.send(Answer::ok(request.id, answer));
        }
    }
}

impl CallHandler for ParkedCall {
    fn notification(&self, notification: Notification) {
        let is_heard = matches!(notification.method.as_str(), method::PROGRESS | method::MESSAGE);
        let guard = lock(&self.state).guard.clone().filter(|_| is_heard);
        let guarded = match guard {
            Some(guard) => guard.message(notification),
            None => Some(notification),
        };
        let Some(notification) = guarded else { return };
        let mut state = lock(&self.state);
        match notification.method.as_str() {
            method::PROGRESS => state.reply.progress(&notification, Some(&self.rising)),
            method::MESSAGE if state.client.level.is_some() => state.reply.message(&notification, state.client.level),
            method::CANCELLED => {
                if let Some(id) = notification.params.get("requestId").and_then(Id::from_raw) {
                    state.park.withdraw(&id);
                }
                drop(state);
                self.changed();
            }
            _ => {}
        }
    }

    fn request(&self, request: Request, reply: Reply) {
        if request.method == method::PING {
            return reply.send_default(&request);
        }
        let Some(question) = InputKind::of(&request.method, &request.params) else {
            return refuse(None, &request, reply);
        };
        let mut state = lock(&self.state);
        let asked = InputRequest { method: request.method.clone(), params: request.params.clone() };
        let asked = ask::question_for(Revision::LATEST, &asked, "", state.from.as_deref());
        let waiting = OpenQuestion { id: request.id.clone(), input: asked, reply_to: (request, reply) };
        let refused = state.park.ask(waiting);
        drop(state);
        match refused {
            Ok(()) => self.changed(),
            Err(OpenQuestion { reply_to: (request, reply), .. }) => refuse(Some(question), &request, reply),
        }
    }
}

/// A request that waits at a parked call.
pub(crate) struct Attachment<'a> {
    pub(crate) parked: &'a ParkedCall,
}

impl<'a> Attachment<'a> {
    pub(crate) fn new(parked: &'a ParkedCall, reply: &ReplyChannel, client: &ClientOptions) -> Self {
        let mut state = lock(&parked.state);
        state.park.attach();
        state.reply = reply.clone();
        state.client = client.clone();
        Self { parked }
    }
}

impl Drop for Attachment<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.parked.state);
        state.park.detach();
        if state.park.is_alone() {
            state.reply = ReplyChannel::default();
        }
        drop(state);
        self.parked.changed();
    }
}

// === impl ParkedCalls ===

impl ParkedCalls {
    pub(crate) fn new(sealer: Sealer) -> Self {
        Self { calls: Mutex::default(), sealer }
    }

    pub(crate) fn find(&self, principal: &PrincipalId, call: &ParkedCallId) -> Option<Arc<ParkedCall>> {
        lock(&self.calls).get(principal, call)
    }

    pub(crate) fn remove(&self, principal: &PrincipalId, call: &ParkedCallId) {
        lock(&self.calls).remove(principal, call);
    }

    /// One of this principal has ended and is kept.
    pub(crate) fn make_room_to_keep(&self, principal: &PrincipalId) {
        lock(&self.calls).make_room_to_keep(principal);
    }

    /// The run has ended: its calls that wait for a person are taken back at their servers.
    pub(crate) fn end_run(&self, run: &str) {
        for parked in lock(&self.calls).all() {
            let mut state = lock(&parked.state);
            if state.run.as_deref() == Some(run) {
                state.is_given_up = true;
                drop(state);
                parked.changed();
            }
        }
    }

    /// The state that leads a client back to its call.
    pub(crate) fn seal(&self, ticket: &ParkTicket) -> String {
        let text = serde_json::to_vec(ticket).unwrap_or_default();
        self.sealer.seal(PURPOSE, &text)
    }

    /// What a state says, if it is one of ours.
    pub(crate) fn opened(&self, state: &Raw) -> Option<ParkTicket> {
        let text = toolcrib_protocol::json::text(state.as_str())?;
        serde_json::from_slice(&self.sealer.open(PURPOSE, &text)?).ok()
    }

    /// Whether a state was given out here.
    pub(crate) fn knows(&self, state: &Raw) -> bool {
        self.opened(state).is_some()
    }

    pub(crate) fn enter(&self, principal: &PrincipalId) -> Result<(ParkedCallId, Arc<ParkedCall>), Problem> {
        let (call, parked) = (ParkedCallId(random::hex_128()), ParkedCall::begin());
        if lock(&self.calls).insert(principal, call.clone(), Arc::clone(&parked)) {
            return Ok((call, parked));
        }
        let message = "too many calls of clients that can be asked run or wait for answers";
        Err(Problem::new(Kind::Busy, message).hint("Answer some of them, or wait for them to end."))
    }
}

/// Waits until no request will come back for a call: its client went away before it was asked anything, or has not come
/// back in time.
pub(crate) async fn abandoned(parked: &ParkedCall) {
    let mut changes = parked.changes.subscribe();
    loop {
        changes.borrow_and_update();
        let (alone, abandoned, is_of_run) = {
            let state = lock(&parked.state);
            let abandoned = state.is_given_up || state.park.is_abandoned();
            (state.park.is_alone(), abandoned, state.run.is_some())
        };
        if abandoned {
            return;
        }
        let until = Instant::now() + if is_of_run { RETURN_OF_RUN } else { RETURN };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(until), if alone => return,
        }
    }
}

/// Whether it costs little to keep.
fn is_small(ended: &CallOutcome) -> bool {
    !matches!(ended, CallOutcome::Answered(Ok(result)) if result.bytes().len() > SMALL)
}
