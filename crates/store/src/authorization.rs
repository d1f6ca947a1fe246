//! What the built-in authorization server keeps: clients that registered themselves, requests that wait for a person,
//! codes, sessions, the keys that sign, and statements that count once.
//!
//! No secret is readable here: each is a hash or a sealed blob. `details` are texts that this crate does not read. Every
//! write is on the disk when its method returns, so that a caller may answer only then.

mod clients;
mod codes;
mod keys;
mod requests;
mod sessions;

use std::sync::Arc;

use rusqlite::Connection;
use toolcrib_base::{Clock, Timestamp};

use crate::database::Database;

pub use codes::{CodeRecord, CodeUse};
pub use keys::{KeyPhase, KeyRecord};
pub use requests::RequestRecord;
pub use sessions::{Renewal, RenewalRequest, SessionRecord};

/// The tenant of every row, as long as there is one.
const TENANT: &str = "";

/// A SHA-256.
pub type SecretHash = [u8; 32];

/// The rows of the authorization server.
#[derive(Debug, Clone)]
pub struct Authorizations {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl Authorizations {
    /// How many clients may have registered themselves.
    pub const CLIENTS_MAX: usize = 1_000;
    /// How many requests may wait for a person.
    pub const REQUESTS_MAX: usize = 1_024;
    /// How many of them may come from one address.
    pub const REQUESTS_OF_ADDRESS_MAX: usize = 64;
    /// How many codes are remembered, those that were used among them.
    pub const CODES_MAX: usize = 10_000;
    /// How many sessions there may be; the one that was used longest ago ends for a new one.
    pub const SESSIONS_MAX: usize = 10_000;
    /// How many of them may be one principal's.
    pub const SESSIONS_OF_PRINCIPAL_MAX: usize = 64;
    /// How many statements are remembered that count once.
    pub const ASSERTIONS_MAX: usize = 100_000;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Forgets what has expired in a table.
fn forget_expired(connection: &Connection, table: &str, now: Timestamp) -> rusqlite::Result<usize> {
    connection.execute(&format!("DELETE FROM {table} WHERE tenant = ?1 AND expires_at <= ?2"), (TENANT, now.0))
}

fn count(connection: &Connection, table: &str) -> rusqlite::Result<usize> {
    connection.query_row(&format!("SELECT count(*) FROM {table} WHERE tenant = ?1"), [TENANT], |row| row.get(0))
}
