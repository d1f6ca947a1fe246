//! `POST /api/v1/agents/{id}/ag-ui`: the agent for clients of AG-UI 1.0. The body is a `RunAgentInput`, the answer its events
//! over SSE. What waits for a person ends the stream as an interrupt; the next input answers it in `resume`, and the run
//! goes on. A client that goes away before the end cancels the run, as its `abortRun` does.
//!
//! A page's own tools, its state and `forwardedProps` are not read.

use std::collections::HashSet;
use std::fmt::Write as _;

use http::Response;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::RunPosition;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::Body;

use super::follower::{self, FollowedRun, Narrate};
use super::{DoorRequest, input};

/// The longest id of a thread or a run of the client.
const ID: usize = 256;

pub(super) async fn answer(request: DoorRequest) -> Result<Response<Body>, Problem> {
    let (thread, run_id) = (id(&request.body, "threadId")?, id(&request.body, "runId")?);
    let mut narrator = AgUiNarrator { thread, run_id, ..AgUiNarrator::default() };
    let answers = answers(&request.body)?;
    let mut first = vec![narrator.started()];
    let mut position = RunPosition::default();
    if let Some(Answer { run, number, .. }) = answers.first() {
        let run = request.find(run).await?;
        (narrator.run, narrator.after) = (run, *number);
        // What the client has is taken in first: what is said now is of what comes then.
        let look = request.runs.follow(&narrator.run, position).await?;
        first.push(narrator.own("toolcrib/run", &json!({"run": narrator.run, "agent": request.agent})));
        for answer in &answers {
            if look["waits"].as_array().is_some_and(|waits| waits.iter().any(|wait| answer.is_of(wait))) {
                answer.give(&request, &narrator.run).await?;
            }
            narrator.answered.push((answer.kind.clone(), answer.what.clone()));
        }
        for entry in look["entries"].as_array().into_iter().flatten() {
            narrator.entry(entry, &mut first);
            position.entries = entry["number"].as_u64().unwrap_or(position.entries);
        }
    } else {
        let run = request.start(&task(&request.body)?).await?;
        first.push(narrator.own("toolcrib/run", &json!({"run": run, "agent": request.agent})));
        narrator.run = run;
    }
    let run = narrator.run.clone();
    let followed = FollowedRun { run, narrator, first, entries: position.entries, ends_with_client: true };
    Ok(follower::stream(request, followed))
}

fn invalid(what: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParams, what)
}

fn id(body: &Map<String, Value>, key: &str) -> Result<String, Problem> {
    match body.get(key).and_then(Value::as_str) {
        Some(id) if !id.is_empty() && id.len() <= ID => Ok(id.to_owned()),
        _ => {
            Err(invalid(format!("`{key}` must be a text of 1 to {ID} bytes")).hint("Send a `RunAgentInput` of AG-UI."))
        }
    }
}

/// The task of an input: its messages, after what the page says of where it is.
fn task(body: &Map<String, Value>) -> Result<String, Problem> {
    let messages = body.get("messages").ok_or_else(|| invalid("`messages` is missing"))?;
    let task = input::task_of_messages(messages)?;
    let context = match body.get("context") {
        None | Some(Value::Null) => return Ok(task),
        Some(context) => context.as_array().ok_or_else(|| invalid("`context` must be a list"))?,
    };
    let mut whole = String::new();
    for (at, part) in context.iter().enumerate() {
        let (Some(description), Some(value)) = (part["description"].as_str(), part["value"].as_str()) else {
            return Err(invalid(format!("`context[{at}]` needs the texts `description` and `value`")));
        };
        let _ = writeln!(whole, "{description}: {value}");
    }
    if whole.is_empty() {
        return Ok(task);
    }
    Ok(format!("Context:\n{whole}\n{task}"))
}

/// What a person answers to an interrupt.
#[derive(Debug, PartialEq)]
struct Answer {
    run: String,
    /// The last entry before the interrupt.
    number: u64,
    kind: String,
    what: String,
    is_yes: bool,
    is_cancelled: bool,
    payload: Value,
}

