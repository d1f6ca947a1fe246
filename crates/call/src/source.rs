//! Sources: parts of this process that offer tools and operations, such as workflows and services. The gateway knows
//! none of them; they are handed in. A source does not see the gateway: it gets an [`Invocation`], and its own calls of
//! tools take the path of every call.

mod invocation;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::{PrincipalId, Problem, Timestamp, ToolId};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_protocol::{Capabilities, Raw};
use toolcrib_session::Caller;
use toolcrib_view::{Operation, Tool, ToolSource, ToolSources, View};

use crate::halts::Halts;
use crate::own_tasks::OwnTask;
use crate::reply::ReplyChannel;

pub use invocation::{DEEPEST, Invocation};

/// Something of this process that offers tools and operations of its own.
pub trait Source: ToolSource {
    /// Takes new definitions, before views are built of them. Gives what is wrong with them beside what their readers
    /// have found. Blocks: it may not wait for anything that waits for a view.
    fn apply(&self, loaded: &Arc<Catalog>) -> Vec<DefinitionProblem>;

    /// Runs one of its tools, [`Invocation::tool`]. The result is one of `tools/call`. Dropping the future cancels the
    /// run.
    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>>;

    /// Ends what it runs for those who are halted, after each new halt. May not wait.
    fn end_halted(&self, _halts: &Halts) {}

    /// A call of a run may go on, or will not: an approval was granted, refused, or has expired. Given for each approval;
    /// whose it is, the source knows by its id. What ends while no gateway runs, or before the source has written down
    /// that it waits, it learns by [`crate::CallPath::approval_end`]. May not wait.
    fn approval_ended(&self, _end: &ApprovalEnd) {}

    /// A call of a run that asked a person has ended without the answer: made again with what led back to it, it gives its
    /// result. May not wait.
    fn question_ended(&self, _run: &str, _place: &str) {}

    /// Its operations, rows made with `..Operation::OF_SOURCE`.
    fn operations(&self) -> &'static [Operation];

    /// Does one of them. Its arguments fit its schema.
    fn operate(
        &self,
        operation: &'static Operation,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Value, Problem>>;
}

/// How far a follower of a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunPosition {
    /// The entries that it has.
    pub entries: u64,
    /// The bytes that it has of the answer that is being written after them.
    pub text: usize,
}

/// Follows runs, for a caller to whom an operation on the run has shown that it is there.
pub trait FollowRuns: fmt::Debug + Send + Sync {
    /// What there is after a position, as soon as there is more, or nothing after a while: `{run, status, entries, next,
    /// partial, waits}`, where `partial` is text after the position and `waits` stands where the run waits.
    fn follow(&self, run: &str, position: RunPosition) -> BoxFuture<'static, Result<Value, Problem>>;
}

/// All sources, in the order in which they were handed in.
pub type Sources = Arc<[Arc<dyn Source>]>;

/// The same as views know them.
pub fn tools_of(sources: &Sources) -> ToolSources {
    sources.iter().map(|source| Arc::clone(source) as Arc<dyn ToolSource>).collect()
}

/// A call that a source makes for its caller.
#[derive(Debug)]
pub struct SourceCall<'a> {
    /// For whom.
    pub caller: &'a Caller,
    /// The tool, by whatever name a dialect gives it.
    pub tool: &'a str,
    /// An object.
    pub arguments: Raw,
    /// What the audit log has as the id of the request.
    pub label: &'a str,
    /// How deep it is nested in invocations: 1 for the first.
    pub depth: u8,
    /// The way back to the client of the whole.
    pub reply: ReplyChannel,
    /// For a call that does not wait for a yes: which one of its run it is.
    pub place: Option<CallPlace<'a>>,
    /// What it is a part of.
    pub lineage: CallLineage,
}

/// What a call is a part of, beside the run that its caller's chain names.
#[derive(Debug, Clone, Default)]
pub struct CallLineage {
    /// The step of a workflow that makes it: the workflow's run and the step, which are the same after a restart.
    pub step: Option<Arc<str>>,
    /// The innermost run of an agent in whose course it is made, also by a workflow that the agent has called.
    pub agent_run: Option<Arc<str>>,
    /// For a search in the course of a run: the tools that it may show.
    pub searched: Option<ToolFilter>,
    /// Keeps which tools of servers have answered in its course, where that is asked for.
    pub answered: Option<AnsweredTools>,
}

/// The tools of servers that have answered in the course of a call, also those that it has had called: its own answer may
/// be made of theirs.
#[derive(Debug, Clone, Default)]
pub struct AnsweredTools(Arc<Mutex<BTreeSet<ToolId>>>);

/// How the client of a call is asked in its course, where that is not in its session.
#[derive(Debug, Clone, Default)]
pub enum ClientDialog {
    /// Not at all.
    #[default]
    None,
    /// By the result of the call, which it makes again with the answers.
    Rounds(ClientRound),
    /// In the task that the call became.
    Task(OwnTask),
}

/// One of the calls of a client that is asked by results.
#[derive(Debug, Clone)]
pub struct ClientRound {
    /// What it can be asked.
    pub capabilities: Arc<Capabilities>,
    /// What leads back to the call before, as its result gave it.
    pub state: Option<Raw>,
    /// The answers by the keys of the questions, an object.
    pub answers: Option<Raw>,
}

