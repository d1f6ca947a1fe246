//! A model with a script, tools that count, and a journal in memory. Each yields wherever it may be dropped.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::yield_now;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, Timestamp};

use crate::action::{Ask, Call, OpenCall};
use crate::answer::{Answer, Failure, FailureKind, Finish, ModelCall, ModelSpec};
use crate::conversation::Part;
use crate::driver::{AppendError, Surroundings};
use crate::driver::{AskModel, CallOutcome, CallTool, CheckOutput, DriveError, Journal, Observe, Rest, Runs};
use crate::entry::{CallId, CallResult, Decision, Entry, Event, OnUnknown, Refusal, RefusalKind, Settlement, Start};
use crate::spending::{Cost, RunLimits};
use crate::tool::{Hints, ToolSpec};

#[derive(Debug, Default)]
struct Script {
    entries: Vec<Entry>,
    synced: usize,
    room: usize,
    executed: Vec<CallId>,
    hanging: HashSet<String>,
    fail_first: Option<Option<u64>>,
    ends_at_once: bool,
    /// Tools that are gone, and how long results are.
    gone: HashSet<String>,
    result_bytes: usize,
    faults: Vec<String>,
}

pub(super) struct World {
    script: Mutex<Script>,
    count: watch::Sender<usize>,
    rests: mpsc::UnboundedSender<Result<Rest, DriveError>>,
    coming: AsyncMutex<mpsc::UnboundedReceiver<Result<Rest, DriveError>>>,
    scope: Scope,
    began: tokio::time::Instant,
    own: std::sync::Weak<World>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

pub(super) fn start() -> Start {
    let schema: Arc<RawValue> = to_raw_value(&json!({"type": "object"})).unwrap().into();
    let tool = |name: &str, read_only| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: Arc::clone(&schema),
        hints: Hints { read_only, ..Hints::default() },
        agent: false,
        id: String::new(),
        deferred: false,
    };
    Start {
        run: "run_1".to_owned(),
        agent: "clerk".to_owned(),
        instructions: String::new(),
        task: "Do the work.".to_owned(),
        models: vec![ModelSpec { name: "one".to_owned(), window: None, max_output: 300, price: None }],
        tools: vec![tool("guarded", false), tool("look", true), tool("send", false)],
        output: None,
        limits: RunLimits::default(),
        on_denied: Default::default(),
        on_unknown: OnUnknown::Ask,
        reader: None,
        profile: String::new(),
        runs_as: None,
        allowed: None,
        parent: None,
        labels: Vec::new(),
        held: None,
        judged: Cost::default(),
    }
}

impl World {
    pub(super) fn new() -> (Arc<Self>, Runs) {
        let (rests, coming) = mpsc::unbounded_channel();
        let world = Arc::new_cyclic(|own| Self {
            script: Mutex::new(Script { room: usize::MAX, ..Script::default() }),
            count: watch::Sender::new(0),
            rests,
            coming: AsyncMutex::new(coming),
            scope: Scope::new(),
            began: tokio::time::Instant::now(),
            own: own.clone(),
        });
        let runs = Runs::new(world.surroundings(), world.scope.clone());
        (world, runs)
    }

    pub(super) fn surroundings(&self) -> Surroundings {
        let own = self.own.upgrade().unwrap();
        Surroundings {
            models: own.clone(),
            tools: own.clone(),
            journal: own.clone(),
            outputs: own.clone(),
            observer: own.clone(),
            clock: own,
        }
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.script().entries.clone()
    }

    /// The calls that were made, sorted.
    pub(super) fn executed(&self) -> Vec<String> {
        let mut calls: Vec<_> = self.script().executed.iter().map(CallId::to_string).collect();
        // Reads run at the same time, in any order.
        calls.sort();
        calls
    }

    pub(super) fn was_executed(&self, call: CallId) -> bool {
        self.script().executed.contains(&call)
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.script().faults.clone()
    }

    pub(super) fn happened(&self) -> Settlement {
        Settlement::Happened(CallResult { text: "it is there".to_owned(), ..CallResult::default() })
    }

    pub(super) fn hang(&self, tool: &str) {
        self.script().hanging.insert(tool.to_owned());
    }

    pub(super) fn fail_first(&self, retry_after_ms: Option<u64>) {
        self.script().fail_first = Some(retry_after_ms);
    }

    pub(super) fn end_without_calls(&self) {
        self.script().ends_at_once = true;
    }

    /// From now on there is no such tool.
    pub(super) fn takes_away(&self, tool: &str) {
        self.script().gone.insert(tool.to_owned());
    }

    pub(super) fn gives_results_of(&self, bytes: usize) {
        self.script().result_bytes = bytes;
    }

    pub(super) fn disk_has_room_for(&self, entries: usize) {
        self.script().room = entries;
    }

    pub(super) async fn write(&self, event: Event) {
        let entry = Entry { at: self.now(), event };
        self.append("run_1", &[entry], true).await.unwrap();
    }

