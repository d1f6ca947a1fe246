//! Writing definitions on request: whole files, atomically, never over something that the writer has not seen.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use toolcrib_base::{Kind, Problem, random};

use crate::clients::digest;
use crate::definition_id::DefinitionId;
use crate::endpoint::Endpoint;
use crate::folder::{EXTENSIONS, not_text, read_at_most, read_bytes};
use crate::kind::DefinitionKind;
use crate::private::{MASK, is_harmless, is_name, is_secret_name, looks_secret};
use crate::problem::DefinitionProblem;
use crate::secret::SecretRef;
use crate::yaml;

mod change;
mod hidden;
mod journal;
mod policies;
mod scope;
mod settings;

pub use change::FileChange;
pub use journal::{ListedChange, ListedWrite, UndoError, WriteRecord};
pub(crate) use policies::POLICY_MAX;
pub use policies::{POLICIES, POLICY_EXTENSION, PolicyFileName};
pub use scope::WriteScope;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A definition to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub which: DefinitionId,
    pub text: String,
    /// Of the one that it replaces; `None` where there must be none.
    pub revision: Option<String>,
}

/// A definition's file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFile {
    /// Relative to the home folder.
    pub file: PathBuf,
    /// A digest of the text; anyone who replaces it says which text is meant.
    pub revision: String,
    text: String,
}

/// The files under one home folder. One writer at a time.
#[derive(Debug)]
pub struct Files {
    home: PathBuf,
    turn: Mutex<()>,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("`{0}` already exists")]
    Exists(PathBuf),
    #[error("definition of `{0}` not found")]
    Missing(String),
    #[error("`{0}` has changed since it was read")]
    Changed(PathBuf),
    #[error("`{0}` is a symbolic link or not a file")]
    NotOurs(PathBuf),
    #[error("the definition is not valid")]
    Bad(Vec<DefinitionProblem>),
    #[error("nothing was written: this is only a preview")]
    Rehearsed,
    #[error("cannot write `{file}`: {source}")]
    Io { file: PathBuf, source: io::Error },
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        let text = error.to_string();
        match error {
            WriteError::Exists(_) => Problem::new(Kind::Conflict, text).hint("Choose another name, or update it."),
            WriteError::Missing(_) => Problem::new(Kind::NotFound, text),
            WriteError::Rehearsed => Problem::new(Kind::Conflict, text),
            WriteError::Changed(_) => {
                Problem::new(Kind::Stale, text).hint("Read it again and apply the change to the current version.")
            }
            WriteError::NotOurs(_) => {
                Problem::new(Kind::Conflict, text).hint("Edit or remove it by hand: Toolcrib does not follow links.")
            }
            WriteError::Bad(problems) => {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                let problem = Problem::new(Kind::Definition, lines.join("\n"));
                match problems.iter().find_map(|problem| problem.hint.clone()) {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                }
            }
            WriteError::Io { .. } => Problem::new(Kind::Internal, text).hint(
                "Check the free space on the disk and the folder's \
                                                         permissions.",
            ),
        }
    }
}

// === impl DefinitionFile ===

impl DefinitionFile {
    fn new(file: &Path, text: String) -> Self {
        Self { file: file.to_owned(), revision: digest(text.as_bytes()), text }
    }

    /// The whole text, with whatever lies in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// This text, made to say what `text` says, with its comments and its order kept where its form allows that; otherwise
    /// `text` as it is.
    pub fn amended(&self, which: &DefinitionId, text: &str) -> String {
        let read = |text: &str| which.value(text);
        let amended = match (self.value(which), which.value(text)) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                yaml::amend(&self.text, &before, &after, &read)
            }
            _ => None,
        };
        amended.unwrap_or_else(|| text.to_owned())
    }

    /// What it says, secrets included; `None` when it is no YAML.
    pub fn value(&self, which: &DefinitionId) -> Option<Value> {
        which.value(&self.text)
    }

    /// What the file says, with `****` for every value that may be a secret; `None` when it is no YAML.
    pub fn shown(&self, which: &DefinitionId) -> Option<Value> {
        let mut value = which.value(&self.text)?;
        if !value.is_object() {
            // A file that is something else altogether, such as a link to a token.
            return Some(MASK.into());
        }
        for key in ["env", "headers"] {
            if let Some(values) = value.get_mut(key) {
                *values = shown_values(values);
            }
        }
        // Those of workflows and service classes are declared there, and given elsewhere.
        let are_declared = matches!(which.kind(), DefinitionKind::Workflow | DefinitionKind::ServiceClass);
        if let Some(args) = value.get_mut("args").filter(|_| !are_declared) {
            *args = shown_args(args);
        }
        for key in ["url", "homepage"] {
            if let Some(value) = value.get_mut(key) {
                let address = value.as_str().and_then(|text| text.parse::<Endpoint>().ok());
                *value = address.map_or_else(|| MASK.into(), |address| address.to_string().into());
            }
        }
        if let Some(auth) = value.get_mut("auth") {
            *auth = shown_auth(auth);
        }
        let has_keys = |keys: &&mut Value| keys.as_array().is_none_or(|keys| !keys.is_empty());
        if let Some(keys) = value.get_mut("keys").filter(has_keys) {
            *keys = MASK.into();
        }
        Some(value)
    }
}

