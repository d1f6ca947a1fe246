//! Who was the first to own an exposed name in a profile: it keeps the name when other tools come or go.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Row};
use toolcrib_base::{Clock, ProfileName, ServerName, Timestamp, ToolId};

use crate::database::Database;
use crate::error::StoreError;

/// One remembered name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedName {
    /// The name as clients see it.
    pub exposed: String,
    /// Whose it is.
    pub owner: ToolId,
    /// Since when.
    pub remembered_at: Timestamp,
}

/// The owners of the exposed names of all profiles.
#[derive(Debug, Clone)]
pub struct Names {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl Names {
    /// How many names one server may own in a profile. A hostile server that lists new names each time fills no disk:
    /// above this its names are given out but not remembered.
    pub const PER_SERVER_MAX: i64 = 20_000;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// All names of a profile, in the order of the names.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self, profile: &ProfileName) -> Result<Vec<RememberedName>, StoreError> {
        let failed = self.database.error("read the names");
        let connection = self.database.writer();
        let sql = "SELECT server, tool, exposed, remembered_at FROM name WHERE profile = ?1 ORDER BY exposed";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let read = |row: &Row<'_>| {
            let Some(owner) = owner(row)? else { return Ok(None) };
            Ok(Some(RememberedName { owner, exposed: row.get(2)?, remembered_at: Timestamp(row.get(3)?) }))
        };
        let rows = statement.query_map([profile.as_str()], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Gives each name without an owner to the tool that asks for it, and tells the owner of each: one answer per
    /// claim, in order. All in one transaction, since a listing brings hundreds of names.
    ///
    /// # Errors
    /// The database says no; no name is remembered then.
    pub fn claim(&self, profile: &ProfileName, claims: &[(&str, &ToolId)]) -> Result<Vec<ToolId>, StoreError> {
        self.claim_in_transaction(profile, claims).map_err(self.database.error("save names"))
    }

    fn claim_in_transaction(&self, profile: &ProfileName, claims: &[(&str, &ToolId)]) -> rusqlite::Result<Vec<ToolId>> {
        let (profile, now) = (profile.as_str(), self.clock.now().0);
        let mut connection = self.database.writer();
        let transaction = connection.transaction()?;
        let mut owners = Vec::with_capacity(claims.len());
        {
            let mut find = transaction.prepare("SELECT server, tool FROM name WHERE profile = ?1 AND exposed = ?2")?;
            let mut count = transaction.prepare("SELECT count(*) FROM name WHERE profile = ?1 AND server = ?2")?;
            let mut insert = transaction.prepare("INSERT OR REPLACE INTO name VALUES (?1, ?2, ?3, ?4, ?5)")?;
            let mut owned: HashMap<&ServerName, i64> = HashMap::new();
            for &(exposed, tool) in claims {
                if let Some(first) = find.query_row((profile, exposed), owner).optional()?.flatten() {
                    owners.push(first);
                    continue;
                }
                let server = tool.server.as_str();
                let owned = match owned.entry(&tool.server) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(count.query_row((profile, server), |row| row.get(0))?),
                };
                if *owned < Self::PER_SERVER_MAX {
                    insert.execute((profile, exposed, server, &*tool.tool, now))?;
                    *owned += 1;
                }
                owners.push(tool.clone());
            }
        }
        transaction.commit()?;
        Ok(owners)
    }
}

/// Columns 0 and 1 as a tool's id; `None` for a row that no version of this program wrote.
fn owner(row: &Row<'_>) -> rusqlite::Result<Option<ToolId>> {
    let Ok(server) = ServerName::new(row.get_ref(0)?.as_str()?) else { return Ok(None) };
    Ok(Some(ToolId::new(server, row.get_ref(1)?.as_str()?)))
}
