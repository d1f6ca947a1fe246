//! Agents as the gateway sees them: a source of tools and of operations.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_agent::driver::{DriveError, DriveRuns, Rest, Runs, Surroundings};
use toolcrib_agent::{Cost, Event, WaitFor};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, PrincipalId, Problem, ProfileName, ServerName};
use toolcrib_call::{ApprovalEnd, Halt, HaltSubject, Halts, Invocation, Source};
use toolcrib_catalog::{AGENT_PRINCIPAL_PREFIX, Catalog, DefinitionProblem};
use toolcrib_gateway::Gateway;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_store::{AgentRunQuery, AgentRunRecord, AgentRuns};
use toolcrib_view::{ObjectKind, Offer, Operation, ToolSource, VisibleNames};

use super::audit::{self, AuditedRun, RunEvent};
use super::bridge::{Bridge, caller_of};
use super::call::SPENT;
use super::context::as_agent;
use super::dialog::{self, Dialog, DialogOutcome, Return};
use super::keep;
use super::operation;
use super::place::{self, RunPlace, Within};
use super::route::Router;
use super::send::SendRequest;
use super::sentinel::{InputReview, InputText};
use super::shown;
use super::start::Order;
use super::table::{self, Table};
use super::tools::SOURCE;

/// In the `_meta` of a result: the run that gave it.
const RUN: &str = "toolcrib/run";
/// In the `_meta` of a result that is none yet: the run that is waited for.
pub(super) const WAITS: &str = "toolcrib/waits";
/// How long a client that calls an agent waits with a run that waits for a person.
const PATIENCE: Duration = Duration::from_secs(50);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);
/// How long a run that is under way may have no task before it is taken up.
const ALONE: Duration = Duration::from_secs(5);
/// How long whoever tells a run something waits for its next step.
const SETTLE: Duration = Duration::from_secs(2);
/// Runs that are read at once to look for halted ones.
const PAGE: u32 = 500;
/// How often runs that are too old are forgotten.
const FORGET: Duration = Duration::from_secs(60 * 60);
/// How often is looked for runs whose time has come.
const DUE: Duration = Duration::from_secs(1);

/// All agents and their runs.
#[derive(Debug)]
pub struct Agents {
    name: ServerName,
    inner: Arc<Inner>,
    scope: Scope,
    /// What an earlier process left under way.
    left: Mutex<Vec<String>>,
    /// The runs that waited for a person in it.
    asking: Mutex<Vec<String>>,
}

/// What operations and runs share.
#[derive(Debug)]
pub(super) struct Inner {
    table: RwLock<Arc<Table>>,
    pub(super) bridge: Arc<Bridge>,
}

/// What came of waiting for a run.
pub(super) enum Outcome {
    /// It ended.
    Ended(AgentRunRecord),
    /// It waits for something outside.
    Waits(AgentRunRecord),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Ended(run) | Self::Waits(run)) = self;
        f.debug_struct("Outcome").field("run", &run.id).field("status", &run.state.status).finish()
    }
}

// === impl Inner ===