fn answers(body: &Map<String, Value>) -> Result<Vec<Answer>, Problem> {
    let list = match body.get("resume") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(list) => list.as_array().ok_or_else(|| invalid("`resume` must be a list"))?,
    };
    let mut answers: Vec<Answer> = Vec::new();
    for (at, entry) in list.iter().enumerate() {
        let wrong = || {
            invalid(format!("`resume[{at}].interruptId` is no interrupt of this agent"))
                .hint("Send the ids of the interrupts of the last `RUN_FINISHED`.")
        };
        let id = entry["interruptId"].as_str().ok_or_else(wrong)?;
        let mut parts = id.splitn(4, ':');
        let (Some(run), Some(number), Some(kind), Some(what)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let number = number.parse().map_err(|_| wrong())?;
        if answers.first().is_some_and(|first| (first.run.as_str(), first.number) != (run, number)) {
            return Err(invalid("`resume` has interrupts of several runs"));
        }
        let payload = entry["payload"].clone();
        let is_yes = match entry["status"].as_str() {
            Some("resolved") => {
                let word = if payload.is_boolean() { &payload } else { &payload["approved"] };
                // A yes is never guessed.
                word.as_bool()
            }
            Some("cancelled") => Some(false),
            _ => return Err(invalid(format!("`resume[{at}].status` must be `resolved` or `cancelled`"))),
        };
        if kind == "approval" && is_yes.is_none() {
            return Err(invalid(format!("`resume[{at}].payload` must say `{{\"approved\": true}}` or `false`")));
        }
        let (run, kind, what) = (run.to_owned(), kind.to_owned(), what.to_owned());
        let (is_yes, is_cancelled) = (is_yes.unwrap_or(false), entry["status"] == "cancelled");
        answers.push(Answer { run, number, kind, what, is_yes, is_cancelled, payload });
    }
    Ok(answers)
}

impl Answer {
    fn is_of(&self, wait: &Value) -> bool {
        wait["for"] == self.kind && wait["what"] == self.what
    }

    /// Says it, with the rights of the caller.
    async fn give(&self, request: &DoorRequest, run: &str) -> Result<(), Problem> {
        match self.kind.as_str() {
            "approval" => {
                let tool = if self.is_yes { "core_approval_approve" } else { "core_approval_deny" };
                let mut arguments = json!({"id": self.what});
                if let Some(reason) = self.payload["reason"].as_str() {
                    arguments["reason"] = reason.into();
                }
                if let Err(problem) = request.operate(tool, &arguments).await {
                    // Another person may have said it a moment ago, and the run goes on with that.
                    let known = request.operate("core_approval_show", &json!({"id": self.what})).await;
                    if !known.is_ok_and(|approval| approval["state"].as_str().is_some_and(|state| state != "open")) {
                        return Err(problem);
                    }
                }
            }
            "settlement" => {
                let how = self.payload["settlement"].as_str().ok_or_else(|| {
                    invalid("the payload of a settlement needs `settlement`: happened, did_not or repeat")
                })?;
                let mut arguments = json!({"run": run, "call": self.what, "settlement": how});
                if let Some(result) = self.payload["result"].as_str() {
                    arguments["result"] = result.into();
                }
                request.operate("core_run_settle", &arguments).await?;
            }
            "resume" if self.is_yes || (self.payload.is_null() && !self.is_cancelled) => {
                request.operate("core_run_resume", &json!({"run": run})).await?;
            }
            "person" | "login" => {
                let refused = json!({"action": "decline"});
                // A page that was opened needs no payload.
                let opened = json!({"action": "accept"});
                let answer = match &self.payload {
                    _ if self.is_cancelled => &refused,
                    Value::Null => &opened,
                    payload => payload,
                };
                let arguments = json!({"run": run, "answer": answer, "to": self.what});
                request.operate("core_run_resume", &arguments).await?;
            }
            // What else is waited for comes by its own way; the run goes on when it has.
            _ => {}
        }
        Ok(())
    }
}

/// Tells a run as events of AG-UI.
#[derive(Debug, Default)]
struct AgUiNarrator {
    thread: String,
    /// The run's id at the client.
    run_id: String,
    run: String,
    /// The last entry that the client has.
    after: u64,
    last: u64,
    /// The number of the request that is being answered.
    request: u64,
    /// Whether the message of that answer was begun.
    is_open: bool,
    /// Bytes of it that were told.
    told: usize,
    /// The calls of the last answer.
    calls: Vec<Value>,
    /// The calls that were told.
    made: HashSet<String>,
    /// Which call waits for an approval.
    held: Map<String, Value>,
    /// What was just answered, and may still stand among what is waited for.
    answered: Vec<(String, String)>,
    is_ended: bool,
}

