//! The example server `clock`: the time, and arithmetic with dates, times and durations.

mod calendar;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Clock;

use super::tool::{self, Effect};
use super::{ArgumentError, Arguments, Example, ExampleInfo, Tool, ToolReply};
use calendar::{Date, Moment, Offset, WEEKDAYS, days_in_month, is_leap};

/// How many dates one answer may have.
const DATES: i64 = 52;
/// The longest duration, in seconds: 10,000 years.
const DURATION: i64 = 315_576_000_000;

const ABOUT: ExampleInfo = ExampleInfo {
    name: "clock",
    title: "Clock and calendar",
    instructions: "Tells the time and calculates with dates. Dates are ISO 8601 (`2026-03-01`), times RFC 3339. Zones are \
                   given as offsets from UTC such as `+02:00`; names of zones and summer time are not known here.",
};

/// The server.
pub(crate) struct ClockServer {
    clock: Arc<dyn Clock>,
}

const TOOLS: &[Tool<ClockServer>] = &[
    Tool {
        name: "now",
        title: "Current time",
        description: "Tell the current date and time at an offset from UTC, with weekday and ISO week.",
        effect: Effect::Reads,
        properties: || json!({ "utc_offset": offset("Offset from UTC of the place, such as `+02:00`", true) }),
        required: &[],
        run: now,
    },
    Tool {
        name: "convert_time",
        title: "Convert a time between zones",
        description: "Convert a date and time from one offset from UTC to another, for example to plan a call between \
                      two places.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "time": { "type": "string", "description": "Date and time, such as `2026-03-01T14:30`; may end in its own offset" },
                "from": offset("Offset of the given time when it has none itself", true),
                "to": offset("Offset of the wanted time", false),
            })
        },
        required: &["time", "to"],
        run: convert_time,
    },
    Tool {
        name: "days_between",
        title: "Days between two dates",
        description: "Count the days from one date to another: calendar days, full weeks, and days from Monday to \
                      Friday. The first day counts, the last does not. Negative when the second date is earlier.",
        effect: Effect::Reads,
        properties: || json!({ "from": date("First day"), "to": date("Day after the last one") }),
        required: &["from", "to"],
        run: days_between,
    },
    Tool {
        name: "add_to_date",
        title: "Add to a date",
        description: "Move a date by years, months, weeks and days; negative numbers move it back. The day is cut to the \
                      length of the month, so one month after January 31 is the last of February.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "date": date("Where to start"),
                "years": amount("Years to add"),
                "months": amount("Months to add"),
                "weeks": amount("Weeks to add"),
                "days": amount("Days to add"),
            })
        },
        required: &["date"],
        run: add_to_date,
    },
    Tool {
        name: "weekday",
        title: "Weekday of a date",
        description: "Tell the weekday of a date, its ISO 8601 week, its day of the year and whether it is a leap year.",
        effect: Effect::Reads,
        properties: || json!({ "date": date("The day asked for") }),
        required: &["date"],
        run: weekday,
    },
    Tool {
        name: "next_weekday",
        title: "Next dates of a weekday",
        description: "List the next dates that fall on a weekday, for example the next three Mondays after a date.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "weekday": { "type": "string", "enum": WEEKDAYS, "description": "The weekday" },
                "after": date("Look after this day; today in UTC if left out"),
                "count": { "type": "integer", "minimum": 1, "maximum": DATES, "default": 1, "description": "How many dates" },
            })
        },
        required: &["weekday"],
        run: next_weekday,
    },
    Tool {
        name: "month_calendar",
        title: "Calendar of a month",
        description: "Draw the calendar of a month as text, weeks from Monday to Sunday.",
        effect: Effect::Reads,
        properties: || json!({ "year": year(), "month": { "type": "integer", "minimum": 1, "maximum": 12, "description": "From 1 to 12" } }),
        required: &["year", "month"],
        run: month_calendar,
    },
    Tool {
        name: "easter",
        title: "Date of Easter",
        description: "Calculate Easter Sunday of a year in the Gregorian calendar and the holidays that depend on it: \
                      Good Friday, Easter Monday, Ascension and Pentecost.",
        effect: Effect::Reads,
        properties: || json!({ "year": { "type": "integer", "minimum": 1583, "maximum": 9999, "description": "The year" } }),
        required: &["year"],
        run: easter,
    },
    Tool {
        name: "unix_time",
        title: "Unix time",
        description: "Convert a Unix timestamp in seconds to a date and time, or a date and time to its Unix timestamp. \
                      Give one of the two.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "timestamp": { "type": "integer", "description": "Seconds since 1970-01-01T00:00:00Z" },
                "time": { "type": "string", "description": "Date and time, such as `2026-03-01T14:30:00Z`" },
                "utc_offset": offset("Offset to show the time at, and of `time` when it has none", true),
            })
        },
        required: &[],
        run: unix_time,
    },
    Tool {
        name: "format_duration",
        title: "Duration in words",
        description: "Break a number of seconds down into days, hours, minutes and seconds, also as an ISO 8601 duration.",
        effect: Effect::Reads,
        properties: || json!({ "seconds": { "type": "integer", "minimum": 0, "maximum": DURATION, "description": "The whole duration in seconds" } }),
        required: &["seconds"],
        run: format_duration,
    },
];

