//! A conversation as the bytes of a request. One file for each wire.
//!
//! Tools, system and messages come first and grow only at their end, so that a request's are a prefix of the next one's
//! and what the provider caches stays valid. What may differ from turn to turn stands behind them.

mod body;
mod chat;
mod messages;
mod responses;

use std::collections::HashSet;

use toolcrib_protocol::json;

use crate::conversation::{Conversation, Item, Part, ToolChoice, ToolResult, Turn};
use crate::json::Json;
use crate::wire::{Target, Wire};

/// The longest name of a tool or a schema.
const NAME: usize = 64;

/// Why a conversation cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Providers refuse the name of a tool or an output schema.
    #[error("the name `{0}` has other characters than letters, digits, `_` and `-`, or more than 64 of them")]
    Name(String),
    /// Two tools have one name.
    #[error("two tools are named `{0}`")]
    SameTool(String),
    /// The choice names a tool that is not offered.
    #[error("the tool `{0}` must be called and is not offered")]
    NoSuchTool(String),
    /// A call without a result, or with two.
    #[error("the call `{0}` does not have exactly one result")]
    Result(String),
    /// A result without a call.
    #[error("there is a result for `{0}`, which is no call of the turn before")]
    Call(String),
    /// There is nothing to answer.
    #[error("the conversation is empty")]
    Empty,
}

/// The bytes of the request that asks `target` to continue `conversation`.
pub fn render(conversation: &Conversation, target: &Target) -> Result<Vec<u8>, RenderError> {
    check(conversation)?;
    let body = match target.wire {
        Wire::Chat => chat::body(conversation, target),
        Wire::Responses => responses::body(conversation, target),
        Wire::Messages => messages::body(conversation, target),
    };
    Ok(body.finish(&conversation.options.extra))
}

/// What every provider insists on.
fn check(conversation: &Conversation) -> Result<(), RenderError> {
    let mut names = HashSet::new();
    for tool in &conversation.tools {
        check_name(&tool.name)?;
        if !names.insert(tool.name.as_str()) {
            return Err(RenderError::SameTool(tool.name.clone()));
        }
    }
    if let ToolChoice::Tool(name) = &conversation.options.tool_choice
        && !names.contains(name.as_str())
    {
        return Err(RenderError::NoSuchTool(name.clone()));
    }
    if let Some(output) = &conversation.options.output {
        check_name(&output.name)?;
    }
    if conversation.items.is_empty() {
        return Err(RenderError::Empty);
    }
    let mut before: Option<&Turn> = None;
    for item in conversation.items.iter().map(Some).chain([None]) {
        let results = if let Some(Item::Results(results)) = item { results.as_slice() } else { &[] };
        check_results(before, results)?;
        before = if let Some(Item::Model(turn)) = item { Some(turn) } else { None };
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), RenderError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > NAME || !name.bytes().all(fits) {
        return Err(RenderError::Name(name.to_owned()));
    }
    Ok(())
}

/// Whether `results` are one for each call of the turn before.
fn check_results(turn: Option<&Turn>, results: &[ToolResult]) -> Result<(), RenderError> {
    let mut open: HashSet<&str> = turn.iter().flat_map(|turn| &turn.calls).map(|call| call.id.as_str()).collect();
    let known = open.clone();
    for result in results {
        if !known.contains(result.call.as_str()) {
            return Err(RenderError::Call(result.call.clone()));
        }
        if !open.remove(result.call.as_str()) {
            return Err(RenderError::Result(result.call.clone()));
        }
    }
    let missing = turn.and_then(|turn| turn.calls.iter().find(|call| open.contains(call.id.as_str())));
    missing.map_or(Ok(()), |call| Err(RenderError::Result(call.id.clone())))
}

impl Turn {
    /// Whether the model at `target` gets back what was sent, byte for byte.
    fn returns_to(&self, target: &Target) -> bool {
        self.wire == target.wire && self.origin == target.origin && !self.has_dropped_calls
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    json::write_string(&mut out, text);
    out
}

/// The text parts joined; other parts as `describe` says.
fn joined(parts: &[Part]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Image { media_type, .. } => format!("[image: {media_type}]"),
            Part::ToolReference(name) => format!("[tool: {name}]"),
        })
        .collect();
    texts.join("\n")
}

/// The text of a result on a wire that has no mark for failures.
fn marked(text: String, is_error: bool) -> String {
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if is_error && !says_so { format!("error: {text}") } else { text }
}

/// A schema as OpenAI and Anthropic want one: an object that has properties, if only none.
fn parameters(schema: &Json) -> Json {
    use toolcrib_protocol::raw::Edit;
    if !schema.is_object() {
        return Json::from(&serde_json::json!({"type": "object", "properties": {}}));
    }
    if schema.get("type").is_some() && schema.get("properties").is_some() {
        return schema.clone();
    }
    schema.edit(&[("type", Edit::Add("\"object\"")), ("properties", Edit::Add("{}"))]).into()
}

/// The arguments of a call as an object, for a wire that allows nothing else. What is no object is wrapped, so that the
/// model sees what it wrote.
pub(crate) fn object_of_arguments(arguments: &str) -> Json {
    match Json::parse(arguments.to_owned()) {
        Ok(json) if json.is_object() => json,
        _ => Json::from(&serde_json::json!({"INVALID_JSON": arguments})),
    }
}

/// The arguments of a call as a text that every engine reads.
fn text_of_arguments(arguments: &str) -> String {
    object_of_arguments(arguments).as_str().to_owned()
}

#[cfg(test)]
mod tests;
