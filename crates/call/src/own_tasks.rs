//! Tasks of our own: bounded, written down before their client learns of them, kept for a while after their end.
//!
//! What runs is in memory; what has ended is in the store. One that the store knows as running and memory does not was
//! running when the process ended, and has failed.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, PrincipalId, Problem, ProfileName, Timestamp, random};
use toolcrib_protocol::ask::{InputKind, InputRequest};
use toolcrib_protocol::raw::{Edit, Writer};
use toolcrib_protocol::task::{Task, TaskStepError, Times};
use toolcrib_protocol::{Capabilities, Raw, RpcError, json};
use toolcrib_session::Caller;
use toolcrib_store::{Store, StoreError, TaskRecord};

use crate::halts::Halts;

/// How many may run, each a future in memory.
const RUNNING: usize = 256;
/// How many of one principal.
const OF_ONE: usize = 16;
/// How many ended ones of one principal are kept.
const KEPT: usize = 200;
/// How long one may run, and how long it is kept from its beginning on.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// How often clients are asked to look.
const POLL: Duration = Duration::from_millis(500);

/// A task of our own as it is now.
#[derive(Debug, Clone)]
pub struct OwnTaskState {
    /// What was asked for.
    pub target: String,
    /// What `tasks/get` answers.
    pub body: Raw,
}

/// The tasks that run, and the store of those that have ended.
#[derive(Debug)]
pub struct OwnTasks {
    store: Store,
    clock: Arc<dyn Clock>,
    halts: Arc<Halts>,
    running: Mutex<HashMap<String, OwnTask>>,
}

/// What a task is begun with.
#[derive(Debug)]
pub struct TaskStart<'a> {
    /// What was asked for: the name of an operation, a workflow's tool.
    pub target: &'a str,
    /// What its client can be asked.
    pub capabilities: Arc<Capabilities>,
}

/// Why a client was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskQuestionError {
    /// The client has not declared that it can be asked this.
    #[error("the client does not offer `{0}`")]
    NotOffered(&'static str),
    /// No client answers this method.
    #[error("no client answers `{0}`")]
    NoQuestion(String),
    /// The task has ended, or asked too often.
    #[error(transparent)]
    Refused(#[from] TaskStepError),
}

/// A task that runs, in the hands of what it runs. Clones are the same task.
#[derive(Clone)]
pub struct OwnTask {
    shared: Arc<TaskCell>,
}

struct TaskCell {
    id: String,
    principal: PrincipalId,
    profile: ProfileName,
    target: String,
    capabilities: Arc<Capabilities>,
    created: Timestamp,
    clock: Arc<dyn Clock>,
    state: Mutex<TaskState>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    cancelled: watch::Sender<bool>,
}

struct TaskState {
    record: Task,
    asked: usize,
    waiting: HashMap<String, oneshot::Sender<Raw>>,
}

impl fmt::Debug for OwnTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnTask").field("target", &self.shared.target).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl OwnTask ===

impl OwnTask {
    fn new(caller: &Caller, begin: TaskStart<'_>, clock: Arc<dyn Clock>) -> Self {
        let id = random::hex_128();
        let now = clock.now();
        let times = Times { ttl_ms: Some(millis(LIFE)), poll_ms: Some(millis(POLL)) };
        let record = Task::new(id.clone(), now, times);
        Self {
            shared: Arc::new(TaskCell {
                id,
                principal: caller.principal.id.clone(),
                profile: caller.profile.clone(),
                target: begin.target.to_owned(),
                capabilities: begin.capabilities,
                created: now,
                clock,
                state: Mutex::new(TaskState { record, asked: 0, waiting: HashMap::new() }),
                changes: watch::Sender::new(0),
                cancelled: watch::Sender::new(false),
            }),
        }
    }

    /// The id by which its client knows it.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// What its client can be asked.
    pub fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    /// Says how it goes.
    pub fn set_message(&self, message: impl Into<String>) {
        // One that has ended says nothing more.
        let _ = self.change(|record, now| record.set_message(now, Some(message.into())));
    }

    /// Asks the client and waits for its answer, which comes by `tasks/update`. The task's own life is the deadline.
    ///
    /// When the future is dropped the question is taken back: the task does not ask it any more.
    pub async fn ask(&self, asked: &InputRequest) -> Result<Raw, TaskQuestionError> {
        let question = InputKind::of(&asked.method, &asked.params);
        let question = question.ok_or_else(|| TaskQuestionError::NoQuestion(asked.method.clone()))?;
        if !question.fits(&self.shared.capabilities) {
            return Err(TaskQuestionError::NotOffered(question.name()));
        }
        let mut request = Writer::object(64 + asked.params.bytes().len());
        request.text("method", &asked.method);
        request.member("params", asked.params.as_str());
        let (sender, answered) = oneshot::channel();
        let key = {
            let mut state = lock(&self.shared.state);
            state.asked += 1;
            let key = format!("question-{}", state.asked);
            state.record.ask(self.shared.clock.now(), &key, request.finish())?;
            state.waiting.insert(key.clone(), sender);
            key
        };
        let _open = OpenQuestion { task: self, key };
        self.changed();
        // The end of the task drops the other half.
        answered
            .await
            .map_err(|_| TaskQuestionError::Refused(TaskStepError::Ended(lock(&self.shared.state).record.status())))
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Task, Timestamp) -> Result<(), TaskStepError>,
    ) -> Result<(), TaskStepError> {
        let changed = {
            let mut state = lock(&self.shared.state);
            let changed = change(&mut state.record, self.shared.clock.now());
            if state.record.status().is_terminal() {
                state.waiting.clear();
            }
            changed
        };
        self.changed();
        changed
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    fn end(&self, ended: Option<Result<Raw, RpcError>>) {
        // A second end changes nothing.
        let _ = self.change(|record, now| match ended {
            Some(Ok(result)) => record.complete(now, result),
            Some(Err(error)) => {
                record.set_message(now, Some(error.message.clone()))?;
                record.fail(now, error)
            }
            None => record.cancel(now),
        });
    }

    fn body(&self) -> Raw {
        lock(&self.shared.state).record.to_result()
    }

    fn written(&self) -> TaskRecord {
        let state = lock(&self.shared.state);
        let life = i64::try_from(LIFE.as_millis()).unwrap_or(i64::MAX);
        TaskRecord {
            id: self.shared.id.clone(),
            principal: self.shared.principal.clone(),
            profile: self.shared.profile.clone(),
            target: self.shared.target.clone(),
            ended: state.record.status().is_terminal(),
            body: state.record.to_result().as_str().to_owned(),
            created_at: self.shared.created,
            expires_at: Timestamp(self.shared.created.0.saturating_add(life)),
        }
    }

    fn belongs_to(&self, caller: &Caller) -> bool {
        self.shared.principal == caller.principal.id && self.shared.profile == caller.profile
    }
}

/// A question that is asked; one that no one waits for any more is taken back.
struct OpenQuestion<'a> {
    task: &'a OwnTask,
    key: String,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.task.shared.state);
            if state.waiting.remove(&self.key).is_none() {
                return;
            }
            let nothing = Raw::from_value(&Map::from_iter([(self.key.clone(), Value::Null)]));
            state.record.answer(self.task.shared.clock.now(), &nothing);
        }
        self.task.changed();
    }
}

