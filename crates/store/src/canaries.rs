//! Canaries: tokens that no one has reason to send anywhere, sealed.

use std::sync::Arc;

use rusqlite::params;
use toolcrib_base::{PrincipalId, ProfileName, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// A canary. What it says is sealed by the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryRecord {
    /// Its id, which says nothing of the token.
    pub id: String,
    /// What it looks like: `url`, `aws` …
    pub kind: String,
    /// The profile that it was put out for; `None` for none in particular.
    pub profile: Option<ProfileName>,
    /// The token, sealed.
    pub sealed: Vec<u8>,
    /// By whom.
    pub minted_by: PrincipalId,
    /// When.
    pub minted_at: Timestamp,
}

/// All canaries.
#[derive(Debug, Clone)]
pub struct Canaries {
    database: Arc<Database>,
}

impl Canaries {
    /// How many there may be: all are looked for in every call.
    pub const MAX: usize = 1_000;
    /// The longest sealed token, in bytes.
    pub const SEALED_MAX: usize = 1_024;

    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Keeps a canary. On the disk when this returns.
    ///
    /// # Errors
    /// There are [`Canaries::MAX`]; its seal is longer than [`Canaries::SEALED_MAX`]; the database says no.
    pub fn add(&self, canary: &CanaryRecord) -> Result<(), StoreError> {
        let bytes = canary.sealed.len();
        if bytes > Self::SEALED_MAX {
            return Err(StoreError::TooLarge { what: "a canary".to_owned(), bytes, limit: Self::SEALED_MAX });
        }
        let row = canary.clone();
        let added = self.database.commit(move |connection| {
            let count: usize = connection.query_row("SELECT count(*) FROM canary", [], |row| row.get(0))?;
            if count >= Self::MAX {
                return Ok(false);
            }
            let sql = "INSERT INTO canary (id, kind, profile, sealed, minted_by, minted_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let CanaryRecord { id, kind, profile, sealed, minted_by, minted_at } = &row;
            let profile = profile.as_ref().map(ProfileName::as_str);
            connection.execute(sql, params![id, kind, profile, sealed, minted_by.as_str(), minted_at.0])?;
            Ok(true)
        });
        match added.map_err(self.database.error("save a canary"))? {
            true => Ok(()),
            false => Err(StoreError::Full { what: "canaries".to_owned(), limit: Self::MAX }),
        }
    }

    /// Forgets a canary. Gives whether there was one of this id. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let removed =
            self.database.commit(move |connection| connection.execute("DELETE FROM canary WHERE id = ?1", [&id]));
        removed.map(|rows| rows > 0).map_err(self.database.error("delete a canary"))
    }

    /// All of them, the oldest first.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<Vec<CanaryRecord>, StoreError> {
        let failed = self.database.error("read the canaries");
        let sql = "SELECT id, kind, profile, sealed, minted_by, minted_at FROM canary ORDER BY minted_at, id";
        let connection = self.database.writer();
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([], |row| {
            let profile: Option<String> = row.get(2)?;
            Ok(CanaryRecord {
                id: row.get(0)?,
                kind: row.get(1)?,
                profile: profile.and_then(|name| ProfileName::new(&name).ok()),
                sealed: row.get(3)?,
                minted_by: PrincipalId::new(row.get_ref(4)?.as_str()?),
                minted_at: Timestamp(row.get(5)?),
            })
        });
        rows.map_err(&failed)?.collect::<Result<_, _>>().map_err(failed)
    }
}