impl AgUiNarrator {
    fn started(&self) -> Event {
        data(&json!({"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run_id}))
    }

    /// An event that is ours.
    fn own(&self, name: &str, value: &Value) -> Event {
        data(&json!({"type": "CUSTOM", "name": name, "value": value}))
    }

    fn message_id(&self) -> String {
        format!("{}:{}", self.run, self.request)
    }

    fn call_id(&self, call: &str) -> String {
        format!("{}:{call}", self.run)
    }

    fn open(&mut self, out: &mut Vec<Event>) {
        if !self.is_open {
            let id = self.message_id();
            out.push(data(&json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})));
            self.is_open = true;
        }
    }

    fn close(&mut self, out: &mut Vec<Event>) {
        if self.is_open {
            out.push(data(&json!({"type": "TEXT_MESSAGE_END", "messageId": self.message_id()})));
            self.is_open = false;
        }
    }

    fn content(&mut self, text: &str, out: &mut Vec<Event>) {
        if !text.is_empty() {
            self.open(out);
            out.push(data(&json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": self.message_id(), "delta": text})));
        }
    }

    fn decided(&mut self, entry: &Value, out: &mut Vec<Event>) {
        let call = entry["call"].as_str().unwrap_or_default();
        let place = call.rsplit('.').next().and_then(|place| place.parse::<usize>().ok()).unwrap_or(0);
        let made = self.calls.get(place.wrapping_sub(1)).cloned().unwrap_or_default();
        let id = self.call_id(call);
        // What was allowed may still be held or refused when it is made: it is one call.
        if self.made.insert(id.clone()) {
            let name = made["tool"].as_str().unwrap_or_default();
            out.push(data(&json!({
                "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name,
                "parentMessageId": self.message_id(),
            })));
            if let Some(arguments) = made["arguments"].as_str().filter(|arguments| !arguments.is_empty()) {
                out.push(data(&json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments})));
            }
            out.push(data(&json!({"type": "TOOL_CALL_END", "toolCallId": id})));
        }
        if let Some(approval) = entry["approval"].as_str() {
            self.held.insert(approval.to_owned(), id.into());
        } else if entry["decision"] == "refused" {
            out.push(self.result(call, entry["why"].as_str().unwrap_or_default()));
        }
    }

    fn result(&self, call: &str, text: &str) -> Event {
        let id = self.call_id(call);
        data(&json!({
            "type": "TOOL_CALL_RESULT", "messageId": format!("{id}:result"), "toolCallId": id, "content": text,
            "role": "tool",
        }))
    }

    fn told_entry(&mut self, entry: &Value, out: &mut Vec<Event>) {
        let text = entry["text"].as_str().unwrap_or_default();
        match entry["event"].as_str().unwrap_or_default() {
            "started" | "asked" | "called" | "waiting" | "continued" => {}
            "answered" => {
                self.content(text.get(self.told..).unwrap_or_default(), out);
                self.close(out);
            }
            "ask_failed" => {
                self.close(out);
                out.push(self.own("toolcrib/ask_failed", entry));
            }
            "decided" => self.decided(entry, out),
            "result" => out.push(self.result(entry["call"].as_str().unwrap_or_default(), text)),
            "ended" => {
                self.close(out);
                out.push(if entry["end"] == "done" {
                    data(&json!({
                        "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run_id, "result": text,
                        "outcome": {"type": "success"},
                    }))
                } else {
                    let code = entry["end"].as_str().unwrap_or_default().replace(' ', "_");
                    let message = follower::end_message(&self.run, entry);
                    data(&json!({"type": "RUN_ERROR", "message": message, "code": code}))
                });
            }
            other => out.push(self.own(&format!("toolcrib/{other}"), entry)),
        }
    }

    fn interrupt(&self, wait: &Value) -> Value {
        let (kind, what) = (wait["for"].as_str().unwrap_or_default(), wait["what"].as_str().unwrap_or_default());
        let shown = follower::shown_wait(wait, &self.run);
        let mut interrupt = json!({
            "id": format!("{}:{}:{kind}:{what}", self.run, self.last),
            "reason": if kind == "approval" { "tool_call" } else { "input_required" },
            "message": format!("The run waits for {kind} `{what}`."),
            "metadata": {"run": self.run, "wait": shown},
        });
        match kind {
            "approval" => {
                if let Some(call) = self.held.get(what) {
                    interrupt["toolCallId"] = call.clone();
                }
                interrupt["responseSchema"] = json!({
                    "type": "object",
                    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
                    "required": ["approved"],
                });
            }
            "settlement" => {
                interrupt["toolCallId"] = self.call_id(what).into();
                interrupt["responseSchema"] = json!({
                    "type": "object",
                    "properties": {
                        "settlement": {"enum": ["happened", "did_not", "repeat"]}, "result": {"type": "string"},
                    },
                    "required": ["settlement"],
                });
            }
            "person" | "login" => interrupt["responseSchema"] = response_schema(&wait["questions"]),
            _ => {}
        }
        if let Some(message) = message_of(&wait["questions"]) {
            interrupt["message"] = message.into();
        }
        interrupt
    }
}

impl Narrate for AgUiNarrator {
    fn text(&mut self, text: &str, out: &mut Vec<Event>) {
        self.told += text.len();
        self.content(text, out);
    }

