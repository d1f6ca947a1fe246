//! A reply as the bytes of a response, whole or as a stream, in the form of each provider.

use serde_json::{Value, json};
use toolcrib_protocol::sse::Event;

use super::request::Request;
use super::{Reply, ReplyFinish, ScriptResponse};
use crate::wire::Wire;

/// How many bytes of text or arguments one event carries.
const PIECE: usize = 24;
/// What stands where a provider puts encrypted reasoning or a signature.
const SEAL: &str = "c2NyaXB0ZWQ=";
/// When every answer was made: a script has no clock.
const CREATED: u64 = 1_700_000_000;

/// What was used, in tokens of four bytes.
struct Counts {
    input: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
}

impl Counts {
    fn new(request: &Request, reply: &Reply) -> Self {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        let calls = reply.calls.iter().map(|call| call.name.len() + call.arguments.len() + 8).sum::<usize>();
        let reasoning = tokens(reply.reasoning.len());
        let input = tokens(request.bytes);
        Self {
            input,
            cached: u64::try_from(request.bytes_before / 4).unwrap_or(u64::MAX).min(input),
            output: reasoning + tokens(reply.text.len() + calls),
            reasoning,
        }
    }
}

pub(super) fn write(wire: Wire, request: &Request, reply: &Reply) -> ScriptResponse {
    let counts = Counts::new(request, reply);
    let mut body = if request.stream {
        let events = match wire {
            Wire::Chat => chat_events(request, reply, &counts),
            Wire::Responses => responses_events(request, reply, &counts),
            Wire::Messages => messages_events(request, reply, &counts),
        };
        let mut body: Vec<u8> = events.iter().flat_map(|event| named(wire, event).to_bytes()).collect();
        if wire == Wire::Chat {
            body.extend_from_slice(b"data: [DONE]\n\n");
        }
        body
    } else {
        let value = match wire {
            Wire::Chat => chat_body(request, reply, &counts),
            Wire::Responses => responses_body(request, reply, &counts),
            Wire::Messages => messages_body(request, reply, &counts),
        };
        value.to_string().into_bytes()
    };
    body.truncate(reply.cut.unwrap_or(usize::MAX));
    let content_type = if request.stream { "text/event-stream" } else { "application/json" };
    ScriptResponse { status: 200, content_type, retry_after: None, body }
}

fn named(wire: Wire, event: &Value) -> Event {
    let name = event["type"].as_str().filter(|_| wire != Wire::Chat).map(str::to_owned);
    Event { event: name, ..Event::data(event.to_string().into()) }
}

/// `text` in pieces, cut between characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let end = (PIECE.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        out.push(piece);
        rest = after;
    }
    out
}

fn id(prefix: &str, request: &Request) -> String {
    format!("{prefix}_{}", request.turn())
}

fn chat_finish(reply: &Reply) -> &'static str {
    match reply.finish {
        ReplyFinish::Length => "length",
        ReplyFinish::Filter => "content_filter",
        ReplyFinish::Complete if !reply.calls.is_empty() => "tool_calls",
        ReplyFinish::Complete | ReplyFinish::Refusal => "stop",
    }
}

fn chat_usage(reply: &Reply, counts: &Counts) -> Value {
    if reply.hides_usage {
        return Value::Null;
    }
    json!({
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning}
    })
}

fn chat_body(request: &Request, reply: &Reply, counts: &Counts) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let is_refusal = reply.finish == ReplyFinish::Refusal;
    if is_refusal {
        message["refusal"] = json!(reply.text);
    } else if !reply.text.is_empty() || reply.calls.is_empty() {
        message["content"] = json!(reply.text);
    }
    if !reply.reasoning.is_empty() {
        message["reasoning_content"] = json!(reply.reasoning);
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": chat_finish(reply)});
    let mut body = json!({
        "id": id("chatcmpl", request), "object": "chat.completion", "created": CREATED, "model": request.model,
        "choices": [choice]
    });
    if !reply.hides_usage {
        body["usage"] = chat_usage(reply, counts);
    }
    body
}

