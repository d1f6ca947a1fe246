//! Forks: a new run that begins with the first rounds of another one, results included.

use toolcrib_base::Timestamp;

use crate::entry::{Entry, Event};
use crate::journal::JournalError;
use crate::run::Run;

/// Why a run cannot be forked there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// Its journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It has fewer complete rounds.
    #[error("round {round} is not complete: choose one from 1 to {complete}")]
    NoRound {
        /// What was asked for.
        round: u32,
        /// How many are complete.
        complete: u32,
    },
    /// The run has no such model.
    #[error("the run has no model `{0}`")]
    NoModel(String),
    /// The output was given in this round.
    #[error("the run ended in round {0}: fork it at an earlier one")]
    Ended(u32),
}

/// The journal of a new run `id` that goes on after `round` of another one. Nothing is called again; what the other one
/// spent is its own. Another model gets the conversation without the first one's opaque items.
///
/// # Errors
/// The round is not complete, or the run has no such model.
pub fn fork(
    journal: &[Entry],
    id: &str,
    round: u32,
    model: Option<&str>,
    at: Timestamp,
) -> Result<Vec<Entry>, ForkError> {
    let run = Run::fold(journal)?;
    let complete = (1..).take_while(|round| run.entries_of(*round).is_some()).last().unwrap_or(0);
    let kept = run.entries_of(round).ok_or(ForkError::NoRound { round, complete })?;
    let mut forked = journal[..kept].to_vec();
    if Run::fold(&forked)?.has_output() {
        return Err(ForkError::Ended(round));
    }
    let from = run.id().to_owned();
    forked.push(Entry { at, event: Event::Forked { from, run: id.to_owned(), round } });
    if let Some(name) = model {
        let models = run.start().map(|start| start.models.as_slice()).unwrap_or_default();
        let place = models.iter().position(|model| model.name == name);
        let model = place.ok_or_else(|| ForkError::NoModel(name.to_owned()))?;
        forked.push(Entry { at, event: Event::ModelChanged { model } });
    }
    Ok(forked)
}
