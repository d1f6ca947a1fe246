//! What was written lately, with what was there before: so that a write can be shown and undone, byte for byte. Records
//! lie in `state/writes`, for their owner only, as definitions do. And writes that are only rehearsed, to show them first.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolcrib_base::{Clock, Kind, Problem, SystemClock, random};

use super::policies::POLICIES;
use super::{DefinitionFile, Files, WriteError};
use crate::clients::{difference as lines_that_differ, file_stamp};
use crate::definition_id::DefinitionId;
use crate::kind::DefinitionKind;
use crate::private::looks_secret;
use crate::yaml;

/// Where records are, below the home folder.
const FOLDER: &str = "state/writes";
/// How many writes are kept.
const MOST: usize = 100;
/// The largest record that is kept, in bytes of both texts.
const BYTES: usize = 8 * 1024 * 1024;

/// A file before and after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the home folder.
    pub file: PathBuf,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

/// A write: one file, or several that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRecord {
    /// Its name; those of later writes sort behind it.
    pub id: String,
    /// When it was, as in the name.
    pub at: String,
    /// The files.
    pub files: Vec<FileChange>,
}

/// Why a write was not undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error("no write `{0}` is kept")]
    Unknown(String),
    #[error("`{}` was changed since:\n{since}\nundoing would lose that and change:\n{undo}", file.display())]
    ChangedSince { file: PathBuf, since: String, undo: String },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Changes that are not made: what runs in one is told so where it would write.
#[derive(Debug, Default)]
pub struct Rehearsal(Mutex<Vec<FileChange>>);

thread_local! {
    static REHEARSAL: RefCell<Option<Arc<Rehearsal>>> = const { RefCell::new(None) };
}

impl From<UndoError> for Problem {
    fn from(error: UndoError) -> Self {
        let text = error.to_string();
        match error {
            UndoError::Unknown(_) => {
                Problem::new(Kind::NotFound, text).hint("List them with `toolcrib api write-list`.")
            }
            UndoError::ChangedSince { .. } => Problem::new(Kind::Stale, text)
                .hint("Nothing was written. Edit the file, or undo the later change first."),
            UndoError::Write(error) => error.into(),
        }
    }
}

// === impl FileChange ===

impl FileChange {
    pub(super) fn new(file: &Path, before: Option<Vec<u8>>, after: Option<&str>) -> Self {
        Self { file: file.to_owned(), before, after: after.map(|text| text.as_bytes().to_vec()) }
    }

    /// `added`, `changed` or `removed`.
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(_), Some(_)) => "changed",
        }
    }

    /// The lines that change, secrets as `****`; empty where there are none.
    pub fn difference(&self) -> String {
        difference(&self.file, self.before.as_deref(), self.after.as_deref())
    }

    fn to_value(&self) -> Value {
        let encoded = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
        json!({ "file": self.file.to_string_lossy(), "before": encoded(&self.before), "after": encoded(&self.after) })
    }

    fn of_value(value: &Value) -> Option<Self> {
        let decoded = |key: &str| match value.get(key) {
            Some(Value::String(text)) => STANDARD.decode(text).ok().map(Some),
            _ => Some(None),
        };
        let file = PathBuf::from(value["file"].as_str()?);
        // A record leads to no place but one below the home folder.
        let is_below = file.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_below.then_some(Self { file, before: decoded("before")?, after: decoded("after")? })
    }

    fn size(&self) -> usize {
        [&self.before, &self.after].into_iter().flatten().map(Vec::len).sum()
    }
}

/// The lines that differ in two texts of a file, secrets as `****`.
fn difference(file: &Path, before: Option<&[u8]>, after: Option<&[u8]>) -> String {
    let both = [before, after].map(|bytes| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
    let has_secret = both.iter().flatten().any(|text| shown(file, text).is_none());
    let text = |text: &Option<String>| match text {
        Some(text) if has_secret => masked(file, text),
        Some(text) => text.clone(),
        None => String::new(),
    };
    lines_that_differ(&text(&both[0]), &text(&both[1]), &str::to_owned)
}

/// The definition that a file is of.
fn definition(file: &Path) -> Option<DefinitionId> {
    let folder = file.parent()?.to_str()?;
    let kind = DefinitionKind::ALL.iter().copied().find(|kind| kind.folder() == folder)?;
    DefinitionId::new(kind, file.file_stem()?.to_str()?).ok()
}

/// The text as it is, where nothing in it may be a secret.
fn shown<'a>(file: &Path, text: &'a str) -> Option<&'a str> {
    // Policies have no place for secrets.
    let is_policy = file.parent() == Some(Path::new(POLICIES));
    let says_all = || {
        let which = definition(file)?;
        let written = DefinitionFile::new(file, text.to_owned());
        Some(written.value(&which)? == written.shown(&which)?)
    };
    let is_open = (is_policy || says_all()?)
        && !text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',')).any(looks_secret);
    is_open.then_some(text)
}

