//! The runs that are under way: begun, cancelled, left alone, and taken up again after a restart.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, Timestamp, random};
use toolcrib_call::{Halts, InterruptedCall, Invocation};
use toolcrib_catalog::WorkflowDefinition;
use toolcrib_gateway::{Gateway, ObjectEvent};
use toolcrib_protocol::Raw;
use toolcrib_session::{Caller, Principal};
use toolcrib_store::{RunRecord, RunStepRecord, Runs};
use toolcrib_view::ObjectKind;

use super::argument::Input;
use super::book::{Book, kept};
use super::call::{CallTool, PastCall};
use super::engine::{Engine, RunOutcome};
use super::program::Program;

/// How many runs may be under way that no client awaits.
const DETACHED: usize = 256;
/// How long an interrupted run waits for its tools to be there again.
const TOOLS_BACK: Duration = Duration::from_secs(120);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);

/// Lets programs call tools in the name of a run's caller, for as long as the run is under way. The composition root
/// supplies it: nothing here knows tokens.
pub trait GrantRuns: fmt::Debug + Send + Sync {
    /// A run begins, or goes on after a restart. What was granted for it ends when the result is dropped.
    fn begin(&self, run: &str, caller: &Caller) -> Box<dyn fmt::Debug + Send + Sync>;
}

/// The runs of all workflows.
#[derive(Debug)]
pub(super) struct RunTable {
    pub(super) runs: Runs,
    pub(super) grants: OnceLock<Arc<dyn GrantRuns>>,
    gateway: OnceLock<Weak<Gateway>>,
    scope: Scope,
    under_way: Mutex<HashMap<String, RunningEntry>>,
    /// Set when the process is about to end: runs are left to the next one.
    closing: AtomicBool,
}

#[derive(Debug)]
struct RunningEntry {
    detached: bool,
    /// For whom it runs.
    caller: Caller,
    /// What was granted for it; ends at once when the run is asked to end.
    grant: Option<Box<dyn fmt::Debug + Send + Sync>>,
    cancel: watch::Sender<Option<String>>,
}

/// Calls tools by the one path of the gateway.
pub(super) struct InvocationCaller {
    pub(super) invocation: Invocation,
    pub(super) workflow: String,
    running: Arc<RunTable>,
}

/// What a run is made of.
pub(super) struct RunRequest {
    pub(super) program: Arc<Program>,
    pub(super) invocation: Invocation,
    pub(super) input: Input,
    pub(super) record: RunRecord,
    pub(super) past: Vec<RunStepRecord>,
}

// === impl RunningEntry ===

impl RunningEntry {
    /// Asks the run to end. What was granted for it is gone before anyone can see that it was asked.
    fn end(&mut self, by: String) {
        self.grant = None;
        self.cancel.send_replace(Some(by));
    }
}

// === impl InvocationCaller ===

impl CallTool for InvocationCaller {
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Value) -> BoxFuture<'a, Result<Value, Problem>> {
        async move { Ok(self.invocation.call(tool, Raw::from_value(arguments)).await?.to_value()) }.boxed()
    }

    fn interrupted<'a>(&'a self, tool: &'a str, arguments: &'a Value, since: Timestamp) -> BoxFuture<'a, PastCall> {
        async move {
            match self.invocation.interrupted(tool, Raw::from_value(arguments), since).await {
                InterruptedCall::Ended(result) => PastCall::Ended(result.map(|result| result.to_value())),
                InterruptedCall::NotMade => PastCall::NotMade,
                InterruptedCall::Unknown => PastCall::Unknown,
            }
        }
        .boxed()
    }

    fn call_step<'a>(
        &'a self,
        step: &'a str,
        tool: &'a str,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Problem>> {
        let arguments = Raw::from_value(arguments);
        async move { Ok(self.invocation.call_step(step, tool, arguments).await?.to_value()) }.boxed()
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        self.invocation.is_repeatable(tool)
    }

    fn missing(&self, tools: &[&str]) -> Vec<String> {
        self.invocation.missing(tools.iter().copied())
    }

    fn happened(&self, reason: &'static str, message: String, warning: bool) {
        let event = ObjectEvent { kind: ObjectKind::Workflow, name: self.workflow.clone(), reason, message, warning };
        if let Some(gateway) = self.running.gateway() {
            gateway.happened(event);
        }
    }

    fn report_progress(&self, done: usize, total: usize, message: &str) {
        self.invocation.report_progress(done, Some(total), message);
    }
}

impl fmt::Debug for RunRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRequest").field("run", &self.record.id).finish_non_exhaustive()
    }
}

