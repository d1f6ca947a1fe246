//! Runs that are under way, and the sessions of clients that are bound to them. Such a session is in memory alone and ends
//! with its run, however that ends: no kill -9 leaves a token that still counts.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolcrib_base::{PrincipalId, ProfileName};
use toolcrib_store::Decision;

use crate::server::{AuthorizationServer, Inner};
use crate::session::LiveSession;

/// How many sessions of one run count at a time: the oldest ends for a new one.
const SESSIONS: usize = 16;

/// A run that is under way. What clients were given for it ends when this is dropped.
#[derive(Debug)]
pub struct RunAccess {
    /// Weak: whoever holds a run keeps no state open.
    inner: Weak<Inner>,
    run: String,
}

/// The runs that are under way, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<HashMap<String, RunEntry>>);

#[derive(Debug)]
struct RunEntry {
    owner: RunOwner,
    sessions: VecDeque<String>,
}

/// For whom a run calls tools, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunOwner {
    pub(crate) principal: PrincipalId,
    pub(crate) profile: ProfileName,
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// A run begins, or goes on after a restart. Until the result is dropped, clients of the settings may exchange the
    /// tokens of its principal for such as are bound to it.
    pub fn begin_run(&self, run: &str, principal: &PrincipalId, profile: &ProfileName) -> RunAccess {
        let owner = RunOwner { principal: principal.clone(), profile: profile.clone() };
        self.inner.runs.lock().insert(run.to_owned(), RunEntry { owner, sessions: VecDeque::new() });
        RunAccess { inner: Arc::downgrade(&self.inner), run: run.to_owned() }
    }
}

// === impl RunAccess ===

impl Drop for RunAccess {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let ended = inner.runs.lock().remove(&self.run);
        let ids: Vec<String> = ended.into_iter().flat_map(|entry| entry.sessions).collect();
        inner.end_of_run(&ids, "run");
    }
}

// === impl Runs ===

impl Runs {
    /// Whether a run of this one is under way.
    pub(crate) fn has(&self, run: &str, owner: &RunOwner) -> bool {
        self.lock().get(run).is_some_and(|entry| entry.owner == *owner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    /// Has a session count until its run ends; `false` where the run is over.
    pub(crate) fn bind_to_run(&self, run: &str, session: &Arc<LiveSession>) -> bool {
        let mut older = Vec::new();
        {
            let mut runs = self.runs.lock();
            let Some(entry) = runs.get_mut(run) else { return false };
            while entry.sessions.len() >= SESSIONS {
                older.extend(entry.sessions.pop_front());
            }
            entry.sessions.push_back(session.id.clone());
            // While the run cannot end, which would leave it.
            self.sessions.put(Arc::clone(session));
        }
        self.end_of_run(&older, "newer");
        true
    }

    fn end_of_run(&self, ids: &[String], why: &'static str) {
        for session in ids.iter().filter_map(|id| self.sessions.get(id)) {
            self.record_end(&session, Decision::Permit(Cow::Borrowed(why)));
        }
        self.end(ids);
    }
}
