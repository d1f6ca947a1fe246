//! Anthropic Messages, with cache marks.

use std::collections::{HashMap, HashSet};

use serde_json::json;
use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::{Edit, Writer, array};

use super::body::Body;
use super::{object_of_arguments, parameters};
use crate::conversation::{CacheMarks, Conversation, Item, Part, Tool, ToolChoice, ToolResult, Turn};
use crate::strict::{Subset, fits};
use crate::wire::Target;

/// This wire requires a bound of the answer.
const MAX_TOKENS: u64 = 8_192;
/// How many tools of a request may be strict.
const STRICT_TOOLS: usize = 20;
/// How many of the user's last messages are marked. Two: a mark is looked for in the 20 blocks before one, and a turn may
/// have more.
const MARKED: usize = 2;

pub(super) fn body(conversation: &Conversation, target: &Target) -> Body {
    let mut body = Body::default();
    let options = &conversation.options;
    let mark = mark(options.cache);
    body.text("model", &target.model);
    let system = system(conversation, target);
    if !conversation.tools.is_empty() {
        // Without instructions the last tool ends what stays the same.
        let mark = if system.is_empty() { mark } else { None };
        body.list("tools", &tools(&conversation.tools, target, mark));
    }
    if !system.is_empty() {
        let block = Raw::from_value(&json!({"type": "text", "text": system}));
        body.list("system", &[marked(&block, mark)]);
    }
    body.list("messages", &Messages::new(conversation, target).list(mark));
    body.value("max_tokens", &json!(options.max_output_tokens.unwrap_or(MAX_TOKENS)));
    choice(&mut body, conversation);
    if let Some(output) = &options.output
        && enforces(target, &output.schema)
    {
        let mut format = Writer::object(output.schema.as_str().len() + 64);
        format.text("type", "json_schema");
        format.member("schema", output.schema.as_str());
        let mut config = Writer::object(256);
        config.member("format", format.finish().as_str());
        body.raw("output_config", &config.finish());
    }
    if options.stream {
        body.value("stream", &json!(true));
    }
    body
}

fn enforces(target: &Target, schema: &Raw) -> bool {
    target.strict && fits(&schema.clone().into(), Subset::Anthropic).is_ok()
}

/// The instructions. A schema of the answer that this wire cannot enforce is said in words.
fn system(conversation: &Conversation, target: &Target) -> String {
    let mut text = conversation.instructions.clone();
    if let Some(output) = &conversation.options.output
        && !enforces(target, &output.schema)
    {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str("Your final answer is one JSON value and nothing else. It follows this JSON schema:\n");
        text.push_str(output.schema.as_str());
    }
    text
}

