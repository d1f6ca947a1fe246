//! Requests of Messages.

use super::{Entry, OpenCalls, PastCall, PastResult, Request, begin, measure, offer, size, texts};
use crate::json::Json;
use crate::script::Failure;

const KNOWN: [&str; 16] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "max_tokens",
    "stream",
    "output_config",
    "thinking",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "service_tier",
    "cache_control",
];
/// How many blocks of a request may be marked for the cache.
const MARKS: usize = 4;

pub(super) fn read(json: &Json) -> Result<Request, Failure> {
    let mut request = begin(json, &KNOWN)?;
    if json.count_at("max_tokens").is_none_or(|tokens| tokens == 0) {
        return Err(Failure::invalid("max_tokens: Field required"));
    }
    let mut head = json.member("system").map_or(0, |system| size(&system));
    if let Some(tools) = json.member("tools") {
        head += size(&tools);
        for tool in tools.items() {
            if tool.member("cache_control").is_some() && tool.member("defer_loading").is_some() {
                return Err(Failure::invalid("a tool with defer_loading cannot be marked for the cache"));
            }
            offer(&tool, "input_schema", &mut request)?;
        }
    } else if json.member("tool_choice").is_some() {
        return Err(Failure::invalid("tool_choice: may only be specified while providing tools"));
    }
    let choice = json.member("tool_choice").and_then(|choice| choice.string_at("type"));
    request.allows_calls = choice.as_deref() != Some("none");
    let schema = json.member("output_config").and_then(|config| config.member("format")?.member("schema"));
    request.output = schema.map(|schema| schema.to_value());
    let marks = json.as_str().matches(r#""cache_control":{"type":"ephemeral""#).count();
    if marks > MARKS {
        return Err(Failure::invalid(format!(
            "a maximum of 4 blocks with cache_control may be provided, found {marks}"
        )));
    }
    request.has_marks = marks > 0;
    let messages = json.member("messages").map(|messages| messages.items()).unwrap_or_default();
    let mut calls = OpenCalls::default();
    for message in &messages {
        match message.string_at("role").as_deref() {
            Some("user") => user(message, &mut calls, &mut request)?,
            Some("assistant") if !request.entries.is_empty() => assistant(message, &mut calls, &mut request)?,
            _ => {
                return Err(Failure::invalid(
                    "messages: the first must use the \"user\" role, all \"user\" or \"assistant\"",
                ));
            }
        }
    }
    if messages.is_empty() {
        return Err(Failure::invalid("messages: at least one message is required"));
    }
    calls.check()?;
    measure(&mut request, head, &messages, |message| message.string_at("role").as_deref() == Some("assistant"));
    Ok(request)
}

/// The blocks of a message; a text is one.
fn blocks(message: &Json) -> Result<Vec<Json>, Failure> {
    let content = message.member("content").ok_or_else(|| Failure::invalid("messages.content: Field required"))?;
    let blocks = match content.string() {
        Some(text) => vec![Json::from(&serde_json::json!({"type": "text", "text": text}))],
        None => content.items(),
    };
    let is_empty = |block: &Json| {
        block.string_at("type").as_deref() == Some("text")
            && block.string_at("text").is_none_or(|text| text.trim().is_empty())
    };
    if blocks.is_empty() || blocks.iter().any(is_empty) {
        return Err(Failure::invalid("messages: text content blocks must be non-empty"));
    }
    Ok(blocks)
}

fn user(message: &Json, calls: &mut OpenCalls, request: &mut Request) -> Result<(), Failure> {
    let (mut said, mut results) = (Vec::new(), Vec::new());
    for block in blocks(message)? {
        match block.string_at("type").as_deref() {
            Some("tool_result") if said.is_empty() => {
                let id = block.string_at("tool_use_id").unwrap_or_default();
                calls.end(&id)?;
                results.push(PastResult { id, text: block.member("content").as_ref().map(texts).unwrap_or_default() });
            }
            Some("tool_result") => return Err(Failure::invalid("tool_result blocks must come first")),
            // All results of a turn stand in the one message behind it.
            Some("text") => {
                calls.check()?;
                said.push(block.string_at("text").unwrap_or_default());
            }
            Some("image" | "document") => {
                calls.check()?;
                said.push(String::new());
            }
            _ => return Err(Failure::invalid("messages.content: an unknown type of block")),
        }
    }
    calls.check()?;
    if !results.is_empty() {
        request.entries.push(Entry::Results(results));
    }
    if !said.is_empty() {
        request.entries.push(Entry::User(said.join("\n")));
    }
    Ok(())
}

fn assistant(message: &Json, calls: &mut OpenCalls, request: &mut Request) -> Result<(), Failure> {
    calls.check()?;
    let mut past = Vec::new();
    for block in blocks(message)? {
        match block.string_at("type").as_deref() {
            Some("tool_use") => {
                let input = block.member("input").filter(|input| input.is_object());
                let input =
                    input.ok_or_else(|| Failure::invalid("tool_use.input: Input should be a valid dictionary"))?;
                let call = PastCall {
                    id: block.string_at("id").unwrap_or_default(),
                    name: block.string_at("name").unwrap_or_default(),
                    arguments: input.as_str().to_owned(),
                };
                calls.begin(&call)?;
                past.push(call);
            }
            Some("thinking") if block.string_at("signature").is_none_or(|signature| signature.is_empty()) => {
                return Err(Failure::invalid("thinking.signature: Field required"));
            }
            _ => {}
        }
    }
    request.entries.push(Entry::Model(past));
    Ok(())
}
