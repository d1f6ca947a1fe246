//! The keys that sign.

use rusqlite::{Row, params};
use toolcrib_base::Timestamp;

use super::{Authorizations, TENANT};
use crate::error::StoreError;

/// What a key is for at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPhase {
    /// It is published and signs nothing yet.
    Next,
    /// It signs.
    Current,
    /// It checks what it signed.
    Old,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// What it is for.
    pub phase: KeyPhase,
    /// Its id, as tokens name it.
    pub id: String,
    /// Both halves, sealed.
    pub sealed: Vec<u8>,
    /// Since when it is for that.
    pub since: Timestamp,
}

impl Authorizations {
    /// All keys.
    ///
    /// # Errors
    /// The database says no.
    pub fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        let failed = self.database.error("read the signing keys");
        let connection = self.database.writer();
        let sql = "SELECT phase, id, sealed, since FROM authorization_key WHERE tenant = ?1";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([TENANT], read).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Keeps these keys in place of all that there were.
    ///
    /// # Errors
    /// The database says no.
    pub fn put_keys(&self, keys: &[KeyRecord]) -> Result<(), StoreError> {
        let keys = keys.to_vec();
        let put = self.database.commit(move |connection| {
            connection.execute("DELETE FROM authorization_key WHERE tenant = ?1", [TENANT])?;
            let sql = "INSERT INTO authorization_key (tenant, phase, id, sealed, since) VALUES (?1, ?2, ?3, ?4, ?5)";
            for KeyRecord { phase, id, sealed, since } in &keys {
                connection.execute(sql, params![TENANT, phase.as_str(), id, sealed, since.0])?;
            }
            Ok(())
        });
        put.map_err(self.database.error("save the signing keys"))
    }
}

impl KeyPhase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Current => "current",
            Self::Old => "old",
        }
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    // The table takes no other words.
    let phase = match row.get_ref("phase")?.as_str()? {
        "next" => KeyPhase::Next,
        "current" => KeyPhase::Current,
        _ => KeyPhase::Old,
    };
    Ok(KeyRecord { phase, id: row.get("id")?, sealed: row.get("sealed")?, since: Timestamp(row.get("since")?) })
}
