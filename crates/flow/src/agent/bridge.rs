//! What the loop's driver asks for, filled by the gateway: this file has who keeps what; `ask`, `call`, `keep` and
//! `output` have the work.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use async_trait::async_trait;
use tokio::sync::watch;
use toolcrib_agent::driver::{AppendError, AskModel, CallOutcome, CallTool, DriveError, DriveRuns, Journal};
use toolcrib_agent::driver::{Observe, Rest, Surroundings};
use toolcrib_agent::{Answer, Ask, Call, Decision, End, Entry, Event, Failure, LimitName, OpenCall, Start, WaitFor};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, ProfileName, ServerName};
use toolcrib_call::admission::closing_problem;
use toolcrib_call::{ApprovalEnd, ApprovalOutcome, Invocation};
use toolcrib_catalog::{AgentDefinition, Catalog, Dollars};
use toolcrib_gateway::{Gateway, ObjectEvent};
use toolcrib_session::{Caller, Principal};
use toolcrib_store::{AgentDayLimits, AgentRunRecord, AgentRuns};
use toolcrib_view::ObjectKind;

use super::call::refused;
use super::context::{Feed, RunContext};
use super::dialogue;
use super::keep::{self, JournalState};
use super::models::Models;
use super::output::OutputCheck;
use super::question;
use super::send::SendRequest;
use super::sentinel::Sentinel;
use super::shown::wait_key;
use super::source::blocking;

/// What runs share.
pub(super) struct Bridge {
    pub(super) models: Models,
    pub(super) send: Arc<dyn SendRequest>,
    pub(super) store: AgentRuns,
    pub(super) clock: Arc<dyn Clock>,
    contexts: Mutex<HashMap<String, Arc<RunContext>>>,
    /// What agents may start and spend on one day.
    day_limits: RwLock<HashMap<String, AgentDayLimits>>,
    /// Those that look at what agents are given, of agents whose definitions say how.
    sentinels: RwLock<HashMap<String, Arc<Sentinel>>>,
    /// The agents that run as themselves, each in its profile.
    own_rights: RwLock<HashMap<String, ProfileName>>,
    gateway: OnceLock<Weak<Gateway>>,
    runs: OnceLock<Arc<dyn DriveRuns>>,
    scope: Scope,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("contexts", &self.contexts().len()).finish_non_exhaustive()
    }
}

impl Bridge {
    pub(super) fn new(
        store: AgentRuns,
        send: Arc<dyn SendRequest>,
        clock: Arc<dyn Clock>,
        scope: &Scope,
        driver: impl FnOnce(Surroundings, Scope) -> Arc<dyn DriveRuns>,
    ) -> Arc<Self> {
        let bridge = Arc::new(Self {
            models: Models::new(),
            send,
            store,
            clock: Arc::clone(&clock),
            contexts: Mutex::default(),
            day_limits: RwLock::default(),
            sentinels: RwLock::default(),
            own_rights: RwLock::default(),
            gateway: OnceLock::new(),
            runs: OnceLock::new(),
            scope: scope.clone(),
        });
        let around = Surroundings {
            models: Arc::new(BridgeHandle(Arc::downgrade(&bridge))),
            tools: Arc::new(BridgeHandle(Arc::downgrade(&bridge))),
            journal: Arc::new(BridgeHandle(Arc::downgrade(&bridge))),
            outputs: Arc::new(OutputCheck),
            observer: Arc::new(BridgeHandle(Arc::downgrade(&bridge))),
            clock,
        };
        let _ = bridge.runs.set(driver(around, scope.clone()));
        bridge
    }

    /// The runs that have a task.
    pub(super) fn runs(&self) -> &dyn DriveRuns {
        self.runs.get().map(Arc::as_ref).expect("set when it was made")
    }