    fn entry(&mut self, entry: &Value, out: &mut Vec<Event>) {
        self.last = entry["number"].as_u64().unwrap_or(self.last);
        self.is_ended = entry["event"] == "ended";
        match entry["event"].as_str() {
            Some("asked") => self.request = entry["request"].as_u64().unwrap_or(self.request),
            Some("answered") => self.calls = entry["calls"].as_array().cloned().unwrap_or_default(),
            _ => {}
        }
        let mut unsaid = Vec::new();
        self.told_entry(entry, if self.last > self.after { out } else { &mut unsaid });
        self.told = 0;
    }

    fn rest(&mut self, status: &str, waits: &Value, out: &mut Vec<Event>) -> bool {
        if status == "ended" {
            return self.is_ended;
        }
        let is_open =
            |wait: &&Value| !self.answered.iter().any(|(kind, what)| wait["for"] == **kind && wait["what"] == **what);
        let open: Vec<Value> = waits.as_array().into_iter().flatten().filter(is_open).cloned().collect();
        if !matches!(status, "waiting" | "paused") || !follower::waits_for_person(&open.clone().into()) {
            return false;
        }
        self.close(out);
        let interrupts: Vec<Value> = open.iter().map(|wait| self.interrupt(wait)).collect();
        out.push(data(&json!({
            "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run_id,
            "outcome": {"type": "interrupt", "interrupts": interrupts},
        })));
        true
    }

