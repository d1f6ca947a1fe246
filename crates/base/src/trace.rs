//! The ids of requests, traces and spans, and which traces this process records. How ids travel in headers and `_meta` is
//! `protocol::trace`; who makes spans and who sends them is not known here.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a trace: 16 bytes, not all zero; 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

/// The id of a span: 8 bytes, not all zero; 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

/// The id that the gateway gives to a request and tells its client; 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(NonZeroU64);

/// Which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The share of all traces, from 0 to 1. A trace is in or out by its id, the same in every process.
    pub ratio: f64,
    /// Whether the sampled flag of a caller's context decides where there is one.
    pub follows_parent: bool,
}

/// What became of the spans of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanCounts {
    /// Those that a collector took.
    pub exported: u64,
    /// Those that no collector got.
    pub dropped: u64,
}

/// The bits of a trace id that decide (W3C Trace Context 2, random trace id flag).
const RANDOM_BITS: u32 = 56;
/// Nothing is recorded.
const OFF: u64 = u64::MAX;
/// Set where the parent decides.
const PARENT: u64 = 1 << 62;

/// The smallest randomness of a trace that is recorded, with [`PARENT`]; [`OFF`] until somebody records. One for the process,
/// as the subscriber of `tracing` is that takes the spans.
static SAMPLING: AtomicU64 = AtomicU64::new(OFF);

/// How many spans a collector took, and how many were dropped.
static EXPORTED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Where the ids of this process begin.
static SEED: OnceLock<u64> = OnceLock::new();
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A number that this process gives once, spread over all 64 bits (SplitMix64). Not for secrets: others may guess it.
fn next_number() -> NonZeroU64 {
    let seed = *SEED.get_or_init(|| {
        let mut bytes = [0_u8; 8];
        // Without randomness, the address and the time of a process still tell it from most others.
        if getrandom::fill(&mut bytes).is_err() {
            return u64::from(std::process::id());
        }
        u64::from_le_bytes(bytes)
    });
    let mut number = seed.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    NonZeroU64::new(number ^ (number >> 31)).unwrap_or(NonZeroU64::MIN)
}

/// Says which traces are recorded from now on; `None` for none.
pub fn set_sampling(sampling: Option<Sampler>) {
    let value = sampling.map_or(OFF, |Sampler { ratio, follows_parent }| {
        // At most 2^56, so that no bit is lost.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share between 0 and 1")]
        let least = ((1.0 - ratio.clamp(0.0, 1.0)) * (1_u64 << RANDOM_BITS) as f64) as u64;
        least | if follows_parent { PARENT } else { 0 }
    });
    SAMPLING.store(value, Ordering::Relaxed);
}

/// Counts spans that a collector took.
pub fn count_exported(spans: u64) {
    EXPORTED.fetch_add(spans, Ordering::Relaxed);
}

/// Counts spans that were dropped: the queue was full, or the collector did not take them.
pub fn count_dropped(spans: u64) {
    DROPPED.fetch_add(spans, Ordering::Relaxed);
}

/// How many spans this process has exported, and how many it has dropped.
pub fn span_counts() -> SpanCounts {
    SpanCounts { exported: EXPORTED.load(Ordering::Relaxed), dropped: DROPPED.load(Ordering::Relaxed) }
}

/// Whether a trace is recorded. `parent` is the sampled flag of the caller's context, where there is one.
pub fn is_sampled(trace: TraceId, parent: Option<bool>) -> bool {
    let sampling = SAMPLING.load(Ordering::Relaxed);
    if sampling == OFF {
        return false;
    }
    match parent {
        Some(sampled) if sampling & PARENT != 0 => sampled,
        _ => trace.randomness() >= sampling & !PARENT,
    }
}

// === impl TraceId ===

impl TraceId {
    /// An id of its own.
    pub fn new() -> Self {
        let (high, low) = (next_number(), next_number());
        Self(NonZeroU128::from(low) | (u128::from(high.get()) << 64))
    }

    /// Reads 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(is_digit);
        u128::from_str_radix(text, 16).ok().filter(|_| digits).and_then(NonZeroU128::new).map(Self)
    }

    /// The bits that decide whether the trace is recorded.
    fn randomness(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
        let low = self.0.get() as u64;
        low & ((1 << RANDOM_BITS) - 1)
    }
}

// === impl SpanId ===

impl SpanId {
    /// An id of its own.
    pub fn new() -> Self {
        Self(next_number())
    }

    /// Reads 16 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 16 && text.bytes().all(is_digit);
        u64::from_str_radix(text, 16).ok().filter(|_| digits).and_then(NonZeroU64::new).map(Self)
    }
}

// === impl RequestId ===

impl RequestId {
    /// An id of its own.
    pub fn new() -> Self {
        Self(next_number())
    }

    /// Its 16 digits, without an allocation.
    pub fn digits(self) -> [u8; 16] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 16];
        for (place, digit) in digits.iter_mut().rev().enumerate() {
            *digit = DIGITS[usize::from((self.0.get() >> (4 * place)) as u8 & 0xf)];
        }
        digits
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

macro_rules! hexadecimal {
    ($($name:ident $width:literal),*) => {$(
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $width, "x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

hexadecimal!(TraceId "32", SpanId "16", RequestId "16");

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_and_read_what_they_write() {
        let ids: HashSet<RequestId> = (0..10_000).map(|_| RequestId::new()).collect();
        assert_eq!(ids.len(), 10_000);
        let (trace, span, request) = (TraceId::new(), SpanId::new(), RequestId::new());
        assert_eq!(TraceId::parse(&trace.to_string()), Some(trace));
        assert_eq!(SpanId::parse(&span.to_string()), Some(span));
        assert_eq!(request.to_string().as_bytes(), request.digits());
        for wrong in
            ["", "0", "00f067aa0ba902b", "00F067AA0BA902B7", "+0f067aa0ba902b7", "0000000000000000", "ä0f067aa0ba902b"]
        {
            assert_eq!(SpanId::parse(wrong), None, "{wrong}");
        }
        for wrong in ["0", &"0".repeat(32), &"g".repeat(32), &format!("+{}", "1".repeat(31)), &"F".repeat(32)] {
            assert_eq!(TraceId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_share_of_traces_is_what_was_set_and_the_parent_decides_where_it_may() {
        let (low, high) = (TraceId::parse(&format!("{:032x}", 1)), TraceId::parse(&format!("{:032x}", u64::MAX)));
        let (low, high) = (low.expect("an id"), high.expect("an id"));
        let check = |sampling: Option<Sampler>, expect: [bool; 4]| {
            set_sampling(sampling);
            let got = [
                is_sampled(low, None),
                is_sampled(high, None),
                is_sampled(low, Some(true)),
                is_sampled(high, Some(false)),
            ];
            assert_eq!(got, expect, "{sampling:?}");
        };
        let ratio = |ratio, follows_parent| Some(Sampler { ratio, follows_parent });
        check(None, [false; 4]);
        check(ratio(1.0, false), [true; 4]);
        check(ratio(0.0, false), [false; 4]);
        check(ratio(0.5, false), [false, true, false, true]);
        check(ratio(0.5, true), [false, true, true, false]);
        check(ratio(0.0, true), [false, false, true, false]);
        let sampled = (0..10_000).filter(|_| {
            set_sampling(ratio(0.25, false));
            is_sampled(TraceId::new(), None)
        });
        let count = sampled.count();
        assert!((2_000..3_000).contains(&count), "{count}");
    }
}
