//! Logins that were begun and not completed, one of an owner at a server.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use toolcrib_base::{Clock, PrincipalId, ServerName, Timestamp};

use super::{TENANT, check_sealed, server_of};
use crate::database::Database;
use crate::error::StoreError;

/// A login that waits for its browser, or for the issuer to send it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLogin {
    /// Who will own the credential.
    pub owner: PrincipalId,
    /// The server that it is for.
    pub server: ServerName,
    /// All that is known of it, sealed.
    pub sealed: Vec<u8>,
    /// From when on it does not count.
    pub expires_at: Timestamp,
}

/// The pending logins of all owners.
#[derive(Debug, Clone)]
pub struct PendingLogins {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

/// Why a pending login was not saved.
enum Refusal {
    OfOwner,
    OfAll,
}

// === impl PendingLogins ===

impl PendingLogins {
    /// How many an owner may have.
    pub const OF_OWNER_MAX: usize = 64;
    /// How many there may be.
    pub const MAX: usize = 10_000;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a login down in place of one of the same owner at the same server, and forgets the expired ones of
    /// everyone. On the disk when this returns.
    ///
    /// # Errors
    /// The owner, or all owners together, have too many; the sealed blob is larger than
    /// [`SEALED_MAX`](super::SEALED_MAX); the database says no.
    pub fn put(&self, login: &PendingLogin) -> Result<(), StoreError> {
        check_sealed(&login.sealed, || format!("the pending login for `{}`", login.server))?;
        let (new, now) = (login.clone(), self.clock.now());
        let refusal = self.database.commit(move |connection| put(connection, &new, now));
        match refusal.map_err(self.database.error("save a pending login"))? {
            None => Ok(()),
            Some(Refusal::OfOwner) => {
                let what = format!("pending logins of `{}`", login.owner);
                Err(StoreError::Full { what, limit: Self::OF_OWNER_MAX })
            }
            Some(Refusal::OfAll) => Err(StoreError::Full { what: "pending logins".into(), limit: Self::MAX }),
        }
    }

    /// All that have not expired, by owner and server. Rows that are not readable are logged and left out.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<Vec<PendingLogin>, StoreError> {
        let failed = self.database.error("read the pending logins");
        let connection = self.database.writer();
        let sql = "SELECT owner, server, sealed, expires_at FROM pending_login WHERE tenant = ?1 AND expires_at > ?2 \
                   ORDER BY owner, server";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map((TENANT, self.clock.now().0), read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets the login of an owner at a server; whether there was one. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, owner: &PrincipalId, server: &ServerName) -> Result<bool, StoreError> {
        let (owner, server) = (owner.clone(), server.clone());
        let removed = self.database.commit(move |connection| remove(connection, &owner, &server));
        Ok(removed.map_err(self.database.error("delete a pending login"))? > 0)
    }
}

fn put(connection: &Connection, login: &PendingLogin, now: Timestamp) -> rusqlite::Result<Option<Refusal>> {
    connection.execute("DELETE FROM pending_login WHERE tenant = ?1 AND expires_at <= ?2", (TENANT, now.0))?;
    let others = "SELECT count(*) FROM pending_login WHERE tenant = ?1 AND owner = ?2 AND server <> ?3";
    let (owner, server) = (login.owner.as_str(), login.server.as_str());
    let of_owner = connection.query_row(others, [TENANT, owner, server], |row| row.get::<_, usize>(0))?;
    if of_owner >= PendingLogins::OF_OWNER_MAX {
        return Ok(Some(Refusal::OfOwner));
    }
    let others = "SELECT count(*) FROM pending_login WHERE tenant = ?1 AND NOT (owner = ?2 AND server = ?3)";
    let of_all = connection.query_row(others, [TENANT, owner, server], |row| row.get::<_, usize>(0))?;
    if of_all >= PendingLogins::MAX {
        return Ok(Some(Refusal::OfAll));
    }
    let sql = "INSERT OR REPLACE INTO pending_login (tenant, owner, server, sealed, expires_at) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.execute(sql, params![TENANT, owner, server, login.sealed, login.expires_at.0])?;
    Ok(None)
}

fn remove(connection: &Connection, owner: &PrincipalId, server: &ServerName) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM pending_login WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
    connection.execute(sql, (TENANT, owner.as_str(), server.as_str()))
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<PendingLogin>> {
    let Some(server) = server_of(row, "pending_login")? else { return Ok(None) };
    Ok(Some(PendingLogin {
        owner: PrincipalId::new(row.get_ref("owner")?.as_str()?),
        server,
        sealed: row.get("sealed")?,
        expires_at: Timestamp(row.get("expires_at")?),
    }))
}
