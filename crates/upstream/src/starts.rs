//! Limits how many servers start at a time to what the machine bears. A server that is called starts at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{Endpoint, ServerConfig};

/// Programs that start at a time on each core.
const PER_CORE: u32 = 4;
/// How much memory a program may need while it starts, in MiB.
const MEMORY: u64 = 128;
/// Connections to addresses that are opened at a time.
const REMOTES: u32 = 32;
/// What a program costs that may install itself, where others cost one place.
const INSTALLING: u32 = 2;

/// StartPlaces for servers that start without being called: at the start of the gateway, after a failure, for
/// verification. Clones share them.
#[derive(Debug, Clone)]
pub struct StartPlaces {
    programs: Arc<Semaphore>,
    most: u32,
    remotes: Arc<Semaphore>,
}

/// One server that starts, until it is dropped.
#[derive(Debug)]
pub(crate) struct StartPlace {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for StartPlaces {
    fn default() -> Self {
        Self::of_this_machine()
    }
}

impl StartPlaces {
    /// As many as this machine's cores and its memory allow.
    pub fn of_this_machine() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let by_cores = u32::try_from(cores).unwrap_or(u32::MAX).saturating_mul(PER_CORE);
        let by_memory = available_mib().map_or(u32::MAX, |mib| u32::try_from(mib / MEMORY).unwrap_or(u32::MAX));
        Self::new(by_cores.min(by_memory))
    }

    /// This many programs at a time, at least two.
    pub fn new(programs: u32) -> Self {
        let most = programs.clamp(INSTALLING, 1_024);
        Self {
            programs: Arc::new(Semaphore::new(most as usize)),
            most,
            remotes: Arc::new(Semaphore::new(REMOTES as usize)),
        }
    }

    /// Waits for a place. `installs` says that the server may install itself now.
    pub(crate) async fn take(&self, config: &ServerConfig, installs: bool) -> StartPlace {
        let Some((semaphore, cost)) = self.cost(config, installs) else { return StartPlace { _permit: None } };
        // It is never closed.
        StartPlace { _permit: Arc::clone(semaphore).acquire_many_owned(cost).await.ok() }
    }

    /// A place if there is one, and none otherwise: for anyone who is waited for.
    pub(crate) fn take_if_free(&self, config: &ServerConfig, installs: bool) -> StartPlace {
        let free =
            self.cost(config, installs).map(|(semaphore, cost)| Arc::clone(semaphore).try_acquire_many_owned(cost));
        StartPlace { _permit: free.and_then(Result::ok) }
    }

    fn cost(&self, config: &ServerConfig, installs: bool) -> Option<(&Arc<Semaphore>, u32)> {
        match &config.endpoint {
            Endpoint::Stdio { .. } => {
                let cost = if installs && config.installs.is_some() { INSTALLING } else { 1 };
                Some((&self.programs, cost.min(self.most)))
            }
            Endpoint::Http(_) | Endpoint::Sse(_) => Some((&self.remotes, 1)),
            Endpoint::Unusable { .. } => None,
        }
    }
}

/// The memory that is free or can be freed, where the system says so.
fn available_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1_024)
}
