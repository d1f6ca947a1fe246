//! How long calls took: counts in buckets, each wider than the one before by the root of two.

/// Up to how long the first bucket is, in microseconds.
const FIRST: f64 = 100.0;
/// How many buckets there are: the last one begins at about a hundred seconds.
const BUCKETS: usize = 42;

/// Counts of durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durations([u64; BUCKETS]);

impl Default for Durations {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

// === impl Durations ===

impl Durations {
    /// Counts one, in microseconds.
    pub fn record(&mut self, micros: u64) {
        let bucket = (0..BUCKETS - 1).find(|bucket| micros as f64 <= upper(*bucket)).unwrap_or(BUCKETS - 1);
        self.0[bucket] += 1;
    }

    /// Adds others to these.
    pub fn add(&mut self, other: &Self) {
        for (own, others) in self.0.iter_mut().zip(other.0) {
            *own = own.saturating_add(others);
        }
    }

    /// In how many microseconds a share of them was done, at most a fifth too much or too little; `None` where there is
    /// none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.0.iter().sum();
        if all == 0 {
            return None;
        }
        let wanted = (share * all as f64).ceil().max(1.0);
        let mut sum = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            sum += count;
            if sum as f64 >= wanted {
                // The middle of the bucket, as it is seen on a scale of orders.
                return Some((upper(bucket) / 2_f64.powf(0.25)) as u64);
            }
        }
        None
    }

    /// For the database: those that are not empty.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let full = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        full.flat_map(|(bucket, count)| {
            let mut pair = vec![bucket as u8];
            pair.extend(count.to_le_bytes());
            pair
        })
        .collect()
    }

    /// The inverse. What is not ours is left out.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut durations = Self::default();
        for pair in bytes.chunks_exact(9) {
            let [bucket, count @ ..] = pair else { continue };
            if let (Some(own), Ok(count)) = (durations.0.get_mut(usize::from(*bucket)), count.try_into()) {
                *own = u64::from_le_bytes(count);
            }
        }
        durations
    }
}

/// The upper end of a bucket, in microseconds.
fn upper(bucket: usize) -> f64 {
    FIRST * 2_f64.powf(bucket as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_fifth_off() {
        let mut durations = Durations::default();
        for micros in 1..=1_000 {
            durations.record(micros * 1_000);
        }
        for (share, expected) in [(0.5, 500_000.0), (0.9, 900_000.0), (0.99, 990_000.0)] {
            let found = durations.quantile(share).unwrap() as f64;
            assert!((found / expected - 1.0).abs() <= 0.2, "{share}: {found}");
        }
        assert_eq!(Durations::default().quantile(0.5), None);
    }

    #[test]
    fn bytes_hold_what_was_counted_and_nothing_else_counts() {
        let mut durations = Durations::default();
        for micros in [0, 100, 101, 5_000, u64::MAX] {
            durations.record(micros);
        }
        assert_eq!(Durations::from_bytes(&durations.to_bytes()), durations);
        assert_eq!(Durations::from_bytes(&[99; 20]), Durations::default());
    }
}
