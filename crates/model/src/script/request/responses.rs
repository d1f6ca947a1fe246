//! Requests of Responses.

use super::{Entry, OpenCalls, PastCall, PastResult, Request, begin, measure, offer, size, texts};
use crate::json::Json;
use crate::script::Failure;

const KNOWN: [&str; 20] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "store",
    "include",
    "stream",
    "text",
    "reasoning",
    "temperature",
    "top_p",
    "metadata",
    "user",
    "truncation",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
];

pub(super) fn read(json: &Json) -> Result<Request, Failure> {
    let mut request = begin(json, &KNOWN)?;
    let mut head = json.member("instructions").map_or(0, |text| size(&text));
    if let Some(tools) = json.member("tools") {
        head += size(&tools);
        for tool in tools.items() {
            if tool.string_at("type").as_deref() != Some("function") || tool.member("strict").is_none() {
                return Err(Failure::invalid("a tool that is no function, or without 'strict'"));
            }
            offer(&tool, "parameters", &mut request)?;
        }
    } else if json.member("tool_choice").is_some() || json.member("parallel_tool_calls").is_some() {
        return Err(Failure::invalid("'tool_choice' is only allowed when 'tools' are specified"));
    }
    request.allows_calls = json.string_at("tool_choice").as_deref() != Some("none");
    let schema = json.member("text").and_then(|text| text.member("format")?.member("schema"));
    request.output = schema.map(|schema| schema.to_value());
    let input = json.member("input").ok_or_else(|| Failure::invalid("missing required parameter: 'input'"))?;
    let items = input.items();
    if let Some(text) = input.string() {
        request.entries.push(Entry::User(text));
        request.bytes = head + size(&input);
    } else if items.is_empty() {
        return Err(Failure::invalid("'input' is empty"));
    }
    let mut calls = OpenCalls::default();
    for item in &items {
        self::item(item, &mut calls, &mut request)?;
    }
    calls.check()?;
    if !items.is_empty() {
        measure(&mut request, head, &items, is_model);
    }
    Ok(request)
}

fn is_model(item: &Json) -> bool {
    match item.string_at("type").as_deref() {
        None | Some("message") => item.string_at("role").as_deref() == Some("assistant"),
        Some(kind) => kind != "function_call_output",
    }
}

/// Joins what is said to the turn before: a turn of this wire is several items.
fn model_says(calls: Vec<PastCall>, request: &mut Request) {
    match request.entries.last_mut() {
        Some(Entry::Model(there)) => there.extend(calls),
        _ => request.entries.push(Entry::Model(calls)),
    }
}

fn item(item: &Json, calls: &mut OpenCalls, request: &mut Request) -> Result<(), Failure> {
    let kind = item.string_at("type").unwrap_or_else(|| "message".to_owned());
    let role = item.string_at("role").unwrap_or_default();
    match (kind.as_str(), role.as_str()) {
        ("function_call", _) => {
            let call = PastCall {
                id: item.string_at("call_id").unwrap_or_default(),
                name: item.string_at("name").unwrap_or_default(),
                arguments: item.string_at("arguments").ok_or_else(|| Failure::invalid("a call without arguments"))?,
            };
            calls.begin(&call)?;
            model_says(vec![call], request);
        }
        ("function_call_output", _) => {
            let id = item.string_at("call_id").unwrap_or_default();
            calls.end(&id)?;
            let output = item.member("output").ok_or_else(|| Failure::invalid("a result without its output"))?;
            let result = PastResult { id, text: texts(&output) };
            match request.entries.last_mut() {
                Some(Entry::Results(results)) => results.push(result),
                _ => request.entries.push(Entry::Results(vec![result])),
            }
        }
        ("reasoning", _) if item.member("encrypted_content").is_some() => model_says(Vec::new(), request),
        ("reasoning", _) => return Err(Failure::invalid("reasoning that is not stored needs 'encrypted_content'")),
        ("message", "assistant") => model_says(Vec::new(), request),
        ("message", "user") => {
            calls.check()?;
            let content = item.member("content").ok_or_else(|| Failure::invalid("a message without content"))?;
            request.entries.push(Entry::User(texts(&content)));
        }
        ("message", "system" | "developer") => calls.check()?,
        _ => return Err(Failure::invalid(format!("an item of the type '{kind}' and role '{role}' cannot stand here"))),
    }
    Ok(())
}
