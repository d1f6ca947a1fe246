//! What of each server was approved and what was rejected, by whom; when each server was last verified.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Row, named_params};
use toolcrib_base::{Clock, PrincipalId, ServerName, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// Something that was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedPart {
    /// What it is: `tool`, `prompt` …
    pub part: String,
    /// Its name.
    pub name: String,
    /// Its definition as it was approved, JSON text, kept as it is.
    pub definition: String,
    /// When.
    pub decided_at: Timestamp,
    /// By whom.
    pub decided_by: PrincipalId,
}

/// Something that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedPart {
    /// What it is: `tool`, `prompt` …
    pub part: String,
    /// Its name.
    pub name: String,
    /// The digest of the definition that was rejected.
    pub digest: String,
    /// When.
    pub decided_at: Timestamp,
    /// By whom.
    pub decided_by: PrincipalId,
}

/// All that was decided about one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinRecord {
    /// What was approved.
    pub pinned: Vec<PinnedPart>,
    /// What was rejected.
    pub rejected: Vec<RejectedPart>,
    /// When it was last verified, and the digest of what it offered then.
    pub verified: Option<(Timestamp, String)>,
}

/// A decision about parts of one server: each is approved, forgotten or rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinChange {
    /// Part, name and definition of what is approved.
    pub approve: Vec<(String, String, String)>,
    /// Part and name of what is not there any more and needs no pin.
    pub forget: Vec<(String, String)>,
    /// Part, name and digest of what is rejected.
    pub reject: Vec<(String, String, String)>,
}

/// The pins of all servers.
#[derive(Debug, Clone)]
pub struct Pins {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl Pins {
    /// The largest definition that is kept, in bytes.
    pub const DEFINITION_MAX: usize = 16 * 1024 * 1024;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a decision down, all of it or nothing. Approving takes an earlier refusal back; turning down leaves what
    /// was approved before as it is.
    ///
    /// # Errors
    /// A definition is larger than [`Pins::DEFINITION_MAX`]; the database says no.
    pub fn decide(&self, server: &ServerName, change: &PinChange, by: &PrincipalId) -> Result<(), StoreError> {
        for (part, name, definition) in &change.approve {
            if definition.len() > Self::DEFINITION_MAX {
                let what = format!("the definition of {part} `{name}` of `{server}`");
                return Err(StoreError::TooLarge { what, bytes: definition.len(), limit: Self::DEFINITION_MAX });
            }
        }
        let failed = self.database.error("save an approval");
        let (server, by, now) = (server.as_str(), by.as_str(), self.clock.now().0);
        let mut connection = self.database.writer();
        let transaction = connection.transaction().map_err(&failed)?;
        {
            let prepare = |sql| transaction.prepare(sql).map_err(&failed);
            let mut pin = prepare(
                "INSERT OR REPLACE INTO pin (server, part, name, definition, decided_at, decided_by) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            let mut unpin = prepare("DELETE FROM pin WHERE server = ?1 AND part = ?2 AND name = ?3")?;
            let mut reject = prepare(
                "INSERT OR REPLACE INTO rejection (server, part, name, digest, decided_at, decided_by) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            let mut accept = prepare("DELETE FROM rejection WHERE server = ?1 AND part = ?2 AND name = ?3")?;
            for (part, name, definition) in &change.approve {
                pin.execute((server, part, name, definition, now, by)).map_err(&failed)?;
                accept.execute((server, part, name)).map_err(&failed)?;
            }
            for (part, name) in &change.forget {
                unpin.execute((server, part, name)).map_err(&failed)?;
                accept.execute((server, part, name)).map_err(&failed)?;
            }
            for (part, name, digest) in &change.reject {
                reject.execute((server, part, name, digest, now, by)).map_err(&failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// Remembers that a server was verified now, and the digest of what it offered.
    ///
    /// # Errors
    /// The database says no.
    pub fn verified(&self, server: &ServerName, digest: &str) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO verification (server, verified_at, digest) VALUES (:server, :at, :digest)";
        let values = named_params! { ":server": server.as_str(), ":at": self.clock.now().0, ":digest": digest };
        let done = self.database.writer().execute(sql, values);
        done.map(|_| ()).map_err(self.database.error("save a verification"))
    }

    /// All that was decided, by server.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<BTreeMap<ServerName, PinRecord>, StoreError> {
        let failed = self.database.error("read the approvals");
        let connection = self.database.writer();
        let mut records: BTreeMap<ServerName, PinRecord> = BTreeMap::new();
        let mut read = |sql: &str, take: &dyn Fn(&Row<'_>, &mut PinRecord) -> rusqlite::Result<()>| {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                // A row that no version of this program wrote is left out.
                let Ok(server) = ServerName::new(row.get_ref("server")?.as_str()?) else { continue };
                take(row, records.entry(server).or_default())?;
            }
            Ok(())
        };
        read(
            "SELECT server, part, name, definition, decided_at, decided_by FROM pin ORDER BY server, part, name",
            &|row, record| {
                record.pinned.push(PinnedPart {
                    part: row.get("part")?,
                    name: row.get("name")?,
                    definition: row.get("definition")?,
                    decided_at: Timestamp(row.get("decided_at")?),
                    decided_by: principal(row)?,
                });
                Ok(())
            },
        )
        .map_err(&failed)?;
        read(
            "SELECT server, part, name, digest, decided_at, decided_by FROM rejection ORDER BY server, part, name",
            &|row, record| {
                record.rejected.push(RejectedPart {
                    part: row.get("part")?,
                    name: row.get("name")?,
                    digest: row.get("digest")?,
                    decided_at: Timestamp(row.get("decided_at")?),
                    decided_by: principal(row)?,
                });
                Ok(())
            },
        )
        .map_err(&failed)?;
        read("SELECT server, verified_at, digest FROM verification", &|row, record| {
            record.verified = Some((Timestamp(row.get("verified_at")?), row.get("digest")?));
            Ok(())
        })
        .map_err(&failed)?;
        Ok(records)
    }
}

fn principal(row: &Row<'_>) -> rusqlite::Result<PrincipalId> {
    Ok(PrincipalId::new(row.get_ref("decided_by")?.as_str()?))
}
