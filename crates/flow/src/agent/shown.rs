//! Runs and their entries as people and programs read them.

use serde_json::{Value, json};
use toolcrib_agent::{CallId, Cost, Decision, End, Entry, Event, Settlement, WaitFor};
use toolcrib_model::Money;
use toolcrib_store::AgentRunRecord;

/// A run in one object; `runs_as` is the principal that it acts as, where that is not its own.
pub(super) fn record(run: &AgentRunRecord, runs_as: Option<&str>) -> Value {
    let mut shown = json!({
        "run": run.id, "agent": run.agent, "model": run.state.model, "task": run.task, "status": run.state.status,
        "principal": run.principal.as_str(), "profile": run.profile.as_str(),
        "rounds": run.state.rounds, "calls": run.state.calls, "tokens": run.state.tokens,
        "cost": Money(run.state.money).to_string(),
        "started_at": run.started_at.to_string(), "changed_at": run.state.changed_at.to_string(),
    });
    for (key, text) in
        [("end", &run.state.end), ("output", &run.state.output), ("parent", &run.parent), ("forked_from", &run.fork_of)]
    {
        if let Some(text) = text {
            shown[key] = text.as_str().into();
        }
    }
    if let Some(principal) = runs_as {
        shown["runs_as"] = principal.into();
    }
    if let Some(at) = run.state.ended_at {
        shown["ended_at"] = at.to_string().into();
    }
    shown
}

/// What a run waits for, in a word.
pub(super) fn wait_kind(wait: &WaitFor) -> &'static str {
    match wait {
        WaitFor::Approval(_) => "approval",
        WaitFor::Settlement(_) => "settlement",
        WaitFor::Person(_) => "person",
        WaitFor::Review(_) => "review",
        WaitFor::Login(_) => "login",
        WaitFor::Run(_) => "run",
        WaitFor::Time(_) => "time",
        WaitFor::Resume => "resume",
    }
}

/// What a run waits for, in words.
pub(super) fn wait(wait: &WaitFor) -> Value {
    let kind = wait_kind(wait);
    let (what, do_next) = match wait {
        WaitFor::Approval(id) => (id.clone(), format!("toolcrib approval approve {id}")),
        WaitFor::Settlement(call) => {
            (call.to_string(), format!("toolcrib run settle RUN {call} happened|did-not|repeat"))
        }
        WaitFor::Person(what) => (what.clone(), String::new()),
        WaitFor::Review(item) => (item.to_string(), format!("toolcrib run release RUN {item}")),
        WaitFor::Login(server) => (server.clone(), format!("toolcrib login {server}")),
        WaitFor::Run(run) => (run.clone(), format!("toolcrib run show {run}")),
        WaitFor::Time(at) => (at.to_string(), String::new()),
        WaitFor::Resume => ("a person".to_owned(), "toolcrib run resume RUN".to_owned()),
    };
    let mut shown = json!({"for": kind, "what": what});
    if !do_next.is_empty() {
        shown["next"] = do_next.into();
    }
    shown
}

/// The text that finds a run by what it waits for.
pub(super) fn wait_key(wait: &WaitFor) -> String {
    match wait {
        WaitFor::Approval(id) => format!("approval:{id}"),
        WaitFor::Settlement(call) => format!("settlement:{call}"),
        WaitFor::Person(what) => format!("person:{what}"),
        WaitFor::Review(item) => format!("review:{item}"),
        WaitFor::Login(server) => format!("login:{server}"),
        WaitFor::Run(run) => format!("run:{run}"),
        WaitFor::Time(at) => format!("time:{}", at.0),
        WaitFor::Resume => "resume".to_owned(),
    }
}

/// The text of an end beside its name.
pub(super) fn end_text(end: &End) -> Option<String> {
    match end {
        End::Done(text)
        | End::Stuck(text)
        | End::Denied(text)
        | End::Refused(text)
        | End::Output(text)
        | End::Cancelled(text) => Some(text.clone()),
        End::Failed(failure) => Some(failure.message.clone()),
        End::Unknown(call) => Some(format!("it is not known whether call {call} happened")),
        End::Limit(_) | End::Filtered | End::Length | End::Window => None,
    }
}

fn cost(cost: Cost) -> Value {
    json!({"tokens": cost.tokens, "cost": Money(cost.money).to_string()})
}

/// One entry, without what a model keeps for itself.
pub(super) fn entry(number: u64, entry: &Entry) -> Value {
    let mut shown = event(&entry.event);
    shown["number"] = number.into();
    shown["at"] = entry.at.to_string().into();
    shown
}

