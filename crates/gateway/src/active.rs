//! Active sets: which tools a principal has loaded in a profile.
//!
//! Legacy clients keep a set per session, unless the profile says `durable`; everyone else one per principal and
//! profile, kept in `state/`. Which clients are notified of a change is decided in `active_sets`.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::{Clock, Kind, PrincipalId, Problem, ProfileName, ToolId};
use toolcrib_call::{CallGuard, GuardedCall};
use toolcrib_catalog::{ActiveSet, ProfileDefinition};
use toolcrib_session::{Caller, LoadChange, LoadRule, LoadedTools, Moment, NotLoaded, Session};
use toolcrib_store::{ActiveSets, ActiveTool};
use toolcrib_view::resolve;

/// How many sets are kept; the sets of principals that have loaded nothing are not kept at all.
const SETS: usize = 10_000;

/// Whose set it is, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub(crate) principal: PrincipalId,
    pub(crate) profile: ProfileName,
}

/// All sets: those that do not belong to a session, and the way to those that do.
#[derive(Debug)]
pub(crate) struct ActiveTools {
    sets: Mutex<HashMap<SetKey, StoredSet>>,
    /// How many sets there are; most gateways have none, and then no call looks for one.
    count: AtomicUsize,
    /// Whether any set is to be written.
    is_ahead: AtomicBool,
    turn: AtomicU64,
    clock: Arc<dyn Clock>,
    store: ActiveSets,
    /// Held while sets are written, so that an older one never comes after a newer one.
    writing: Mutex<()>,
}

