//! What a model answered, without a wire; what is wrong with an answer; its bounds.

use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::json::Json;
use crate::usage::Usage;
use crate::wire::Wire;

/// One whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The wire that it came on.
    pub wire: Wire,
    /// The text for people.
    pub text: String,
    /// The reasoning that the model shows, for people; what it needs of it is in `items`.
    pub reasoning: String,
    /// Why it refuses, where it says so apart from the text.
    pub refusal: Option<String>,
    /// The calls to run, in the model's order, each with an id of its own. Empty unless `finish` is [`Finish::Calls`].
    pub calls: Vec<Call>,
    /// How many calls must not run, because the answer ended for another reason and they may be incomplete.
    pub dropped_calls: usize,
    /// Why it ended.
    pub finish: Finish,
    /// What it used, if the provider says so.
    pub usage: Option<Usage>,
    /// The model that answered, as it names itself.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// What was sent, byte for byte, to be given back: see [`Turn::items`](crate::Turn::items).
    pub items: Vec<Json>,
}

/// One call that a model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its id, which its result names. Unique within the answer.
    pub id: String,
    /// The tool's name, as the model wrote it: it may be unknown.
    pub name: String,
    /// The arguments as the model wrote them: they may be no JSON, and none at all is `{}`.
    pub arguments: String,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It is complete.
    End,
    /// It waits for results of calls.
    Calls,
    /// It reached the most tokens of an answer, or the end of the window.
    Length,
    /// The model refuses.
    Refusal,
    /// The provider's filter stopped it.
    ContentFilter,
    /// The provider paused a long turn: the same conversation with this answer goes on.
    Paused,
    /// A reason of this name.
    Other(String),
}

impl Finish {
    /// Its name in records.
    pub fn name(&self) -> &str {
        match self {
            Self::End => "end",
            Self::Calls => "calls",
            Self::Length => "length",
            Self::Refusal => "refusal",
            Self::ContentFilter => "content_filter",
            Self::Paused => "paused",
            Self::Other(name) => name,
        }
    }
}

/// A piece of an answer as it arrives. For people only: nothing may run before the whole [`Answer`] is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// More of a refusal.
    Refusal(String),
    /// A call of this tool begins.
    Call(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The stream ended before the answer did.
    #[error("the answer was cut off after {bytes} bytes")]
    Cut {
        /// How much had arrived.
        bytes: usize,
    },
    /// What arrived is no answer of this wire.
    #[error("the model's answer is not in the format of `{wire}`: {what}")]
    Malformed {
        /// The wire's name.
        wire: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// It has more bytes than allowed.
    #[error("the model's answer has more than {limit} bytes")]
    TooLarge {
        /// The limit in force.
        limit: usize,
    },
    /// It has more calls than allowed.
    #[error("the model asked for more than {limit} calls in one turn")]
    TooManyCalls {
        /// The limit in force.
        limit: usize,
    },
    /// The model failed while it answered.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// How much one answer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The bytes of the body or the stream.
    pub bytes: usize,
    /// The calls.
    pub calls: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 16 << 20, calls: 256 }
    }
}
