//! The vault: one file of secrets, each encrypted for itself, written by several processes in turn.
//!
//! Who holds the file without its key learns names, reaches, dates and lengths, and no value. Who changes the file is
//! found out: values are bound to their names and reaches, and one seal covers all entries. Not prevented is putting an
//! older copy of the whole file in place of a newer one, and reading the key as the same user.

mod crypt;
mod file;
mod key;
mod reach;
mod sealer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_base::nearest::nearest;
use toolcrib_base::{Secret, Timestamp};

use crate::keyring::{Keyring, KeyringError};
use crypt::Key;
use file::{Contents, Entry, Stamp};
use key::KeyPlace;

pub use key::KeyPreference;
pub use reach::{EntryName, NameError, Reach, User};
pub use sealer::{SealError, Sealer};

/// The longest value, in bytes.
pub const VALUE_BYTES: usize = 64 * 1024;
/// How many entries a vault holds.
pub const ENTRIES: usize = 4_096;
/// How many servers, and how many profiles, an entry may name.
pub const REACH: usize = 256;

/// The secrets of one home. Clones are the same vault.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    /// `state/vault`; the key file and the lock lie beside it.
    path: PathBuf,
    keyring: Option<Arc<dyn Keyring>>,
    /// What was read last, good as long as the file is the same.
    read: Mutex<Option<Read>>,
    /// Writes the bytes of the new file; tests make it fail.
    write: file::Write,
}

#[derive(Clone)]
struct Read {
    stamp: Stamp,
    contents: Arc<Contents>,
    key: Key,
}

/// One entry without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// Its name.
    pub name: EntryName,
    /// Who may use it.
    pub reach: Reach,
    /// When its value was set last.
    pub set_at: Timestamp,
}

/// Why the vault did not do what was asked. Names entries, never values.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is no entry of this name.
    #[error("no secret `{name}` in the vault")]
    Unknown { name: EntryName, known: Vec<EntryName> },
    /// The entry is not for this user.
    #[error("secret `{name}` is not allowed here: {rule}")]
    Forbidden { name: EntryName, rule: String },
    /// The value is no text that a variable or a header can hold.
    #[error("value of `{name}` {what}")]
    Value { name: EntryName, what: &'static str },
    /// There is no room for one more.
    #[error("the vault `{path}` already holds {ENTRIES} secrets")]
    Full { path: PathBuf },
    /// The reach names too many.
    #[error("secret `{name}` lists more than {REACH} servers or profiles")]
    Wide { name: EntryName },
    /// The file was written with another key than the one that is here.
    #[error("the vault `{path}` was written with key `{wanted}`, but {place} holds key `{found}`")]
    WrongKey { path: PathBuf, wanted: String, place: String, found: String },
    /// The key is nowhere.
    #[error("cannot find the key `{wanted}` of the vault `{path}`: {why}")]
    NoKey { path: PathBuf, wanted: String, why: String },
    /// The key file can be read by others, or is not a key file.
    #[error("cannot trust the key file `{path}`: {what}")]
    KeyFile { path: PathBuf, what: String },
    /// The keyring has the key, or should get it, and does not answer.
    #[error("cannot use the keyring for the vault's key: {0}")]
    Keyring(#[source] KeyringError),
    /// The file is not what was written.
    #[error("the vault `{path}` is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    /// Another process does not let go of it.
    #[error("the vault `{path}` is being written by another process")]
    Busy { path: PathBuf },
    /// The disk refused.
    #[error("cannot {act} `{path}`: {source}")]
    Io { act: &'static str, path: PathBuf, source: io::Error },
}

// === impl VaultError ===

impl VaultError {
    /// The next step.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { name, known } => match nearest(name.as_str(), known.iter().map(EntryName::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("list secrets with `toolcrib secret list`, or set it with `toolcrib secret set {name}`")
                }
            },
            Self::Forbidden { name, .. } => {
                format!("allow it by setting it again: `toolcrib secret set {name} --server NAME`")
            }
            Self::Value { .. } => format!("use a value of 1 to {VALUE_BYTES} bytes"),
            Self::Full { .. } => "remove unused secrets with `toolcrib secret rm NAME`".into(),
            Self::Wide { .. } => "omit `--server` to allow every server".into(),
            Self::WrongKey { path, .. } | Self::NoKey { path, .. } => format!(
                "nothing was changed; restore the key, or move `{}` away and set the secrets again",
                path.display()
            ),
            Self::KeyFile { path, .. } => {
                format!(
                    "if no other user can have read it, own it and run `chmod 600 {0}`; otherwise move it and the \
                     vault away and set the secrets again",
                    path.display()
                )
            }
            Self::Keyring(error) => error.hint().into(),
            Self::Damaged { .. } => {
                "nothing was changed; restore the file from a backup, or move it away and set the secrets again".into()
            }
            Self::Busy { .. } => "try again".into(),
            Self::Io { .. } => "check the folder's owner, mode and free space; existing data is unchanged".into(),
        }
    }
}

