//! Limits of a run, and what it has spent of them: reserved before a call, settled by what was reported.

use serde::{Deserialize, Serialize};

/// How far a run may go. Rounds, time, attempts and repairs count from the newest message on; calls, tokens and money for
/// the whole run, whatever was said in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Answers of the model to one message, summaries aside.
    pub rounds: u32,
    /// Calls in one answer; what is more is refused.
    pub calls_per_turn: u32,
    /// Calls that are made in all.
    pub calls: u32,
    /// Tokens read and written, those of sub-agents included.
    pub tokens: Option<u64>,
    /// Picodollars (10⁻¹² dollars), those of sub-agents included.
    pub money: Option<u64>,
    /// Milliseconds in which the run is active for one message. Waiting for people is not counted.
    pub time_ms: Option<u64>,
    /// Milliseconds of one call.
    pub call_ms: u64,
    /// Bytes of a result that the model is shown; a longer one is shown by its beginning and a handle.
    pub result_bytes: u64,
    /// Attempts to get one answer from one model.
    pub attempts: u32,
    /// Times that an output that does not fit its schema is asked for again.
    pub repairs: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            rounds: 10,
            calls_per_turn: 32,
            calls: 100,
            tokens: None,
            money: None,
            time_ms: Some(600_000),
            call_ms: 60_000,
            result_bytes: 16_384,
            attempts: 5,
            repairs: 2,
        }
    }
}

/// The limit that a run reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// [`RunLimits::rounds`].
    Rounds,
    /// [`RunLimits::calls`].
    Calls,
    /// [`RunLimits::tokens`].
    Tokens,
    /// [`RunLimits::money`].
    Money,
    /// [`RunLimits::time_ms`].
    Time,
    /// What the agent may start and spend on one day. The loop does not know it: who keeps the journal does.
    Day,
}

impl LimitName {
    /// Whether it counts for the whole run: then another message does not go on at it.
    pub fn is_of_run(self) -> bool {
        matches!(self, Self::Calls | Self::Tokens | Self::Money)
    }

    /// What it limits, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Calls => "calls",
            Self::Tokens => "tokens",
            Self::Money => "money",
            Self::Time => "time",
            Self::Day => "the day",
        }
    }
}

/// What was, or may be, spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Tokens read and written.
    pub tokens: u64,
    /// Picodollars.
    pub money: u64,
}

impl Cost {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), money: self.money.saturating_add(other.money) }
    }

    /// What is left of this without `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), money: self.money.saturating_sub(other.money) }
    }

    /// What was reserved for a judgement is replaced by what it cost; before that is known it is added.
    #[must_use]
    pub fn judged(self, reserved: Self, spent: Option<Self>) -> Self {
        spent.map_or_else(|| self.plus(reserved), |spent| self.minus(reserved).plus(spent))
    }

    /// Whether it is nothing at all.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What a call may spend of its run: of a sub-agent, its own limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Tokens, if they are limited.
    pub tokens: Option<u64>,
    /// Picodollars, if they are limited.
    pub money: Option<u64>,
}

impl Allowance {
    /// What is left of `limits` for each of `parts` that may spend at once.
    pub(crate) fn left(limits: &RunLimits, spent: Cost, parts: u64) -> Self {
        let share = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent) / parts.max(1));
        Self { tokens: share(limits.tokens, spent.tokens), money: share(limits.money, spent.money) }
    }
}
