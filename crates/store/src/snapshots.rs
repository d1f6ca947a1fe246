//! The last inventory that each server was seen with, served while the server is away.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, named_params};
use toolcrib_base::{ServerName, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// One server's last good inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose.
    pub server: ServerName,
    /// When the server listed it.
    pub taken_at: Timestamp,
    /// Names the definition it was taken under: a snapshot of another definition may be out of date.
    pub definition_hash: String,
    /// JSON text, kept as it is.
    pub inventory: String,
}

/// The snapshots of all servers.
#[derive(Debug, Clone)]
pub struct Snapshots {
    database: Arc<Database>,
}

const COLUMNS: &str = "server, taken_at, definition_hash, inventory";

impl Snapshots {
    /// The largest inventory kept, in bytes: ten thousand tools with large schemas fit.
    pub const INVENTORY_MAX: usize = 64 * 1024 * 1024;

    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Keeps `snapshot` in place of an earlier one of the same server.
    ///
    /// # Errors
    /// The inventory is larger than [`Snapshots::INVENTORY_MAX`]; the database says no.
    pub fn put(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let bytes = snapshot.inventory.len();
        if bytes > Self::INVENTORY_MAX {
            let what = format!("the inventory of `{}`", snapshot.server);
            return Err(StoreError::TooLarge { what, bytes, limit: Self::INVENTORY_MAX });
        }
        let sql = "INSERT OR REPLACE INTO snapshot (server, taken_at, definition_hash, inventory) \
                   VALUES (:server, :taken_at, :definition_hash, :inventory)";
        let values = named_params! {
            ":server": snapshot.server.as_str(),
            ":taken_at": snapshot.taken_at.0,
            ":definition_hash": snapshot.definition_hash,
            ":inventory": snapshot.inventory,
        };
        self.database.writer().execute(sql, values).map_err(self.database.error("save a snapshot"))?;
        Ok(())
    }

    /// The snapshot of `server`, if one was kept.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, server: &ServerName) -> Result<Option<Snapshot>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM snapshot WHERE server = ?1");
        let connection = self.database.writer();
        let found = connection.query_row(&sql, [server.as_str()], read).optional();
        found.map(Option::flatten).map_err(self.database.error("read a snapshot"))
    }

    /// The snapshots of all servers, by name.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<Vec<Snapshot>, StoreError> {
        let failed = self.database.error("read the snapshots");
        let connection = self.database.writer();
        let mut statement =
            connection.prepare(&format!("SELECT {COLUMNS} FROM snapshot ORDER BY server")).map_err(&failed)?;
        let rows = statement.query_map([], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets the snapshot of `server`; whether there was one.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, server: &ServerName) -> Result<bool, StoreError> {
        let removed = self.database.writer().execute("DELETE FROM snapshot WHERE server = ?1", [server.as_str()]);
        Ok(removed.map_err(self.database.error("remove a snapshot"))? > 0)
    }
}

/// `None` for a row that no version of this program wrote: the others still serve.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<Snapshot>> {
    let Ok(server) = ServerName::new(row.get_ref("server")?.as_str()?) else { return Ok(None) };
    Ok(Some(Snapshot {
        server,
        taken_at: Timestamp(row.get("taken_at")?),
        definition_hash: row.get("definition_hash")?,
        inventory: row.get("inventory")?,
    }))
}
