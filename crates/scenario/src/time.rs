//! Times as they stand in scenarios: `30s`, `1m30s`, `500ms`.

use std::time::Duration;

/// The longest time that is taken.
const MOST: Duration = Duration::from_secs(24 * 3600);

/// Reads a time, at most a day.
pub fn parse(text: &str) -> Option<Duration> {
    parse_within(text, MOST)
}

/// Reads a time that is not longer than `most`.
pub(crate) fn parse_within(text: &str, most: Duration) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let units =
            rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |end| digits + end);
        let unit = match &rest[digits..units] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
        rest = &rest[units..];
    }
    (sum <= most).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("1.5s", Some(1_500)),
            ("0s", Some(0)),
            ("24h", Some(86_400_000)),
            ("25h", None),
            ("30", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1 s", None),
            ("9999999999999999999999h", None),
        ] {
            assert_eq!(parse(text).map(|time| time.as_millis()), expected, "{text}");
        }
    }
}
