//! Responses, whole and as a stream.

use super::draft::{Arguments, Draft, FoundCall};
use super::malformed;
use crate::answer::{AnswerError, Delta, Finish};
use crate::error::ModelError;
use crate::json::Json;
use crate::usage;
use crate::wire::Wire;

/// Whether an output item is a call that we answer.
pub(super) fn is_call(item: &Json) -> bool {
    matches!(item.string_at("type").as_deref(), Some("function_call" | "custom_tool_call"))
}

/// The whole body of a response.
pub(super) fn whole(body: &Json) -> Result<Draft, AnswerError> {
    let items = body.member("output").map(|output| output.items());
    of_response(body, items.unwrap_or_default())
}

fn of_response(body: &Json, items: Vec<Json>) -> Result<Draft, AnswerError> {
    if body.member("error").is_some() {
        return Err(ModelError::of_event(body).into());
    }
    let status = body.string_at("status");
    if body.member("output").is_none() && status.is_none() {
        return Err(malformed(Wire::Responses, "no output"));
    }
    let mut draft = Draft::new(Wire::Responses);
    for item in &items {
        read_item(item, &mut draft);
    }
    draft.finish = match status.as_deref() {
        None | Some("completed") => None,
        Some("incomplete") => {
            let reason = body.member("incomplete_details").and_then(|details| details.string_at("reason"));
            Some(match reason.as_deref() {
                Some("max_output_tokens") | None => Finish::Length,
                Some("content_filter") => Finish::ContentFilter,
                Some(reason) => Finish::Other(reason.chars().take(64).collect()),
            })
        }
        Some(status) => Some(Finish::Other(status.chars().take(64).collect())),
    };
    draft.usage = body.member("usage").filter(|usage| usage.is_object()).map(|usage| usage::responses(&usage));
    draft.model = body.string_at("model");
    draft.id = body.string_at("id");
    draft.items = items;
    Ok(draft)
}

fn read_item(item: &Json, draft: &mut Draft) {
    let parts = |key: &str| item.member(key).map(|parts| parts.items()).unwrap_or_default();
    match item.string_at("type").as_deref() {
        // Some engines leave out the type of messages.
        Some("message") | None => {
            draft.text.extend(item.string_at("content"));
            for part in parts("content") {
                draft.text.extend(part.string_at("text"));
                if let Some(refusal) = part.string_at("refusal") {
                    draft.refusal.get_or_insert_default().push_str(&refusal);
                }
            }
        }
        Some("reasoning") => {
            let texts = parts("summary").into_iter().chain(parts("content"));
            draft.reasoning.extend(texts.filter_map(|part| part.string_at("text")));
        }
        Some("function_call") => draft.calls.push(FoundCall {
            id: item.string_at("call_id"),
            name: item.string_at("name").unwrap_or_default(),
            arguments: Arguments::of_value(item.member("arguments").as_ref(), true),
        }),
        Some("custom_tool_call") => draft.calls.push(FoundCall {
            id: item.string_at("call_id"),
            name: item.string_at("name").unwrap_or_default(),
            arguments: Arguments::Sound(item.string_at("input").unwrap_or_default()),
        }),
        Some(_) => {}
    }
}

/// A stream so far.
#[derive(Debug, Default)]
pub(super) struct ResponsesStream {
    /// The items that are whole, in the order of their places.
    items: Vec<PlacedItem>,
    /// The response with which the stream ended.
    response: Option<Json>,
}

#[derive(Debug)]
struct PlacedItem {
    place: u64,
    item: Json,
}

impl ResponsesStream {
    /// Takes an event; `true` is the last one.
    pub(super) fn event(&mut self, event: &Json, deltas: &mut Vec<Delta>) -> Result<bool, AnswerError> {
        let kind = event.string_at("type").unwrap_or_default();
        let text = || event.string_at("delta").unwrap_or_default();
        match kind.as_str() {
            "response.output_text.delta" => deltas.push(Delta::Text(text())),
            "response.refusal.delta" => deltas.push(Delta::Refusal(text())),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                deltas.push(Delta::Reasoning(text()));
            }
            "response.output_item.added" => {
                let name = event.member("item").filter(is_call).and_then(|item| item.string_at("name"));
                deltas.extend(name.map(Delta::Call));
            }
            "response.output_item.done" => {
                let place = event.count_at("output_index").unwrap_or(u64::MAX);
                if let Some(item) = event.member("item") {
                    let at = self.items.partition_point(|there| there.place <= place);
                    self.items.insert(at, PlacedItem { place, item });
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.member("response").filter(|response| response.is_object());
                self.response =
                    Some(response.ok_or_else(|| malformed(Wire::Responses, "an end without its response"))?);
                return Ok(true);
            }
            "error" => return Err(ModelError::of_event(event).into()),
            "" if event.member("error").is_some() => return Err(ModelError::of_event(event).into()),
            _ => {}
        }
        Ok(false)
    }

    /// The response names all items once more; some engines leave them out there.
    pub(super) fn into_draft(self) -> Result<Draft, AnswerError> {
        let response = self.response.ok_or_else(|| malformed(Wire::Responses, "no response"))?;
        let mut items = response.member("output").map(|output| output.items()).unwrap_or_default();
        if items.is_empty() {
            items = self.items.into_iter().map(|placed| placed.item).collect();
        }
        of_response(&response, items)
    }
}
