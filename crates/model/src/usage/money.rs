//! Money and prices, as whole numbers: no sum of many small costs is rounded.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Usage;

/// Picodollars in a dollar.
const DOLLAR: u64 = 1_000_000_000_000;
/// A price of one dollar per million tokens, in picodollars per token.
const PER_MILLION: u64 = DOLLAR / 1_000_000;
/// How many digits after the point a price may have.
const PRICE_DIGITS: usize = 6;
/// How many digits after the point an amount of money may have.
const MONEY_DIGITS: usize = 12;

/// An amount of money in picodollars (10⁻¹² dollars): up to 18 million dollars, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Money(pub u64);

impl Money {
    /// Dollars as people write them: `0.25`.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        decimal(text, MONEY_DIGITS, DOLLAR).map(Self)
    }

    /// The sum, at most the largest amount.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left, or nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    /// `$0.0105`: no zeros at the end but two digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:012}", self.0 % DOLLAR);
        let kept = digits.trim_end_matches('0').len().max(2);
        write!(f, "${}.{}", self.0 / DOLLAR, &digits[..kept])
    }
}

/// What a model costs, in picodollars per token: a dollar per million tokens is 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Input that is neither from the cache nor written to it.
    pub input: u64,
    /// Input from the cache.
    pub cached: u64,
    /// Input that is written to the cache.
    pub cache_write: u64,
    /// Input that is written to the cache for an hour.
    pub cache_write_hour: u64,
    /// Output, reasoning included.
    pub output: u64,
}

impl Prices {
    /// Prices where the cache makes no difference.
    pub const fn flat(input: u64, output: u64) -> Self {
        Self { input, cached: input, cache_write: input, cache_write_hour: input, output }
    }

    /// A price per million tokens as providers print it: `3`, `0.075`.
    pub fn per_million(text: &str) -> Result<u64, PriceError> {
        decimal(text, PRICE_DIGITS, PER_MILLION)
    }

