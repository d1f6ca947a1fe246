//! Messages, whole and as a stream.

use std::collections::BTreeMap;

use super::assembly::Assembly;
use super::draft::{Arguments, Draft, FoundCall};
use super::malformed;
use crate::answer::{AnswerError, Bounds, Delta, Finish};
use crate::error::ModelError;
use crate::json::Json;
use crate::usage;
use crate::wire::Wire;

/// How many blocks an answer may have beside its calls.
const BLOCKS: usize = 4_096;

/// Whether a block is a call that we answer; those of the provider's own tools have other types.
pub(super) fn is_call(block: &Json) -> bool {
    block.string_at("type").as_deref() == Some("tool_use")
}

/// The whole body of a response.
pub(super) fn whole(body: &Json) -> Result<Draft, AnswerError> {
    if body.string_at("type").as_deref() == Some("error") || body.member("error").is_some() {
        return Err(ModelError::of_event(body).into());
    }
    let content = body.member("content").ok_or_else(|| malformed(Wire::Messages, "no content"))?;
    let blocks = match content.string() {
        Some(text) => vec![Json::from(&serde_json::json!({"type": "text", "text": text}))],
        None => content.items(),
    };
    let mut draft = of_blocks(blocks);
    read_end(body, &mut draft);
    draft.usage = body.member("usage").filter(|usage| usage.is_object()).map(|usage| usage::messages(&[usage]));
    draft.model = body.string_at("model");
    draft.id = body.string_at("id");
    Ok(draft)
}

/// Why it ended: members of a whole message, or of the delta that ends a stream.
fn read_end(message: &Json, draft: &mut Draft) {
    let reason = message.string_at("stop_reason");
    if let Some(reason) = reason {
        draft.finish = finish(&reason);
    }
    if draft.finish == Some(Finish::Refusal) {
        draft.refusal = message.member("stop_details").and_then(|details| details.string_at("explanation"));
    }
}

fn finish(reason: &str) -> Option<Finish> {
    Some(match reason {
        "" => return None,
        "end_turn" | "stop_sequence" => Finish::End,
        "tool_use" => Finish::Calls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Refusal,
        "pause_turn" => Finish::Paused,
        other => Finish::Other(other.chars().take(64).collect()),
    })
}

fn of_blocks(blocks: Vec<Json>) -> Draft {
    let mut draft = Draft::new(Wire::Messages);
    for block in &blocks {
        match block.string_at("type").as_deref() {
            Some("text") => draft.text.extend(block.string_at("text")),
            Some("thinking") => draft.reasoning.extend(block.string_at("thinking")),
            Some("tool_use") => draft.calls.push(FoundCall {
                id: block.string_at("id"),
                name: block.string_at("name").unwrap_or_default(),
                arguments: Arguments::of_value(block.member("input").as_ref(), false),
            }),
            _ => {}
        }
    }
    draft.items = blocks;
    draft
}

/// A stream so far.
#[derive(Debug, Default)]
pub(super) struct MessagesStream {
    blocks: BTreeMap<u64, Block>,
    calls: usize,
    usage: Vec<Json>,
    /// What says why it ended.
    end: Option<Json>,
    model: Option<String>,
    id: Option<String>,
}

#[derive(Debug)]
struct Block {
    content: Assembly,
    /// The pieces of its `input`.
    input: String,
}

impl MessagesStream {
    /// Takes an event; `true` is the last one.
    pub(super) fn event(&mut self, event: &Json, bounds: Bounds, deltas: &mut Vec<Delta>) -> Result<bool, AnswerError> {
        match event.string_at("type").as_deref() {
            Some("message_start") => {
                if let Some(message) = event.member("message") {
                    self.model = message.string_at("model");
                    self.id = message.string_at("id");
                    self.add_usage(&message);
                }
            }
            Some("content_block_start") => self.start(event, bounds, deltas)?,
            Some("content_block_delta") => self.delta(event, deltas)?,
            Some("message_delta") => {
                self.add_usage(event);
                self.end = event.member("delta").or_else(|| self.end.take());
            }
            Some("message_stop") => return Ok(true),
            Some("error") => return Err(ModelError::of_event(event).into()),
            None if event.member("error").is_some() => return Err(ModelError::of_event(event).into()),
            _ => {}
        }
        Ok(false)
    }

    /// One usage for the start and one for what follows: a stream may report as often as it likes.
    fn add_usage(&mut self, of: &Json) {
        if let Some(usage) = of.member("usage").filter(|usage| usage.is_object()) {
            self.usage.truncate(1);
            self.usage.push(usage);
        }
    }

    fn start(&mut self, event: &Json, bounds: Bounds, deltas: &mut Vec<Delta>) -> Result<(), AnswerError> {
        let block = event.member("content_block").filter(|block| block.is_object());
        let block = block.ok_or_else(|| malformed(Wire::Messages, "a block without its content"))?;
        if is_call(&block) {
            self.calls += 1;
            deltas.push(Delta::Call(block.string_at("name").unwrap_or_default()));
        }
        if self.calls > bounds.calls || self.blocks.len() >= BLOCKS {
            return Err(AnswerError::TooManyCalls { limit: bounds.calls });
        }
        deltas.extend(block.string_at("text").filter(|text| !text.is_empty()).map(Delta::Text));
        let next = self.blocks.last_key_value().map_or(0, |(index, _)| index.saturating_add(1));
        // An index that is missing or was there begins a block all the same.
        let index = event.count_at("index").filter(|index| !self.blocks.contains_key(index)).unwrap_or(next);
        self.blocks.insert(index, Block { content: Assembly::Whole(block), input: String::new() });
        Ok(())
    }

    fn delta(&mut self, event: &Json, deltas: &mut Vec<Delta>) -> Result<(), AnswerError> {
        let Some(delta) = event.member("delta") else { return Ok(()) };
        let last = self.blocks.last_key_value().map(|(index, _)| *index);
        let index = event.count_at("index").filter(|index| self.blocks.contains_key(index)).or(last);
        let block = index.and_then(|index| self.blocks.get_mut(&index));
        let block = block.ok_or_else(|| malformed(Wire::Messages, "a piece of a block that did not begin"))?;
        let text = |key: &str| delta.string_at(key).unwrap_or_default();
        match delta.string_at("type").as_deref() {
            Some("input_json_delta") => block.input.push_str(&text("partial_json")),
            Some("citations_delta") => {
                if let Some(citation) = delta.member("citation") {
                    block.content.append("citations", &citation);
                }
            }
            kind => {
                match kind {
                    Some("text_delta") => deltas.push(Delta::Text(text("text"))),
                    Some("thinking_delta") => deltas.push(Delta::Reasoning(text("thinking"))),
                    _ => {}
                }
                for member in delta.members().iter().filter(|member| member.key != "type") {
                    block.content.join_member(&member.key, &Json::from(delta.part(member.value)));
                }
            }
        }
        Ok(())
    }

    pub(super) fn into_draft(self) -> Result<Draft, AnswerError> {
        let blocks = self.blocks.into_values().map(|mut block| {
            if !block.input.trim().is_empty() {
                let input = match Json::parse(block.input.clone()) {
                    Ok(input) => Assembly::Whole(input),
                    Err(_) => Assembly::Text(block.input),
                };
                block.content.set("input", input);
            }
            block.content.to_json()
        });
        let mut draft = of_blocks(blocks.collect());
        if let Some(end) = &self.end {
            read_end(end, &mut draft);
        }
        draft.usage = (!self.usage.is_empty()).then(|| usage::messages(&self.usage));
        draft.model = self.model;
        draft.id = self.id;
        Ok(draft)
    }
}
