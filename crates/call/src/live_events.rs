//! Live events for listeners: states of servers, their log lines, calls that have ended.
//!
//! Publishing never waits and costs next to nothing while no one listens. Anyone who reads too slowly misses the oldest
//! and is told how many.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use toolcrib_base::{Problem, ServerName, Timestamp};
use toolcrib_store::{AuditEvent, Decision, Outcome};
use toolcrib_upstream::Status;

/// How many events wait for the slowest listener before it misses some.
pub const WAITING: usize = 1_024;
/// How many may listen at a time: each holds a connection and a task.
pub const LISTENERS: usize = 32;

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A server changed its state.
    State,
    /// A server, or we about it, wrote a line.
    Log,
    /// A call has ended.
    Call,
    /// Something happened that is kept: what `core_events` lists.
    Event,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub struct LiveEvent {
    /// Of what kind.
    pub kind: Kind,
    /// What, as a JSON object.
    pub what: Value,
}

/// How many events a listener has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedEvents(pub u64);

/// Where events are published and listened to. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveEvents {
    sender: broadcast::Sender<Arc<LiveEvent>>,
    places: Arc<Semaphore>,
}

/// Someone who listens.
#[derive(Debug)]
pub struct Listener {
    receiver: broadcast::Receiver<Arc<LiveEvent>>,
    kinds: Vec<Kind>,
    _place: OwnedSemaphorePermit,
}

// === impl Kind ===

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::State, Self::Log, Self::Call, Self::Event];

    /// The kind's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Log => "log",
            Self::Call => "call",
            Self::Event => "event",
        }
    }
}

// === impl Told ===

impl LiveEvent {
    pub fn state(server: &ServerName, status: &Status) -> Self {
        let mut what =
            json!({ "server": server.as_str(), "state": status.state.as_str(), "since": status.since.to_string() });
        if let Some(note) = &status.note {
            what["note"] = note.as_str().into();
        }
        if let Some(error) = &status.last_error {
            what["lastError"] = error.as_str().into();
        }
        Self { kind: Kind::State, what }
    }

    /// A line of a server's log, already without secrets.
    pub fn log(at: Timestamp, server: &str, level: &str, line: &str) -> Self {
        let what = json!({ "at": at.to_string(), "server": server, "level": level, "line": line });
        Self { kind: Kind::Log, what }
    }

    /// A call that has ended, without its arguments.
    pub fn call(event: &AuditEvent) -> Self {
        let (decision, rule) = match &event.decision {
            Decision::Permit(rule) => ("permit", rule),
            Decision::Deny(reason) => ("deny", reason),
        };
        let outcome = match event.outcome {
            Outcome::Ok => "ok".to_owned(),
            Outcome::ToolError => "tool_error".to_owned(),
            Outcome::Cancelled => "cancelled".to_owned(),
            Outcome::Denied => "denied".to_owned(),
            Outcome::Error(kind) => format!("error:{}", kind.name()),
        };
        // What a client chose may be long; the record has all of it.
        let target: String = event.target.chars().take(200).collect();
        let what = json!({
            "at": event.at.to_string(), "principal": event.principal.as_str(),
            "profile": event.profile.as_ref().map(toolcrib_base::ProfileName::as_str), "door": event.door.as_str(),
            "target": target, "decision": format!("{decision}:{rule}"), "outcome": outcome,
            "duration_us": u64::try_from(event.duration.as_micros()).unwrap_or(u64::MAX),
        });
        Self { kind: Kind::Call, what }
    }
}

// === impl Events ===

impl Default for LiveEvents {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(WAITING), places: Arc::new(Semaphore::new(LISTENERS)) }
    }
}

impl LiveEvents {
    /// Publishes an event; it is built only if someone listens.
    pub fn publish(&self, event: impl FnOnce() -> LiveEvent) {
        if self.sender.receiver_count() > 0 {
            // The last one may have gone meanwhile.
            let _ = self.sender.send(Arc::new(event()));
        }
    }

    /// Listens to these kinds from now on.
    pub fn listen(&self, kinds: Vec<Kind>) -> Result<Listener, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = format!("the limit of {LISTENERS} event streams is reached");
            Problem::new(toolcrib_base::Kind::Busy, message).hint("End one of the other streams.")
        })?;
        Ok(Listener { receiver: self.sender.subscribe(), kinds, _place: place })
    }
}

// === impl Listener ===

impl Listener {
    /// The next event, or how many were missed; `None` when there will be no more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Arc<LiveEvent>, MissedEvents>> {
        loop {
            match self.receiver.recv().await {
                Ok(told) if self.kinds.contains(&told.kind) => return Some(Ok(told)),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Some(Err(MissedEvents(missed))),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> LiveEvent {
        LiveEvent::log(Timestamp(0), "a", "INFO", &number.to_string())
    }

    #[tokio::test]
    async fn a_slow_listener_misses_the_oldest_and_is_told_how_many() {
        let events = LiveEvents::default();
        events.publish(|| panic!("no one listens"));
        let mut slow = events.listen(vec![Kind::Log]).unwrap();
        let mut other = events.listen(vec![Kind::State]).unwrap();
        for number in 0..WAITING + 10 {
            events.publish(|| line(number));
        }
        assert_eq!(slow.next().await.unwrap().unwrap_err(), MissedEvents(10));
        assert_eq!(slow.next().await.unwrap().unwrap().what["line"], "10");
        drop(events);
        assert_eq!(other.next().await.unwrap().unwrap_err(), MissedEvents(10));
        assert!(other.next().await.is_none(), "what it did not ask for is not told");
    }

    #[test]
    fn the_listeners_are_counted() {
        let events = LiveEvents::default();
        let all: Vec<_> = (0..LISTENERS).map(|_| events.listen(vec![Kind::Call]).unwrap()).collect();
        assert_eq!(events.listen(vec![Kind::Call]).unwrap_err().kind, toolcrib_base::Kind::Busy);
        drop(all);
        events.listen(vec![Kind::Call]).unwrap();
    }
}
