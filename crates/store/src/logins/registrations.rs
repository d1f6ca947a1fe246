//! What this installation is called at issuers: one client for each issuer and redirect address.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use toolcrib_base::{Clock, Timestamp};

use super::{TENANT, check_sealed};
use crate::database::Database;
use crate::error::StoreError;

/// What is written of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRegistration {
    /// Where.
    pub issuer: String,
    /// The redirect address that was registered.
    pub redirect: String,
    /// The id that the issuer gave.
    pub client_id: String,
    /// The client's secret and what else the issuer said, sealed.
    pub sealed: Vec<u8>,
    /// When the secret expires, where it does.
    pub expires_at: Option<Timestamp>,
}

/// A registration as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRegistration {
    /// What was written.
    pub registration: ClientRegistration,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// The registrations at all issuers.
#[derive(Debug, Clone)]
pub struct ClientRegistrations {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl ClientRegistrations {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a registration, only if the client that is there is still `held`, or if there is none where `held` is
    /// `None`; whether it was written. On the disk when this returns.
    ///
    /// # Errors
    /// The sealed blob is larger than [`SEALED_MAX`](super::SEALED_MAX); the database says no.
    pub fn replace(&self, registration: &ClientRegistration, held: Option<&str>) -> Result<bool, StoreError> {
        check_sealed(&registration.sealed, || format!("the registration at `{}`", registration.issuer))?;
        let (new, held, now) = (registration.clone(), held.map(str::to_owned), self.clock.now());
        let written = self.database.commit(move |connection| {
            let sql = "SELECT client_id FROM client_registration WHERE tenant = ?1 AND issuer = ?2 AND redirect = ?3";
            let there = connection.query_row(sql, [TENANT, &new.issuer, &new.redirect], |row| row.get(0)).optional()?;
            if there != held {
                return Ok(false);
            }
            let sql = "INSERT OR REPLACE INTO client_registration \
                       (tenant, issuer, redirect, client_id, sealed, expires_at, updated_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let expires_at = new.expires_at.map(|at| at.0);
            let row = params![TENANT, new.issuer, new.redirect, new.client_id, new.sealed, expires_at, now.0];
            connection.execute(sql, row)?;
            Ok(true)
        });
        written.map_err(self.database.error("save a client registration"))
    }

    /// The registration at an issuer for a redirect address.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, issuer: &str, redirect: &str) -> Result<Option<StoredRegistration>, StoreError> {
        let sql = "SELECT issuer, redirect, client_id, sealed, expires_at, updated_at FROM client_registration \
                   WHERE tenant = ?1 AND issuer = ?2 AND redirect = ?3";
        let read = |row: &rusqlite::Row<'_>| {
            let registration = ClientRegistration {
                issuer: row.get(0)?,
                redirect: row.get(1)?,
                client_id: row.get(2)?,
                sealed: row.get(3)?,
                expires_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            };
            Ok(StoredRegistration { registration, updated_at: Timestamp(row.get(5)?) })
        };
        let found = self.database.writer().query_row(sql, [TENANT, issuer, redirect], read).optional();
        found.map_err(self.database.error("read a client registration"))
    }

    /// Forgets the registration that the issuer forgot, only if it is still the client `held`; whether it was. On the
    /// disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, issuer: &str, redirect: &str, held: &str) -> Result<bool, StoreError> {
        let key = [TENANT, issuer, redirect, held].map(str::to_owned);
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM client_registration \
                       WHERE tenant = ?1 AND issuer = ?2 AND redirect = ?3 AND client_id = ?4";
            connection.execute(sql, rusqlite::params_from_iter(&key))
        });
        Ok(removed.map_err(self.database.error("delete a client registration"))? > 0)
    }
}
