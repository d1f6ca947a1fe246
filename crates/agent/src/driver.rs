//! The driver: executes the actions of runs through traits that the composition fills in.
//!
//! [`Runs`] is the table of running runs: one task each (`driver/task.rs`). A run that waits has no task and no memory;
//! what it waits for is given to [`Runs::tell`], which reads its journal and goes on.

mod runs;
mod task;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::value::RawValue;
use toolcrib_base::{Clock, Problem};

use crate::action::{Action, Ask, Call, OpenCall};
use crate::answer::{Answer, Failure, FailureKind};
use crate::entry::{CallResult, Decision, End, Entry, Event, Question, Refusal, Start, WaitFor};
use crate::journal::JournalError;
use crate::start::StartError;

pub use runs::Runs;

/// Sends one request to a model.
#[async_trait]
pub trait AskModel: Send + Sync {
    /// The whole answer. What arrives of it meanwhile is given to `observer`. Dropping the future takes the request
    /// back. A stream that ends early is a failure.
    async fn ask(&self, run: &str, ask: &Ask, observer: &dyn Observe) -> Result<Answer, Failure>;
}

/// The gateway's one path of calls, on behalf of the run's agent and its caller.
#[async_trait]
pub trait CallTool: Send + Sync {
    /// What the rules say of a call, before any of its turn leaves. Asked twice for the same call of a run, it gives the
    /// same approval.
    async fn decide(&self, run: &str, call: &OpenCall) -> Decision;

    /// Makes a call. The rules decide once more. Dropping the future cancels the call.
    async fn call(&self, run: &str, call: &Call) -> CallOutcome;
}

/// Keeps journals.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds entries, all or none. With `sync` they and all before them are on disk when it returns.
    async fn append(&self, run: &str, entries: &[Entry], sync: bool) -> Result<(), AppendError>;

    /// The whole journal of a run, if there is one.
    async fn read(&self, run: &str) -> Result<Option<Vec<Entry>>, Problem>;
}

/// Checks outputs.
#[async_trait]
pub trait CheckOutput: Send + Sync {
    /// Why an output does not fit the schema, if it does not.
    async fn check(&self, schema: &RawValue, output: &str) -> Option<String>;
}

/// Sees what happens in runs. Must not block.
pub trait Observe: Send + Sync {
    /// A piece of an answer arrived. It may still be cut.
    fn delta(&self, run: &str, text: &str);

    /// An entry is in the journal.
    fn entry(&self, run: &str, entry: &Entry);

    /// A run has no task any more.
    fn rest(&self, run: &str, rest: &Result<Rest, DriveError>);
}

/// Executes runs: [`Runs`] in this process, others elsewhere.
#[async_trait]
pub trait DriveRuns: Send + Sync + fmt::Debug {
    /// As [`Runs::start`].
    async fn start(&self, start: Start) -> Result<(), DriveError>;

    /// As [`Runs::resume`].
    async fn resume(&self, id: &str) -> Result<(), DriveError>;

    /// As [`Runs::tell`].
    async fn tell(&self, id: &str, event: Event) -> Result<(), DriveError>;

    /// As [`Runs::count`].
    fn count(&self) -> usize;

    /// As [`Runs::is_running`].
    fn is_running(&self, id: &str) -> bool;
}

/// What became of a call.
#[derive(Debug, Clone)]
pub enum CallOutcome {
    /// It gave a result.
    Result(CallResult),
    /// It left, and it is not known whether it happened.
    Unknown(String),
    /// It left and waits for something outside.
    Waits(WaitFor),
    /// It left and waits for a person's answer.
    Asks(WaitFor, Box<Question>),
    /// It did not leave: it waits for an approval.
    Held(String),
    /// It did not leave: the rules refuse it now.
    Refused(Refusal),
}

impl CallOutcome {
    /// With as much of a result as is kept of it.
    #[must_use]
    pub fn kept(self) -> Self {
        match self {
            Self::Result(result) => Self::Result(result.kept()),
            other => other,
        }
    }
}

impl CallOutcome {
    /// Of a call that had no answer in its time: what changes something may have happened.
    pub fn late(call: &Call) -> Self {
        let why = format!("no answer within {} ms", call.within_ms);
        if call.durable {
            return Self::Unknown(why);
        }
        Self::Result(CallResult { text: why, is_error: true, ..CallResult::default() })
    }
}

/// Of a request that had no answer in the time that its run had left.
pub fn late(within_ms: u64) -> Failure {
    let message = format!("no answer within the {within_ms} ms that the run had left");
    Failure { kind: FailureKind::Timeout, message, retry_after_ms: None, spent: None }
}

/// All that a run needs.
#[derive(Clone)]
pub struct Surroundings {
    /// The models.
    pub models: Arc<dyn AskModel>,
    /// The tools.
    pub tools: Arc<dyn CallTool>,
    /// The journals.
    pub journal: Arc<dyn Journal>,
    /// Schemas of outputs.
    pub outputs: Arc<dyn CheckOutput>,
    /// Who watches.
    pub observer: Arc<dyn Observe>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// Why a run has no task any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// It ended.
    Ended(End),
    /// It waits.
    Waiting(Vec<WaitFor>),
    /// The program stops. The run can go on in another process.
    Stopped,
}

/// Why entries are not in a journal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The agent would spend more than it may today.
    #[error("{0}")]
    DayLimit(Problem),
    /// The journal cannot be written.
    #[error("{0}")]
    Storage(Problem),
}

impl From<Problem> for AppendError {
    fn from(problem: Problem) -> Self {
        Self::Storage(problem)
    }
}

impl From<AppendError> for DriveError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::DayLimit(problem) => Self::DayLimit(problem),
            AppendError::Storage(problem) => Self::Storage(problem),
        }
    }
}

/// Why a run cannot go on here.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DriveError {
    /// It may not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its journal does not fit, or the run ended.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its journal cannot be read or written. Nothing left since.
    #[error("the journal cannot be used: {0}")]
    Storage(Problem),
    /// The agent has used up what it may start or spend today. Nothing left since.
    #[error("{0}")]
    DayLimit(Problem),
    /// There is no such run.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// There is a run with this id.
    #[error("there is a run `{0}` already")]
    Taken(String),
    /// Too many run at once.
    #[error("{0} runs are under way; wait until one ends")]
    Busy(usize),
}

/// Whether an action sends something out.
fn leaves(action: &Action) -> bool {
    matches!(action, Action::Ask(_) | Action::Call(_) | Action::Decide(_) | Action::CheckOutput(_))
}