/// Which tools a run may use.
#[derive(Clone)]
pub struct ToolFilter(Arc<dyn Fn(&Tool) -> bool + Send + Sync>);

// === impl AnsweredTools ===

impl AnsweredTools {
    /// These tools have answered. There are never more of them than tools of servers.
    pub fn add(&self, tools: impl IntoIterator<Item = ToolId>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(tools);
    }

    /// All that have answered since they were last taken.
    pub fn take(&self) -> BTreeSet<ToolId> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl ToolFilter ===

impl ToolFilter {
    /// Those of which this is true.
    pub fn new(allows: impl Fn(&Tool) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    /// Whether a tool is one of them.
    pub fn allows(&self, tool: &Tool) -> bool {
        (self.0)(tool)
    }
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolFilter")
    }
}

/// Which call of a run one is that waits for a yes without a task: it is answered at once, and made after the yes.
#[derive(Debug, Clone, Copy)]
pub struct CallPlace<'a> {
    /// Its name in the run, such as `3.1`: two equal calls of a run are two, and each needs its own yes.
    pub name: &'a str,
    /// The approval that was granted for it.
    pub approval: Option<&'a str>,
    /// What a person answered to what it asked when it was made before.
    pub reply: Option<CallReply<'a>>,
}

/// What a call of a run is made again with.
#[derive(Debug, Clone, Copy)]
pub struct CallReply<'a> {
    /// What led back to the call, as [`CallQuestion::state`] gave it: JSON.
    pub state: Option<&'a str>,
    /// The answers by the keys of the questions, an object; `None` where the call needs none any more.
    pub answers: Option<&'a str>,
}

/// What a call of a run asks a person.
#[derive(Debug, Clone)]
pub struct CallQuestion {
    /// By the keys of the one who asks: `{key: {method, params}}`.
    pub asked: Raw,
    /// What leads back to the call.
    pub state: Option<Raw>,
    /// The call waits at its server in this process, and is lost with it.
    pub in_process: bool,
    /// The server wants its principal to log in, and has done nothing.
    pub is_login: bool,
}

/// What the rules say of a call that is not made yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallDecision {
    /// They let it through.
    Allowed,
    /// It needs a yes, and waits for this approval.
    Held(String),
    /// They refuse it, it names no tool, or its arguments do not fit.
    Refused(Problem),
}

/// What became of a call of a run.
#[derive(Debug, Clone)]
pub enum RunCallOutcome {
    /// It gave a result.
    Result {
        /// One of `tools/call` in the last legacy revision, also where it says that the tool failed.
        result: Raw,
        /// Why the gateway did not do what was asked, or did not get an answer; `None` where the tool said all of it.
        problem: Option<Problem>,
    },
    /// It was not made: it waits for this approval.
    Held(String),
    /// It was not made: the rules refuse it, or somebody did.
    Refused(Problem),
    /// It was begun, and what it has done is not known. It is not made again.
    Unknown(Problem),
    /// It was made, and asks a person. It is made again with the answer.
    Asks(Box<CallQuestion>),
}

/// What is known of a call of a run that was under way when the process before ended.
#[derive(Debug, Clone)]
pub enum InterruptedCall {
    /// It needed a yes, and this is what came of it: one of `tools/call`, as of a call.
    Ended(Result<Raw, Problem>),
    /// It needed a yes that no one gave in time: it was not made, and may be.
    NotMade,
    /// It may have left.
    Unknown,
}

/// How an approval ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalEnd {
    /// Which one.
    pub id: String,
    /// How.
    pub outcome: ApprovalOutcome,
    /// Who decided, where somebody did.
    pub by: Option<PrincipalId>,
    /// In words: who said what, and why.
    pub note: String,
}

/// How an approval ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// Somebody said yes. The call can be made, or was.
    Granted,
    /// Somebody said no.
    Refused,
    /// Its time is over, or what was asked for is another thing by now.
    Expired,
}

/// All that a source sees of the gateway: what a profile shows, and the path that every call takes.
pub trait CallTool: fmt::Debug + Send + Sync {
    /// What a caller's profile shows it now.
    ///
    /// # Errors
    /// There is no such profile.
    fn view(&self, caller: &Caller) -> Result<Arc<View>, Problem>;

    /// Calls a tool. The result is one of `tools/call` in the form of the caller's revision.
    ///
    /// # Errors
    /// The server answered with an error; no tool has this name.
    ///
    /// Not cancel-safe: dropping the future takes the call back.
    fn call(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, Result<Raw, Problem>>;

    /// Decides about a call that has a place, and makes nothing. Where it needs a yes, the approval is open then.
    fn decide(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, CallDecision>;

    /// How an approval ended, if it did; as [`crate::CallPath::approval_end`].
    ///
    /// # Errors
    /// The store says no.
    fn approval_end<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ApprovalEnd>, Problem>>;

    /// Makes a call that has a place.
    ///
    /// Not cancel-safe: dropping the future takes the call back, unless it is one that needed a yes: that runs on, and
    /// asking again by the same approval gives its result.
    fn make(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, RunCallOutcome>;

    /// What is known of a call without a place that a process before this one was about to make, not before `since`. One
    /// that waits for a yes goes on waiting here; none is made but by such a yes.
    fn interrupted(self: Arc<Self>, call: SourceCall<'_>, since: Timestamp) -> BoxFuture<'_, InterruptedCall>;
}
