//! The events of a run's audit trail, one for each entry of its journal that says what the run did: under which name, about
//! which call and which tool, how long it took. What one entry does not say is remembered from those before it.

use std::time::Duration;

use serde_json::Value;
use toolcrib_agent::{
    Answer, CallId, Decision, End, Entry, Event, Failure, FailureKind, Refusal, RefusalKind, Settlement, Start,
};
use toolcrib_base::{Kind, Timestamp};
use toolcrib_catalog::Catalog;
use toolcrib_model::Money;
use toolcrib_store::Outcome;

use super::audit::RunEvent;
use super::keep::JournalState;
use super::shown::wait_kind;
use super::tools::CALL;

/// The longest name of a tool in an event, in characters: a model may write any.
const NAME: usize = 128;
/// What the texts of ends by a halt begin with.
const HALTED: &str = "halt `";

/// What is remembered of a run.
#[derive(Debug, Default)]
pub(super) struct Trail {
    round: u32,
    model: usize,
    asked_at: Option<Timestamp>,
    /// Of the last answer, in its order.
    calls: Vec<TrailCall>,
}

#[derive(Debug)]
struct TrailCall {
    tool: String,
    /// What it calls changes nothing.
    reads: bool,
    left: Option<Timestamp>,
    approval: Option<String>,
}

// === impl Trail ===

impl Trail {
    /// The event of an entry, if it has one. `state` is as it is after the entry.
    pub(super) fn take(&mut self, start: &Start, entry: &Entry, state: &JournalState) -> Option<RunEvent> {
        match &entry.event {
            Event::Started(start) => Some(started(start)),
            Event::Forked { .. } => {
                self.model = 0;
                None
            }
            Event::Resumed => Some(RunEvent::new("run.resumed")),
            Event::Asked(request) => {
                (self.asked_at, self.model) = (Some(entry.at), request.model);
                None
            }
            Event::Answered { answer, .. } => Some(self.answered(start, answer, entry.at)),
            Event::AskFailed { failure, .. } => Some(self.ask_failed(start, failure, entry.at)),
            Event::ModelChanged { model } => {
                let name = start.models.get(*model).map_or("", |model| &model.name);
                Some(RunEvent::new("model.changed").with("model", name))
            }
            Event::Decided { call, decision } => self.decided(*call, decision),
            Event::Intent { call, .. } => {
                self.call_mut(*call)?.left = Some(entry.at);
                None
            }
            Event::Result { call, result } => Some(self.result(*call, result.is_error, entry.at)),
            Event::Unknown { call, .. } => {
                let event = self.of_call("tool.unknown", *call);
                Some(RunEvent { outcome: Outcome::Error(Kind::Internal), ..event })
            }
            Event::CallWaits { call, on, question: Some(_) } => {
                Some(self.of_call("tool.asked", *call).with("for", wait_kind(on)))
            }
            Event::Replied { call, by, .. } => Some(self.of_call("tool.answered", *call).with("by", by.as_str())),
            Event::Paused { by } => Some(RunEvent::new("run.paused").with("by", by.as_str())),
            Event::Approval { approval, granted, note } => self.approved(approval, *granted, note),
            Event::Settled { call, settlement, by } => {
                let how = match settlement {
                    Settlement::Happened(_) => "happened",
                    Settlement::DidNot => "did_not",
                    Settlement::Repeat => "repeat",
                };
                Some(self.of_call("tool.settled", *call).with("settlement", how).with("by", by.as_str()))
            }
            Event::Waiting(waits) => {
                let waits: Vec<Value> = waits.iter().map(|wait| wait_kind(wait).into()).collect();
                Some(RunEvent::new("run.waiting").with("for", waits))
            }
            Event::Continued => Some(RunEvent::new("run.continued")),
            Event::Raised(_) => Some(RunEvent::new("run.raised")),
            Event::Ended(end) => Some(ended(end, state)),
            _ => None,
        }
    }