/// A set that is kept in `state/`.
#[derive(Debug, Default)]
struct StoredSet {
    tools: LoadedTools,
    /// Whether it differs from what `state/` holds.
    is_ahead: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ActiveTools {
    /// The sets as they were kept. Blocks.
    pub(crate) fn open(store: ActiveSets, clock: Arc<dyn Clock>) -> Self {
        let mut sets: HashMap<SetKey, StoredSet> = HashMap::new();
        let mut turn = 0;
        let rows = store.all().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot restore loaded tools");
            Vec::new()
        });
        for (principal, profile, ActiveTool { tool, last_used }) in rows {
            turn += 1;
            sets.entry(SetKey { principal, profile }).or_default().tools.restore(tool, Moment { turn, at: last_used });
        }
        Self {
            count: AtomicUsize::new(sets.len()),
            sets: Mutex::new(sets),
            is_ahead: AtomicBool::new(false),
            turn: AtomicU64::new(turn),
            clock,
            store,
            writing: Mutex::default(),
        }
    }

    /// The set of a caller, in order.
    pub(crate) fn of(&self, caller: &Caller, kind: ActiveSet) -> BTreeSet<ToolId> {
        match in_session(caller, kind) {
            Some(session) => session.loaded().ids(),
            None => self.of_principal(&key(caller)),
        }
    }

    /// The set that a session lists.
    pub(crate) fn of_session(&self, session: &Session, kind: ActiveSet) -> BTreeSet<ToolId> {
        match kind {
            ActiveSet::Session => session.loaded().ids(),
            ActiveSet::Durable => {
                self.of_principal(&SetKey { principal: session.principal.id.clone(), profile: session.profile.clone() })
            }
        }
    }

    fn of_principal(&self, key: &SetKey) -> BTreeSet<ToolId> {
        lock(&self.sets).get(key).map(|kept| kept.tools.ids()).unwrap_or_default()
    }

    /// Notes that a tool is used, and says whether it is loaded.
    pub(crate) fn touch(&self, caller: &Caller, kind: ActiveSet, tool: &ToolId) -> bool {
        if let Some(session) = in_session(caller, kind) {
            let mut loaded = session.loaded();
            return !loaded.is_empty() && loaded.touch(tool, self.now());
        }
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut sets = lock(&self.sets);
        let Some(kept) = sets.get_mut(&key(caller)) else { return false };
        let is_loaded = kept.tools.touch(tool, self.now());
        if is_loaded {
            self.mark(kept);
        }
        is_loaded
    }

    /// Loads all or none. `shown` says of a tool whether the caller's profile shows it.
    pub(crate) fn load(
        &self,
        caller: &Caller,
        profile: &ProfileDefinition,
        tools: &[ToolId],
        shown: impl Fn(&ToolId) -> bool,
    ) -> Result<LoadChange, NotLoaded> {
        let (rule, now) = (LoadRule::of(profile), self.now());
        if let Some(session) = in_session(caller, profile.active_set) {
            return session.loaded().load(tools, &rule, now, shown);
        }
        let mut sets = lock(&self.sets);
        let key = key(caller);
        if sets.len() >= SETS && !sets.contains_key(&key) {
            return Err(NotLoaded::Sets);
        }
        let kept = sets.entry(key.clone()).or_default();
        let changed = kept.tools.load(tools, &rule, now, shown);
        match &changed {
            Ok(_) => self.mark(kept),
            Err(_) if kept.tools.is_empty() && !kept.is_ahead => {
                sets.remove(&key);
            }
            Err(_) => {}
        }
        self.count.store(sets.len(), Ordering::Release);
        changed
    }

    /// Takes tools out; gives those that were in.
    pub(crate) fn unload(&self, caller: &Caller, kind: ActiveSet, tools: &[ToolId]) -> Vec<ToolId> {
        match in_session(caller, kind) {
            Some(session) => session.loaded().unload(tools),
            None => self.take_out(&key(caller), |set| set.unload(tools)),
        }
    }

    /// Takes everything out of a principal's set in a profile.
    pub(crate) fn clear(&self, principal: &PrincipalId, profile: &ProfileName) -> Vec<ToolId> {
        self.take_out(&SetKey { principal: principal.clone(), profile: profile.clone() }, LoadedTools::clear)
    }

    /// Takes out what is idle by the rule of its profile; gives whose sets have changed, and how.
    pub(crate) fn unload_idle(&self, rule: impl Fn(&ProfileName) -> Option<LoadRule>) -> Vec<(SetKey, Vec<ToolId>)> {
        let now = self.clock.now();
        let mut sets = lock(&self.sets);
        let mut changed = Vec::new();
        for (key, kept) in sets.iter_mut() {
            let gone = rule(&key.profile).map(|rule| kept.tools.unload_idle(&rule, now)).unwrap_or_default();
            if !gone.is_empty() {
                self.mark(kept);
                changed.push((key.clone(), gone));
            }
        }
        changed
    }

    /// The same in the set of a session.
    pub(crate) fn unload_idle_of(&self, session: &Session, rule: &LoadRule) -> Vec<ToolId> {
        session.loaded().unload_idle(rule, self.clock.now())
    }

    /// Writes what has changed. Blocks. What could not be written is tried again the next time.
    pub(crate) fn write(&self) {
        if !self.is_ahead.load(Ordering::Acquire) {
            return;
        }
        let _one_at_a_time = lock(&self.writing);
        self.is_ahead.store(false, Ordering::Release);
        let mut ahead = Vec::new();
        for (key, kept) in lock(&self.sets).iter_mut().filter(|(_, kept)| kept.is_ahead) {
            kept.is_ahead = false;
            let row = |(tool, used): (&ToolId, Moment)| ActiveTool { tool: tool.clone(), last_used: used.at };
            ahead.push((key.clone(), kept.tools.iter().map(row).collect::<Vec<_>>()));
        }
        for (key, tools) in ahead {
            let SetKey { principal, profile } = &key;
            let Err(error) = self.store.put(principal, profile, &tools) else { continue };
            tracing::warn!(principal = principal.as_str(), %profile, %error, "failed to save loaded tools");
            if let Some(kept) = lock(&self.sets).get_mut(&key) {
                self.mark(kept);
            }
        }
        let mut sets = lock(&self.sets);
        sets.retain(|_, kept| kept.is_ahead || !kept.tools.is_empty());
        self.count.store(sets.len(), Ordering::Release);
    }

    /// Whether `state/` is behind.
    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead.load(Ordering::Acquire)
    }

    fn take_out(&self, key: &SetKey, take: impl FnOnce(&mut LoadedTools) -> Vec<ToolId>) -> Vec<ToolId> {
        let mut sets = lock(&self.sets);
        let Some(kept) = sets.get_mut(key) else { return Vec::new() };
        let gone = take(&mut kept.tools);
        if !gone.is_empty() {
            self.mark(kept);
        }
        gone
    }

    fn mark(&self, kept: &mut StoredSet) {
        kept.is_ahead = true;
        self.is_ahead.store(true, Ordering::Release);
    }

    fn now(&self) -> Moment {
        Moment { turn: self.turn.fetch_add(1, Ordering::Relaxed) + 1, at: self.clock.now() }
    }
}

// === impl CallGuard ===

impl CallGuard for ActiveTools {
    /// Notes the use of a loaded tool. With `require_load`, one whose server is not active answers with what to do
    /// first.
    fn before(&self, call: &GuardedCall<'_>) -> Result<(), Problem> {
        let (tool, profile) = (call.tool, &call.view.profile);
        // A tool that is used stays loaded, whether it had to be loaded or not.
        let is_loaded = self.touch(call.caller, profile.active_set, &tool.id);
        // A run of an agent has had its tools since its start, and loads none.
        if is_loaded || !profile.require_load || call.is_of_agent {
            return Ok(());
        }
        let problem =
            Problem::new(Kind::Forbidden, format!("server `{}` of `{}` is not active", tool.id.server, tool.name));
        Err(problem.hint(format!("Activate it first: {}.", resolve::how_to_load(call.view, &tool.id))))
    }
}

fn in_session(caller: &Caller, kind: ActiveSet) -> Option<&Arc<Session>> {
    caller.session.as_ref().filter(|_| kind == ActiveSet::Session)
}

fn key(caller: &Caller) -> SetKey {
    SetKey { principal: caller.principal.id.clone(), profile: caller.profile.clone() }
}