impl Inner {
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A run's row.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn record(&self, run: &str) -> Result<Option<AgentRunRecord>, Problem> {
        self.bridge.record(run).await
    }

    /// How many entries a run's journal has.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn entry_count(&self, run: &str) -> Result<u64, Problem> {
        let (store, id) = (self.bridge.store.clone(), run.to_owned());
        blocking(move || store.count_entries(&id)).await
    }

    /// A run in one object, with the principal that it acts as where that is not its own.
    pub(super) async fn shown(&self, record: &AgentRunRecord) -> Value {
        let (store, id) = (self.bridge.store.clone(), record.id.clone());
        let first = blocking(move || store.first_line(&id)).await.unwrap_or_else(|problem| {
            tracing::warn!(run = record.id, %problem, "the start of a run cannot be read");
            None
        });
        shown::record(record, first.and_then(|line| keep::runs_as(&line)).as_deref())
    }

    /// Starts a run.
    ///
    /// # Errors
    /// A model, profile or limit is missing; too many run; the store cannot be written.
    pub(super) async fn begin(&self, order: &Order, run: String, invocation: Invocation) -> Result<(), Problem> {
        let mut start = order.start(run.clone(), &invocation, &self.bridge.models)?;
        let (agent, caller) = (start.agent.clone(), invocation.caller.clone());
        // Before anything is written: what is turned away begins no run.
        let (limits, text) = (&start.limits, order.task.as_str());
        let above = start.parent.as_ref().and_then(|parent| self.bridge.known(&parent.run));
        let above = above.as_deref();
        let input = InputText { caller: &caller, agent: &agent, run: &run, text, limits, spent: None, above };
        let InputReview { held, judged } = self.bridge.look_at_input(input).await?;
        let is_held = held.is_some();
        (start.held, start.judged) = (held, judged);
        let start = Arc::new(start);
        self.bridge.begin(&start, invocation);
        self.message_sent(&caller, &agent, &run).await;
        if let Err(error) = self.bridge.runs().start((*start).clone()).await {
            self.bridge.forget(&run);
            self.bridge.count_unbegun(&agent, judged).await;
            return Err(match error {
                DriveError::Storage(problem) | DriveError::DayLimit(problem) => problem,
                error => Problem::new(Kind::Unavailable, format!("the run does not start: {error}")),
            });
        }
        self.bridge.happened(&agent, "RunStarted", format!("run `{run}` started"), false);
        if is_held {
            self.bridge.quarantined(&agent, &run);
        }
        Ok(())
    }

    /// Puts on record that somebody gave a run a task or a message.
    pub(super) async fn message_sent(&self, caller: &Caller, agent: &str, run: &str) {
        if let Some(gateway) = self.bridge.gateway() {
            audit::record(&gateway, AuditedRun { caller, agent, run }, RunEvent::new("message.sent")).await;
        }
    }

    /// Waits until a run ends, or waits for something outside and `patience` is over. `seen` hears how many entries the
    /// run has whenever something happened to it, which may be the same number twice.
    ///
    /// # Errors
    /// There is no such run; it cannot go on; the gateway ends.
    pub(super) async fn outcome(
        &self,
        run: &str,
        patience: Duration,
        mut seen: impl FnMut(u64),
    ) -> Result<Outcome, Problem> {
        let unknown = || Problem::new(Kind::NotFound, format!("there is no run `{run}`"));
        let (mut waited, mut alone) = (Duration::ZERO, Duration::ZERO);
        loop {
            let record = self.record(run).await?.ok_or_else(unknown)?;
            match record.state.status.as_str() {
                "ended" => return Ok(Outcome::Ended(record)),
                // Who has as long as it takes waits for that person too.
                "paused" if patience < Duration::MAX => return Ok(Outcome::Waits(record)),
                "waiting" if waited >= patience => return Ok(Outcome::Waits(record)),
                "waiting" | "paused" => {
                    tokio::time::sleep(LOOK).await;
                    waited += LOOK;
                    continue;
                }
                _ => {}
            }
            let Some(mut feed) = self.bridge.watched(run) else {
                // Between two processes or two tasks; its row says soon where it is. Else its task was lost.
                tokio::time::sleep(LOOK).await;
                alone += LOOK;
                if alone >= ALONE {
                    self.take_up(run).await?;
                    alone = Duration::ZERO;
                }
                continue;
            };
            alone = Duration::ZERO;
            loop {
                let (entries, rest) = {
                    let now = feed.borrow_and_update();
                    (now.entries, now.rest.clone())
                };
                seen(entries);
                match rest {
                    Some(Ok(Rest::Stopped)) => return Err(toolcrib_call::admission::closing_problem()),
                    Some(Ok(_)) => break,
                    Some(Err(why)) => {
                        return Err(Problem::new(Kind::Internal, format!("run `{run}` cannot go on: {why}")));
                    }
                    None => {}
                }
                if feed.changed().await.is_err() {
                    break;
                }
            }
        }
    }
}

