//! The one thread that signs checkpoints: each minute in which something was recorded, each [`CHECKPOINT_EVENTS`] rows, and
//! at the end. It reads what the writer has written, so no call waits for it.
//!
//! It measures time by a clock that is never set, so that setting the other one back delays no checkpoint.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};
use tokio::sync::watch;
use toolcrib_base::Clock;

use super::checkpoint::{CHECKPOINT_EVENTS, Checkpoint, CheckpointKey, SigningPair};
use super::hash::RowHash;
use super::tree::HashTree;
use super::writer::{read_head, to_sql};
use super::{Head, Progress, checkpoints};
use crate::database::Database;
use crate::error::StoreError;

/// How long something recorded waits for its signature.
pub const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// Rows read at a time.
const CHUNK: u64 = 1_000;

/// Seals the key that signs, and opens it again: what the vault does for it.
pub trait SealKey: std::fmt::Debug + Send + Sync {
    /// Seals a key for its row.
    fn seal(&self, key: &[u8]) -> Vec<u8>;

    /// Opens what was sealed; why not.
    ///
    /// # Errors
    /// It was sealed by another vault, or is damaged.
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String>;
}

/// What signs, once there is a key.
#[derive(Debug)]
pub(super) struct Notary {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    /// Where the writer is.
    progress: watch::Receiver<Progress>,
    seat: Mutex<Option<Seat>>,
    /// The key that signs, once there is one, and whether it may still come.
    key: Arc<watch::Sender<KeyState>>,
    /// The newest checkpoint, for those who pass it on.
    newest: watch::Sender<u64>,
    every: Duration,
    thread: Mutex<Option<Thread>>,
    closing: AtomicBool,
    /// The last row that is signed.
    signed: AtomicU64,
}

/// The key that signs, for those who ask for it.
#[derive(Debug, Clone, Copy, Default)]
struct KeyState {
    key: Option<CheckpointKey>,
    /// How many are about to open it.
    openings: usize,
}

/// The promise that the key of a log is being opened: who asks for the key waits while it lasts.
#[derive(Debug)]
pub struct KeyOpening(Arc<watch::Sender<KeyState>>);

/// The key, and how far it has signed.
#[derive(Debug)]
struct Seat {
    pair: SigningPair,
    seal: Arc<dyn SealKey>,
    /// The last checkpoint.
    last: Option<Checkpoint>,
    /// The rows since then that were read, and the last of them.
    tree: HashTree,
    read: Head,
}

/// Why there is no checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// No key was given yet.
    #[error("the key of the audit log is not open")]
    NoKey,
    /// There is no randomness, or what is sealed is no key.
    #[error("the key of the audit log cannot be used")]
    BadKey,
    /// The rows are not those that this process wrote: what someone else wrote is not signed.
    #[error("the audit log was changed from outside: run `toolcrib audit verify`")]
    Changed,
    /// The database says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// === impl Notary ===

impl Notary {
    pub(super) fn new(
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
        progress: watch::Receiver<Progress>,
        every: Duration,
    ) -> Self {
        let (seat, thread) = (Mutex::default(), Mutex::default());
        let (newest, closing, signed) = (watch::Sender::new(0), AtomicBool::new(false), AtomicU64::new(0));
        let key = Arc::new(watch::Sender::new(KeyState::default()));
        Self { database, clock, progress, seat, key, newest, every, thread, closing, signed }
    }

    fn seat(&self) -> MutexGuard<'_, Option<Seat>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that signs; `None` where no one signs, or before it is open.
    pub(super) fn key(&self) -> Option<CheckpointKey> {
        self.key.borrow().key
    }

    /// The same once everyone who opens it is through. Cancel-safe.
    pub(super) async fn opened_key(&self) -> Option<CheckpointKey> {
        let mut state = self.key.subscribe();
        // The sender lives as long as this notary.
        state.wait_for(|state| state.key.is_some() || state.openings == 0).await.ok().and_then(|state| state.key)
    }

    pub(super) fn opening(&self) -> KeyOpening {
        self.key.send_modify(|state| state.openings += 1);
        KeyOpening(Arc::clone(&self.key))
    }