    fn answered(&mut self, start: &Start, answer: &Answer, at: Timestamp) -> RunEvent {
        self.round += 1;
        self.calls = answer.calls.iter().map(|call| trail_call(start, &call.name, &call.arguments)).collect();
        let mut event = self.of_model("model.called", start, at);
        event = event.with("tokens", answer.spent.tokens).with("cost", Money(answer.spent.money).to_string());
        event.with("finish", serde_json::to_value(answer.finish).unwrap_or_default()).with("calls", answer.calls.len())
    }

    fn ask_failed(&mut self, start: &Start, failure: &Failure, at: Timestamp) -> RunEvent {
        let outcome = match failure.kind {
            FailureKind::Halted => Outcome::Denied,
            _ => Outcome::Error(Kind::Unavailable),
        };
        let kind = serde_json::to_value(failure.kind).unwrap_or_default();
        RunEvent { outcome, ..self.of_model("model.failed", start, at).with("kind", kind) }
    }

    fn of_model(&mut self, name: &'static str, start: &Start, at: Timestamp) -> RunEvent {
        let duration = Duration::from_millis(self.asked_at.take().map_or(0, |asked| at.since(asked)));
        let model = start.models.get(self.model).map_or("", |model| &model.name);
        RunEvent { duration, ..RunEvent::new(name).with("model", model) }
    }

    fn decided(&mut self, id: CallId, decision: &Decision) -> Option<RunEvent> {
        match decision {
            Decision::Allowed => None,
            Decision::AllowedAs(inner) => {
                self.call_mut(id)?.reads = inner.hints.read_only;
                None
            }
            Decision::Held(approval) => {
                let call = self.call_mut(id)?;
                call.approval = Some(approval.clone());
                let name = if call.reads { "approval.requested" } else { "connector.write.approval_requested" };
                Some(RunEvent { approval: Some(approval.clone()), ..self.of_call(name, id) })
            }
            Decision::Refused(refusal) => Some(self.refused(id, refusal)),
        }
    }

    fn refused(&self, id: CallId, refusal: &Refusal) -> RunEvent {
        let is_write = self.call(id).is_some_and(|call| !call.reads);
        let is_denied = refusal.kind == RefusalKind::Denied;
        let name = if is_denied && is_write { "connector.write.blocked" } else { "tool.blocked" };
        let reason = match refusal.kind {
            RefusalKind::UnknownTool => "unknown_tool",
            RefusalKind::Invalid => "invalid",
            RefusalKind::Denied => "denied",
            RefusalKind::Disapproved => "disapproved",
            RefusalKind::TooMany => "too_many",
            RefusalKind::Unsettled => "unsettled",
            RefusalKind::RunEnded => "run_ended",
        };
        let event = self.of_call(name, id).with("reason", reason);
        RunEvent { outcome: Outcome::Denied, denied: Some(reason), ..event }
    }

    fn result(&self, id: CallId, is_error: bool, at: Timestamp) -> RunEvent {
        let call = self.call(id);
        let is_governed = call.is_some_and(|call| call.approval.is_some() && !call.reads);
        let name = match (is_governed, is_error) {
            (false, false) => "tool.executed",
            (false, true) => "tool.failed",
            (true, false) => "connector.write.executed",
            (true, true) => "connector.write.failed",
        };
        let outcome = if is_error { Outcome::ToolError } else { Outcome::Ok };
        let left = call.and_then(|call| call.left);
        let duration = Duration::from_millis(left.map_or(0, |left| at.since(left)));
        let approval = call.and_then(|call| call.approval.clone());
        RunEvent { outcome, duration, approval, ..self.of_call(name, id) }
    }

