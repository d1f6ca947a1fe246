//! The settings of the process as operations read and change them, and what of them is to change.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Files;

/// The settings of the process. Those that read and write the file wait for the disk.
pub trait KeepSettings: Send + Sync + fmt::Debug {
    /// The address of this start.
    fn listen(&self) -> SocketAddr;

    /// Whether it listens there: a gateway over stdin and stdout does not.
    fn is_listening(&self) -> bool;

    /// Every setting in force with where it came from; no secrets.
    fn shown(&self) -> Value;

    /// Whether it may listen there.
    fn check_listen(&self, address: SocketAddr) -> Result<(), Problem>;

    /// What an administrator should know of them, such as a certificate that is about to expire.
    fn warnings(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// The address that the file says, if it says one.
    fn saved_listen(&self) -> Result<Option<SocketAddr>, Problem>;

    /// Writes the address into the file, by `files`, which show a change first and undo it. The path is given.
    fn save_listen(&self, address: SocketAddr, files: &Files) -> Result<PathBuf, Problem>;
}

/// The settings and what of them is to change.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    settings: OnceLock<Arc<dyn KeepSettings>>,
    /// The address that was asked for and is not saved.
    wanted: Mutex<Option<SocketAddr>>,
}

// === impl Configuration ===

impl Configuration {
    /// Takes the settings of the process; a second time changes nothing.
    pub(crate) fn set(&self, settings: Arc<dyn KeepSettings>) {
        let _ = self.settings.set(settings);
    }

    pub(crate) fn settings(&self) -> Result<&Arc<dyn KeepSettings>, Problem> {
        self.settings
            .get()
            .ok_or_else(|| Problem::new(Kind::Conflict, "this gateway was started without settings of its own"))
    }

    /// What an administrator should know of the settings.
    pub(crate) fn warnings(&self) -> Vec<Value> {
        let warnings = self.settings.get().map(|settings| settings.warnings()).unwrap_or_default();
        warnings.iter().map(|problem| json!({ "warning": problem.message, "hint": problem.hint })).collect()
    }

    pub(crate) fn wanted(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