fn mark(marks: CacheMarks) -> Option<&'static str> {
    match marks {
        CacheMarks::Off => None,
        CacheMarks::FiveMinutes => Some(r#"{"type":"ephemeral"}"#),
        CacheMarks::OneHour => Some(r#"{"type":"ephemeral","ttl":"1h"}"#),
    }
}

fn marked(block: &Raw, mark: Option<&str>) -> Raw {
    mark.map_or_else(|| block.clone(), |mark| block.edit(&[("cache_control", Edit::Set(mark))]))
}

fn tools(tools: &[Tool], target: &Target, mark: Option<&str>) -> Vec<Raw> {
    let mut strict_left = STRICT_TOOLS;
    let mut out: Vec<Raw> = Vec::with_capacity(tools.len());
    for tool in tools {
        let mut one = Writer::object(tool.input_schema.as_str().len() + 128);
        one.text("name", &tool.name);
        if !tool.description.is_empty() {
            one.text("description", &tool.description);
        }
        let schema = parameters(&tool.input_schema);
        one.member("input_schema", schema.as_str());
        if strict_left > 0 && enforces(target, &schema) {
            strict_left -= 1;
            one.member("strict", "true");
        }
        if tool.deferred {
            one.member("defer_loading", "true");
        }
        out.push(one.finish());
    }
    if let Some(last) = tools.iter().rposition(|tool| !tool.deferred) {
        out[last] = marked(&out[last], mark);
    }
    out
}

fn choice(body: &mut Body, conversation: &Conversation) {
    let options = &conversation.options;
    if conversation.tools.is_empty() {
        return;
    }
    let mut choice = match &options.tool_choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Any => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    if options.single_call && options.tool_choice != ToolChoice::None {
        choice["disable_parallel_tool_use"] = json!(true);
    }
    if options.tool_choice != ToolChoice::Auto || options.single_call {
        body.value("tool_choice", &choice);
    }
}

/// The messages as lists of blocks.
struct Messages {
    /// Whether the user says it, and its blocks.
    list: Vec<(bool, Vec<Raw>)>,
    /// The ids of the last turn of another model, as this wire allows them.
    ids: HashMap<String, String>,
    /// All ids so far: no two may be the same.
    seen: HashSet<String>,
}

impl Messages {
    fn new(conversation: &Conversation, target: &Target) -> Self {
        let mut messages = Self { list: Vec::new(), ids: HashMap::new(), seen: HashSet::new() };
        for item in &conversation.items {
            match item {
                Item::User(parts) => messages.list.push((true, content(parts))),
                Item::Model(turn) => messages.turn(turn, target),
                Item::Results(list) => {
                    let blocks = list.iter().map(|result| messages.result(result)).collect();
                    messages.list.push((true, blocks));
                }
            }
        }
        messages
    }

    fn turn(&mut self, turn: &Turn, target: &Target) {
        self.ids.clear();
        let blocks: Vec<Raw> = if turn.returns_to(target) {
            self.seen.extend(turn.calls.iter().map(|call| call.id.clone()));
            turn.items.iter().map(|item| Raw::clone(item)).collect()
        } else {
            let text = (!turn.text.trim().is_empty()).then(|| json!({"type": "text", "text": turn.text}));
            let mut blocks: Vec<Raw> = text.iter().map(Raw::from_value).collect();
            for call in &turn.calls {
                let id = self.fitting_id(&call.id);
                let mut block = Writer::object(call.arguments.len() + 128);
                block.text("type", "tool_use");
                block.text("id", &id);
                block.text("name", &call.name);
                block.member("input", object_of_arguments(&call.arguments).as_str());
                blocks.push(block.finish());
                self.ids.insert(call.id.clone(), id);
            }
            blocks
        };
        // A message without blocks is refused.
        if !blocks.is_empty() {
            self.list.push((false, blocks));
        }
    }

    /// `id` in the characters that this wire allows, and like no other one.
    fn fitting_id(&mut self, id: &str) -> String {
        let fits = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
        let plain: String = id.chars().map(|one| if fits(one) { one } else { '_' }).collect();
        let mut candidate = if plain.is_empty() { "call".to_owned() } else { plain.clone() };
        let mut number = 2;
        while !self.seen.insert(candidate.clone()) {
            candidate = format!("{plain}_{number}");
            number += 1;
        }
        candidate
    }

    fn result(&self, result: &ToolResult) -> Raw {
        let mut out = Writer::object(256);
        out.text("type", "tool_result");
        out.text("tool_use_id", self.ids.get(&result.call).unwrap_or(&result.call));
        let blocks: Vec<Raw> = result.content.iter().filter_map(block).collect();
        if !blocks.is_empty() {
            out.member("content", array(blocks.iter().map(Raw::as_str)).as_str());
        }
        if result.is_error {
            out.member("is_error", "true");
        }
        out.finish()
    }

    fn list(mut self, mark: Option<&str>) -> Vec<Raw> {
        let last = self.list.iter_mut().rev().filter(|(is_user, _)| *is_user).take(MARKED);
        for block in last.filter_map(|(_, blocks)| blocks.last_mut()) {
            *block = marked(block, mark);
        }
        let written = self.list.iter().map(|(is_user, blocks)| {
            let mut out = Writer::object(256);
            out.text("role", if *is_user { "user" } else { "assistant" });
            out.member("content", array(blocks.iter().map(Raw::as_str)).as_str());
            out.finish()
        });
        written.collect()
    }
}

fn content(parts: &[Part]) -> Vec<Raw> {
    let blocks: Vec<Raw> = parts.iter().filter_map(block).collect();
    if blocks.is_empty() { vec![Raw::from_value(&json!({"type": "text", "text": "(nothing)"}))] } else { blocks }
}

/// A block; none for an empty text, which is refused.
fn block(part: &Part) -> Option<Raw> {
    let value = match part {
        Part::Text(text) if text.trim().is_empty() => return None,
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { media_type, data } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
        }
        Part::ToolReference(name) => json!({"type": "tool_reference", "tool_name": name}),
    };
    Some(Raw::from_value(&value))
}