impl Inner {
    /// Goes on with a run that no task has although its row says so.
    ///
    /// # Errors
    /// It cannot go on, and why.
    async fn take_up(&self, run: &str) -> Result<(), Problem> {
        tracing::warn!(run, "a run that is under way has no task and is taken up");
        self.bridge.runs().resume(run).await.map_err(|error| {
            Problem::new(Kind::Internal, format!("run `{run}` has no task and cannot go on: {error}"))
                .hint(format!("To see what happened, run `toolcrib run export {run} --format markdown`."))
        })
    }

    /// Tells a run something, and waits until it is in its journal and the run has taken its next step, or for a moment.
    /// `ends` waits until the run has no task any more.
    ///
    /// # Errors
    /// As [`DriveRuns::tell`].
    pub(super) async fn tell(&self, run: &str, event: Event, ends: bool) -> Result<(), DriveError> {
        let before = self.bridge.watched(run).map(|feed| feed.borrow().entries);
        self.bridge.runs().tell(run, event).await?;
        self.settle(run, before, ends).await;
        Ok(())
    }

    /// The same for [`DriveRuns::resume`].
    ///
    /// # Errors
    /// As there.
    pub(super) async fn resume(&self, run: &str) -> Result<(), DriveError> {
        let before = self.bridge.watched(run).map(|feed| feed.borrow().entries);
        self.bridge.runs().resume(run).await?;
        self.settle(run, before, false).await;
        Ok(())
    }

    async fn settle(&self, run: &str, before: Option<u64>, ends: bool) {
        let Some(mut feed) = self.bridge.watched(run) else { return };
        let before = before.unwrap_or_else(|| feed.borrow().entries);
        let next = async {
            loop {
                let is_there = {
                    let now = feed.borrow_and_update();
                    now.rest.is_some() || !ends && now.entries > before
                };
                if is_there || feed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(SETTLE, next).await;
    }
}

/// Work on the store, off the workers.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, toolcrib_store::StoreError> + Send + 'static,
) -> Result<T, Problem> {
    let failed = |error: String| Problem::new(Kind::Internal, format!("the store of runs cannot be used: {error}"));
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| failed(error.to_string()))?;
    done.map_err(Problem::from)
}

// === impl Agents ===

impl Agents {
    /// None yet; [`Source::apply`] brings them. Runs are tasks of `scope`. Blocks: it reads what an earlier process left
    /// under way.
    pub fn new(store: AgentRuns, send: Arc<dyn SendRequest>, clock: Arc<dyn Clock>, scope: &Scope) -> Arc<Self> {
        Self::driven_by(store, send, clock, scope, |around, scope| Arc::new(Runs::new(around, scope)))
    }

    /// The same where something else than this process alone executes the runs.
    pub fn driven_by(
        store: AgentRuns,
        send: Arc<dyn SendRequest>,
        clock: Arc<dyn Clock>,
        scope: &Scope,
        driver: impl FnOnce(Surroundings, Scope) -> Arc<dyn DriveRuns>,
    ) -> Arc<Self> {
        let left = store.interrupted().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read interrupted runs");
            Vec::new()
        });
        let asking = store.waiting_on_any("person:").unwrap_or_else(|error| {
            tracing::error!(%error, "cannot find the runs that wait for a person");
            Vec::new()
        });
        let bridge = Bridge::new(store, send, clock, scope, driver);
        let inner = Arc::new(Inner { table: RwLock::default(), bridge });
        let name = ServerName::new(SOURCE).expect("`agent` is a name");
        Arc::new(Self { name, inner, scope: scope.clone(), left: Mutex::new(left), asking: Mutex::new(asking) })
    }

    /// What runs share.
    pub(super) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Tells the agents that the gateway is there: what an earlier process left under way goes on.
    pub fn enter(&self, gateway: &Arc<Gateway>) {
        if !self.inner.bridge.enter(gateway) {
            return;
        }
        gateway.route_with(Arc::new(Router(Arc::clone(&self.inner))));
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        let asking = std::mem::take(&mut *self.asking.lock().unwrap_or_else(PoisonError::into_inner));
        let bridge = Arc::clone(&self.inner.bridge);
        self.scope.spawn(async move {
            bridge.lose_questions(asking).await;
            for run in left {
                if let Err(error) = bridge.runs().resume(&run).await {
                    tracing::warn!(run, %error, "an interrupted run cannot go on");
                }
            }
            bridge.look_for_ended_approvals(None).await;
            end_halted_at_rest(&bridge).await;
        });
        let (bridge, mut stop) = (Arc::clone(&self.inner.bridge), self.scope.stop_signal());
        self.scope.spawn(async move {
            let mut last_pruned = None;
            loop {
                wake_due(&bridge).await;
                bridge.look_for_logins().await;
                let now = bridge.clock.now();
                if last_pruned.is_none_or(|last| now.since(last) > FORGET.as_millis() as u64) {
                    last_pruned = Some(now);
                    let store = bridge.store.clone();
                    if let Err(problem) = blocking(move || store.prune()).await {
                        tracing::warn!(%problem, "failed to delete old runs");
                    }
                }
                tokio::select! {
                    () = stop.stopped() => return,
                    () = tokio::time::sleep(DUE) => {}
                }
            }
        });
    }
}

