//! Commits that are shared: each thread waits until its own change is on the disk, and changes that wait at the same
//! time are synced together.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, TransactionBehavior};

/// Changes that wait for the connection. Whoever gets it writes all of them.
#[derive(Default)]
pub(super) struct CommitQueue(Mutex<Vec<Arc<dyn Change>>>);

/// A change of any result.
pub(super) trait Change: Send + Sync {
    /// Makes the change and notes its outcome; whether it is to be kept.
    fn run(&self, connection: &Connection) -> bool;

    /// Notes that it was not kept.
    fn fail(&self, error: rusqlite::Error);
}

/// A change with a place for its outcome.
pub(super) struct Entry<T, F> {
    write: F,
    outcome: Mutex<Option<rusqlite::Result<T>>>,
}

// === impl Entry ===

impl<T, F: Fn(&Connection) -> rusqlite::Result<T>> Entry<T, F> {
    pub(super) fn new(write: F) -> Self {
        Self { write, outcome: Mutex::new(None) }
    }

    /// What came of it, once.
    pub(super) fn take(&self) -> Option<rusqlite::Result<T>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, outcome: rusqlite::Result<T>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

impl<T: Send, F: Fn(&Connection) -> rusqlite::Result<T> + Send + Sync> Change for Entry<T, F> {
    fn run(&self, connection: &Connection) -> bool {
        let outcome = (self.write)(connection);
        let is_kept = outcome.is_ok();
        self.put(outcome);
        is_kept
    }

    fn fail(&self, error: rusqlite::Error) {
        self.put(Err(error));
    }
}

// === impl CommitQueue ===

impl CommitQueue {
    pub(super) fn push(&self, change: Arc<dyn Change>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }

    /// Takes all that wait.
    pub(super) fn drain(&self) -> Vec<Arc<dyn Change>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for CommitQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitQueue").finish_non_exhaustive()
    }
}

/// Makes all changes in one transaction; where that cannot be committed, each in one of its own.
pub(super) fn run(connection: &mut Connection, changes: &[Arc<dyn Change>]) {
    if commit(connection, changes).is_ok() {
        return;
    }
    for change in changes {
        if let Err(Some(error)) = commit(connection, std::slice::from_ref(change)) {
            change.fail(error);
        }
    }
}

/// A change that fails is taken back alone, unless its failure takes back the whole transaction, as that of a full disk
/// does: then there is no error but the one that it noted.
fn commit(connection: &mut Connection, changes: &[Arc<dyn Change>]) -> Result<(), Option<rusqlite::Error>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(Some)?;
    for change in changes {
        let savepoint = transaction.savepoint().map_err(Some)?;
        if change.run(&savepoint) {
            savepoint.commit().map_err(Some)?;
        } else if savepoint.is_autocommit() {
            // What followed would be written outside of a transaction, and once more below.
            return Err(None);
        }
    }
    transaction.commit().map_err(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(number: i64) -> impl Fn(&Connection) -> rusqlite::Result<i64> {
        move |connection| {
            connection.execute("INSERT INTO number VALUES (?1)", [number])?;
            Ok(number)
        }
    }

    fn numbers(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("SELECT n FROM number ORDER BY n").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_change_that_fails_harms_no_other_of_its_commit() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE number (n INTEGER PRIMARY KEY)").unwrap();
        let entries = [1, 2, 2, 3].map(|number| Arc::new(Entry::new(insert(number))));
        let changes: Vec<Arc<dyn Change>> = entries.iter().map(|entry| Arc::clone(entry) as _).collect();
        run(&mut connection, &changes);
        let outcomes = entries.map(|entry| entry.take().unwrap().ok());
        assert_eq!(outcomes, [Some(1), Some(2), None, Some(3)]);
        assert_eq!(numbers(&connection), [1, 2, 3]);
    }

    #[test]
    fn a_commit_that_fails_is_tried_for_each_change_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        // Broken references are found when the transaction is committed.
        let tables = "PRAGMA foreign_keys = ON; CREATE TABLE number (n INTEGER PRIMARY KEY);
                      CREATE TABLE pair (n INTEGER REFERENCES number (n) DEFERRABLE INITIALLY DEFERRED);";
        connection.execute_batch(tables).unwrap();
        let good = Arc::new(Entry::new(insert(1)));
        let broken = Arc::new(Entry::new(|it: &Connection| it.execute("INSERT INTO pair VALUES (7)", [])));
        run(&mut connection, &[Arc::clone(&good) as Arc<dyn Change>, Arc::clone(&broken) as _]);
        assert_eq!(good.take().unwrap().unwrap(), 1);
        assert!(broken.take().unwrap().is_err(), "it must not be reported as kept");
        assert_eq!(numbers(&connection), [1]);
    }

    #[test]
    fn a_full_disk_is_named_and_no_other_change_is_made_twice() {
        let mut connection = Connection::open_in_memory().unwrap();
        let tables = "CREATE TABLE number (n INTEGER); CREATE TABLE text (t TEXT); INSERT INTO number VALUES (0);";
        connection.execute_batch(tables).unwrap();
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let most = format!("PRAGMA max_page_count = {pages}");
        connection.query_row(&most, [], |row| row.get::<_, i64>(0)).unwrap();
        let good = [1, 2].map(|number| Arc::new(Entry::new(insert(number))));
        let large =
            Arc::new(Entry::new(|it: &Connection| it.execute("INSERT INTO text VALUES (?1)", ["x".repeat(99_999)])));
        run(
            &mut connection,
            &[Arc::clone(&good[0]) as _, Arc::clone(&large) as Arc<dyn Change>, Arc::clone(&good[1]) as _],
        );
        let full = large.take().unwrap().unwrap_err();
        assert_eq!(full.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{full}");
        assert_eq!(good.map(|entry| entry.take().unwrap().unwrap()), [1, 2]);
        let mut statement = connection.prepare("SELECT n FROM number ORDER BY n").unwrap();
        let numbers: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(numbers, [0, 1, 2]);
    }
}
