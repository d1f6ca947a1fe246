//! A run as spans of OpenTelemetry, by its conventions for generative AI: `invoke_agent` around `chat` and
//! `execute_tool`. Texts, arguments and results are left out unless they are asked for.

use std::collections::HashMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolcrib_agent::{Entry, Event};
use toolcrib_base::Timestamp;
use toolcrib_store::AgentRunRecord;

/// The spans of a run as the JSON of an OTLP request.
pub(super) fn of(run: &AgentRunRecord, entries: &[Entry], content: bool) -> Value {
    let trace = id(&run.id, "trace", 16);
    let root = id(&run.id, "run", 8);
    let mut spans = Vec::new();
    let mut models: Vec<String> = Vec::new();
    let mut asked: HashMap<u32, (Timestamp, usize)> = HashMap::new();
    let mut left: HashMap<String, Timestamp> = HashMap::new();
    let mut names: HashMap<String, (String, String)> = HashMap::new();
    let mut round = 0;
    let child = |name: String, what: &str, from: Timestamp, to: Timestamp, attributes: Vec<Value>, failed: bool| {
        json!({
            "traceId": trace, "spanId": id(&run.id, what, 8), "parentSpanId": root, "name": name, "kind": 3,
            "startTimeUnixNano": nanos(from), "endTimeUnixNano": nanos(to), "attributes": attributes,
            "status": if failed { json!({"code": 2}) } else { json!({}) },
        })
    };
    for entry in entries {
        match &entry.event {
            Event::Started(start) => models = start.models.iter().map(|model| model.name.clone()).collect(),
            Event::Asked(request) => drop(asked.insert(request.number, (entry.at, request.model))),
            Event::Answered { number, answer } => {
                round += 1;
                for (place, call) in (1..).zip(&answer.calls) {
                    names.insert(format!("{round}.{place}"), (call.name.clone(), call.arguments.clone()));
                }
                let (from, model) = asked.remove(number).unwrap_or((entry.at, 0));
                let name = models.get(model).cloned().unwrap_or_default();
                let mut attributes = vec![
                    text("gen_ai.operation.name", "chat"),
                    text("gen_ai.request.model", &name),
                    number_of("toolcrib.tokens", answer.spent.tokens),
                ];
                if content {
                    attributes.push(text("gen_ai.output.messages", &answer.text));
                }
                spans.push(child(format!("chat {name}"), &format!("ask {number}"), from, entry.at, attributes, false));
            }
            Event::AskFailed { number, failure } => {
                let (from, model) = asked.remove(number).unwrap_or((entry.at, 0));
                let name = models.get(model).cloned().unwrap_or_default();
                let attributes = vec![
                    text("gen_ai.operation.name", "chat"),
                    text("gen_ai.request.model", &name),
                    text("error.type", &format!("{:?}", failure.kind).to_lowercase()),
                ];
                spans.push(child(format!("chat {name}"), &format!("ask {number}"), from, entry.at, attributes, true));
            }
            Event::Intent { call, .. } => drop(left.insert(call.to_string(), entry.at)),
            Event::Result { call, result } => {
                let call = call.to_string();
                let from = left.remove(&call).unwrap_or(entry.at);
                let (name, arguments) = names.get(&call).cloned().unwrap_or_default();
                let mut attributes = of_tool(&name, &call);
                if content {
                    attributes.push(text("gen_ai.tool.call.arguments", &arguments));
                    attributes.push(text("gen_ai.tool.call.result", &result.text));
                }
                let what = format!("call {call}");
                spans.push(child(format!("execute_tool {name}"), &what, from, entry.at, attributes, result.is_error));
            }
            Event::Unknown { call, .. } => {
                let call = call.to_string();
                let from = left.remove(&call).unwrap_or(entry.at);
                let (name, _) = names.get(&call).cloned().unwrap_or_default();
                let mut attributes = of_tool(&name, &call);
                attributes.push(text("error.type", "unknown"));
                let what = format!("call {call}");
                spans.push(child(format!("execute_tool {name}"), &what, from, entry.at, attributes, true));
            }
            _ => {}
        }
    }
    spans.insert(0, whole(run, entries, &trace, &root, content));
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "toolcrib")]},
        "scopeSpans": [{"scope": {"name": "toolcrib"}, "spans": spans}],
    }]})
}

/// The span of the whole run, from its first entry to its last.
fn whole(run: &AgentRunRecord, entries: &[Entry], trace: &str, span: &str, content: bool) -> Value {
    let first = entries.first().map_or(run.started_at, |entry| entry.at);
    let last = entries.last().map_or(first, |entry| entry.at);
    // Of a run that is under way nothing is said.
    let failed = run.state.end.as_deref().filter(|end| *end != "done");
    let mut attributes = vec![
        text("gen_ai.operation.name", "invoke_agent"),
        text("gen_ai.agent.name", &run.agent),
        text("gen_ai.conversation.id", &run.id),
        number_of("toolcrib.tokens", run.state.tokens),
    ];
    if let Some(end) = failed {
        attributes.push(text("error.type", end));
    }
    if content {
        attributes.push(text("gen_ai.input.messages", &run.task));
    }
    let status = if failed.is_some() { json!({"code": 2}) } else { json!({}) };
    json!({
        "traceId": trace, "spanId": span, "name": format!("invoke_agent {}", run.agent), "kind": 1,
        "startTimeUnixNano": nanos(first), "endTimeUnixNano": nanos(last), "attributes": attributes,
        "status": status,
    })
}

fn of_tool(name: &str, call: &str) -> Vec<Value> {
    vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", name),
        text("gen_ai.tool.call.id", call),
    ]
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number_of(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn nanos(at: Timestamp) -> String {
    format!("{}000000", at.0)
}

/// An id of so many bytes, the same at each export of the run.
fn id(run: &str, what: &str, bytes: usize) -> String {
    let digest = Sha256::digest(format!("{run} {what}"));
    digest[..bytes].iter().map(|byte| format!("{byte:02x}")).collect()
}
