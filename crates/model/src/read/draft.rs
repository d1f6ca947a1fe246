//! An answer as it was read, before its calls have ids of their own and before it is known whether they may run.

use std::collections::HashSet;

use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::{Edit, array};

use crate::answer::{Answer, AnswerError, Bounds, Call, Finish};
use crate::json::Json;
use crate::render::object_of_arguments;
use crate::usage::Usage;
use crate::wire::Wire;

/// What was read.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) wire: Wire,
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) refusal: Option<String>,
    pub(super) calls: Vec<FoundCall>,
    /// `None` where nothing was said.
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<Usage>,
    pub(super) model: Option<String>,
    pub(super) id: Option<String>,
    pub(super) items: Vec<Json>,
}

/// A call as it was sent.
#[derive(Debug)]
pub(super) struct FoundCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

/// The arguments of a call.
#[derive(Debug)]
pub(super) enum Arguments {
    /// What was sent may be given back.
    Sound(String),
    /// What was sent would be refused; an object is given back.
    Repaired(String),
}

impl Arguments {
    /// Arguments in a text.
    pub(super) fn of_text(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Repaired("{}".to_owned());
        }
        match Json::parse(text.to_owned()) {
            Ok(_) => Self::Sound(text.to_owned()),
            Err(_) => Self::Repaired(text.to_owned()),
        }
    }

    /// Arguments in a value that should be a text but may be an object, or the other way round.
    pub(super) fn of_value(value: Option<&Json>, is_text_expected: bool) -> Self {
        let Some(value) = value else { return Self::Repaired("{}".to_owned()) };
        match (value.string(), is_text_expected) {
            (Some(text), true) => Self::of_text(&text),
            (Some(text), false) if text.trim().is_empty() => Self::Repaired("{}".to_owned()),
            (Some(text), false) => Self::Repaired(text),
            (None, false) if !value.is_object() => Self::Repaired(value.as_str().to_owned()),
            (None, _) => Self::Sound(value.as_str().to_owned()),
        }
    }

    fn into_text(self) -> String {
        match self {
            Self::Sound(text) | Self::Repaired(text) => text,
        }
    }
}

impl Draft {
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            text: String::new(),
            reasoning: String::new(),
            refusal: None,
            calls: Vec::new(),
            finish: None,
            usage: None,
            model: None,
            id: None,
            items: Vec::new(),
        }
    }

    /// The answer. Calls get ids of their own, in what is given back too; they are dropped unless the model waits for
    /// their results.
    pub(super) fn into_answer(self, bounds: Bounds) -> Result<Answer, AnswerError> {
        if self.calls.len() > bounds.calls {
            return Err(AnswerError::TooManyCalls { limit: bounds.calls });
        }
        let refusal = self.refusal.filter(|text| !text.is_empty());
        let finish = match self.finish {
            None | Some(Finish::End | Finish::Calls) if !self.calls.is_empty() => Finish::Calls,
            None | Some(Finish::End | Finish::Calls) if refusal.is_some() => Finish::Refusal,
            None | Some(Finish::Calls) => Finish::End,
            Some(finish) => finish,
        };
        let mut ids = Ids::new(&HashSet::new());
        let mut changes = Vec::with_capacity(self.calls.len());
        let mut calls = Vec::with_capacity(self.calls.len());
        for found in self.calls {
            let (id, new_id) = ids.take(found.id);
            let arguments = match &found.arguments {
                Arguments::Sound(_) => None,
                Arguments::Repaired(text) => Some(object_of_arguments(text)),
            };
            changes.push(Change { id: new_id, arguments });
            calls.push(Call { id, name: found.name, arguments: found.arguments.into_text() });
        }
        let mut items = self.items;
        apply(self.wire, &mut items, &changes);
        let dropped_calls = if finish == Finish::Calls { 0 } else { calls.len() };
        if dropped_calls > 0 {
            calls.clear();
        }
        Ok(Answer {
            wire: self.wire,
            text: self.text,
            reasoning: self.reasoning,
            refusal,
            calls,
            dropped_calls,
            finish,
            usage: self.usage,
            model: self.model,
            id: self.id,
            items,
        })
    }
}

