//! Agent runs: a task in words becomes governed tool calls that survive a crash, wait for people and stop at a limit.
//!
//! The loop is a pure function: a journal in, [actions](Action) out. It knows no clock, no files, no runtime and no
//! randomness; time comes in entries. Feature `rt` adds the driver, which executes actions through traits that the
//! composition fills.

mod action;
mod answer;
mod conversation;
#[cfg(feature = "rt")]
pub mod driver;
mod entry;
mod fork;
pub mod journal;
mod replay;
mod run;
#[cfg(test)]
mod simulator;
mod spending;
mod start;
mod tool;

pub use action::{Action, Ask, Call, OpenCall};
pub use answer::{Answer, Failure, FailureKind, Finish, ModelCall, ModelSpec, Price};
pub use conversation::{Conversation, Part, ShownResult};
pub use entry::{CallId, CallResult, Decision, End, Entry, Event, InnerTool, OnDenied, OnUnknown, Purpose, Refusal};
pub use entry::{Compaction, ParentCall, Question, RefusalKind, Reply, Request, Settlement, Start, WaitFor};
pub use fork::{ForkError, fork};
pub use journal::JournalError;
pub use replay::{ReplayError, replay};
pub use run::{AskingCall, Effect, Run};
pub use spending::{Allowance, Cost, LimitName, RunLimits};
pub use start::StartError;
pub use tool::{Hints, ToolSpec};

/// What is to be done next in the run that a journal tells.
///
/// A driver keeps a [`Run`] and gives it each entry as it is written, which costs the same however long the run is.
///
/// # Errors
/// An entry does not fit those above it.
pub fn next(journal: &[Entry]) -> Result<Vec<Action>, JournalError> {
    Ok(Run::fold(journal)?.actions())
}