fn chat_events(request: &Request, reply: &Reply, counts: &Counts) -> Vec<Value> {
    let chunk = |choices: Value| {
        json!({
            "id": id("chatcmpl", request), "object": "chat.completion.chunk", "created": CREATED,
            "model": request.model, "choices": choices
        })
    };
    let delta = |delta: Value, finish: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]));
    // Before calls alone there is no content, not an empty one.
    let content = if reply.text.is_empty() && !reply.calls.is_empty() { Value::Null } else { json!("") };
    let mut out = vec![delta(json!({"role": "assistant", "content": content, "refusal": null}), Value::Null)];
    let key = if reply.finish == ReplyFinish::Refusal { "refusal" } else { "content" };
    out.extend(pieces(&reply.reasoning).iter().map(|piece| delta(json!({"reasoning_content": piece}), Value::Null)));
    out.extend(pieces(&reply.text).iter().map(|piece| delta(json!({key: piece}), Value::Null)));
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let begin = json!({"index": index, "id": call.id, "type": "function", "function": function});
        out.push(delta(json!({"tool_calls": [begin]}), Value::Null));
        out.extend(pieces(&call.arguments).iter().map(|piece| {
            delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), Value::Null)
        }));
    }
    out.push(delta(json!({}), json!(chat_finish(reply))));
    if request.wants_usage && !reply.hides_usage {
        let mut last = chunk(json!([]));
        last["usage"] = chat_usage(reply, counts);
        out.push(last);
    }
    out
}

fn messages_usage(request: &Request, counts: &Counts) -> Value {
    let (cached, writes) = if request.has_marks { (counts.cached, counts.input - counts.cached) } else { (0, 0) };
    json!({
        "input_tokens": counts.input - cached - writes,
        "cache_creation_input_tokens": writes,
        "cache_read_input_tokens": cached,
        "cache_creation": {"ephemeral_5m_input_tokens": writes, "ephemeral_1h_input_tokens": 0},
        "output_tokens": counts.output
    })
}

fn messages_finish(reply: &Reply) -> &'static str {
    match reply.finish {
        ReplyFinish::Length => "max_tokens",
        ReplyFinish::Filter | ReplyFinish::Refusal => "refusal",
        ReplyFinish::Complete if !reply.calls.is_empty() => "tool_use",
        ReplyFinish::Complete => "end_turn",
    }
}

fn messages_body(request: &Request, reply: &Reply, counts: &Counts) -> Value {
    let mut content = Vec::new();
    if !reply.reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": reply.reasoning, "signature": SEAL}));
    }
    if !reply.text.is_empty() {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    for call in &reply.calls {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
    }
    json!({
        "id": id("msg", request), "type": "message", "role": "assistant", "model": request.model, "content": content,
        "stop_reason": messages_finish(reply), "stop_sequence": null, "usage": messages_usage(request, counts)
    })
}

