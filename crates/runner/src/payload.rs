//! What frames say, by type.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolcrib_agent::driver::CallOutcome;
use toolcrib_agent::{Answer, CallId, CallResult, Decision, Entry, Event, Failure, Question, Refusal, WaitFor};
use toolcrib_base::Timestamp;

/// The version of the protocol.
pub const VERSION: u32 = 3;

/// `challenge`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Challenge {
    pub(crate) version: u32,
    pub(crate) nonce: String,
}

/// `hello`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) nonce: String,
    /// Over both nonces, the version and the name; none where certificates prove.
    #[serde(default)]
    pub(crate) proof: Option<String>,
}

/// `welcome`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    #[serde(default)]
    pub(crate) proof: Option<String>,
}

/// `config_update`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ConfigUpdate {
    pub(crate) version: u64,
    /// The gateway's time.
    pub(crate) now: Timestamp,
    pub(crate) config: RunnerConfig,
}

/// What a runner is to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunnerConfig {
    /// Runs at once.
    pub(crate) runs: usize,
    pub(crate) heartbeat_ms: u64,
    pub(crate) silence_ms: u64,
}

/// `config_ack`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConfigAck {
    pub(crate) version: u64,
    pub(crate) applied: bool,
}

/// `message`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) lease: u64,
    pub(crate) run: String,
}

/// `release`, `check_output`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OfLease {
    pub(crate) lease: u64,
}

/// `news`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct News {
    pub(crate) lease: u64,
    pub(crate) event: Event,
}

/// `rest`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RestReport {
    pub(crate) lease: u64,
    /// Why the run cannot go on there, where that is so.
    #[serde(default)]
    pub(crate) problem: Option<String>,
}

/// `journal_read`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JournalRead {
    pub(crate) lease: u64,
    /// How many entries the runner has.
    pub(crate) from: usize,
}

/// What `journal_read` gives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JournalPart {
    pub(crate) entries: Vec<Box<RawValue>>,
    pub(crate) more: bool,
}

/// `journal_append`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JournalAppend {
    pub(crate) lease: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) sync: bool,
}

/// `model_call`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ModelCall {
    pub(crate) lease: u64,
    /// As the journal announces it.
    pub(crate) number: u32,
}

/// `decide`, `tool_call`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OfCall {
    pub(crate) lease: u64,
    pub(crate) call: CallId,
    #[serde(default)]
    pub(crate) attempt: u32,
}

/// `cancel`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cancel {
    pub(crate) lease: u64,
    /// The request's id.
    pub(crate) request: String,
}

/// `heartbeat`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Heartbeat {
    pub(crate) status: Status,
    pub(crate) uptime_secs: u64,
}

/// How a runner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// It takes runs.
    Ready,
    /// It has runs, and takes more.
    Running,
    /// It ends what it has, and takes none.
    Stopping,
}

/// `pong`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pong {
    /// The gateway's time.
    #[serde(default)]
    pub(crate) now: Option<Timestamp>,
}

/// `error`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ErrorReport {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// What `model_call` gives.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskResult {
    Answer(Box<Answer>),
    Failure(Failure),
}

/// What `decide` gives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DecideResult {
    pub(crate) decision: Decision,
}

/// What `check_output` gives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CheckResult {
    pub(crate) problem: Option<String>,
}

/// What `tool_call` gives: [`CallOutcome`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallReport {
    Result(CallResult),
    Unknown(String),
    Waits(WaitFor),
    Asks { on: WaitFor, question: Box<Question> },
    Held(String),
    Refused(Refusal),
}

impl From<CallOutcome> for CallReport {
    fn from(outcome: CallOutcome) -> Self {
        match outcome {
            CallOutcome::Result(result) => Self::Result(result),
            CallOutcome::Unknown(why) => Self::Unknown(why),
            CallOutcome::Waits(on) => Self::Waits(on),
            CallOutcome::Asks(on, question) => Self::Asks { on, question },
            CallOutcome::Held(approval) => Self::Held(approval),
            CallOutcome::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl From<CallReport> for CallOutcome {
    fn from(report: CallReport) -> Self {
        match report {
            CallReport::Result(result) => Self::Result(result),
            CallReport::Unknown(why) => Self::Unknown(why),
            CallReport::Waits(on) => Self::Waits(on),
            CallReport::Asks { on, question } => Self::Asks(on, question),
            CallReport::Held(approval) => Self::Held(approval),
            CallReport::Refused(refusal) => Self::Refused(refusal),
        }
    }
}
