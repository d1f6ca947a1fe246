//! The audit log: append-only, hash-chained, written by one thread, never dropping an event.
//!
//! A call first [reserves](AuditLog::reserve) a place, which waits while too many events wait for the disk, and later
//! [records](AuditSlot::record) into it, which cannot fail: so nothing is done that could not be put on record. Calls
//! in flight hold a place too, but do not count as waiting events: the queue bounds memory, not how many calls run.
//!
//! What it promises: after [`AuditLog::close`] everything recorded is on the disk. A process that is killed loses at
//! most what was recorded since the last commit was begun ([`COMMIT_EVERY`] plus the time of a commit, or
//! [`COMMIT_EVENTS`] while the disk keeps up), and the rows that are there form an unbroken chain. Once a commit has
//! failed, no place is given until one succeeds: callers wait, and what is not on the disk is that batch and the events
//! of calls that were running. What it cannot promise: see [`AuditLog::verify`].

mod activity;
mod chain;
mod checkpoint;
mod checkpoint_walk;
mod checkpoints;
mod cursors;
mod event;
mod floor;
mod hash;
mod notary;
mod park;
mod proof;
mod query;
mod tree;
mod verify;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc, watch};
use toolcrib_base::{Clock, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

use self::hash::ArgumentHasher;
use self::notary::Notary;
use self::writer::{Writer, WriterParts};

pub(crate) use self::park::block_on;

pub use self::activity::ActivityFilter;
pub use self::chain::Head;
pub use self::checkpoint::{CHECKPOINT_EVENTS, Checkpoint, CheckpointKey};
pub use self::checkpoints::CHECKPOINTS_MAX;
pub use self::cursors::{AuditCursors, AuditPlace};
pub use self::event::{ARGUMENTS_MAX, AuditEvent, Custody, Decision, Door, Outcome, TEXT_MAX};
pub use self::hash::{ArgsHash, BadHash, RowHash};
pub use self::notary::{CHECKPOINT_EVERY, CheckpointError, KeyOpening, SealKey};
pub use self::proof::{EventProof, ProofFault};
pub use self::query::{AuditFilter, AuditOrder, AuditRecord, LIST_MAX, PATTERN_MAX};
use self::verify::Expectation;
pub use self::verify::{ChainBreak, Fault, IntactChain, Verification, VerifyWatch};

/// How many events may wait for the disk unless configured otherwise; full, they take some 8 MB. While so many wait, no
/// place is given.
pub const DEFAULT_QUEUE: usize = 8_192;

/// How many places calls in flight may hold for each place of the queue: 65,536 with the default, more than there can
/// be connections, so that only a fault reaches it. It bounds what is written when the disk stops and all of them end:
/// some 64 MB.
pub const IN_FLIGHT: usize = 8;

/// How long an event waits for others to share its commit. With `synchronous = FULL` every commit waits for the disk.
pub const COMMIT_EVERY: Duration = Duration::from_millis(100);

/// With so many events waiting, a commit begins at once; it takes no more than these.
pub const COMMIT_EVENTS: usize = 1_024;

/// The log. Clones are handles to the same log.
#[derive(Debug, Clone)]
pub struct AuditLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sender: mpsc::Sender<AuditEvent>,
    /// How many recorded events may wait for the disk before places are refused.
    queue: u64,
    shared: Arc<LogState>,
    progress: watch::Receiver<Progress>,
    hasher: ArgumentHasher,
    database: Arc<Database>,
    notary: Arc<Notary>,
}

/// The checkpoints of a log, for those who keep them elsewhere.
pub trait ReadCheckpoints: std::fmt::Debug + Send + Sync {
    /// Those after number `after`, in order, at most [`CHECKPOINTS_MAX`]. Blocks.
    ///
    /// # Errors
    /// The database says no.
    fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<Checkpoint>, StoreError>;

    /// The number of the newest one, and each next one as soon as it is on the disk; 0 where there is none.
    fn newest_checkpoint(&self) -> watch::Receiver<u64>;
}