fn offset(description: &str, is_optional: bool) -> Value {
    let mut schema = json!({ "type": "string", "description": description });
    if is_optional {
        schema["default"] = json!("+00:00");
    }
    schema
}

fn date(description: &str) -> Value {
    json!({ "type": "string", "format": "date", "description": description })
}

fn year() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 9999, "description": "The year" })
}

fn amount(description: &str) -> Value {
    json!({ "type": "integer", "default": 0, "description": description })
}

// === impl ClockServer ===

impl ClockServer {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }

    fn moment(&self) -> Moment {
        Moment(self.clock.now().0.div_euclid(1_000))
    }
}

impl Example for ClockServer {
    fn about(&self) -> &'static ExampleInfo {
        &ABOUT
    }

    fn tools(&self) -> Vec<Value> {
        tool::entries(TOOLS)
    }

    fn call(&self, name: &str, arguments: &Arguments) -> Option<Result<ToolReply, ArgumentError>> {
        tool::call(TOOLS, self, name, arguments)
    }
}

fn offset_of(arguments: &Arguments, key: &str) -> Result<Offset, ArgumentError> {
    arguments.text(key)?.map_or(Ok(Offset::UTC), |text| Offset::parse(key, text))
}

fn date_of(arguments: &Arguments, key: &str) -> Result<Date, ArgumentError> {
    Date::parse(key, arguments.needed_text(key)?)
}

fn now(server: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let local = server.moment().at(offset_of(arguments, "utc_offset")?)?;
    let (weekday, (_, week)) = (local.date.weekday_name(), local.date.iso_week());
    let structured = json!({ "time": local.to_string(), "weekday": weekday, "iso_week": week });
    Ok(ToolReply::new(format!("{local}, {weekday} of week {week}"), structured))
}

fn convert_time(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let otherwise = offset_of(arguments, "from")?;
    let (moment, from) = Moment::parse("time", arguments.needed_text("time")?, otherwise)?;
    let to = Offset::parse("to", arguments.needed_text("to")?)?;
    let (before, after) = (moment.at(from)?, moment.at(to)?);
    let days = after.date.0 - before.date.0;
    let day = match days {
        0 => "the same day",
        1 => "the next day",
        -1 => "the day before",
        _ => "another day",
    };
    let structured = json!({ "from": before.to_string(), "to": after.to_string(), "day_change": days });
    Ok(ToolReply::new(format!("{before} is {after}, {day}"), structured))
}

fn days_between(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let (from, to) = (date_of(arguments, "from")?, date_of(arguments, "to")?);
    let days = to.0 - from.0;
    let (weeks, rest) = (days / 7, days % 7);
    let working_days = days.signum() * working_days(from.min(to), days.abs());
    let text = format!(
        "{days} days from {from} to {to} ({weeks} weeks and {rest} days), {working_days} of them Monday to Friday"
    );
    Ok(ToolReply::new(text, json!({ "days": days, "weeks": weeks, "rest_days": rest, "working_days": working_days })))
}

/// Days from Monday to Friday among the `days` days from `first` on.
fn working_days(first: Date, days: i64) -> i64 {
    let rest = (0..days % 7).filter(|day| Date(first.0 + day).weekday() <= 5).count();
    days / 7 * 5 + rest as i64
}

fn add_to_date(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let start = date_of(arguments, "date")?;
    // No sum of these comes near the end of the numbers.
    let amount = |key| arguments.whole(key, -10_000_000, 10_000_000).map(|amount| amount.unwrap_or(0));
    let (year, month, day) = start.civil();
    let months = year * 12 + (month - 1) + amount("years")? * 12 + amount("months")?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let cut = day.min(days_in_month(year, month));
    let moved = Date::new(year, month, cut)
        .ok_or_else(|| ArgumentError("the result lies outside of the years 1 to 9999".to_owned()))?
        .plus(amount("weeks")? * 7 + amount("days")?)?;
    let weekday = moved.weekday_name();
    let structured = json!({ "date": moved.to_string(), "weekday": weekday, "days_moved": moved.0 - start.0 });
    Ok(ToolReply::new(format!("{moved}, a {weekday}"), structured))
}

fn weekday(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let date = date_of(arguments, "date")?;
    let (name, (week_year, week), day) = (date.weekday_name(), date.iso_week(), date.day_of_year());
    let is_leap = is_leap(date.civil().0);
    let kind = if is_leap { "leap" } else { "common" };
    let text = format!("{date} is a {name}: day {day} of a {kind} year, week {week} of {week_year}");
    let structured = json!({
        "weekday": name, "iso_weekday": date.weekday(), "iso_week": week, "iso_week_year": week_year,
        "day_of_year": day, "leap_year": is_leap,
    });
    Ok(ToolReply::new(text, structured))
}

