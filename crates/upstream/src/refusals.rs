//! How many calls of one server its limits have refused or cut, by limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// A limit that a call can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No place became free before the call's deadline.
    Concurrent,
    /// As many calls wait as may.
    Queue,
    /// The caller has made as many calls as a minute allows.
    PerMinute,
    /// Its arguments are larger than may be.
    ArgumentBytes,
    /// Its result was larger than may be.
    ResultBytes,
}

/// How often each was met since the server's definition was loaded first.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Limit::ALL.len()]);

// === impl Limit ===

impl Limit {
    /// Every limit, in the order of definitions.
    pub const ALL: [Self; 5] = [Self::Concurrent, Self::Queue, Self::PerMinute, Self::ArgumentBytes, Self::ResultBytes];

    /// Its key in definitions, which metrics have too.
    pub fn key(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::Queue => "queue",
            Self::PerMinute => "per_minute",
            Self::ArgumentBytes => "argument_bytes",
            Self::ResultBytes => "result_bytes",
        }
    }
}

// === impl Refusals ===

impl Refusals {
    /// Counts one.
    pub fn count(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Those that were met, each with how often.
    pub fn counts(&self) -> impl Iterator<Item = (Limit, u64)> {
        let count = |limit: Limit| (limit, self.0[limit as usize].load(Ordering::Relaxed));
        Limit::ALL.into_iter().map(count).filter(|(_, count)| *count > 0)
    }
}
