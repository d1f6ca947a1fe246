//! Calls of modern clients that wait, at a legacy server, for answers: the server asks and keeps its call open, the
//! client is told what is needed and comes back with the answers in a request of its own.
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
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib_base::{Kind, Problem, random};
use toolcrib_protocol::ask::{self, Asked, InputRequired, Question};
use toolcrib_protocol::error::INVALID_PARAMS;
use toolcrib_protocol::park::{Park, Waiting};
use toolcrib_protocol::seal::Sealer;
use toolcrib_protocol::{Answer, Id, Notification, Raw, Request, Revision, RpcError, method};
use toolcrib_upstream::Server;
use toolcrib_upstream::server::Call;
use toolcrib_upstream::{CallHandler, Reply};

use crate::dispatch::{self, Ended, Outgoing};
use crate::exchange::{self, Behind, Exchanged, Wanted, Way, refuse};
use crate::passage::Passage;
use crate::request::Passing;
use table::Table;
use toolcrib_store::Outcome;

/// What the sealed states are for.
const PURPOSE: &str = "parked-call";
/// How long a call waits for its client to come back.
const RETURN: Duration = Duration::from_secs(10 * 60);
/// How long further questions are waited for after the first.
const GATHER: Duration = Duration::from_millis(20);
/// How many bytes the result of a finished call may have to be kept that long too.
const SMALL: usize = 256 * 1024;
/// How long a finished call with a larger one is kept.
const KEPT: Duration = Duration::from_secs(60);
/// How long one call may take with all its questions.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The calls that are parked.
pub(crate) struct Parking {
    calls: Mutex<Table>,
    sealer: Sealer,
}

impl fmt::Debug for Parking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parking").field("calls", &lock(&self.calls).len()).finish_non_exhaustive()
    }
}

/// What a sealed state says.
#[derive(Debug, Serialize, Deserialize)]
struct Ticket {
    call: String,
    principal: String,
    profile: String,
    digest: String,
    /// Milliseconds of the clock.
    until: i64,
}

/// One call that runs.
#[derive(Debug)]
struct Parked {
    state: Mutex<State>,
    /// The highest progress told: a modern client must hear it rise.
    rising: Mutex<f64>,
    /// Counts what happened, so that those who are attached look again.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    park: Park<(Request, Reply)>,
    /// How it ended.
    ended: Option<Ended>,
    /// Since when it is only kept in case its client asks again.
    kept_since: Option<Instant>,
    /// The way back to whoever attached last.
    way: Way,
    behind: Behind,
    from: Option<String>,
    /// What the server asked in vain, because the client that was there did not offer it.
    missing: Option<Question>,
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

impl Parked {
    fn begin() -> Arc<Self> {
        let (rising, news) = (Mutex::new(f64::NEG_INFINITY), watch::Sender::new(0));
        Arc::new(Self { state: Mutex::default(), rising, news })
    }

    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    /// How it is by now: ended, asking, or neither.
    fn look(&self) -> Option<Result<Ended, Vec<(String, Asked)>>> {
        let mut state = lock(&self.state);
        if let Some(ended) = &state.ended {
            let missing = state.missing.filter(|_| exchange::has_failed(ended));
            return Some(Ok(missing.map_or_else(|| ended.clone(), |it| Ended::Answered(Err(it.missing())))));
        }
        // What this client cannot be asked is refused now: the one that came before may have declared more.
        let capabilities = Arc::clone(&state.behind.capabilities);
        let unfit = state.park.unfit(&capabilities);
        let questions = unfit.iter().filter_map(|it| Question::of(&it.asked.method, &it.asked.params));
        state.missing = state.missing.or(questions.into_iter().next());
        let left = state.park.is_asking().then(|| state.park.leave());
        drop(state);
        for Waiting { asked, way: (request, reply), .. } in unfit {
            refuse(Question::of(&asked.method, &asked.params), &request, reply);
        }
        left.map(Err)
    }

    fn is_asking(&self) -> bool {
        let state = lock(&self.state);
        state.ended.is_none() && state.park.is_asking()
    }

    fn answer(&self, answers: BTreeMap<String, Raw>) {
        let answered = lock(&self.state).park.answer(answers);
        for (Waiting { way: (request, reply), .. }, answer) in answered {
            reply.send(Answer::ok(request.id, answer));
        }
    }
}

impl CallHandler for Parked {
    fn notification(&self, notification: Notification) {
        let mut state = lock(&self.state);
        match notification.method.as_str() {
            method::PROGRESS => state.way.progress(&notification, Some(&self.rising)),
            method::MESSAGE if state.behind.level.is_some() => state.way.message(&notification, state.behind.level),
            method::CANCELLED => {
                if let Some(id) = notification.params.get("requestId").and_then(Id::from_raw) {
                    state.park.withdraw(&id);
                }
                drop(state);
                self.tell();
            }
            _ => {}
        }
    }