/// What the callers and the writer tell each other beside the queue.
#[derive(Debug, Default)]
struct LogState {
    writer: OnceLock<Thread>,
    /// Events recorded since the start.
    recorded: AtomicU64,
    /// Events of those that are on the disk.
    written: AtomicU64,
    /// The writer was woken because a whole batch waits; one call per batch pays for that.
    nudged: AtomicBool,
    /// Someone waits: commit without waiting for more events.
    hurry: AtomicBool,
    closing: AtomicBool,
    /// The last commit failed. Looked at by every caller; who finds it set waits at the gate.
    blocked: AtomicBool,
    gate: watch::Sender<Gate>,
}

/// What callers wait for while nothing can be written.
#[derive(Debug, Clone, Copy, Default)]
struct Gate {
    blocked: bool,
    /// Nothing is waited for any more: the process ends.
    ending: bool,
}

/// Where the writer is.
#[derive(Debug, Clone)]
struct Progress {
    written: u64,
    head: Head,
    blocked: Option<WriteFailure>,
}

#[derive(Debug, Clone)]
struct WriteFailure {
    since: Timestamp,
    error: String,
}

/// The state of the log, for health checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditHealth {
    /// Since when nothing can be written; `None` when all is well.
    pub blocked_since: Option<Timestamp>,
    /// Why.
    pub last_error: Option<String>,
    /// How many events are recorded but not yet on the disk.
    pub queued: u64,
    /// The newest row on the disk. Kept elsewhere, it lets [`AuditLog::verify`] notice that the log was cut or
    /// replaced.
    pub head: Head,
}

/// The log is closed, so nothing may be done any more that needs a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log is closed")]
pub struct AuditClosed;

/// Events that were recorded and are not on the disk, at the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{events} audit events could not be written and are lost: {why}")]
pub struct UnwrittenEvents {
    /// How many.
    pub events: u64,
    /// What the database said last.
    pub why: String,
}

/// A place in the log, for one event. Dropped without an event it goes back.
#[derive(Debug)]
pub struct AuditSlot {
    permit: mpsc::OwnedPermit<AuditEvent>,
    shared: Arc<LogState>,
}

// === impl LogState ===

impl LogState {
    fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    fn hurry(&self) {
        self.hurry.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::SeqCst);
        self.gate.send_modify(|gate| gate.blocked = blocked);
    }

    fn end_waiting(&self) {
        self.gate.send_modify(|gate| gate.ending = true);
    }

    /// Waits while nothing can be written.
    async fn unblocked(&self) -> Result<(), AuditClosed> {
        if !self.blocked.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut gate = self.gate.subscribe();
        match gate.wait_for(|gate| gate.ending || !gate.blocked).await {
            Ok(gate) if !gate.blocked => Ok(()),
            _ => Err(AuditClosed),
        }
    }

    /// Events recorded and not yet on the disk.
    fn queued(&self) -> u64 {
        // `written` is read first: it never runs ahead of `recorded`.
        let written = self.written.load(Ordering::SeqCst);
        self.recorded.load(Ordering::SeqCst).saturating_sub(written)
    }
}

// === impl AuditSlot ===

impl AuditSlot {
    /// Puts the event on record. Does not wait and cannot fail, so that a drop guard may call it.
    pub fn record(self, mut event: AuditEvent) {
        event.cut();
        self.shared.recorded.fetch_add(1, Ordering::SeqCst);
        self.permit.send(event);
        let full_batch = self.shared.queued() >= COMMIT_EVENTS as u64;
        if full_batch && !self.shared.nudged.swap(true, Ordering::SeqCst) {
            self.shared.wake();
        }
    }
}

// === impl AuditLog ===

