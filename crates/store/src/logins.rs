//! What logins at servers leave behind: credentials, logins that wait for their browser, registrations of this
//! installation at issuers, values that each owner has of its own, and logouts.
//!
//! Every secret is a sealed blob here: this crate has no key and never opens one. Every write is on the disk when its
//! method returns, so that a caller may use a new refresh token only then.

mod credentials;
mod logouts;
mod pending;
mod registrations;
mod user_values;

use rusqlite::Row;
use toolcrib_base::ServerName;

use crate::error::StoreError;

pub use credentials::{CredentialRecord, Credentials, Generation, StoredCredential};
pub use logouts::{LogoutRecord, Logouts};
pub use pending::{PendingLogin, PendingLogins};
pub use registrations::{ClientRegistrations, RegistrationKey};
pub use user_values::UserValues;

/// The tenant of every row, as long as there is one.
const TENANT: &str = "";

/// The longest sealed blob, in bytes.
pub const SEALED_MAX: usize = 256 * 1024;

/// Refuses a blob that is too long; `what` names the thing.
fn check_sealed(sealed: &[u8], what: impl FnOnce() -> String) -> Result<(), StoreError> {
    if sealed.len() > SEALED_MAX {
        return Err(StoreError::TooLarge { what: what(), bytes: sealed.len(), limit: SEALED_MAX });
    }
    Ok(())
}

/// The server that a row is for; `None`, with a warning that names the row, for a text that is no server's name.
fn server_of(row: &Row<'_>, table: &str) -> rusqlite::Result<Option<ServerName>> {
    let (owner, server) = (row.get_ref("owner")?.as_str()?, row.get_ref("server")?.as_str()?);
    let name = ServerName::new(server).ok();
    if name.is_none() {
        tracing::warn!(table, owner, server, "a row is left out: its server's name is invalid");
    }
    Ok(name)
}
