//! What is remembered of logins, as a trait: the gateway fills it in with its database, tests with memory. What a row
//! holds is secret and opaque here; who, where and for whom it is stands beside it and is bound to it when it is sealed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolcrib_base::{Secret, ServerName, Timestamp};

use crate::error::LoginError;
use crate::owner::Owner;

/// A credential of an owner at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRow {
    /// The server.
    pub server: ServerName,
    /// Whose it is.
    pub owner: Owner,
    /// The authorization server that gave it.
    pub issuer: String,
    /// The client that got it.
    pub client_id: String,
    /// The rest, as JSON.
    pub content: Secret,
}

/// A login that nobody has finished. There is one at most for an owner and a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRow {
    /// The server.
    pub server: ServerName,
    /// Whose it is.
    pub owner: Owner,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// The rest, as JSON.
    pub content: Secret,
}

/// A client that was registered for a server at an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationRow {
    /// The server that it was registered for.
    pub server: ServerName,
    /// Where it is registered.
    pub issuer: String,
    /// With which redirect URL.
    pub redirect_uri: String,
    /// The rest, as JSON.
    pub content: Secret,
}

/// Why rows cannot be read or written, as a fragment for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RowError(pub String);

/// Whether a credential that several processes share may be changed.
#[derive(Debug)]
pub enum RowClaim {
    /// These rows are of one process alone.
    Unshared,
    /// No other process changes it until the value is dropped.
    Held(Box<dyn fmt::Debug + Send>),
    /// Another process changes it at this moment.
    Busy,
}

/// Remembers logins. All methods may block; what a `put` has returned from is on disk.
pub trait LoginRows: fmt::Debug + Send + Sync {
    /// Keeps other processes from changing a credential, if rows are shared. Does not wait for them.
    fn claim(&self, server: &ServerName, owner: &Owner) -> Result<RowClaim, RowError> {
        let _ = (server, owner);
        Ok(RowClaim::Unshared)
    }

    /// The credential of an owner at a server.
    fn credential(&self, server: &ServerName, owner: &Owner) -> Result<Option<CredentialRow>, RowError>;
    /// Writes a credential in place of the one of the same owner and server.
    fn put_credential(&self, row: &CredentialRow) -> Result<(), RowError>;
    /// Deletes a credential, if it is there.
    fn remove_credential(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError>;

    /// All pending logins, for the start.
    fn pending(&self) -> Result<Vec<PendingRow>, RowError>;
    /// Writes a pending login in place of the one of the same owner and server.
    fn put_pending(&self, row: &PendingRow) -> Result<(), RowError>;
    /// Deletes a pending login, if it is there.
    fn remove_pending(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError>;

    /// The client that was registered for a server.
    fn registration(
        &self,
        server: &ServerName,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegistrationRow>, RowError>;
    /// Writes a registration in place of the one of the same server, issuer and redirect URL.
    fn put_registration(&self, row: &RegistrationRow) -> Result<(), RowError>;
    /// Deletes a registration, if it is there.
    fn remove_registration(&self, server: &ServerName, issuer: &str, redirect_uri: &str) -> Result<(), RowError>;
}

/// That an owner has logged out of a server that callers are signed on to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutRow {
    /// The server.
    pub server: ServerName,
    /// Whose logout.
    pub owner: Owner,
    /// SHA-256 of each token of the owner that does not count there any more; none where none is needed.
    pub tokens: Vec<[u8; 32]>,
    /// From when on none of these tokens can come again; `None` for no end.
    pub expires_at: Option<Timestamp>,
}

/// Remembers logouts, none of which makes room for another. All methods may block; what one has returned from is on disk.
pub trait LogoutRows: fmt::Debug + Send + Sync {
    /// All logouts, for the start.
    fn logouts(&self) -> Result<Vec<LogoutRow>, RowError>;
    /// Writes a logout in place of the one of the same owner and server. Fails where there are too many.
    fn put_logout(&self, row: &LogoutRow) -> Result<(), RowError>;
    /// Deletes a logout, if it is there.
    fn remove_logout(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError>;
}

/// Rows in memory: for tests, and for commands that store nothing.
#[derive(Debug, Default)]
pub struct MemoryRows(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    credentials: BTreeMap<(Owner, ServerName), CredentialRow>,
    pending: BTreeMap<(Owner, ServerName), PendingRow>,
    registrations: BTreeMap<(ServerName, String, String), RegistrationRow>,
    logouts: BTreeMap<(Owner, ServerName), LogoutRow>,
}

impl MemoryRows {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginRows for MemoryRows {
    fn credential(&self, server: &ServerName, owner: &Owner) -> Result<Option<CredentialRow>, RowError> {
        Ok(self.tables().credentials.get(&(owner.clone(), server.clone())).cloned())
    }

    fn put_credential(&self, row: &CredentialRow) -> Result<(), RowError> {
        self.tables().credentials.insert((row.owner.clone(), row.server.clone()), row.clone());
        Ok(())
    }

    fn remove_credential(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.tables().credentials.remove(&(owner.clone(), server.clone()));
        Ok(())
    }

    fn pending(&self) -> Result<Vec<PendingRow>, RowError> {
        Ok(self.tables().pending.values().cloned().collect())
    }

    fn put_pending(&self, row: &PendingRow) -> Result<(), RowError> {
        self.tables().pending.insert((row.owner.clone(), row.server.clone()), row.clone());
        Ok(())
    }

    fn remove_pending(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.tables().pending.remove(&(owner.clone(), server.clone()));
        Ok(())
    }

    fn registration(
        &self,
        server: &ServerName,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegistrationRow>, RowError> {
        let key = (server.clone(), issuer.to_owned(), redirect_uri.to_owned());
        Ok(self.tables().registrations.get(&key).cloned())
    }

    fn put_registration(&self, row: &RegistrationRow) -> Result<(), RowError> {
        let key = (row.server.clone(), row.issuer.clone(), row.redirect_uri.clone());
        self.tables().registrations.insert(key, row.clone());
        Ok(())
    }

    fn remove_registration(&self, server: &ServerName, issuer: &str, redirect_uri: &str) -> Result<(), RowError> {
        self.tables().registrations.remove(&(server.clone(), issuer.to_owned(), redirect_uri.to_owned()));
        Ok(())
    }
}

impl LogoutRows for MemoryRows {
    fn logouts(&self) -> Result<Vec<LogoutRow>, RowError> {
        Ok(self.tables().logouts.values().cloned().collect())
    }

    fn put_logout(&self, row: &LogoutRow) -> Result<(), RowError> {
        self.tables().logouts.insert((row.owner.clone(), row.server.clone()), row.clone());
        Ok(())
    }

    fn remove_logout(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.tables().logouts.remove(&(owner.clone(), server.clone()));
        Ok(())
    }
}

/// Reads or writes rows of logins where blocking is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RowError> + Send + 'static,
) -> Result<T, LoginError> {
    unblocked(work).await.map_err(|error| LoginError::Rows { reason: error.to_string() })
}

/// Reads or writes rows where blocking is allowed.
pub(crate) async fn unblocked<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RowError> + Send + 'static,
) -> Result<T, RowError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(RowError(error.to_string())))
}
