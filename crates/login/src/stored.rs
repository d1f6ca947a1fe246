//! The rows of logins in the gateway's database, sealed with a key that is derived from the vault's. What identifies a
//! row is bound to what it holds: copied to another owner, server, issuer or client, it opens no more.

use std::fmt;

use toolcrib_auth::vault::{SealError, Sealer};
use toolcrib_auth::{KeyPreference, Vault, VaultError};
use toolcrib_base::{PrincipalId, Secret, ServerName};
use toolcrib_store::{
    ClientRegistrations, CredentialRecord, Credentials, LogoutRecord, Logouts, PendingLogin, PendingLogins,
    RegistrationKey, Store, StoreError,
};

use crate::owner::Owner;
use crate::rows::{CredentialRow, LoginRows, LogoutRow, LogoutRows, PendingRow, RegistrationRow, RowError};

/// See the module. The vault is made with the first row that is written.
pub struct StoredRows {
    credentials: Credentials,
    pending: PendingLogins,
    registrations: ClientRegistrations,
    vault: Vault,
    preference: KeyPreference,
}

impl fmt::Debug for StoredRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredRows")
    }
}

impl From<StoreError> for RowError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<VaultError> for RowError {
    fn from(error: VaultError) -> Self {
        Self(error.to_string())
    }
}

impl StoredRows {
    /// The rows of `store`. `preference` says where a vault that has to be made keeps its key.
    pub fn new(store: &Store, vault: Vault, preference: KeyPreference) -> Self {
        Self {
            credentials: store.credentials(),
            pending: store.pending_logins(),
            registrations: store.client_registrations(),
            vault,
            preference,
        }
    }

    fn seal(&self, content: &Secret, row: &[&str]) -> Result<Vec<u8>, RowError> {
        Ok(self.vault.sealer(self.preference)?.seal(content.expose().as_bytes(), row))
    }

    /// What was sealed for a row; `None`, with a warning, for what cannot be opened any more: its owner logs in again.
    fn open(&self, sealed: &[u8], row: &[&str]) -> Result<Option<Secret>, RowError> {
        let opened = match self.vault.existing_sealer()? {
            Some(sealer) => text(&sealer, sealed, row),
            None => Err("the vault with its key is gone".to_owned()),
        };
        Ok(opened.inspect_err(|reason| tracing::warn!(?row, "a login cannot be read: {reason}")).ok())
    }
}

fn text(sealer: &Sealer, sealed: &[u8], row: &[&str]) -> Result<Secret, String> {
    let hinted = |error: SealError| format!("{error} ({})", error.hint());
    let plain = sealer.open(sealed, row).map_err(hinted)?;
    std::str::from_utf8(&plain).map(Secret::new).map_err(|_| "it holds no text".to_owned())
}

fn credential<'a>(owner: &'a Owner, server: &'a ServerName, issuer: &'a str, client_id: &'a str) -> [&'a str; 5] {
    ["credential", owner.as_str(), server.as_str(), issuer, client_id]
}

fn pending_login<'a>(owner: &'a Owner, server: &'a ServerName) -> [&'a str; 3] {
    ["pending_login", owner.as_str(), server.as_str()]
}

fn client_registration(key: &RegistrationKey) -> [&str; 4] {
    ["client_registration", key.server.as_str(), &key.issuer, &key.redirect]
}

fn registration_key(server: &ServerName, issuer: &str, redirect_uri: &str) -> RegistrationKey {
    RegistrationKey { server: server.clone(), issuer: issuer.to_owned(), redirect: redirect_uri.to_owned() }
}

fn principal(owner: &Owner) -> PrincipalId {
    PrincipalId::new(owner.as_str())
}

/// Logouts in the database. They have nothing to seal: a digest of a token is of no use to anyone.
impl LogoutRows for Logouts {
    fn logouts(&self) -> Result<Vec<LogoutRow>, RowError> {
        let row = |LogoutRecord { owner, server, tokens, expires_at }: LogoutRecord| LogoutRow {
            server,
            owner: Owner::of(Some(owner.as_str())),
            tokens,
            expires_at,
        };
        Ok(self.all()?.into_iter().map(row).collect())
    }

    fn put_logout(&self, row: &LogoutRow) -> Result<(), RowError> {
        let LogoutRow { server, owner, tokens, expires_at } = row.clone();
        self.put(&LogoutRecord { owner: principal(&owner), server, tokens, expires_at })?;
        Ok(())
    }

    fn remove_logout(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.remove(&principal(owner), server)?;
        Ok(())
    }
}

impl LoginRows for StoredRows {
    fn credential(&self, server: &ServerName, owner: &Owner) -> Result<Option<CredentialRow>, RowError> {
        let Some(stored) = self.credentials.get(&principal(owner), server)? else { return Ok(None) };
        let CredentialRecord { issuer, client_id, sealed, .. } = stored.record;
        let content = self.open(&sealed, &credential(owner, server, &issuer, &client_id))?;
        let (server, owner) = (server.clone(), owner.clone());
        Ok(content.map(|content| CredentialRow { server, owner, issuer, client_id, content }))
    }

    fn put_credential(&self, row: &CredentialRow) -> Result<(), RowError> {
        let CredentialRow { server, owner, issuer, client_id, content } = row;
        let record = CredentialRecord {
            owner: principal(owner),
            server: server.clone(),
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            sealed: self.seal(content, &credential(owner, server, issuer, client_id))?,
        };
        self.credentials.put(&record)?;
        Ok(())
    }

    fn remove_credential(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.credentials.remove(&principal(owner), server)?;
        Ok(())
    }

    fn pending(&self) -> Result<Vec<PendingRow>, RowError> {
        let mut rows = Vec::new();
        for PendingLogin { owner, server, sealed, expires_at } in self.pending.all()? {
            let owner = Owner::of(Some(owner.as_str()));
            if let Some(content) = self.open(&sealed, &pending_login(&owner, &server))? {
                rows.push(PendingRow { server, owner, expires_at, content });
            }
        }
        Ok(rows)
    }

    fn put_pending(&self, row: &PendingRow) -> Result<(), RowError> {
        let sealed = self.seal(&row.content, &pending_login(&row.owner, &row.server))?;
        let (owner, server) = (principal(&row.owner), row.server.clone());
        self.pending.put(&PendingLogin { owner, server, sealed, expires_at: row.expires_at })?;
        Ok(())
    }

    fn remove_pending(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.pending.remove(&principal(owner), server)?;
        Ok(())
    }

    fn registration(
        &self,
        server: &ServerName,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegistrationRow>, RowError> {
        let key = registration_key(server, issuer, redirect_uri);
        let Some(sealed) = self.registrations.get(&key)? else { return Ok(None) };
        let content = self.open(&sealed, &client_registration(&key))?;
        let RegistrationKey { server, issuer, redirect: redirect_uri } = key;
        Ok(content.map(|content| RegistrationRow { server, issuer, redirect_uri, content }))
    }

    fn put_registration(&self, row: &RegistrationRow) -> Result<(), RowError> {
        let key = registration_key(&row.server, &row.issuer, &row.redirect_uri);
        let sealed = self.seal(&row.content, &client_registration(&key))?;
        self.registrations.put(&key, &sealed)?;
        Ok(())
    }

    fn remove_registration(&self, server: &ServerName, issuer: &str, redirect_uri: &str) -> Result<(), RowError> {
        self.registrations.remove(&registration_key(server, issuer, redirect_uri))?;
        Ok(())
    }
}
