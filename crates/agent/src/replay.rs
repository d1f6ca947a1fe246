//! Replays: a journal is followed entry by entry, nothing is executed, and each entry must be what the loop would have
//! done or what came from outside.

use crate::action::Action;
use crate::entry::{End, Entry, Event};
use crate::journal::JournalError;
use crate::run::{Effect, Run};

/// Why a replay does not reach the end of its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The loop would have done something else.
    #[error("entry {entry} of the journal is not what the loop would have done there")]
    Different {
        /// From 1.
        entry: usize,
    },
}

/// Follows a journal. Gives the end of the run, if it ended.
///
/// # Errors
/// The journal cannot be used, or an entry is not what the loop would have done.
pub fn replay(journal: &[Entry]) -> Result<Option<End>, ReplayError> {
    let mut run = Run::default();
    for (place, entry) in journal.iter().enumerate() {
        let explained =
            is_from_outside(&run, &entry.event) || run.actions().iter().any(|action| explains(action, &entry.event));
        // What was written twice changed nothing.
        if run.apply(entry)? == Effect::Changed && !explained {
            return Err(ReplayError::Different { entry: place + 1 });
        }
    }
    Ok(run.end().cloned())
}

/// What the loop does not do itself: answers, results, people, processes.
fn is_from_outside(run: &Run, event: &Event) -> bool {
    match event {
        Event::Decided { call, .. } => run.may_be_decided(*call),
        Event::Asked(_)
        | Event::Intent { .. }
        | Event::Waiting(_)
        | Event::Continued
        | Event::Checked { .. }
        | Event::Shortened(_)
        | Event::Ended(_) => false,
        _ => true,
    }
}

fn explains(action: &Action, event: &Event) -> bool {
    match (action, event) {
        (Action::Record(wanted), _) => as_json(wanted) == as_json(event),
        (Action::Ask(ask), Event::Asked(request)) => ask.request == *request,
        (Action::Call(calls), Event::Intent { call, attempt }) => {
            calls.iter().any(|wanted| wanted.id == *call && wanted.attempt == *attempt)
        }
        (Action::CheckOutput(_), Event::Checked { .. }) => true,
        _ => false,
    }
}

fn as_json(event: &Event) -> String {
    serde_json::to_string(event).expect("entries have string keys and no failing writers")
}
