//! What a gateway has: a model with a script, tools that count, journals in memory. Each yields wherever it may be dropped.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::task::yield_now;
use toolcrib_agent::driver::{
    AppendError, AskModel, CallOutcome, CallTool, CheckOutput, DriveError, Journal, Observe, Rest, Surroundings,
};
use toolcrib_agent::{
    Answer, Ask, Call, CallId, CallResult, Cost, Decision, Entry, Event, Failure, Finish, ModelCall, OpenCall, Part,
    Start,
};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, Secret, Timestamp};
use toolcrib_runner::{HostConfig, RunnerHost, SharedSecret, Trust};

/// The moment at which the gateway's clock begins, far from a runner's.
const BEGIN: i64 = 1_700_000_000_000;

#[derive(Debug, Default)]
struct State {
    journals: HashMap<String, Vec<Entry>>,
    synced: HashMap<String, usize>,
    executed: HashMap<(String, CallId), u32>,
    rests: HashMap<String, Vec<Result<Rest, DriveError>>>,
    hanging: HashSet<String>,
    cancelled: u32,
    long_results: Option<usize>,
    has_output: bool,
    checks: u32,
    room: Option<usize>,
    faults: Vec<String>,
}

pub(super) struct World {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    pub(super) scope: Scope,
    began: tokio::time::Instant,
    own: std::sync::Weak<World>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

pub(super) fn secret() -> SharedSecret {
    SharedSecret::new(&Secret::new("0123456789abcdef0123456789abcdef")).unwrap()
}

pub(super) fn trust() -> Trust {
    Trust::Secret(secret())
}

pub(super) fn start(run: &str) -> Start {
    let tool =
        |name: &str, read_only| json!({"name": name, "schema": {"type": "object"}, "hints": {"read_only": read_only}});
    let start = json!({
        "run": run,
        "agent": "clerk",
        "task": "Do the work.",
        "models": [{"name": "one", "max_output": 300}],
        "tools": [tool("guarded", false), tool("look", true), tool("send", false)],
        "limits": {"rounds": 20},
        "on_unknown": "ask",
    });
    serde_json::from_str(&start.to_string()).unwrap()
}

pub(super) fn granted() -> Event {
    Event::Approval { approval: "apr_2.1".to_owned(), granted: true, note: "local".to_owned() }
}

impl World {
    pub(super) fn new() -> (Arc<Self>, RunnerHost) {
        Self::with(HostConfig::default())
    }

    pub(super) fn with(config: HostConfig) -> (Arc<Self>, RunnerHost) {
        let world = Arc::new_cyclic(|own| Self {
            state: Mutex::default(),
            changes: watch::Sender::new(0),
            scope: Scope::new(),
            began: tokio::time::Instant::now(),
            own: own.clone(),
        });
        let host = RunnerHost::new(world.surroundings(), world.scope.clone(), config);
        (world, host)
    }

    /// Another process of the gateway, on the same journals.
    pub(super) fn another_host(&self, scope: &Scope) -> RunnerHost {
        RunnerHost::new(self.surroundings(), scope.clone(), HostConfig::default())
    }

