//! Results of tools that the gateway itself gives.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;

/// A result with a text and, beside it, the same as data.
pub(crate) fn structured(text: &str, value: &Value) -> Raw {
    Raw::from_value(&json!({ "content": [{ "type": "text", "text": text }], "structuredContent": value }))
}

/// A result whose text is the data as JSON.
pub(crate) fn data(value: &Value) -> Raw {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    structured(&text, value)
}

/// A result with a text only.
pub(crate) fn text(text: &str) -> Raw {
    Raw::from_value(&json!({ "content": [{ "type": "text", "text": text }] }))
}

/// A result that is an error: the model reads what went wrong and what to do next.
pub(crate) fn failure(problem: &Problem) -> Raw {
    let text = match &problem.hint {
        Some(hint) => format!("{}. {hint}", problem.message),
        None => problem.message.clone(),
    };
    let kind = problem.kind.name();
    Raw::from_value(&json!({
        "content": [{ "type": "text", "text": text }],
        "isError": true,
        "_meta": { "toolcrib/error": kind },
    }))
}

/// Whether a result says that it is an error.
pub(crate) fn is_failure(result: &Raw) -> bool {
    // The content may be large, and nearly all results do not even have the key.
    memchr::memmem::find(result.bytes(), b"\"isError\"").is_some()
        && result.get("isError").is_some_and(|flag| flag.as_str() == "true")
}
