//! Entries of a journal: everything that happened in a run, each with its time, in the order in which it was written.
//!
//! To add an entry, add a variant here, what it changes to `run/apply.rs`, and what explains it to `replay.rs`. An
//! entry that an older program would misread needs a new [`VERSION`](crate::journal::VERSION).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolcrib_base::Timestamp;
use toolcrib_base::nearest::prefix;

use crate::answer::{Answer, Failure, ModelSpec};
use crate::spending::{Cost, LimitName, RunLimits};
use crate::tool::{Hints, ToolSpec};

/// One entry of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// A call's place in its run: the round and the place in the answer, both from 1. Prints as `3.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The round.
    pub round: u32,
    /// The place in the answer.
    pub place: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.place)
    }
}

impl CallId {
    /// Reads what [`CallId`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (round, place) = text.split_once('.')?;
        Some(Self { round: round.parse().ok()?, place: place.parse().ok()? })
    }
}

impl Serialize for CallId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a call such as `3.1`"))
    }
}

/// What happens to a run when a policy denies a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    /// The model is told why.
    #[default]
    Tell,
    /// The run ends.
    End,
}

/// What happens to a run when it is not known whether a call happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The model is told, and the same call is refused until a person settles it.
    #[default]
    Tell,
    /// The run waits for a person.
    Ask,
    /// The run ends.
    End,
}

/// What a run is: fixed when it starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// The run's id.
    pub run: String,
    /// The agent's name.
    pub agent: String,
    /// The agent's instructions.
    #[serde(default)]
    pub instructions: String,
    /// The task in words.
    pub task: String,
    /// The models, the first one first.
    pub models: Vec<ModelSpec>,
    /// The tools, sorted by name.
    pub tools: Vec<ToolSpec>,
    /// The schema that the output must fit.
    #[serde(default)]
    pub output: Option<Arc<RawValue>>,
    /// How far the run may go.
    #[serde(default)]
    pub limits: RunLimits,
    /// What a denial does.
    #[serde(default)]
    pub on_denied: OnDenied,
    /// What an unknown end of a call does.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// The tool by which the model reads more of a long result, if there is one.
    #[serde(default)]
    pub reader: Option<String>,
    /// The profile whose tools these are. The loop does not read it.
    #[serde(default)]
    pub profile: String,
    /// The principal in whose name its calls are made, where that is not the one that began it. The loop does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<String>,
    /// Patterns of the tools that may be called through a menu; `None` is all of the profile. The loop does not read it.
    #[serde(default)]
    pub allowed: Option<Vec<String>>,
    /// The call of another run that this one was begun for. The loop does not read it.
    #[serde(default)]
    pub parent: Option<ParentCall>,
    /// What those have seen that began the run, as labels. The loop does not read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Why the task waits for a person before anything is done with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What was spent to judge the task before the run began.
    #[serde(default, skip_serializing_if = "Cost::is_nothing")]
    pub judged: Cost,
}

/// The call of another run that a run was begun for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentCall {
    /// The other run.
    pub run: String,
    /// Its call.
    pub call: CallId,
    /// How many runs stand above this one.
    pub depth: u8,
}

/// What a request to the model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The next answer of the run.
    Turn,
    /// A summary of the conversation, asked without tools.
    Summary,
}

/// A request to the model that is about to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its number in the run, from 1.
    pub number: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// The model's place among those of the run.
    pub model: usize,
    /// Tokens that the answer may have.
    pub max_output: u64,
    /// What it may cost at most.
    pub reserved: Cost,
    /// The digest of the conversation that is sent.
    pub digest: String,
}

/// Why a call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// No such tool.
    UnknownTool,
    /// The arguments do not fit.
    Invalid,
    /// A policy or a rule denies it.
    Denied,
    /// A person refused it, or no one answered in time.
    Disapproved,
    /// Its answer has too many calls.
    TooMany,
    /// It is not known whether the same call happened earlier.
    Unsettled,
    /// The run ended before it.
    RunEnded,
}

/// Why a call is not made, with what the model may do instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// In a word.
    pub kind: RefusalKind,
    /// In a sentence.
    pub why: String,
    /// Names that may have been meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

/// The tool that a call of a menu names in its arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerTool {
    /// Its effects.
    #[serde(default)]
    pub hints: Hints,
    /// It is an agent: its calls spend what the run may spend.
    #[serde(default)]
    pub agent: bool,
}