// === impl Vault ===

impl Vault {
    /// The vault in the folder `state`. Nothing is read or made yet; `keyring` is where its key is kept if there is
    /// one.
    pub fn new(state: &Path, keyring: Option<Arc<dyn Keyring>>) -> Self {
        let inner = Inner {
            path: state.join("vault"),
            keyring,
            read: Mutex::new(None),
            write: |file, bytes| file.write_all(bytes),
        };
        Self(Arc::new(inner))
    }

    /// The same with another way to write, for tests of disks that are full.
    #[cfg(test)]
    fn writing_with(self, write: file::Write) -> Self {
        let Inner { path, keyring, .. } = &*self.0;
        Self(Arc::new(Inner { path: path.clone(), keyring: keyring.clone(), read: Mutex::new(None), write }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Something that changes whenever the file does; `None` while there is none.
    pub fn stamp(&self) -> Option<impl PartialEq + Clone + Send + Sync + fmt::Debug + use<>> {
        Stamp::of(&self.0.path).ok().flatten()
    }

    /// The value of an entry, for one who may use it. Blocks: it may read the file and ask the keyring.
    pub fn get(&self, name: &EntryName, user: &User<'_>) -> Result<Secret, VaultError> {
        let unknown = |known| VaultError::Unknown { name: name.clone(), known };
        let Some(read) = self.read()? else { return Err(unknown(Vec::new())) };
        let Some(entry) = read.contents.entries.iter().find(|entry| entry.name == *name) else {
            return Err(unknown(read.contents.names()));
        };
        if let Some(rule) = entry.reach.refusal(user) {
            return Err(VaultError::Forbidden { name: name.clone(), rule });
        }
        let value = read.contents.open(entry, &read.key).ok_or_else(|| self.damaged("cannot decrypt an entry"))?;
        Ok(Secret::new(value.as_str()))
    }

    /// All entries, by name. Blocks.
    pub fn list(&self) -> Result<Vec<SecretEntry>, VaultError> {
        let Some(read) = self.read()? else { return Ok(Vec::new()) };
        Ok(read.contents.entries.iter().map(Entry::listed).collect())
    }

    /// The values of all entries, whoever may use them: for what must recognise them and passes none on. Blocks.
    pub fn values(&self) -> Result<Vec<(EntryName, Secret)>, VaultError> {
        let Some(read) = self.read()? else { return Ok(Vec::new()) };
        let value = |entry: &Entry| {
            let value = read.contents.open(entry, &read.key).ok_or_else(|| self.damaged("cannot decrypt an entry"))?;
            Ok((entry.name.clone(), Secret::new(value.as_str())))
        };
        read.contents.entries.iter().map(value).collect()
    }

    /// Sets a value with its reach; what the entry was before is gone. Gives whether there was one. `preference` counts for
    /// the first entry only, when the key is made. Blocks.
    pub fn set(&self, entry: &SecretEntry, value: &Secret, preference: KeyPreference) -> Result<bool, VaultError> {
        self.set_all(&[(entry, value)], preference).map(|replaced| replaced > 0)
    }

    /// Sets several values in one step: all of them, or none where one is refused. Gives how many there were before.
    /// Otherwise as [`Vault::set`].
    pub fn set_all(&self, entries: &[(&SecretEntry, &Secret)], preference: KeyPreference) -> Result<usize, VaultError> {
        for (entry, value) in entries {
            check(entry, value)?;
        }
        if entries.is_empty() {
            return Ok(0);
        }
        let _lock = file::Lock::take(&self.0.path)?;
        let (mut contents, key) = match self.read()? {
            Some(read) => ((*read.contents).clone(), read.key),
            None => {
                let (key, place) = KeyPlace::make(&self.0.path, self.0.keyring.as_deref(), preference)?;
                (Contents::new(&key, place), key)
            }
        };
        let mut replaced = 0;
        for (entry, value) in entries {
            let before = contents.entries.iter().position(|there| there.name == entry.name);
            if before.is_none() && contents.entries.len() >= ENTRIES {
                return Err(VaultError::Full { path: self.0.path.clone() });
            }
            let entry = contents.seal_entry((*entry).clone(), value, &key);
            match before {
                Some(index) => contents.entries[index] = entry,
                None => contents.entries.push(entry),
            }
            replaced += usize::from(before.is_some());
        }
        self.write(contents, &key)?;
        Ok(replaced)
    }

    /// Takes an entry out. Blocks.
    pub fn remove(&self, name: &EntryName) -> Result<(), VaultError> {
        let unknown = |known| VaultError::Unknown { name: name.clone(), known };
        let _lock = file::Lock::take(&self.0.path)?;
        let Some(read) = self.read()? else { return Err(unknown(Vec::new())) };
        let mut contents = (*read.contents).clone();
        contents.entries.retain(|entry| entry.name != *name);
        if contents.entries.len() == read.contents.entries.len() {
            return Err(unknown(contents.names()));
        }
        self.write(contents, &read.key)
    }

    /// What seals rows of the database with the key of this vault; a vault without entries is made where there is none.
    /// `preference` counts then only. It keeps the key that the vault has now. Blocks.
    pub fn sealer(&self, preference: KeyPreference) -> Result<Sealer, VaultError> {
        if let Some(sealer) = self.existing_sealer()? {
            return Ok(sealer);
        }
        let _lock = file::Lock::take(&self.0.path)?;
        // Another process may have been faster.
        if let Some(sealer) = self.existing_sealer()? {
            return Ok(sealer);
        }
        let (key, place) = KeyPlace::make(&self.0.path, self.0.keyring.as_deref(), preference)?;
        self.write(Contents::new(&key, place), &key)?;
        Ok(Sealer::new(&key))
    }

    /// The same, with nothing made: `None` while there is no vault, and so no key. Blocks.
    pub fn existing_sealer(&self) -> Result<Option<Sealer>, VaultError> {
        Ok(self.read()?.map(|read| Sealer::new(&read.key)))
    }

    fn write(&self, mut contents: Contents, key: &Key) -> Result<(), VaultError> {
        contents.entries.sort_by(|one, other| one.name.cmp(&other.name));
        contents.seal(key);
        file::replace(&self.0.path, &contents.to_bytes(), self.0.write)
    }

    /// What the file holds, with the key that opens it; `None` while there is no file.
    fn read(&self) -> Result<Option<Read>, VaultError> {
        let path = &self.0.path;
        let Some(file::VaultFile { stamp, bytes }) = file::read(path, |stamp| self.known(stamp).is_none())? else {
            return Ok(None);
        };
        let Some(bytes) = bytes else { return Ok(self.known(&stamp)) };
        let contents = Contents::from_bytes(&bytes).map_err(|what| self.damaged(what))?;
        let key = match self.last_key().filter(|key| key.id() == contents.key_id) {
            Some(key) => key,
            None => contents.key_place.find(path, self.0.keyring.as_deref(), &contents.key_id)?,
        };
        if !contents.is_sealed_by(&key) {
            return Err(self.damaged("its seal is broken"));
        }
        let read = Read { stamp, contents: Arc::new(contents), key };
        *self.0.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(read.clone());
        Ok(Some(read))
    }

    fn known(&self, stamp: &Stamp) -> Option<Read> {
        let read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.as_ref().filter(|read| read.stamp == *stamp).cloned()
    }

    fn last_key(&self) -> Option<Key> {
        self.0.read.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|read| read.key.clone())
    }

    fn damaged(&self, what: impl Into<String>) -> VaultError {
        VaultError::Damaged { path: self.0.path.clone(), what: what.into() }
    }
}

/// Whether a value can be a variable or a header, and its entry is not too wide.
fn check(entry: &SecretEntry, value: &Secret) -> Result<(), VaultError> {
    let SecretEntry { name, reach, .. } = entry;
    let wrong = |what| Err(VaultError::Value { name: name.clone(), what });
    match value.expose() {
        "" => return wrong("is empty"),
        text if text.contains('\0') => return wrong("contains a NUL character"),
        text if text.len() > VALUE_BYTES => return wrong("is too long"),
        _ => {}
    }
    if reach.servers().len() > REACH || reach.profiles().len() > REACH {
        return Err(VaultError::Wide { name: name.clone() });
    }
    Ok(())
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vault").field(&self.0.path).finish()
    }
}