fn next_weekday(server: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let name = arguments.needed_text("weekday")?;
    let wanted = WEEKDAYS.iter().position(|weekday| *weekday == name);
    let wanted = wanted.ok_or_else(|| ArgumentError(format!("`weekday` must be one of {}", WEEKDAYS.join(", "))))?;
    let after = match arguments.text("after")? {
        Some(text) => Date::parse("after", text)?,
        None => server.moment().at(Offset::UTC)?.date,
    };
    let count = arguments.whole("count", 1, DATES)?.unwrap_or(1);
    let first = (wanted as i64 + 1 - after.weekday() - 1).rem_euclid(7) + 1;
    let dates: Result<Vec<String>, ArgumentError> =
        (0..count).map(|index| after.plus(first + 7 * index).map(|date| date.to_string())).collect();
    let dates = dates?;
    Ok(ToolReply::new(dates.join("\n"), json!({ "dates": dates })))
}

fn month_calendar(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let year = arguments.whole("year", 1, 9_999)?.ok_or_else(|| super::arguments::missing("year"))?;
    let month = arguments.whole("month", 1, 12)?.ok_or_else(|| super::arguments::missing("month"))?;
    let first = Date::new(year, month, 1).ok_or_else(|| ArgumentError("there is no such month".to_owned()))?;
    let days = days_in_month(year, month);
    let mut text =
        format!("{year:04}-{month:02}\nMo Tu We Th Fr Sa Su\n{}", "   ".repeat(first.weekday() as usize - 1));
    for day in 1..=days {
        let is_sunday = Date(first.0 + day - 1).weekday() == 7;
        text.push_str(&format!("{day:2}{}", if is_sunday || day == days { "\n" } else { " " }));
    }
    let structured = json!({ "year": year, "month": month, "days": days, "first_weekday": first.weekday_name() });
    Ok(ToolReply::new(text, structured))
}

/// Source: the "anonymous Gregorian algorithm" (Meeus, Astronomical Algorithms, chapter 8).
fn easter(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let year = arguments.whole("year", 1_583, 9_999)?.ok_or_else(|| super::arguments::missing("year"))?;
    let (a, b, c) = (year % 19, year / 100, year % 100);
    let h = (19 * a + b - b / 4 - (b - (b + 8) / 25 + 1) / 3 + 15) % 30;
    let l = (32 + 2 * (b % 4) + 2 * (c / 4) - h - c % 4) % 7;
    let m = (a + 11 * h + 22 * l) / 451;
    let sum = h + l - 7 * m + 114;
    let sunday =
        Date::new(year, sum / 31, sum % 31 + 1).ok_or_else(|| ArgumentError("there is no such year".to_owned()))?;
    let days = [
        ("good_friday", "Good Friday", -2),
        ("easter_sunday", "Easter Sunday", 0),
        ("easter_monday", "Easter Monday", 1),
        ("ascension", "Ascension", 39),
        ("pentecost", "Pentecost", 49),
    ];
    let mut structured = json!({});
    let mut lines = Vec::new();
    for (key, name, after) in days {
        let date = sunday.plus(after)?.to_string();
        lines.push(format!("{date}  {name}"));
        structured[key] = json!(date);
    }
    Ok(ToolReply::new(lines.join("\n"), structured))
}

fn unix_time(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let offset = offset_of(arguments, "utc_offset")?;
    let (moment, offset) = match (arguments.whole("timestamp", i64::MIN, i64::MAX)?, arguments.text("time")?) {
        (Some(timestamp), None) => (Moment(timestamp), offset),
        (None, Some(time)) => Moment::parse("time", time, offset)?,
        _ => return Err(ArgumentError("give either `timestamp` or `time`".to_owned())),
    };
    let local = moment.at(offset)?;
    let structured = json!({ "timestamp": moment.0, "time": local.to_string() });
    Ok(ToolReply::new(format!("{} is {local}", moment.0), structured))
}

fn format_duration(_: &ClockServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let seconds = arguments.whole("seconds", 0, DURATION)?.ok_or_else(|| super::arguments::missing("seconds"))?;
    let parts = [
        (seconds / 86_400, "day", "D"),
        (seconds / 3_600 % 24, "hour", "H"),
        (seconds / 60 % 60, "minute", "M"),
        (seconds % 60, "second", "S"),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter(|(amount, ..)| *amount > 0)
        .map(|(amount, unit, _)| format!("{amount} {unit}{}", if *amount == 1 { "" } else { "s" }))
        .collect();
    let mut iso = "P".to_owned();
    for (index, (amount, _, letter)) in parts.iter().enumerate().filter(|(_, (amount, ..))| *amount > 0) {
        if index > 0 && !iso.contains('T') {
            iso.push('T');
        }
        iso.push_str(&format!("{amount}{letter}"));
    }
    if seconds == 0 {
        return Ok(ToolReply::new("0 seconds", json!({ "words": "0 seconds", "iso_8601": "PT0S" })));
    }
    let words = words.join(", ");
    Ok(ToolReply::new(format!("{words} ({iso})"), json!({ "words": words, "iso_8601": iso })))
}