    /// Takes in what the definitions say.
    pub(super) fn apply(&self, loaded: &Catalog) {
        self.models.apply(loaded);
        let limits = |agent: &AgentDefinition| AgentDayLimits {
            runs: agent.limits.per_day.runs.map(u64::from),
            tokens: agent.limits.per_day.tokens.map(u64::from),
            money: agent.limits.per_day.money.map(Dollars::picodollars),
        };
        let limits = loaded.agents.iter().map(|(name, agent)| (name.to_string(), limits(agent))).collect();
        *self.day_limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
        let sentinel = |agent: &AgentDefinition| Some((agent.name.to_string(), Arc::new(Sentinel::of(agent)?)));
        let sentinels = loaded.agents.values().filter_map(|agent| sentinel(agent)).collect();
        *self.sentinels.write().unwrap_or_else(PoisonError::into_inner) = sentinels;
        let as_itself = loaded.agents.values().filter(|agent| agent.own_principal().is_some());
        let rights = as_itself.filter_map(|agent| Some((agent.name.to_string(), agent.profile.clone()?)));
        *self.own_rights.write().unwrap_or_else(PoisonError::into_inner) = rights.collect();
    }

    /// What looks at what an agent, or a run without one, is given: without a definition the rules of the program.
    pub(super) fn sentinel(&self, agent: &str) -> Arc<Sentinel> {
        let sentinels = self.sentinels.read().unwrap_or_else(PoisonError::into_inner);
        sentinels.get(agent).cloned().unwrap_or_else(Sentinel::plain)
    }

    /// What an agent may start and spend on one day.
    pub(super) fn day_limits(&self, agent: &str) -> AgentDayLimits {
        self.day_limits.read().unwrap_or_else(PoisonError::into_inner).get(agent).copied().unwrap_or_default()
    }

