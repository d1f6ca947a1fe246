//! References to secrets of every kind, resolved for one server: our own environment and files, the vault, the keyring.

use std::sync::Arc;

use toolcrib_auth::{
    EntryName, KeyPreference, Keyring, KeyringError, Reach, SecretEntry, SecretService, User, Vault, VaultError,
};
use toolcrib_base::{Clock, Kind, Problem, Secret, SystemClock};
use toolcrib_catalog::{LocalSecrets, ResolveSecret, SecretError, SecretRef, SecretUser};
use toolcrib_gateway::{KeepSecrets, KeptSecret};

use crate::home::{Environment, Home};

/// All that secrets of this home may come from.
#[derive(Debug)]
pub(crate) struct HomeSecrets {
    local: LocalSecrets,
    vault: Vault,
    keyring: Option<Arc<dyn Keyring>>,
}

/// The vault of a home, with the keyring of this session.
pub(crate) fn vault(home: &Home, environment: &Environment) -> Vault {
    Vault::new(&home.state(), keyring(environment))
}

fn keyring(environment: &Environment) -> Option<Arc<dyn Keyring>> {
    let session =
        SecretService::of_session(environment.get("DBUS_SESSION_BUS_ADDRESS"), environment.get("XDG_RUNTIME_DIR"))?;
    Some(Arc::new(session))
}

/// The problem behind an error of the vault.
pub(crate) fn problem(error: &VaultError) -> Problem {
    let kind = match error {
        VaultError::Unknown { .. } => Kind::NotFound,
        VaultError::Forbidden { .. } => Kind::Forbidden,
        VaultError::Value { .. } | VaultError::Wide { .. } => Kind::InvalidParams,
        VaultError::Full { .. } => Kind::TooLarge,
        VaultError::Busy { .. } => Kind::Busy,
        VaultError::WrongKey { .. }
        | VaultError::NoKey { .. }
        | VaultError::KeyFile { .. }
        | VaultError::Keyring(_)
        | VaultError::Damaged { .. }
        | VaultError::Io { .. } => Kind::Internal,
    };
    Problem::new(kind, error.to_string()).hint(error.hint())
}

/// An entry of this session's keyring, or why it cannot be had.
pub(crate) fn of_keyring(name: &str, environment: &Environment) -> Result<Secret, String> {
    let keyring = keyring(environment).ok_or("this process is not part of a desktop session, so it has no keyring")?;
    let entry = keyring.get(name).map_err(|error| error.to_string())?;
    entry.ok_or_else(|| format!("the keyring has no entry `{name}`"))
}

// === impl HomeSecrets ===

impl HomeSecrets {
    pub(crate) fn new(home: &Home, environment: &Environment) -> Self {
        let (local, keyring) = (LocalSecrets::new(home.path()), keyring(environment));
        Self { local, vault: Vault::new(&home.state(), keyring.clone()), keyring }
    }

    /// The vault, to see when it changes.
    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// A secret that the gateway uses itself, for no server. May read files: not for the thread of an async runtime.
    pub(crate) fn own(&self, reference: &SecretRef) -> Result<Secret, SecretError> {
        self.find(reference, &User { server: None, profile: None })
    }

    fn find(&self, reference: &SecretRef, user: &User<'_>) -> Result<Secret, SecretError> {
        match reference {
            SecretRef::Vault(name) => self.vault_entry(name, reference, user),
            SecretRef::Keyring(name) => self.keyring_entry(name, reference),
            SecretRef::Literal(_) | SecretRef::Env(_) | SecretRef::File(_) | SecretRef::User(_) => {
                self.local.read(reference)
            }
        }
    }

    fn vault_entry(&self, name: &str, reference: &SecretRef, user: &User<'_>) -> Result<Secret, SecretError> {
        let elsewhere = |why: String, hint: String| SecretError::Elsewhere { reference: reference.clone(), why, hint };
        let name = EntryName::new(name).map_err(|error| elsewhere(error.to_string(), String::new()))?;
        self.vault.get(&name, user).map_err(|error| elsewhere(error.to_string(), error.hint()))
    }

    fn keyring_entry(&self, name: &str, reference: &SecretRef) -> Result<Secret, SecretError> {
        let elsewhere = |error: &KeyringError| SecretError::Elsewhere {
            reference: reference.clone(),
            why: error.to_string(),
            hint: error.hint().to_owned(),
        };
        let absent = || KeyringError::Absent { why: "this process is not part of a desktop session".into() };
        let keyring = self.keyring.as_ref().ok_or_else(|| elsewhere(&absent()))?;
        keyring.get(name).map_err(|error| elsewhere(&error))?.ok_or_else(|| SecretError::Elsewhere {
            reference: reference.clone(),
            why: "the keyring has no such entry".into(),
            hint: format!(
                "create it, for example with `secret-tool store --label=toolcrib service toolcrib username {name}`"
            ),
        })
    }
}

impl ResolveSecret for HomeSecrets {
    fn resolve(&self, reference: &SecretRef, user: &SecretUser<'_>) -> Result<Secret, SecretError> {
        self.find(reference, &User { server: Some(user.server), profile: user.profile })
    }
}

impl KeepSecrets for HomeSecrets {
    fn list(&self) -> Result<Vec<KeptSecret>, Problem> {
        let entries = self.vault.list().map_err(|error| problem(&error))?;
        let kept = entries.into_iter().map(|entry| KeptSecret {
            name: entry.name.as_str().to_owned(),
            servers: entry.reach.servers().to_vec(),
            profiles: entry.reach.profiles().to_vec(),
            set_at: entry.set_at.to_string(),
        });
        Ok(kept.collect())
    }

    fn set(&self, secret: &KeptSecret, value: &Secret) -> Result<bool, Problem> {
        let entry = SecretEntry {
            name: named(&secret.name)?,
            reach: Reach::new(secret.servers.clone(), secret.profiles.clone()),
            set_at: SystemClock.now(),
        };
        self.vault.set(&entry, value, KeyPreference::Keyring).map_err(|error| problem(&error))
    }

    fn values(&self) -> Result<Vec<(String, Secret)>, Problem> {
        let values = self.vault.values().map_err(|error| problem(&error))?;
        Ok(values.into_iter().map(|(name, value)| (format!("vault:{}", name.as_str()), value)).collect())
    }

    fn seal(&self, row: &[&str], value: &Secret) -> Result<Vec<u8>, Problem> {
        let sealer = self.vault.sealer(KeyPreference::Keyring).map_err(|error| problem(&error))?;
        Ok(sealer.seal(value.expose().as_bytes(), row))
    }

    fn open(&self, row: &[&str], sealed: &[u8]) -> Result<Secret, Problem> {
        let sealer = self.vault.existing_sealer().map_err(|error| problem(&error))?;
        let sealer = sealer.ok_or_else(|| Problem::new(Kind::Unavailable, "the vault with the key is gone"))?;
        let plain = sealer.open(sealed, row).map_err(|error| Problem::new(Kind::Unavailable, error.to_string()))?;
        let text = std::str::from_utf8(&plain).map_err(|error| Problem::new(Kind::Unavailable, error.to_string()))?;
        Ok(Secret::new(text))
    }

    fn remove(&self, name: &str) -> Result<(), Problem> {
        self.vault.remove(&named(name)?).map_err(|error| problem(&error))
    }
}

fn named(name: &str) -> Result<EntryName, Problem> {
    EntryName::new(name).map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))
}
