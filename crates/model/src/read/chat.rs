//! Chat completions, whole and as a stream.

use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::Edit;

use super::assembly::Assembly;
use super::draft::{Arguments, Draft, FoundCall};
use super::malformed;
use crate::answer::{AnswerError, Bounds, Delta, Finish};
use crate::error::ModelError;
use crate::json::Json;
use crate::usage::{self, Usage};
use crate::wire::Wire;

/// The names under which engines send the reasoning that people may see.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// The whole body of a response.
pub(super) fn whole(body: &Json) -> Result<Draft, AnswerError> {
    fail_if_told(body)?;
    let choices = body.member("choices").map(|choices| choices.items()).unwrap_or_default();
    let choice = choices.first().ok_or_else(|| malformed(Wire::Chat, "no choice"))?;
    fail_if_told(choice)?;
    let message = choice.member("message").filter(|message| message.is_object());
    let message = message.ok_or_else(|| malformed(Wire::Chat, "no message"))?;
    let mut draft = of_message(message);
    draft.finish = choice.string_at("finish_reason").and_then(|reason| finish(&reason));
    draft.usage = usage_of(body);
    draft.model = body.string_at("model");
    draft.id = body.string_at("id");
    Ok(draft)
}

/// Some providers answer 200 and an error.
fn fail_if_told(value: &Json) -> Result<(), AnswerError> {
    match value.member("error") {
        Some(_) => Err(ModelError::of_event(value).into()),
        None => Ok(()),
    }
}

fn usage_of(body: &Json) -> Option<Usage> {
    let counts = body.member("usage").or_else(|| body.member("x_groq")?.member("usage"))?;
    counts.is_object().then(|| usage::chat(&counts, body.member("timings").as_ref()))
}

fn finish(reason: &str) -> Option<Finish> {
    Some(match reason.to_ascii_lowercase().as_str() {
        "" => return None,
        "stop" | "end_turn" | "eos" => Finish::End,
        "tool_calls" | "function_call" | "tool_use" => Finish::Calls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" => Finish::ContentFilter,
        "refusal" => Finish::Refusal,
        _ => Finish::Other(reason.chars().take(64).collect()),
    })
}

/// A message, whether it came whole or was put together.
fn of_message(message: Json) -> Draft {
    let mut draft = Draft::new(Wire::Chat);
    if let Some(content) = message.member("content") {
        read_content(&content, &mut draft);
    }
    if let Some(reasoning) = REASONING.iter().find_map(|key| message.string_at(key)) {
        draft.reasoning.push_str(&reasoning);
    }
    draft.refusal = message.string_at("refusal");
    let calls = message.member("tool_calls").map(|calls| calls.items()).unwrap_or_default();
    draft.calls = calls.iter().filter(|call| call.is_object()).map(call).collect();
    // What comes back must say whose it is, also where the engine left that out.
    let message = if message.string_at("role").is_some() {
        message
    } else {
        message.edit(&[("role", Edit::Set("\"assistant\""))]).into()
    };
    draft.items = vec![message];
    draft
}

/// A text, or parts: texts, and thoughts that consist of texts.
fn read_content(content: &Json, draft: &mut Draft) {
    if let Some(text) = content.string() {
        draft.text.push_str(&text);
    }
    for part in content.items() {
        let Some(text) = part.string().or_else(|| part.string_at("text")) else {
            if let Some(thoughts) = part.member("thinking") {
                let texts = thoughts.items();
                let texts = texts.iter().filter_map(|thought| thought.string_at("text"));
                draft.reasoning.extend(thoughts.string().into_iter().chain(texts));
            } else if let Some(refusal) = part.string_at("refusal") {
                draft.refusal = Some(refusal);
            }
            continue;
        };
        draft.text.push_str(&text);
    }
}

