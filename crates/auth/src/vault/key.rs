//! Where the key of a vault lies: in the keyring of the person's session, else in a file beside the vault.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcrib_base::Secret;
use zeroize::Zeroizing;

use super::VaultError;
use super::crypt::Key;
use super::file;
use crate::keyring::{Keyring, KeyringError};

/// The longest key file that is read, in bytes.
const FILE_BYTES: u64 = 1_024;

/// Where the key of a new vault should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPreference {
    /// In the keyring where there is one, else in a file.
    Keyring,
    /// In a file, for machines where no one unlocks the keyring.
    File,
}

/// Where a key lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeyPlace {
    Keyring,
    File,
}

// === impl KeyPlace ===

impl KeyPlace {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::File => "file",
        }
    }

    /// Makes the key of a new vault. Call it with the lock held.
    pub(super) fn make(
        vault: &Path,
        keyring: Option<&dyn Keyring>,
        preference: KeyPreference,
    ) -> Result<(Key, Self), VaultError> {
        let path = file_of(vault);
        // Kept from a vault that was moved away, or put here on purpose.
        if let Some(key) = read_file(&path)? {
            return Ok((key, Self::File));
        }
        let key = Key::random();
        if let (KeyPreference::Keyring, Some(keyring)) = (preference, keyring) {
            match keyring.set(&entry(&key.id()), &Secret::new(key.to_text().as_str())) {
                Ok(()) => return Ok((key, Self::Keyring)),
                Err(KeyringError::Absent { .. }) => {}
                Err(error) => return Err(VaultError::Keyring(error)),
            }
        }
        let text = Zeroizing::new(format!("{}\n", key.to_text().as_str()));
        file::replace(&path, text.as_bytes(), std::io::Write::write_all)?;
        Ok((key, Self::File))
    }

    /// The key of a vault that is there. A key file counts wherever the vault says its key lies: it may have been put
    /// there for a machine without keyring.
    pub(super) fn find(self, vault: &Path, keyring: Option<&dyn Keyring>, wanted: &str) -> Result<Key, VaultError> {
        let path = file_of(vault);
        let none = |why: String| VaultError::NoKey { path: vault.to_owned(), wanted: wanted.to_owned(), why };
        let (key, place) = match (read_file(&path)?, self, keyring) {
            (Some(key), _, _) => (key, format!("`{}`", path.display())),
            (None, Self::File, _) => return Err(none(format!("there is no `{}`", path.display()))),
            (None, Self::Keyring, None) => {
                return Err(none("it is stored in a keyring, which cannot be reached from here".into()));
            }
            (None, Self::Keyring, Some(keyring)) => {
                let text = keyring.get(&entry(wanted)).map_err(VaultError::Keyring)?;
                let text = text.ok_or_else(|| none(format!("the keyring has no entry `{}`", entry(wanted))))?;
                let key = Key::from_text(text.expose());
                (key.ok_or_else(|| none("the keyring entry is not a key".into()))?, "the keyring".to_owned())
            }
        };
        let found = key.id();
        if found == wanted {
            return Ok(key);
        }
        Err(VaultError::WrongKey { path: vault.to_owned(), wanted: wanted.to_owned(), place, found })
    }
}

/// The name of the key in the keyring; each vault has its own.
fn entry(id: &str) -> String {
    format!("vault-key-{id}")
}

fn file_of(vault: &Path) -> PathBuf {
    file::beside(vault, ".key")
}

/// The key in the file; `None` when there is none.
fn read_file(path: &Path) -> Result<Option<Key>, VaultError> {
    let untrusted = |what: &str| VaultError::KeyFile { path: path.to_owned(), what: what.to_owned() };
    let failed = |source| VaultError::Io { act: "read", path: path.to_owned(), source };
    let Some((file, metadata)) = file::open_private(path).map_err(failed)? else { return Ok(None) };
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(untrusted("it belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(untrusted(&format!("its mode {:o} allows other users to read it", metadata.mode() & 0o777)));
    }
    let mut text = Zeroizing::new(String::new());
    let read = file.take(FILE_BYTES).read_to_string(&mut text);
    read.map_err(failed)?;
    Key::from_text(&text).map(Some).ok_or_else(|| untrusted("it contains no key of 64 hexadecimal digits"))
}