/// What is written of a new run.
pub(super) fn record(program: &Program, invocation: &Invocation, input: &Input, runs: &Runs) -> RunRecord {
    let mut truncated = false;
    let hex = random::hex_128();
    RunRecord {
        // The form that clients know; 122 of its bits are chance.
        id: format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32]),
        workflow: program.definition.name.to_string(),
        status: "inprogress".to_owned(),
        principal: invocation.caller.principal.id.clone(),
        role: invocation.caller.principal.role,
        profile: invocation.caller.profile.clone(),
        definition: Value::Object(program.definition.spec.clone()).to_string(),
        input: kept(&input.values, &mut truncated),
        result: None,
        error: None,
        truncated,
        step_count: 0,
        started_at: runs.now(),
        completed_at: None,
    }
}

// === impl RunTable ===

impl RunTable {
    pub(super) fn new(runs: Runs, scope: &Scope) -> Arc<Self> {
        let scope = scope.clone();
        Arc::new(Self {
            runs,
            grants: OnceLock::new(),
            gateway: OnceLock::new(),
            scope,
            under_way: Mutex::default(),
            closing: AtomicBool::new(false),
        })
    }

    /// From now on the gateway is there; `false` where it was before.
    pub(super) fn enter(&self, gateway: &Arc<Gateway>) -> bool {
        self.gateway.set(Arc::downgrade(gateway)).is_ok()
    }

