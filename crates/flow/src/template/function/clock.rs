//! Functions on moments. The one that is *now* is a parameter of the rendering, so that a run that is resumed renders
//! the same texts again. A moment is a text in RFC 3339 or a number of seconds since 1970; all of them are shown in
//! UTC.

use std::cell::Cell as Slot;
use std::fmt::Write as _;

use minijinja::{Error, Value as Cell};
use toolcrib_base::Timestamp;

use super::{Row, at, failed, made, number, row, text_of};

/// The longest layout, in bytes.
const LAYOUT_BYTES: usize = 1_000;
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

thread_local! {
    /// A rendering is done on one thread, without a pause.
    static NOW: Slot<Option<Timestamp>> = const { Slot::new(None) };
}

/// A rendering begins for which it is this moment.
pub(in crate::template) fn begin(now: Option<Timestamp>) {
    NOW.set(now);
}

pub(super) const ROWS: &[Row] = &[
    row("now", 0, 0, |_| Ok(shown(now()?))),
    row("date", 2, 2, |a| format(&text_of(at(a, 0)?)?, moment(at(a, 1)?)?)),
    row("dateInZone", 3, 3, in_zone),
    row("date_in_zone", 3, 3, in_zone),
    row("htmlDate", 1, 1, |a| format("2006-01-02", moment(at(a, 0)?)?)),
    row("dateModify", 2, 2, modify),
    row("date_modify", 2, 2, modify),
    row("mustDateModify", 2, 2, modify),
    row("must_date_modify", 2, 2, modify),
    row("unixEpoch", 1, 1, |a| Ok(Cell::from(moment(at(a, 0)?)?.0.div_euclid(1_000).to_string()))),
];

fn now() -> Result<Timestamp, Error> {
    let message = "`now` works only in templates of a workflow, where it is the start of the run";
    NOW.get().ok_or_else(|| failed(message))
}

fn shown(moment: Timestamp) -> Cell {
    Cell::from(moment.to_string())
}

/// A moment that is a text in RFC 3339, or seconds since 1970.
fn moment(value: &Cell) -> Result<Timestamp, Error> {
    let text = text_of(value)?;
    let is_count = value.is_number() || text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if text.is_empty() {
        None
    } else if is_count {
        number::whole(value)?.checked_mul(1_000).map(Timestamp)
    } else {
        Timestamp::parse(&text)
    };
    // Years of four digits: what is beyond is no date of anyone.
    let is_date = |moment: &Timestamp| (-62_135_596_800_000..=253_402_300_799_999).contains(&moment.0);
    parsed.filter(is_date).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        failed(format!("expected a time such as `2026-11-22T08:00:00Z` or seconds since 1970, got `{shown}`"))
    })
}

fn in_zone(arguments: &[Cell]) -> Result<Cell, Error> {
    let zone = text_of(at(arguments, 2)?)?;
    if !["UTC", "GMT", "Local", ""].contains(&zone.as_str()) {
        let zone: String = zone.chars().take(40).collect();
        return Err(failed(format!("unknown time zone `{zone}`: times in templates are in `UTC`")));
    }
    format(&text_of(at(arguments, 0)?)?, moment(at(arguments, 1)?)?)
}

/// A moment and a period of Go before or after it: `-24h`, `1h30m`.
fn modify(arguments: &[Cell]) -> Result<Cell, Error> {
    let (period, moment) = (text_of(at(arguments, 0)?)?, moment(at(arguments, 1)?)?);
    let moved = period_of(&period).and_then(|millis| moment.0.checked_add(millis)).map(Timestamp);
    moved.map(shown).ok_or_else(|| {
        let period: String = period.chars().take(40).collect();
        failed(format!("expected a period such as `-24h` or `1h30m`, got `{period}`"))
    })
}

/// A period of Go in milliseconds.
fn period_of(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut millis = 0.0;
    while !rest.is_empty() || millis == 0.0 {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let count: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |end| end + digits);
        millis += count
            * match &rest[digits..unit] {
                "h" => 3_600_000.0,
                "m" => 60_000.0,
                "s" => 1_000.0,
                "ms" => 1.0,
                "us" | "µs" => 0.001,
                "ns" => 0.000_001,
                _ => return None,
            };
        rest = &rest[unit..];
        if rest.is_empty() {
            break;
        }
    }
    // Far more than any date can be moved by, and exact as a float.
    (millis < 1e15).then_some((sign * millis) as i64)
}

/// The parts of a moment in UTC.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    /// From Sunday, 0.
    weekday: i64,
    /// From 1.
    day_of_year: i64,
}

