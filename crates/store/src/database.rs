//! The connections to SQLite: one that writes, one that reads the audit log beside it.

mod commit;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::StoreError;
use crate::folder::ClaimedFolder;
use crate::migration::migrate;
use commit::{CommitQueue, Entry};

/// Only a person with a SQLite shell can be in the way, since the folder is locked; such a lock is short.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// After how many pages of 4 KiB the write-ahead log is copied into the database: rarely enough that the audit log's
/// last page is not copied at every commit.
const CHECKPOINT_PAGES: i64 = 2_000;

/// To how many bytes the write-ahead log is cut after it was copied.
const WAL_BYTES: i64 = 32 * 1024 * 1024;

/// One open database. All writers share one connection, so they wait for each other here and not in SQLite.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    writer: Mutex<Connection>,
    /// What waits for the next commit.
    queue: CommitQueue,
    /// Whether there was another one before, of which nothing is left.
    pub(crate) has_lost_history: bool,
    /// `None` in memory, where a second connection would see another database.
    reader: Option<Mutex<Connection>>,
    _folder: Option<ClaimedFolder>,
}

impl Database {
    /// Claims the folder and opens its database.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        let folder = ClaimedFolder::claim(folder)?;
        let has_lost = folder.has_lost_database();
        let path = folder.database()?;
        if has_lost {
            tracing::error!(
                path = %path.display(),
                "the database was empty or missing: the audit log, approvals, runs and snapshots of this installation \
                 are lost, and a new history starts now. To recover, stop the gateway and restore a backup of the file"
            );
        }
        let failed = |source| StoreError::database(path.clone(), "open the database", source);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut writer = Connection::open_with_flags(&path, flags).map_err(failed)?;
        prepare(&mut writer, &path)?;
        let reader = Connection::open_with_flags(&path, flags).map_err(failed)?;
        reader.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        reader.pragma_update(None, "query_only", true).map_err(failed)?;
        let (writer, reader, queue) = (Mutex::new(writer), Some(Mutex::new(reader)), CommitQueue::default());
        Ok(Self { path, has_lost_history: has_lost, writer, queue, reader, _folder: Some(folder) })
    }

    /// A database that is gone with the process.
    pub(crate) fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        let mut writer = Connection::open_in_memory()
            .map_err(|source| StoreError::database(path.clone(), "open the database", source))?;
        prepare(&mut writer, &path)?;
        let (writer, queue) = (Mutex::new(writer), CommitQueue::default());
        Ok(Self { path, has_lost_history: false, writer, queue, reader: None, _folder: None })
    }

    /// The connection that writes. Hold it for one transaction.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Connection> {
        // A panic while it was held rolled its transaction back, so the connection is good to use.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is not worth that others wait for the disk, all or none: it is there after the end of the process,
    /// however that ends; a power cut may take it.
    pub(crate) fn write_soon<T>(
        &self,
        what: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut writer = self.writer();
        writer.pragma_update(None, "synchronous", "NORMAL")?;
        let begun = writer.transaction_with_behavior(TransactionBehavior::Immediate);
        let written = begun.and_then(|transaction| {
            let outcome = what(&transaction)?;
            transaction.commit().map(|()| outcome)
        });
        writer.pragma_update(None, "synchronous", "FULL")?;
        written
    }

    /// Makes a change, which is on the disk when this returns. Changes of other threads that wait at the same time are
    /// synced with it; one that fails is taken back alone. It may be made twice, the first time without effect.
    pub(crate) fn commit<T: Send + 'static>(
        &self,
        change: impl Fn(&Connection) -> rusqlite::Result<T> + Send + Sync + 'static,
    ) -> rusqlite::Result<T> {
        let change = Arc::new(Entry::new(change));
        self.queue.push(Arc::clone(&change) as _);
        let mut writer = self.writer();
        if let Some(outcome) = change.take() {
            return outcome;
        }
        commit::run(&mut writer, &self.queue.drain());
        // Nobody noted an outcome if the thread that took the change panicked; its transaction was rolled back.
        if let Some(outcome) = change.take() {
            return outcome;
        }
        commit::run(&mut writer, &[Arc::clone(&change) as _]);
        change.take().expect("a change that ran has an outcome")
    }

    /// The connection for longer reading.
    pub(crate) fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.as_ref().unwrap_or(&self.writer).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the file and the action in a failure.
    pub(crate) fn error(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
        let path = self.path.clone();
        move |source| StoreError::database(path.clone(), action, source)
    }
}

/// Settings and tables. The version is checked first: a refused file is not written to.
fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::database(path.to_owned(), "set up the database", source);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(failed)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(failed)?;
    migrate(connection, path)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" && mode != "memory" {
        tracing::warn!(path = %path.display(), mode, "this file system has no write-ahead log: readers block writers");
    }
    // A commit returns when the bytes are on the disk, not when the kernel has them.
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES).map_err(failed)
}
/// A secret of this installation; made when it is first asked for.
pub(crate) fn installation_secret(connection: &Connection, name: &str) -> rusqlite::Result<String> {
    let make = "INSERT INTO installation (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.execute(make, (name, toolcrib_base::random::token().expose()))?;
    connection.query_row("SELECT value FROM installation WHERE name = ?1", [name], |row| row.get(0))
}
