//! Clients that registered themselves, and statements of clients that count once.

use rusqlite::{OptionalExtension, params};
use toolcrib_base::Timestamp;

use super::{Authorizations, SecretHash, TENANT, count, forget_expired};
use crate::error::StoreError;

/// How many make room at once, so that a flood does not sort all of them for each.
const AT_ONCE: usize = Authorizations::CLIENTS_MAX / 20;

impl Authorizations {
    /// Keeps a client that registered itself until it expires, or longer while it has a session. Where there are too many,
    /// those without a session that expire first make room.
    ///
    /// # Errors
    /// All that there may be have sessions; the database says no.
    pub fn put_client(&self, id: &str, details: &str, expires_at: Timestamp) -> Result<(), StoreError> {
        let (id, details, now) = (id.to_owned(), details.to_owned(), self.now());
        let put = self.database.commit(move |connection| {
            let unused = "NOT EXISTS (SELECT 1 FROM authorization_session s WHERE s.tenant = ?1 AND s.client = c.id)";
            let sql =
                format!("DELETE FROM authorization_client AS c WHERE tenant = ?1 AND expires_at <= ?2 AND {unused}");
            connection.execute(&sql, (TENANT, now.0))?;
            if count(connection, "authorization_client")? >= Self::CLIENTS_MAX {
                let sql = format!(
                    "DELETE FROM authorization_client WHERE rowid IN (SELECT c.rowid FROM authorization_client c \
                     WHERE c.tenant = ?1 AND {unused} ORDER BY c.expires_at LIMIT ?2)"
                );
                if connection.execute(&sql, (TENANT, AT_ONCE))? == 0 {
                    return Ok(false);
                }
            }
            let sql = "INSERT INTO authorization_client (tenant, id, details, expires_at) VALUES (?1, ?2, ?3, ?4)";
            connection.execute(sql, params![TENANT, id, details, expires_at.0])?;
            Ok(true)
        });
        match put.map_err(self.database.error("save a registered client"))? {
            true => Ok(()),
            false => Err(StoreError::Full { what: "registered clients".into(), limit: Self::CLIENTS_MAX }),
        }
    }

    /// What a client registered itself as; `None` where it has expired.
    ///
    /// # Errors
    /// The database says no.
    pub fn client(&self, id: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT details FROM authorization_client WHERE tenant = ?1 AND id = ?2 AND (expires_at > ?3 OR \
                   EXISTS (SELECT 1 FROM authorization_session s WHERE s.tenant = ?1 AND s.client = ?2))";
        let found = self.database.writer().query_row(sql, (TENANT, id, self.now().0), |row| row.get(0)).optional();
        found.map_err(self.database.error("read a registered client"))
    }

    /// Notes a statement that counts once; whether it was not there yet.
    ///
    /// # Errors
    /// There are too many; the database says no.
    pub fn use_assertion(&self, hash: &SecretHash, expires_at: Timestamp) -> Result<bool, StoreError> {
        let (hash, now) = (*hash, self.now());
        let noted = self.database.commit(move |connection| {
            forget_expired(connection, "authorization_assertion", now)?;
            if count(connection, "authorization_assertion")? >= Self::ASSERTIONS_MAX {
                return Ok(None);
            }
            let sql = "INSERT INTO authorization_assertion (tenant, hash, expires_at) VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO NOTHING";
            Ok(Some(connection.execute(sql, params![TENANT, hash, expires_at.0])? > 0))
        });
        let full = || StoreError::Full { what: "statements of clients".into(), limit: Self::ASSERTIONS_MAX };
        noted.map_err(self.database.error("note a statement of a client"))?.ok_or_else(full)
    }
}