    fn approved(&self, approval: &str, granted: bool, note: &str) -> Option<RunEvent> {
        let place = self.calls.iter().position(|call| call.approval.as_deref() == Some(approval))?;
        let id = CallId { round: self.round, place: u32::try_from(place).ok()? + 1 };
        let name = match (self.calls[place].reads, granted) {
            (true, true) => "approval.granted",
            (true, false) => "approval.denied",
            (false, true) => "connector.write.approved",
            (false, false) => "connector.write.denied",
        };
        let mut event = self.of_call(name, id).with("note", note);
        if !granted {
            (event.outcome, event.denied) = (Outcome::Denied, Some("disapproved"));
        }
        Some(RunEvent { approval: Some(approval.to_owned()), ..event })
    }

    fn of_call(&self, name: &'static str, id: CallId) -> RunEvent {
        let mut event = RunEvent::new(name).with("call", id.to_string());
        if let Some(call) = self.call(id) {
            event = event.with("tool", call.tool.as_str());
            if let Some((connector, _)) = call.tool.split_once('/') {
                event = event.with("connector", connector);
            }
        }
        event
    }

    fn call(&self, id: CallId) -> Option<&TrailCall> {
        self.calls.get(usize::try_from(id.place).ok()?.checked_sub(1)?).filter(|_| id.round == self.round)
    }

    fn call_mut(&mut self, id: CallId) -> Option<&mut TrailCall> {
        self.calls.get_mut(usize::try_from(id.place).ok()?.checked_sub(1)?).filter(|_| id.round == self.round)
    }
}

fn started(start: &Start) -> RunEvent {
    let models: Vec<Value> = start.models.iter().map(|model| model.name.as_str().into()).collect();
    let event = RunEvent::new("run.started").with("models", models).with("tools", start.tools.len());
    match &start.parent {
        Some(parent) => event.with("parent", parent.run.as_str()).with("parent_call", parent.call.to_string()),
        None => event,
    }
}

fn ended(end: &End, state: &JournalState) -> RunEvent {
    let (name, outcome) = match end {
        End::Done(_) => ("run.completed", Outcome::Ok),
        End::Cancelled(by) if by.starts_with(HALTED) => ("session.halted", Outcome::Denied),
        End::Cancelled(_) => ("run.cancelled", Outcome::Cancelled),
        _ => ("run.failed", Outcome::Error(Kind::Internal)),
    };
    let state = &state.state;
    let mut event = RunEvent { outcome, ..RunEvent::new(name).with("end", end.name()) };
    if let End::Cancelled(by) = end {
        let halt = by.strip_prefix(HALTED).and_then(|rest| rest.strip_suffix('`'));
        event.halt = halt.map(str::to_owned);
        event = event.with("by", by.as_str());
    }
    event = event.with("rounds", state.rounds).with("calls", state.calls).with("tokens", state.tokens);
    event.with("cost", Money(state.money).to_string())
}

/// What a call of the model calls: through the menu, the tool that its arguments name.
fn trail_call(start: &Start, name: &str, arguments: &str) -> TrailCall {
    let tool = start.tools.iter().find(|tool| tool.name == name);
    let reads = tool.is_some_and(|tool| tool.hints.read_only);
    let named = match tool {
        Some(tool) if tool.id == CALL => {
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            arguments["name"].as_str().unwrap_or(CALL).to_owned()
        }
        Some(tool) => tool.id.clone(),
        None => name.to_owned(),
    };
    TrailCall { tool: named.chars().take(NAME).collect(), reads, left: None, approval: None }
}

/// The risk class of a tool, as the labels of its server say.
pub(super) fn risk_class(loaded: &Catalog, tool: &str) -> Option<String> {
    let (server, name) = tool.split_once('/')?;
    let server = loaded.servers.iter().find(|(known, _)| known.as_str() == server).map(|(_, server)| server)?;
    let of_tool = server.tool_labels.iter().filter(|labels| labels.pattern.matches(name));
    let of_tool = of_tool.filter_map(|labels| labels.labels.get("risk")).next();
    of_tool.or_else(|| server.labels.get("risk")).cloned()
}

#[cfg(test)]
mod tests;
