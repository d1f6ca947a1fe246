//! The wall clock as a parameter, so that tests own the time.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since 1970-01-01T00:00:00Z. Prints as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Milliseconds from `earlier` to `self`; 0 when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1_000)
    }
}

impl Timestamp {
    /// Reads RFC 3339 (`2026-11-20T12:00:00Z`, `…+01:00`, with or without a fraction), a date alone, or milliseconds.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(millis) = text.parse() {
            return Some(Self(millis));
        }
        let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00Z"));
        let mut parts = date.splitn(3, '-').map(|part| number(part, 4));
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let offset_at = time.rfind(['Z', 'z', '+', '-'])?;
        let (clock, offset) = time.split_at(offset_at);
        let offset_minutes = match offset {
            "Z" | "z" => 0,
            _ => {
                let (hours, minutes) = offset[1..].split_once(':')?;
                let minutes = number(hours, 2)? * 60 + number(minutes, 2)?;
                if offset.starts_with('-') { -minutes } else { minutes }
            }
        };
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let mut parts = clock.splitn(3, ':').map(|part| number(part, 2));
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let fits = (1..=12).contains(&month) && day > 0 && hour < 24 && minute < 60 && second < 61;
        let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
        let millis = number(&digits, 3)?;
        let days = days_from_civil(year, month, day);
        // There is no 31st of February: it would be a day of March.
        let is_a_day = civil_from_days(days) == (year, month, day);
        let seconds = days * 86_400 + hour * 3_600 + (minute - offset_minutes) * 60 + second;
        (fits && is_a_day).then_some(Self(seconds * 1_000 + millis))
    }
}

/// A number of at most `most` decimal digits.
fn number(text: &str, most: usize) -> Option<i64> {
    let fits = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

/// Year, month and day of the Gregorian calendar to days since 1970-01-01.
///
/// Source: as for `civil_from_days`, `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Days since 1970-01-01 to year, month and day of the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The source of the wall-clock time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Starts at `moment`.
    pub fn at(moment: Timestamp) -> Self {
        Self(AtomicI64::new(moment.0))
    }

    /// Moves on by `millis` milliseconds.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_print_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (1_795_132_800_001, "2026-11-20T00:00:00.001Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text);
        }
    }

    #[test]
    fn timestamps_are_read_as_they_are_written() {
        for millis in [0, 951_827_696_789, 1_795_132_800_001, -1] {
            assert_eq!(Timestamp::parse(&Timestamp(millis).to_string()), Some(Timestamp(millis)));
        }
        let noon = Timestamp::parse("2026-11-20T12:00:00Z");
        assert_eq!(Timestamp::parse("2026-11-20T13:30:00.000+01:30"), noon);
        assert_eq!(Timestamp::parse("2026-11-20").map(|day| day.0 + 43_200_000), noon.map(|noon| noon.0));
        assert_eq!(Timestamp::parse("42"), Some(Timestamp(42)));
        for wrong in [
            "",
            "soon",
            "2026-13-01",
            "2026-11-20T25:00:00Z",
            "2026-11-20T12:00Z",
            "2026-11-20T12:00:00",
            "20é6-01-01",
            "2026-02-29",
            "2026-04-31T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = ManualClock::at(Timestamp(5));
        clock.advance(10);
        assert_eq!(clock.now(), Timestamp(15));
        assert_eq!(Timestamp(15).since(Timestamp(5)), 10);
        assert_eq!(Timestamp(5).since(Timestamp(15)), 0);
    }
}