impl AuditLog {
    /// Reads the installation's key and the head of the chain, and starts the writer.
    pub(crate) fn start(
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
        queue: usize,
        every: Duration,
    ) -> Result<Self, StoreError> {
        let (key, head) = {
            let connection = database.writer();
            let key = installation_key(&connection).map_err(database.error("read the key of the audit log"))?;
            (key, writer::resume(&connection).map_err(database.error("read the head of the audit log"))?)
        };
        let queue = queue.max(1);
        let (sender, receiver) = mpsc::channel(queue.saturating_mul(IN_FLIGHT).min(Semaphore::MAX_PERMITS));
        let (report, progress) = watch::channel(Progress { written: 0, head, blocked: None });
        let shared = Arc::new(LogState::default());
        let notary = Notary::new(Arc::clone(&database), Arc::clone(&clock), progress.clone(), every);
        let notary = Arc::new(notary);
        let parts = WriterParts { database: Arc::clone(&database), clock, notary: Arc::downgrade(&notary) };
        let writer = Writer::new(parts, Arc::clone(&shared), receiver, report);
        let thread = std::thread::Builder::new().name("audit".into()).spawn(|| writer.run());
        let thread = thread.map_err(StoreError::Thread)?.thread().clone();
        shared.writer.set(thread).expect("the writer's thread is set once");
        // The writer may have looked for work before it could be woken.
        shared.wake();
        let hasher = ArgumentHasher::new(key.as_bytes());
        Ok(Self { inner: Arc::new(Inner { sender, queue: queue as u64, shared, progress, hasher, database, notary }) })
    }

    /// Waits for a place in the log. Call this before the deed; it waits while the disk cannot keep up, and after a
    /// failed commit until one succeeds. Cancel-safe.
    ///
    /// # Errors
    /// The log is closed, or about to be while nothing can be written.
    pub async fn reserve(&self) -> Result<AuditSlot, AuditClosed> {
        let Inner { sender, shared, queue, .. } = &*self.inner;
        loop {
            shared.unblocked().await?;
            if shared.queued() >= *queue {
                self.room().await?;
            }
            if sender.capacity() == 0 {
                shared.hurry();
            }
            let permit = sender.clone().reserve_owned().await.map_err(|_| AuditClosed)?;
            // A commit may have failed while this one waited for its place.
            if !shared.blocked.load(Ordering::SeqCst) {
                return Ok(AuditSlot { permit, shared: Arc::clone(shared) });
            }
        }
    }

    /// Puts on record what has happened already and cannot be taken back, such as a file that was changed. It does not
    /// wait, not even while nothing can be written; where the log is closed, or all places are taken, a warning is all
    /// that is left of it.
    pub fn record_now(&self, event: AuditEvent) {
        let permit = self.inner.sender.clone().try_reserve_owned();
        match permit {
            Ok(permit) => AuditSlot { permit, shared: Arc::clone(&self.inner.shared) }.record(event),
            Err(_) => tracing::warn!(
                method = &*event.method,
                target = &*event.target,
                principal = event.principal.as_str(),
                "an audit event has no place in the log"
            ),
        }
    }

    /// From here on calls do not wait for a disk that cannot be written but are refused: the gateway ends.
    pub fn end_waiting(&self) {
        self.inner.shared.end_waiting();
    }

    /// Waits until fewer events wait for the disk than may.
    async fn room(&self) -> Result<(), AuditClosed> {
        let Inner { shared, queue, .. } = &*self.inner;
        let mut progress = self.inner.progress.clone();
        shared.hurry();
        let mut gate = shared.gate.subscribe();
        tokio::select! {
            room = progress.wait_for(|_| shared.queued() < *queue) => room.map(|_| ()).map_err(|_| AuditClosed),
            // A disk that cannot be written is not waited for at the end.
            _ = gate.wait_for(|gate| gate.ending && gate.blocked) => Err(AuditClosed),
        }
    }

    /// The keyed hash of a call's raw argument bytes, all of them.
    pub fn hash_arguments(&self, arguments: &[u8]) -> ArgsHash {
        self.inner.hasher.hash(arguments)
    }

    /// How the writer is doing. Only touches memory.
    pub fn health(&self) -> AuditHealth {
        let progress = self.inner.progress.borrow();
        AuditHealth {
            blocked_since: progress.blocked.as_ref().map(|blocked| blocked.since),
            last_error: progress.blocked.as_ref().map(|blocked| blocked.error.clone()),
            queued: self.inner.shared.queued(),
            head: progress.head,
        }
    }