/// `env` or `headers`: references stay, and so do names that are nothing but names.
fn shown_values(values: &Value) -> Value {
    let Some(members) = values.as_object() else { return MASK.into() };
    let shown = members.iter().map(|(name, value)| {
        let is_secret = !value.as_str().is_some_and(is_reference);
        let name = if is_name(name) { name.clone() } else { MASK.to_owned() };
        (name, if is_secret { MASK.into() } else { value.clone() })
    });
    Value::Object(shown.collect())
}

/// Whether a text says where a secret is, and is none itself.
fn is_reference(text: &str) -> bool {
    text.parse().is_ok_and(|parsed| !matches!(parsed, SecretRef::Literal(_)))
}

/// `args`: those that look like secrets, and those that come with a flag that is named like one.
fn shown_args(args: &Value) -> Value {
    let Some(args) = args.as_array() else { return if args.is_null() { Value::Null } else { MASK.into() } };
    let mut follows_secret = false;
    let shown = args.iter().map(|arg| {
        let Some(text) = arg.as_str() else { return arg.clone() };
        let flag = text.starts_with('-').then(|| text.split_once('=').unwrap_or((text, "")));
        let was_flag = std::mem::replace(
            &mut follows_secret,
            flag.is_some_and(|(name, value)| is_secret_name(name) && value.is_empty() && !text.ends_with('=')),
        );
        match flag {
            Some((name, value)) if is_secret_name(name) && !is_harmless(value) => format!("{name}={MASK}").into(),
            _ if looks_secret(text) || (was_flag && flag.is_none() && !is_harmless(text)) => MASK.into(),
            _ => arg.clone(),
        }
    });
    Value::Array(shown.collect())
}

/// What of `auth` is no secret, no matter who wrote it: these keys and nothing else.
const OPEN_AUTH: [&str; 26] = [
    "type",
    "client_id",
    "private",
    "share",
    "forwardToken",
    "fallbackToOwnAuth",
    "requiredAudiences",
    "anyAudience",
    "key_id",
    "identityProvider",
    "clientId",
    "teleport",
    "identityDir",
    "identitySecretName",
    "identitySecretNamespace",
    "appName",
    "tokenExchange",
    "enabled",
    "expectedIssuer",
    "connectorID",
    "connectorId",
    "scopes",
    "authorizationServer",
    "clientCredentialsSecretRef",
    "name",
    "namespace",
];
/// Keys of `auth` with addresses, which may hold a password.
const AUTH_ADDRESSES: [&str; 5] = ["dexTokenEndpoint", "issuer", "redirect_uri", "token_endpoint", "tokenEndpoint"];