/// A call of any type: one that is unknown becomes a call of a tool that is unknown, which can be answered.
fn call(call: &Json) -> FoundCall {
    let id = call.string_at("id");
    if let Some(function) = call.member("function").filter(|function| function.is_object()) {
        let name = function.string_at("name").unwrap_or_default();
        return FoundCall { id, name, arguments: Arguments::of_value(function.member("arguments").as_ref(), true) };
    }
    let kind = call.string_at("type").unwrap_or_default();
    let body = call.member(&kind);
    let name = body.as_ref().and_then(|body| body.string_at("name")).unwrap_or(kind);
    let input = body.as_ref().and_then(|body| body.string_at("input")).unwrap_or_else(|| "{}".to_owned());
    FoundCall { id, name, arguments: Arguments::Sound(input) }
}

/// A stream so far.
#[derive(Debug)]
pub(super) struct ChatStream {
    message: Assembly,
    calls: Vec<CallPieces>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    model: Option<String>,
    id: Option<String>,
}

impl Default for ChatStream {
    fn default() -> Self {
        let (message, calls) = (Assembly::object(), Vec::new());
        Self { message, calls, finish: None, usage: None, model: None, id: None }
    }
}

/// A call so far.
#[derive(Debug)]
struct CallPieces {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// All other members.
    rest: Assembly,
}

impl ChatStream {
    /// Takes a chunk. A stream of this wire ends with `[DONE]`, never with a chunk.
    pub(super) fn chunk(&mut self, chunk: &Json, bounds: Bounds, deltas: &mut Vec<Delta>) -> Result<bool, AnswerError> {
        fail_if_told(chunk)?;
        self.usage = usage_of(chunk).or(self.usage);
        self.model = self.model.take().or_else(|| chunk.string_at("model"));
        self.id = self.id.take().or_else(|| chunk.string_at("id"));
        for choice in chunk.member("choices").map(|choices| choices.items()).unwrap_or_default() {
            if choice.count_at("index").unwrap_or(0) != 0 {
                continue;
            }
            fail_if_told(&choice)?;
            if let Some(delta) = choice.member("delta").filter(|delta| delta.is_object()) {
                self.delta(&delta, bounds, deltas)?;
            }
            if let Some(reason) = choice.string_at("finish_reason") {
                self.finish = finish(&reason).or(self.finish.take());
            }
        }
        Ok(false)
    }

    fn delta(&mut self, delta: &Json, bounds: Bounds, deltas: &mut Vec<Delta>) -> Result<(), AnswerError> {
        for member in delta.members() {
            let piece = Json::from(delta.part(member.value));
            match member.key.as_ref() {
                "tool_calls" => {
                    for call in piece.items().iter().filter(|call| call.is_object()) {
                        self.call(call, bounds, deltas)?;
                    }
                }
                "content" => self.content(&piece, deltas),
                key => {
                    if let Some(text) = piece.string().filter(|text| !text.is_empty()) {
                        match key {
                            "refusal" => deltas.push(Delta::Refusal(text)),
                            _ if REASONING.contains(&key) => deltas.push(Delta::Reasoning(text)),
                            _ => {}
                        }
                    }
                    self.message.join_member(key, &piece);
                }
            }
        }
        Ok(())
    }

    /// Content in one form: a text stays a text until a part comes, then all are parts.
    fn content(&mut self, piece: &Json, deltas: &mut Vec<Delta>) {
        let mut seen = Draft::new(Wire::Chat);
        read_content(piece, &mut seen);
        deltas.extend((!seen.reasoning.is_empty()).then_some(Delta::Reasoning(seen.reasoning)));
        deltas.extend((!seen.text.is_empty()).then_some(Delta::Text(seen.text)));
        let part = |text: &str| Json::from(&serde_json::json!({"type": "text", "text": text}));
        let text = piece.string();
        if self.message.is_list("content") {
            match &text {
                Some(text) if !text.is_empty() => self.message.append("content", &part(text)),
                Some(_) => {}
                None => piece.items().iter().for_each(|item| self.message.append("content", item)),
            }
        } else if piece.is_array() {
            let before = self.message.get("content").and_then(|there| there.string()).filter(|text| !text.is_empty());
            self.message.set("content", Assembly::List(Vec::new()));
            before.iter().for_each(|text| self.message.append("content", &part(text)));
            piece.items().iter().for_each(|item| self.message.append("content", item));
        } else {
            self.message.join_member("content", piece);
        }
    }