    fn surroundings(&self) -> Surroundings {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn entries(&self, run: &str) -> Vec<Entry> {
        self.state().journals.get(run).cloned().unwrap_or_default()
    }

    /// How often each call of a run was made.
    pub(super) fn executed(&self, run: &str) -> Vec<(String, u32)> {
        let state = self.state();
        let mut calls: Vec<_> =
            state.executed.iter().filter(|((of, _), _)| of == run).map(|((_, id), count)| (*id, *count)).collect();
        calls.sort();
        calls.into_iter().map(|(id, count)| (id.to_string(), count)).collect()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    pub(super) fn hang(&self, tool: &str) {
        self.state().hanging.insert(tool.to_owned());
    }

    pub(super) fn go_on(&self, tool: &str) {
        self.state().hanging.remove(tool);
        self.changed();
    }

    pub(super) fn results_have(&self, bytes: usize) {
        self.state().long_results = Some(bytes);
    }

    pub(super) fn outputs_are_wrong_once(&self) {
        self.state().has_output = true;
    }

    pub(super) fn checks(&self) -> u32 {
        self.state().checks
    }

    pub(super) fn cancelled(&self) -> u32 {
        self.state().cancelled
    }

    pub(super) fn disk_has_room_for(&self, entries: usize) {
        self.state().room = Some(entries);
    }

    pub(super) fn forget_rests(&self) {
        self.state().rests.clear();
    }

    /// Waits until something is so.
    pub(super) async fn until<T>(&self, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            changes.changed().await.unwrap();
        }
    }

    /// The next rest of a run.
    pub(super) async fn rest(&self, run: &str) -> Result<Rest, DriveError> {
        self.until(|world| {
            let mut state = world.state();
            let rests = state.rests.get_mut(run)?;
            (!rests.is_empty()).then(|| rests.remove(0))
        })
        .await
    }

    /// Waits until an entry is in the journal of a run.
    pub(super) async fn sees(&self, run: &str, is_it: impl Fn(&Event) -> bool) {
        self.until(|world| world.entries(run).iter().any(|entry| is_it(&entry.event)).then_some(())).await;
    }

    async fn while_hanging(&self, tool: &str) {
        self.until(|world| (!world.state().hanging.contains(tool)).then_some(())).await;
    }
}

fn call(id: &str, name: &str) -> ModelCall {
    ModelCall { id: id.to_owned(), name: name.to_owned(), arguments: format!("{{\"id\": \"{id}\"}}") }
}

#[async_trait]
impl AskModel for World {
    async fn ask(&self, run: &str, ask: &Ask, observer: &dyn Observe) -> Result<Answer, Failure> {
        yield_now().await;
        self.while_hanging("model").await;
        let answers = ask.conversation.parts().iter().filter(|part| matches!(***part, Part::Answer { .. })).count();
        let calls = match answers {
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

/// Counts a call that was dropped before its end.
struct Guard<'a>(&'a World, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.state().cancelled += 1;
            self.0.changed();
        }
    }
}

#[async_trait]
impl CallTool for World {
    async fn decide(&self, _: &str, call: &OpenCall) -> Decision {
        yield_now().await;
        if call.tool == "guarded" { Decision::Held(format!("apr_{}", call.id)) } else { Decision::Allowed }
    }

    async fn call(&self, run: &str, call: &Call) -> CallOutcome {
        {
            let mut state = self.state();
            let synced = state.synced.get(run).copied().unwrap_or(0);
            let is_intent = |entry: &Entry| matches!(&entry.event, Event::Intent { call: id, .. } if *id == call.id);
            let intent = state.journals.get(run).and_then(|entries| entries.iter().rposition(is_intent));
            if intent.is_none_or(|place| call.durable && place >= synced) {
                state.faults.push(format!("call {} left before its intent was on disk", call.id));
            }
            if call.tool == "guarded" && call.approval.is_none() {
                state.faults.push(format!("call {} left without its approval", call.id));
            }
        }
        let mut guard = Guard(self, false);
        yield_now().await;
        self.while_hanging(&call.tool).await;
        let text = {
            let mut state = self.state();
            let count = state.executed.entry((run.to_owned(), call.id)).or_default();
            *count += 1;
            if call.durable && *count > 1 {
                state.faults.push(format!("call {} was made twice", call.id));
            }
            state.long_results.map_or_else(|| format!("result of {}", call.id), |bytes| "\u{1}".repeat(bytes))
        };
        self.changed();
        yield_now().await;
        guard.1 = true;
        CallOutcome::Result(CallResult { text, ..CallResult::default() })
    }
}

#[async_trait]
impl Journal for World {
    async fn append(&self, run: &str, entries: &[Entry], sync: bool) -> Result<(), AppendError> {
        yield_now().await;
        self.while_hanging("disk").await;
        {
            let mut state = self.state();
            let room = state.room.unwrap_or(usize::MAX);
            let journal = state.journals.entry(run.to_owned()).or_default();
            if journal.len() + entries.len() > room {
                return Err(Problem::new(Kind::Internal, "the disk is full").into());
            }
            journal.extend_from_slice(entries);
            let count = journal.len();
            if sync {
                state.synced.insert(run.to_owned(), count);
            }
        }
        self.changed();
        yield_now().await;
        Ok(())
    }

    async fn read(&self, run: &str) -> Result<Option<Vec<Entry>>, Problem> {
        yield_now().await;
        let entries = self.entries(run);
        Ok((!entries.is_empty()).then_some(entries))
    }
}

#[async_trait]
impl CheckOutput for World {
    async fn check(&self, _: &RawValue, output: &str) -> Option<String> {
        assert_eq!(output, "All is done.");
        let mut state = self.state();
        state.checks += 1;
        (state.has_output && state.checks == 1).then(|| "it is no object".to_owned())
    }
}

impl Observe for World {
    fn delta(&self, _: &str, _: &str) {}

    fn entry(&self, _: &str, _: &Entry) {}

    fn rest(&self, run: &str, rest: &Result<Rest, DriveError>) {
        self.state().rests.entry(run.to_owned()).or_default().push(rest.clone());
        self.changed();
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        let passed: Duration = self.began.elapsed();
        Timestamp(BEGIN + i64::try_from(passed.as_millis()).unwrap())
    }
}
