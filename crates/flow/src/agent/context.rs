//! What is kept of a run while it has a task, or someone watches it: for whom it calls, and what has happened of it.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use toolcrib_agent::driver::Rest;
use toolcrib_agent::{Allowance, Call, CallId, Cost, Entry, Event, Start};
use toolcrib_base::{Glob, Identity, PrincipalId, ProfileName, Proof, Role, Timestamp, ToolId};
use toolcrib_call::{AnsweredTools, CallLineage, ClientDialog, Invocation, ToolFilter};
use toolcrib_protocol::Revision;
use toolcrib_session::{Caller, Principal};
use toolcrib_store::Door;
use toolcrib_view::Tool;

use super::audit::RunEvent;
use super::keep::JournalState;
use super::seen::SeenResults;
use super::tools::{SOURCE, is_named};
use super::trail::Trail;

/// One run.
pub(super) struct RunContext {
    pub(super) start: Arc<Start>,
    /// Whose run it is.
    pub(super) owner: Caller,
    /// Calls in the profile of the agent, in the run's name.
    pub(super) invocation: Invocation,
    /// The same in the caller's own profile, where that is another one.
    pub(super) own: Option<Invocation>,
    allowed: Option<Vec<Glob>>,
    feed: watch::Sender<Feed>,
    /// What the store has of it.
    written: Mutex<JournalState>,
    /// What its audit trail remembers of it.
    trail: Mutex<Trail>,
    /// By which door it was asked for.
    door: Door,
    /// The call that is being made, and what an agent that it starts may spend.
    loan: Mutex<Option<(CallId, Allowance)>>,
    seen: Mutex<SeenResults>,
    /// What agents have spent in the course of that call without being called by it themselves.
    spending: Mutex<Cost>,
    /// Which tools of servers have answered in the course of that call, to it or to what it has had called.
    answered: AnsweredTools,
}

/// What has happened of a run, for those who watch.
#[derive(Debug, Clone, Default)]
pub(super) struct Feed {
    /// How many entries its journal has.
    pub(super) entries: u64,
    /// What has arrived of an answer that is not whole.
    pub(super) partial: String,
    /// It has no task, and why.
    pub(super) rest: Option<Result<Rest, String>>,
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext").field("run", &self.start.run).finish_non_exhaustive()
    }
}

impl RunContext {
    /// `invocation` is for the caller in its own profile.
    pub(super) fn new(start: Arc<Start>, mut invocation: Invocation, written: JournalState) -> Self {
        let caller = &mut invocation.caller;
        let door = caller.door;
        // Its rights are those of its calls, by whatever door it was asked for.
        caller.door = Invocation::DOOR;
        invocation.enter_run(&format!("{SOURCE}_{}", start.agent), &start.run);
        invocation.add_labels(start.labels.iter().map(|label| label.as_str().into()));
        // What it asks is in its journal, and asked wherever its person is.
        invocation.dialog = ClientDialog::None;
        let answered = AnsweredTools::default();
        invocation.lineage = CallLineage {
            agent_run: Some(start.run.as_str().into()),
            answered: Some(answered.clone()),
            ..CallLineage::default()
        };
        let owner = invocation.caller.clone();
        let mut own = None;
        if let Some(principal) = &start.runs_as {
            invocation.caller = as_agent(&owner, PrincipalId::new(principal));
        }
        if let Ok(profile) = ProfileName::new(&start.profile)
            && profile != invocation.caller.profile
        {
            // Who runs as itself needs no right of its caller.
            own = start.runs_as.is_none().then(|| invocation.clone());
            invocation.caller.profile = profile;
            // A session is one of the caller's profile.
            invocation.caller.session = None;
        }
        let allowed = start.allowed.as_ref();
        let allowed = allowed.map(|patterns| patterns.iter().filter_map(|pattern| pattern.parse().ok()).collect());
        let (feed, _) = watch::channel(Feed { entries: written.entries, ..Feed::default() });
        let (trail, loan, seen, spending) = Default::default();
        let written = Mutex::new(written);
        Self { start, owner, invocation, own, allowed, feed, written, trail, door, loan, seen, spending, answered }
    }

    /// On whose behalf it works, in that one's own profile.
    pub(super) fn caller(&self) -> &Caller {
        &self.owner
    }

    /// By which door it was asked for.
    pub(super) fn door(&self) -> Door {
        self.door
    }

    /// The events of its audit trail for these entries; `state` is as it is after them.
    pub(super) fn trail(&self, entries: &[Entry], state: &JournalState) -> Vec<RunEvent> {
        let mut trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter_map(|entry| trail.take(&self.start, entry, state)).collect()
    }

    /// Whether the run may call a tool, as its definition says.
    pub(super) fn allows(&self, tool: &Tool) -> bool {
        let (server, name) = (tool.id.server.as_str(), &*tool.id.tool);
        let is_itself = server == SOURCE && name == self.start.agent;
        let is_listed = || self.start.tools.iter().any(|listed| listed.id == tool.id.to_string());
        !is_itself && (is_listed() || self.allowed.as_ref().is_none_or(|allowed| is_named(allowed, tool)))
    }

