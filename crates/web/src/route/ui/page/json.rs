//! Reading the answers of operations for cells.

use serde_json::Value;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::part::{Cell, Level};

/// A text; empty where there is none.
pub(super) fn text(value: &Value, key: &str) -> String {
    match &value[key] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The objects of a list.
pub(super) fn rows<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A cell with a text.
pub(super) fn cell(value: &Value, key: &str) -> Cell {
    Cell::Text(text(value, key))
}

/// A cell with a moment.
pub(super) fn time(value: &Value, key: &str) -> Cell {
    match text(value, key) {
        moment if moment.is_empty() => Cell::Nothing,
        moment => Cell::Time(moment),
    }
}

/// A cell with a count.
pub(super) fn number(value: &Value, key: &str) -> Cell {
    value[key].as_u64().map_or(Cell::Nothing, Cell::Number)
}

/// A link to the page of a name below a path.
pub(super) fn link(below: &str, value: &Value, key: &str, note: &str) -> Cell {
    let name = text(value, key);
    Cell::Link { path: format!("{below}/{}", encoded(&name)), text: name, note: text(value, note) }
}

/// A state, as one word of a table says how it looks.
pub(super) fn state(word: &str) -> Cell {
    Cell::state(level(word), word)
}

/// How a state looks, of whatever it is.
pub(super) fn level(word: &str) -> Level {
    match word {
        "ready" | "active" | "running" | "healthy" | "done" | "ok" | "permit" | "completed" | "connected"
        | "approved" | "logged-in" => Level::Ok,
        "failed" | "unreachable" | "error" | "deny" | "denied" | "dead" | "unhealthy" | "unknown" => Level::Bad,
        "open" | "held" | "needs-login" | "unverified" | "warn" | "expired" | "waiting" | "paused" | "quarantined"
        | "degraded" => Level::Warn,
        "starting" | "connecting" | "listing" | "stopping" | "pending" | "inprogress" => Level::Work,
        _ => Level::Idle,
    }
}

/// Texts of a list, one beside the other.
pub(super) fn words(value: &Value, key: &str) -> String {
    let texts = rows(value, key).iter().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join(", ")
}

/// JSON with indentation.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
