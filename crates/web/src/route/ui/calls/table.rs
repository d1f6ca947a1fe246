//! The calls of each browser session: bounded in number and in bytes, the oldest goes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use toolcrib_base::{Kind, Problem, ProfileName, Secret, ServerName, Timestamp, random};
use toolcrib_protocol::{Era, Raw};
use toolcrib_ui::page::call::StructureFit;
use toolcrib_view::Operation;

use super::wire_log::WireLog;

/// How many calls of one browser session are kept, and how many of them run.
const KEPT: usize = 30;
const RUNNING: usize = 8;
/// How many bytes of results, inputs and messages of one session are kept.
const BYTES: usize = 48 << 20;
/// How many sessions there are. There are no more browsers than that on one machine.
const SESSIONS: usize = 256;
/// How many log messages of a call are kept.
const MESSAGES: usize = 50;
/// How many changes of a call wait for its task.
const CHANGES: usize = 8;
/// How much of a text of progress is kept, in characters.
const TEXT: usize = 500;

/// All calls that were begun on pages.
#[derive(Debug)]
pub(crate) struct BrowserCalls {
    by_session: Mutex<HashMap<String, Vec<Arc<BrowserCall>>>>,
    /// Counts the changes of all calls.
    changes: watch::Sender<u64>,
}

/// What a call was begun with.
#[derive(Debug, Clone)]
pub(in crate::route::ui) struct CallInputs {
    /// The operation that makes it.
    pub(in crate::route::ui) operation: &'static Operation,
    /// The tool or prompt; `None` where the arguments say all.
    pub(in crate::route::ui) name: Option<String>,
    /// What people read.
    pub(in crate::route::ui) title: String,
    /// The page of its form, without a query.
    pub(in crate::route::ui) form: String,
    /// As whom.
    pub(in crate::route::ui) profile: ProfileName,
    /// As a client of which era.
    pub(in crate::route::ui) era: Era,
    /// What was entered, without secrets.
    pub(in crate::route::ui) kept: String,
    /// Whether nothing was left out of it.
    pub(in crate::route::ui) is_whole: bool,
    /// What the tool promises of its structured content, if it promises anything.
    pub(in crate::route::ui) promise: Option<OutputPromise>,
}

/// The schema of a tool's structured content.
#[derive(Debug, Clone)]
pub(in crate::route::ui) struct OutputPromise {
    /// Whose tool it is.
    pub(in crate::route::ui) server: ServerName,
    pub(in crate::route::ui) schema: Raw,
}

/// A call.
#[derive(Debug)]
pub(in crate::route::ui) struct BrowserCall {
    /// Its id; it opens nothing without the session that it belongs to.
    pub(in crate::route::ui) id: String,
    pub(in crate::route::ui) inputs: CallInputs,
    pub(in crate::route::ui) begun: Timestamp,
    pub(in crate::route::ui) wire: Arc<WireLog>,
    since: Instant,
    progress: Mutex<CallProgress>,
    orders: mpsc::Sender<CallChange>,
}

/// How a call goes.
#[derive(Debug, Clone, Default)]
pub(in crate::route::ui) struct CallProgress {
    pub(in crate::route::ui) phase: CallPhase,
    /// How often the server has asked: answers to an earlier question do not count for a later one.
    pub(in crate::route::ui) round: usize,
    /// How far it is, and of how much, as the server says.
    pub(in crate::route::ui) done: Option<(f64, Option<f64>)>,
    /// What the server says of it.
    pub(in crate::route::ui) message: String,
    /// What the server logged, the oldest first.
    pub(in crate::route::ui) logged: Vec<String>,
    /// The state of the server's task, where it became one.
    pub(in crate::route::ui) task: Option<String>,
    /// How long it took.
    pub(in crate::route::ui) took: Option<Duration>,
    /// Whether its structured content is what the tool promises.
    pub(in crate::route::ui) fit: StructureFit,
}

/// Where a call stands.
#[derive(Debug, Clone, Default)]
pub(in crate::route::ui) enum CallPhase {
    /// It runs.
    #[default]
    Running,
    /// It waits for answers to this, an `input_required` result.
    Waiting(Raw),
    /// It was answered.
    Answered(Raw),
    /// It came to nothing.
    Failed(Problem),
    /// A person took it back.
    Cancelled,
}