    /// Waits until everything recorded so far is on the disk. Waits as long as the disk is full: give it a deadline.
    /// Cancel-safe.
    ///
    /// # Errors
    /// The log was closed before that.
    pub async fn flush(&self) -> Result<(), AuditClosed> {
        let wanted = self.inner.shared.recorded.load(Ordering::SeqCst);
        self.inner.shared.hurry();
        let mut progress = self.inner.progress.clone();
        progress.wait_for(|progress| progress.written >= wanted).await.map(|_| ()).map_err(|_| AuditClosed)
    }

    /// Waits until the disk has a row after `seq`, and gives the newest one. Cancel-safe.
    ///
    /// # Errors
    /// The log is closed and there will be none.
    pub async fn beyond(&self, seq: u64) -> Result<Head, AuditClosed> {
        let mut progress = self.inner.progress.clone();
        progress.wait_for(|progress| progress.head.seq > seq).await.map(|now| now.head).map_err(|_| AuditClosed)
    }

    /// Takes no more reservations, waits for the slots that are out, writes everything down and ends the writer.
    ///
    /// Waits for calls that still hold a slot, and for a disk that hangs: end the calls first and give this a deadline.
    /// A disk that refuses to be written is tried a few times more. Dropping the future does not stop the writer.
    /// Closing twice is fine.
    ///
    /// # Errors
    /// The disk could not be written: so many events are lost.
    pub async fn close(&self) -> Result<(), UnwrittenEvents> {
        self.inner.shared.closing.store(true, Ordering::SeqCst);
        self.inner.shared.wake();
        let mut progress = self.inner.progress.clone();
        // The writer drops its end when it is done.
        while progress.changed().await.is_ok() {}
        let unwritten = self.unwritten();
        if unwritten.events == 0 { Ok(()) } else { Err(unwritten) }
    }

    /// What is recorded and not on the disk now.
    pub fn unwritten(&self) -> UnwrittenEvents {
        let why = self.health().last_error.unwrap_or_else(|| "the disk does not answer".to_owned());
        UnwrittenEvents { events: self.inner.shared.queued(), why }
    }

    /// Like [`AuditLog::close`], for a thread that may block.
    ///
    /// # Errors
    /// As there.
    pub fn close_blocking(&self) -> Result<(), UnwrittenEvents> {
        block_on(self.close())
    }

    /// The rows that `filter` asks for, at most [`LIST_MAX`]. What was recorded within the last moments may not be
    /// there yet: [`AuditLog::flush`] first where that matters.
    ///
    /// # Errors
    /// A pattern is longer than [`PATTERN_MAX`]; the database says no.
    pub fn list(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        query::list(&self.inner.database, filter)
    }

    /// Rows that runs of agents wrote. Blocks; in async code call it with `spawn_blocking`.
    ///
    /// # Errors
    /// The database cannot be read; a pattern is too long.
    pub fn activity(&self, filter: &ActivityFilter) -> Result<Vec<AuditRecord>, StoreError> {
        activity::list(&self.inner.database, filter)
    }

    /// Signs checkpoints from now on, with the key of this log; makes one where there is none. Gives its public half.
    /// Blocks.
    ///
    /// # Errors
    /// There is no randomness; the database says no.
    pub fn sign_with(&self, seal: Arc<dyn SealKey>) -> Result<CheckpointKey, CheckpointError> {
        self.inner.notary.open(seal)
    }

    /// Says that [`AuditLog::sign_with`] comes soon, from when on who asks for the key waits, until this is dropped.
    pub fn opening_key(&self) -> KeyOpening {
        self.inner.notary.opening()
    }

    /// The key that signs now; `None` where no one signs, or not yet.
    pub fn key(&self) -> Option<CheckpointKey> {
        self.inner.notary.key()
    }

    /// The key that signs, waited for while it is being opened; `None` where no one signs. Cancel-safe.
    pub async fn opened_key(&self) -> Option<CheckpointKey> {
        self.inner.notary.opened_key().await
    }

