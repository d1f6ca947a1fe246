//! Results of tools that the gateway itself gives.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, own_meta};

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

/// Whether a result says that it is an error.
pub fn is_failure(result: &Raw) -> bool {
    // The content may be large. Only where such a member may be and the bytes `"isError": true` stand somewhere are the members looked at.
    let bytes = result.bytes();
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));
    let mut claims = KEY.find_iter(bytes).filter(|at| {
        let after = bytes[at + KEY.needle().len()..].trim_ascii_start();
        after.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"true"))
    });
    result.may_have("isError")
        && claims.next().is_some()
        && result.get("isError").is_some_and(|flag| flag.as_str() == "true")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_result_s_own_flag_counts() {
        for (value, expect) in [
            (json!({ "content": [], "isError": true }), true),
            (json!({ "content": [], "isError": false }), false),
            (json!({ "content": [] }), false),
            (json!({ "content": [{ "isError": true }], "isError": false }), false),
            (json!({ "content": [{ "text": "\"isError\": true" }] }), false),
            (json!({ "structuredContent": { "isError": true }, "isError": true }), true),
        ] {
            assert_eq!(is_failure(&Raw::from_value(&value)), expect, "{value}");
        }
    }
}
