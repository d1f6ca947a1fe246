//! OpenAI chat completions: what OpenAI, Gemini and local engines read.

use serde_json::json;
use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::{Writer, array};

use super::body::Body;
use super::{joined, marked, parameters, quoted, text_of_arguments};
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
                let mut function = Writer::object(tool.input_schema.as_str().len() + 128);
                function.text("name", &tool.name);
                if !tool.description.is_empty() {
                    function.text("description", &tool.description);
                }
                let parameters = parameters(&tool.input_schema);
                function.member("parameters", parameters.as_str());
                if target.strict && fits(&parameters, Subset::OpenAi).is_ok() {
                    function.member("strict", "true");
                }
                let mut out = Writer::object(256);
                out.text("type", "function");
                out.member("function", function.finish().as_str());
                out.finish()
            })
            .collect();
        body.list("tools", &tools);
    }
    body.list("messages", &messages(conversation, target));
    options(&mut body, conversation, target);
    body
}

fn messages(conversation: &Conversation, target: &Target) -> Vec<Raw> {
    let mut out = Vec::new();
    if !conversation.instructions.is_empty() {
        out.push(message("system", &quoted(&conversation.instructions)));
    }
    for item in &conversation.items {
        match item {
            Item::User(parts) => out.push(message("user", content(parts).as_str())),
            Item::Model(turn) => out.extend(assistant(turn, target)),
            Item::Results(list) => results(list, &mut out),
        }
    }
    out
}

fn message(role: &str, content: &str) -> Raw {
    let mut out = Writer::object(content.len() + 64);
    out.text("role", role);
    out.member("content", content);
    out.finish()
}

fn content(parts: &[Part]) -> Raw {
    if let [Part::Text(text)] = parts {
        return Raw::from_value(text);
    }
    let parts: Vec<Raw> = parts.iter().map(part).collect();
    array(parts.iter().map(Raw::as_str))
}

fn part(part: &Part) -> Raw {
    Raw::from_value(&match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { media_type, data } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}})
        }
        Part::ToolReference(_) => json!({"type": "text", "text": joined(std::slice::from_ref(part))}),
    })
}

/// A turn; none where there is nothing that may be given back.
fn assistant(turn: &Turn, target: &Target) -> Option<Raw> {
    if turn.returns_to(target) {
        // A message without content and calls is refused.
        let sent = turn.items.first()?;
        return (sent.member("content").is_some() || sent.member("tool_calls").is_some()).then(|| Raw::clone(sent));
    }
    if turn.text.is_empty() && turn.calls.is_empty() {
        return None;
    }
    let mut out = Writer::object(turn.text.len() + 128);
    out.text("role", "assistant");
    out.member("content", if turn.text.is_empty() { "null".to_owned() } else { quoted(&turn.text) }.as_str());
    if !turn.calls.is_empty() {
        let calls: Vec<Raw> = turn
            .calls
            .iter()
            .map(|call| {
                let function = json!({"name": call.name, "arguments": text_of_arguments(&call.arguments)});
                Raw::from_value(&json!({"id": call.id, "type": "function", "function": function}))
            })
            .collect();
        out.member("tool_calls", array(calls.iter().map(Raw::as_str)).as_str());
    }
    Some(out.finish())
}

/// A message for each result. Images cannot stand in them, so the user shows them behind.
fn results(results: &[ToolResult], out: &mut Vec<Raw>) {
    for result in results {
        let mut tool = Writer::object(256);
        tool.text("role", "tool");
        tool.text("tool_call_id", &result.call);
        tool.text("content", &marked(joined(&result.content), result.is_error));
        out.push(tool.finish());
    }
    let images = results.iter().flat_map(|result| &result.content).filter(|part| matches!(part, Part::Image { .. }));
    let mut shown: Vec<Raw> = images.map(part).collect();
    if !shown.is_empty() {
        shown.insert(0, part(&Part::Text("The images of the results above, in order:".to_owned())));
        out.push(message("user", array(shown.iter().map(Raw::as_str)).as_str()));
    }
}

fn options(body: &mut Body, conversation: &Conversation, target: &Target) {
    let options = &conversation.options;
    if let Some(tokens) = options.max_output_tokens {
        let key = if target.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body.value(key, &json!(tokens));
    }
    if !conversation.tools.is_empty() {
        match &options.tool_choice {
            ToolChoice::Auto => {}
            ToolChoice::None => body.text("tool_choice", "none"),
            ToolChoice::Any => body.text("tool_choice", "required"),
            ToolChoice::Tool(name) => {
                body.value("tool_choice", &json!({"type": "function", "function": {"name": name}}));
            }
        }
        if options.single_call {
            body.value("parallel_tool_calls", &json!(false));
        }
    }
    if let Some(output) = &options.output {
        let mut schema = Writer::object(output.schema.as_str().len() + 128);
        schema.text("name", &output.name);
        schema.member("schema", output.schema.as_str());
        if target.strict && fits(&output.schema, Subset::OpenAi).is_ok() {
            schema.member("strict", "true");
        }
        let mut format = Writer::object(256);
        format.text("type", "json_schema");
        format.member("json_schema", schema.finish().as_str());
        body.raw("response_format", &format.finish());
    }
    if options.stream {
        body.value("stream", &json!(true));
        if target.stream_usage {
            body.value("stream_options", &json!({"include_usage": true}));
        }
    }
}
