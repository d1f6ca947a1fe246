//! What the fake server has to show besides tools: resources, prompts and content blocks of every kind.

use serde_json::{Value, json};

/// A PNG of one pixel, and a WAV of no sample.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
pub(super) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// One block of each kind that any revision knows, one that none knows, and unknown fields at every level.
pub(super) fn mixed() -> Value {
    json!({
        "content": [
            {"type": "text", "text": "mixed", "annotations": {"audience": ["user"], "priority": 0.5}, "x-unknown": [1, 2]},
            {"type": "image", "data": PNG, "mimeType": "image/png", "_meta": {"example.com/width": 1}},
            {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "fake://text", "mimeType": "text/plain", "text": "embedded"}},
            {"type": "resource", "resource": {"uri": "fake://binary", "mimeType": "image/png", "blob": PNG}},
            {"type": "resource_link", "uri": "fake://text", "name": "text", "mimeType": "text/plain", "size": 8},
            {"type": "hologram", "depth": 3, "layers": [{"z": 1.25}]},
        ],
        "structuredContent": {"big": 9_007_199_254_740_993_u64, "nested": {"list": [null, true, "ü"]}},
        "isError": false,
        "_meta": {"example.com/trace": "abc"},
        "x-unknown": {"kept": true},
    })
}

pub(super) fn resources() -> Vec<Value> {
    vec![
        json!({"uri": "fake://text", "name": "text", "title": "A text", "mimeType": "text/plain"}),
        json!({"uri": "fake://binary", "name": "binary", "mimeType": "image/png", "x-unknown": 1}),
    ]
}

pub(super) fn templates() -> Vec<Value> {
    vec![json!({"uriTemplate": "fake://item/{id}", "name": "item", "mimeType": "text/plain"})]
}

/// `None` when there is no such resource.
pub(super) fn read(uri: &str) -> Option<Value> {
    let contents = match uri {
        "fake://text" => json!({"uri": uri, "mimeType": "text/plain", "text": "embedded"}),
        "fake://binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        _ => {
            let id = uri.strip_prefix("fake://item/")?;
            json!({"uri": uri, "mimeType": "text/plain", "text": format!("item {id}")})
        }
    };
    Some(json!({"contents": [contents]}))
}

pub(super) fn prompts() -> Vec<Value> {
    vec![
        json!({"name": "plain", "description": "A prompt without arguments"}),
        json!({
            "name": "greet",
            "description": "Greets somebody",
            "arguments": [{"name": "who", "description": "Whom to greet", "required": true}],
        }),
    ]
}

/// `Err` holds what is wrong with the parameters.
pub(super) fn prompt(params: &Value) -> Result<Value, String> {
    let said = match params["name"].as_str() {
        Some("plain") => "Say something plain.".to_owned(),
        Some("greet") => match params["arguments"]["who"].as_str() {
            Some(who) => format!("Greet {who}."),
            None => return Err("`who` is missing".into()),
        },
        other => return Err(format!("no prompt `{}`", other.unwrap_or_default())),
    };
    Ok(json!({"description": "A prompt", "messages": [{"role": "user", "content": text(&said)}]}))
}