/// The halt of a run that has no task: its own, of whose it is, or of as whom and in which profile it calls.
async fn halt_at_rest(
    bridge: &Bridge,
    gateway: &Gateway,
    halts: &[Arc<Halt>],
    run: &AgentRunRecord,
) -> Option<Arc<Halt>> {
    let mut caller = caller_of(run);
    if let Some(halt) = gateway.path.halts.of_run(&run.id, &caller) {
        return Some(halt);
    }
    // The journal is read only where it may say more.
    let may_be_its = |halt: &Arc<Halt>| match &halt.subject {
        HaltSubject::Principal(id) => id.as_str().strip_prefix(AGENT_PRINCIPAL_PREFIX) == Some(&run.agent),
        HaltSubject::Profile(_) => true,
        _ => false,
    };
    if !halts.iter().any(may_be_its) {
        return None;
    }
    let (store, id) = (bridge.store.clone(), run.id.clone());
    let start = keep::start(&blocking(move || store.first_line(&id)).await.ok()??)?;
    if let Some(principal) = &start.runs_as {
        caller = as_agent(&caller, PrincipalId::new(principal));
    }
    let profile = ProfileName::new(&start.profile).unwrap_or(caller.profile);
    gateway.path.halts.of_principal(&caller.principal, &profile)
}

/// Ends the runs that wait or are paused and whose callers are halted.
async fn end_halted_at_rest(bridge: &Arc<Bridge>) {
    let Some(gateway) = bridge.gateway() else { return };
    let halts = gateway.path.halts.list();
    if halts.is_empty() {
        return;
    }
    for status in ["waiting", "paused"] {
        let mut halted = Vec::new();
        let mut offset = 0;
        loop {
            let query =
                AgentRunQuery { status: Some(status.to_owned()), limit: PAGE, offset, ..AgentRunQuery::default() };
            let store = bridge.store.clone();
            let runs = match blocking(move || store.list(&query)).await {
                Ok((runs, _)) => runs,
                Err(problem) => return tracing::error!(%problem, "cannot find the runs that are halted"),
            };
            let is_last = runs.len() < PAGE as usize;
            for run in runs {
                if let Some(halt) = halt_at_rest(bridge, &gateway, &halts, &run).await {
                    halted.push((run.id, halt));
                }
            }
            if is_last {
                break;
            }
            offset += PAGE;
        }
        for (run, halt) in halted {
            let by = format!("halt `{}`", halt.id);
            if let Err(error) = bridge.runs().tell(&run, Event::Cancelled { by }).await {
                tracing::warn!(run, %error, "a halted run cannot be ended");
            }
        }
    }
}

/// Runs that wait for a moment that has come go on.
async fn wake_due(bridge: &Arc<Bridge>) {
    let (store, now) = (bridge.store.clone(), bridge.clock.now());
    let due = blocking(move || store.due(now)).await.unwrap_or_else(|problem| {
        tracing::warn!(%problem, "cannot find the runs whose time has come");
        Vec::new()
    });
    for run in due {
        let context = match bridge.context(&run).await {
            Ok(context) => context,
            Err(problem) => {
                tracing::warn!(run, %problem, "a run whose time has come cannot go on");
                continue;
            }
        };
        for at in context.moments().into_iter().filter(|at| *at <= now) {
            if let Err(error) = bridge.runs().tell(&run, Event::Arrived(WaitFor::Time(at))).await {
                tracing::warn!(run, %error, "a run cannot go on");
            }
        }
    }
}

