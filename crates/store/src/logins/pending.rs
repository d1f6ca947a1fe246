//! Logins that were begun and wait for a browser, or for the issuer to send it back.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_base::{Clock, PrincipalId, ServerName, Timestamp};

use super::{SecretDigest, TENANT, check_sealed};
use crate::database::Database;
use crate::error::StoreError;

/// A login that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLogin {
    /// Who will own the credential.
    pub owner: PrincipalId,
    /// The server that it is for.
    pub server: ServerName,
    /// Opens its page.
    pub ticket: SecretDigest,
    /// The browser that opened its page, once one did.
    pub browser: Option<BrowserBinding>,
    /// The rest, such as the verifier of the code and the issuer; sealed.
    pub sealed: Vec<u8>,
    /// From when on it does not count.
    pub expires_at: Timestamp,
}

/// The browser of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrowserBinding {
    /// The cookie of the browser.
    pub browser: SecretDigest,
    /// What the issuer sends back with it.
    pub state: SecretDigest,
}

/// The pending logins of all owners: one of an owner at a server.
#[derive(Debug, Clone)]
pub struct PendingLogins {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

const COLUMNS: &str = "owner, server, ticket, browser, state, sealed, expires_at";
const READ: &str = "read a pending login";
const SAVE: &str = "save a pending login";

/// Why a pending login was not begun.
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

    /// Begins a login, in place of one of the same owner at the same server. On the disk when this returns.
    ///
    /// # Errors
    /// The owner, or all owners together, have too many; the sealed blob is larger than
    /// [`SEALED_MAX`](super::SEALED_MAX); the database says no.
    pub fn begin(&self, login: &PendingLogin) -> Result<(), StoreError> {
        check_sealed(&login.sealed, || format!("the pending login for `{}`", login.server))?;
        let (begun, now) = (login.clone(), self.clock.now());
        let refusal = self.database.commit(move |connection| begin(connection, &begun, now));
        match refusal.map_err(self.database.error(SAVE))? {
            None => Ok(()),
            Some(Refusal::OfOwner) => Err(StoreError::Full {
                what: format!("pending logins of `{}`", login.owner),
                limit: Self::OF_OWNER_MAX,
            }),
            Some(Refusal::OfAll) => Err(StoreError::Full { what: "pending logins".into(), limit: Self::MAX }),
        }
    }

    /// The login of a ticket; `None` where there is none or it has expired.
    ///
    /// # Errors
    /// The row is not readable; the database says no.
    pub fn of_ticket(&self, ticket: &SecretDigest) -> Result<Option<PendingLogin>, StoreError> {
        self.find("ticket", ticket)
    }

    /// The login whose browser was sent to the issuer with this state; it stays. `None` where there is none or it has
    /// expired.
    ///
    /// # Errors
    /// As [`PendingLogins::of_ticket`].
    pub fn of_state(&self, state: &SecretDigest) -> Result<Option<PendingLogin>, StoreError> {
        self.find("state", state)
    }

    /// Binds a login to the browser that opened its page, with the state and the blob that were made for it. A browser
    /// that comes again gets the new state, another one changes nothing. Whether it was bound. On the disk when this
    /// returns.
    ///
    /// # Errors
    /// As [`PendingLogins::begin`], without the bounds.
    pub fn bind(&self, ticket: &SecretDigest, binding: &BrowserBinding, sealed: &[u8]) -> Result<bool, StoreError> {
        check_sealed(sealed, || "the pending login of a ticket".into())?;
        let (ticket, binding, sealed, now) = (*ticket, *binding, sealed.to_vec(), self.clock.now());
        let bound = self.database.commit(move |connection| {
            let sql = "UPDATE pending_login SET browser = ?3, state = ?4, sealed = ?5 WHERE tenant = ?1 AND ticket = ?2 \
                       AND (browser IS NULL OR browser = ?3) AND expires_at > ?6";
            let (browser, state) = (binding.browser.as_bytes(), binding.state.as_bytes());
            connection.execute(sql, params![TENANT, ticket.as_bytes(), browser, state, sealed, now.0])
        });
        Ok(bound.map_err(self.database.error(SAVE))? > 0)
    }

