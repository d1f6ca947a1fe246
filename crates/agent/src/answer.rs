//! What a model answers, and how it fails, as a run needs them: what it sent stays raw beside what was read of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::spending::Cost;

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It is complete; also of an answer with calls.
    Stop,
    /// The provider paused a long turn: the same conversation with this answer goes on.
    Paused,
    /// It was cut at its longest length.
    Length,
    /// The model refuses.
    Refusal,
    /// The provider's filter held it back.
    Filter,
}

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The model's own id: it may be foreign, repeated or empty.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them, which may be no JSON.
    pub arguments: String,
}

/// A whole answer. A cut stream is no answer but a failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// What the model sent, as it came.
    pub raw: Arc<RawValue>,
    /// Its text.
    pub text: String,
    /// Its calls, in its order.
    pub calls: Vec<ModelCall>,
    /// Why it ends.
    pub finish: Finish,
    /// Tokens of the request and of the answer together, which the next request begins with.
    pub context: u64,
    /// What it cost.
    pub spent: Cost,
}

/// How a request to a model failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// 429.
    Busy,
    /// 5xx, or an overloaded provider.
    Server,
    /// No connection, or it broke before the first byte.
    Network,
    /// The stream ended before the answer did.
    Cut,
    /// No answer in time.
    Timeout,
    /// The process that asked is gone, and the answer with it.
    Lost,
    /// The answer could not be read.
    Unreadable,
    /// The account is used up, or the provider does not know the model: waiting does not help, another model may.
    Unusable,
    /// The request is longer than the model's window.
    Window,
    /// The provider's filter refused the request.
    Filter,
    /// 401 or 403: the key is wrong.
    Unauthorized,
    /// 400 and its like: the request is wrong.
    Invalid,
    /// What the model answered halted the caller of the run. The message says by which halt.
    Halted,
}

impl FailureKind {
    /// Whether an answer was begun, and may have cost something.
    pub fn loses_an_answer(self) -> bool {
        matches!(self, Self::Cut | Self::Timeout | Self::Lost | Self::Unreadable | Self::Halted)
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        use FailureKind::{Busy, Cut, Lost, Network, Server, Timeout, Unreadable};
        matches!(self, Busy | Server | Network | Cut | Timeout | Lost | Unreadable)
    }
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// What the provider or the system says.
    pub message: String,
    /// How long the provider wants to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What it cost nevertheless. `None` when that is not known: then all that was reserved counts as spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Cost>,
}

/// What a token costs at most, in picodollars: a dollar for a million tokens is 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Of what is read.
    pub input: u64,
    /// Of what is written.
    pub output: u64,
}

impl Price {
    /// What so many tokens cost.
    pub fn of(self, input: u64, output: u64) -> u64 {
        input.saturating_mul(self.input).saturating_add(output.saturating_mul(self.output))
    }
}

/// A model that a run may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Its name in the table of models.
    pub name: String,
    /// Tokens that a request and its answer may have together.
    #[serde(default)]
    pub window: Option<u64>,
    /// Tokens that an answer may have.
    pub max_output: u64,
    /// Its price, if it is known.
    #[serde(default)]
    pub price: Option<Price>,
}
