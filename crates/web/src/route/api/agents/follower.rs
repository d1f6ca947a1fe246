//! A task for each stream follows a run, one look after the other, and moves what it tells into a short queue. A client
//! that does not read holds up its own task only; what happens meanwhile is in the journal.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::Response;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::RunPosition;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::{Body, Feed};

use super::DoorRequest;
use crate::respond;

/// How many events wait on the way to one client.
pub(super) const QUEUE: usize = 64;

/// Tells what happens in a run as the events of one protocol.
pub(super) trait Narrate: Send + 'static {
    /// More of the text that is being written.
    fn text(&mut self, text: &str, out: &mut Vec<Event>);

    /// One entry, as `core_run_entries` shows it.
    fn entry(&mut self, entry: &Value, out: &mut Vec<Event>);

    /// Where the run is after these entries. Whether the stream ends.
    fn rest(&mut self, status: &str, waits: &Value, out: &mut Vec<Event>) -> bool;

    /// The run cannot be followed any more. The stream ends.
    fn failed(&mut self, problem: &Problem, out: &mut Vec<Event>);
}

/// What a stream is of.
pub(super) struct FollowedRun<N> {
    /// The run.
    pub(super) run: String,
    /// Tells it.
    pub(super) narrator: N,
    /// What stands first.
    pub(super) first: Vec<Event>,
    /// The entries that the narrator has.
    pub(super) entries: u64,
    /// Whether the run is cancelled when its client goes away.
    pub(super) ends_with_client: bool,
}

struct Stream(mpsc::Receiver<Event>);

impl Feed for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// Why a stream ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Told,
    ClientGone,
    Closing,
}

/// The stream of a run.
pub(super) fn stream<N: Narrate>(mut request: DoorRequest, followed: FollowedRun<N>) -> Response<Body> {
    // It was read; a stream may last for days.
    request.body = Map::new();
    let (queue, stream) = mpsc::channel(QUEUE);
    let scope = request.site.scope.clone();
    scope.spawn(async move {
        let (run, ends_with_client) = (followed.run.clone(), followed.ends_with_client);
        let end = tell(&request, followed, queue).await;
        if end == StreamEnd::ClientGone
            && ends_with_client
            && let Err(problem) = request.operate("core_run_cancel", &json!({"run": run})).await
        {
            tracing::debug!(run, %problem, "the run of a client that went away is not cancelled");
        }
    });
    respond::events(Stream(stream))
}

/// Tells a run into a queue, until it ends or no one listens.
pub(super) async fn tell<N: Narrate>(
    request: &DoorRequest,
    followed: FollowedRun<N>,
    queue: mpsc::Sender<Event>,
) -> StreamEnd {
    let FollowedRun { run, mut narrator, first, entries, .. } = followed;
    let mut position = RunPosition { entries, text: 0 };
    let mut stop = request.site.scope.stop_signal();
    let halts = Arc::clone(&request.site.gateway.path.halts);
    let mut events = first;
    let mut is_over = false;
    loop {
        for event in events.drain(..) {
            let sent = tokio::select! {
                sent = queue.send(event) => sent,
                () = stop.stopped() => return StreamEnd::Closing,
            };
            if sent.is_err() {
                return StreamEnd::ClientGone;
            }
        }
        if is_over {
            return StreamEnd::Told;
        }
        let caller = &request.caller;
        let look = match halts.of_principal(&caller.principal, &caller.profile) {
            Some(halt) => Err(halt.problem()),
            None => tokio::select! {
                look = request.runs.follow(&run, position) => look,
                () = queue.closed() => return StreamEnd::ClientGone,
                () = stop.stopped() => return StreamEnd::Closing,
            },
        };
        match look {
            Ok(look) => is_over = take(&mut narrator, &look, &mut position, &mut events),
            Err(problem) => {
                let shown = match problem.kind {
                    Kind::Internal if !caller.principal.is_admin() => {
                        tracing::error!(run, %problem, "a run cannot be followed");
                        Problem::new(Kind::Internal, "internal error of the gateway; see its log")
                    }
                    _ => problem,
                };
                narrator.failed(&shown, &mut events);
                is_over = true;
            }
        }
    }
}

/// Takes in one look. Whether the stream ends.
pub(super) fn take(
    narrator: &mut impl Narrate,
    look: &Value,
    position: &mut RunPosition,
    events: &mut Vec<Event>,
) -> bool {
    if let Some(text) = look["partial"].as_str() {
        position.text += text.len();
        narrator.text(text, events);
    }
    for entry in look["entries"].as_array().into_iter().flatten() {
        narrator.entry(entry, events);
        position.entries = entry["number"].as_u64().unwrap_or(position.entries);
        position.text = 0;
    }
    narrator.rest(look["status"].as_str().unwrap_or_default(), &look["waits"], events)
}

/// The id of an entry's event: its run and its number.
pub(super) fn event_id(run: &str, number: u64) -> String {
    format!("{run}:{number}")
}

/// The run and the entry that a `Last-Event-ID` names; a number alone is of the run that the query names.
///
/// # Errors
/// It is neither.
pub(super) fn last_event(request: &DoorRequest) -> Result<(Option<String>, u64), Problem> {
    let Some(id) = request.last_event.as_deref().filter(|id| !id.is_empty()) else {
        return Ok((request.run.clone(), 0));
    };
    let (run, number) = match id.rsplit_once(':') {
        Some((run, number)) => (Some(run.to_owned()), number),
        None => (request.run.clone(), id),
    };
    let number = number.parse().map_err(|_| wrong_event())?;
    if run.is_none() || request.run.as_ref().is_some_and(|named| run.as_ref() != Some(named)) {
        return Err(wrong_event());
    }
    Ok((run, number))
}

pub(super) fn wrong_event() -> Problem {
    Problem::new(Kind::InvalidParams, "`Last-Event-ID` is not the id of an event of this run")
        .hint("Send the id of the last event that arrived, or none to begin with the first.")
}

/// Whether one of these waits is for a person.
pub(super) fn waits_for_person(waits: &Value) -> bool {
    const KINDS: [&str; 6] = ["approval", "settlement", "person", "review", "login", "resume"];
    let is_person = |wait: &Value| wait["for"].as_str().is_some_and(|kind| KINDS.contains(&kind));
    waits.as_array().is_some_and(|waits| waits.iter().any(is_person))
}

/// A wait with the command that ends it.
pub(super) fn shown_wait(wait: &Value, run: &str) -> Value {
    let mut shown = wait.clone();
    if let Some(next) = wait["next"].as_str() {
        shown["next"] = next.replace("RUN", run).into();
    }
    shown
}

/// In a sentence, how a run ended that did not do its task.
pub(super) fn end_message(run: &str, entry: &Value) -> String {
    let end = entry["end"].as_str().unwrap_or("without a reason");
    match entry["text"].as_str().unwrap_or_default() {
        "" => format!("run `{run}` ended: {end}"),
        text => format!("run `{run}` ended: {end}: {text}"),
    }
}