fn shown_auth(auth: &Value) -> Value {
    let Some(members) = auth.as_object() else { return MASK.into() };
    let shown = members.iter().map(|(key, value)| {
        let value = match value {
            Value::String(text) if AUTH_ADDRESSES.contains(&key.as_str()) => {
                text.parse::<Endpoint>().map_or_else(|_| MASK.into(), |address| address.to_string().into())
            }
            Value::String(text) if key == "client_secret" && is_reference(text) => value.clone(),
            _ if !OPEN_AUTH.contains(&key.as_str()) => MASK.into(),
            Value::Object(_) => shown_auth(value),
            Value::Array(items) if items.iter().any(|item| !item.is_string()) => MASK.into(),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(shown.collect())
}

// === impl Files ===

impl Files {
    /// The files of this home.
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), turn: Mutex::new(()) }
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The file that defines it. Reads files: not for the thread of an async runtime, as all that follows.
    pub fn read(&self, which: &DefinitionId) -> Result<Option<DefinitionFile>, WriteError> {
        for extension in EXTENSIONS {
            let file = which.file(extension);
            let path = self.home.join(&file);
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(WriteError::Io { file, source }),
                Ok(_) => {}
            }
            let bytes = read_bytes(&path)
                .map_err(|message| WriteError::Bad(vec![DefinitionProblem::of_file(&file, message)]))?;
            return Ok(Some(DefinitionFile::new(&file, String::from_utf8_lossy(&bytes).into_owned())));
        }
        Ok(None)
    }

    /// Writes a new definition. One that is there already stays as it is.
    pub fn create(&self, which: &DefinitionId, text: &str) -> Result<DefinitionFile, WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        which.check(text).map_err(WriteError::Bad)?;
        if let Some(there) = self.existing(which)? {
            return Err(WriteError::Exists(there));
        }
        let file = which.file(EXTENSIONS[0]);
        let changes = [FileChange::new(&file, None, Some(text))];
        self.make(&changes, || self.put(&file, text, None))?;
        Ok(DefinitionFile::new(&file, text.to_owned()))
    }

    /// Puts a whole new text in the place of the one with this revision.
    pub fn replace(&self, which: &DefinitionId, text: &str, revision: &str) -> Result<DefinitionFile, WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        which.check(text).map_err(WriteError::Bad)?;
        let before = self.own(which, Some(revision))?;
        let mode = self.mode(&before.file);
        let changes = [FileChange::new(&before.file, self.bytes(&before.file), Some(text))];
        self.make(&changes, || self.put(&before.file, text, Some(mode)))?;
        Ok(DefinitionFile::new(&before.file, text.to_owned()))
    }

    /// Writes several definitions: all of them, or none. Their order is that of the writing, so anyone who needs
    /// another comes after it. What a crash leaves behind is whole files.
    pub fn put_all(&self, changes: &[Change]) -> Result<Vec<DefinitionFile>, WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = Vec::new();
        for change in changes {
            change.which.check(&change.text).map_err(WriteError::Bad)?;
            before.push(match &change.revision {
                Some(revision) => Some(self.own(&change.which, Some(revision))?),
                None => match self.existing(&change.which)? {
                    Some(there) => return Err(WriteError::Exists(there)),
                    None => None,
                },
            });
        }
        let file_of = |change: &Change, there: &Option<DefinitionFile>| {
            there.as_ref().map_or_else(|| change.which.file(EXTENSIONS[0]), |there| there.file.clone())
        };
        let all: Vec<FileChange> = changes
            .iter()
            .zip(&before)
            .map(|(change, there)| {
                let bytes = there.as_ref().and_then(|there| self.bytes(&there.file));
                FileChange::new(&file_of(change, there), bytes, Some(&change.text))
            })
            .collect();
        let mut done: Vec<DefinitionFile> = Vec::new();
        self.make(&all, || {
            for (change, there) in changes.iter().zip(&before) {
                let file = file_of(change, there);
                let mode = there.as_ref().map(|there| self.mode(&there.file));
                if let Err(error) = self.put(&file, &change.text, mode) {
                    self.take_back(&done, &before);
                    return Err(error);
                }
                done.push(DefinitionFile::new(&file, change.text.clone()));
            }
            Ok(())
        })?;
        Ok(done)
    }

    /// Makes changes, unless they are only rehearsed or not those that were seen, and keeps them so that they can be undone.
    fn make(&self, changes: &[FileChange], put: impl FnOnce() -> Result<(), WriteError>) -> Result<(), WriteError> {
        WriteScope::begin(changes)?;
        put().inspect_err(|error| WriteScope::note_failed(changes, error))?;
        self.keep(changes);
        Ok(())
    }

    fn mode(&self, file: &Path) -> u32 {
        fs::metadata(self.home.join(file)).map_or(FILE_MODE, |now| now.permissions().mode() & 0o777)
    }

    /// Takes back what was written. What cannot be taken back stays: the error that led here is reported.
    fn take_back(&self, done: &[DefinitionFile], before: &[Option<DefinitionFile>]) {
        for (written, before) in done.iter().zip(before).rev() {
            let _ = match before {
                Some(before) => self.put(&before.file, &before.text, Some(self.mode(&before.file))),
                None => fs::remove_file(self.home.join(&written.file))
                    .map_err(|source| WriteError::Io { file: written.file.clone(), source }),
            };
        }
    }

    /// Removes a definition; with a revision only if that is what is there.
    pub fn remove(&self, which: &DefinitionId, revision: Option<&str>) -> Result<PathBuf, WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.own(which, revision)?;
        let changes = [FileChange::new(&before.file, self.bytes(&before.file), None)];
        self.make(&changes, || self.delete_file(&before.file))?;
        Ok(before.file)
    }

    fn delete_file(&self, file: &Path) -> Result<(), WriteError> {
        fs::remove_file(self.home.join(file)).map_err(|source| WriteError::Io { file: file.to_owned(), source })?;
        self.sync_folder(file);
        Ok(())
    }

    /// The bytes of an ordinary file of at most so many; `None` where there is none.
    fn ordinary(&self, file: &Path, most: u64) -> Result<Option<Vec<u8>>, WriteError> {
        let path = self.home.join(file);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(WriteError::Io { file: file.to_owned(), source }),
            // What a link points to lies elsewhere and belongs to someone else.
            Ok(now) if !now.is_file() => Err(WriteError::NotOurs(file.to_owned())),
            Ok(_) => {
                let bad = |message| WriteError::Bad(vec![DefinitionProblem::of_file(file, message)]);
                read_at_most(&path, most).map(Some).map_err(bad)
            }
        }
    }

    /// The path of whatever stands where the definition would.
    fn existing(&self, which: &DefinitionId) -> Result<Option<PathBuf>, WriteError> {
        for extension in EXTENSIONS {
            let file = which.file(extension);
            match fs::symlink_metadata(self.home.join(&file)) {
                Ok(_) => return Ok(Some(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(WriteError::Io { file, source }),
            }
        }
        Ok(None)
    }

    /// The file, if it is an ordinary one and has this revision.
    fn own(&self, which: &DefinitionId, revision: Option<&str>) -> Result<DefinitionFile, WriteError> {
        let file = self.existing(which)?.ok_or_else(|| WriteError::Missing(which.name().to_owned()))?;
        // What a link points to lies elsewhere and belongs to someone else.
        if !fs::symlink_metadata(self.home.join(&file)).is_ok_and(|now| now.is_file()) {
            return Err(WriteError::NotOurs(file));
        }
        let Some(now) = self.read(which)? else { return Err(WriteError::Missing(which.name().to_owned())) };
        if revision.is_some_and(|expected| expected != now.revision) {
            return Err(WriteError::Changed(now.file));
        }
        Ok(now)
    }

    /// Writes beside the file and moves it into place in one step; anyone who reads sees the old text or the new one.
    /// With
    /// `mode` it replaces, without it must be new.
    pub(crate) fn put(&self, file: &Path, text: &str, mode: Option<u32>) -> Result<(), WriteError> {
        self.put_bytes(file, text.as_bytes(), mode)
    }

    fn put_bytes(&self, file: &Path, bytes: &[u8], mode: Option<u32>) -> Result<(), WriteError> {
        let failed = |source| WriteError::Io { file: file.to_owned(), source };
        let path = self.home.join(file);
        let folder = path.parent().unwrap_or(&self.home);
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(failed)?;
        let temporary = folder.join(format!(".new-{}", random::hex_128()));
        let written = (|| {
            let mut new = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
            new.set_permissions(Permissions::from_mode(mode.unwrap_or(FILE_MODE)))?;
            new.write_all(bytes)?;
            new.sync_all()?;
            match mode {
                Some(_) => fs::rename(&temporary, &path),
                // Unlike a rename, a link never replaces what someone else has just put there.
                None => fs::hard_link(&temporary, &path),
            }
        })();
        // After a rename it is gone; after anything else it must not stay.
        let _ = fs::remove_file(&temporary);
        match written {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(WriteError::Exists(file.to_owned())),
            Err(error) => Err(failed(error)),
            Ok(()) => {
                self.sync_folder(file);
                Ok(())
            }
        }
    }

    /// So that the change outlives a power cut. Not every file system can; the file itself is there all the same.
    fn sync_folder(&self, file: &Path) {
        if let Some(folder) = self.home.join(file).parent() {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
    }
}

/// The text of a file.
fn text_of<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, WriteError> {
    std::str::from_utf8(bytes).map_err(|error| WriteError::Bad(vec![not_text(file, &bytes[..error.valid_up_to()])]))
}

#[cfg(test)]
mod tests;
