//! Values that each owner has of its own: what `user:name` in a header is for one of them.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use toolcrib_base::{Clock, PrincipalId};

use super::{TENANT, check_sealed};
use crate::database::Database;
use crate::error::StoreError;

/// The values of all owners, by name.
#[derive(Debug, Clone)]
pub struct UserValues {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl UserValues {
    /// How many values an owner may have.
    pub const OF_OWNER_MAX: usize = 256;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a sealed value in place of an earlier one. On the disk when this returns.
    ///
    /// # Errors
    /// The owner has too many; the sealed blob is larger than [`SEALED_MAX`](super::SEALED_MAX); the database says no.
    pub fn put(&self, owner: &PrincipalId, name: &str, sealed: &[u8]) -> Result<(), StoreError> {
        check_sealed(sealed, || format!("the value `user:{name}`"))?;
        let (whose, name, sealed, now) = (owner.clone(), name.to_owned(), sealed.to_vec(), self.clock.now());
        let written = self.database.commit(move |connection| {
            let sql = "SELECT count(*) FROM user_value WHERE tenant = ?1 AND owner = ?2 AND name <> ?3";
            let others: usize = connection.query_row(sql, [TENANT, whose.as_str(), &name], |row| row.get(0))?;
            if others >= Self::OF_OWNER_MAX {
                return Ok(false);
            }
            let sql = "INSERT OR REPLACE INTO user_value (tenant, owner, name, sealed, updated_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.execute(sql, params![TENANT, whose.as_str(), name, sealed, now.0])?;
            Ok(true)
        });
        if written.map_err(self.database.error("save a value"))? {
            return Ok(());
        }
        Err(StoreError::Full { what: format!("values of `{owner}`"), limit: Self::OF_OWNER_MAX })
    }

    /// The sealed value.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, owner: &PrincipalId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT sealed FROM user_value WHERE tenant = ?1 AND owner = ?2 AND name = ?3";
        let key = [TENANT, owner.as_str(), name];
        let found = self.database.writer().query_row(sql, key, |row| row.get(0)).optional();
        found.map_err(self.database.error("read a value"))
    }

    /// The names of the values that an owner has, sorted.
    ///
    /// # Errors
    /// The database says no.
    pub fn names(&self, owner: &PrincipalId) -> Result<Vec<String>, StoreError> {
        let failed = self.database.error("read the values");
        let connection = self.database.writer();
        let sql = "SELECT name FROM user_value WHERE tenant = ?1 AND owner = ?2 ORDER BY name";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([TENANT, owner.as_str()], |row| row.get(0)).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Deletes a value; whether there was one. On the disk when this returns.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, owner: &PrincipalId, name: &str) -> Result<bool, StoreError> {
        let (owner, name) = (owner.clone(), name.to_owned());
        let removed = self.database.commit(move |connection| {
            let sql = "DELETE FROM user_value WHERE tenant = ?1 AND owner = ?2 AND name = ?3";
            connection.execute(sql, [TENANT, owner.as_str(), &name])
        });
        Ok(removed.map_err(self.database.error("delete a value"))? > 0)
    }
}
