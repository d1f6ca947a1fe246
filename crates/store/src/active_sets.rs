//! The tools that a principal has loaded in a profile, where the set outlives the session.

use std::sync::Arc;

use rusqlite::Row;
use toolcrib_base::{PrincipalId, ProfileName, ServerName, Timestamp, ToolId};

use crate::database::Database;
use crate::error::StoreError;

/// One loaded tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveTool {
    /// Which.
    pub tool: ToolId,
    /// When it was last loaded or called.
    pub last_used: Timestamp,
}

/// The active sets of all principals and profiles. How large a set may be is the profile's quota, kept by the caller.
#[derive(Debug, Clone)]
pub struct ActiveSets {
    database: Arc<Database>,
}

impl ActiveSets {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Puts a whole set instead of the one that was there, or nothing at all. An empty one is forgotten.
    ///
    /// # Errors
    /// The database says no.
    pub fn put(&self, principal: &PrincipalId, profile: &ProfileName, tools: &[ActiveTool]) -> Result<(), StoreError> {
        self.write(principal, profile, tools).map_err(self.database.error("save an active set"))
    }

    /// Every tool of every set, the one that was used longest ago first.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<Vec<(PrincipalId, ProfileName, ActiveTool)>, StoreError> {
        let failed = self.database.error("read the active sets");
        let connection = self.database.writer();
        let sql = "SELECT server, tool, last_used, principal, profile FROM active_tool \
                   ORDER BY last_used, principal, profile, server, tool";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    fn write(&self, principal: &PrincipalId, profile: &ProfileName, tools: &[ActiveTool]) -> rusqlite::Result<()> {
        let mut connection = self.database.writer();
        let transaction = connection.transaction()?;
        let whose = (principal.as_str(), profile.as_str());
        transaction.execute("DELETE FROM active_tool WHERE principal = ?1 AND profile = ?2", whose)?;
        {
            let sql = "INSERT OR REPLACE INTO active_tool (principal, profile, server, tool, last_used) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut statement = transaction.prepare(sql)?;
            for ActiveTool { tool, last_used } in tools {
                statement.execute((whose.0, whose.1, tool.server.as_str(), &*tool.tool, last_used.0))?;
            }
        }
        transaction.commit()
    }
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<(PrincipalId, ProfileName, ActiveTool)>> {
    let Ok(server) = ServerName::new(row.get_ref(0)?.as_str()?) else { return Ok(None) };
    let Ok(profile) = ProfileName::new(row.get_ref(4)?.as_str()?) else { return Ok(None) };
    let tool = ToolId::new(server, row.get_ref(1)?.as_str()?);
    let principal = PrincipalId::new(row.get_ref(3)?.as_str()?);
    Ok(Some((principal, profile, ActiveTool { tool, last_used: Timestamp(row.get(2)?) })))
}
