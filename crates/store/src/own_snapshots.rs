//! What servers showed principals with credentials of their own, served to each while its server is away. Equal
//! inventories are kept once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest, Sha256};
use toolcrib_base::{ServerName, Timestamp};

use crate::database::Database;
use crate::error::StoreError;
use crate::snapshots::Snapshots;

/// What a server showed one principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSnapshot {
    /// Whose server.
    pub server: ServerName,
    /// The principal.
    pub principal: String,
    /// When it was listed.
    pub taken_at: Timestamp,
    /// Names the definition it was taken under.
    pub definition_hash: Arc<str>,
    /// JSON text, kept as it is; equal ones are one.
    pub inventory: Arc<str>,
}

/// The snapshots of all principals.
#[derive(Debug, Clone)]
pub struct OwnSnapshots {
    database: Arc<Database>,
}

impl OwnSnapshots {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Keeps `snapshot` in place of an earlier one of the same principal at the same server.
    ///
    /// # Errors
    /// The inventory is larger than [`Snapshots::INVENTORY_MAX`]; the database says no.
    pub fn put(&self, snapshot: &OwnSnapshot) -> Result<(), StoreError> {
        let bytes = snapshot.inventory.len();
        if bytes > Snapshots::INVENTORY_MAX {
            let what = format!("the inventory of `{}` for a principal", snapshot.server);
            return Err(StoreError::TooLarge { what, bytes, limit: Snapshots::INVENTORY_MAX });
        }
        let digest = digest(&snapshot.inventory);
        // A power cut may take it: then the server is asked again.
        let written = self.database.write_soon(|transaction| {
            let (server, principal) = (snapshot.server.as_str(), &snapshot.principal);
            let before = "SELECT digest FROM own_snapshot WHERE tenant = '' AND server = ?1 AND principal = ?2";
            let mut before = transaction.prepare_cached(before)?;
            let before = before.query_row(params![server, principal], |row| row.get::<_, String>(0)).optional()?;
            let content = "INSERT OR IGNORE INTO inventory (digest, content) VALUES (?1, ?2)";
            transaction.prepare_cached(content)?.execute(params![digest, &*snapshot.inventory])?;
            let row = "INSERT OR REPLACE INTO own_snapshot (tenant, server, principal, taken_at, definition_hash, digest) \
                       VALUES ('', ?1, ?2, ?3, ?4, ?5)";
            let values = params![server, principal, snapshot.taken_at.0, snapshot.definition_hash, digest];
            transaction.prepare_cached(row)?.execute(values)?;
            match before.is_some_and(|before| before != digest) {
                true => sweep(transaction),
                false => Ok(()),
            }
        });
        written.map_err(self.database.error("save a principal's snapshot"))
    }

    /// The snapshots of one server.
    ///
    /// # Errors
    /// The database says no.
    pub fn of_server(&self, server: &ServerName) -> Result<Vec<OwnSnapshot>, StoreError> {
        let failed = self.database.error("read the snapshots of principals");
        let connection = self.database.writer();
        let rows = || -> rusqlite::Result<Vec<OwnSnapshot>> {
            // Many principals have few inventories: each text is read once.
            let mut contents: HashMap<String, Arc<str>> = HashMap::new();
            let mut hashes: HashSet<Arc<str>> = HashSet::new();
            let mut content = connection.prepare("SELECT content FROM inventory WHERE digest = ?1")?;
            let mut statement = connection.prepare(
                "SELECT principal, taken_at, definition_hash, digest FROM own_snapshot \
                 WHERE tenant = '' AND server = ?1",
            )?;
            let mut found = statement.query([server.as_str()])?;
            let mut all = Vec::new();
            while let Some(row) = found.next()? {
                let digest = row.get_ref(3)?.as_str()?;
                let inventory = if let Some(known) = contents.get(digest) {
                    Arc::clone(known)
                } else {
                    let Some(text) = content.query_row([digest], |row| row.get::<_, String>(0)).optional()? else {
                        continue;
                    };
                    let text: Arc<str> = text.into();
                    contents.insert(digest.to_owned(), Arc::clone(&text));
                    text
                };
                let hash = row.get_ref(2)?.as_str()?;
                let definition_hash = match hashes.get(hash) {
                    Some(known) => Arc::clone(known),
                    None => Arc::from(hash),
                };
                hashes.insert(Arc::clone(&definition_hash));
                all.push(OwnSnapshot {
                    server: server.clone(),
                    principal: row.get(0)?,
                    taken_at: Timestamp(row.get(1)?),
                    definition_hash,
                    inventory,
                });
            }
            Ok(all)
        };
        rows().map_err(failed)
    }

    /// Forgets what a server showed a principal; whether there was something.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, server: &ServerName, principal: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM own_snapshot WHERE tenant = '' AND server = ?1 AND principal = ?2";
        self.removed(sql, &[server.as_str(), principal])
    }

    /// Forgets what a server showed anyone; whether there was something.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove_server(&self, server: &ServerName) -> Result<bool, StoreError> {
        self.removed("DELETE FROM own_snapshot WHERE tenant = '' AND server = ?1", &[server.as_str()])
    }

    fn removed(&self, sql: &str, values: &[&str]) -> Result<bool, StoreError> {
        let failed = self.database.error("remove a principal's snapshot");
        let mut connection = self.database.writer();
        let transaction = connection.transaction().map_err(&failed)?;
        let removed = transaction.execute(sql, rusqlite::params_from_iter(values)).map_err(&failed)?;
        if removed > 0 {
            sweep(&transaction).map_err(&failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(removed > 0)
    }
}

/// Removes inventories that no one has any more.
fn sweep(connection: &Connection) -> rusqlite::Result<()> {
    let unused = "DELETE FROM inventory WHERE NOT EXISTS (SELECT 1 FROM own_snapshot WHERE digest = inventory.digest)";
    connection.execute(unused, []).map(drop)
}

fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use crate::{Config, Store};

    use super::*;

    fn snapshot(principal: &str, inventory: &str) -> OwnSnapshot {
        OwnSnapshot {
            server: ServerName::new("wiki").unwrap(),
            principal: principal.to_owned(),
            taken_at: Timestamp(1),
            definition_hash: "h".into(),
            inventory: inventory.into(),
        }
    }

    #[test]
    fn equal_inventories_are_kept_once_and_go_with_the_last_that_has_them() {
        let store = Store::in_memory(Config::default()).unwrap();
        let own = store.own_snapshots();
        let server = ServerName::new("wiki").unwrap();
        for (principal, inventory) in [("ann", "{}"), ("bob", "{}"), ("eve", "[]"), ("eve", "{}")] {
            own.put(&snapshot(principal, inventory)).unwrap();
        }
        let kept = || own.database.writer().query_row("SELECT count(*) FROM inventory", [], |row| row.get::<_, i64>(0));
        assert_eq!(kept().unwrap(), 1, "what no one has any more is gone");
        let all = own.of_server(&server).unwrap();
        assert_eq!(all.iter().map(|it| it.principal.as_str()).collect::<Vec<_>>(), ["ann", "bob", "eve"]);
        assert!(Arc::ptr_eq(&all[0].inventory, &all[2].inventory));
        assert!(own.remove(&server, "ann").unwrap() && !own.remove(&server, "ann").unwrap());
        assert!(own.remove_server(&server).unwrap());
        assert_eq!((kept().unwrap(), own.of_server(&server).unwrap().len()), (0, 0));
    }
}
