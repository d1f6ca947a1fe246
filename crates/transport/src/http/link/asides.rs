//! Who hears of the progress of which running call, for progress that comes on the stream that belongs to no call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_protocol::{Id, Notification, meta};

use crate::link::Aside;

/// The running calls that want to hear what is said aside, by their ids, which are their progress tokens.
#[derive(Default)]
pub(super) struct Asides {
    running: Mutex<HashMap<u64, Arc<dyn Aside>>>,
}

/// Keeps a call entered until it is dropped.
pub(super) struct Entered<'a> {
    asides: &'a Asides,
    id: u64,
}

// === impl Asides ===

impl Asides {
    pub(super) fn enter(&self, id: u64, aside: &Arc<dyn Aside>) -> Entered<'_> {
        self.lock().insert(id, Arc::clone(aside));
        Entered { asides: self, id }
    }

    /// Who hears of this progress; `None` when no running call has its token.
    pub(super) fn of(&self, progress: &Notification) -> Option<Arc<dyn Aside>> {
        let id = Id::from_raw(progress.params.get(meta::PROGRESS_TOKEN)?)?.number()?;
        self.lock().get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<dyn Aside>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Entered ===

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.asides.lock().remove(&self.id);
    }
}
