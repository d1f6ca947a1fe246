//! Numbers of JSON as exact decimals, for comparing what was written in two ways.

/// Longer integers are not written out.
const DIGITS: usize = 400;

/// A number: the digits times a power of ten. Equal numbers are equal values, however they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Without zeros at either end; empty is zero.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Reads a number in the grammar of JSON; `None` for anything else, and for exponents that no one means.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let padded = whole.len() > 1 && whole.starts_with('0');
        if !is_digits(whole) || padded || fraction.is_some_and(|fraction| !is_digits(fraction)) {
            return None;
        }
        let fraction = fraction.unwrap_or_default();
        let all = format!("{whole}{fraction}");
        let kept = all.trim_end_matches('0');
        let dropped = i64::try_from(all.len() - kept.len()).ok()?;
        let digits = kept.trim_start_matches('0').as_bytes().to_vec();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let exponent = exponent + dropped - i64::try_from(fraction.len()).ok()?;
        Some(Self { negative, digits, exponent })
    }

    /// The number as an integer without exponent; `None` when it is none, or a very long one.
    pub(super) fn to_integer(&self) -> Option<String> {
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        let zeros = usize::try_from(self.exponent).ok()?;
        if self.digits.len() + zeros > DIGITS {
            return None;
        }
        let digits: String = self.digits.iter().copied().map(char::from).collect();
        Some(format!("{}{digits}{}", if self.negative { "-" } else { "" }, "0".repeat(zeros)))
    }
}

/// At most 9 digits, so that the sums above cannot overflow.
fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: i64 = digits.parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_numbers_are_equal() {
        for (left, right) in [
            ("42", "42.0"),
            ("42", "4.2e1"),
            ("42", "420e-1"),
            ("0", "-0.00"),
            ("-7", "-7.0"),
            ("1000", "1E+3"),
            ("12345678901234567890123", "12345678901234567890123.000"),
        ] {
            assert_eq!(Decimal::parse(left).unwrap(), Decimal::parse(right).unwrap(), "{left} {right}");
        }
        for (left, right) in [("42", "-42"), ("42", "420"), ("9007199254740993", "9007199254740992"), ("0.1", "0.01")] {
            assert_ne!(Decimal::parse(left).unwrap(), Decimal::parse(right).unwrap(), "{left} {right}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x10", " 1", "1 ", "NaN", "1e9999999999", "١"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn integers_are_written_out() {
        let long = format!("1e{}", DIGITS - 1);
        for (text, expect) in [
            ("42.0", Some("42")),
            ("-4.2e1", Some("-42")),
            ("1e3", Some("1000")),
            ("-0", Some("0")),
            ("1.5", None),
            ("1e999999999", None),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().to_integer().as_deref(), expect, "{text}");
        }
        assert_eq!(Decimal::parse(&long).unwrap().to_integer().unwrap().len(), DIGITS);
    }

    proptest! {
        #[test]
        fn integers_stay_as_they_are(number: i64) {
            let text = number.to_string();
            prop_assert_eq!(Decimal::parse(&text).unwrap().to_integer().unwrap(), text);
        }

        #[test]
        fn doubles_compare_as_they_do_elsewhere(left in -1e6f64..1e6, right in -1e6f64..1e6) {
            let parse = |number: f64| Decimal::parse(&format!("{number:?}")).unwrap();
            prop_assert_eq!(parse(left) == parse(right), left == right);
        }
    }
}
