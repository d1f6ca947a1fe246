//! What happened to servers, services, workflows and runs: kept for some time, asked for by time and by object.
//!
//! Keeping an event never waits for the disk: it goes into a bounded queue that one thread writes down in batches.
//! Unlike the audit log this is news and no proof, so an event that finds the queue full is dropped and counted, and
//! what was kept is forgotten by age and by number.

mod writer;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};
use tokio::sync::watch;
use toolcrib_base::{Clock, Timestamp};

use crate::database::Database;
use crate::error::StoreError;
use crate::retention::Retention;

/// How many events wait to be written; further ones are dropped. Some 10 MB if all of them are long.
const WAITING: usize = 4_096;
/// The most events of one answer.
pub const EVENTS_MAX: usize = 1_000;
/// The longest message, in bytes; what is longer is cut.
const MESSAGE_MAX: usize = 2_048;
/// The longest name, in bytes.
const NAME_MAX: usize = 256;
/// How long a listing waits for what was kept before it: longer only while the disk is full.
const FLUSH: Duration = Duration::from_secs(2);

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// When.
    pub at: Timestamp,
    /// The kind of the object: `MCPServer`, `Workflow` …
    pub kind: String,
    /// The object.
    pub name: String,
    /// What happened, in one word: `MCPServerStarted` …
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Whether someone should look.
    pub warning: bool,
}

/// Which events to list. Every given condition must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The exact kind.
    pub kind: Option<String>,
    /// The exact object.
    pub name: Option<String>,
    /// Only warnings, or only others.
    pub warning: Option<bool>,
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
    /// How many at most, the newest; taken as at least 1 and at most [`EVENTS_MAX`].
    pub limit: usize,
}

/// The events. Clones are handles to the same ones.
#[derive(Debug, Clone)]
pub struct Events {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<QueueState>,
    database: Arc<Database>,
    /// Closed when the writer has ended.
    ended: watch::Receiver<()>,
}

/// What the callers and the writer share. Its lock is held for moments only, never while the disk is used.
#[derive(Debug, Default)]
struct QueueState {
    queue: Mutex<Queue>,
    /// There is something to write, or to stop for.
    work: Condvar,
    /// Something was written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<EventRecord>,
    /// Counts what was taken in since the start.
    taken: u64,
    /// How many of those are on the disk, or were given up.
    done: u64,
    dropped: u64,
    /// Someone waits for `done`.
    hurry: bool,
    closing: bool,
}

// === impl QueueState ===

impl QueueState {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closing = true;
        self.work.notify_all();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writer holds nothing that would end it by itself.
        self.shared.close();
    }
}

// === impl Events ===

impl Events {
    /// Forgets what is too old and starts the writer.
    pub(crate) fn start(
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
        retention: Retention,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(QueueState::default());
        let (ending, ended) = watch::channel(());
        let writer = writer::Writer {
            database: Arc::clone(&database),
            clock,
            shared: Arc::clone(&shared),
            retention,
            _ending: ending,
        };
        let thread = std::thread::Builder::new().name("events".into()).spawn(|| writer.run());
        thread.map_err(StoreError::Thread)?;
        Ok(Self { inner: Arc::new(Inner { shared, database, ended }) })
    }

    /// Keeps an event, or drops it while the queue is full. Only touches memory.
    pub fn keep(&self, mut event: EventRecord) {
        cut(&mut event.message, MESSAGE_MAX);
        cut(&mut event.name, NAME_MAX);
        let mut queue = self.inner.shared.lock();
        if queue.closing {
            return;
        }
        if queue.waiting.len() >= WAITING {
            queue.dropped += 1;
            return;
        }
        queue.waiting.push_back(event);
        queue.taken += 1;
        // Who gathers looks again by itself; waking it for each event costs more than the event.
        let wakes = queue.waiting.len() == 1 || queue.waiting.len() >= writer::BATCH;
        drop(queue);
        if wakes {
            self.inner.shared.work.notify_one();
        }
    }

    /// How many events were dropped since the start because the disk did not keep up.
    pub fn dropped(&self) -> u64 {
        self.inner.shared.lock().dropped
    }

    /// The newest events that `filter` asks for, newest first, those included that were kept just before.
    ///
    /// # Errors
    /// The database says no.
    pub fn list(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        self.flush();
        let (conditions, mut values) = conditions(filter);
        let sql =
            format!("SELECT at, kind, name, reason, message, warning FROM event{conditions} ORDER BY seq DESC LIMIT ?");
        let limit = filter.limit.clamp(1, EVENTS_MAX);
        values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        let failed = self.inner.database.error("read the events");
        let connection = self.inner.database.reader();
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let rows = statement.query_map(params_from_iter(values), read).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Waits until what was kept so far is on the disk, or for two seconds.
    fn flush(&self) {
        let QueueState { work, written, .. } = &*self.inner.shared;
        let mut queue = self.inner.shared.lock();
        let wanted = queue.taken;
        if queue.done >= wanted {
            return;
        }
        queue.hurry = true;
        work.notify_one();
        drop(written.wait_timeout_while(queue, FLUSH, |queue| queue.done < wanted));
    }

    /// Takes no more events, writes what it has and ends the writer.
    pub(crate) async fn close(&self) {
        self.inner.shared.close();
        let mut ended = self.inner.ended.clone();
        // The writer drops its end when it is done.
        while ended.changed().await.is_ok() {}
    }
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

fn conditions(filter: &EventFilter) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let mut sql = String::new();
    let mut add = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            sql.push_str(if sql.is_empty() { " WHERE " } else { " AND " });
            sql.push_str(condition);
            values.push(value);
        }
    };
    add("kind = ?", filter.kind.clone().map(Value::Text));
    add("name = ?", filter.name.clone().map(Value::Text));
    add("warning = ?", filter.warning.map(|warning| Value::Integer(warning.into())));
    add("at >= ?", filter.since.map(|at| Value::Integer(at.0)));
    add("at < ?", filter.until.map(|at| Value::Integer(at.0)));
    (sql, values)
}

fn read(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    Ok(EventRecord {
        at: Timestamp(row.get(0)?),
        kind: row.get(1)?,
        name: row.get(2)?,
        reason: row.get(3)?,
        message: row.get(4)?,
        warning: row.get(5)?,
    })
}

#[cfg(test)]
mod tests;
