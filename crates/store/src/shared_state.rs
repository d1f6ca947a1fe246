//! What the gateway that holds a state folder wrote down for all gateways of the home, read by the others.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::folder::DATABASE_FILE;
use crate::halts::{HaltRecord, in_force};

/// The state of another process, which is never written to.
#[derive(Debug)]
pub struct SharedState {
    connection: Connection,
    path: PathBuf,
    /// Of the last reading; SQLite counts it up with each change by another process.
    version: Option<i64>,
}

impl SharedState {
    /// Opens the state in a folder that another process holds.
    ///
    /// # Errors
    /// There is none, or the disk says no.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(DATABASE_FILE);
        let opened = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let connection = opened.map_err(|source| StoreError::database(path.clone(), "open", source))?;
        Ok(Self { connection, path, version: None })
    }

    /// The halts in force; `None` where nothing was written since they were given the last time.
    ///
    /// # Errors
    /// The database says no.
    pub fn halts(&mut self) -> Result<Option<Vec<HaltRecord>>, StoreError> {
        let failed = |source| StoreError::database(self.path.clone(), "read the halts of", source);
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(failed)?;
        if self.version == Some(version) {
            return Ok(None);
        }
        let halts = in_force(&self.connection).map_err(failed)?;
        self.version = Some(version);
        Ok(Some(halts))
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{PrincipalId, Timestamp};

    use super::*;
    use crate::{Config, Store};

    #[test]
    fn halts_of_another_process_are_given_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        assert!(SharedState::open(folder.path()).is_err());
        let store = Store::open(folder.path(), Config::default()).unwrap();
        let mut shared = SharedState::open(folder.path()).unwrap();
        assert_eq!(shared.halts().unwrap(), Some(Vec::new()));
        assert_eq!(shared.halts().unwrap(), None);
        let halt = HaltRecord {
            id: "hlt_1".into(),
            kind: "principal".into(),
            subject: "local".into(),
            reason: "why".into(),
            canary: None,
            added_by: PrincipalId::new("admin"),
            added_at: Timestamp(1),
            lifted: None,
        };
        store.halts().add(&halt).unwrap();
        assert_eq!(shared.halts().unwrap(), Some(vec![halt]));
        store.halts().lift("hlt_1", &PrincipalId::new("admin")).unwrap();
        assert_eq!(shared.halts().unwrap(), Some(Vec::new()));
    }
}
