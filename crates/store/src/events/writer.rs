//! The thread that writes events down and forgets the old ones.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use toolcrib_base::Clock;

use super::{EventRecord, QueueState};
use crate::database::Database;
use crate::retention::Retention;

/// How long an event waits for others to share its commit.
const GATHER: Duration = Duration::from_millis(100);
/// How many events one commit takes.
pub(super) const BATCH: usize = 512;
/// After so many commits, and at the start, the old ones are forgotten.
const PRUNE_EVERY: u32 = 64;
/// How often nothing happening is used to forget the old ones.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// How long to wait after a commit that failed, and how often it is tried. Events are not worth more.
const AGAIN: Duration = Duration::from_millis(500);
const TRIES: u32 = 4;

/// Owns the way to the table.
pub(super) struct Writer {
    pub(super) database: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) shared: Arc<QueueState>,
    pub(super) retention: Retention,
    /// Dropped after the database, which tells `close` that it is no longer used here.
    pub(super) _ending: watch::Sender<()>,
}

impl Writer {
    /// Runs until the events are closed and everything is written.
    pub(super) fn run(self) {
        self.prune();
        let mut commits = 0_u32;
        while let Some(batch) = self.gather() {
            if batch.is_empty() {
                self.prune();
                continue;
            }
            self.write(&batch);
            let mut queue = self.shared.lock();
            queue.done += batch.len() as u64;
            drop(queue);
            self.shared.written.notify_all();
            commits += 1;
            if commits.is_multiple_of(PRUNE_EVERY) {
                self.prune();
            }
        }
    }

    /// The next events to write; none after a long time without any; `None` at the end.
    fn gather(&self) -> Option<Vec<EventRecord>> {
        let queue = self.shared.lock();
        let idle = |queue: &mut super::Queue| queue.waiting.is_empty() && !queue.closing;
        let (queue, _) =
            self.shared.work.wait_timeout_while(queue, IDLE, idle).unwrap_or_else(std::sync::PoisonError::into_inner);
        if queue.waiting.is_empty() {
            return (!queue.closing).then(Vec::new);
        }
        let alone = |queue: &mut super::Queue| queue.waiting.len() < BATCH && !queue.hurry && !queue.closing;
        let (mut queue, _) = self
            .shared
            .work
            .wait_timeout_while(queue, GATHER, alone)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = queue.waiting.len().min(BATCH);
        let batch = queue.waiting.drain(..count).collect();
        queue.hurry &= !queue.waiting.is_empty();
        Some(batch)
    }

    fn write(&self, batch: &[EventRecord]) {
        for attempt in 1..=TRIES {
            match self.commit(batch) {
                Ok(()) => return,
                Err(error) if attempt == TRIES => {
                    tracing::warn!(%error, events = batch.len(), "failed to save events");
                    self.shared.lock().dropped += batch.len() as u64;
                }
                Err(_) => self.pause(),
            }
        }
    }

    /// Waits before the next attempt; not at the end, when someone waits for us.
    fn pause(&self) {
        let queue = self.shared.lock();
        drop(self.shared.work.wait_timeout_while(queue, AGAIN, |queue| !queue.closing));
    }

    fn commit(&self, batch: &[EventRecord]) -> rusqlite::Result<()> {
        self.database.write_soon(|transaction| {
            let sql = "INSERT INTO event (at, kind, name, reason, message, warning) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let mut insert = transaction.prepare_cached(sql)?;
            for event in batch {
                let EventRecord { at, kind, name, reason, message, warning } = event;
                insert.execute((at.0, kind, name, reason, message, warning))?;
            }
            Ok(())
        })
    }

    /// Forgets what is too old or too much.
    fn prune(&self) {
        let oldest = self.clock.now().0.saturating_sub(self.retention.millis());
        let connection = self.database.writer();
        let aged = connection.execute("DELETE FROM event WHERE at < ?1", [oldest]);
        let beyond = "DELETE FROM event WHERE seq <= (SELECT seq FROM event ORDER BY seq DESC LIMIT 1 OFFSET ?1)";
        let done = aged.and_then(|_| connection.execute(beyond, [self.retention.limit()]));
        if let Err(error) = done {
            tracing::warn!(%error, "failed to delete old events");
        }
    }
}