/// What a page changes of a call that runs.
#[derive(Debug)]
pub(in crate::route::ui) enum CallChange {
    /// Takes it back.
    Cancel,
    /// The members of a retry: answers to what it asked.
    Answer(Raw),
}

// === impl CallProgress ===

impl CallProgress {
    /// Whether the call has not ended.
    pub(in crate::route::ui) fn is_open(&self) -> bool {
        matches!(self.phase, CallPhase::Running | CallPhase::Waiting(_))
    }
}

// === impl BrowserCalls ===

impl BrowserCalls {
    /// Enters a call; the receiver is for its task.
    ///
    /// # Errors
    /// Too many calls of this session run.
    pub(super) fn enter(
        &self,
        session: &str,
        inputs: CallInputs,
        secrets: Vec<Secret>,
        now: Timestamp,
    ) -> Result<(Arc<BrowserCall>, mpsc::Receiver<CallChange>), Problem> {
        let (orders, changes) = mpsc::channel(CHANGES);
        let call = Arc::new(BrowserCall {
            id: random::hex_128()[..12].to_owned(),
            inputs,
            begun: now,
            wire: WireLog::new(secrets),
            since: Instant::now(),
            progress: Mutex::default(),
            orders,
        });
        let mut all = self.lock();
        if all.len() >= SESSIONS && !all.contains_key(session) {
            // Those of which nothing runs are missed least.
            all.retain(|_, calls| calls.iter().any(|call| call.is_open()));
        }
        let own = all.entry(session.to_owned()).or_default();
        if own.iter().filter(|call| call.is_open()).count() >= RUNNING {
            return Err(Problem::new(Kind::Busy, format!("{RUNNING} calls of this browser run"))
                .hint("Wait for one of them to end, or cancel it at `/ui/calls`."));
        }
        own.push(Arc::clone(&call));
        make_room(own);
        drop(all);
        self.changed();
        Ok((call, changes))
    }

    /// The calls of a session, the newest first.
    pub(in crate::route::ui) fn of(&self, session: &str) -> Vec<Arc<BrowserCall>> {
        self.lock().get(session).map(|calls| calls.iter().rev().cloned().collect()).unwrap_or_default()
    }

    /// A call of a session.
    pub(in crate::route::ui) fn find(&self, session: &str, id: &str) -> Option<Arc<BrowserCall>> {
        self.lock().get(session)?.iter().find(|call| call.id == id).cloned()
    }

    /// Forgets a session; what still runs of it is taken back.
    pub(in crate::route::ui) fn forget(&self, session: &str) {
        for call in self.lock().remove(session).unwrap_or_default() {
            call.order(CallChange::Cancel);
        }
    }

    /// Forgets the calls of sessions that have ended; what still runs of them notices that itself.
    pub(super) fn forget_ended(&self, lasts: impl Fn(&str) -> bool) {
        self.lock().retain(|session, _| lasts(session));
    }