impl Answer {
    /// Gives new ids to calls whose id is in `taken`, in what is given back too: some engines count from zero in every
    /// turn.
    pub fn rename_calls(&mut self, taken: &HashSet<String>) {
        let mut ids = Ids::new(taken);
        let mut changes = Vec::with_capacity(self.calls.len());
        for call in &mut self.calls {
            let (id, new_id) = ids.take(Some(std::mem::take(&mut call.id)));
            call.id = id;
            changes.push(Change { id: new_id, arguments: None });
        }
        apply(self.wire, &mut self.items, &changes);
    }
}

/// Ids that were given out.
struct Ids {
    taken: HashSet<String>,
    next: usize,
}

impl Ids {
    fn new(taken: &HashSet<String>) -> Self {
        Self { taken: taken.clone(), next: 1 }
    }

    /// `id` if it is free, else a new one, which is also given apart. New ones have nine letters and digits, which every
    /// provider accepts.
    fn take(&mut self, id: Option<String>) -> (String, Option<String>) {
        if let Some(id) = id.filter(|id| !id.is_empty())
            && self.taken.insert(id.clone())
        {
            return (id, None);
        }
        loop {
            let id = format!("call{:05}", self.next);
            self.next += 1;
            if self.taken.insert(id.clone()) {
                return (id.clone(), Some(id));
            }
        }
    }
}

/// What of a call is given back otherwise than it was sent.
struct Change {
    id: Option<String>,
    arguments: Option<Json>,
}

/// Changes the calls in `items`, in their order. Nothing else of them is touched.
fn apply(wire: Wire, items: &mut [Json], changes: &[Change]) {
    if changes.iter().all(|change| change.id.is_none() && change.arguments.is_none()) {
        return;
    }
    let mut changes = changes.iter();
    for item in items {
        match wire {
            Wire::Chat => {
                let Some(calls) = item.member("tool_calls") else { continue };
                let calls: Vec<Raw> = calls
                    .items()
                    .iter()
                    .map(|call| match call.is_object().then(|| changes.next()).flatten() {
                        Some(change) => change_of_chat(call, change),
                        None => Raw::clone(call),
                    })
                    .collect();
                let calls = array(calls.iter().map(Raw::as_str));
                *item = item.edit(&[("tool_calls", Edit::Set(calls.as_str()))]).into();
            }
            Wire::Responses if super::responses::is_call(item) => {
                let Some(change) = changes.next() else { return };
                let key =
                    if item.string_at("type").as_deref() == Some("function_call") { "arguments" } else { "input" };
                let arguments = change.arguments.as_ref().map(|arguments| Raw::from_value(&arguments.as_str()));
                *item = edited(item, "call_id", change.id.as_deref(), key, arguments.as_ref());
            }
            Wire::Messages if super::messages::is_call(item) => {
                let Some(change) = changes.next() else { return };
                *item = edited(item, "id", change.id.as_deref(), "input", change.arguments.as_deref());
            }
            Wire::Responses | Wire::Messages => {}
        }
    }
}

fn change_of_chat(call: &Json, change: &Change) -> Raw {
    let mut call = edited(call, "id", change.id.as_deref(), "", None);
    if let Some(arguments) = &change.arguments
        && let Some(function) = call.member("function")
    {
        let text = Raw::from_value(&arguments.as_str());
        let function = function.edit(&[("arguments", Edit::Set(text.as_str()))]);
        call = call.edit(&[("function", Edit::Set(function.as_str()))]).into();
    }
    Raw::clone(&call)
}

fn edited(item: &Json, id_key: &str, id: Option<&str>, key: &str, value: Option<&Raw>) -> Json {
    let id = id.map(|id| Raw::from_value(&id));
    let mut edits = Vec::new();
    edits.extend(id.as_ref().map(|id| (id_key, Edit::Set(id.as_str()))));
    edits.extend(value.map(|value| (key, Edit::Set(value.as_str()))));
    if edits.is_empty() { item.clone() } else { item.edit(&edits).into() }
}