/// What was decided of a call before any of its turn is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may be made.
    Allowed,
    /// It may be made, and it calls the tool that its arguments name: its effects are those of that tool.
    AllowedAs(InnerTool),
    /// It waits for this approval, which is for this call once.
    Held(String),
    /// It is not made. This is its result too.
    Refused(Refusal),
}

/// What a call gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The text for the model.
    pub text: String,
    /// The tool says that it failed.
    #[serde(default)]
    pub is_error: bool,
    /// What a sub-agent spent.
    #[serde(default)]
    pub spent: Cost,
    /// Whose results sub-agents have read to make it, as `server/tool`. The loop does not read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
}

impl CallResult {
    /// The bytes that are kept of a text: it is held in memory and in the journal, and read by parts. What a tool
    /// returns beyond is not worth a full disk. However it is escaped, it fits one frame of a runner.
    pub const KEPT_BYTES: usize = 512 * 1024;
    /// Room for the words that say so.
    const NOTE_BYTES: usize = 128;

    /// The result with at most [`CallResult::KEPT_BYTES`] of text. It is cut in place: no second copy of it is made.
    #[must_use]
    pub fn kept(mut self) -> Self {
        let total = self.text.len();
        if total > Self::KEPT_BYTES {
            let kept = prefix(&self.text, Self::KEPT_BYTES - Self::NOTE_BYTES).len();
            self.text.truncate(kept);
            self.text.shrink_to_fit();
            self.text += &format!("\n[cut: these are the first {kept} of {total} bytes, and the rest is not kept]");
        }
        self
    }
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// An approval of a call.
    Approval(String),
    /// A person's word on a call whose end is not known.
    Settlement(CallId),
    /// A person's answer to a question or a confirmation.
    Person(String),
    /// A person's word on what stands in quarantine under this number.
    Review(u32),
    /// A login at a server.
    Login(String),
    /// Another run.
    Run(String),
    /// A moment.
    Time(Timestamp),
    /// A person who lets a paused run go on.
    Resume,
}

/// What a call that left asks a person, of which it waits for the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Question {
    /// What is asked, by the keys of the one who asks: `{key: {method, params}}`, as `inputRequests` of MCP.
    pub asked: Arc<RawValue>,
    /// What leads back to the call, to be given back as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<RawValue>>,
    /// The call waits in the process that made it, and is lost with that process.
    #[serde(default)]
    pub in_process: bool,
}

/// What a person answered to [`Question`], or that it need not be answered any more.
#[derive(Debug, Clone)]
pub struct Reply {
    /// What led back to the call.
    pub state: Option<Arc<RawValue>>,
    /// The answers by the keys of the questions; `None` where there is none.
    pub answers: Option<Arc<RawValue>>,
}

impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        let text = |raw: &Option<Arc<RawValue>>| raw.as_ref().map(|raw| raw.get().to_owned());
        (text(&self.state), text(&self.answers)) == (text(&other.state), text(&other.answers))
    }
}

impl Eq for Reply {}

/// What a person says of a call whose end is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// It happened and gave this.
    Happened(CallResult),
    /// It did not happen.
    DidNot,
    /// It may be made once more.
    Repeat,
}

/// How a conversation near the window became shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    /// Handles replaced old results.
    Handles,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this output.
    Done(String),
    /// The same call gave the same result again and again.
    Stuck(String),
    /// At a limit. It can go on with more.
    Limit(LimitName),
    /// A policy denied a call, and the agent ends then.
    Denied(String),
    /// It is not known whether a call happened, and the agent ends then.
    Unknown(CallId),
    /// The model refused.
    Refused(String),
    /// The provider's filter held the answer back.
    Filtered,
    /// The answer was cut at its longest length.
    Length,
    /// The output did not fit its schema.
    Output(String),
    /// The models failed.
    Failed(Failure),
    /// The conversation does not fit the window.
    Window,
    /// Someone cancelled it.
    Cancelled(String),
}

