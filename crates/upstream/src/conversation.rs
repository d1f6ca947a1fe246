//! A conversation with a legacy server that its caller names by a handle: one connection, opened at the first call and
//! never replaced, because what the server remembers of it would be lost without a word.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use toolcrib_base::random;
use toolcrib_protocol::Capabilities;

use crate::environment::Environment;

/// No call was made yet, so there is no connection.
const NEW: u8 = 0;
/// It has its connection.
const BEGUN: u8 = 1;
/// It had its connection, or was ended before.
const ENDED: u8 = 2;

/// One conversation. Anyone who holds its handle takes part in it, so the handle is shown to no one else.
pub struct Conversation {
    handle: Arc<str>,
    offered: Arc<Capabilities>,
    /// That of its first call.
    environment: OnceLock<Option<Arc<Environment>>>,
    state: AtomicU8,
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Conversation {
    /// A new one with a handle of 128 random bits. `offered` is what the server will be told that it may ask; it stays
    /// the same anyone who calls.
    pub fn new(offered: Arc<Capabilities>) -> Arc<Self> {
        Arc::new(Self {
            handle: random::hex_128().into(),
            offered,
            environment: OnceLock::new(),
            state: AtomicU8::new(NEW),
        })
    }

    /// Its name.
    pub fn handle(&self) -> &Arc<str> {
        &self.handle
    }

    /// What the server may ask in it.
    pub(crate) fn offered(&self) -> &Capabilities {
        &self.offered
    }

    /// Whether a call with this environment belongs to it. It stays in the one of its first call: with another one it
    /// would be another process, which knows nothing of what was said.
    pub(crate) fn is_in(&self, environment: &Option<Arc<Environment>>) -> bool {
        self.environment.get_or_init(|| environment.clone()) == environment
    }

    /// Whether it has its connection.
    pub fn is_begun(&self) -> bool {
        self.state.load(Ordering::Acquire) == BEGUN
    }

    /// Whether it is over: no call can be made in it any more.
    pub fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    pub(crate) fn begin(&self) {
        // One that was ended in the meantime stays so.
        let _ = self.state.compare_exchange(NEW, BEGUN, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(crate) fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }
}
