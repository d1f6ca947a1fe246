//! Authorization codes: each gives one session, and a second use ends it.

use rusqlite::{Connection, OptionalExtension, params};
use toolcrib_base::Timestamp;

use super::sessions::{self, SessionRecord};
use super::{Authorizations, SecretHash, TENANT, count, forget_expired};
use crate::error::StoreError;

/// For how long a code is remembered beyond its end, in milliseconds: so long a second use is noticed.
const REMEMBERED: i64 = 24 * 3_600_000;

/// How many that do not count any more make room at once, so that a flood does not sort all of them for each.
const AT_ONCE: usize = Authorizations::CODES_MAX / 100;

/// A code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRecord {
    /// Its hash.
    pub hash: SecretHash,
    /// What it is for.
    pub details: String,
    /// From when on it does not count.
    pub expires_at: Timestamp,
}

/// What became of a code that was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeUse {
    /// It gave its session; these others ended for it.
    Used(Vec<String>),
    /// It had been used: what it gave, if that still lasted, has ended.
    Replayed(Option<String>),
    /// There is none, or it has expired.
    Unknown,
}

impl Authorizations {
    /// What a code is for, also when it was used; `None` for one that has expired unused or that there never was.
    ///
    /// # Errors
    /// The database says no.
    pub fn code(&self, hash: &SecretHash) -> Result<Option<String>, StoreError> {
        let sql = "SELECT details FROM authorization_code WHERE tenant = ?1 AND hash = ?2 \
                   AND (expires_at > ?3 OR session IS NOT NULL)";
        let now = self.now().0;
        let found = self.database.writer().query_row(sql, params![TENANT, hash, now], |row| row.get(0)).optional();
        found.map_err(self.database.error("read an authorization code"))
    }

    /// Uses a code for a session. One that was used before ends what it gave.
    ///
    /// # Errors
    /// The database says no.
    pub fn use_code(&self, hash: &SecretHash, session: &SessionRecord) -> Result<CodeUse, StoreError> {
        let (hash, session, now) = (*hash, session.clone(), self.now());
        let used = self.database.commit(move |connection| use_code(connection, &hash, &session, now));
        used.map_err(self.database.error("use an authorization code"))
    }
}

/// Whether there was room for it.
pub(super) fn put(connection: &Connection, code: &CodeRecord, now: Timestamp) -> rusqlite::Result<bool> {
    forget_expired(connection, "authorization_code", Timestamp(now.0.saturating_sub(REMEMBERED)))?;
    if count(connection, "authorization_code")? >= Authorizations::CODES_MAX {
        // One that was used is remembered only so that a second use ends what it gave; without that it is unknown.
        let sql = "DELETE FROM authorization_code WHERE rowid IN (SELECT rowid FROM authorization_code \
                   WHERE tenant = ?1 AND (session IS NOT NULL OR expires_at <= ?2) ORDER BY expires_at LIMIT ?3)";
        if connection.execute(sql, params![TENANT, now.0, AT_ONCE])? == 0 {
            return Ok(false);
        }
    }
    let sql = "INSERT INTO authorization_code (tenant, hash, details, expires_at) VALUES (?1, ?2, ?3, ?4)";
    connection.execute(sql, params![TENANT, code.hash, code.details, code.expires_at.0])?;
    Ok(true)
}

fn use_code(
    connection: &Connection,
    hash: &SecretHash,
    session: &SessionRecord,
    now: Timestamp,
) -> rusqlite::Result<CodeUse> {
    let sql = "SELECT session, expires_at FROM authorization_code WHERE tenant = ?1 AND hash = ?2";
    let found = connection
        .query_row(sql, params![TENANT, hash], |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, i64>(1)?)));
    match found.optional()? {
        Some((Some(gave), _)) => {
            let ended = sessions::remove(connection, &gave)?;
            Ok(CodeUse::Replayed(ended.then_some(gave)))
        }
        Some((None, expires_at)) if expires_at > now.0 => {
            let ended = sessions::put(connection, session, now)?;
            let sql = "UPDATE authorization_code SET session = ?3 WHERE tenant = ?1 AND hash = ?2";
            connection.execute(sql, params![TENANT, hash, session.id])?;
            Ok(CodeUse::Used(ended))
        }
        _ => Ok(CodeUse::Unknown),
    }
}