    /// Tasks that outlive what asked for them.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether a run that acts as its agent still may: the definition says so as it did, and the run's owner may still call
    /// the agent and is not halted. Its calls themselves are decided as those of every principal.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn check_own_rights(&self, context: &RunContext) -> Result<(), Problem> {
        if context.start.runs_as.is_none() {
            return Ok(());
        }
        let agent = &context.start.agent;
        let refused = |why: String| Err(Problem::new(Kind::Forbidden, why));
        let rights = self.own_rights.read().unwrap_or_else(PoisonError::into_inner).get(agent).cloned();
        if rights.is_none_or(|profile| profile.as_str() != context.start.profile) {
            return refused(format!("agent `{agent}` was changed: it does not run as itself in this profile any more"));
        }
        let gateway = self.gateway().ok_or_else(closing_problem)?;
        if let Some(halt) = gateway.path.halts.of(&context.owner) {
            return Err(halt.problem());
        }
        let owner = Invocation::new(gateway, context.owner.clone());
        if !owner.missing([format!("agent/{agent}").as_str()]).is_empty() {
            return refused(format!("`{}` may not call agent `{agent}` any more", context.owner.principal.id));
        }
        Ok(())
    }

    /// From now on the gateway is there; `false` where it was before.
    pub(super) fn enter(&self, gateway: &Arc<Gateway>) -> bool {
        self.gateway.set(Arc::downgrade(gateway)).is_ok()
    }

    /// The gateway, while there is one.
    pub(super) fn gateway(&self) -> Option<Arc<Gateway>> {
        self.gateway.get().and_then(Weak::upgrade)
    }

    fn contexts(&self) -> MutexGuard<'_, HashMap<String, Arc<RunContext>>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs that are under way, with those for whom they are.
    pub(super) fn under_way(&self) -> Vec<Arc<RunContext>> {
        self.contexts().values().cloned().collect()
    }

    /// A run that has a task.
    pub(super) fn known(&self, run: &str) -> Option<Arc<RunContext>> {
        self.contexts().get(run).cloned()
    }

    /// Watches a run that has a task.
    pub(super) fn watched(&self, run: &str) -> Option<watch::Receiver<Feed>> {
        self.known(run).map(|context| context.watch())
    }

    /// Makes a run known that is about to start.
    pub(super) fn begin(&self, start: &Arc<Start>, invocation: Invocation) -> Arc<RunContext> {
        let context = Arc::new(RunContext::new(Arc::clone(start), invocation, JournalState::default()));
        self.contexts().insert(start.run.clone(), Arc::clone(&context));
        context
    }

    /// A run that did not start.
    pub(super) fn forget(&self, run: &str) {
        self.contexts().remove(run);
    }

    /// What is kept of a run, read from the store where nothing is.
    ///
    /// # Errors
    /// There is no such run; its journal cannot be read; the gateway ends.
    pub(super) async fn context(&self, run: &str) -> Result<Arc<RunContext>, Problem> {
        let known = self.known(run);
        if let Some(context) = known {
            return Ok(context);
        }
        let context = Arc::new(self.read_context(run).await?);
        // Two may have read at once; one of them counts.
        Ok(Arc::clone(self.contexts().entry(run.to_owned()).or_insert(context)))
    }

    /// Whose results a run has got, for the run above it.
    ///
    /// # Errors
    /// As [`Bridge::context`].
    pub(super) async fn seen_by(&self, run: &str) -> Result<Vec<String>, Problem> {
        match self.known(run) {
            Some(context) => Ok(context.all_seen()),
            None => Ok(self.read_context(run).await?.all_seen()),
        }
    }

    async fn read_context(&self, run: &str) -> Result<RunContext, Problem> {
        let gateway = self.gateway().ok_or_else(closing_problem)?;
        let Some((record, entries)) = keep::read(&self.store, run).await? else {
            return Err(Problem::new(Kind::NotFound, format!("there is no run `{run}`")));
        };
        let Some(start) = entries.iter().find_map(|entry| match &entry.event {
            Event::Started(start) => Some(Start { run: run.to_owned(), ..(**start).clone() }),
            _ => None,
        }) else {
            return Err(Problem::new(Kind::Internal, format!("the journal of run `{run}` has no beginning")));
        };
        let caller = caller_of(&record);
        let mut written = JournalState::default();
        written.take_all(&entries);
        let context = RunContext::new(Arc::new(start), Invocation::new(gateway, caller), written.clone());
        // These events are in the audit log already.
        let _ = context.trail(&entries, &written);
        context.saw(&entries);
        Ok(context)
    }

    /// Reports what happened to a run, in the events of its agent.
    pub(super) fn happened(&self, agent: &str, reason: &'static str, message: String, warning: bool) {
        if let Some(gateway) = self.gateway() {
            gateway.happened(ObjectEvent { kind: ObjectKind::Agent, name: agent.to_owned(), reason, message, warning });
        }
    }

    /// Reports that a run waits for a person to look at what it was given.
    pub(super) fn quarantined(&self, agent: &str, run: &str) {
        let message =
            format!("run `{run}` is in quarantine: `toolcrib run release {run}` or `toolcrib run refuse {run}`");
        self.happened(agent, "RunQuarantined", message, true);
    }

    /// Runs that wait for an approval go on, with the yes or the no.
    pub(super) async fn approval_ended(&self, end: &ApprovalEnd) {
        let event = || Event::Approval {
            approval: end.id.clone(),
            granted: end.outcome == ApprovalOutcome::Granted,
            note: end.note.clone(),
        };
        self.arrived(&WaitFor::Approval(end.id.clone()), event).await;
    }

    /// The same for approvals that ended while no one listened: before a run had written down that it waits (`ids` are
    /// those that it waits for), or while no gateway ran.
    pub(super) async fn look_for_ended_approvals(&self, ids: Option<Vec<String>>) {
        let Some(gateway) = self.gateway() else { return };
        let ids = match ids {
            Some(ids) => ids,
            None => {
                let store = self.store.clone();
                let waits = blocking(move || store.waits_of("approval:")).await.unwrap_or_else(|problem| {
                    tracing::error!(%problem, "cannot find the approvals that runs wait for");
                    Vec::new()
                });
                waits.iter().filter_map(|wait| wait.strip_prefix("approval:").map(str::to_owned)).collect()
            }
        };
        for id in ids {
            match gateway.path.approval_end(&id).await {
                Ok(Some(end)) => self.approval_ended(&end).await,
                Ok(None) => {}
                Err(problem) => tracing::error!(approval = id, %problem, "an approval cannot be read"),
            }
        }
    }

    /// A call that asked a person has ended without the answer: its run takes the result.
    pub(super) async fn question_ended(&self, run: &str, place: &str) {
        let on = WaitFor::Person(place.to_owned());
        let key = wait_key(&on);
        let waits = match self.record(run).await {
            Ok(record) => record.is_some_and(|record| record.state.waits.contains(&key)),
            Err(problem) => return tracing::error!(run, %problem, "a run that asked a person cannot be read"),
        };
        // A run that has the question not written down yet learns of the end with the answer.
        if waits && let Err(error) = self.runs().tell(run, Event::Arrived(on)).await {
            tracing::warn!(run, %error, "a run cannot go on");
        }
    }

    /// Calls that waited for a person in the process before are lost with it: of the runs that waited for them, what may be
    /// repeated is made again, and the rest is unknown.
    pub(super) async fn lose_questions(&self, asking: Vec<String>) {
        for run in asking {
            let lost = match keep::entries(&self.store, &run).await.and_then(|all| question::folded(&run, &all)) {
                Ok(folded) => folded.calls_in_process(),
                Err(problem) => {
                    tracing::error!(run, %problem, "a run that waits for a person cannot go on");
                    continue;
                }
            };
            for (call, attempt) in lost {
                let why = "the gateway ended while it waited for a person".to_owned();
                if let Err(error) = self.runs().tell(&run, Event::Unknown { call, attempt, why }).await {
                    tracing::warn!(run, %error, "a run cannot go on");
                }
            }
        }
    }

    /// Runs that wait for a login that is there by now go on.
    pub(super) async fn look_for_logins(&self) {
        let store = self.store.clone();
        let waits = blocking(move || store.waits_of("login:")).await.unwrap_or_default();
        for wait in waits {
            let Some(server) = wait.strip_prefix("login:").and_then(|name| ServerName::new(name).ok()) else {
                continue;
            };
            let store = self.store.clone();
            for run in blocking(move || store.waiting_on(&wait)).await.unwrap_or_default() {
                let Ok(Some(record)) = self.record(&run).await else { continue };
                if self.has_credential(&record.principal, &server)
                    && let Err(error) = self.runs().tell(&run, Event::Arrived(WaitFor::Login(server.to_string()))).await
                {
                    tracing::warn!(run, %error, "a run cannot go on");
                }
            }
        }
    }

    /// A run's row.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn record(&self, run: &str) -> Result<Option<AgentRunRecord>, Problem> {
        let (store, id) = (self.store.clone(), run.to_owned());
        blocking(move || store.get(&id)).await
    }

    /// Tells every run that waits for something that it is there.
    pub(super) async fn arrived(&self, what: &WaitFor, event: impl Fn() -> Event) {
        let (store, key) = (self.store.clone(), wait_key(what));
        let ids = blocking(move || store.waiting_on(&key)).await.unwrap_or_else(|problem| {
            tracing::error!(%problem, "cannot find the runs that wait");
            Vec::new()
        });
        for id in ids {
            if let Err(error) = self.runs().tell(&id, event()).await {
                tracing::warn!(run = id, %error, "a run cannot go on");
            }
        }
    }
}

