//! Lengths of time as people write them: `500ms`, `30s`, `2m`, `1h`.

use std::fmt;
use std::time::Duration;

/// The longest one: nothing here waits for more than a week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration above 0 such as `30s`, `500ms`, `2m` or `1h`, at most a week")]
pub struct PeriodError;

/// A length of time of at least a millisecond and at most a week. Prints as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(Duration);

// === impl Period ===

impl Period {
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The same for the clock's functions.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl crate::reader::TextPattern for Period {
    const PATTERN: &'static str = "^[0-9]+(ms|s|m|h)$";
}

impl std::str::FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| PeriodError)?;
        let millis_per_unit = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(PeriodError),
        };
        let duration = Duration::from_millis(number.checked_mul(millis_per_unit).ok_or(PeriodError)?);
        if duration.is_zero() || duration > LONGEST {
            return Err(PeriodError);
        }
        Ok(Self(duration))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            _ if millis.is_multiple_of(3_600_000) => write!(f, "{}h", millis / 3_600_000),
            _ if millis.is_multiple_of(60_000) => write!(f, "{}m", millis / 60_000),
            _ if millis.is_multiple_of(1_000) => write!(f, "{}s", millis / 1_000),
            _ => write!(f, "{millis}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_read_and_print() {
        for (text, millis, printed) in [
            ("30s", 30_000, "30s"),
            ("500ms", 500, "500ms"),
            ("2m", 120_000, "2m"),
            ("1h", 3_600_000, "1h"),
            ("90s", 90_000, "90s"),
            ("1500ms", 1_500, "1500ms"),
            ("60s", 60_000, "1m"),
            ("007s", 7_000, "7s"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!((period.duration().as_millis(), period.to_string().as_str()), (millis, printed));
        }
        let wrong =
            ["", "s", "30", "30 s", "-1s", "+1s", "1.5s", "1d", "1S", "soon", "0s", "0ms", "8000h", "1h30m", "３s"];
        for text in wrong.into_iter().chain(["99999999999999999999s", "18446744073709551615h"]) {
            assert_eq!(text.parse::<Period>(), Err(PeriodError), "{text}");
        }
    }
}