// === impl OwnTasks ===

impl OwnTasks {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, halts: Arc<Halts>) -> Self {
        Self { store, clock, halts, running: Mutex::default() }
    }

    fn enter(&self, task: &OwnTask) -> Result<(), Problem> {
        let mut running = lock(&self.running);
        let of_one = running.values().filter(|other| other.shared.principal == task.shared.principal).count();
        if running.len() >= RUNNING || of_one >= OF_ONE {
            return Err(Problem::new(Kind::Busy, "too many tasks are running").hint("Wait for some of them to end."));
        }
        running.insert(task.shared.id.clone(), task.clone());
        Ok(())
    }

    fn leave(&self, task: &OwnTask) {
        lock(&self.running).remove(&task.shared.id);
    }

    fn get(&self, id: &str) -> Option<OwnTask> {
        lock(&self.running).get(id).cloned()
    }

    /// A task of this caller.
    pub(crate) async fn find(&self, caller: &Caller, id: &str) -> Option<OwnTaskState> {
        if let Some(task) = self.get(id) {
            let state = || OwnTaskState { target: task.shared.target.clone(), body: task.body() };
            return task.belongs_to(caller).then(state);
        }
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let (store, id) = (self.store.clone(), id.to_owned());
        let record = blocking(move || store.tasks().get(&id)).await;
        let record = record.unwrap_or_else(|problem| {
            tracing::warn!(error = %problem.message, "a task cannot be read");
            None
        })?;
        if record.principal != caller.principal.id || record.profile != caller.profile {
            return None;
        }
        // It may have begun, or ended, while the store was asked.
        if let Some(task) = self.get(&record.id) {
            return Some(OwnTaskState { target: record.target, body: task.body() });
        }
        let body = Raw::parse(record.body.into(), json::Rules::relayed(usize::MAX)).ok()?;
        let body = if record.ended { body } else { interrupted(&body) };
        Some(OwnTaskState { target: record.target, body })
    }

    /// Takes answers of a client; those that no one waits for are ignored.
    pub fn answer(&self, id: &str, answers: &Raw) {
        let Some(task) = self.get(id) else { return };
        {
            let mut state = lock(&task.shared.state);
            let now = task.shared.clock.now();
            for (key, answer) in state.record.answer(now, answers) {
                if let Some(waiting) = state.waiting.remove(&key) {
                    // Who has asked may have stopped waiting.
                    let _ = waiting.send(answer);
                }
            }
        }
        task.changed();
    }

    /// Cancels a task; one that has ended stays as it is.
    pub fn cancel(&self, id: &str) {
        if let Some(task) = self.get(id) {
            task.end(None);
            task.shared.cancelled.send_replace(true);
        }
    }

    /// Answers with a task and runs `work` as such, in `scope`. The result is what the task's client reads at its end.
    ///
    /// The task is written down before this returns. It ends by itself, by `tasks/cancel`, after an hour, or with the
    /// process; then `work` is dropped.
    ///
    /// Errors: too many tasks are running; it cannot be written down.
    pub async fn run<W, F>(
        self: &Arc<Self>,
        scope: &Scope,
        caller: &Caller,
        begin: TaskStart<'_>,
        work: W,
    ) -> Result<Raw, Problem>
    where
        W: FnOnce(OwnTask) -> F + Send + 'static,
        F: Future<Output = Result<Raw, RpcError>> + Send + 'static,
    {
        let task = OwnTask::new(caller, begin, Arc::clone(&self.clock));
        self.enter(&task)?;
        // Leaves the table if this future is dropped before the work has begun.
        let entered = TaskSlot { tasks: Arc::clone(self), task: task.clone() };
        let (store, record) = (self.store.clone(), task.written());
        let written = blocking(move || {
            store.tasks().prune(&record.principal, KEPT)?;
            store.tasks().put(&record)
        });
        written.await?;
        let handle = lock(&task.shared.state).record.to_handle();
        let mut stop = scope.stop_signal();
        let caller = caller.clone();
        scope.spawn(async move {
            let TaskSlot { tasks, task } = &entered;
            let mut cancelled = task.shared.cancelled.subscribe();
            let ended = tokio::select! {
                biased;
                _ = cancelled.wait_for(|cancelled| *cancelled) => None,
                halt = tasks.halts.halted(&caller) => Some(Err(RpcError::from(&halt.problem()))),
                // Written down as running, it is found failed after the restart.
                () = stop.stopped() => return,
                ended = tokio::time::timeout(LIFE, work(task.clone())) => Some(ended.unwrap_or_else(|_| {
                    Err(RpcError::from(&Problem::new(Kind::Timeout, "it exceeded the time limit of a task")))
                })),
            };
            task.end(ended);
            let record = task.written();
            if let Err(problem) = write_end(tasks, record).await {
                tracing::warn!(error = %problem.message, "failed to save the end of a task");
            }
        });
        Ok(handle)
    }

    /// Waits for changes of a task of our own that runs; `None` for any other.
    pub fn watch(&self, caller: &Caller, id: &str) -> Option<watch::Receiver<u64>> {
        let task = self.get(id).filter(|task| task.belongs_to(caller))?;
        Some(task.shared.changes.subscribe())
    }
}