    /// The gateway, while there is one.
    pub(super) fn gateway(&self) -> Option<Arc<Gateway>> {
        self.gateway.get().and_then(Weak::upgrade)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, RunningEntry>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on runs that end early are left for the next process.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Asks a run to end.
    pub(super) fn cancel(&self, id: &str, by: &str) -> bool {
        let mut under_way = self.under_way();
        let Some(run) = under_way.get_mut(id) else { return false };
        run.end(by.to_owned());
        true
    }

    /// Asks the runs to end that are halted, or whose callers are.
    pub(super) fn end_halted(&self, halts: &Halts) {
        for (id, run) in self.under_way().iter_mut() {
            if let Some(halt) = halts.of_run(id, &run.caller) {
                run.end(format!("halt `{}`", halt.id));
            }
        }
    }

    /// Ends what calls of a run wait for that has ended, such as those of its programs.
    fn end_approvals(&self, run: &str) {
        let Some(gateway) = self.gateway() else { return };
        let run = run.to_owned();
        self.scope.spawn(async move {
            if let Err(problem) = gateway.path.end_approvals_of_run(&run, "its run has ended").await {
                tracing::error!(run, "what it waits for stays open: {}", problem.message);
            }
        });
    }

    /// Runs it to its end.
    pub(super) async fn run(self: &Arc<Self>, order: RunRequest) -> RunOutcome {
        let prepared = self.prepare(order, false);
        prepared.run().await
    }

    /// Begins a run that no client awaits.
    pub(super) async fn detach(self: &Arc<Self>, order: RunRequest) -> Result<Value, Problem> {
        let detached = self.under_way().values().filter(|run| run.detached).count();
        if detached >= DETACHED {
            let message = format!("the limit of {DETACHED} background runs is reached");
            return Err(Problem::new(Kind::Busy, message).hint("Try again when some of them have completed."));
        }
        let answer = json!({
            "execution_id": order.record.id, "workflow": order.record.workflow, "status": "inprogress",
            "input": order.input.values,
        });
        let prepared = self.prepare(order, true);
        // Anyone who has its id finds it.
        prepared.leave.book.write(true).await.map_err(|error| Problem::new(Kind::Internal, error))?;
        let mut stop = self.scope.stop_signal();
        self.scope.spawn(async move {
            tokio::select! {
                // What the run has done is in its book; the next process continues with it.
                () = stop.stopped() => {}
                _ = prepared.run() => {}
            }
        });
        Ok(answer)
    }

    fn prepare(self: &Arc<Self>, order: RunRequest, detached: bool) -> PreparedRun {
        let (cancel, cancelled) = watch::channel(None);
        let id = order.record.id.clone();
        let RunRequest { program, mut invocation, input, record, past } = order;
        let caller = invocation.caller.clone();
        let grant = self.grants.get().map(|grants| grants.begin(&id, &caller));
        self.under_way().insert(id.clone(), RunningEntry { detached, caller, grant, cancel });
        let workflow = record.workflow.clone();
        invocation.enter_run(&workflow, &id);
        let labels = program.definition.labels.iter();
        invocation.add_labels(labels.map(|(key, value)| match &value[..] {
            "" => key.as_str().into(),
            value => format!("{key}={value}").into(),
        }));
        let book = Arc::new(Book::going_on(Some(self.runs.clone()), record, past));
        let leave = RunGuard { running: Arc::clone(self), book, id };
        PreparedRun {
            leave,
            program,
            input,
            caller: InvocationCaller { invocation, workflow, running: Arc::clone(self) },
            cancelled,
        }
    }

    /// Takes up what an earlier process left.
    pub(super) fn take_up(self: &Arc<Self>, gateway: &Arc<Gateway>, left: Vec<RunRecord>) {
        for record in left {
            let (running, gateway) = (Arc::clone(self), Arc::clone(gateway));
            let mut stop = self.scope.stop_signal();
            self.scope.spawn(async move {
                tokio::select! {
                    () = stop.stopped() => {}
                    () = running.go_on(gateway, record) => {}
                }
            });
        }
    }

    async fn go_on(self: Arc<Self>, gateway: Arc<Gateway>, record: RunRecord) {
        let principal = Principal::restored(record.principal.clone(), record.role);
        let caller = Caller::without_message(principal, record.profile.clone(), Invocation::DOOR);
        let invocation = Invocation::new(Arc::<Gateway>::clone(&gateway), caller);
        let prepared = match self.order_again(invocation, record.clone()).await {
            Ok(order) => self.prepare(order, true),
            Err(error) => {
                let failed = RunRecord {
                    status: "failed".to_owned(),
                    error: Some(format!("interrupted by a restart of the gateway, and cannot resume: {error}")),
                    completed_at: Some(self.runs.now()),
                    ..record
                };
                tracing::warn!(run = failed.id, workflow = failed.workflow, error, "cannot resume an interrupted run");
                let message = format!("run {} failed: {error}", failed.id);
                gateway.happened(ObjectEvent::warning(
                    ObjectKind::Workflow,
                    &failed.workflow,
                    "ExecutionFailed",
                    message,
                ));
                let runs = self.runs.clone();
                let _ = tokio::task::spawn_blocking(move || runs.put(&failed, &[])).await;
                return;
            }
        };
        let missing = |prepared: &PreparedRun| {
            let tools = prepared.program.definition.tools();
            prepared.caller.missing(&tools)
        };
        // A halt that was added before it was under way has not seen it.
        self.end_halted(&gateway.path.halts);
        let back = async {
            while prepared.cancelled.borrow().is_none() && !missing(&prepared).is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(TOOLS_BACK, back).await.is_err() {
            tracing::warn!(run = record.id, "resuming an interrupted run although some of its tools are missing");
        }
        tracing::info!(run = record.id, workflow = record.workflow, "resuming an interrupted run");
        prepared.run().await;
    }

    /// What an interrupted run is made of: the workflow as it was, and what its steps have done.
    async fn order_again(&self, invocation: Invocation, record: RunRecord) -> Result<RunRequest, String> {
        let definition = WorkflowDefinition::of_text(&record.workflow, &record.definition)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let program = Program::compile(&Arc::new(definition))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let values: Value = serde_json::from_str(&record.input).map_err(|error| error.to_string())?;
        if !values.is_object() {
            return Err("its input was too large to save".to_owned());
        }
        let (runs, id) = (self.runs.clone(), record.id.clone());
        let past = tokio::task::spawn_blocking(move || runs.steps(&id)).await.map_err(|error| error.to_string())?;
        let past = past.map_err(|error| error.to_string())?;
        let input = Input { values, debug: false, detach: true };
        Ok(RunRequest { program: Arc::new(program), invocation, input, record, past })
    }
}

/// A run that can begin.
struct PreparedRun {
    leave: RunGuard,
    program: Arc<Program>,
    input: Input,
    caller: InvocationCaller,
    cancelled: watch::Receiver<Option<String>>,
}

impl PreparedRun {
    async fn run(self) -> RunOutcome {
        let Self { leave, program, input, caller, cancelled } = self;
        let mut engine = Engine::new(&program, &leave.book, &input.values, &caller, cancelled);
        engine.debug = input.debug;
        engine.run().await
    }
}

/// Whatever becomes of a run, also when its future is dropped, it is under way no more and its book says so.
struct RunGuard {
    running: Arc<RunTable>,
    book: Arc<Book>,
    id: String,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let ended = self.running.under_way().remove(&self.id);
        // What was granted for it ends here, outside of the lock.
        drop(ended);
        let closing = self.running.closing.load(Ordering::SeqCst);
        if !closing {
            self.running.end_approvals(&self.id);
        }
        let why = "cancelled: client disconnected";
        let write = if closing { self.book.drop_open() } else { self.book.drop_end(why) };
        let Some(write) = write else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}