/// What a text says, without its comments and with `****` for what may be a secret.
fn masked(file: &Path, text: &str) -> String {
    let value = definition(file).and_then(|which| DefinitionFile::new(file, text.to_owned()).shown(&which));
    value.filter(Value::is_object).map_or_else(|| "****\n".to_owned(), |value| yaml::render(&value))
}

// === impl Rehearsal ===

impl Rehearsal {
    /// Does something on this thread whose writes of definitions are only noted: each ends with [`WriteError::Rehearsed`].
    pub fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                REHEARSAL.with(|rehearsal| rehearsal.borrow_mut().take());
            }
        }
        REHEARSAL.with(|rehearsal| rehearsal.borrow_mut().replace(Arc::clone(self)));
        let _end = End;
        work()
    }

    /// What would have been written.
    pub fn changes(&self) -> Vec<FileChange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// === impl Files ===

impl Files {
    /// Ends a write that is only rehearsed.
    pub(super) fn rehearse(changes: &[FileChange]) -> Result<(), WriteError> {
        REHEARSAL.with(|rehearsal| match &*rehearsal.borrow() {
            Some(rehearsal) => {
                rehearsal.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(changes);
                Err(WriteError::Rehearsed)
            }
            None => Ok(()),
        })
    }

    /// The bytes of a file.
    pub(super) fn bytes(&self, file: &Path) -> Option<Vec<u8>> {
        let path = self.home.join(file);
        fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        fs::read(path).ok()
    }

    /// Keeps what was written. A write that cannot be kept is no worse for that: it cannot be undone.
    pub(super) fn keep(&self, changes: &[FileChange]) {
        if self.home.as_os_str().is_empty() || changes.iter().map(FileChange::size).sum::<usize>() > BYTES {
            return;
        }
        let id = format!("{}-{}", file_stamp(SystemClock.now()), &random::hex_128()[..8]);
        let record = json!({ "files": changes.iter().map(FileChange::to_value).collect::<Vec<_>>() });
        let file = Path::new(FOLDER).join(format!("{id}.json"));
        if let Err(error) = self.put(&file, &record.to_string(), None) {
            tracing::warn!(%error, "a write is not kept, so it cannot be undone");
            return;
        }
        for old in self.names().iter().rev().skip(MOST) {
            let _ = fs::remove_file(self.home.join(FOLDER).join(format!("{old}.json")));
        }
    }

    /// The ids of what is kept, oldest first.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.join(FOLDER)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    /// The last write that is kept.
    pub fn newest_write(&self) -> Option<String> {
        self.names().pop()
    }

    /// The writes that are kept, the last one first.
    pub fn writes(&self) -> Vec<WriteRecord> {
        self.names().iter().rev().filter_map(|id| self.write_record(id).ok()).collect()
    }