    fn failed(&mut self, problem: &Problem, out: &mut Vec<Event>) {
        self.close(out);
        out.push(data(&json!({"type": "RUN_ERROR", "message": problem.message, "code": problem.kind.row().name})));
    }
}

/// What is asked, in the words of the one who asks, with the page that is to be opened.
fn message_of(questions: &Value) -> Option<String> {
    let asked = questions.as_object()?.values().map(|asked| {
        let (message, url) = (asked["params"]["message"].as_str(), asked["params"]["url"].as_str());
        [message, url].into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    Some(asked.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
}

/// The schema of the payload that answers: the form, or an answer to each of several questions.
fn response_schema(questions: &Value) -> Value {
    let of = |asked: &Value| match &asked["params"]["requestedSchema"] {
        form @ Value::Object(_) => form.clone(),
        _ => json!({"type": "object", "properties": {"action": {"enum": ["accept", "decline"]}}}),
    };
    let Some(questions) = questions.as_object() else { return json!({"type": "object"}) };
    if questions.len() == 1 {
        return questions.values().next().map(of).unwrap_or_default();
    }
    let answer = |asked: &Value| {
        json!({
            "type": "object", "required": ["action"],
            "properties": {"action": {"enum": ["accept", "decline", "cancel"]}, "content": of(asked)},
        })
    };
    let properties: Map<String, Value> = questions.iter().map(|(key, asked)| (key.clone(), answer(asked))).collect();
    json!({"type": "object", "properties": properties, "required": questions.keys().collect::<Vec<_>>()})
}

/// An event of AG-UI: its type is in its data.
fn data(value: &Value) -> Event {
    Event::data(value.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrator(after: u64) -> AgUiNarrator {
        let (thread, run_id, run) = ("t".to_owned(), "r".to_owned(), "abc".to_owned());
        AgUiNarrator { thread, run_id, run, after, ..AgUiNarrator::default() }
    }

    fn read(events: &[Event]) -> Vec<Value> {
        events.iter().map(|event| serde_json::from_slice(&event.data).unwrap()).collect()
    }

    fn entries() -> Vec<Value> {
        let events = [
            json!({"event": "asked", "request": 1}),
            json!({"event": "answered", "text": "", "calls": [{"tool": "write", "arguments": "{}"}]}),
            json!({"event": "decided", "call": "1.1", "decision": "allowed"}),
            json!({"event": "decided", "call": "1.1", "decision": "held", "approval": "apr_1"}),
            json!({"event": "waiting", "on": []}),
        ];
        let numbered = |(at, mut event): (usize, Value)| {
            event["number"] = (at + 1).into();
            event
        };
        events.into_iter().enumerate().map(numbered).collect()
    }

    #[test]
    fn what_waits_for_a_person_is_an_interrupt_and_its_answer_is_of_that_run_and_call() {
        let mut narrator = narrator(0);
        let mut events = Vec::new();
        for entry in entries() {
            narrator.entry(&entry, &mut events);
        }
        let waits =
            json!([{"for": "approval", "what": "apr_1", "next": "x RUN"}, {"for": "settlement", "what": "1.2"}]);
        // Time passes by itself: no one is asked.
        assert!(!narrator.rest("waiting", &json!([{"for": "time", "what": "later"}]), &mut events));
        assert!(!narrator.rest("running", &Value::Null, &mut events));
        assert!(narrator.rest("waiting", &waits, &mut events));
        let told = read(&events);
        let types: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]);
        let interrupts = &told[3]["outcome"]["interrupts"];
        assert_eq!(interrupts[0]["id"], "abc:5:approval:apr_1");
        assert_eq!(
            (&interrupts[0]["toolCallId"], &interrupts[1]["toolCallId"]),
            (&json!("abc:1.1"), &json!("abc:1.2"))
        );
        assert_eq!(interrupts[0]["metadata"]["wait"]["next"], "x abc");

        let body = json!({"resume": [{"interruptId": interrupts[0]["id"], "status": "resolved", "payload": true}]});
        let answers = answers(body.as_object().unwrap()).unwrap();
        let expected = ("abc", 5, "approval", "apr_1", true);
        let given = &answers[0];
        assert_eq!((&*given.run, given.number, &*given.kind, &*given.what, given.is_yes), expected);
        assert!(given.is_of(&waits[0]) && !given.is_of(&waits[1]));
    }

    #[test]
    fn who_goes_on_is_told_only_what_is_new() {
        let mut narrator = narrator(5);
        narrator.answered.push(("approval".to_owned(), "apr_1".to_owned()));
        let mut events = Vec::new();
        for entry in entries() {
            narrator.entry(&entry, &mut events);
        }
        // The answer is on its way: the same question is not asked again.
        assert!(!narrator.rest("waiting", &json!([{"for": "approval", "what": "apr_1"}]), &mut events));
        assert_eq!(events, []);
        narrator.entry(&json!({"event": "result", "call": "1.1", "text": "done", "number": 6}), &mut events);
        assert_eq!(read(&events)[0]["toolCallId"], "abc:1.1");
        // Another question is.
        assert!(narrator.rest("waiting", &json!([{"for": "approval", "what": "apr_2"}]), &mut events));
    }

    #[test]
    fn a_yes_is_never_guessed() {
        let of = |status: &str, payload: Value| {
            let body = json!({"resume": [{"interruptId": "a:1:approval:x", "status": status, "payload": payload}]});
            answers(body.as_object().unwrap()).map(|answers| answers[0].is_yes).map_err(|problem| problem.message)
        };
        assert_eq!(of("cancelled", json!(true)), Ok(false));
        assert_eq!(of("resolved", json!({"approved": false})), Ok(false));
        for payload in [json!(null), json!({}), json!("true"), json!({"approved": "true"}), json!(1)] {
            assert!(of("resolved", payload.clone()).is_err_and(|what| what.contains("payload")), "{payload}");
        }
    }
}
