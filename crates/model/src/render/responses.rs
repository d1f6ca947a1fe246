//! OpenAI Responses. Nothing is stored at the provider: its reasoning comes encrypted and is given back.

use serde_json::json;
use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::{Writer, array};

use super::body::Body;
use super::{joined, marked, parameters, text_of_arguments};
use crate::conversation::{Conversation, Item, Part, ToolChoice, ToolResult, Turn};
use crate::strict::{Subset, fits};
use crate::wire::Target;

pub(super) fn body(conversation: &Conversation, target: &Target) -> Body {
    let mut body = Body::default();
    body.text("model", &target.model);
    if !conversation.tools.is_empty() {
        let tools: Vec<Raw> = conversation
            .tools
            .iter()
            .map(|tool| {
                let mut out = Writer::object(tool.input_schema.as_str().len() + 128);
                out.text("type", "function");
                out.text("name", &tool.name);
                if !tool.description.is_empty() {
                    out.text("description", &tool.description);
                }
                let parameters = parameters(&tool.input_schema);
                out.member("parameters", parameters.as_str());
                // Without it this wire takes every schema for strict.
                let strict = target.strict && fits(&parameters, Subset::OpenAi).is_ok();
                out.member("strict", if strict { "true" } else { "false" });
                out.finish()
            })
            .collect();
        body.list("tools", &tools);
    }
    if !conversation.instructions.is_empty() {
        body.text("instructions", &conversation.instructions);
    }
    body.list("input", &input(conversation, target));
    options(&mut body, conversation, target);
    body
}

fn input(conversation: &Conversation, target: &Target) -> Vec<Raw> {
    let mut out = Vec::new();
    for item in &conversation.items {
        match item {
            Item::User(parts) => {
                let mut message = Writer::object(256);
                message.text("type", "message");
                message.text("role", "user");
                message.member("content", content(parts).as_str());
                out.push(message.finish());
            }
            Item::Model(turn) if turn.returns_to(target) => out.extend(turn.items.iter().map(|item| Raw::clone(item))),
            Item::Model(turn) => neutral(turn, &mut out),
            Item::Results(list) => out.extend(list.iter().map(result)),
        }
    }
    out
}

fn content(parts: &[Part]) -> Raw {
    let parts: Vec<Raw> = parts
        .iter()
        .map(|part| {
            Raw::from_value(&match part {
                Part::Image { media_type, data } => {
                    json!({"type": "input_image", "detail": "auto", "image_url": format!("data:{media_type};base64,{data}")})
                }
                Part::Text(_) | Part::ToolReference(_) => {
                    json!({"type": "input_text", "text": joined(std::slice::from_ref(part))})
                }
            })
        })
        .collect();
    array(parts.iter().map(Raw::as_str))
}

/// A turn of another model.
fn neutral(turn: &Turn, out: &mut Vec<Raw>) {
    if !turn.text.is_empty() {
        out.push(Raw::from_value(&json!({"type": "message", "role": "assistant", "content": turn.text})));
    }
    for call in &turn.calls {
        out.push(Raw::from_value(&json!({
            "type": "function_call", "call_id": call.id, "name": call.name, "arguments": text_of_arguments(&call.arguments)
        })));
    }
}

fn result(result: &ToolResult) -> Raw {
    let mut out = Writer::object(256);
    out.text("type", "function_call_output");
    out.text("call_id", &result.call);
    if result.content.iter().any(|part| matches!(part, Part::Image { .. })) {
        let mut parts = result.content.clone();
        if result.is_error {
            parts.insert(0, Part::Text("error:".to_owned()));
        }
        out.member("output", content(&parts).as_str());
    } else {
        out.text("output", &marked(joined(&result.content), result.is_error));
    }
    out.finish()
}

fn options(body: &mut Body, conversation: &Conversation, target: &Target) {
    let options = &conversation.options;
    body.value("store", &json!(false));
    if target.encrypted_reasoning {
        body.value("include", &json!(["reasoning.encrypted_content"]));
    }
    if let Some(tokens) = options.max_output_tokens {
        body.value("max_output_tokens", &json!(tokens));
    }
    if !conversation.tools.is_empty() {
        match &options.tool_choice {
            ToolChoice::Auto => {}
            ToolChoice::None => body.text("tool_choice", "none"),
            ToolChoice::Any => body.text("tool_choice", "required"),
            ToolChoice::Tool(name) => body.value("tool_choice", &json!({"type": "function", "name": name})),
        }
        if options.single_call {
            body.value("parallel_tool_calls", &json!(false));
        }
    }
    if let Some(output) = &options.output {
        let mut format = Writer::object(output.schema.as_str().len() + 128);
        format.text("type", "json_schema");
        format.text("name", &output.name);
        format.member("schema", output.schema.as_str());
        let strict = target.strict && fits(&output.schema, Subset::OpenAi).is_ok();
        format.member("strict", if strict { "true" } else { "false" });
        let mut text = Writer::object(256);
        text.member("format", format.finish().as_str());
        body.raw("text", &text.finish());
    }
    if options.stream {
        body.value("stream", &json!(true));
    }
}
