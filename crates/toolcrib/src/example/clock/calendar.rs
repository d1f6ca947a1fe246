//! Dates, times of day and offsets from UTC in the Gregorian calendar, years 1 to 9999.

use std::fmt;

use super::ArgumentError;

const MINUTE: i64 = 60;
const DAY: i64 = 86_400;
/// The largest offset in use is +14:00; RFC 3339 would allow more.
const OFFSET_MINUTES: i64 = 18 * 60;

pub(super) const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A day: days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date(pub(super) i64);

/// Minutes east of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset(i64);

/// A moment: seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(pub(super) i64);

// === impl Date ===

impl Date {
    const FIRST: Date = Date(-719_162);
    const LAST: Date = Date(2_932_896);

    /// A day of the calendar, or `None` where there is no such day.
    pub(super) fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let fits = (1..=9_999).contains(&year) && (1..=12).contains(&month);
        (fits && (1..=days_in_month(year, month)).contains(&day)).then(|| Self(days_from_civil(year, month, day)))
    }

    pub(super) fn parse(key: &str, text: &str) -> Result<Self, ArgumentError> {
        let wrong = || ArgumentError(format!("`{key}` is no date: expected one like `2026-03-01`"));
        let parts = numbers(text, &[4, 2, 2], '-').ok_or_else(wrong)?;
        Self::new(parts[0], parts[1], parts[2])
            .ok_or_else(|| ArgumentError(format!("`{key}`: there is no day `{text}` in the calendar")))
    }

    /// The day `days` later.
    pub(super) fn plus(self, days: i64) -> Result<Self, ArgumentError> {
        let moved = self.0.checked_add(days).map(Date).filter(|date| (Self::FIRST..=Self::LAST).contains(date));
        moved.ok_or_else(|| ArgumentError("the result lies outside of the years 1 to 9999".to_owned()))
    }

    pub(super) fn civil(self) -> (i64, i64, i64) {
        civil_from_days(self.0)
    }

    /// 1 is Monday, 7 is Sunday (ISO 8601).
    pub(super) fn weekday(self) -> i64 {
        // 1970-01-01 was a Thursday.
        (self.0 + 3).rem_euclid(7) + 1
    }

    pub(super) fn weekday_name(self) -> &'static str {
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"][(self.weekday() - 1) as usize]
    }

    /// From 1 to 366.
    pub(super) fn day_of_year(self) -> i64 {
        self.0 - days_from_civil(self.civil().0, 1, 1) + 1
    }

    /// Year and week of ISO 8601: week 1 has the year's first Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let thursday = Date(self.0 + 4 - self.weekday());
        (thursday.civil().0, (thursday.day_of_year() - 1) / 7 + 1)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

// === impl Offset ===

impl Offset {
    pub(super) const UTC: Offset = Offset(0);

    /// `Z`, `UTC`, `+02:00` or `-0330`.
    pub(super) fn parse(key: &str, text: &str) -> Result<Self, ArgumentError> {
        let wrong = || {
            ArgumentError(format!("`{key}` is no offset from UTC: expected one like `+02:00`, not the name of a zone"))
        };
        if matches!(text, "Z" | "z" | "UTC" | "utc") {
            return Ok(Self::UTC);
        }
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(wrong()),
        };
        let parts = match rest.len() {
            2 => numbers(rest, &[2], ':'),
            4 => rest.split_at_checked(2).and_then(|(h, m)| numbers(&format!("{h}:{m}"), &[2, 2], ':')),
            _ => numbers(rest, &[2, 2], ':'),
        };
        let parts = parts.ok_or_else(wrong)?;
        let minutes = parts.get(1).copied().unwrap_or(0);
        let whole = parts[0] * 60 + minutes;
        if minutes > 59 || whole > OFFSET_MINUTES {
            return Err(wrong());
        }
        Ok(Self(sign * whole))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", self.0.abs() / 60, self.0.abs() % 60)
    }
}

// === impl Moment ===