impl ToolSource for Agents {
    fn name(&self) -> &ServerName {
        &self.name
    }

    fn tools(&self) -> Arc<[Offer]> {
        Arc::clone(&self.inner.table().offers)
    }

    fn shows(&self, view: &dyn VisibleNames, kind: ObjectKind, name: &str) -> bool {
        kind == ObjectKind::Agent
            && self.inner.table().get(name).is_some()
            && view.may_name_alone(&format!("{SOURCE}/{name}"))
    }

    fn explain(&self, view: &dyn VisibleNames, tool: &str) -> Option<Problem> {
        self.inner.table().get(tool).filter(|_| self.shows(view, ObjectKind::Agent, tool))?;
        let profile = view.profile();
        let message = format!("agent `{tool}` is not available: the profile `{profile}` does not allow it");
        let hint = format!("To see the rule, run `toolcrib explain agent/{tool} --profile {profile}`.");
        Some(Problem::new(Kind::Unavailable, message).hint(hint))
    }
}

impl Source for Agents {
    fn apply(&self, loaded: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        self.inner.bridge.apply(loaded);
        let before = self.inner.table();
        let (table, problems) = Table::of(loaded, &before);
        *self.inner.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        problems
    }

    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>> {
        let (inner, scope) = (Arc::clone(&self.inner), self.scope.clone());
        run(inner, scope, invocation).boxed()
    }

    fn end_halted(&self, halts: &Halts) {
        for context in self.inner.bridge.under_way() {
            let run = context.start.run.clone();
            let of_owner = || halts.of_run(&run, &context.owner);
            if let Some(halt) = halts.of_run(&run, &context.invocation.caller).or_else(of_owner) {
                let (bridge, by) = (Arc::clone(&self.inner.bridge), format!("halt `{}`", halt.id));
                self.scope.spawn(async move {
                    if let Err(error) = bridge.runs().tell(&run, Event::Cancelled { by }).await {
                        tracing::warn!(run, %error, "a halted run cannot be ended");
                    }
                });
            }
        }
        // Those that wait have no task: they are found in the store, and end there.
        let bridge = Arc::clone(&self.inner.bridge);
        self.scope.spawn(async move { end_halted_at_rest(&bridge).await });
    }

    fn question_ended(&self, run: &str, place: &str) {
        let (bridge, run, place) = (Arc::clone(&self.inner.bridge), run.to_owned(), place.to_owned());
        self.scope.spawn(async move { bridge.question_ended(&run, &place).await });
    }

    fn approval_ended(&self, end: &ApprovalEnd) {
        let (bridge, end) = (Arc::clone(&self.inner.bridge), end.clone());
        self.scope.spawn(async move { bridge.approval_ended(&end).await });
    }

    fn operations(&self) -> &'static [Operation] {
        operation::rows()
    }

    fn operate(
        &self,
        operation: &'static Operation,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Value, Problem>> {
        operation::run(Arc::clone(&self.inner), operation, invocation).boxed()
    }
}

/// Cancels a run whose client went away.
struct CancelGuard {
    bridge: Arc<Bridge>,
    scope: Scope,
    run: Option<String>,
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        // What the end of the process takes along goes on with the next one.
        let Some(run) = self.run.take().filter(|_| !self.scope.stop_signal().is_stopped()) else { return };
        let bridge = Arc::clone(&self.bridge);
        self.scope.spawn(async move {
            let by = "the client, which disconnected or took its call back".to_owned();
            let _ = bridge.runs().tell(&run, Event::Cancelled { by }).await;
        });
    }
}