    /// The tools that a search may show the run.
    pub(super) fn searched(&self) -> ToolFilter {
        let own = self.own.as_ref().map(Invocation::view);
        let (allowed, ids) = (self.allowed.clone(), self.start.tools.iter().map(|tool| tool.id.clone()));
        let (ids, agent): (HashSet<String>, String) = (ids.collect(), self.start.agent.clone());
        ToolFilter::new(move |tool| {
            let is_itself = tool.id.server.as_str() == SOURCE && *tool.id.tool == *agent;
            let is_listed = || ids.contains(&tool.id.to_string());
            let is_allowed = || allowed.as_ref().is_none_or(|allowed| is_named(allowed, tool)) || is_listed();
            let is_of_caller = || match &own {
                None => true,
                Some(view) => view.as_ref().is_ok_and(|view| view.tool_by_id(&tool.id).is_some()),
            };
            !is_itself && is_allowed() && is_of_caller()
        })
    }

    /// Those who watch.
    pub(super) fn watch(&self) -> watch::Receiver<Feed> {
        self.feed.subscribe()
    }

    /// What the store has of it.
    pub(super) fn written(&self) -> JournalState {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It was written.
    pub(super) fn wrote(&self, written: JournalState) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }

    /// Takes in whose results stand in entries of its journal.
    pub(super) fn saw(&self, entries: &[Entry]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            match &entry.event {
                Event::Answered { answer, .. } if !answer.calls.is_empty() => seen.turn(&answer.calls),
                Event::Result { call, result } => {
                    result.seen.iter().filter_map(|id| ToolId::parse(id)).for_each(|tool| seen.got(tool));
                    if let Some((name, arguments)) = seen.call(*call)
                        && let Some(tool) = self.called(&name, &arguments)
                    {
                        seen.got(tool);
                    }
                }
                _ => {}
            }
        }
    }

    /// All whose results the run has got.
    pub(super) fn all_seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).all()
    }

    /// The same invocation for calls of the turn, with the labels of what the run had seen when the model asked for them.
    /// Where there are no policies nothing has labels.
    pub(super) fn seeing(&self, invocation: &Invocation) -> Invocation {
        let mut invocation = invocation.clone();
        let read = self.seen.lock().unwrap_or_else(PoisonError::into_inner).read();
        if !read.is_empty()
            && let Ok(view) = invocation.view()
        {
            invocation.add_labels(read.iter().flat_map(|tool| view.labels_of(tool)));
        }
        invocation
    }

    /// Moments that it waits for.
    pub(super) fn moments(&self) -> Vec<Timestamp> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).moments()
    }

    pub(super) fn show(&self, change: impl FnOnce(&mut Feed)) {
        self.feed.send_modify(change);
    }

    /// What an agent that this call starts may spend. Calls of agents are made one after the other.
    pub(super) fn lend(&self, call: &Call) {
        *self.loan.lock().unwrap_or_else(PoisonError::into_inner) = Some((call.id, call.allowance));
    }

    /// An agent has ended that a workflow of a call has given a task to.
    pub(super) fn add_spending(&self, cost: Cost) {
        let mut spending = self.spending.lock().unwrap_or_else(PoisonError::into_inner);
        *spending = spending.plus(cost);
    }

    /// What such agents have spent, once.
    pub(super) fn take_spending(&self) -> Cost {
        std::mem::take(&mut *self.spending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An agent has ended that was given a task in the course of a call: whose results it has read.
    pub(super) fn add_seen(&self, seen: &[String]) {
        self.answered.add(seen.iter().filter_map(|id| ToolId::parse(id)));
    }

    /// Whose results a call of this tool may be made of, beside its own, once.
    pub(super) fn take_seen(&self, own: &str) -> Vec<String> {
        let all = self.answered.take().into_iter().map(|tool| tool.to_string());
        all.filter(|tool| tool != own).collect()
    }

    /// The call that is being made, and what it may spend.
    pub(super) fn loan(&self) -> Option<(CallId, Allowance)> {
        *self.loan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that no request stands behind: of a run that goes on after a restart, or after its request was answered.
pub(super) fn detached(caller: &Caller) -> Caller {
    Caller { session: None, meta: None, revision: Revision::LATEST_LEGACY, ..caller.clone() }
}

/// The caller that an agent is which runs as itself: a member that calls tools. On whose behalf stands beside it, as the
/// actor, for policies, approvers and the audit log.
pub(super) fn as_agent(owner: &Caller, agent: PrincipalId) -> Caller {
    let identity = &owner.principal.identity;
    let actors = std::iter::once(owner.principal.id.as_str().into()).chain(identity.actors.iter().cloned());
    let identity =
        Identity { actors: actors.collect(), tenant: identity.tenant.clone(), ..Identity::by(Proof::Record) };
    Caller { principal: Principal::new(agent, Role::Member, identity), ..detached(owner) }
}
