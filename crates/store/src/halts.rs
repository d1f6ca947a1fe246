//! Who was halted, and whose halt was lifted again.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use toolcrib_base::{Clock, PrincipalId, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// A halt, in force or lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaltRecord {
    /// Its id.
    pub id: String,
    /// What kind of thing is halted: `principal`, `session` …
    pub kind: String,
    /// Which one.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// The canary that was found, where one was.
    pub canary: Option<String>,
    /// By whom.
    pub added_by: PrincipalId,
    /// When.
    pub added_at: Timestamp,
    /// Who lifted it and when; `None` while it is in force.
    pub lifted: Option<(PrincipalId, Timestamp)>,
}

/// All halts.
#[derive(Debug, Clone)]
pub struct Halts {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

const COLUMNS: &str = "id, kind, subject, reason, canary, added_by, added_at, lifted_by, lifted_at";

impl Halts {
    /// How many may be in force: each is compared with each request.
    pub const IN_FORCE_MAX: usize = 10_000;
    /// How many that were lifted are kept.
    pub const LIFTED_MAX: usize = 10_000;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Keeps a halt. On the disk when this returns.
    ///
    /// # Errors
    /// [`Halts::IN_FORCE_MAX`] are in force; the database says no.
    pub fn add(&self, halt: &HaltRecord) -> Result<(), StoreError> {
        let row = halt.clone();
        let added = self.database.commit(move |connection| {
            let sql = "SELECT count(*) FROM halt WHERE lifted_at IS NULL";
            let in_force: usize = connection.query_row(sql, [], |row| row.get(0))?;
            if in_force >= Self::IN_FORCE_MAX {
                return Ok(false);
            }
            let sql = "INSERT INTO halt (id, kind, subject, reason, canary, added_by, added_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let HaltRecord { id, kind, subject, reason, canary, added_by, added_at, .. } = &row;
            connection.execute(sql, params![id, kind, subject, reason, canary, added_by.as_str(), added_at.0])?;
            let sql = "DELETE FROM halt WHERE id IN (SELECT id FROM halt WHERE lifted_at IS NOT NULL \
                       ORDER BY lifted_at DESC LIMIT -1 OFFSET ?1)";
            connection.execute(sql, [i64::try_from(Self::LIFTED_MAX).unwrap_or(i64::MAX)])?;
            Ok(true)
        });
        match added.map_err(self.database.error("save a halt"))? {
            true => Ok(()),
            false => Err(StoreError::Full { what: "halts".to_owned(), limit: Self::IN_FORCE_MAX }),
        }
    }

    /// Lifts a halt. Gives whether one of this id was in force. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn lift(&self, id: &str, by: &PrincipalId) -> Result<bool, StoreError> {
        let (id, by, now) = (id.to_owned(), by.clone(), self.clock.now());
        let lifted = self.database.commit(move |connection| {
            let sql = "UPDATE halt SET lifted_by = ?2, lifted_at = ?3 WHERE id = ?1 AND lifted_at IS NULL";
            connection.execute(sql, params![id, by.as_str(), now.0])
        });
        lifted.map(|rows| rows > 0).map_err(self.database.error("lift a halt"))
    }

    /// Those in force, the oldest first.
    ///
    /// # Errors
    /// The database says no.
    pub fn in_force(&self) -> Result<Vec<HaltRecord>, StoreError> {
        in_force(&self.database.writer()).map_err(self.database.error("read the halts"))
    }

    /// Those that were lifted, the newest first.
    ///
    /// # Errors
    /// The database says no.
    pub fn lifted(&self, limit: usize) -> Result<Vec<HaltRecord>, StoreError> {
        let failed = self.database.error("read the halts");
        let sql =
            format!("SELECT {COLUMNS} FROM halt WHERE lifted_at IS NOT NULL ORDER BY lifted_at DESC, id LIMIT ?1");
        let connection = self.database.writer();
        let mut statement = connection.prepare(&sql).map_err(&failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map([limit], read).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }
}

/// Those in force, the oldest first.
pub(crate) fn in_force(connection: &Connection) -> rusqlite::Result<Vec<HaltRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM halt WHERE lifted_at IS NULL ORDER BY added_at, id");
    connection.prepare(&sql)?.query_map([], read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<HaltRecord> {
    let lifted_by: Option<String> = row.get(7)?;
    let lifted_at: Option<i64> = row.get(8)?;
    Ok(HaltRecord {
        id: row.get(0)?,
        kind: row.get(1)?,
        subject: row.get(2)?,
        reason: row.get(3)?,
        canary: row.get(4)?,
        added_by: PrincipalId::new(row.get_ref(5)?.as_str()?),
        added_at: Timestamp(row.get(6)?),
        lifted: lifted_by.map(|by| PrincipalId::new(&by)).zip(lifted_at.map(Timestamp)),
    })
}