/// For whom a run calls that no request stands behind.
pub(super) fn caller_of(record: &AgentRunRecord) -> Caller {
    let principal = Principal::restored(record.principal.clone(), record.role);
    Caller::without_message(principal, record.profile.clone(), Invocation::DOOR)
}

/// The bridge as the driver has it: the bridge has the driver, and neither keeps the other and the store from ending.
struct BridgeHandle(Weak<Bridge>);

impl BridgeHandle {
    fn bridge(&self) -> Result<Arc<Bridge>, Problem> {
        self.0.upgrade().ok_or_else(closing_problem)
    }
}

#[async_trait]
impl AskModel for BridgeHandle {
    async fn ask(&self, run: &str, ask: &Ask, observer: &dyn Observe) -> Result<Answer, Failure> {
        let bridge = self.bridge().map_err(|problem| dialogue::unusable(problem.to_string()))?;
        bridge.ask(run, ask, observer).await
    }
}

#[async_trait]
impl CallTool for BridgeHandle {
    async fn decide(&self, run: &str, call: &OpenCall) -> Decision {
        match self.bridge() {
            Ok(bridge) => bridge.decide(run, call).await,
            Err(problem) => Decision::Refused(refused(&problem)),
        }
    }

    async fn call(&self, run: &str, call: &Call) -> CallOutcome {
        match self.bridge() {
            Ok(bridge) => bridge.call(run, call).await,
            Err(problem) => CallOutcome::Refused(refused(&problem)),
        }
    }
}

