//! How often a tool may be called, as MCP Scooter's entries say it: the annotation `rateLimit`, a text of any form, such as
//! `60/min` or `1000 per hour`. It becomes the `per_minute` of the tool's limits.

use serde_json::{Map, Value, json};

use crate::server::ToolText;
use crate::server::limits::PATTERNS;

/// The annotation.
const KEY: &str = "rateLimit";
/// The highest number that definitions take.
const MOST: u64 = 1_000_000;

/// Calls a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) per_minute: u64,
    /// Whether the text says just that. Rates of hours and days are rounded down, and one a minute is the least.
    pub(super) is_exact: bool,
}

/// What a text says; `None` where it says no rate.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',' || *byte == b'_').count();
    let number: String = text[..digits].chars().filter(char::is_ascii_digit).collect();
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let rest = text[digits..].trim().to_ascii_lowercase();
    let unit = match rest.as_str() {
        "rpm" => "minute",
        "rps" => "second",
        "rph" => "hour",
        rest => rest.rsplit(['/', ' ']).next().unwrap_or_default(),
    };
    let (numerator, denominator) = match unit {
        "s" | "sec" | "second" => (60, 1),
        "m" | "min" | "minute" => (1, 1),
        "h" | "hr" | "hour" => (1, 60),
        "d" | "day" => (1, 24 * 60),
        _ => return None,
    };
    let exact = number.checked_mul(numerator)?;
    let per_minute = (exact / denominator).clamp(1, MOST);
    Some(Rate { per_minute, is_exact: per_minute * denominator == exact })
}

/// What is wrong or lost with the annotation of a tool, for people.
pub(super) fn fault(tool: &Value) -> Option<String> {
    let written = tool.get("annotations")?.get(KEY).filter(|written| !written.is_null() && **written != "")?;
    match written.as_str().map(rate) {
        Some(Some(Rate { is_exact: true, .. })) => None,
        Some(Some(Rate { per_minute, .. })) => {
            Some(format!("has a `{KEY}` that is not one of minutes: it becomes `per_minute: {per_minute}`"))
        }
        _ => Some(format!("has a `{KEY}` that is not understood, and limits nothing: write it as `60/min`")),
    }
}

/// `limits` for a server with these tools; nothing where none has a rate.
pub(super) fn limits(tools: &[ToolText]) -> Value {
    let limited = tools.iter().filter_map(|tool| {
        let value: Value = serde_json::from_str(&tool.json).ok()?;
        let rate = rate(value.get("annotations")?.get(KEY)?.as_str()?)?;
        // A name that would be a pattern could limit others.
        let is_plain = !tool.name.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
        is_plain.then(|| (tool.name.clone(), json!({ "per_minute": rate.per_minute })))
    });
    let tools: Map<String, Value> = limited.take(PATTERNS).collect();
    if tools.is_empty() { Value::Null } else { json!({ "tools": tools }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_every_usual_form() {
        for (text, per_minute, is_exact) in [
            ("60/min", 60, true),
            ("60/minute", 60, true),
            ("10 per minute", 10, true),
            ("100 requests/minute", 100, true),
            ("5/s", 300, true),
            ("2 requests per second", 120, true),
            ("90rpm", 90, true),
            ("600/hour", 10, true),
            ("1,000 per hour", 16, false),
            ("30/hour", 1, false),
            ("5000/day", 3, false),
        ] {
            assert_eq!(rate(text), Some(Rate { per_minute, is_exact }), "{text}");
        }
        for none in ["", "unlimited", "0/min", "ten/min", "60", "60/fortnight", "99999999999999999999/s", "-1/min"] {
            assert_eq!(rate(none), None, "{none}");
        }
    }
}
