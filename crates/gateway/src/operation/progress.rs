//! How far an operation is that takes long: said to whoever began it, and ended with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use toolcrib_call::ReplyChannel;
use toolcrib_protocol::{Notification, Raw, method};

use super::OperationContext;

/// Says how far an operation is. It is over when the operation that it was made for is: work on another thread looks.
#[derive(Debug, Clone)]
pub(super) struct ProgressReport {
    reply: ReplyChannel,
    is_over: Arc<AtomicBool>,
}

/// Marks the end of an operation, whether it is done or taken back.
#[derive(Debug)]
pub(super) struct ProgressEnd(Arc<AtomicBool>);

// === impl ProgressReport ===

impl ProgressReport {
    /// The report of an operation, and what ends it.
    pub(super) fn new(context: &OperationContext<'_>) -> (Self, ProgressEnd) {
        let is_over = Arc::<AtomicBool>::default();
        let reply = context.reply.cloned().unwrap_or_default();
        (Self { reply, is_over: Arc::clone(&is_over) }, ProgressEnd(is_over))
    }

    /// Says that so many of all are done. Gives whether anyone still waits for the rest.
    pub(super) fn say(&self, done: u64, total: u64) -> bool {
        let params = Raw::from_value(&json!({ "progressToken": 0, "progress": done, "total": total }));
        self.reply.progress(&Notification::new(method::PROGRESS, params), None);
        !self.is_over.load(Ordering::Relaxed)
    }
}

impl Drop for ProgressEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_ends_the_work() {
        let is_over = Arc::<AtomicBool>::default();
        let end = ProgressEnd(Arc::clone(&is_over));
        let report = ProgressReport { reply: ReplyChannel::default(), is_over };
        assert!(report.say(1, 2));
        drop(end);
        assert!(!report.say(2, 2));
    }
}
