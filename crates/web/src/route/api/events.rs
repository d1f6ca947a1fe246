//! `GET /api/v1/events?kinds=state,log,call,event`: what happens, as server-sent events.
//!
//! A task for each stream moves events from the gateway's ring into a short queue. A client that does not read holds up
//! only its own task; what the ring loses in the meantime is counted and told as `lost`.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::Response;
use http::request::Parts;
use serde_json::json;
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem, Role};
use toolcrib_call::live_events::{Kind as EventKind, MissedEvents};
use toolcrib_protocol::sse::Event;
use toolcrib_session::Principal;
use toolcrib_transport::http::body::{Body, Feed};

use super::{arguments, for_caller};
use crate::{Site, respond};

/// How many events wait on the way to one client, beside those in the ring.
const QUEUE: usize = 64;

struct Stream(mpsc::Receiver<Event>);

impl Feed for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

pub(super) fn answer(site: &Arc<Site>, principal: &Principal, head: &Parts) -> Response<Body> {
    let profile = crate::route::default_profile();
    if let Some(halt) = site.gateway.path.halts.of_principal(principal, profile) {
        return respond::refusal(&for_caller(halt.problem(), false, head));
    }
    if principal.role < Role::Operator {
        let problem = Problem::new(Kind::Forbidden, "only admins and operators can follow events");
        return respond::refusal(&for_caller(problem, false, head));
    }
    let opened = kinds(head.uri.query().unwrap_or_default()).and_then(|kinds| site.gateway.events().listen(kinds));
    let mut listener = match opened {
        Ok(listener) => listener,
        Err(problem) => return respond::refusal(&problem),
    };
    let (queue, stream) = mpsc::channel(QUEUE);
    let mut stop = site.scope.stop_signal();
    let (halts, principal) = (Arc::clone(&site.gateway.path.halts), principal.clone());
    let mut changes = halts.watch();
    site.scope.spawn(async move {
        loop {
            let next = tokio::select! {
                next = listener.next() => next,
                // Only a new halt can end it. The other half is in the gateway, which outlives its doors.
                Ok(()) = changes.changed() => match halts.of_principal(&principal, profile) {
                    Some(_) => return,
                    None => continue,
                },
                // The client has gone, or the gateway ends.
                () = queue.closed() => return,
                () = stop.stopped() => return,
            };
            let (name, what) = match next {
                Some(Ok(told)) => (told.kind.as_str(), told.what.clone()),
                Some(Err(MissedEvents(count))) => ("lost", json!({ "count": count })),
                None => return,
            };
            let event = Event { event: Some(name.into()), data: what.to_string().into(), ..Event::default() };
            let sent = tokio::select! {
                sent = queue.send(event) => sent,
                () = stop.stopped() => return,
            };
            if sent.is_err() {
                return;
            }
        }
    });
    respond::events(Stream(stream))
}

/// The kinds that are asked for; all when nothing is said.
fn kinds(query: &str) -> Result<Vec<EventKind>, Problem> {
    let mut query = arguments::query(query)?;
    let wanted = query.remove("kinds");
    toolcrib_view::operation::check_known(&json!({ "properties": { "kinds": {} } }), &query.into())?;
    let Some(wanted) = wanted.as_ref().and_then(|wanted| wanted.as_str()) else { return Ok(EventKind::ALL.to_vec()) };
    let kind = |word: &str| EventKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    wanted
        .split(',')
        .map(|word| {
            let shown: String = word.chars().take(40).collect();
            let unknown = || Problem::new(Kind::InvalidParams, format!("unknown value `{shown}` in `kinds`"));
            kind(word).ok_or_else(|| unknown().hint("Kinds are state, log, call, event."))
        })
        .collect()
}