    /// How the run next came to rest.
    pub(super) async fn rest(&self) -> Result<Rest, DriveError> {
        self.coming.lock().await.recv().await.unwrap()
    }

    /// Waits until an entry is in the journal.
    pub(super) async fn sees(&self, is_it: impl Fn(&Event) -> bool) {
        let mut count = self.count.subscribe();
        while !self.entries().iter().any(|entry| is_it(&entry.event)) {
            count.changed().await.unwrap();
        }
    }
}

fn gone(tool: &str) -> Refusal {
    let why = format!("there is no `{tool}` any more");
    Refusal { kind: RefusalKind::UnknownTool, why, nearest: Vec::new() }
}

fn call(id: &str, name: &str) -> ModelCall {
    ModelCall { id: id.to_owned(), name: name.to_owned(), arguments: format!("{{\"id\": \"{id}\"}}") }
}

#[async_trait]
impl AskModel for World {
    async fn ask(&self, run: &str, ask: &Ask, observer: &dyn Observe) -> Result<Answer, Failure> {
        yield_now().await;
        if let Some(retry_after_ms) = self.script().fail_first.take() {
            let message = "too many requests".to_owned();
            return Err(Failure { kind: FailureKind::Busy, message, retry_after_ms, spent: None });
        }
        let answers = ask.conversation.parts().iter().filter(|part| matches!(***part, Part::Answer { .. })).count();
        let calls = match answers {
            _ if self.script().ends_at_once => Vec::new(),
            0 => vec![call("a", "look"), call("b", "look"), call("c", "send")],
            1 => vec![call("d", "guarded")],
            _ => Vec::new(),
        };
        let text = if calls.is_empty() { "All is done." } else { "" };
        observer.delta(run, text);
        yield_now().await;
        let raw = to_raw_value(text).unwrap().into();
        let spent = Cost { tokens: 100, money: 0 };
        Ok(Answer { raw, text: text.to_owned(), calls, finish: Finish::Stop, context: 100, spent })
    }
}

#[async_trait]
impl CallTool for World {
    async fn decide(&self, _: &str, call: &OpenCall) -> Decision {
        yield_now().await;
        if self.script().gone.contains(&call.tool) {
            return Decision::Refused(gone(&call.tool));
        }
        if call.tool == "guarded" { Decision::Held(format!("apr_{}", call.id)) } else { Decision::Allowed }
    }

    async fn call(&self, _: &str, call: &Call) -> CallOutcome {
        {
            let mut script = self.script();
            let is_intent = |entry: &Entry| matches!(&entry.event, Event::Intent { call: id, .. } if *id == call.id);
            let intent = script.entries.iter().rposition(is_intent);
            if intent.is_none_or(|place| call.durable && place >= script.synced) {
                script.faults.push(format!("call {} left before its intent was on disk", call.id));
            }
            if call.tool == "guarded" && call.approval.is_none() {
                script.faults.push(format!("call {} left without its approval", call.id));
            }
        }
        yield_now().await;
        if self.script().gone.contains(&call.tool) {
            return CallOutcome::Refused(gone(&call.tool));
        }
        if self.script().hanging.contains(&call.tool) {
            std::future::pending::<()>().await;
        }
        {
            let mut script = self.script();
            if call.durable && script.executed.contains(&call.id) {
                script.faults.push(format!("call {} was made twice", call.id));
            }
            script.executed.push(call.id);
        }
        yield_now().await;
        let long = "ä".repeat(self.script().result_bytes / 2);
        CallOutcome::Result(CallResult { text: format!("result of {}{long}", call.id), ..CallResult::default() })
    }
}

#[async_trait]
impl Journal for World {
    async fn append(&self, _: &str, entries: &[Entry], sync: bool) -> Result<(), AppendError> {
        yield_now().await;
        {
            let mut script = self.script();
            if script.entries.len() + entries.len() > script.room {
                return Err(Problem::new(Kind::Internal, "the disk is full").into());
            }
            script.entries.extend_from_slice(entries);
            if sync {
                script.synced = script.entries.len();
            }
            self.count.send_replace(script.entries.len());
        }
        yield_now().await;
        Ok(())
    }

    async fn read(&self, run: &str) -> Result<Option<Vec<Entry>>, Problem> {
        yield_now().await;
        let entries = self.entries();
        Ok((run == "run_1" && !entries.is_empty()).then_some(entries))
    }
}

#[async_trait]
impl CheckOutput for World {
    async fn check(&self, _: &RawValue, _: &str) -> Option<String> {
        None
    }
}

impl Observe for World {
    fn delta(&self, _: &str, _: &str) {}

    fn entry(&self, _: &str, _: &Entry) {}

    fn rest(&self, _: &str, rest: &Result<Rest, DriveError>) {
        let _ = self.rests.send(rest.clone());
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.began.elapsed().as_millis()).unwrap())
    }
}
