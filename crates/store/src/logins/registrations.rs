//! Clients that this installation registered for servers at their issuers, one for each redirect address.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use toolcrib_base::{Clock, ServerName};

use super::{TENANT, check_sealed};
use crate::database::Database;
use crate::error::StoreError;

/// How many are kept for a server, the newest. A server has one authorization server at a time; one that names another at
/// each login must not fill the disk.
const KEPT: u32 = 16;

/// What a registration is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationKey {
    /// The server.
    pub server: ServerName,
    /// Where it was registered.
    pub issuer: String,
    /// The redirect address that was registered.
    pub redirect: String,
}

/// The registrations for all servers.
#[derive(Debug, Clone)]
pub struct ClientRegistrations {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

// === impl RegistrationKey ===

impl RegistrationKey {
    fn columns(&self) -> [&str; 4] {
        [TENANT, self.server.as_str(), &self.issuer, &self.redirect]
    }
}

// === impl ClientRegistrations ===

impl ClientRegistrations {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a sealed registration in place of an earlier one, and of the oldest one where a server has too many. On the
    /// disk when this returns.
    ///
    /// # Errors
    /// The sealed blob is larger than [`SEALED_MAX`](super::SEALED_MAX); the database says no.
    pub fn put(&self, key: &RegistrationKey, sealed: &[u8]) -> Result<(), StoreError> {
        check_sealed(sealed, || format!("the client registration for `{}`", key.server))?;
        let (key, sealed, now) = (key.clone(), sealed.to_vec(), self.clock.now());
        let written = self.database.commit(move |connection| {
            let sql = "INSERT OR REPLACE INTO client_registration \
                       (tenant, server, issuer, redirect, sealed, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let [tenant, server, issuer, redirect] = key.columns();
            connection.execute(sql, params![tenant, server, issuer, redirect, sealed, now.0])?;
            let sql = "DELETE FROM client_registration WHERE rowid IN (SELECT rowid FROM client_registration \
                       WHERE tenant = ?1 AND server = ?2 ORDER BY updated_at DESC, rowid DESC LIMIT -1 OFFSET ?3)";
            connection.execute(sql, params![tenant, server, KEPT])
        });
        written.map(|_| ()).map_err(self.database.error("save a client registration"))
    }

    /// The sealed registration.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, key: &RegistrationKey) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT sealed FROM client_registration \
                   WHERE tenant = ?1 AND server = ?2 AND issuer = ?3 AND redirect = ?4";
        let found = self.database.writer().query_row(sql, key.columns(), |row| row.get(0)).optional();
        found.map_err(self.database.error("read a client registration"))
    }

    /// Deletes a registration; whether there was one. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, key: &RegistrationKey) -> Result<bool, StoreError> {
        let key = key.clone();
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM client_registration \
                       WHERE tenant = ?1 AND server = ?2 AND issuer = ?3 AND redirect = ?4";
            connection.execute(sql, key.columns())
        });
        Ok(removed.map_err(self.database.error("delete a client registration"))? > 0)
    }
}
