//! Tasks of our own: what became of requests that were answered before they were done.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row};
use toolcrib_base::{Clock, PrincipalId, ProfileName, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// One task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its id, which no one can guess.
    pub id: String,
    /// Who asked.
    pub principal: PrincipalId,
    /// In which profile.
    pub profile: ProfileName,
    /// What was asked for.
    pub target: String,
    /// Whether it has ended. One that has not, and that no process runs, was running when its process ended.
    pub ended: bool,
    /// What the client reads, JSON text, kept as it is.
    pub body: String,
    /// When it began.
    pub created_at: Timestamp,
    /// From when on it is forgotten.
    pub expires_at: Timestamp,
}

/// The tasks of all principals.
#[derive(Debug, Clone)]
pub struct Tasks {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl Tasks {
    /// The largest body, in bytes.
    pub const BODY_MAX: usize = 4 * 1024 * 1024;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a task down in place of its earlier state.
    ///
    /// # Errors
    /// The body is larger than [`Tasks::BODY_MAX`]; the database says no.
    pub fn put(&self, task: &TaskRecord) -> Result<(), StoreError> {
        if task.body.len() > Self::BODY_MAX {
            let what = format!("the task of `{}`", task.target);
            return Err(StoreError::TooLarge { what, bytes: task.body.len(), limit: Self::BODY_MAX });
        }
        let sql = "INSERT OR REPLACE INTO task (id, principal, profile, target, ended, body, created_at, expires_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let row = (
            &task.id,
            task.principal.as_str(),
            task.profile.as_str(),
            &task.target,
            task.ended,
            &task.body,
            task.created_at.0,
            task.expires_at.0,
        );
        let put = self.database.writer().execute(sql, row);
        put.map(|_| ()).map_err(self.database.error("save a task"))
    }

    /// A task that has not expired.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let sql = "SELECT id, principal, profile, target, ended, body, created_at, expires_at FROM task \
                   WHERE id = ?1 AND expires_at > ?2";
        let found = self.database.writer().query_row(sql, (id, self.clock.now().0), read).optional();
        found.map(Option::flatten).map_err(self.database.error("read a task"))
    }

    /// Forgets the expired tasks of everyone, and of one principal the oldest ended ones beyond `keep`; how many.
    ///
    /// # Errors
    /// The database says no.
    pub fn prune(&self, principal: &PrincipalId, keep: usize) -> Result<usize, StoreError> {
        let failed = self.database.error("delete tasks");
        let connection = self.database.writer();
        let now = self.clock.now().0;
        let expired = connection.execute("DELETE FROM task WHERE expires_at <= ?1", [now]).map_err(&failed)?;
        let sql = "DELETE FROM task WHERE id IN (SELECT id FROM task WHERE principal = ?1 AND ended = 1 \
                   ORDER BY created_at DESC, id LIMIT -1 OFFSET ?2)";
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let beyond = connection.execute(sql, (principal.as_str(), keep)).map_err(&failed)?;
        Ok(expired + beyond)
    }
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<TaskRecord>> {
    let Ok(profile) = ProfileName::new(row.get_ref(2)?.as_str()?) else { return Ok(None) };
    Ok(Some(TaskRecord {
        id: row.get(0)?,
        principal: PrincipalId::new(row.get_ref(1)?.as_str()?),
        profile,
        target: row.get(3)?,
        ended: row.get(4)?,
        body: row.get(5)?,
        created_at: Timestamp(row.get(6)?),
        expires_at: Timestamp(row.get(7)?),
    }))
}
