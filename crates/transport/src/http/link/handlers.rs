//! Which handler learns of the progress of which running call, for progress that comes on the stream that belongs to no call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_protocol::{Id, Notification, meta};

use crate::call::CallHandler;

/// The handlers of the running calls, by the ids of the calls, which are their progress tokens.
#[derive(Default)]
pub(super) struct CallHandlers {
    running: Mutex<HashMap<u64, Arc<dyn CallHandler>>>,
}

/// Keeps the handler of a call registered until it is dropped.
pub(super) struct Registration<'a> {
    handlers: &'a CallHandlers,
    id: u64,
}

// === impl CallHandlers ===

impl CallHandlers {
    pub(super) fn register(&self, id: u64, handler: &Arc<dyn CallHandler>) -> Registration<'_> {
        self.lock().insert(id, Arc::clone(handler));
        Registration { handlers: self, id }
    }

    /// Who learns of this progress; `None` when no running call has its token.
    pub(super) fn of(&self, progress: &Notification) -> Option<Arc<dyn CallHandler>> {
        let id = Id::from_raw(progress.params.get(meta::PROGRESS_TOKEN)?)?.number()?;
        self.lock().get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<dyn CallHandler>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Registration ===

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.handlers.lock().remove(&self.id);
    }
}