/// A call of an agent: its run to its end.
async fn run(inner: Arc<Inner>, scope: Scope, invocation: Invocation) -> Result<Raw, Problem> {
    let table = inner.table();
    let Some(agent) = table.get(&invocation.tool).cloned() else {
        return Err(Problem::new(Kind::UnknownTool, format!("agent `{}` not found", invocation.tool)));
    };
    let task = table::task(&agent, &invocation.arguments);
    let place = match dialog::came_back(&inner, agent.name.as_str(), &task, &invocation).await? {
        Some(Return { run, is_closed: true }) => {
            let record = inner.record(&run).await?;
            let record = record.ok_or_else(|| Problem::new(Kind::NotFound, format!("there is no run `{run}`")))?;
            return Ok(waiting(&record, &inner.shown(&record).await));
        }
        Some(Return { run, is_closed: false }) => RunPlace::known(run),
        None => place::find(&inner, &agent, &invocation).await?,
    };
    let RunPlace { id, is_known, order, within } = place;
    if !is_known {
        inner.begin(&order, id.clone(), invocation.clone()).await?;
    }
    let is_direct = matches!(within, Within::Call(_));
    let mut guard = CancelGuard { bridge: Arc::clone(&inner.bridge), scope, run: (!is_direct).then(|| id.clone()) };
    let patience = match within {
        Within::Call(_) => Duration::ZERO,
        // A step waits as long as it may take.
        Within::Workflow(_) => Duration::MAX,
        Within::Request => PATIENCE,
    };
    // A protocol's progress must rise; each look begins with the number of the last one.
    let (told, mut highest) = (invocation.clone(), 0);
    let mut tell = |entries: u64| {
        if entries > highest {
            highest = entries;
            told.report_progress(usize::try_from(entries).unwrap_or(usize::MAX), None, &format!("entry {entries}"));
        }
    };
    let dialog = Dialog::of(&invocation).filter(|_| !is_direct);
    let outcome = dialog::outcome(&inner, &id, patience, dialog, &mut tell).await;
    guard.run = None;
    let outcome = match outcome? {
        DialogOutcome::Run(outcome) => *outcome,
        DialogOutcome::Asks(result) => return Ok(result),
    };
    if let (Within::Workflow(Some(above)), Outcome::Ended(record)) = (&within, &outcome) {
        above.add_spending(Cost { tokens: record.state.tokens, money: record.state.money });
    }
    if let (Within::Workflow(Some(above)) | Within::Call(above), Outcome::Ended(_)) = (&within, &outcome) {
        // Its words may be made of what it has read, however it ended.
        above.add_seen(&inner.bridge.seen_by(&id).await?);
    }
    Ok(match outcome {
        Outcome::Ended(record) => ended(&record, agent.output.is_some()),
        Outcome::Waits(record) => waiting(&record, &inner.shown(&record).await),
    })
}

fn ended(record: &AgentRunRecord, has_schema: bool) -> Raw {
    let is_done = super::keep::is_done(record);
    let output = record.state.output.clone().unwrap_or_default();
    let text = match (is_done, output.is_empty()) {
        (true, _) => output.clone(),
        (false, true) => {
            format!("The run ended without a result: {}.", record.state.end.as_deref().unwrap_or("unknown"))
        }
        (false, false) => format!("The run ended: {}: {output}", record.state.end.as_deref().unwrap_or("unknown")),
    };
    let mut result = json!({
        "content": [{"type": "text", "text": text}], "isError": !is_done,
        "_meta": {RUN: record.id, SPENT: {"tokens": record.state.tokens, "money": record.state.money}},
    });
    if has_schema
        && is_done
        && let Ok(value @ Value::Object(_)) = serde_json::from_str(&output)
    {
        result["structuredContent"] = value;
    }
    Raw::from_value(&result)
}

fn waiting(record: &AgentRunRecord, shown: &Value) -> Raw {
    let text = format!(
        "Run `{}` waits for a person. It goes on by itself; see it with the tool core_run_get or `toolcrib run show {}`.",
        record.id, record.id
    );
    Raw::from_value(&json!({
        "content": [{"type": "text", "text": text}], "structuredContent": shown,
        "_meta": {RUN: record.id, WAITS: record.id},
    }))
}
