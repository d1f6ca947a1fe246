//! What a model is asked, without a wire: instructions, tools, what was said so far. It only grows at its end.

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Call};
use crate::json::Json;
use crate::wire::Wire;

/// Everything that one request says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conversation {
    /// What the model is and does, before everything else.
    pub instructions: String,
    /// The tools it may call, in the order in which they are sent. Whoever fills it sorts them and keeps them fixed.
    pub tools: Vec<Tool>,
    /// What was said, in order.
    pub items: Vec<Item>,
    /// How it is to answer.
    pub options: Options,
}

impl Conversation {
    /// Appends what a person or program says.
    pub fn say(&mut self, text: impl Into<String>) {
        self.items.push(Item::User(vec![Part::Text(text.into())]));
    }

    /// Appends an answer of the model at `origin`.
    pub fn answered(&mut self, origin: impl Into<String>, answer: &Answer) {
        self.items.push(Item::Model(Turn::new(origin, answer)));
    }

    /// Appends the results of the calls of the last turn: exactly one for each call.
    pub fn results(&mut self, results: Vec<ToolResult>) {
        self.items.push(Item::Results(results));
    }
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments, sent as it is.
    pub input_schema: Json,
    /// Shown only once a search for tools has found it. Only on the Messages wire; the others show it at once.
    #[serde(default)]
    pub deferred: bool,
}

/// One step of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// What the user says.
    User(Vec<Part>),
    /// What a model answered.
    Model(Turn),
    /// What came of the calls of the turn before.
    Results(Vec<ToolResult>),
}

/// A piece of what is said to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its type, such as `image/png`.
        media_type: String,
        /// Its bytes in base64.
        data: String,
    },
    /// Names a deferred tool that a search for tools has found. Only in results on the Messages wire; elsewhere its name
    /// is sent as text.
    ToolReference(String),
}

/// What came of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: String,
    /// The result.
    pub content: Vec<Part>,
    /// Whether the call failed. Where the wire has no such mark the text says so.
    pub is_error: bool,
}

impl ToolResult {
    /// A result that is a text.
    pub fn text(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call: call.into(), content: vec![Part::Text(text.into())], is_error: false }
    }

    /// A failure in words.
    pub fn error(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(call, text) }
    }
}

/// What a model answered, as it is given back to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The wire that it came on.
    pub wire: Wire,
    /// Who answered: [`Target::origin`](crate::Target::origin). Only the same origin gets `items` back.
    pub origin: String,
    /// What was sent, byte for byte: the message (chat completions), the output items (Responses), the content blocks
    /// (Messages), with reasoning, signatures and unknown fields.
    pub items: Vec<Json>,
    /// The text, for another model.
    pub text: String,
    /// The calls, for another model. Each needs its result in the item that follows.
    pub calls: Vec<Call>,
    /// Whether `items` has calls that must not run, since the answer was cut or stopped: then only the text is given
    /// back.
    pub has_dropped_calls: bool,
}

impl Turn {
    /// The turn that an answer is.
    pub fn new(origin: impl Into<String>, answer: &Answer) -> Self {
        Self {
            wire: answer.wire,
            origin: origin.into(),
            items: answer.items.clone(),
            text: answer.text.clone(),
            calls: answer.calls.clone(),
            has_dropped_calls: answer.dropped_calls > 0,
        }
    }
}

/// How a model is to answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The most tokens of an answer, reasoning included. Messages requires one: 8,192 where none is given.
    pub max_output_tokens: Option<u64>,
    /// Whether it may or must call tools.
    pub tool_choice: ToolChoice,
    /// Only one call in a turn.
    pub single_call: bool,
    /// The schema that its text must follow.
    pub output: Option<OutputSchema>,
    /// Whether the answer comes as a stream.
    pub stream: bool,
    /// Which cache marks are set, on the wire that has them.
    pub cache: CacheMarks,
    /// More members of the request, as the provider names them. One that is set otherwise is left out.
    pub extra: Vec<(String, Json)>,
}

/// Whether a model may or must call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not. The tools stay in the request, so that what is cached stays valid.
    None,
    /// It must call one.
    Any,
    /// It must call this one.
    Tool(String),
}

/// The schema of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// Its name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// The JSON schema.
    pub schema: Json,
}

/// Marks up to which the Messages wire caches a request. The other wires cache without marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMarks {
    /// None.
    Off,
    /// Kept for five minutes.
    #[default]
    FiveMinutes,
    /// Kept for an hour.
    OneHour,
}
