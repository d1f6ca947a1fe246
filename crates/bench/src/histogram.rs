//! Latencies in a fixed amount of memory: a log-linear histogram with an error below one percent.

use std::time::Duration;

/// Each power of two is cut into this many equal steps, so a value is off by at most 1/128 of itself.
const STEP_BITS: u32 = 7;
const STEPS: usize = 1 << STEP_BITS;
/// Values from 2^40 ns (18 minutes) on share the last bucket; every call has a deadline far below that.
const BUCKETS: usize = (40 - STEP_BITS as usize + 1) * STEPS;

/// Counts of durations by size.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, value: Duration) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    pub(crate) fn len(&self) -> u64 {
        self.total
    }

    /// The smallest recorded size that `share` (0 to 1) of all values do not exceed; `None` when nothing was recorded.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        if self.total == 0 {
            return None;
        }
        let wanted = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(Duration::from_nanos(middle(index)));
            }
        }
        None
    }
}

fn bucket(nanos: u64) -> usize {
    let bits = u64::BITS - nanos.leading_zeros();
    if bits <= STEP_BITS {
        return usize::try_from(nanos).unwrap_or(0);
    }
    let shift = bits - STEP_BITS - 1;
    let step = usize::try_from(nanos >> shift).unwrap_or(usize::MAX) - STEPS;
    ((shift as usize + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The value in the middle of a bucket, in nanoseconds.
fn middle(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let shift = index / STEPS - 1;
    let low = ((STEPS + index % STEPS) as u64) << shift;
    low + (1u64 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_comes_back_within_one_percent() {
        for nanos in [1u64, 90, 127, 128, 129, 255, 256, 1_000, 65_537, 1_234_567, 30_000_000_000] {
            let mut histogram = Histogram::default();
            histogram.record(Duration::from_nanos(nanos));
            let back = u64::try_from(histogram.quantile(0.5).unwrap().as_nanos()).unwrap();
            assert!(back.abs_diff(nanos) * 100 <= nanos, "{nanos} came back as {back}");
        }
    }

    #[test]
    fn quantiles_count_from_the_smallest() {
        let mut histogram = Histogram::default();
        for micros in 1..=100 {
            histogram.record(Duration::from_micros(micros));
        }
        let near = |share, micros: u64| {
            let got = histogram.quantile(share).unwrap().as_micros();
            assert!(got.abs_diff(u128::from(micros)) <= 1, "quantile {share} is {got}, not {micros}");
        };
        near(0.0, 1);
        near(0.5, 50);
        near(0.99, 99);
        near(1.0, 100);
    }

    #[test]
    fn merging_adds_up_and_nothing_recorded_has_no_quantile() {
        let mut sum = Histogram::default();
        assert_eq!(sum.quantile(0.5), None);
        let mut other = Histogram::default();
        other.record(Duration::from_millis(3));
        sum.merge(&other);
        sum.merge(&other);
        assert_eq!(sum.len(), 2);
    }

    #[test]
    fn a_size_beyond_the_range_is_counted_in_the_last_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::from_secs(1_000_000));
        assert_eq!(histogram.len(), 1);
        assert!(histogram.quantile(1.0).unwrap() > Duration::from_secs(1_000));
    }
}