    /// The number of the newest checkpoint, and each next one.
    pub(super) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Opens the key of this log, makes one where there is none, and signs from now on. Blocks.
    pub(super) fn open(self: &Arc<Self>, seal: Arc<dyn SealKey>) -> Result<CheckpointKey, CheckpointError> {
        let mut seat = self.seat();
        if let Some(seat) = &*seat {
            return Ok(seat.pair.public());
        }
        let failed = self.database.error("read the key of the audit log");
        let connection = self.database.writer();
        let sealed = connection.query_row("SELECT sealed FROM audit_key", [], |row| row.get::<_, Vec<u8>>(0));
        let sealed = sealed.optional().map_err(&failed)?;
        let last = checkpoints::newest(&connection).map_err(&failed)?;
        let opened = sealed.as_deref().map(|sealed| seal.open(sealed));
        let pair = match opened {
            Some(Ok(document)) => SigningPair::read(&document).ok_or(CheckpointError::BadKey)?,
            opened => {
                if let Some(Err(why)) = opened {
                    // Whoever verifies finds the change, so nothing is hidden by going on.
                    tracing::error!(
                        error = why,
                        "the key of the audit log cannot be opened; a new one signs from now on"
                    );
                }
                let document = SigningPair::document().ok_or(CheckpointError::BadKey)?;
                keep(&connection, &seal.seal(&document)).map_err(&failed)?;
                SigningPair::read(&document).ok_or(CheckpointError::BadKey)?
            }
        };
        drop(connection);
        let key = pair.public();
        self.newest.send_replace(last.as_ref().map_or(0, |last| last.number));
        let read = last.as_ref().map_or(Head::EMPTY, Checkpoint::head);
        self.signed.store(read.seq, Ordering::SeqCst);
        *seat = Some(Seat { pair, seal, last, tree: HashTree::default(), read });
        drop(seat);
        self.key.send_modify(|state| state.key = Some(key));
        self.start();
        Ok(key)
    }

    /// Signs what was recorded since the last checkpoint. Gives the newest one. Blocks.
    pub(super) fn sign(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        let mut seat = self.seat();
        let seat = seat.as_mut().ok_or(CheckpointError::NoKey)?;
        self.sign_rows(seat)?;
        Ok(seat.last.clone())
    }

    /// A new key signs from now on: the last thing that the old one signs names it. Gives the new one. Blocks.
    pub(super) fn rotate(&self) -> Result<CheckpointKey, CheckpointError> {
        let mut seat = self.seat();
        let seat = seat.as_mut().ok_or(CheckpointError::NoKey)?;
        self.sign_rows(seat)?;
        let document = SigningPair::document().ok_or(CheckpointError::BadKey)?;
        let pair = SigningPair::read(&document).ok_or(CheckpointError::BadKey)?;
        let checkpoint = seat.next(self.clock.now(), Some(pair.public()));
        let (put, sealed) = (checkpoint.clone(), seat.seal.seal(&document));
        let kept = self.database.commit(move |connection| {
            checkpoints::put(connection, &put)?;
            keep(connection, &sealed)
        });
        kept.map_err(self.database.error("save the key of the audit log"))?;
        seat.pair = pair;
        self.made(seat, checkpoint);
        let key = seat.pair.public();
        self.key.send_modify(|state| state.key = Some(key));
        Ok(key)
    }

    /// Takes in the rows that the writer has written, and signs at the end, and in between where there are many.
    fn sign_rows(&self, seat: &mut Seat) -> Result<(), CheckpointError> {
        let head = self.progress.borrow().head;
        while seat.read.seq < head.seq {
            let begun = seat.last.as_ref().map_or(0, |last| last.seq);
            let end = head.seq.min(begun + CHECKPOINT_EVENTS);
            self.read(seat, end)?;
            if end == head.seq && seat.read != head {
                // What was read is read again the next time, when it may be whole.
                seat.tree = HashTree::default();
                seat.read = seat.last.as_ref().map_or(Head::EMPTY, Checkpoint::head);
                return Err(CheckpointError::Changed);
            }
            let checkpoint = seat.next(self.clock.now(), None);
            let put = checkpoint.clone();
            let kept = self.database.commit(move |connection| checkpoints::put(connection, &put));
            kept.map_err(self.database.error("save a checkpoint of the audit log"))?;
            self.made(seat, checkpoint);
        }
        Ok(())
    }