/// A task's place in the table.
struct TaskSlot {
    tasks: Arc<OwnTasks>,
    task: OwnTask,
}

impl Drop for TaskSlot {
    fn drop(&mut self) {
        self.tasks.leave(&self.task);
    }
}

/// A result that is too large to be kept becomes an error that says so.
async fn write_end(tasks: &OwnTasks, record: TaskRecord) -> Result<(), Problem> {
    let store = tasks.store.clone();
    blocking(move || match store.tasks().put(&record) {
        Err(StoreError::TooLarge { .. }) => {
            let body = Raw::parse(record.body.clone().into(), json::Rules::relayed(usize::MAX));
            let body = body.map(|body| failed(&body, &Problem::new(Kind::TooLarge, "its result is too large to save")));
            let body = body.map(|body| body.as_str().to_owned()).unwrap_or_default();
            store.tasks().put(&TaskRecord { body, ..record })
        }
        other => other,
    })
    .await
}

/// What is reported about a task that no process runs any more.
fn interrupted(body: &Raw) -> Raw {
    failed(
        body,
        &Problem::new(Kind::Unavailable, "the gateway was restarted while it ran").hint("Make the call again."),
    )
}

fn failed(body: &Raw, problem: &Problem) -> Raw {
    let error = RpcError::from(problem);
    let message = Raw::from_value(&error.message);
    body.edit(&[
        ("status", Edit::Set("\"failed\"")),
        ("statusMessage", Edit::Set(message.as_str())),
        ("error", Edit::Set(error.to_raw().as_str())),
        ("result", Edit::Remove),
        ("inputRequests", Edit::Remove),
    ])
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Problem::from),
        Err(error) => Err(Problem::new(Kind::Internal, error.to_string())),
    }
}
