//! Each tool of the clock with the answers that a calendar on the wall gives.

use toolcrib_base::{ManualClock, Timestamp};

use super::*;

/// 2026-03-01T12:34:56Z, a Sunday.
fn ask(tool: &str, arguments: Value) -> Result<Value, String> {
    let server = ClockServer::new(Arc::new(ManualClock::at(Timestamp(1_772_368_496_789))));
    let arguments = Arguments::new(arguments).unwrap();
    server.call(tool, &arguments).unwrap().map(|told| told.structured).map_err(|wrong| wrong.0)
}

fn check(tool: &str, arguments: Value, expected: Value) {
    let shown = format!("{tool} {arguments}");
    assert_eq!(ask(tool, arguments), Ok(expected), "{shown}");
}

fn check_refused(tool: &str, arguments: Value, part: &str) {
    let shown = format!("{tool} {arguments}");
    let wrong = ask(tool, arguments).unwrap_err();
    assert!(wrong.contains(part), "{shown}: {wrong}");
}

#[test]
fn the_time_is_reported_and_converted() {
    check("now", json!({}), json!({"time": "2026-03-01T12:34:56+00:00", "weekday": "Sunday", "iso_week": 9}));
    check(
        "now",
        json!({"utc_offset": "+13:45"}),
        json!({"time": "2026-03-02T02:19:56+13:45", "weekday": "Monday", "iso_week": 10}),
    );
    check(
        "convert_time",
        json!({"time": "2026-03-01T09:00", "from": "-08:00", "to": "+09:00"}),
        json!({"from": "2026-03-01T09:00:00-08:00", "to": "2026-03-02T02:00:00+09:00", "day_change": 1}),
    );
    check("unix_time", json!({"timestamp": 0}), json!({"timestamp": 0, "time": "1970-01-01T00:00:00+00:00"}));
    check(
        "unix_time",
        json!({"time": "2001-09-09T03:46:40+02:00"}),
        json!({"timestamp": 1_000_000_000, "time": "2001-09-09T03:46:40+02:00"}),
    );
    check_refused("now", json!({"utc_offset": "CET"}), "offset");
    check_refused("convert_time", json!({"time": "2026-03-01T09:00"}), "`to` is missing");
    check_refused("convert_time", json!({"time": "0001-01-01T00:00", "to": "-01:00"}), "outside");
    check_refused("unix_time", json!({}), "either");
    check_refused("unix_time", json!({"timestamp": i64::MAX}), "outside");
    check_refused("now", json!({"zone": "UTC"}), "unknown argument `zone`");
}

#[test]
fn dates_are_counted_and_moved() {
    let between = |from, to| ask("days_between", json!({ "from": from, "to": to })).unwrap();
    assert_eq!(
        between("2026-03-01", "2026-12-25"),
        json!({"days": 299, "weeks": 42, "rest_days": 5, "working_days": 214})
    );
    assert_eq!(between("2026-03-08", "2026-03-01")["working_days"], -5);
    assert_eq!(between("2026-03-01", "2026-03-01")["days"], 0);
    for (moves, expected) in [
        (json!({"months": 1}), "2024-02-29"),
        (json!({"years": 1, "months": 1}), "2025-02-28"),
        (json!({"months": -2}), "2023-11-30"),
        (json!({"weeks": 1, "days": -1}), "2024-02-06"),
    ] {
        let mut arguments = moves.clone();
        arguments["date"] = json!("2024-01-31");
        assert_eq!(ask("add_to_date", arguments).unwrap()["date"], expected, "{moves}");
    }
    check_refused("add_to_date", json!({"date": "2024-01-31", "years": 9_000_000}), "outside");
    check_refused("add_to_date", json!({"date": "2024-01-31", "days": i64::MAX}), "whole number");
    check_refused("days_between", json!({"from": "2026-02-30", "to": "2026-03-01"}), "no day");
}

#[test]
fn the_calendar_is_right() {
    check(
        "weekday",
        json!({"date": "2024-12-30"}),
        json!({"weekday": "Monday", "iso_weekday": 1, "iso_week": 1, "iso_week_year": 2025, "day_of_year": 365, "leap_year": true}),
    );
    check("next_weekday", json!({"weekday": "monday", "count": 2}), json!({"dates": ["2026-03-02", "2026-03-09"]}));
    check("next_weekday", json!({"weekday": "sunday"}), json!({"dates": ["2026-03-08"]}));
    check_refused("next_weekday", json!({"weekday": "monday", "after": "9999-12-31"}), "outside");
    check_refused("next_weekday", json!({"weekday": "Montag"}), "one of monday");
    for (year, sunday) in [(1961, "1961-04-02"), (2000, "2000-04-23"), (2025, "2025-04-20"), (2026, "2026-04-05")] {
        assert_eq!(ask("easter", json!({ "year": year })).unwrap()["easter_sunday"], sunday);
    }
    let arguments = Arguments::new(json!({"year": 2026, "month": 2})).unwrap();
    let server = ClockServer::new(Arc::new(ManualClock::default()));
    let text = server.call("month_calendar", &arguments).unwrap().unwrap().text;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..4], ["2026-02", "Mo Tu We Th Fr Sa Su", "                   1", " 2  3  4  5  6  7  8"]);
    assert_eq!(lines.last(), Some(&"23 24 25 26 27 28"));
}

#[test]
fn durations_are_broken_down() {
    for (seconds, words, iso) in [
        (0, "0 seconds", "PT0S"),
        (1, "1 second", "PT1S"),
        (93_784, "1 day, 2 hours, 3 minutes, 4 seconds", "P1DT2H3M4S"),
        (172_800, "2 days", "P2D"),
    ] {
        check("format_duration", json!({ "seconds": seconds }), json!({"words": words, "iso_8601": iso}));
    }
    check_refused("format_duration", json!({"seconds": -1}), "whole number");
}
