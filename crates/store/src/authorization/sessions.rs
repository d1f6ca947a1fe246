//! What was granted to a client in a principal's name, and the refresh tokens of it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_base::{PrincipalId, Timestamp};

use super::{Authorizations, SecretHash, TENANT, count, forget_expired};
use crate::error::StoreError;

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its name, which is no secret.
    pub id: String,
    /// In whose name.
    pub principal: PrincipalId,
    /// To which client.
    pub client: String,
    /// What was granted.
    pub details: String,
    /// Tokens of the provider at which the person signed in, sealed.
    pub sealed: Option<Vec<u8>>,
    /// The hash of the refresh token that counts; `None` for a session without.
    pub refresh: Option<SecretHash>,
    /// When it was used last.
    pub used_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
}

/// A refresh token that was presented, and what is to come in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalRequest {
    /// The session.
    pub session: String,
    /// The hash of the refresh token that was presented.
    pub presented: SecretHash,
    /// The hash of the one that is to count from now on.
    pub next: SecretHash,
    /// What is answered, sealed.
    pub answer: Vec<u8>,
    /// How long the last one may come again and is answered the same, in milliseconds.
    pub grace: i64,
}

/// What became of a refresh token that was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// The next one counts from now on.
    Renewed,
    /// It was renewed a moment ago: what was answered then, sealed.
    Repeated(Vec<u8>),
    /// It had been renewed: the session has ended.
    Reused,
    /// There is no such session.
    Unknown,
}

const COLUMNS: &str = "id, principal, client, details, sealed, refresh, used_at, expires_at";

impl Authorizations {
    /// Keeps a session that came without a code, in place of one with its id. Gives those that ended for it.
    ///
    /// # Errors
    /// The database says no.
    pub fn put_session(&self, session: &SessionRecord) -> Result<Vec<String>, StoreError> {
        let (session, now) = (session.clone(), self.now());
        let put = self.database.commit(move |connection| put(connection, &session, now));
        put.map_err(self.database.error("save a session"))
    }

    /// A session that has not ended.
    ///
    /// # Errors
    /// The database says no.
    pub fn session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let sql =
            format!("SELECT {COLUMNS} FROM authorization_session WHERE tenant = ?1 AND id = ?2 AND expires_at > ?3");
        let found = self.database.writer().query_row(&sql, (TENANT, id, self.now().0), read).optional();
        found.map_err(self.database.error("read a session"))
    }

    /// All that have not ended, those used last first.
    ///
    /// # Errors
    /// The database says no.
    pub fn sessions(&self) -> Result<Vec<SessionRecord>, StoreError> {
        let failed = self.database.error("read the sessions");
        let sql = format!(
            "SELECT {COLUMNS} FROM authorization_session WHERE tenant = ?1 AND expires_at > ?2 \
             ORDER BY used_at DESC, id"
        );
        let connection = self.database.writer();
        let mut statement = connection.prepare(&sql).map_err(&failed)?;
        let rows = statement.query_map((TENANT, self.now().0), read).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Renews a refresh token. One that was renewed before, but for a moment ago, ends the session: it was stolen, or its
    /// successor was. The caller has made sure that the token is one that the session was given once.
    ///
    /// # Errors
    /// The database says no.
    pub fn renew(&self, renewal: &RenewalRequest) -> Result<Renewal, StoreError> {
        let (renewal, now) = (renewal.clone(), self.now());
        let renewed = self.database.commit(move |connection| renew(connection, &renewal, now));
        renewed.map_err(self.database.error("renew a session"))
    }

    /// Puts other tokens of the provider in the place of those of a session, or takes them away.
    ///
    /// # Errors
    /// The database says no.
    pub fn seal_session(&self, id: &str, sealed: Option<&[u8]>) -> Result<(), StoreError> {
        let (id, sealed) = (id.to_owned(), sealed.map(<[u8]>::to_vec));
        let put = self.database.commit(move |connection| {
            let sql = "UPDATE authorization_session SET sealed = ?3 WHERE tenant = ?1 AND id = ?2";
            connection.execute(sql, params![TENANT, id, sealed])
        });
        put.map(drop).map_err(self.database.error("save the tokens of a session"))
    }

    /// Ends a session; whether there was one.
    ///
    /// # Errors
    /// The database says no.
    pub fn end_session(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let ended = self.database.commit(move |connection| remove(connection, &id));
        ended.map_err(self.database.error("end a session"))
    }
}

