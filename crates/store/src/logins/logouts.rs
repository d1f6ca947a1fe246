//! Who has logged out of a server that callers are signed on to. Nothing makes room for anything here: who has logged
//! out stays out.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use toolcrib_base::{Clock, PrincipalId, ServerName, Timestamp};

use super::{TENANT, server_of};
use crate::database::Database;
use crate::error::StoreError;

/// How many bytes the digest of a token has (SHA-256).
const DIGEST_BYTES: usize = 32;

/// That an owner has logged out of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutRecord {
    /// Whose logout.
    pub owner: PrincipalId,
    /// The server.
    pub server: ServerName,
    /// SHA-256 of each token that does not count there any more; none where none is needed.
    pub tokens: Vec<[u8; DIGEST_BYTES]>,
    /// From when on none of these tokens can come again; `None` for no end.
    pub expires_at: Option<Timestamp>,
}

/// The logouts of all owners.
#[derive(Debug, Clone)]
pub struct Logouts {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

// === impl Logouts ===

impl Logouts {
    /// How many there may be: 16 MiB of memory for whoever holds all of them.
    pub const MAX: usize = 100_000;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a logout in place of one of the same owner at the same server, and forgets the expired ones of everyone.
    /// On the disk when this returns.
    ///
    /// # Errors
    /// There are too many; the database says no.
    pub fn put(&self, logout: &LogoutRecord) -> Result<(), StoreError> {
        let (new, now) = (logout.clone(), self.clock.now());
        let written = self.database.commit(move |connection| put(connection, &new, now));
        if written.map_err(self.database.error("save a logout"))? {
            return Ok(());
        }
        Err(StoreError::Full { what: "logouts".into(), limit: Self::MAX })
    }

    /// All that have not expired, by owner and server. Rows that are not readable are logged and left out.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<Vec<LogoutRecord>, StoreError> {
        let failed = self.database.error("read the logouts");
        let connection = self.database.writer();
        let sql = "SELECT owner, server, tokens, expires_at FROM logout \
                   WHERE tenant = ?1 AND (expires_at IS NULL OR expires_at > ?2) ORDER BY owner, server";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map((TENANT, self.clock.now().0), read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets the logout of an owner at a server; whether there was one. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, owner: &PrincipalId, server: &ServerName) -> Result<bool, StoreError> {
        let (owner, server) = (owner.clone(), server.clone());
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM logout WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
            connection.execute(sql, (TENANT, owner.as_str(), server.as_str()))
        });
        Ok(removed.map_err(self.database.error("delete a logout"))? > 0)
    }
}

/// Whether there was room.
fn put(connection: &Connection, logout: &LogoutRecord, now: Timestamp) -> rusqlite::Result<bool> {
    connection.execute("DELETE FROM logout WHERE tenant = ?1 AND expires_at <= ?2", (TENANT, now.0))?;
    let (owner, server) = (logout.owner.as_str(), logout.server.as_str());
    let others = "SELECT count(*) FROM logout WHERE tenant = ?1 AND NOT (owner = ?2 AND server = ?3)";
    if connection.query_row(others, [TENANT, owner, server], |row| row.get::<_, usize>(0))? >= Logouts::MAX {
        return Ok(false);
    }
    let sql = "INSERT OR REPLACE INTO logout (tenant, owner, server, tokens, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let (tokens, expires_at) = (logout.tokens.concat(), logout.expires_at.map(|at| at.0));
    connection.execute(sql, params![TENANT, owner, server, tokens, expires_at])?;
    Ok(true)
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<LogoutRecord>> {
    let Some(server) = server_of(row, "logout")? else { return Ok(None) };
    let (tokens, _) = row.get_ref("tokens")?.as_blob()?.as_chunks();
    Ok(Some(LogoutRecord {
        owner: PrincipalId::new(row.get_ref("owner")?.as_str()?),
        server,
        tokens: tokens.to_vec(),
        expires_at: row.get::<_, Option<i64>>("expires_at")?.map(Timestamp),
    }))
}
