//! How many calls were made in the last minute, second by second. Plain state, without a clock.

/// So many seconds are kept: those of a minute, and the one that has begun.
const SECONDS: usize = 61;

/// The calls of the last minute.
#[derive(Debug)]
pub(super) struct Window {
    /// By second; the newest stands at its number modulo [`SECONDS`].
    by_second: [u32; SECONDS],
    newest: u64,
    total: u32,
}

// === impl Window ===

impl Window {
    /// Without any call.
    pub(super) fn new(second: u64) -> Self {
        Self { by_second: [0; SECONDS], newest: second, total: 0 }
    }

    /// Whether another call may be made in this second, if `most` may be in any minute.
    ///
    /// # Errors
    /// In how many seconds it may.
    pub(super) fn admits(&mut self, most: u32, second: u64) -> Result<(), u64> {
        self.turn_to(second);
        if self.total < most {
            return Ok(());
        }
        // As many of the oldest must be a minute old as leave room for one more.
        let mut left = self.total;
        let oldest = self.newest.saturating_sub(SECONDS as u64 - 1);
        for second in oldest..=self.newest {
            left -= self.by_second[place(second)];
            if left < most {
                return Err(second + SECONDS as u64 - self.newest);
            }
        }
        Err(SECONDS as u64)
    }

    /// Counts a call.
    pub(super) fn count(&mut self, second: u64) {
        self.turn_to(second);
        self.by_second[place(self.newest)] += 1;
        self.total += 1;
    }

    /// Whether no call of the last minute is known.
    pub(super) fn is_empty(&mut self, second: u64) -> bool {
        self.turn_to(second);
        self.total == 0
    }

    /// Forgets what is older than a minute.
    fn turn_to(&mut self, second: u64) {
        let gone = second.saturating_sub(self.newest).min(SECONDS as u64);
        for step in 1..=gone {
            let forgotten = std::mem::take(&mut self.by_second[place(self.newest + step)]);
            self.total -= forgotten;
        }
        self.newest = self.newest.max(second);
    }
}

fn place(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_calls_than_may_be_in_any_minute_and_no_longer_wait_than_needed() {
        let mut seed = 0x9e37_79b9_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for most in [1, 2, 7, 60, 500] {
            let mut window = Window::new(0);
            let (mut millis, mut made) = (0, Vec::<u64>::new());
            for _ in 0..20_000 {
                let kinds = if next(50) == 0 { 6 } else { 5 };
                millis += [0, 1, 30, 400, 2_500, 90_000][usize::try_from(next(kinds)).unwrap()];
                let second = millis / 1_000;
                match window.admits(most, second) {
                    Ok(()) => {
                        window.count(second);
                        made.push(millis);
                        let recent = made.iter().rev().take_while(|at| millis - **at < 60_000).count();
                        assert!(recent <= most as usize, "{recent} of {most} calls within a minute");
                    }
                    Err(wait) => {
                        assert!((1..=61).contains(&wait));
                        let recent = made.iter().rev().take_while(|at| second - **at / 1_000 < 61).count();
                        assert!(recent >= most as usize, "refused after {recent} of {most}");
                        let mut later = Window { by_second: window.by_second, ..window };
                        assert!(later.admits(most, second + wait - 1).is_err(), "it was too long a wait");
                        assert!(later.admits(most, second + wait).is_ok(), "it was too short a wait");
                    }
                }
            }
            assert!(made.len() > 20);
        }
    }
}
