//! What is to be done next in a run.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolcrib_base::Timestamp;

use crate::conversation::Conversation;
use crate::entry::{CallId, End, Event, Reply, Request, WaitFor};
use crate::spending::Allowance;
use crate::tool::ToolSpec;

/// One thing to do. Each adds at least one entry to the journal, `Wait` and `End` aside.
#[derive(Debug, Clone)]
pub enum Action {
    /// Write this entry.
    Record(Event),
    /// Write [`Ask::request`] as `asked`, send it, write `answered` or `ask_failed`.
    Ask(Box<Ask>),
    /// Decide each of these, before any call of the turn leaves; write `decided` for each.
    Decide(Vec<OpenCall>),
    /// For each of these write `intent`, and make sure that it is on disk where [`Call::durable`] says so; then make
    /// the calls at the same time, and write what came of each when it came.
    Call(Vec<Call>),
    /// Check this output against the schema, write `checked`.
    CheckOutput(String),
    /// Nothing, until one of these arrives. No task and no memory is needed meanwhile.
    Wait(Vec<WaitFor>),
    /// Nothing any more.
    End(End),
}

/// A request to the model.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What is written before it leaves.
    pub request: Request,
    /// When it may leave, if not at once.
    pub not_before: Option<Timestamp>,
    /// The conversation.
    pub conversation: Conversation,
    /// The tools; none for a summary.
    pub tools: Arc<[ToolSpec]>,
    /// The schema that the output must fit.
    pub output: Option<Arc<RawValue>>,
    /// Milliseconds that are left of the run's time.
    pub within_ms: Option<u64>,
}

/// A call that is not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub tool: String,
    /// Its arguments: a JSON object.
    pub arguments: Arc<str>,
}

/// A call to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub tool: String,
    /// Its arguments: a JSON object.
    pub arguments: Arc<str>,
    /// The approval that was granted for it.
    pub approval: Option<String>,
    /// It left already and waited for this, which is there now.
    pub after: Option<WaitFor>,
    /// What a person answered to what it asked.
    pub reply: Option<Reply>,
    /// How often it leaves, this time included.
    pub attempt: u32,
    /// The intent must be on disk before it leaves.
    pub durable: bool,
    /// Milliseconds that it may take.
    pub within_ms: u64,
    /// What it may spend if it is a sub-agent.
    pub allowance: Allowance,
}