    /// Signs what is on the disk, without waiting for the minute. Gives the newest checkpoint. Blocks.
    ///
    /// # Errors
    /// There is no key; the log was changed from outside; the database says no.
    pub fn sign(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        self.inner.notary.sign()
    }

    /// A new key signs from now on; the last checkpoint of the old one names it. Gives its public half. Blocks.
    ///
    /// # Errors
    /// As [`AuditLog::sign`].
    pub fn rotate_key(&self) -> Result<CheckpointKey, CheckpointError> {
        self.inner.notary.rotate()
    }

    /// The proof that an event is in the log, up to the checkpoint that covers it; `None` where there is no such event.
    /// Blocks.
    ///
    /// # Errors
    /// The database says no.
    pub fn prove(&self, seq: u64) -> Result<Option<EventProof>, StoreError> {
        proof::prove(&self.inner.database, seq)
    }

    /// Removes events from before a moment, at a checkpoint: what no checkpoint covers stays, and so do the checkpoints.
    /// `delivered` is the last event that whoever passes events on has passed on. Gives how many were removed. Blocks.
    ///
    /// # Errors
    /// The database says no.
    pub fn cut(&self, before: Timestamp, delivered: Option<u64>) -> Result<u64, StoreError> {
        floor::cut(&self.inner.database, before, delivered)
    }

    /// The checkpoints that named another key for the next ones. Blocks.
    ///
    /// # Errors
    /// The database says no.
    pub fn key_changes(&self) -> Result<Vec<Checkpoint>, StoreError> {
        let failed = self.inner.database.error("read the checkpoints of the audit log");
        checkpoints::rotations(&self.inner.database.reader()).map_err(failed)
    }

    /// Reads the whole log and recomputes the chain, and checks the checkpoints; with `key`, that the key which signed is
    /// that one, or comes before or after it.
    ///
    /// It finds every change to a row, every row missing or added in between, and a log whose newest rows were deleted.
    /// Anyone who may write to the database file can also compute a whole new chain, or cut the log and its recorded
    /// head together. That can only be noticed against a head that was remembered elsewhere, given as `expected`, or with
    /// the key: [`AuditLog::verify_signed`].
    ///
    /// # Errors
    /// The database says no.
    pub fn verify(&self, expected: Option<&Head>) -> Result<Verification, StoreError> {
        let expected = Expectation { head: expected.copied(), ..Expectation::default() };
        let found = verify::verify(&self.inner.database, expected, &mut |_, _| true)?;
        Ok(found.expect("no one ends it"))
    }

    /// The same, where the key that signs is known from elsewhere, and a checkpoint may have been kept there.
    ///
    /// # Errors
    /// As there.
    pub fn verify_signed(
        &self,
        key: Option<CheckpointKey>,
        kept: Option<Checkpoint>,
    ) -> Result<Verification, StoreError> {
        Ok(self.verify_watched(key, kept, &mut |_, _| true)?.expect("no one ends it"))
    }

    /// The same, watched while it runs: `watch` is told how many rows are read, and of how many. `None` where that has
    /// ended it.
    ///
    /// # Errors
    /// As there.
    pub fn verify_watched(
        &self,
        key: Option<CheckpointKey>,
        kept: Option<Checkpoint>,
        watch: VerifyWatch<'_>,
    ) -> Result<Option<Verification>, StoreError> {
        // Its last row tells another log from one that was cut, whatever checkpoints either has.
        let head = kept.as_ref().map(Checkpoint::head);
        verify::verify(&self.inner.database, Expectation { head, key, kept }, watch)
    }
}

impl ReadCheckpoints for AuditLog {
    fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<Checkpoint>, StoreError> {
        let failed = self.inner.database.error("read the checkpoints of the audit log");
        checkpoints::after(&self.inner.database.reader(), after, limit).map_err(failed)
    }

    fn newest_checkpoint(&self) -> watch::Receiver<u64> {
        self.inner.notary.newest()
    }
}

/// The key of the argument hashes.
fn installation_key(connection: &Connection) -> rusqlite::Result<String> {
    crate::database::installation_secret(connection, "audit_arguments_key")
}

#[cfg(test)]
mod tests;
