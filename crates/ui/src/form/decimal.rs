//! Numbers as they are written, compared without a float.

use std::cmp::Ordering;

/// A number as `0.digits × 10^point`, without zeros at either end.
#[derive(Debug)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    point: i128,
}

// === impl Decimal ===

impl Decimal {
    /// Reads a JSON number; `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        crate::json::Json::parse(text).ok()?.as_number().filter(|digits| *digits == text)?;
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        // An exponent of more than 18 digits is beyond any other number, on its side.
        let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
        let unsigned = mantissa.trim_start_matches('-');
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all = [whole.as_bytes(), fraction.as_bytes()].concat();
        let zeros = all.iter().take_while(|digit| **digit == b'0').count();
        let end = all.iter().rposition(|digit| *digit != b'0').map_or(zeros, |last| last + 1);
        let digits = all[zeros..end].to_vec();
        let point = if digits.is_empty() {
            0
        } else {
            i128::try_from(whole.len()).ok()? - i128::try_from(zeros).ok()? + i128::from(exponent)
        };
        Some(Self { is_negative: mantissa.starts_with('-') && !digits.is_empty(), digits, point })
    }

    /// Whether it has no fraction.
    pub(super) fn is_integer(&self) -> bool {
        i128::try_from(self.digits.len()).is_ok_and(|count| self.point >= count)
    }

    /// Which of two is larger.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let size = |of: &Self, with: &Self| match (of.digits.is_empty(), with.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => of.point.cmp(&with.point).then_with(|| of.digits.cmp(&with.digits)),
        };
        match (self.is_negative, other.is_negative) {
            (false, false) => size(self, other),
            (true, true) => size(other, self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

/// Which of two numbers is larger; `None` if one is no number.
pub(super) fn compare(one: &str, other: &str) -> Option<Ordering> {
    Some(Decimal::parse(one)?.compare(&Decimal::parse(other)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_compared_by_their_digits() {
        let check = |one, other, expected| assert_eq!(compare(one, other), Some(expected), "{one} {other}");
        check("9007199254740993", "9007199254740992", Ordering::Greater);
        check("1.0", "1", Ordering::Equal);
        check("-0", "0.000", Ordering::Equal);
        check("1e400", "2e399", Ordering::Greater);
        check("-1e400", "-2e399", Ordering::Less);
        check("0.1", "0.09", Ordering::Greater);
        check("1e99999999999999999999", "5", Ordering::Greater);
        check("1e-99999999999999999999", "0", Ordering::Greater);
        for (text, expected) in [("1.0", true), ("1.5", false), ("15e-1", false), ("1.5e1", true), ("0", true)] {
            assert_eq!(Decimal::parse(text).unwrap().is_integer(), expected, "{text}");
        }
        for text in ["", "01", "1.", "+1", "0x1", "1 ", "NaN", "\"1\""] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_integers(one in any::<i64>(), other in any::<i64>()) {
            prop_assert_eq!(compare(&one.to_string(), &other.to_string()), Some(one.cmp(&other)));
        }
    }
}
