//! `POST /api/v1/agents/{id}/stream`: a task, and what happens in its run as events, one for each entry of its journal, with
//! its id. With `Last-Event-ID`, or as `GET …/stream?run=ID`, the stream of a run goes on after that entry. A client that
//! goes away ends nothing.

use http::Response;
use serde_json::{Map, Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::Body;

use super::follower::{self, FollowedRun, Narrate, event_id};
use super::{DoorRequest, input};

pub(super) async fn answer(request: DoorRequest) -> Result<Response<Body>, Problem> {
    let (run, after) = follower::last_event(&request)?;
    let run = match run {
        Some(run) => request.find(&run).await?,
        None => request.start(&input::task(&request.body)?).await?,
    };
    let narrator = StreamNarrator::after(run.clone(), after);
    let followed = FollowedRun { run, narrator, first: Vec::new(), entries: 0, ends_with_client: false };
    Ok(follower::stream(request, followed))
}

/// Tells a run in the words of Valinor.
#[derive(Debug, Default)]
pub(super) struct StreamNarrator {
    run: String,
    /// The last entry that the client has.
    after: u64,
    /// The calls of the last answer.
    calls: Vec<Value>,
    /// Decided calls by their place in the run.
    by_id: Map<String, Value>,
    /// Bytes of the answer that were told as they came.
    told: usize,
    /// The last entry.
    last: u64,
    is_ended: bool,
}

impl StreamNarrator {
    /// Of a run whose client has its entries up to this one.
    pub(super) fn after(run: String, after: u64) -> Self {
        Self { run, after, ..Self::default() }
    }

    /// The event of an entry: its name, and what it has beside the entry.
    fn event(&mut self, entry: &Value) -> (&'static str, Value) {
        let call = entry["call"].as_str().unwrap_or_default();
        match entry["event"].as_str().unwrap_or_default() {
            "answered" => {
                self.calls = entry["calls"].as_array().cloned().unwrap_or_default();
                let text = entry["text"].as_str().unwrap_or_default();
                let rest = text.get(self.told..).unwrap_or_default();
                ("chunk", json!({"content": rest, "done": self.calls.is_empty()}))
            }
            "decided" => {
                let place = call.rsplit('.').next().and_then(|place| place.parse::<usize>().ok()).unwrap_or(0);
                let made = self.calls.get(place.wrapping_sub(1)).cloned().unwrap_or_default();
                let tool = made["tool"].clone();
                let event = match entry["decision"].as_str() {
                    Some("held") => (
                        "approval_required",
                        json!({"approval_id": entry["approval"], "tool_name": tool, "arguments": made["arguments"]}),
                    ),
                    Some("refused") => ("tool_blocked", json!({"tool_name": tool, "reason": entry["why"]})),
                    _ => ("runtime_event", json!({"event_type": "tool.allowed", "tool_name": tool})),
                };
                self.by_id.insert(call.to_owned(), made);
                event
            }
            "result" => {
                let tool = self.by_id.get(call).map_or(Value::Null, |made| made["tool"].clone());
                match entry["is_error"].as_bool() {
                    Some(true) => ("tool_failed", json!({"tool_name": tool, "error": entry["text"]})),
                    _ => ("tool_executed", json!({"tool_name": tool})),
                }
            }
            "ended" if entry["end"] == "done" => ("done", json!({"content": entry["text"]})),
            "ended" => {
                let code = entry["end"].as_str().unwrap_or_default().replace(' ', "_");
                ("error", json!({"code": code, "message": follower::end_message(&self.run, entry)}))
            }
            other => {
                let kind = match other {
                    "started" => "run.started",
                    "waiting" => "run.yielded",
                    "paused" => "run.paused",
                    "continued" | "resumed" => "run.resumed",
                    other => other,
                };
                ("runtime_event", json!({"event_type": kind}))
            }
        }
    }
}

impl Narrate for StreamNarrator {
    fn text(&mut self, text: &str, out: &mut Vec<Event>) {
        self.told += text.len();
        // No id: it is no entry, and who comes back gets the whole text with the entry.
        out.push(event("chunk", &json!({"run_id": self.run, "content": text, "done": false}), None));
    }

    fn entry(&mut self, entry: &Value, out: &mut Vec<Event>) {
        let number = entry["number"].as_u64().unwrap_or_default();
        let (name, more) = self.event(entry);
        self.told = 0;
        self.last = number;
        self.is_ended = entry["event"] == "ended";
        if number <= self.after {
            return;
        }
        let mut data = entry.clone();
        data["run_id"] = self.run.as_str().into();
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        out.push(event(name, &data, Some(event_id(&self.run, number))));
    }

    fn rest(&mut self, status: &str, _: &Value, out: &mut Vec<Event>) -> bool {
        if status == "ended" && self.is_ended && self.last < self.after {
            self.failed(&follower::wrong_event(), out);
        }
        status == "ended" && self.is_ended
    }

    fn failed(&mut self, problem: &Problem, out: &mut Vec<Event>) {
        let code = problem.kind.row().name;
        out.push(event("error", &json!({"run_id": self.run, "code": code, "message": problem.message}), None));
    }
}

fn event(name: &str, data: &Value, id: Option<String>) -> Event {
    Event { event: Some(name.to_owned()), data: data.to_string().into(), id, ..Event::default() }
}