fn messages_events(request: &Request, reply: &Reply, counts: &Counts) -> Vec<Value> {
    let body = messages_body(request, reply, counts);
    let mut start = body.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    let mut out = vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
    let mut calls = reply.calls.iter();
    for (index, block) in body["content"].as_array().into_iter().flatten().enumerate() {
        let (empty, deltas) = match block["type"].as_str() {
            Some("thinking") => {
                let thoughts = pieces(&reply.reasoning).into_iter();
                let mut deltas: Vec<Value> =
                    thoughts.map(|piece| json!({"type": "thinking_delta", "thinking": piece})).collect();
                deltas.push(json!({"type": "signature_delta", "signature": SEAL}));
                (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
            }
            Some("text") => {
                let texts = pieces(&reply.text).into_iter().map(|piece| json!({"type": "text_delta", "text": piece}));
                (json!({"type": "text", "text": ""}), texts.collect())
            }
            _ => {
                let mut empty = block.clone();
                empty["input"] = json!({});
                let arguments = calls.next().map(|call| pieces(&call.arguments)).unwrap_or_default();
                let inputs =
                    arguments.into_iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
                (empty, inputs.collect())
            }
        };
        out.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        out.extend(
            deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        out.push(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"stop_reason": messages_finish(reply), "stop_sequence": null});
    out.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": counts.output}}));
    out.push(json!({"type": "message_stop"}));
    out
}

fn responses_items(request: &Request, reply: &Reply) -> Vec<Value> {
    let mut out = Vec::new();
    if !reply.reasoning.is_empty() {
        out.push(json!({
            "id": id("rs", request), "type": "reasoning", "encrypted_content": SEAL,
            "summary": [{"type": "summary_text", "text": reply.reasoning}]
        }));
    }
    let is_refusal = reply.finish == ReplyFinish::Refusal;
    if !reply.text.is_empty() {
        let part = if is_refusal {
            json!({"type": "refusal", "refusal": reply.text})
        } else {
            json!({"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []})
        };
        out.push(json!({
            "id": id("msg", request), "type": "message", "role": "assistant", "status": "completed", "content": [part]
        }));
    }
    for call in &reply.calls {
        out.push(json!({
            "id": format!("fc_{}", call.id), "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": "completed"
        }));
    }
    out
}

fn responses_body(request: &Request, reply: &Reply, counts: &Counts) -> Value {
    let (status, details) = match reply.finish {
        ReplyFinish::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
        ReplyFinish::Filter => ("incomplete", json!({"reason": "content_filter"})),
        ReplyFinish::Complete | ReplyFinish::Refusal => ("completed", Value::Null),
    };
    let usage = if reply.hides_usage {
        Value::Null
    } else {
        json!({
            "input_tokens": counts.input,
            "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
            "output_tokens": counts.output,
            "output_tokens_details": {"reasoning_tokens": counts.reasoning},
            "total_tokens": counts.input + counts.output
        })
    };
    json!({
        "id": id("resp", request), "object": "response", "created_at": CREATED, "status": status, "error": null,
        "incomplete_details": details, "model": request.model, "output": responses_items(request, reply),
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "usage": usage
    })
}

fn responses_events(request: &Request, reply: &Reply, counts: &Counts) -> Vec<Value> {
    let body = responses_body(request, reply, counts);
    let mut start = body.clone();
    start["status"] = json!("in_progress");
    start["output"] = json!([]);
    start["usage"] = Value::Null;
    let mut out = vec![json!({"type": "response.created", "response": start})];
    for (index, item) in body["output"].as_array().into_iter().flatten().enumerate() {
        let kind = item["type"].as_str().unwrap_or_default();
        let mut empty = item.clone();
        let at = json!({"item_id": item["id"], "output_index": index});
        let mut deltas = Vec::new();
        let mut delta = |name: &str, more: Value, piece: &str| {
            let mut event = json!({"type": name, "delta": piece, "item_id": at["item_id"], "output_index": index});
            for (key, value) in more.as_object().into_iter().flatten() {
                event[key] = value.clone();
            }
            deltas.push(event);
        };
        match kind {
            "reasoning" => {
                empty["summary"] = json!([]);
                for piece in pieces(&reply.reasoning) {
                    delta("response.reasoning_summary_text.delta", json!({"summary_index": 0}), piece);
                }
            }
            "message" => {
                empty["content"] = json!([]);
                let refusal = reply.finish == ReplyFinish::Refusal;
                let name = if refusal { "response.refusal.delta" } else { "response.output_text.delta" };
                for piece in pieces(&reply.text) {
                    delta(name, json!({"content_index": 0, "logprobs": []}), piece);
                }
            }
            _ => {
                empty["arguments"] = json!("");
                for piece in pieces(item["arguments"].as_str().unwrap_or_default()) {
                    delta("response.function_call_arguments.delta", json!({}), piece);
                }
            }
        }
        if empty.get("status").is_some() {
            empty["status"] = json!("in_progress");
        }
        out.push(json!({"type": "response.output_item.added", "output_index": index, "item": empty}));
        if kind == "message" {
            let part = match reply.finish {
                ReplyFinish::Refusal => json!({"type": "refusal", "refusal": ""}),
                _ => json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
            };
            out.push(json!({
                "type": "response.content_part.added", "item_id": item["id"], "output_index": index,
                "content_index": 0, "part": part
            }));
        }
        out.extend(deltas);
        out.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let name = if reply.finish == ReplyFinish::Complete || reply.finish == ReplyFinish::Refusal {
        "completed"
    } else {
        "incomplete"
    };
    out.push(json!({"type": format!("response.{name}"), "response": body}));
    for (number, event) in out.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    out
}
