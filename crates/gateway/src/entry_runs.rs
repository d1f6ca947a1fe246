//! The registry entries that are becoming servers: who waits for them, and that views leave them out until they work.
//! `configure` does the work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};
use toolcrib_base::{Problem, ServerName};
use toolcrib_view::ServerTable;

/// How many entries are started at a time: each may be a process.
const AT_ONCE: usize = 8;

/// How a run ended; nothing while it is under way.
pub(crate) type RunOutcome = Option<Result<(), Problem>>;

/// The entries that become servers at this moment.
#[derive(Debug)]
pub(crate) struct EntryRuns {
    runs: Mutex<BTreeMap<ServerName, EntryRun>>,
    pub(crate) places: Semaphore,
}

#[derive(Debug)]
pub(crate) struct EntryRun {
    pub(crate) outcome: watch::Receiver<RunOutcome>,
    /// How many claims there are, the run's own included.
    pub(crate) claims: usize,
    /// Whether someone has loaded a tool of it.
    pub(crate) kept: bool,
    /// Whether views leave its server out: until it is known to work.
    pub(crate) hidden: bool,
    /// The revision of the file that was written and is to be taken back unless someone keeps it.
    pub(crate) written: Option<String>,
}

impl Default for EntryRuns {
    fn default() -> Self {
        Self { runs: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }
}

// === impl EntryRuns ===

impl EntryRuns {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerName, EntryRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers that may be seen.
    pub(crate) fn seen(&self, table: Arc<ServerTable>) -> Arc<ServerTable> {
        let runs = self.lock();
        let is_hidden = |name: &ServerName| runs.get(name).is_some_and(|run| run.hidden);
        if !table.keys().any(is_hidden) {
            return table;
        }
        let seen = table.iter().filter(|(name, _)| !is_hidden(name));
        Arc::new(seen.map(|(name, running)| (name.clone(), running.clone())).collect())
    }
}