impl Parts {
    fn of(moment: Timestamp) -> Self {
        const DAY: i64 = 86_400_000;
        let text = moment.to_string();
        let date: Vec<i64> = text.split(['-', 'T']).take(3).filter_map(|part| part.parse().ok()).collect();
        let part = |at: usize| date.get(at).copied().unwrap_or(1);
        let (days, millis) = (moment.0.div_euclid(DAY), moment.0.rem_euclid(DAY));
        let begin = Timestamp::parse(&format!("{:04}-01-01", part(0))).map_or(days, |begin| begin.0.div_euclid(DAY));
        Self {
            year: part(0),
            month: part(1),
            day: part(2),
            hour: millis / 3_600_000,
            minute: millis / 60_000 % 60,
            second: millis / 1_000 % 60,
            millisecond: millis % 1_000,
            // The first day of 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            day_of_year: days - begin + 1,
        }
    }
}

/// A moment in a layout of Go, in which the parts of `Mon Jan 2 15:04:05 MST 2006` are replaced by those of the moment.
fn format(layout: &str, moment: Timestamp) -> Result<Cell, Error> {
    if layout.len() > LAYOUT_BYTES {
        return Err(failed(format!("a layout has at most {LAYOUT_BYTES} bytes")));
    }
    let time = Parts::of(moment);
    let (mut out, mut rest) = (String::new(), layout);
    while let Some(first) = rest.chars().next() {
        let used = match part(rest, &time, &mut out) {
            0 => {
                out.push(first);
                first.len_utf8()
            }
            used => used,
        };
        rest = &rest[used..];
    }
    made(out)
}

/// Writes the part that a layout begins with; how many bytes of the layout it is, 0 when it begins with none.
fn part(layout: &str, time: &Parts, out: &mut String) -> usize {
    let half = if time.hour % 12 == 0 { 12 } else { time.hour % 12 };
    let month = MONTHS[usize::try_from(time.month - 1).unwrap_or(0) % 12];
    let day = DAYS[usize::try_from(time.weekday).unwrap_or(0) % 7];
    let padded = |number: i64| format!("{number:02}");
    // The longest of those that begin alike stands first.
    let table: [(&str, String); 34] = [
        ("January", month.to_owned()),
        ("Jan", month[..3].to_owned()),
        ("Monday", day.to_owned()),
        ("Mon", day[..3].to_owned()),
        ("MST", "UTC".to_owned()),
        ("2006", format!("{:04}", time.year)),
        ("002", format!("{:03}", time.day_of_year)),
        ("01", padded(time.month)),
        ("02", padded(time.day)),
        ("03", padded(half)),
        ("04", padded(time.minute)),
        ("05", padded(time.second)),
        ("06", padded(time.year.rem_euclid(100))),
        ("15", padded(time.hour)),
        ("_2006", format!("_{:04}", time.year)),
        ("_2", format!("{:2}", time.day)),
        ("1", time.month.to_string()),
        ("2", time.day.to_string()),
        ("3", half.to_string()),
        ("4", time.minute.to_string()),
        ("5", time.second.to_string()),
        ("PM", if time.hour < 12 { "AM" } else { "PM" }.to_owned()),
        ("pm", if time.hour < 12 { "am" } else { "pm" }.to_owned()),
        ("-07:00:00", "+00:00:00".to_owned()),
        ("-070000", "+000000".to_owned()),
        ("-07:00", "+00:00".to_owned()),
        ("-0700", "+0000".to_owned()),
        ("-07", "+00".to_owned()),
        ("Z07:00:00", "Z".to_owned()),
        ("Z070000", "Z".to_owned()),
        ("Z07:00", "Z".to_owned()),
        ("Z0700", "Z".to_owned()),
        ("Z07", "Z".to_owned()),
        ("", String::new()),
    ];
    if let Some(used) = fraction(layout, time, out) {
        return used;
    }
    let is_word = |text: &str| {
        // `Month` and `Janet` are other words.
        !matches!(text, "Jan" | "Mon") || !layout[3..].starts_with(|c: char| c.is_ascii_lowercase())
    };
    let found = table.iter().find(|(text, _)| layout.starts_with(text) && is_word(text));
    let Some((text, value)) = found else { return 0 };
    out.push_str(value);
    text.len()
}

/// A fraction of a second: a dot or a comma with zeros, or with nines where trailing zeros are left out.
fn fraction(layout: &str, time: &Parts, out: &mut String) -> Option<usize> {
    let mark = layout.chars().next().filter(|mark| matches!(mark, '.' | ','))?;
    let digit = layout[1..].chars().next().filter(|digit| matches!(digit, '0' | '9'))?;
    let count = layout[1..].chars().take_while(|c| *c == digit).count();
    if layout[1 + count..].starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut digits = String::new();
    // Writing into a text cannot fail.
    let _ = write!(digits, "{:03}000000", time.millisecond);
    digits.truncate(count.min(9));
    if digit == '9' {
        digits.truncate(digits.trim_end_matches('0').len());
    }
    if !digits.is_empty() {
        out.push(mark);
        out.push_str(&digits);
    }
    Some(1 + count)
}