/// Gives the sessions that ended for it.
pub(super) fn put(connection: &Connection, session: &SessionRecord, now: Timestamp) -> rusqlite::Result<Vec<String>> {
    forget_expired(connection, "authorization_session", now)?;
    remove(connection, &session.id)?;
    let mut ended: Vec<String> = Vec::new();
    let of_principal = "SELECT count(*) FROM authorization_session WHERE tenant = ?1 AND principal = ?2";
    let principal = session.principal.as_str();
    let of_principal: usize = connection.query_row(of_principal, [TENANT, principal], |row| row.get(0))?;
    if of_principal >= Authorizations::SESSIONS_OF_PRINCIPAL_MAX {
        let sql = "SELECT id FROM authorization_session WHERE tenant = ?1 AND principal = ?2 ORDER BY used_at LIMIT 1";
        ended.push(connection.query_row(sql, [TENANT, principal], |row| row.get(0))?);
    } else if count(connection, "authorization_session")? >= Authorizations::SESSIONS_MAX {
        let sql = "SELECT id FROM authorization_session WHERE tenant = ?1 ORDER BY used_at LIMIT 1";
        ended.push(connection.query_row(sql, [TENANT], |row| row.get(0))?);
    }
    for id in &ended {
        remove(connection, id)?;
    }
    let sql =
        format!("INSERT INTO authorization_session (tenant, {COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    let SessionRecord { id, client, details, sealed, refresh, used_at, expires_at, .. } = session;
    let row = params![TENANT, id, principal, client, details, sealed, refresh, used_at.0, expires_at.0];
    connection.execute(&sql, row)?;
    Ok(ended)
}

fn renew(connection: &Connection, renewal: &RenewalRequest, now: Timestamp) -> rusqlite::Result<Renewal> {
    let RenewalRequest { session, presented, next, answer, grace } = renewal;
    let sql = "SELECT refresh, previous, answer, used_at FROM authorization_session \
               WHERE tenant = ?1 AND id = ?2 AND expires_at > ?3 AND refresh IS NOT NULL";
    let found = connection.query_row(sql, (TENANT, session, now.0), |row| {
        let (refresh, previous): (SecretHash, Option<SecretHash>) = (row.get(0)?, row.get(1)?);
        Ok((refresh, previous, row.get::<_, Option<Vec<u8>>>(2)?, row.get::<_, i64>(3)?))
    });
    let Some((refresh, previous, last, used_at)) = found.optional()? else { return Ok(Renewal::Unknown) };
    if refresh == *presented {
        let sql = "UPDATE authorization_session SET refresh = ?3, previous = ?4, answer = ?5, used_at = ?6 \
                   WHERE tenant = ?1 AND id = ?2";
        connection.execute(sql, params![TENANT, session, next, presented, answer, now.0])?;
        return Ok(Renewal::Renewed);
    }
    // A clock that was set back does not lengthen it.
    let is_recent = (0..*grace).contains(&now.0.saturating_sub(used_at));
    match last {
        Some(last) if is_recent && previous == Some(*presented) => Ok(Renewal::Repeated(last)),
        _ => {
            remove(connection, session)?;
            Ok(Renewal::Reused)
        }
    }
}

pub(super) fn remove(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM authorization_session WHERE tenant = ?1 AND id = ?2";
    Ok(connection.execute(sql, [TENANT, id])? > 0)
}

fn read(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    Ok(SessionRecord {
        id: row.get("id")?,
        principal: PrincipalId::new(row.get_ref("principal")?.as_str()?),
        client: row.get("client")?,
        details: row.get("details")?,
        sealed: row.get("sealed")?,
        refresh: row.get("refresh")?,
        used_at: Timestamp(row.get("used_at")?),
        expires_at: Timestamp(row.get("expires_at")?),
    })
}
