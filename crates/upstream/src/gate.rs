//! Counts who is on the way to a server or at it: as long as someone is, it is not stopped for idling.
//!
//! One number decides, so that no call can slip in between the last look and the stop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Set while the connection is being closed; anyone who comes waits for the next one.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Counts those inside.
#[derive(Debug)]
pub(crate) struct Gate {
    inside: AtomicUsize,
    last: Mutex<Instant>,
}

/// Someone inside, until it is dropped.
#[derive(Debug)]
pub(crate) struct GateGuard<'a>(&'a Gate);

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl Gate ===

impl Default for Gate {
    fn default() -> Self {
        Self { inside: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }
}

impl Gate {
    /// Goes in. Anyone who is inside and finds the gate open may use the connection for as long as it stays.
    pub(crate) fn enter(&self) -> GateGuard<'_> {
        self.inside.fetch_add(1, Ordering::AcqRel);
        GateGuard(self)
    }

    /// Whether the connection is being closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.inside.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Closes it if no one is inside; whether it did.
    pub(crate) fn close_if_empty(&self) -> bool {
        self.inside.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Opens it again.
    pub(crate) fn open(&self) {
        self.inside.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// When the last one left.
    pub(crate) fn last_left(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_only_when_no_one_is_inside() {
        let gate = Gate::default();
        let (one, two) = (gate.enter(), gate.enter());
        drop(one);
        assert!(!gate.close_if_empty() && !gate.is_closed());
        drop(two);
        assert!(gate.close_if_empty() && gate.is_closed() && !gate.close_if_empty());
        let late = gate.enter();
        assert!(gate.is_closed(), "whoever comes late sees that it is closed");
        gate.open();
        assert!(!gate.is_closed() && !gate.close_if_empty(), "the late one is inside now");
        drop(late);
        assert!(gate.close_if_empty());
    }
}
