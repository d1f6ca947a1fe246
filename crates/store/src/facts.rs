//! Small things worth remembering between two starts, such as the era that a server spoke last.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row};
use toolcrib_base::{Clock, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// One remembered thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// JSON text, kept as it is.
    pub value: String,
    /// When it was last put.
    pub updated_at: Timestamp,
}

/// Facts by scope (`era` …) and key (a server's name …).
#[derive(Debug, Clone)]
pub struct Facts {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl Facts {
    /// The largest value, in bytes.
    pub const VALUE_MAX: usize = 64 * 1024;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Remembers `value` in place of an earlier one.
    ///
    /// # Errors
    /// The value is larger than [`Facts::VALUE_MAX`]; the database says no.
    pub fn put(&self, scope: &str, key: &str, value: &str) -> Result<(), StoreError> {
        if value.len() > Self::VALUE_MAX {
            let what = format!("the fact `{scope}`");
            return Err(StoreError::TooLarge { what, bytes: value.len(), limit: Self::VALUE_MAX });
        }
        let sql = "INSERT OR REPLACE INTO fact (scope, key, value, updated_at) VALUES (?1, ?2, ?3, ?4)";
        let put = self.database.writer().execute(sql, (scope, key, value, self.clock.now().0));
        put.map(|_| ()).map_err(self.database.error("save a fact"))
    }

    /// What was remembered.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, scope: &str, key: &str) -> Result<Option<Fact>, StoreError> {
        let sql = "SELECT value, updated_at FROM fact WHERE scope = ?1 AND key = ?2";
        let found = self.database.writer().query_row(sql, [scope, key], |row| read(row, 0)).optional();
        found.map_err(self.database.error("read a fact"))
    }

    /// All facts of a scope with their keys, by key.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self, scope: &str) -> Result<Vec<(String, Fact)>, StoreError> {
        let failed = self.database.error("read the facts");
        let connection = self.database.writer();
        let sql = "SELECT key, value, updated_at FROM fact WHERE scope = ?1 ORDER BY key";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([scope], |row| Ok((row.get(0)?, read(row, 1)?))).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets a fact; whether there was one.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, scope: &str, key: &str) -> Result<bool, StoreError> {
        let removed = self.database.writer().execute("DELETE FROM fact WHERE scope = ?1 AND key = ?2", [scope, key]);
        Ok(removed.map_err(self.database.error("remove a fact"))? > 0)
    }
}

fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Fact> {
    Ok(Fact { value: row.get(first)?, updated_at: Timestamp(row.get(first + 1)?) })
}