/// What a person said of a call that may have happened.
fn settled(call: CallId, settlement: &Settlement, by: &str) -> Value {
    let how = match settlement {
        Settlement::Happened(_) => "happened",
        Settlement::DidNot => "did_not",
        Settlement::Repeat => "repeat",
    };
    let mut shown = json!({"event": "settled", "call": call.to_string(), "settlement": how, "by": by});
    if let Settlement::Happened(result) = settlement {
        shown["text"] = result.text.as_str().into();
    }
    shown
}

fn event(event: &Event) -> Value {
    match event {
        Event::Started(start) => {
            let mut shown = json!({
                "event": "started", "agent": start.agent, "task": start.task, "profile": start.profile,
                "models": start.models.iter().map(|model| &model.name).collect::<Vec<_>>(),
                "tools": start.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            });
            if let Some(principal) = &start.runs_as {
                shown["runs_as"] = principal.as_str().into();
            }
            if !start.judged.is_nothing() {
                shown["judged"] = cost(start.judged);
            }
            shown
        }
        Event::Judged { reserved, spent } => {
            json!({"event": "judged", "reserved": cost(*reserved), "spent": spent.map(cost)})
        }
        Event::Forked { from, run, round } => json!({"event": "forked", "from": from, "run": run, "round": round}),
        Event::Resumed => json!({"event": "resumed"}),
        Event::Asked(request) => json!({
            "event": "asked", "request": request.number, "model": request.model, "purpose": request.purpose,
            "reserved": cost(request.reserved),
        }),
        Event::Answered { number, answer } => json!({
            "event": "answered", "request": number, "text": answer.text, "finish": answer.finish,
            "calls": answer.calls.iter().map(|call| json!({"tool": call.name, "arguments": call.arguments})).collect::<Vec<_>>(),
            "spent": cost(answer.spent),
        }),
        Event::AskFailed { number, failure } => json!({
            "event": "ask_failed", "request": number, "kind": failure.kind, "message": failure.message,
        }),
        Event::ModelChanged { model } => json!({"event": "model_changed", "model": model}),
        Event::Decided { call, decision } => {
            let mut shown = json!({"event": "decided", "call": call.to_string()});
            match decision {
                Decision::Held(approval) => {
                    (shown["decision"], shown["approval"]) = ("held".into(), approval.as_str().into());
                }
                Decision::Refused(refusal) => {
                    (shown["decision"], shown["why"]) = ("refused".into(), refusal.why.as_str().into());
                    if !refusal.nearest.is_empty() {
                        shown["nearest"] = json!(refusal.nearest);
                    }
                }
                _ => shown["decision"] = "allowed".into(),
            }
            shown
        }
        Event::Intent { call, attempt } => json!({"event": "called", "call": call.to_string(), "attempt": attempt}),
        Event::Result { call, result } => json!({
            "event": "result", "call": call.to_string(), "text": result.text, "is_error": result.is_error,
        }),
        Event::Unknown { call, why, .. } => json!({"event": "unknown", "call": call.to_string(), "why": why}),
        Event::CallWaits { call, on, question } => {
            let mut shown = json!({"event": "call_waits", "call": call.to_string(), "on": wait(on)});
            if let Some(asked) = question.as_ref().and_then(|it| serde_json::from_str::<Value>(it.asked.get()).ok()) {
                shown["questions"] = asked;
            }
            shown
        }
        // What was answered is for the server alone.
        Event::Replied { call, by, .. } => json!({"event": "replied", "call": call.to_string(), "by": by}),
        Event::Paused { by } => json!({"event": "paused", "by": by}),
        Event::Approval { approval, granted, note } => {
            json!({"event": "approval", "approval": approval, "granted": granted, "note": note})
        }
        Event::Settled { call, settlement, by } => settled(*call, settlement, by),
        Event::Arrived(what) => json!({"event": "arrived", "what": wait(what)}),
        Event::Waiting(waits) => json!({"event": "waiting", "on": waits.iter().map(wait).collect::<Vec<_>>()}),
        Event::Continued => json!({"event": "continued"}),
        Event::Checked { problem } => json!({"event": "checked", "problem": problem}),
        Event::Shortened(_) => json!({"event": "shortened"}),
        Event::Said { text } => json!({"event": "said", "text": text}),
        Event::Quarantined { text, why } => json!({"event": "quarantined", "text": text, "why": why}),
        Event::Reviewed { item, released, by } => {
            json!({"event": "reviewed", "item": item, "released": released, "by": by})
        }
        Event::Raised(limits) => json!({"event": "raised", "limits": limits}),
        Event::Cancelled { by } => json!({"event": "cancelled", "by": by}),
        Event::Ended(end) => {
            let mut shown = json!({"event": "ended", "end": end.name()});
            if let Some(text) = end_text(end) {
                shown["text"] = text.into();
            }
            shown
        }
    }
}