    /// Notified of changes of calls.
    pub(in crate::route::ui) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Something has changed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// A result has arrived: the oldest ones make room for it.
    pub(super) fn weigh(&self, session: &str) {
        if let Some(own) = self.lock().get_mut(session) {
            make_room(own);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<BrowserCall>>>> {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for BrowserCalls {
    fn default() -> Self {
        Self { by_session: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

/// Forgets the oldest calls that have ended, until the rest fits. The newest one stays.
fn make_room(own: &mut Vec<Arc<BrowserCall>>) {
    let weight = |own: &[Arc<BrowserCall>]| own.iter().map(|call| call.weight()).sum::<usize>();
    while own.len() > KEPT || (own.len() > 1 && weight(own) > BYTES) {
        let newest = own.len() - 1;
        let Some(at) = own.iter().take(newest).position(|call| !call.is_open()) else { return };
        own.remove(at);
    }
}

// === impl BrowserCall ===

impl BrowserCall {
    /// How it goes.
    pub(in crate::route::ui) fn progress(&self) -> CallProgress {
        self.lock().clone()
    }

    /// Whether it has not ended.
    pub(in crate::route::ui) fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    /// The bytes that it keeps: its inputs, its result and its messages.
    fn weight(&self) -> usize {
        let result = match &self.lock().phase {
            CallPhase::Answered(result) => result.bytes().len(),
            _ => 0,
        };
        self.inputs.kept.len() + result + self.wire.bytes()
    }

    /// Waits until it has ended or asks something.
    pub(in crate::route::ui) async fn settled(&self, changes: &mut watch::Receiver<u64>) {
        while matches!(self.lock().phase, CallPhase::Running) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives something to its task. Whether it was taken: a call that has ended takes nothing.
    pub(in crate::route::ui) fn order(&self, change: CallChange) -> bool {
        self.orders.try_send(change).is_ok()
    }

    /// Takes the question of this round, so that it is answered once. Whether it still waits for that.
    pub(in crate::route::ui) fn take(&self, round: usize) -> bool {
        let mut progress = self.lock();
        let waits = progress.round == round && matches!(progress.phase, CallPhase::Waiting(_));
        if waits {
            progress.phase = CallPhase::Running;
        }
        waits
    }

    /// Changes what is known of it.
    pub(super) fn change(&self, change: impl FnOnce(&mut CallProgress)) {
        change(&mut self.lock());
    }

    /// It asks something.
    pub(super) fn ask(&self, required: Raw) {
        self.change(|progress| {
            progress.round += 1;
            progress.phase = CallPhase::Waiting(required);
        });
    }

    /// It says how far it is.
    pub(super) fn set_message(&self, text: &str) {
        self.change(|progress| progress.message = text.chars().take(TEXT).collect());
    }

    /// Its server logged something.
    pub(super) fn log(&self, text: &str) {
        self.change(|progress| {
            if progress.logged.len() >= MESSAGES {
                progress.logged.remove(0);
            }
            progress.logged.push(text.chars().take(TEXT).collect());
        });
    }

    /// It has ended.
    pub(super) fn end(&self, phase: CallPhase) {
        let took = self.since.elapsed();
        self.change(|progress| {
            progress.phase = phase;
            progress.took = Some(took);
        });
    }

    fn lock(&self) -> MutexGuard<'_, CallProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_view::operation::OperationScope;
    use toolcrib_view::{Effect, Method, Permission};

    use super::*;

    static OPERATION: Operation = Operation {
        tool: "core_tool_call",
        method: Method::Post,
        path: "/tools/{name}/call",
        tag: "tools",
        summary: "",
        description: "",
        permission: Permission::Open,
        effect: Effect::Unknown,
        creates: false,
        problems: &[],
        slow: false,
        is_secret: false,
        input: "{}",
        output: "{}",
        scope: OperationScope::Profile,
    };

    fn enter(calls: &BrowserCalls, session: &str) -> Arc<BrowserCall> {
        let inputs = CallInputs {
            operation: &OPERATION,
            name: None,
            title: "echo".to_owned(),
            form: "/ui/call/echo".to_owned(),
            profile: ProfileName::new("default").unwrap(),
            era: Era::Modern,
            kept: "{}".to_owned(),
            is_whole: true,
            promise: None,
        };
        calls.enter(session, inputs, Vec::new(), Timestamp(0)).unwrap().0
    }

    #[test]
    fn the_oldest_calls_make_room_and_messages_weigh_as_results_do() {
        let calls = BrowserCalls::default();
        let large =
            Raw::parse(format!("\"{}\"", "x".repeat(BYTES / 3)).into(), toolcrib_protocol::json::Rules::strict(8));
        let large = large.unwrap();
        let first = enter(&calls, "a");
        assert!(first.is_open());
        let before = first.weight();
        first.wire.at_client(true, br#"{"result":"0123456789"}"#);
        assert!(first.weight() >= before + 20, "{}", first.weight());
        first.end(CallPhase::Answered(large.clone()));
        assert!(!first.is_open());
        for _ in 0..2 {
            enter(&calls, "a").end(CallPhase::Answered(large.clone()));
        }
        calls.weigh("a");
        let kept: Vec<String> = calls.of("a").iter().map(|call| call.id.clone()).collect();
        assert!(kept.len() == 2 && !kept.contains(&first.id), "{kept:?}");
    }

    #[test]
    fn calls_of_a_session_that_has_ended_are_forgotten() {
        let calls = BrowserCalls::default();
        let (mine, other) = (enter(&calls, "a"), enter(&calls, "b"));
        calls.forget_ended(|session| session == "a");
        assert!(calls.find("a", &mine.id).is_some() && calls.find("b", &other.id).is_none());
    }
}