    /// What tokens cost.
    pub fn cost(&self, usage: Usage) -> Money {
        let usage = usage.bounded();
        let fresh = usage.input - usage.cached - usage.cache_writes;
        let parts = [
            (fresh, self.input),
            (usage.cached, self.cached),
            (usage.cache_writes - usage.cache_writes_hour, self.cache_write),
            (usage.cache_writes_hour, self.cache_write_hour),
            (usage.output, self.output),
        ];
        let sum =
            parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).fold(0, u128::saturating_add);
        Money(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// The most that a request can cost: all of it new to the cache where that is dearer, and the longest answer.
    pub fn at_most(&self, input: u64, output: u64) -> Money {
        let dearest = self.input.max(self.cached).max(self.cache_write).max(self.cache_write_hour);
        Self::flat(dearest, self.output).cost(Usage { input, output, ..Usage::default() })
    }
}

/// A text that is no price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an amount of dollars with at most {digits} digits after the point")]
pub struct PriceError {
    text: String,
    digits: usize,
}

/// A decimal number in units of which `unit` are one. `unit` is a power of ten with at least `digits` zeros.
fn decimal(text: &str, digits: usize, unit: u64) -> Result<u64, PriceError> {
    let parse = || {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let fraction = if fraction.len() > 1 { fraction.trim_end_matches('0') } else { fraction };
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty()
            || !is_number(whole)
            || !is_number(fraction)
            || fraction.len() > digits
            || text.ends_with('.')
        {
            return None;
        }
        let mut value = whole.parse::<u64>().ok()?.checked_mul(unit)?;
        let mut place = unit;
        for digit in fraction.bytes() {
            place /= 10;
            value = value.checked_add(place * u64::from(digit - b'0'))?;
        }
        Some(value)
    };
    parse().ok_or_else(|| PriceError { text: text.chars().take(40).collect(), digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> u64 {
        Prices::per_million(text).unwrap()
    }

    #[test]
    fn prices_and_money_are_read_exactly() {
        assert_eq!((price("3"), price("0.075"), price("15.00"), price("0.000001")), (3_000_000, 75_000, 15_000_000, 1));
        assert_eq!(Money::parse("1.50").unwrap().to_string(), "$1.50");
        assert_eq!(Money::parse("0.000000000001").unwrap(), Money(1));
        assert_eq!(Money(10_500_000_000).to_string(), "$0.0105");
        assert_eq!(Money::default().to_string(), "$0.00");
        for odd in ["", ".5", "1.", "-1", "1e3", "0.0000001", "1,5", "$1", "99999999999999999999", "1.2.3", "١"] {
            assert!(Prices::per_million(odd).is_err(), "{odd}");
        }
        assert!(Money::parse("18446745").is_err());
    }

    #[test]
    fn costs_are_those_of_the_providers_tables() {
        // Anthropic, Claude Sonnet: $3 input, $0.30 read from the cache, $3.75 and $6 written to it, $15 output.
        let sonnet = Prices {
            input: price("3"),
            cached: price("0.30"),
            cache_write: price("3.75"),
            cache_write_hour: price("6"),
            output: price("15"),
        };
        let usage = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
        assert_eq!(sonnet.cost(usage).to_string(), "$18.00");
        // 100,000 tokens from the cache, 20,000 written to it (8,000 for an hour), 50 new ones, 500 of output.
        let usage = Usage {
            input: 120_050,
            cached: 100_000,
            cache_writes: 20_000,
            cache_writes_hour: 8_000,
            output: 500,
            reasoning: 200,
        };
        // 0.00015 + 0.03 + 0.045 + 0.048 + 0.0075
        assert_eq!(sonnet.cost(usage).to_string(), "$0.13065");
        // OpenAI, GPT-5: $1.25 input, $0.125 cached, $10 output; 2,006 tokens of input of which 1,920 are cached.
        let gpt = Prices {
            input: price("1.25"),
            cached: price("0.125"),
            cache_write: price("1.25"),
            cache_write_hour: price("1.25"),
            output: price("10"),
        };
        let usage = Usage { input: 2_006, cached: 1_920, output: 300, reasoning: 256, ..Usage::default() };
        // 86 × 1.25 + 1,920 × 0.125 + 300 × 10 = 3,347.5 millionths
        assert_eq!(gpt.cost(usage).to_string(), "$0.0033475");
    }

    #[test]
    fn cached_tokens_are_not_paid_twice_conductor_427() {
        // 16 million tokens, nearly all from the cache: $8, and not $51.
        let prices = Prices { cached: price("0.30"), ..Prices::flat(price("3"), price("15")) };
        let usage = Usage { input: 16_000_000, cached: 15_000_000, output: 30_000, ..Usage::default() };
        assert_eq!(prices.cost(usage).to_string(), "$7.95");
    }

    #[test]
    fn costs_are_bounded_by_what_is_reserved_and_never_overflow() {
        let prices = Prices { cached: 1, cache_write: 5, cache_write_hour: 8, ..Prices::flat(4, 20) };
        let usage = Usage { input: 100, cached: 3, cache_writes: 90, cache_writes_hour: 80, output: 7, reasoning: 7 };
        assert!(prices.cost(usage) <= prices.at_most(100, 7));
        let all = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(Prices::flat(u64::MAX, u64::MAX).cost(all), Money(u64::MAX));
        let odd = Usage { input: 1, cached: 9, cache_writes: 9, ..Usage::default() };
        assert_eq!(prices.cost(odd), Money(1));
    }

    #[test]
    fn a_million_small_costs_add_up_exactly() {
        let prices = Prices::flat(price("0.075"), price("0.3"));
        let one = prices.cost(Usage { input: 1, ..Usage::default() });
        let sum = (0..1_000_000).fold(Money::default(), |sum, _| sum.plus(one));
        assert_eq!(sum, Money::parse("0.075").unwrap());
    }
}
