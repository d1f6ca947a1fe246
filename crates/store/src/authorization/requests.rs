//! Requests that a person agreed to, until that person is proven.

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_base::Timestamp;

use super::codes::{self, CodeRecord};
use super::{Authorizations, SecretHash, TENANT, count, forget_expired};
use crate::error::StoreError;

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// The hash of the secret that names it in its browser.
    pub id: SecretHash,
    /// The hash of the code by which the owner approves it.
    pub code: SecretHash,
    /// From where it came.
    pub address: String,
    /// What is asked for.
    pub details: String,
    /// What the owner said.
    pub decision: Option<String>,
    /// From when on it does not count.
    pub expires_at: Timestamp,
}

const COLUMNS: &str = "id, code, address, details, decision, expires_at";

impl Authorizations {
    /// Keeps a request.
    ///
    /// # Errors
    /// There are too many, in all or from its address; the database says no.
    pub fn put_request(&self, record: &RequestRecord) -> Result<(), StoreError> {
        let (new, now) = (record.clone(), self.now());
        let put = self.database.commit(move |connection| {
            forget_expired(connection, "authorization_request", now)?;
            let of_address = "SELECT count(*) FROM authorization_request WHERE tenant = ?1 AND address = ?2";
            let of_address: usize = connection.query_row(of_address, (TENANT, &new.address), |row| row.get(0))?;
            if of_address >= Self::REQUESTS_OF_ADDRESS_MAX {
                return Ok(Some(Self::REQUESTS_OF_ADDRESS_MAX));
            }
            if count(connection, "authorization_request")? >= Self::REQUESTS_MAX {
                return Ok(Some(Self::REQUESTS_MAX));
            }
            let sql =
                format!("INSERT INTO authorization_request (tenant, {COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
            let RequestRecord { id, code, address, details, decision, expires_at } = &new;
            connection.execute(&sql, params![TENANT, id, code, address, details, decision, expires_at.0])?;
            Ok(None)
        });
        match put.map_err(self.database.error("save a request for authorization"))? {
            None => Ok(()),
            Some(limit) => Err(StoreError::Full { what: "requests for authorization".into(), limit }),
        }
    }

    /// The request of a browser.
    ///
    /// # Errors
    /// The database says no.
    pub fn request(&self, id: &SecretHash) -> Result<Option<RequestRecord>, StoreError> {
        self.find_request("id", id)
    }

    /// The request that a code approves.
    ///
    /// # Errors
    /// The database says no.
    pub fn request_of_code(&self, code: &SecretHash) -> Result<Option<RequestRecord>, StoreError> {
        self.find_request("code", code)
    }

    fn find_request(&self, column: &str, hash: &SecretHash) -> Result<Option<RequestRecord>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM authorization_request WHERE tenant = ?1 AND {column} = ?2 AND expires_at > ?3"
        );
        let found = self.database.writer().query_row(&sql, params![TENANT, hash, self.now().0], read).optional();
        found.map_err(self.database.error("read a request for authorization"))
    }

    /// Notes what the owner said of a request that waits for it; whether there is one.
    ///
    /// # Errors
    /// The database says no.
    pub fn decide_request(&self, code: &SecretHash, decision: &str) -> Result<bool, StoreError> {
        let (code, decision, now) = (*code, decision.to_owned(), self.now());
        let decided = self.database.commit(move |connection| {
            let sql = "UPDATE authorization_request SET decision = ?3 WHERE tenant = ?1 AND code = ?2 \
                       AND decision IS NULL AND expires_at > ?4";
            connection.execute(sql, params![TENANT, code, decision, now.0])
        });
        Ok(decided.map_err(self.database.error("decide a request for authorization"))? > 0)
    }

    /// Ends a request, and keeps the code that it gave, if it gave one; whether the request was still there. Once: a
    /// second caller gives no code.
    ///
    /// # Errors
    /// There are too many codes; the database says no.
    pub fn end_request(&self, id: &SecretHash, code: Option<&CodeRecord>) -> Result<bool, StoreError> {
        let (id, code, now) = (*id, code.cloned(), self.now());
        let ended = self.database.commit(move |connection| end(connection, &id, code.as_ref(), now));
        let full = || StoreError::Full { what: "authorization codes".into(), limit: Self::CODES_MAX };
        ended.map_err(self.database.error("end a request for authorization"))?.ok_or_else(full)
    }
}

/// `None` where there is no room for the code.
fn end(
    connection: &Connection,
    id: &SecretHash,
    code: Option<&CodeRecord>,
    now: Timestamp,
) -> rusqlite::Result<Option<bool>> {
    let sql = "DELETE FROM authorization_request WHERE tenant = ?1 AND id = ?2 AND expires_at > ?3";
    let was_there = connection.execute(sql, params![TENANT, id, now.0])? > 0;
    match code {
        Some(code) if was_there && !codes::put(connection, code, now)? => Ok(None),
        _ => Ok(Some(was_there)),
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<RequestRecord> {
    Ok(RequestRecord {
        id: row.get("id")?,
        code: row.get("code")?,
        address: row.get("address")?,
        details: row.get("details")?,
        decision: row.get("decision")?,
        expires_at: Timestamp(row.get("expires_at")?),
    })
}
