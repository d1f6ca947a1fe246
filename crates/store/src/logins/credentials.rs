//! Credentials of owners at servers: what a login gave, replaced only by those who have read what they replace.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_base::{Clock, PrincipalId, ServerName, Timestamp};

use super::{TENANT, check_sealed, server_of};
use crate::database::Database;
use crate::error::StoreError;

/// What is written of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRecord {
    /// Whose it is: `owner` for the person of this installation, else a principal.
    pub owner: PrincipalId,
    /// The server that it is for.
    pub server: ServerName,
    /// Who issued it.
    pub issuer: String,
    /// The client that it was issued to.
    pub client_id: String,
    /// The tokens, sealed; bound to all of the above.
    pub sealed: Vec<u8>,
}

/// Names one writing of one credential. No two writings have the same, also when the row was deleted in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(i64);

/// A credential as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCredential {
    /// What was written.
    pub record: CredentialRecord,
    /// Which writing this is.
    pub generation: Generation,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// The credentials of all owners.
#[derive(Debug, Clone)]
pub struct Credentials {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

const COLUMNS: &str = "owner, server, issuer, client_id, sealed, updated_at, generation";
const READ: &str = "read the credentials";
const SAVE: &str = "save a credential";
const DELETE: &str = "delete a credential";

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes what a completed login gave, in place of whatever was there. On the disk when this returns.
    ///
    /// # Errors
    /// The sealed blob is larger than [`SEALED_MAX`](super::SEALED_MAX); the database says no.
    pub fn put(&self, record: &CredentialRecord) -> Result<Generation, StoreError> {
        check(record)?;
        let (record, now) = (record.clone(), self.clock.now());
        let written = self.database.commit(move |connection| {
            let generation = next_generation(connection)?;
            let sql = "INSERT OR REPLACE INTO credential \
                       (tenant, owner, server, issuer, client_id, sealed, updated_at, generation) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            write(connection, sql, &record, now, generation)?;
            Ok(generation)
        });
        written.map_err(self.database.error(SAVE))
    }

    /// Writes a renewed credential, only if its row is still the writing `held`; `None` when it is not, and then nothing
    /// was changed. On the disk when this returns.
    ///
    /// # Errors
    /// As [`Credentials::put`].
    pub fn replace(&self, record: &CredentialRecord, held: Generation) -> Result<Option<Generation>, StoreError> {
        check(record)?;
        let (record, now) = (record.clone(), self.clock.now());
        let written = self.database.commit(move |connection| {
            if !is_held(connection, &record, held)? {
                return Ok(None);
            }
            let generation = next_generation(connection)?;
            let sql = "UPDATE credential SET issuer = ?4, client_id = ?5, sealed = ?6, updated_at = ?7, \
                       generation = ?8 WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
            write(connection, sql, &record, now, generation)?;
            Ok(Some(generation))
        });
        written.map_err(self.database.error(SAVE))
    }

    /// The credential of an owner at a server.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, owner: &PrincipalId, server: &ServerName) -> Result<Option<StoredCredential>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM credential WHERE tenant = ?1 AND owner = ?2 AND server = ?3");
        let key = (TENANT, owner.as_str(), server.as_str());
        let found = self.database.writer().query_row(&sql, key, read).optional();
        found.map(Option::flatten).map_err(self.database.error(READ))
    }

    /// All credentials of an owner, by server. Rows that are not readable are logged and left out.
    ///
    /// # Errors
    /// The database says no.
    pub fn of_owner(&self, owner: &PrincipalId) -> Result<Vec<StoredCredential>, StoreError> {
        let failed = self.database.error(READ);
        let sql = format!("SELECT {COLUMNS} FROM credential WHERE tenant = ?1 AND owner = ?2 ORDER BY server");
        let connection = self.database.writer();
        let mut statement = connection.prepare(&sql).map_err(&failed)?;
        let rows = statement.query_map([TENANT, owner.as_str()], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Who has a credential at which server, by server; at most so many.
    ///
    /// # Errors
    /// The database says no.
    pub fn holders(&self, limit: u32) -> Result<Vec<(ServerName, PrincipalId)>, StoreError> {
        let failed = self.database.error(READ);
        let sql = "SELECT server, owner FROM credential WHERE tenant = ?1 ORDER BY server, owner LIMIT ?2";
        let connection = self.database.writer();
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let named = |row: &Row<'_>| {
            let owner: String = row.get("owner")?;
            Ok(server_of(row, "credential")?.map(|server| (server, PrincipalId::new(&owner))))
        };
        let rows = statement.query_map(params![TENANT, limit], named).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Whether nobody has one.
    ///
    /// # Errors
    /// The database says no.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM credential WHERE tenant = ?1)";
        self.database.writer().query_row(sql, [TENANT], |row| row.get(0)).map_err(self.database.error(READ))
    }

    /// Deletes a credential; whether there was one. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, owner: &PrincipalId, server: &ServerName) -> Result<bool, StoreError> {
        let (owner, server) = (owner.clone(), server.clone());
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM credential WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
            connection.execute(sql, (TENANT, owner.as_str(), server.as_str()))
        });
        Ok(removed.map_err(self.database.error(DELETE))? > 0)
    }

    /// Deletes a credential only if its row is still the writing `held`; whether it was. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove_held(&self, owner: &PrincipalId, server: &ServerName, held: Generation) -> Result<bool, StoreError> {
        let (owner, server) = (owner.clone(), server.clone());
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM credential WHERE tenant = ?1 AND owner = ?2 AND server = ?3 AND generation = ?4";
            connection.execute(sql, (TENANT, owner.as_str(), server.as_str(), held.0))
        });
        Ok(removed.map_err(self.database.error(DELETE))? > 0)
    }
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<StoredCredential>> {
    let Some(server) = server_of(row, "credential")? else { return Ok(None) };
    let record = CredentialRecord {
        owner: PrincipalId::new(row.get_ref("owner")?.as_str()?),
        server,
        issuer: row.get("issuer")?,
        client_id: row.get("client_id")?,
        sealed: row.get("sealed")?,
    };
    let (updated_at, generation) = (Timestamp(row.get("updated_at")?), Generation(row.get("generation")?));
    Ok(Some(StoredCredential { record, generation, updated_at }))
}

fn check(record: &CredentialRecord) -> Result<(), StoreError> {
    check_sealed(&record.sealed, || format!("the credential for `{}`", record.server))
}

fn is_held(connection: &Connection, record: &CredentialRecord, held: Generation) -> rusqlite::Result<bool> {
    let sql = "SELECT generation FROM credential WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
    let key = (TENANT, record.owner.as_str(), record.server.as_str());
    let found = connection.query_row(sql, key, |row| row.get::<_, i64>(0)).optional()?;
    Ok(found == Some(held.0))
}

/// The next one; kept in a row of its own, so that a deleted credential's comes not back.
fn next_generation(connection: &Connection) -> rusqlite::Result<Generation> {
    let sql = "UPDATE credential_generation SET last = last + 1 RETURNING last";
    connection.query_row(sql, [], |row| row.get(0).map(Generation))
}

fn write(
    connection: &Connection,
    sql: &str,
    record: &CredentialRecord,
    now: Timestamp,
    generation: Generation,
) -> rusqlite::Result<usize> {
    connection.execute(
        sql,
        params![
            TENANT,
            record.owner.as_str(),
            record.server.as_str(),
            record.issuer,
            record.client_id,
            record.sealed,
            now.0,
            generation.0,
        ],
    )
}
