//! What logins at servers leave behind: credentials, logins that wait for their browser, registrations of this
//! installation at issuers, and values that each owner has of its own.
//!
//! Every secret is a sealed blob here: this crate has no key and never opens one. Every write is on the disk when its
//! method returns, so that a caller may use a new refresh token only then.

mod credentials;
mod pending;
mod registrations;
mod user_values;

use sha2::{Digest, Sha256};

use crate::error::StoreError;

pub use credentials::{CredentialRecord, CredentialState, Credentials, Generation, StoredCredential};
pub use pending::{BrowserBinding, PendingLogin, PendingLogins};
pub use registrations::{ClientRegistration, ClientRegistrations, StoredRegistration};
pub use user_values::UserValues;

/// The tenant of every row, as long as there is one.
const TENANT: &str = "";

/// The longest sealed blob, in bytes.
pub const SEALED_MAX: usize = 256 * 1024;

/// SHA-256 of something that whoever has it may use: a ticket, a state, a browser's cookie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// The digest of `secret`.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }
}

/// Refuses a blob that is too long; `what` names the thing.
fn check_sealed(sealed: &[u8], what: impl FnOnce() -> String) -> Result<(), StoreError> {
    if sealed.len() > SEALED_MAX {
        return Err(StoreError::TooLarge { what: what(), bytes: sealed.len(), limit: SEALED_MAX });
    }
    Ok(())
}
