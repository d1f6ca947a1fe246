//! How services were when that was last written down, so that a later process knows what may still run.

use std::sync::Arc;

use rusqlite::Row;
use toolcrib_base::{Clock, PrincipalId, ProfileName, Role, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

/// One service that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Its name.
    pub name: String,
    /// Who created it.
    pub principal: PrincipalId,
    /// What that principal might do then.
    pub role: Role,
    /// In which profile.
    pub profile: ProfileName,
    /// The word of its state.
    pub state: String,
    /// The rest of what is known, JSON text, kept as it is.
    pub body: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When this was written; [`Services::put`] sets it.
    pub updated_at: Timestamp,
}

/// The states of services, by name.
#[derive(Debug, Clone)]
pub struct Services {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl Services {
    /// The largest body, in bytes.
    pub const BODY_MAX: usize = 1024 * 1024;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a service down in place of its earlier state.
    ///
    /// # Errors
    /// The body is larger than [`Services::BODY_MAX`]; the database says no.
    pub fn put(&self, service: &ServiceRecord) -> Result<(), StoreError> {
        if service.body.len() > Self::BODY_MAX {
            let what = format!("the state of the service `{}`", service.name);
            return Err(StoreError::TooLarge { what, bytes: service.body.len(), limit: Self::BODY_MAX });
        }
        let sql = "INSERT OR REPLACE INTO service \
                   (name, principal, role, profile, state, body, created_at, updated_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let row = (
            &service.name,
            service.principal.as_str(),
            service.role.as_str(),
            service.profile.as_str(),
            &service.state,
            &service.body,
            service.created_at.0,
            self.clock.now().0,
        );
        let put = self.database.writer().execute(sql, row);
        put.map(|_| ()).map_err(self.database.error("save a service"))
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// The database says no.
    pub fn all(&self) -> Result<Vec<ServiceRecord>, StoreError> {
        let failed = self.database.error("read the services");
        let connection = self.database.writer();
        let sql = "SELECT name, principal, role, profile, state, body, created_at, updated_at \
                   FROM service ORDER BY name";
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let rows = statement.query_map([], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets a service; whether there was one.
    ///
    /// # Errors
    /// The database says no.
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let removed = self.database.writer().execute("DELETE FROM service WHERE name = ?1", [name]);
        Ok(removed.map_err(self.database.error("delete a service"))? > 0)
    }
}

/// The role in a column. A text that is none, such as one of a later version, gives the least.
pub(crate) fn role(row: &Row<'_>, column: usize) -> rusqlite::Result<Role> {
    Ok(row.get_ref(column)?.as_str()?.parse().unwrap_or(Role::Viewer))
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<ServiceRecord>> {
    let Ok(profile) = ProfileName::new(row.get_ref(3)?.as_str()?) else { return Ok(None) };
    Ok(Some(ServiceRecord {
        name: row.get(0)?,
        principal: PrincipalId::new(row.get_ref(1)?.as_str()?),
        role: role(row, 2)?,
        profile,
        state: row.get(4)?,
        body: row.get(5)?,
        created_at: Timestamp(row.get(6)?),
        updated_at: Timestamp(row.get(7)?),
    }))
}