    fn request(&self, request: Request, reply: Reply) {
        if request.method == method::PING {
            return reply.send_default(&request);
        }
        let Some(question) = Question::of(&request.method, &request.params) else {
            return refuse(None, &request, reply);
        };
        let mut state = lock(&self.state);
        let asked = Asked { method: request.method.clone(), params: request.params.clone() };
        let asked = ask::question_for(Revision::LATEST, &asked, "", state.from.as_deref());
        let waiting = Waiting { id: request.id.clone(), asked, way: (request, reply) };
        let refused = state.park.ask(waiting);
        drop(state);
        match refused {
            Ok(()) => self.tell(),
            Err(Waiting { way: (request, reply), .. }) => refuse(Some(question), &request, reply),
        }
    }
}

/// A request that waits at a parked call.
struct Attached<'a> {
    parked: &'a Parked,
}

impl<'a> Attached<'a> {
    fn new(parked: &'a Parked, way: &Way, behind: &Behind) -> Self {
        let mut state = lock(&parked.state);
        state.park.attach();
        state.way = way.clone();
        state.behind = behind.clone();
        Self { parked }
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.parked.state);
        state.park.detach();
        if state.park.is_alone() {
            state.way = Way::default();
        }
        drop(state);
        self.parked.tell();
    }
}

// === impl Parking ===

impl Parking {
    pub(crate) fn new(sealer: Sealer) -> Self {
        Self { calls: Mutex::default(), sealer }
    }

    /// What a state says, if it is one of ours.
    fn opened(&self, state: &Raw) -> Option<Ticket> {
        let text = toolcrib_protocol::json::text(state.as_str())?;
        serde_json::from_slice(&self.sealer.open(PURPOSE, &text)?).ok()
    }

    /// Whether a state was given out here.
    pub(crate) fn knows(&self, state: &Raw) -> bool {
        self.opened(state).is_some()
    }

    fn enter(&self, principal: &str) -> Result<(String, Arc<Parked>), Problem> {
        let (call, parked) = (random::hex_128(), Parked::begin());
        if lock(&self.calls).insert(principal, call.clone(), Arc::clone(&parked)) {
            return Ok((call, parked));
        }
        let message = "too many calls of clients that can be asked run or wait for answers";
        Err(Problem::new(Kind::Busy, message).hint("Answer some of them, or wait for them to end."))
    }
}

