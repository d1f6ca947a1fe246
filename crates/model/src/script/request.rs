//! What a request asks, read from any wire and checked as its provider checks it.

mod chat;
mod messages;
mod responses;

use std::collections::HashSet;

use serde_json::Value;

use super::Failure;
use crate::json::Json;
use crate::wire::Wire;

/// A request that is right.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether a stream of chat completions says its usage.
    pub(super) wants_usage: bool,
    /// Whether tools may be called.
    pub(super) allows_calls: bool,
    pub(super) tools: Vec<Offer>,
    /// The schema that the text must follow.
    pub(super) output: Option<Value>,
    pub(super) entries: Vec<Entry>,
    /// The bytes that the model reads, and how many of them an earlier request had too.
    pub(super) bytes: usize,
    pub(super) bytes_before: usize,
    /// Whether something is marked for the cache, on the wire that has marks.
    pub(super) has_marks: bool,
}

/// A tool that is offered.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

/// What was said.
#[derive(Debug)]
pub(super) enum Entry {
    User(String),
    Model(Vec<PastCall>),
    Results(Vec<PastResult>),
}

/// A call of an earlier turn.
#[derive(Debug, Clone)]
pub(super) struct PastCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A result of one.
#[derive(Debug, Clone)]
pub(super) struct PastResult {
    pub(super) id: String,
    pub(super) text: String,
}

impl Request {
    pub(super) fn read(wire: Wire, bytes: &[u8]) -> Result<Self, Failure> {
        let json = Json::parse(bytes.to_vec()).map_err(|fault| Failure::invalid(fault.to_string()))?;
        if !json.is_object() {
            return Err(Failure::invalid("the body is not an object"));
        }
        match wire {
            Wire::Chat => chat::read(&json),
            Wire::Responses => responses::read(&json),
            Wire::Messages => messages::read(&json),
        }
    }

    /// How often the model has answered before.
    pub(super) fn turn(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Model(_))).count()
    }

    /// What the user said last.
    pub(super) fn last_user_text(&self) -> &str {
        let texts =
            self.entries.iter().rev().filter_map(|entry| if let Entry::User(text) = entry { Some(text) } else { None });
        texts.map(String::as_str).next().unwrap_or_default()
    }

    /// The results that nobody has answered to.
    pub(super) fn last_results(&self) -> &[PastResult] {
        match self.entries.last() {
            Some(Entry::Results(results)) => results,
            _ => &[],
        }
    }

    /// The call that a result belongs to.
    pub(super) fn call_of(&self, id: &str) -> Option<&PastCall> {
        let calls = self
            .entries
            .iter()
            .rev()
            .filter_map(|entry| if let Entry::Model(calls) = entry { Some(calls) } else { None });
        calls.flatten().find(|call| call.id == id)
    }

    /// The id of the call at `index` in the answer to this request: like no other one of the conversation.
    pub(super) fn call_id(&self, index: usize) -> String {
        format!("call_{}_{index}", self.turn())
    }
}

/// The members of a request that all wires have, once their names are known.
fn begin(json: &Json, known: &[&str]) -> Result<Request, Failure> {
    let mut seen = HashSet::new();
    for member in json.members() {
        if !known.contains(&member.key.as_ref()) {
            return Err(Failure::invalid(format!("unrecognized request argument: {}", member.key)));
        }
        if !seen.insert(member.key.clone()) {
            return Err(Failure::invalid(format!("the argument {} stands twice", member.key)));
        }
    }
    let model = json.string_at("model").filter(|model| !model.is_empty());
    Ok(Request {
        model: model.ok_or_else(|| Failure::invalid("you must provide a model parameter"))?,
        stream: json.member("stream").is_some_and(|stream| stream.as_str() == "true"),
        wants_usage: true,
        allows_calls: true,
        tools: Vec::new(),
        output: None,
        entries: Vec::new(),
        bytes: 0,
        bytes_before: 0,
        has_marks: false,
    })
}

/// A tool, whose names and schema are at these members.
fn offer(tool: &Json, schema: &str, request: &mut Request) -> Result<(), Failure> {
    let name = tool.string_at("name").unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
        return Err(Failure::invalid(format!(
            "invalid name of a tool: '{name}' does not match ^[a-zA-Z0-9_-]{{1,64}}$"
        )));
    }
    if request.tools.iter().any(|tool| tool.name == name) {
        return Err(Failure::invalid(format!("tool names must be unique: {name}")));
    }
    let description = tool.string_at("description").unwrap_or_default();
    let schema = tool.member(schema).filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| Failure::invalid(format!("the tool {name} has no schema")))?;
    if schema.string_at("type").as_deref() != Some("object") {
        return Err(Failure::invalid(format!("the schema of {name} must have the type \"object\"")));
    }
    request.tools.push(Offer { name, description, schema: schema.to_value() });
    Ok(())
}

/// The calls that wait for their results while a conversation is read.
#[derive(Debug, Default)]
struct OpenCalls {
    open: Vec<String>,
    all: HashSet<String>,
}

impl OpenCalls {
    fn begin(&mut self, call: &PastCall) -> Result<(), Failure> {
        if call.id.is_empty() || call.name.is_empty() {
            return Err(Failure::invalid("a call needs an id and a name"));
        }
        if !self.all.insert(call.id.clone()) {
            return Err(Failure::invalid(format!("ids of calls must be unique: {}", call.id)));
        }
        self.open.push(call.id.clone());
        Ok(())
    }

    fn end(&mut self, id: &str) -> Result<(), Failure> {
        let at = self.open.iter().position(|open| open == id);
        let at =
            at.ok_or_else(|| Failure::invalid(format!("unexpected result: '{id}' is no call that waits for one")))?;
        self.open.remove(at);
        Ok(())
    }

    /// Before anything but a result.
    fn check(&self) -> Result<(), Failure> {
        match self.open.first() {
            Some(id) => Err(Failure::invalid(format!("no result found for the call '{id}'"))),
            None => Ok(()),
        }
    }
}

/// The texts in a content: one text, or parts of these types.
fn texts(content: &Json) -> String {
    if let Some(text) = content.string() {
        return text;
    }
    let texts: Vec<String> = content.items().iter().filter_map(|part| part.string_at("text")).collect();
    texts.join("\n")
}

/// The bytes of a value without cache marks, which move from request to request.
fn size(value: &Json) -> usize {
    const MARKS: [&str; 2] =
        [r#","cache_control":{"type":"ephemeral"}"#, r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#];
    let text = value.as_str();
    text.len() - MARKS.iter().map(|mark| text.matches(mark).count() * mark.len()).sum::<usize>()
}

/// Adds the bytes of the messages: all of them, and those before the last turn of the model.
fn measure(request: &mut Request, head: usize, messages: &[Json], is_model: impl Fn(&Json) -> bool) {
    let sizes: Vec<usize> = messages.iter().map(size).collect();
    request.bytes = head + sizes.iter().sum::<usize>();
    // Items of one turn may be several: the turn begins behind the last item that is not the model's.
    let last = messages.iter().rposition(&is_model);
    let begin = last.map(|last| messages[..last].iter().rposition(|one| !is_model(one)).map_or(0, |before| before + 1));
    request.bytes_before = begin.map_or(0, |begin| head + sizes[..begin].iter().sum::<usize>());
}
