//! Results of tools that the gateway itself gives.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, own_meta};

pub use toolcrib_protocol::convert::is_failure;

/// Where a list stands in structured content.
const ITEMS: &str = "items";

/// A result with a text and, beside it, the same as data.
pub fn structured(text: &str, value: &Value) -> Raw {
    Raw::from_value(&json!({ "content": [{ "type": "text", "text": text }], "structuredContent": value }))
}

/// A result whose text is the data as JSON. Structured content is an object, so a list stands in one there.
pub fn data(value: &Value) -> Raw {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    if value.is_array() {
        return structured(&text, &json!({ ITEMS: value }));
    }
    structured(&text, value)
}

/// The schema of the structured content of [`data`], from that of the data.
pub fn schema_of_data(schema: Value) -> Value {
    if schema["type"] == "array" {
        return json!({ "type": "object", "properties": { ITEMS: schema }, "required": [ITEMS] });
    }
    schema
}

/// A result with a text only.
pub fn text(text: &str) -> Raw {
    Raw::from_value(&json!({ "content": [{ "type": "text", "text": text }] }))
}

/// A result that is an error: the model reads what went wrong and what to do next.
pub fn failure(problem: &Problem) -> Raw {
    let text = match &problem.hint {
        Some(hint) => format!("{}. {hint}", problem.message),
        None => problem.message.clone(),
    };
    Raw::from_value(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

/// A result that leaves the gateway and names the kind of problem that the gateway itself reports.
pub fn marked(result: &Raw, kind: Kind) -> Raw {
    let meta = Raw::from_value(&json!({ own_meta::ERROR: kind.name() }));
    result.edit(&[("_meta", Edit::Set(meta.as_str()))])
}
