//! What was written lately, with what was there before: so that a write can be shown and undone, byte for byte. Records
//! lie in `state/writes`, for their owner only, as definitions do. Each is two lines: what a list says of it, and the
//! bytes before and after.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use serde_json::{Value, json};
use toolcrib_base::{Clock, Kind, Problem, SystemClock, random};

use super::change::{FileChange, difference, is_below_home};
use super::scope::WriteScope;
use super::{Files, WriteError};
use crate::clients::{digest, file_stamp};

/// Where records are, below the home folder.
const FOLDER: &str = "state/writes";
/// How many writes are kept.
const MOST: usize = 100;
/// The largest record that is kept, in bytes of both texts.
const BYTES: usize = 8 * 1024 * 1024;
/// The longest first line of a record, in bytes.
const HEAD: u64 = 256 * 1024;
/// The longest record, in bytes: its first line, then both texts, a third longer as base64, with the names of their files.
const RECORD: u64 = 2 * HEAD + 2 * BYTES as u64;

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

/// What a list says of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWrite {
    /// Its name; those of later writes sort behind it.
    pub id: String,
    /// When it was, as in the name.
    pub at: String,
    /// The files.
    pub files: Vec<ListedChange>,
    /// Whether each file is what the write left.
    pub can_undo: bool,
}

/// A file of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedChange {
    /// Relative to the home folder.
    pub file: PathBuf,
    /// `added`, `changed` or `removed`.
    pub change: &'static str,
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

/// The digests of files as they are now, each read once.
struct CurrentFiles<'a> {
    files: &'a Files,
    known: HashMap<PathBuf, Option<String>>,
}

// === impl CurrentFiles ===

impl CurrentFiles<'_> {
    fn digest(&mut self, file: &Path) -> Option<&str> {
        if !self.known.contains_key(file) {
            let digest = self.files.bytes(file).map(|bytes| digest(&bytes));
            self.known.insert(file.to_owned(), digest);
        }
        self.known.get(file)?.as_deref()
    }
}

/// When a write was, by its name.
fn moment(id: &str) -> String {
    id.split('-').next().unwrap_or_default().to_owned()
}

// === impl Files ===

impl Files {
    /// The bytes of a file; none of one that is no ordinary file, or larger than any that is kept.
    pub(super) fn bytes(&self, file: &Path) -> Option<Vec<u8>> {
        self.ordinary(file, BYTES as u64).ok().flatten()
    }