impl End {
    /// Its name in records and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Stuck(_) => "stuck",
            Self::Limit(LimitName::Rounds) => "limit of rounds",
            Self::Limit(LimitName::Calls) => "limit of calls",
            Self::Limit(LimitName::Tokens) => "limit of tokens",
            Self::Limit(LimitName::Money) => "limit of money",
            Self::Limit(LimitName::Time) => "limit of time",
            Self::Limit(LimitName::Day) => "limit of the day",
            Self::Denied(_) => "denied",
            Self::Unknown(_) => "unknown",
            Self::Refused(_) => "refused by the model",
            Self::Filtered => "filtered",
            Self::Length => "cut at its length",
            Self::Output(_) => "output does not fit",
            Self::Failed(_) => "failed",
            Self::Window => "window is full",
            Self::Cancelled(_) => "cancelled",
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run started.
    Started(Box<Start>),
    /// What stands above was taken from another run; what that run spent is its own.
    Forked {
        /// The other run.
        from: String,
        /// This run.
        run: String,
        /// The last round that was taken.
        round: u32,
    },
    /// Another process took the run over: what was under way in the old one is lost.
    Resumed,
    /// A request to the model is about to leave.
    Asked(Request),
    /// The model answered.
    Answered {
        /// The request's number.
        number: u32,
        /// Its answer.
        answer: Box<Answer>,
    },
    /// The request failed.
    AskFailed {
        /// The request's number.
        number: u32,
        /// How.
        failure: Failure,
    },
    /// Another model goes on.
    ModelChanged {
        /// Its place among those of the run.
        model: usize,
    },
    /// A call was decided.
    Decided {
        /// The call.
        call: CallId,
        /// What was decided.
        decision: Decision,
    },
    /// A call is about to leave.
    Intent {
        /// The call.
        call: CallId,
        /// How often it left, this time included.
        attempt: u32,
    },
    /// A call gave a result.
    Result {
        /// The call.
        call: CallId,
        /// What it gave.
        result: CallResult,
    },
    /// It is not known whether a call happened.
    Unknown {
        /// The call.
        call: CallId,
        /// The attempt, as its intent counts it.
        attempt: u32,
        /// Why.
        why: String,
    },
    /// A call that left waits for something outside.
    CallWaits {
        /// The call.
        call: CallId,
        /// For what.
        on: WaitFor,
        /// What it asks a person, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Box<Question>>,
    },
    /// A person answered what a call asks.
    Replied {
        /// The call.
        call: CallId,
        /// The answers by the keys of the questions, as `inputResponses` of MCP.
        answers: Arc<RawValue>,
        /// By whom.
        by: String,
    },
    /// An approval was answered.
    Approval {
        /// Its id.
        approval: String,
        /// Whether it was granted.
        granted: bool,
        /// By whom, and what they say.
        note: String,
    },
    /// A person settled a call whose end was not known.
    Settled {
        /// The call.
        call: CallId,
        /// How.
        settlement: Settlement,
        /// By whom.
        by: String,
    },
    /// Something that the run waits for arrived, approvals and settlements aside.
    Arrived(WaitFor),
    /// The run waits; its clock stands still.
    Waiting(Vec<WaitFor>),
    /// The run goes on after waiting.
    Continued,
    /// A person pauses the run: what is under way ends, nothing else leaves until [`WaitFor::Resume`] arrives.
    Paused {
        /// Who.
        by: String,
    },
    /// Whether the output fits its schema.
    Checked {
        /// Why it does not.
        problem: Option<String>,
    },
    /// The conversation became shorter.
    Shortened(Compaction),
    /// The run may go further.
    Raised(RunLimits),
    /// Another message for the run. One that is done, or at a limit that counts for each message, goes on with it; to
    /// one that is under way it is told when its turn is complete.
    Said {
        /// The message.
        text: String,
    },
    /// Another message for the run, which waits for a person before the model is told of it. A run that is done is open
    /// again meanwhile.
    Quarantined {
        /// The message.
        text: String,
        /// Why.
        why: String,
    },
    /// A message is judged before it is taken in: what that may cost, and afterwards what it did.
    Judged {
        /// What it may cost at most. It counts as spent until the judgement is there.
        reserved: Cost,
        /// What it cost; `None` before the request leaves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Cost>,
    },
    /// A person has looked at what stands in quarantine: the task or a message.
    Reviewed {
        /// Its number: the task and messages that were held, in their order, from 1.
        item: u32,
        /// The run goes on with it; else a message is left out, and without its task the run ends.
        released: bool,
        /// By whom.
        by: String,
    },
    /// Someone cancels the run.
    Cancelled {
        /// Who.
        by: String,
    },
    /// The run ended.
    Ended(End),
}