    /// Takes the login of a browser that came back with its state: only one caller ever gets it, and another browser
    /// leaves it where it is. On the disk when this returns.
    ///
    /// # Errors
    /// As [`PendingLogins::of_ticket`].
    pub fn take(&self, binding: &BrowserBinding) -> Result<Option<PendingLogin>, StoreError> {
        let (binding, now, logins) = (*binding, self.clock.now(), self.clone());
        let taken = self.database.commit(move |connection| {
            let sql = format!(
                "DELETE FROM pending_login WHERE tenant = ?1 AND state = ?2 AND browser = ?3 AND expires_at > ?4 \
                 RETURNING {COLUMNS}"
            );
            let key = params![TENANT, binding.state.as_bytes(), binding.browser.as_bytes(), now.0];
            connection.query_row(&sql, key, |row| logins.read(row)).optional()
        });
        taken.map_err(self.database.error("take a pending login"))?.transpose()
    }

    /// Forgets the login of an owner at a server; whether there was one. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, owner: &PrincipalId, server: &ServerName) -> Result<bool, StoreError> {
        let (owner, server) = (owner.clone(), server.clone());
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM pending_login WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
            connection.execute(sql, (TENANT, owner.as_str(), server.as_str()))
        });
        Ok(removed.map_err(self.database.error("delete a pending login"))? > 0)
    }

    fn find(&self, column: &str, digest: &SecretDigest) -> Result<Option<PendingLogin>, StoreError> {
        let sql =
            format!("SELECT {COLUMNS} FROM pending_login WHERE tenant = ?1 AND {column} = ?2 AND expires_at > ?3");
        let key = params![TENANT, digest.as_bytes(), self.clock.now().0];
        let found = self.database.writer().query_row(&sql, key, |row| self.read(row)).optional();
        found.map_err(self.database.error(READ))?.transpose()
    }

    fn read(&self, row: &Row<'_>) -> rusqlite::Result<Result<PendingLogin, StoreError>> {
        let (owner, server) = (PrincipalId::new(row.get_ref(0)?.as_str()?), row.get_ref(1)?.as_str()?);
        let wrong = |what: &str| {
            let hint = "start again with `toolcrib login SERVER`".to_owned();
            Ok(Err(self.database.row_error("pending_login", format!("{owner} at {server}"), what, hint)))
        };
        let digest = |index: usize| {
            let bytes = row.get_ref(index)?.as_blob_or_null()?;
            Ok::<_, rusqlite::Error>(bytes.map(SecretDigest::from_bytes))
        };
        let Ok(server) = ServerName::new(server) else { return wrong("its server's name is invalid") };
        let Some(Some(ticket)) = digest(2)? else { return wrong("its ticket is not a digest") };
        let browser = match (digest(3)?, digest(4)?) {
            (None, None) => None,
            (Some(Some(browser)), Some(Some(state))) => Some(BrowserBinding { browser, state }),
            _ => return wrong("its browser or state is not a digest"),
        };
        let (sealed, expires_at) = (row.get(5)?, Timestamp(row.get(6)?));
        Ok(Ok(PendingLogin { owner, server, ticket, browser, sealed, expires_at }))
    }
}

fn begin(connection: &Connection, login: &PendingLogin, now: Timestamp) -> rusqlite::Result<Option<Refusal>> {
    let owner = login.owner.as_str();
    connection.execute("DELETE FROM pending_login WHERE tenant = ?1 AND expires_at <= ?2", (TENANT, now.0))?;
    let replaced = "DELETE FROM pending_login WHERE tenant = ?1 AND owner = ?2 AND server = ?3";
    connection.execute(replaced, (TENANT, owner, login.server.as_str()))?;
    let of_owner = "SELECT count(*) FROM pending_login WHERE tenant = ?1 AND owner = ?2";
    if connection.query_row(of_owner, [TENANT, owner], |row| row.get::<_, usize>(0))? >= PendingLogins::OF_OWNER_MAX {
        return Ok(Some(Refusal::OfOwner));
    }
    let of_all = "SELECT count(*) FROM pending_login WHERE tenant = ?1";
    if connection.query_row(of_all, [TENANT], |row| row.get::<_, usize>(0))? >= PendingLogins::MAX {
        return Ok(Some(Refusal::OfAll));
    }
    let sql = "INSERT INTO pending_login (tenant, owner, server, ticket, browser, state, sealed, expires_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let digest = |of: fn(&BrowserBinding) -> &SecretDigest| login.browser.as_ref().map(|it| of(it).as_bytes());
    let row = params![
        TENANT,
        owner,
        login.server.as_str(),
        login.ticket.as_bytes(),
        digest(|it| &it.browser),
        digest(|it| &it.state),
        login.sealed,
        login.expires_at.0,
    ];
    connection.execute(sql, row)?;
    Ok(None)
}