    /// Keeps what was written. A write that cannot be kept is no worse for that: it cannot be undone.
    pub(super) fn keep(&self, changes: &[FileChange]) {
        if changes.is_empty() || self.home.as_os_str().is_empty() {
            return;
        }
        let listed = changes.iter().map(|change| {
            let after = change.after.as_ref().map(|bytes| digest(bytes));
            json!({ "file": change.file.to_string_lossy(), "change": change.word(), "after": after })
        });
        let head = json!({ "files": listed.collect::<Vec<_>>() }).to_string();
        if changes.iter().map(FileChange::size).sum::<usize>() > BYTES || head.len() as u64 >= HEAD {
            tracing::warn!(files = changes.len(), "a write is too large to be kept, so it cannot be undone");
            return;
        }
        let id = format!("{}-{}", file_stamp(SystemClock.now()), &random::hex_128()[..8]);
        let record = json!({ "files": changes.iter().map(FileChange::to_value).collect::<Vec<_>>() });
        if let Err(error) = self.put(&record_file(&id), &format!("{head}\n{record}\n"), None) {
            tracing::warn!(%error, "a write is not kept, so it cannot be undone");
            return;
        }
        WriteScope::note_kept(&id);
        for old in self.names().iter().rev().skip(MOST) {
            let _ = fs::remove_file(self.home.join(record_file(old)));
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

    /// The writes that are kept, the last one first. Of a record only the first line is read.
    pub fn writes(&self) -> Vec<ListedWrite> {
        let mut now = CurrentFiles { files: self, known: HashMap::new() };
        self.names().iter().rev().take(MOST).filter_map(|id| self.listed(id, &mut now)).collect()
    }

    fn listed(&self, id: &str, now: &mut CurrentFiles<'_>) -> Option<ListedWrite> {
        let path = self.home.join(record_file(id));
        // Looked at before it is opened: opening a pipe would wait for a writer.
        fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let mut line = String::new();
        BufReader::new(File::open(path).ok()?.take(HEAD)).read_line(&mut line).ok()?;
        let head: Value = serde_json::from_str(&line).ok()?;
        let mut can_undo = true;
        let files = head["files"].as_array()?.iter().map(|row| {
            let file = PathBuf::from(row["file"].as_str()?);
            let change = ["added", "changed", "removed"].into_iter().find(|word| row["change"] == *word)?;
            can_undo &= is_below_home(&file) && now.digest(&file) == row["after"].as_str();
            Some(ListedChange { file, change })
        });
        let files = files.collect::<Option<Vec<_>>>()?;
        Some(ListedWrite { id: id.to_owned(), at: moment(id), files, can_undo })
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
        let bytes = self.ordinary(&record_file(id), RECORD).ok().flatten().ok_or_else(unknown)?;
        let (_, record) =
            std::str::from_utf8(&bytes).ok().and_then(|text| text.split_once('\n')).ok_or_else(unknown)?;
        let value: Value = serde_json::from_str(record).map_err(|_| unknown())?;
        let files = value["files"].as_array().and_then(|files| files.iter().map(FileChange::of_value).collect());
        Ok(WriteRecord { id: id.to_owned(), at: moment(id), files: files.ok_or_else(unknown)? })
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
        let changes: Vec<FileChange> = record.files.iter().rev().map(FileChange::reversed).collect();
        self.make(&changes, || {
            for (done, change) in changes.iter().enumerate() {
                if let Err(error) = self.restore(change) {
                    // What was put back so far goes again; what cannot is reported by the error that led here.
                    for done in changes[..done].iter().rev() {
                        let _ = self.restore(&done.reversed());
                    }
                    return Err(error);
                }
            }
            Ok(())
        })?;
        Ok(record)
    }

    fn restore(&self, change: &FileChange) -> Result<(), WriteError> {
        match &change.after {
            Some(bytes) => {
                let mode = change.before.as_ref().map(|_| self.mode(&change.file));
                self.put_bytes(&change.file, bytes, mode)
            }
            None => self.delete_file(&change.file),
        }
    }
}

/// Where the record of a write is, below the home folder.
fn record_file(id: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{id}.json"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::definition_id::DefinitionId;
    use crate::kind::DefinitionKind;

    const FIRST: &str = "# kept\nname: a\ncommand: x\n";
    const SECOND: &str = "# kept\nname: a\ncommand: y # why\n";

    fn home() -> (tempfile::TempDir, Files, DefinitionId) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        (folder, files, DefinitionId::new(DefinitionKind::Server, "a").unwrap())
    }

    fn newest(files: &Files) -> WriteRecord {
        files.write_record(&files.writes()[0].id).unwrap()
    }

    #[test]
    fn a_write_is_undone_byte_for_byte_and_so_is_that() {
        let (folder, files, which) = home();
        let path = folder.path().join("servers/a.yaml");
        let created = files.create(&which, FIRST).unwrap();
        let first = newest(&files);
        assert_eq!((first.files[0].word(), files.writes()[0].can_undo), ("added", true));
        files.replace(&which, SECOND, &created.revision).unwrap();
        let second = newest(&files);
        assert_eq!(second.files[0].difference(), " # kept\n name: a\n-command: x\n+command: y # why\n");
        assert!(matches!(files.undo(&first.id), Err(UndoError::ChangedSince { .. })), "the later one comes first");
        assert_eq!(files.writes().iter().map(|it| it.can_undo).collect::<Vec<_>>(), [true, false]);
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
        let rehearsal = Arc::new(WriteScope::rehearsal());
        let refused = rehearsal.run(|| files.create(&which, FIRST));
        assert!(matches!(refused, Err(WriteError::Rehearsed)));
        assert_eq!(rehearsal.rehearsed().unwrap()[0].difference(), "+# kept\n+name: a\n+command: x\n");
        assert_eq!((folder.path().join("servers").exists(), files.writes().len()), (false, 0));
        let wrong = rehearsal.run(|| files.create(&which, "name: a\n"));
        assert!(matches!(wrong, Err(WriteError::Bad(_))), "what is wrong is told first");
        files.create(&which, FIRST).unwrap();
        assert!(folder.path().join("servers/a.yaml").exists(), "it has ended");
    }

    #[test]
    fn undoing_is_shown_first_like_any_write() {
        let (folder, files, which) = home();
        files.create(&which, FIRST).unwrap();
        let rehearsal = Arc::new(WriteScope::rehearsal());
        assert!(rehearsal.run(|| files.undo(&newest(&files).id)).is_err());
        assert_eq!(rehearsal.rehearsed().unwrap()[0].word(), "removed");
        assert!(folder.path().join("servers/a.yaml").exists());
    }

    #[test]
    fn a_scope_knows_its_own_writes_alone() {
        let (_folder, files, which) = home();
        let (one, other) = (Arc::<WriteScope>::default(), Arc::<WriteScope>::default());
        let created = one.run(|| files.create(&which, FIRST)).unwrap();
        std::thread::scope(|threads| {
            let (files, which) = (&files, &which);
            threads.spawn(move || files.replace(which, SECOND, &created.revision).unwrap());
        });
        other.run(|| {
            // One within another ends alone.
            one.run(|| ());
            files.remove(&which, None).unwrap();
        });
        let all: Vec<String> = files.writes().into_iter().map(|it| it.id).collect();
        assert_eq!((one.kept(), other.kept()), (vec![all[2].clone()], vec![all[0].clone()]));
    }

    #[test]
    fn what_was_not_seen_is_not_written() {
        let (folder, files, which) = home();
        let created = files.create(&which, FIRST).unwrap();
        let rehearsal = Arc::new(WriteScope::rehearsal());
        let replace = |revision: &str| files.replace(&which, SECOND, revision);
        rehearsal.run(|| replace(&created.revision)).unwrap_err();
        let seen = WriteScope::fingerprint(&rehearsal.rehearsed().unwrap());
        let path = folder.path().join("servers/a.yaml");
        let other = format!("{FIRST}# other\n");
        fs::write(&path, &other).unwrap();
        let now = files.read(&which).unwrap().unwrap();
        let scope = || Arc::new(WriteScope::of_seen(Some(&seen)));
        assert!(matches!(scope().run(|| replace(&now.revision)), Err(WriteError::Changed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), other, "it stays");
        fs::write(&path, FIRST).unwrap();
        scope().run(|| replace(&created.revision)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), SECOND);
    }

    #[test]
    fn a_list_reads_the_first_lines_alone() {
        let (folder, files, which) = home();
        files.create(&which, FIRST).unwrap();
        let record = folder.path().join(record_file(&files.writes()[0].id));
        let text = fs::read_to_string(&record).unwrap();
        let (head, _) = text.split_once('\n').unwrap();
        assert!(!head.contains("before"), "{head}");
        fs::write(&record, format!("{head}\nwhat follows is not read")).unwrap();
        assert!(files.writes()[0].can_undo);
        fs::write(&record, format!("{}\n{{}}", "x".repeat(HEAD as usize))).unwrap();
        assert_eq!(files.writes(), []);
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
