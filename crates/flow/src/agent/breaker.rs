//! One breaker for each model's server: after failures in a row it is left alone for a while, by every run.

use std::sync::{Mutex, PoisonError};

use toolcrib_base::Timestamp;

/// So many failures in a row open it.
const FAILURES: u32 = 5;
/// How long it is left alone at first; twice as long after each further failure, up to [`LONGEST_MS`].
const FIRST_MS: u64 = 2_000;
const LONGEST_MS: u64 = 60_000;

/// Whether a server is asked.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<BreakerState>);

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    open_until: Option<Timestamp>,
}

impl Breaker {
    /// Milliseconds for which the server is left alone; `None` where it may be asked. Of those who wait, one may try when
    /// the time is over; the others wait for what comes of it.
    pub(super) fn blocked(&self, now: Timestamp) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = state.open_until?;
        let left = until.since(now);
        if left > 0 {
            return Some(left);
        }
        state.open_until = Some(Timestamp(now.0 + pause(state.failures).cast_signed()));
        None
    }

    /// The server answered, well or by saying what is wrong with the request.
    pub(super) fn answered(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = BreakerState::default();
    }

    /// The server failed, or cannot be reached.
    pub(super) fn failed(&self, now: Timestamp) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            state.open_until = Some(Timestamp(now.0 + pause(state.failures).cast_signed()));
        }
    }
}

fn pause(failures: u32) -> u64 {
    let doubled = failures.saturating_sub(FAILURES).min(10);
    (FIRST_MS << doubled).min(LONGEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_leave_the_server_alone_and_one_tries_again() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failed(Timestamp(0));
        }
        assert_eq!(breaker.blocked(Timestamp(0)), None);
        breaker.failed(Timestamp(0));
        assert_eq!(breaker.blocked(Timestamp(500)), Some(1_500));
        assert_eq!(breaker.blocked(Timestamp(2_000)), None, "one may try");
        assert_eq!(breaker.blocked(Timestamp(2_000)), Some(2_000), "the others wait");
        breaker.failed(Timestamp(2_100));
        assert_eq!(breaker.blocked(Timestamp(2_100)), Some(4_000));
        for _ in 0..40 {
            breaker.failed(Timestamp(2_100));
        }
        assert_eq!(breaker.blocked(Timestamp(2_100)), Some(60_000));
        breaker.answered();
        assert_eq!(breaker.blocked(Timestamp(2_100)), None);
    }
}