    /// A write that is kept.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn write_record(&self, id: &str) -> Result<WriteRecord, UndoError> {
        let unknown = || UndoError::Unknown(id.chars().take(64).collect());
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(unknown());
        }
        let bytes = self.bytes(&Path::new(FOLDER).join(format!("{id}.json"))).ok_or_else(unknown)?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| unknown())?;
        let files = value["files"].as_array().and_then(|files| files.iter().map(FileChange::of_value).collect());
        let at = id.split('-').next().unwrap_or_default().to_owned();
        Ok(WriteRecord { id: id.to_owned(), at, files: files.ok_or_else(unknown)? })
    }

    /// Says why a write cannot be undone: a file is not what it left.
    ///
    /// # Errors
    /// Both differences: what was changed since, and what undoing would change.
    pub fn check_undo(&self, record: &WriteRecord) -> Result<(), UndoError> {
        for change in &record.files {
            let now = self.bytes(&change.file);
            if now != change.after {
                return Err(UndoError::ChangedSince {
                    since: difference(&change.file, change.after.as_deref(), now.as_deref()),
                    undo: difference(&change.file, now.as_deref(), change.before.as_deref()),
                    file: change.file.clone(),
                });
            }
        }
        Ok(())
    }

    /// Makes the files of a write what they were before it, byte for byte, where they still are what it left. Undoing is
    /// a write itself, and can be undone.
    ///
    /// # Errors
    /// There is no such write, a file was changed since, or cannot be written.
    pub fn undo(&self, id: &str) -> Result<WriteRecord, UndoError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.write_record(id)?;
        self.check_undo(&record)?;
        let mut done = Vec::new();
        for change in record.files.iter().rev() {
            let back =
                FileChange { file: change.file.clone(), before: change.after.clone(), after: change.before.clone() };
            if let Err(error) = self.restore(&back) {
                // What was put back so far goes again; what cannot is reported by the error that led here.
                for done in done.iter().rev() {
                    let FileChange { file, before, after } = done;
                    let _ =
                        self.restore(&FileChange { file: file.clone(), before: after.clone(), after: before.clone() });
                }
                return Err(error.into());
            }
            done.push(back);
        }
        self.keep(&done);
        Ok(record)
    }

    fn restore(&self, change: &FileChange) -> Result<(), WriteError> {
        let failed = |source: io::Error| WriteError::Io { file: change.file.clone(), source };
        match &change.after {
            Some(bytes) => {
                let mode = change.before.as_ref().map(|_| self.mode(&change.file));
                self.put_bytes(&change.file, bytes, mode)
            }
            None => {
                fs::remove_file(self.home.join(&change.file)).map_err(failed)?;
                self.sync_folder(&change.file);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "# kept\nname: a\ncommand: x\n";
    const SECOND: &str = "# kept\nname: a\ncommand: y # why\n";

    fn home() -> (tempfile::TempDir, Files, DefinitionId) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        (folder, files, DefinitionId::new(DefinitionKind::Server, "a").unwrap())
    }

    fn newest(files: &Files) -> WriteRecord {
        files.writes().into_iter().next().unwrap()
    }

    #[test]
    fn a_write_is_undone_byte_for_byte_and_so_is_that() {
        let (folder, files, which) = home();
        let path = folder.path().join("servers/a.yaml");
        let created = files.create(&which, FIRST).unwrap();
        let first = newest(&files);
        assert_eq!((first.files[0].word(), files.newest_write()), ("added", Some(first.id.clone())));
        files.replace(&which, SECOND, &created.revision).unwrap();
        let second = newest(&files);
        assert_eq!(second.files[0].difference(), " # kept\n name: a\n-command: x\n+command: y # why\n");
        assert!(matches!(files.undo(&first.id), Err(UndoError::ChangedSince { .. })), "the later one comes first");
        files.undo(&second.id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), FIRST);
        files.undo(&newest(&files).id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), SECOND);
        files.remove(&which, None).unwrap();
        let removed = newest(&files);
        assert_eq!(removed.files[0].word(), "removed");
        files.undo(&removed.id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), SECOND);
        assert!(matches!(files.undo("../../x"), Err(UndoError::Unknown(_))));
    }

    #[test]
    fn what_was_changed_since_is_shown_and_stays() {
        let (folder, files, which) = home();
        files.create(&which, FIRST).unwrap();
        let path = folder.path().join("servers/a.yaml");
        fs::write(&path, format!("{FIRST}env:\n  API_KEY: hunter2-hunter2\n")).unwrap();
        let problem = Problem::from(files.undo(&newest(&files).id).unwrap_err());
        for part in ["was changed since", "+  API_KEY: \"****\"", "undoing would lose that", "-command: x"] {
            assert!(problem.message.contains(part), "no `{part}` in {}", problem.message);
        }
        assert!(!problem.message.contains("hunter2"), "{}", problem.message);
        assert!(fs::read_to_string(&path).unwrap().contains("hunter2"), "it stays");
    }

    #[test]
    fn what_is_rehearsed_is_not_written() {
        let (folder, files, which) = home();
        let rehearsal = Arc::<Rehearsal>::default();
        let refused = rehearsal.run(|| files.create(&which, FIRST));
        assert!(matches!(refused, Err(WriteError::Rehearsed)));
        assert_eq!(rehearsal.changes()[0].difference(), "+# kept\n+name: a\n+command: x\n");
        assert_eq!((folder.path().join("servers").exists(), files.newest_write()), (false, None));
        let wrong = rehearsal.run(|| files.create(&which, "name: a\n"));
        assert!(matches!(wrong, Err(WriteError::Bad(_))), "what is wrong is told first");
        files.create(&which, FIRST).unwrap();
        assert!(folder.path().join("servers/a.yaml").exists(), "it has ended");
    }

    #[test]
    fn only_so_many_writes_are_kept() {
        let (_folder, files, which) = home();
        let mut revision = files.create(&which, FIRST).unwrap().revision;
        for text in [SECOND, FIRST].into_iter().cycle().take(MOST + 1) {
            revision = files.replace(&which, text, &revision).unwrap().revision;
        }
        assert_eq!(files.names().len(), MOST);
    }
}
