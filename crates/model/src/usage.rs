//! Tokens and money. What an answer used, in one form for all providers; what that costs, exactly.
//!
//! How each provider counts is in `usage/forms.rs`.

mod forms;
mod money;

use serde::{Deserialize, Serialize};

pub(crate) use forms::{chat, messages, responses};
pub use money::{Money, PriceError, Prices};

/// The tokens of one answer or of several. Nothing is counted twice: `input` and `output` are everything, the others
/// are parts of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Everything that the model read.
    pub input: u64,
    /// The part of `input` that came from the provider's cache.
    pub cached: u64,
    /// The part of `input` that was written to the provider's cache.
    pub cache_writes: u64,
    /// The part of `cache_writes` that is kept for an hour.
    pub cache_writes_hour: u64,
    /// Everything that the model wrote, reasoning included.
    pub output: u64,
    /// The part of `output` that is reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            cache_writes: self.cache_writes.saturating_add(other.cache_writes),
            cache_writes_hour: self.cache_writes_hour.saturating_add(other.cache_writes_hour),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }

    /// Input and output together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// The same with parts that are no larger than their whole, whatever a provider says.
    #[must_use]
    fn bounded(mut self) -> Self {
        self.cached = self.cached.min(self.input);
        self.cache_writes = self.cache_writes.min(self.input - self.cached);
        self.cache_writes_hour = self.cache_writes_hour.min(self.cache_writes);
        self.reasoning = self.reasoning.min(self.output);
        self
    }
}
