//! How much of what happened is kept, and for how long.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many, the newest.
    pub most: usize,
    /// For how long.
    pub age: Duration,
}

impl Retention {
    /// Of events, unless configured otherwise.
    pub const EVENTS: Self = Self { most: 10_000, age: DAY.saturating_mul(14) };
    /// Of runs, unless configured otherwise.
    pub const RUNS: Self = Self { most: 10_000, age: DAY.saturating_mul(21) };

    /// Its number as the database counts.
    pub(crate) fn limit(self) -> i64 {
        i64::try_from(self.most).unwrap_or(i64::MAX)
    }

    /// Its age in milliseconds.
    pub(crate) fn millis(self) -> i64 {
        i64::try_from(self.age.as_millis()).unwrap_or(i64::MAX)
    }
}