    fn call(&mut self, piece: &Json, bounds: Bounds, deltas: &mut Vec<Delta>) -> Result<(), AnswerError> {
        let function = piece.member("function").filter(|function| function.is_object());
        let name = function.as_ref().and_then(|function| function.string_at("name")).unwrap_or_default();
        let (index, id) = (piece.count_at("index"), piece.string_at("id").unwrap_or_default());
        let at = match self.continued(index, &id, &name) {
            Some(at) => at,
            None if self.calls.len() >= bounds.calls => return Err(AnswerError::TooManyCalls { limit: bounds.calls }),
            None => {
                if !name.is_empty() {
                    deltas.push(Delta::Call(name.clone()));
                }
                let (name, arguments, rest) = (String::new(), String::new(), Assembly::object());
                self.calls.push(CallPieces { index, id: String::new(), name, arguments, rest });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        for member in piece.members() {
            if !["index", "id", "function"].contains(&member.key.as_ref()) {
                call.rest.join_member(&member.key, &Json::from(piece.part(member.value)));
            }
        }
        if let Some(arguments) = function.and_then(|function| function.member("arguments")) {
            match arguments.string() {
                Some(text) => call.arguments.push_str(&text),
                None => arguments.as_str().clone_into(&mut call.arguments),
            }
        }
        Ok(())
    }

    /// Which call a piece continues. Engines leave out the index or always send 0, and repeat ids or send none.
    fn continued(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        // A name behind whole arguments begins another call.
        let goes_on = |call: &CallPieces| name.is_empty() || !is_whole(&call.arguments);
        let same_index = |call: &CallPieces| index.is_none() || call.index.is_none() || call.index == index;
        let found = if !id.is_empty() {
            self.calls
                .iter()
                .rposition(|call| (call.id == id || call.id.is_empty() && index.is_some()) && same_index(call))
        } else if index.is_some() {
            self.calls.iter().rposition(|call| call.index == index)
        } else if name.is_empty() {
            self.calls.len().checked_sub(1)
        } else {
            None
        };
        found.filter(|at| goes_on(&self.calls[*at]))
    }

    pub(super) fn into_draft(mut self) -> Result<Draft, AnswerError> {
        if !self.calls.is_empty() {
            self.message.set("tool_calls", Assembly::List(Vec::new()));
        }
        for call in &self.calls {
            let mut whole = Assembly::object();
            whole.set("id", Assembly::Text(call.id.clone()));
            whole.join(&call.rest.to_json());
            if call.rest.get("type").is_none() {
                whole.set("type", Assembly::Text("function".to_owned()));
            }
            let is_function =
                call.rest.get("type").and_then(|kind| kind.string()).is_none_or(|kind| kind == "function");
            if is_function || !call.name.is_empty() {
                let mut function = Assembly::object();
                function.set("name", Assembly::Text(call.name.clone()));
                function.set("arguments", Assembly::Text(call.arguments.clone()));
                whole.set("function", function);
            }
            self.message.append("tool_calls", &whole.to_json());
        }
        let message = self.message.to_json();
        if message.members().is_empty() && self.finish.is_none() {
            return Err(malformed(Wire::Chat, "a stream without a message"));
        }
        let message = if message.get("content").is_none() {
            let null = [("content", Edit::Set("null"))];
            Json::from(Raw::edit(&message, &null))
        } else {
            message
        };
        let mut draft = of_message(message);
        draft.finish = self.finish;
        draft.usage = self.usage;
        draft.model = self.model;
        draft.id = self.id;
        Ok(draft)
    }
}

/// Whether no more of the arguments is to come; asked only of short ones, as it is asked for each piece.
fn is_whole(arguments: &str) -> bool {
    arguments.len() < 65_536
        && arguments.trim_end().ends_with('}')
        && Json::parse(arguments.to_owned()).is_ok_and(|json| json.is_object())
}
