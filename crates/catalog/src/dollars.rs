//! Amounts of money as people write them, as whole numbers: `0.25` dollars, `3` dollars for a million tokens.
//! Not here: what is done with them, which the crate `model` knows.

use std::fmt;
use std::str::FromStr;

use crate::reader::TextPattern;

/// Picodollars (10⁻¹² dollars) in a dollar.
const DOLLAR: u64 = 1_000_000_000_000;
/// A price of a dollar for a million tokens, in picodollars for a token.
const PER_MILLION: u64 = 1_000_000;
/// More a run or a day has no reason to cost.
const AMOUNT_MAX: u64 = 1_000_000 * DOLLAR;
/// More a million tokens have no reason to cost.
const PRICE_MAX: u64 = 100_000 * PER_MILLION;

/// An amount of money above nothing, in picodollars (10⁻¹² dollars), exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dollars(u64);

/// What tokens cost: dollars for a million, kept as picodollars for one, exactly. Nothing is a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenPrice(u64);

/// Why a text is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DollarsError {
    #[error("expected an amount of dollars above 0 such as `0.25`, with at most 12 digits after the point")]
    Amount,
    #[error("expected at most `1000000` dollars")]
    LargeAmount,
    #[error("expected dollars for a million tokens such as `3` or `0.075`, with at most 6 digits after the point")]
    Price,
    #[error("expected at most `100000` dollars for a million tokens")]
    LargePrice,
}

// === impl Dollars ===

impl Dollars {
    /// The amount.
    pub fn picodollars(self) -> u64 {
        self.0
    }
}

impl TextPattern for Dollars {
    const PATTERN: &'static str = r"^[0-9]+(\.[0-9]{1,12})?$";
}

impl FromStr for Dollars {
    type Err = DollarsError;

    fn from_str(text: &str) -> Result<Self, DollarsError> {
        let amount = decimal(text, 12, DOLLAR, DollarsError::Amount, DollarsError::LargeAmount)?;
        match amount {
            0 => Err(DollarsError::Amount),
            1..=AMOUNT_MAX => Ok(Self(amount)),
            _ => Err(DollarsError::LargeAmount),
        }
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, DOLLAR, 12)
    }
}

// === impl TokenPrice ===

impl TokenPrice {
    /// What one token costs.
    pub fn picodollars(self) -> u64 {
        self.0
    }
}

impl TextPattern for TokenPrice {
    const PATTERN: &'static str = r"^[0-9]+(\.[0-9]{1,6})?$";
}

impl FromStr for TokenPrice {
    type Err = DollarsError;

    fn from_str(text: &str) -> Result<Self, DollarsError> {
        let price = decimal(text, 6, PER_MILLION, DollarsError::Price, DollarsError::LargePrice)?;
        if price > PRICE_MAX { Err(DollarsError::LargePrice) } else { Ok(Self(price)) }
    }
}

impl fmt::Display for TokenPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, PER_MILLION, 6)
    }
}

/// A decimal number in units of which `unit` are one; `unit` has as many zeros as there may be digits after the point.
fn decimal(text: &str, digits: usize, unit: u64, odd: DollarsError, large: DollarsError) -> Result<u64, DollarsError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    // Zeros at the end say nothing.
    let kept = fraction.trim_end_matches('0');
    if !is_number(whole) || !is_number(fraction) || kept.len() > digits {
        return Err(odd);
    }
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit));
    let mut place = unit;
    let part = kept.bytes().fold(0, |sum, digit| {
        place /= 10;
        sum + place * u64::from(digit - b'0')
    });
    whole.and_then(|whole| whole.checked_add(part)).ok_or(large)
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, unit: u64, digits: usize) -> fmt::Result {
    let part = format!("{:0digits$}", value % unit);
    match part.trim_end_matches('0') {
        "" => write!(f, "{}", value / unit),
        part => write!(f, "{}.{part}", value / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_and_printed_as_they_are_written() {
        for (text, picodollars) in [("0.25", 250_000_000_000), ("3", 3 * DOLLAR), ("0.000000000001", 1)] {
            let amount: Dollars = text.parse().unwrap();
            assert_eq!((amount.picodollars(), amount.to_string()), (picodollars, text.to_owned()));
        }
        for (text, picodollars) in [("3", 3_000_000), ("0.075", 75_000), ("0.000001", 1), ("0", 0)] {
            let price: TokenPrice = text.parse().unwrap();
            assert_eq!((price.picodollars(), price.to_string()), (picodollars, text.to_owned()));
        }
        assert_eq!("15.0000000000000".parse::<TokenPrice>(), "15".parse());
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for odd in ["", ".5", "1.", "-1", "+1", "1e3", "1,5", "$1", "1.2.3", "١", "0.0000001", " 1"] {
            assert_eq!(odd.parse::<TokenPrice>(), Err(DollarsError::Price), "{odd}");
        }
        for odd in ["", "0", "0.000", "-0.5", "0.0000000000001", "NaN"] {
            assert_eq!(odd.parse::<Dollars>(), Err(DollarsError::Amount), "{odd}");
        }
        for large in ["100000.000001", "99999999999999999999", "18446744073709551615"] {
            assert_eq!(large.parse::<TokenPrice>(), Err(DollarsError::LargePrice), "{large}");
        }
        assert_eq!("1000000.01".parse::<Dollars>(), Err(DollarsError::LargeAmount));
    }
}
