//! Waiting times between attempts: exponential, with jitter, bounded.

use std::time::Duration;

use crate::random;

/// Doubles from `first` up to `most`; each wait is drawn from the upper half of the step, so that many servers that
/// failed together do not come back together.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    attempts: u32,
}

impl Backoff {
    /// Waits `first` after the first failure and at most `most` after many.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, attempts: 0 }
    }

    /// How many waits were given since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The next wait.
    pub fn next_wait(&mut self) -> Duration {
        let step = self.first.saturating_mul(2_u32.saturating_pow(self.attempts.min(30))).min(self.most);
        self.attempts = self.attempts.saturating_add(1);
        let half = u64::try_from(step.as_millis() / 2).unwrap_or(u64::MAX);
        step - Duration::from_millis(half) + Duration::from_millis(random::below(half.saturating_add(1)))
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for most in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.next_wait().as_millis();
            assert!((most / 2..=most).contains(&wait), "{wait} is not within half of {most}");
        }
        backoff.reset();
        assert!(backoff.next_wait().as_millis() <= 100);
        let mut long = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        assert!((0..200).all(|_| long.next_wait() <= Duration::from_secs(60)));
    }
}
