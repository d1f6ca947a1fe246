//! The calls of one answer: how far each is, and which may leave now.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::nearest::prefix;

use super::repeats::CallKey;
use super::texts;
use crate::answer::ModelCall;
use crate::entry::{CallId, Question, Refusal, RefusalKind, Reply, WaitFor};
use crate::tool::{Hints, Tools};

/// The bytes of an unknown name that are given back.
const SHOWN_NAME: usize = 128;

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not decided.
    New,
    /// The run refuses it by itself; that is not written yet.
    Refusable(Refusal),
    /// It may leave.
    Allowed,
    /// It waits for this approval.
    Held(String),
    /// It left.
    Running,
    /// It left in a process that is gone, and may not be repeated.
    Orphaned,
    /// It left and waits for something outside.
    Waits(WaitFor),
    /// It is not known whether it happened, and the run waits for a person.
    Unsettled,
    /// It has its result.
    Done,
}

/// One call.
#[derive(Debug, Clone)]
pub(super) struct TurnCall {
    pub(super) id: CallId,
    pub(super) model_id: String,
    pub(super) tool: String,
    pub(super) arguments: Arc<str>,
    pub(super) key: CallKey,
    pub(super) hints: Hints,
    pub(super) agent: bool,
    pub(super) stage: Stage,
    pub(super) approval: Option<String>,
    pub(super) after: Option<WaitFor>,
    /// What it asks a person, and how often it did.
    pub(super) question: Option<Question>,
    pub(super) asked: u32,
    /// What the person answered.
    pub(super) reply: Option<Reply>,
    pub(super) attempts: u32,
    /// Attempts whose end is not known.
    pub(super) lost: u32,
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl TurnCall {
    /// Whether it asks a person, or is about to be told the answer, and is lost with the process that made it.
    pub(super) fn waits_in_process(&self) -> bool {
        let waits = matches!(self.stage, Stage::Waits(_)) || self.stage == Stage::Allowed && self.reply.is_some();
        waits && self.question.as_ref().is_some_and(|question| question.in_process)
    }
}

/// The calls of an answer, in its order.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    pub(super) calls: Vec<TurnCall>,
    /// A call of it left.
    pub(super) begun: bool,
}

impl Turn {
    pub(super) fn new(round: u32, calls: &[ModelCall], tools: &Tools, most: u32) -> Self {
        let numbered = (1..).zip(calls);
        let calls = numbered.map(|(place, call)| turn_call(CallId { round, place }, call, tools, most)).collect();
        Self { calls, begun: false }
    }

    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut TurnCall> {
        let place = usize::try_from(id.place).ok()?.checked_sub(1)?;
        self.calls.get_mut(place).filter(|call| call.id == id)
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.stage == Stage::Done)
    }

    pub(super) fn is_running(&self) -> bool {
        self.calls.iter().any(|call| call.stage == Stage::Running)
    }

    /// The calls that may leave now: read-only ones together, others alone and in order, none before those that it
    /// follows. A call that is held or waits does not stop reads beside it.
    pub(super) fn ready(&self) -> Vec<&TurnCall> {
        let mut ready = Vec::new();
        let mut all_before_done = true;
        for call in &self.calls {
            if call.stage == Stage::Done {
                continue;
            }
            if call.hints.read_only {
                if call.stage == Stage::Allowed {
                    ready.push(call);
                }
                all_before_done = false;
                continue;
            }
            if call.stage == Stage::Allowed && all_before_done {
                ready.push(call);
            }
            break;
        }
        ready
    }

    #[cfg(test)]
    pub(super) fn allowed(&self) -> Vec<&TurnCall> {
        self.calls.iter().filter(|call| call.stage == Stage::Allowed).collect()
    }

    /// What the calls wait for that wait.
    pub(super) fn waits(&self) -> Vec<WaitFor> {
        let waits = self.calls.iter().filter_map(|call| match &call.stage {
            Stage::Held(approval) => Some(WaitFor::Approval(approval.clone())),
            Stage::Waits(on) => Some(on.clone()),
            Stage::Unsettled => Some(WaitFor::Settlement(call.id)),
            _ => None,
        });
        waits.collect()
    }
}

fn turn_call(id: CallId, call: &ModelCall, tools: &Tools, most: u32) -> TurnCall {
    let text = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
    let parsed = match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("another kind of JSON".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let tool = tools.get(&call.name);
    let refuse = |kind, why: String, nearest| Stage::Refusable(Refusal { kind, why, nearest });
    let stage = match (&parsed, tool) {
        _ if id.place > most => refuse(RefusalKind::TooMany, texts::too_many(most), Vec::new()),
        (_, None) => {
            let name = prefix(&call.name, SHOWN_NAME);
            refuse(RefusalKind::UnknownTool, format!("there is no `{name}`"), tools.nearest(name))
        }
        (Err(problem), Some(_)) => refuse(RefusalKind::Invalid, texts::not_json(problem), Vec::new()),
        (Ok(_), Some(_)) => Stage::New,
    };
    TurnCall {
        id,
        model_id: call.id.clone(),
        tool: call.name.clone(),
        arguments: text.into(),
        key: parsed.map_or_else(|_| CallKey::of_text(&call.name, text), |value| CallKey::new(&call.name, &value)),
        hints: tool.map(|tool| tool.hints).unwrap_or_default(),
        agent: tool.is_some_and(|tool| tool.agent),
        stage,
        approval: None,
        after: None,
        question: None,
        asked: 0,
        reply: None,
        attempts: 0,
        lost: 0,
        text: String::new(),
        is_error: false,
    }
}
