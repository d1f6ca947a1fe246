//! The tools that a principal has loaded in a profile, where the set shall outlive the session.

use std::sync::Arc;

use rusqlite::Row;
use toolcrib_base::{Clock, PrincipalId, ProfileName, ServerName, Timestamp, ToolId};

use crate::database::Database;
use crate::error::StoreError;

/// One loaded tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveTool {
    /// Which.
    pub tool: ToolId,
    /// When it was last added or used.
    pub last_used: Timestamp,
}

/// The active sets of all principals and profiles. How large a set may be is the profile's quota, kept by the caller.
#[derive(Debug, Clone)]
pub struct ActiveSets {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl ActiveSets {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Adds the tools, all or none, and dates those that were there as used now.
    ///
    /// # Errors
    /// The database says no.
    pub fn add(&self, principal: &PrincipalId, profile: &ProfileName, tools: &[ToolId]) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO active_tool (principal, profile, server, tool, last_used) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let now = self.clock.now().0;
        let each = |statement: &mut rusqlite::Statement<'_>, tool: &ToolId| {
            statement.execute((principal.as_str(), profile.as_str(), tool.server.as_str(), &*tool.tool, now))
        };
        self.write(sql, tools, each).map(|_| ()).map_err(self.database.error("add to an active set"))
    }

    /// Takes the tools out, all or none; how many were in.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(
        &self,
        principal: &PrincipalId,
        profile: &ProfileName,
        tools: &[ToolId],
    ) -> Result<usize, StoreError> {
        let sql = "DELETE FROM active_tool WHERE principal = ?1 AND profile = ?2 AND server = ?3 AND tool = ?4";
        let each = |statement: &mut rusqlite::Statement<'_>, tool: &ToolId| {
            statement.execute((principal.as_str(), profile.as_str(), tool.server.as_str(), &*tool.tool))
        };
        self.write(sql, tools, each).map_err(self.database.error("remove from an active set"))
    }

    /// The set, in the order of the ids.
    ///
    /// # Errors
    /// The database says no.
    pub fn list(&self, principal: &PrincipalId, profile: &ProfileName) -> Result<Vec<ActiveTool>, StoreError> {
        let failed = self.database.error("read an active set");
        let connection = self.database.writer();
        let sql = "SELECT server, tool, last_used FROM active_tool WHERE principal = ?1 AND profile = ?2 \
                   ORDER BY server, tool";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([principal.as_str(), profile.as_str()], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    fn write(
        &self,
        sql: &str,
        tools: &[ToolId],
        each: impl Fn(&mut rusqlite::Statement<'_>, &ToolId) -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<usize> {
        let mut connection = self.database.writer();
        let transaction = connection.transaction()?;
        let mut changed = 0;
        {
            let mut statement = transaction.prepare(sql)?;
            for tool in tools {
                changed += each(&mut statement, tool)?;
            }
        }
        transaction.commit()?;
        Ok(changed)
    }
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<ActiveTool>> {
    let Ok(server) = ServerName::new(row.get_ref(0)?.as_str()?) else { return Ok(None) };
    let tool = ToolId::new(server, row.get_ref(1)?.as_str()?);
    Ok(Some(ActiveTool { tool, last_used: Timestamp(row.get(2)?) }))
}