    fn made(&self, seat: &mut Seat, checkpoint: Checkpoint) {
        tracing::debug!(number = checkpoint.number, seq = checkpoint.seq, "a checkpoint of the audit log was signed");
        self.newest.send_replace(checkpoint.number);
        self.signed.store(checkpoint.seq, Ordering::SeqCst);
        seat.tree = HashTree::default();
        seat.last = Some(checkpoint);
    }

    /// Reads rows up to `end` into the tree.
    fn read(&self, seat: &mut Seat, end: u64) -> Result<(), CheckpointError> {
        while seat.read.seq < end {
            let connection = self.database.reader();
            let failed = self.database.error("read the audit log");
            let sql = "SELECT seq, hash FROM audit WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
            let range = (to_sql(seat.read.seq), to_sql(end), to_sql(CHUNK));
            let rows = statement.query_map(range, read_head).map_err(&failed)?;
            let before = seat.read.seq;
            for row in rows {
                let row = row.map_err(&failed)?;
                if row.seq != seat.read.seq + 1 {
                    return Err(CheckpointError::Changed);
                }
                seat.tree.push(row.hash);
                seat.read = row;
            }
            if seat.read.seq == before {
                return Err(CheckpointError::Changed);
            }
        }
        Ok(())
    }

    /// Starts the thread that signs.
    fn start(self: &Arc<Self>) {
        let own = Arc::downgrade(self);
        let every = self.every;
        let made = thread::Builder::new().name("audit-notary".into()).spawn(move || {
            let mut due = Instant::now() + every;
            loop {
                thread::park_timeout(due.saturating_duration_since(Instant::now()));
                let Some(own) = own.upgrade() else { return };
                let is_closing = own.closing.load(Ordering::SeqCst);
                if is_closing {
                    return;
                }
                let head = own.progress.borrow().head;
                if Instant::now() < due && !own.is_full(head) {
                    continue;
                }
                if let Err(error) = own.sign() {
                    tracing::warn!(%error, "no checkpoint of the audit log was signed");
                }
                due = Instant::now() + every;
            }
        });
        match made {
            Ok(thread) => {
                let thread = thread.thread().clone();
                *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            }
            Err(error) => tracing::error!(%error, "no thread signs the audit log; it is signed at the end"),
        }
    }

    /// Whether as many rows wait as one checkpoint covers.
    fn is_full(&self, head: Head) -> bool {
        head.seq.saturating_sub(self.signed.load(Ordering::SeqCst)) >= CHECKPOINT_EVENTS
    }

    /// The writer has written up to here: a whole checkpoint's worth is signed at once.
    pub(super) fn wake_at(&self, head: Head) {
        if self.is_full(head) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.unpark();
        }
    }

    /// Ends the thread, and signs what is left. Blocks.
    pub(super) fn close(&self) {
        if self.closing.swap(true, Ordering::SeqCst) {
            return;
        }
        self.wake();
        match self.sign() {
            Ok(_) | Err(CheckpointError::NoKey) => {}
            Err(error) => tracing::warn!(%error, "the end of the audit log was not signed"),
        }
    }
}

impl Drop for KeyOpening {
    /// It is open, or will not be.
    fn drop(&mut self) {
        self.0.send_modify(|state| state.openings -= 1);
    }
}

impl Drop for Notary {
    /// The thread finds that the log is gone.
    fn drop(&mut self) {
        self.wake();
    }
}

impl Seat {
    /// The next checkpoint, over what was read.
    fn next(&self, at: toolcrib_base::Timestamp, next: Option<CheckpointKey>) -> Checkpoint {
        let checkpoint = Checkpoint {
            number: self.last.as_ref().map_or(0, |last| last.number) + 1,
            first: self.last.as_ref().map_or(0, |last| last.seq) + 1,
            seq: self.read.seq,
            hash: self.read.hash,
            root: self.tree.root(),
            at,
            previous: self.last.as_ref().map_or(RowHash::GENESIS, Checkpoint::digest),
            key: self.pair.public(),
            next,
            signature: String::new(),
        };
        checkpoint.signed(&self.pair)
    }
}

fn keep(connection: &Connection, sealed: &[u8]) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO audit_key (only, sealed) VALUES (1, ?1)", [sealed]).map(drop)
}
