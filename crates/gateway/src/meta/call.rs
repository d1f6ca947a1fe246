//! Calling through a meta-tool: the native form is the tool's own result, muster's is its JSON as text.

use serde_json::{Value, json};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;

use crate::dialect::MetaName;

/// The result in the form of the dialect by whose name it was called.
pub(crate) fn shape(by: Option<&'static MetaName>, result: Raw) -> Raw {
    match by.map(|meta| meta.dialect) {
        Some(Dialect::Muster) => muster(&result),
        _ => result,
    }
}

/// `content[0]` is the JSON `{isError, content, structuredContent?}` with images and audio as `{type, mimeType,
/// dataSize}`; the blocks that are not text follow as they are, so nothing is lost.
fn muster(result: &Raw) -> Raw {
    let value = result.to_value();
    let is_error = value.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let blocks = value.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let short: Vec<Value> = blocks.iter().map(shorten).collect();
    let mut inner = json!({ "isError": is_error, "content": short });
    if let Some(structured) = value.get("structuredContent") {
        inner["structuredContent"] = structured.clone();
    }
    let mut content = vec![json!({ "type": "text", "text": inner.to_string() })];
    content.extend(blocks.into_iter().filter(|block| block["type"] != "text"));
    let mut outer = json!({ "content": content, "isError": is_error });
    for key in ["structuredContent", "_meta"] {
        if let Some(kept) = value.get(key) {
            outer[key] = kept.clone();
        }
    }
    Raw::from_value(&outer)
}

fn shorten(block: &Value) -> Value {
    match block["type"].as_str() {
        Some(kind @ ("image" | "audio")) => {
            // The size of what base64 stands for.
            let data = block["data"].as_str().unwrap_or_default();
            let size = data.trim_end_matches('=').len() * 3 / 4;
            json!({ "type": kind, "mimeType": block["mimeType"], "dataSize": size })
        }
        _ => block.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect;

    #[test]
    fn muster_s_form_loses_nothing() {
        let result = Raw::from_value(&json!({
            "content": [
                { "type": "text", "text": "a" },
                { "type": "image", "mimeType": "image/png", "data": "AAAA" },
                { "type": "hologram", "x": 1 },
            ],
            "structuredContent": { "n": 1 }, "isError": true,
        }));
        let shaped = shape(dialect::own_name("call_tool", Dialect::Muster), result.clone()).to_value();
        assert_eq!(shaped["isError"], true);
        let inner: Value = serde_json::from_str(shaped["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(inner["isError"], true);
        assert_eq!(inner["content"][0], json!({ "type": "text", "text": "a" }));
        assert_eq!(inner["content"][1], json!({ "type": "image", "mimeType": "image/png", "dataSize": 3 }));
        assert_eq!(inner["structuredContent"], json!({ "n": 1 }));
        assert_eq!(shaped["content"][1]["data"], "AAAA");
        assert_eq!(shaped["content"][2]["type"], "hologram");
        assert_eq!(shape(dialect::own_name("call_tool", Dialect::Native), result.clone()), result);
    }
}