impl Moment {
    /// `2026-03-01T14:30`, with seconds and an offset if given; without one `otherwise` holds.
    pub(super) fn parse(key: &str, text: &str, otherwise: Offset) -> Result<(Self, Offset), ArgumentError> {
        let wrong =
            || ArgumentError(format!("`{key}` is no time: expected one like `2026-03-01T14:30` or `…T14:30:00+02:00`"));
        let (date, rest) = text.split_at_checked(10).ok_or_else(wrong)?;
        let date = Date::parse(key, date)?;
        let rest = rest.strip_prefix(['T', 't', ' ']).ok_or_else(wrong)?;
        let zone = rest.find(['+', '-', 'Z', 'z']).unwrap_or(rest.len());
        let (time, zone) = rest.split_at(zone);
        // Parts of a second are left out: no one converts them.
        let time = time.split('.').next().unwrap_or_default();
        let parts = numbers(time, &[2, 2, 2], ':').or_else(|| numbers(time, &[2, 2], ':')).ok_or_else(wrong)?;
        let second = parts.get(2).copied().unwrap_or(0);
        if parts[0] > 23 || parts[1] > 59 || second > 59 {
            return Err(wrong());
        }
        let offset = if zone.is_empty() { otherwise } else { Offset::parse(key, zone)? };
        let local = date.0 * DAY + parts[0] * 3_600 + parts[1] * MINUTE + second;
        Ok((Self(local - offset.0 * MINUTE), offset))
    }

    /// The moment as the clocks at `offset` show it.
    pub(super) fn at(self, offset: Offset) -> Result<Local, ArgumentError> {
        let outside = || ArgumentError("the time lies outside of the years 1 to 9999".to_owned());
        let local = self.0.checked_add(offset.0 * MINUTE).ok_or_else(outside)?;
        let date = Date(local.div_euclid(DAY)).plus(0).map_err(|_| outside())?;
        Ok(Local { date, second: local.rem_euclid(DAY), offset })
    }
}

/// What a clock on the wall shows. Prints as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) date: Date,
    second: i64,
    offset: Offset,
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second) = (self.second / 3_600, self.second / 60 % 60, self.second % 60);
        write!(f, "{}T{hour:02}:{minute:02}:{second:02}{}", self.date, self.offset)
    }
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Source of both: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Numbers of exactly these many digits with a sign between them.
fn numbers(text: &str, digits: &[usize], sign: char) -> Option<Vec<i64>> {
    let parts: Vec<&str> = text.split(sign).take(digits.len() + 1).collect();
    let fits = parts.len() == digits.len()
        && parts
            .iter()
            .zip(digits)
            .all(|(part, digits)| part.len() == *digits && part.bytes().all(|byte| byte.is_ascii_digit()));
    if fits { parts.iter().map(|part| part.parse().ok()).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        Date::parse("date", text).unwrap()
    }

    #[test]
    fn dates_are_days() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("0001-01-01", Date::FIRST.0),
            ("9999-12-31", Date::LAST.0),
        ] {
            assert_eq!(date(text).0, days, "{text}");
            assert_eq!(date(text).to_string(), text);
        }
        for wrong in
            ["2025-02-29", "1900-02-29", "2026-13-01", "2026-00-01", "0000-01-01", "2026-1-1", "", "x", "२०२६-०१-०१"]
        {
            assert!(Date::parse("date", wrong).is_err(), "{wrong}");
        }
        assert!(Date::LAST.plus(1).is_err() && Date::FIRST.plus(i64::MIN).is_err());
    }

    #[test]
    fn weeks_follow_iso_8601() {
        for (text, weekday, week) in [
            ("1970-01-01", "Thursday", (1970, 1)),
            ("2021-01-03", "Sunday", (2020, 53)),
            ("2024-12-30", "Monday", (2025, 1)),
            ("2026-03-01", "Sunday", (2026, 9)),
        ] {
            assert_eq!((date(text).weekday_name(), date(text).iso_week()), (weekday, week), "{text}");
        }
        assert_eq!((date("2024-12-31").day_of_year(), date("2026-01-01").day_of_year()), (366, 1));
    }

    #[test]
    fn moments_have_an_offset() {
        let read = |text| Moment::parse("time", text, Offset::UTC);
        for (text, seconds, shown) in [
            ("1970-01-01T00:00Z", 0, "1970-01-01T00:00:00+00:00"),
            ("2026-03-01 14:30:15.250+02:00", 1_772_368_215, "2026-03-01T14:30:15+02:00"),
            ("2026-03-01T00:30-0330", 1_772_337_600, "2026-03-01T00:30:00-03:30"),
        ] {
            let (moment, offset) = read(text).unwrap();
            assert_eq!(moment.0, seconds, "{text}");
            assert_eq!(moment.at(offset).unwrap().to_string(), shown);
        }
        let wrong = [
            "2026-03-01",
            "2026-03-01T24:00",
            "2026-03-01T1:00",
            "2026-03-01T10:00Europe/Paris",
            "2026-03-01T10:00+19:00",
            "2026-03-01T10:00+02:60",
            "2026-03-01ä10:00",
        ];
        for wrong in wrong {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(Moment(i64::MAX).at(Offset::UTC).is_err());
        assert!(Offset::parse("to", "Europe/Paris").unwrap_err().0.contains("not the name of a zone"));
    }
}
