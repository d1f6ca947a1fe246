//! Requests of chat completions.

use super::{Entry, OpenCalls, PastCall, PastResult, Request, begin, measure, offer, size, texts};
use crate::json::Json;
use crate::script::Failure;

const KNOWN: [&str; 22] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "response_format",
    "temperature",
    "top_p",
    "seed",
    "stop",
    "user",
    "metadata",
    "store",
    "reasoning_effort",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "verbosity",
];

pub(super) fn read(json: &Json) -> Result<Request, Failure> {
    let mut request = begin(json, &KNOWN)?;
    let mut head = 0;
    if let Some(tools) = json.member("tools") {
        head += size(&tools);
        for tool in tools.items() {
            let function = tool.member("function").filter(|_| tool.string_at("type").as_deref() == Some("function"));
            offer(
                &function.ok_or_else(|| Failure::invalid("a tool that is no function"))?,
                "parameters",
                &mut request,
            )?;
        }
    } else if json.member("tool_choice").is_some() || json.member("parallel_tool_calls").is_some() {
        return Err(Failure::invalid("'tool_choice' is only allowed when 'tools' are specified"));
    }
    request.allows_calls = json.string_at("tool_choice").as_deref() != Some("none");
    request.wants_usage = json.member("stream_options").and_then(|options| options.member("include_usage")).is_some();
    if json.member("stream_options").is_some() && !request.stream {
        return Err(Failure::invalid("'stream_options' is only allowed when 'stream' is enabled"));
    }
    let schema = json.member("response_format").and_then(|format| format.member("json_schema")?.member("schema"));
    request.output = schema.map(|schema| schema.to_value());
    let messages = json.member("messages").map(|messages| messages.items()).unwrap_or_default();
    if messages.is_empty() {
        return Err(Failure::invalid("[] is too short - 'messages'"));
    }
    let mut calls = OpenCalls::default();
    for message in &messages {
        self::message(message, &mut calls, &mut request)?;
    }
    calls.check()?;
    measure(&mut request, head, &messages, |message| message.string_at("role").as_deref() == Some("assistant"));
    Ok(request)
}

fn message(message: &Json, calls: &mut OpenCalls, request: &mut Request) -> Result<(), Failure> {
    let content = message.member("content");
    let role = message.string_at("role").unwrap_or_default();
    if role == "tool" {
        let id = message.string_at("tool_call_id").unwrap_or_default();
        calls.end(&id)?;
        let text = content.as_ref().map(texts).ok_or_else(|| Failure::invalid("a result without content"))?;
        let result = PastResult { id, text };
        match request.entries.last_mut() {
            Some(Entry::Results(results)) => results.push(result),
            _ => request.entries.push(Entry::Results(vec![result])),
        }
        return Ok(());
    }
    calls.check()?;
    match role.as_str() {
        "system" | "developer" if content.is_some() => {}
        "user" => {
            let text =
                content.as_ref().map(texts).ok_or_else(|| Failure::invalid("a user's message without content"))?;
            request.entries.push(Entry::User(text));
        }
        "assistant" => {
            let sent = message.member("tool_calls").map(|calls| calls.items()).unwrap_or_default();
            if content.is_none() && sent.is_empty() {
                return Err(Failure::invalid("an assistant's message needs 'content' or 'tool_calls'"));
            }
            let mut past = Vec::new();
            for call in &sent {
                let function =
                    call.member("function").ok_or_else(|| Failure::invalid("a call without its function"))?;
                let arguments = function.string_at("arguments");
                let call = PastCall {
                    id: call.string_at("id").unwrap_or_default(),
                    name: function.string_at("name").unwrap_or_default(),
                    arguments: arguments.ok_or_else(|| Failure::invalid("the arguments of a call must be a string"))?,
                };
                if Json::parse(call.arguments.clone()).is_err() {
                    return Err(Failure::invalid("the arguments of a call must be JSON"));
                }
                calls.begin(&call)?;
                past.push(call);
            }
            request.entries.push(Entry::Model(past));
        }
        _ => return Err(Failure::invalid(format!("a message of the role '{role}' cannot stand here"))),
    }
    Ok(())
}