fn digest(method: &str, params: &Raw, session: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(method.as_bytes());
    hasher.update([0]);
    hasher.update(session);
    hasher.update([0]);
    hasher.update(ask::identity(params));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn invalid(message: &str) -> Exchanged {
    let error = RpcError::new(INVALID_PARAMS, format!("`requestState` {message}. Make the call again without it."));
    Exchanged { ended: Ended::Answered(Err(error)), passage: None }
}

fn expired() -> Exchanged {
    let message = "`requestState` has expired. The call may have run; check before you make it again.";
    Exchanged { ended: Ended::Answered(Err(RpcError::new(INVALID_PARAMS, message))), passage: None }
}

impl Passing<'_> {
    /// Calls a legacy server for a modern client that can be asked, or goes on with such a call.
    pub(crate) async fn park(&self, passage: Passage, wanted: Wanted<'_>) -> Exchanged {
        let parking = &self.gateway.parking;
        let principal = self.caller.principal.id.as_str();
        let session = self.behind.conversation.as_ref().map_or("", |conversation| conversation.handle());
        let digest = digest(wanted.method, &wanted.params, session);
        let state = ask::state(&wanted.params);
        let (call, parked) = match state {
            Some(state) => {
                let Some(ticket) = parking.opened(&state) else {
                    return Exchanged { passage: Some(passage), ..invalid("is not one that was given out here") };
                };
                let foreign = ticket.principal != principal
                    || ticket.profile != self.caller.profile.as_str()
                    || ticket.digest != digest;
                if foreign {
                    return Exchanged { passage: Some(passage), ..invalid("belongs to another call") };
                }
                let known = lock(&parking.calls).get(principal, &ticket.call);
                let Some(parked) = known.filter(|_| ticket.until > self.gateway.clock.now().0) else {
                    return Exchanged { passage: Some(passage), ..expired() };
                };
                match ask::answers(&wanted.params) {
                    Ok(answers) => parked.answer(answers.unwrap_or_default()),
                    Err(error) => {
                        return Exchanged { ended: Ended::Answered(Err(error)), passage: Some(passage) };
                    }
                }
                let attached = Attached::new(&parked, &self.way, &self.behind);
                return Exchanged {
                    passage: Some(passage),
                    ..self.attend(attached, wanted.server, &ticket.call, digest).await
                };
            }
            None => match parking.enter(principal) {
                Ok(entered) => entered,
                Err(problem) => return Exchanged { ended: Ended::Unanswered(problem), passage: Some(passage) },
            },
        };
        lock(&parked.state).from = self.asks_for(wanted.server);
        // Attached before it starts: a call that nobody waits for is given up.
        let attached = Attached::new(&parked, &self.way, &self.behind);
        let server = wanted.server;
        self.start(passage, wanted, &call, Arc::clone(&parked));
        self.attend(attached, server, &call, digest).await
    }

    /// Runs the call in a task of its own: it outlives the request that began it.
    fn start(&self, passage: Passage, wanted: Wanted<'_>, call: &str, parked: Arc<Parked>) {
        let (gateway, caller) = (Arc::clone(self.gateway), self.caller.clone());
        let (server, method) = (wanted.server.clone(), wanted.method.to_owned());
        let params = ask::retry(&wanted.params, &[], None);
        let call = call.to_owned();
        let handler: Arc<dyn CallHandler> = Arc::<Parked>::clone(&parked);
        let to_server = Call {
            client: self.client_of(wanted.server),
            wants_progress: self.way.token.is_some(),
            handler: Some(handler),
            headers: wanted.headers,
            ..Call::default()
        };
        let environment = self.environment_for(wanted.server);
        let mut stop = self.gateway.servers.scope().stop_signal();
        self.gateway.servers.scope().spawn(async move {
            let outgoing = Outgoing { server: &server, method: &method, params, environment, call: to_server };
            let calling = dispatch::call(&passage, &caller, None, outgoing);
            // Dropping the call takes it back at the server.
            let ended = tokio::select! {
                ended = calling => ended,
                () = given_up(&parked) => Ended::Cancelled,
                () = tokio::time::sleep(LONGEST) => Ended::Cancelled,
                () = stop.stopped() => Ended::Cancelled,
            };
            passage.finish(outcome_of(&ended));
            // For a client whose answer got lost, or who answers a question that the server has given up.
            let kept = if is_small(&ended) { RETURN } else { KEPT };
            let was_parked = {
                let mut state = lock(&parked.state);
                state.ended = Some(ended);
                state.kept_since = Some(Instant::now());
                let was_parked = state.park.was_parked();
                state.park.end();
                was_parked
            };
            parked.tell();
            if was_parked {
                lock(&gateway.parking.calls).make_room_to_keep(caller.principal.id.as_str());
                tokio::select! {
                    () = tokio::time::sleep(kept) => {}
                    () = stop.stopped() => {}
                }
            }
            lock(&gateway.parking.calls).remove(caller.principal.id.as_str(), &call);
        });
    }

    /// Waits at a call until it has ended or asks.
    async fn attend(&self, attached: Attached<'_>, server: &Server, call: &str, digest: String) -> Exchanged {
        let mut news = attached.parked.news.subscribe();
        loop {
            if attached.parked.is_asking() {
                // What a server asks at the same time is asked of the client at the same time.
                tokio::time::sleep(GATHER).await;
            }
            match attached.parked.look() {
                // The server may have turned out to be a modern one, which asks in its result.
                Some(Ok(ended)) => return Exchanged { ended: self.checked(server, ended), passage: None },
                Some(Err(questions)) => {
                    let state = Some(Raw::from_value(&self.ticket(call, digest)));
                    let required = InputRequired { questions, state }.to_raw();
                    return Exchanged { ended: Ended::Answered(Ok(required)), passage: None };
                }
                None => {}
            }
            if news.changed().await.is_err() {
                return Exchanged { ended: Ended::Cancelled, passage: None };
            }
        }
    }

    fn ticket(&self, call: &str, digest: String) -> String {
        let wait = i64::try_from(RETURN.as_millis()).unwrap_or(i64::MAX);
        let ticket = Ticket {
            call: call.to_owned(),
            principal: self.caller.principal.id.as_str().to_owned(),
            profile: self.caller.profile.to_string(),
            digest,
            until: self.gateway.clock.now().0.saturating_add(wait),
        };
        let text = serde_json::to_vec(&ticket).unwrap_or_default();
        self.gateway.parking.sealer.seal(PURPOSE, &text)
    }
}

/// Waits until nobody will come back for a call: its client went away before it was asked anything, or has not come
/// back in time.
async fn given_up(parked: &Parked) {
    let mut news = parked.news.subscribe();
    loop {
        news.borrow_and_update();
        let (alone, abandoned) = {
            let state = lock(&parked.state);
            (state.park.is_alone(), state.park.is_abandoned())
        };
        if abandoned {
            return;
        }
        let until = Instant::now() + RETURN;
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(until), if alone => return,
        }
    }
}

/// Whether it costs little to keep.
fn is_small(ended: &Ended) -> bool {
    !matches!(ended, Ended::Answered(Ok(result)) if result.bytes().len() > SMALL)
}

fn outcome_of(ended: &Ended) -> Outcome {
    match ended {
        Ended::Answered(Ok(result)) if toolcrib_view::reply::is_failure(result) => Outcome::ToolError,
        Ended::Answered(Ok(_)) => Outcome::Ok,
        Ended::Answered(Err(_)) => Outcome::Error(Kind::BadServer),
        Ended::Failed(error) => Outcome::Error(error.kind()),
        Ended::Cancelled => Outcome::Cancelled,
        Ended::Unanswered(problem) => Outcome::Error(problem.kind),
    }
}