#[async_trait]
impl Journal for BridgeHandle {
    async fn append(&self, run: &str, entries: &[Entry], sync: bool) -> Result<(), AppendError> {
        self.bridge().map_err(AppendError::Storage)?.append(run, entries, sync).await
    }

    async fn read(&self, run: &str) -> Result<Option<Vec<Entry>>, Problem> {
        self.bridge()?.read(run).await
    }
}

/// Sees what happens in runs, for those who watch and for runs that wait for others.
impl Observe for BridgeHandle {
    fn delta(&self, run: &str, text: &str) {
        let Some(bridge) = self.0.upgrade() else { return };
        let context = bridge.contexts().get(run).cloned();
        if let Some(context) = context {
            context.show(|feed| feed.partial.push_str(text));
        }
    }

    fn entry(&self, run: &str, entry: &Entry) {
        let Some(bridge) = self.0.upgrade() else { return };
        let Some(context) = bridge.contexts().get(run).cloned() else { return };
        context.show(|feed| {
            feed.entries += 1;
            feed.rest = None;
            if !matches!(entry.event, Event::Asked(_)) {
                feed.partial.clear();
            }
        });
    }

    fn rest(&self, run: &str, rest: &Result<Rest, DriveError>) {
        let Some(bridge) = self.0.upgrade() else { return };
        let context = bridge.contexts().remove(run);
        let Some(context) = context else { return };
        let agent = &context.start.agent;
        match rest {
            Ok(Rest::Ended(end)) => {
                let is_done = matches!(end, End::Done(_));
                let reason = if is_done { "RunCompleted" } else { "RunEnded" };
                // One that had ended before, and for which a message was looked at, did not end once more.
                if !context.written().only_judged {
                    bridge.happened(agent, reason, format!("run `{run}` ended: {}", end.name()), !is_done);
                }
                let (bridge, what) = (Arc::clone(&bridge), WaitFor::Run(run.to_owned()));
                let (scope, run) = (bridge.scope.clone(), run.to_owned());
                scope.spawn(async move {
                    bridge.arrived(&what, || Event::Arrived(what.clone())).await;
                    let gateway = bridge.gateway();
                    if let Some(gateway) = &gateway {
                        gateway.path.end_questions_of_run(&run);
                    }
                    if let Some(gateway) = gateway
                        && let Err(problem) = gateway.path.end_approvals_of_run(&run, "its run has ended").await
                    {
                        tracing::error!(run, %problem, "what a run waited for cannot be ended");
                    }
                });
            }
            Ok(Rest::Waiting(waits)) => {
                bridge.happened(agent, "RunWaiting", format!("run `{run}` waits"), false);
                let ids = waits.iter().filter_map(|wait| match wait {
                    WaitFor::Approval(id) => Some(id.clone()),
                    _ => None,
                });
                let (ids, scope, bridge) = (ids.collect(), bridge.scope.clone(), Arc::clone(&bridge));
                scope.spawn(async move { bridge.look_for_ended_approvals(Some(ids)).await });
            }
            Ok(Rest::Stopped) => {}
            Err(DriveError::DayLimit(_)) => {
                // The limit of the day: the run can go on tomorrow, or with more.
                let (again, id) = (Arc::clone(&bridge), run.to_owned());
                bridge.scope.spawn(async move {
                    let end = Event::Ended(End::Limit(LimitName::Day));
                    if let Err(error) = again.runs().tell(&id, end).await {
                        tracing::error!(run = id, %error, "a run at the limit of its day cannot end");
                    }
                });
            }
            Err(error) => {
                tracing::error!(run, %error, "a run cannot go on");
                bridge.happened(agent, "RunStopped", format!("run `{run}` cannot go on: {error}"), true);
            }
        }
        context.show(|feed| feed.rest = Some(rest.clone().map_err(|error| error.to_string())));
    }
}
