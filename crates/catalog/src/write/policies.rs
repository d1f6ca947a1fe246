//! Files of policies as files that are written on request: kept, shown first and undone as those of definitions.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{DefinitionFile, FileChange, Files, WriteError, text_of};

/// The folder of policies, under the home folder.
pub const POLICIES: &str = "policies";
/// What files of policies end in.
pub const POLICY_EXTENSION: &str = "cedar";
/// The largest file, in bytes.
pub(crate) const POLICY_MAX: u64 = 4 << 20;
/// The longest name of a file.
const NAME_MAX: usize = 64;

/// The name of a file of policies: lower-case letters, digits, `-`, `_` and dots, and `.cedar` at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFileName(String);

// === impl PolicyFileName ===

impl PolicyFileName {
    /// A name; `None` for a text that is none.
    pub fn new(text: &str) -> Option<Self> {
        let stem = text.strip_suffix(POLICY_EXTENSION)?.strip_suffix('.')?;
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        let begins = stem.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        (begins && stem.chars().all(fits) && text.len() <= NAME_MAX).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn file(&self) -> PathBuf {
        Path::new(POLICIES).join(&self.0)
    }
}

// === impl Files ===

impl Files {
    /// A file of policies as it is now. Reads files, as all that follows.
    ///
    /// # Errors
    /// It cannot be read, or is no ordinary file.
    pub fn read_policy(&self, name: &PolicyFileName) -> Result<Option<DefinitionFile>, WriteError> {
        let file = name.file();
        let Some(bytes) = self.ordinary(&file, POLICY_MAX)? else { return Ok(None) };
        Ok(Some(DefinitionFile::new(&file, text_of(&file, &bytes)?.to_owned())))
    }

    /// Puts a text in the place of the one with this revision; without one there must be no such file.
    ///
    /// # Errors
    /// The file is another one by now, is there already, or cannot be written.
    pub fn write_policy(
        &self,
        name: &PolicyFileName,
        text: &str,
        revision: Option<&str>,
    ) -> Result<DefinitionFile, WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file = name.file();
        let before = self.policy_with(name, revision)?;
        let mode = before.is_some().then(|| self.mode(&file));
        let changes = [FileChange::new(&file, self.bytes(&file), Some(text))];
        self.make(&changes, || self.put(&file, text, mode))?;
        Ok(DefinitionFile::new(&file, text.to_owned()))
    }

    /// Removes a file of policies with this revision.
    ///
    /// # Errors
    /// There is none, it is another one by now, or it cannot be removed.
    pub fn remove_policy(&self, name: &PolicyFileName, revision: &str) -> Result<PathBuf, WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file = name.file();
        self.policy_with(name, Some(revision))?;
        let changes = [FileChange::new(&file, self.bytes(&file), None)];
        self.make(&changes, || self.delete_file(&file))?;
        Ok(file)
    }

    fn policy_with(&self, name: &PolicyFileName, revision: Option<&str>) -> Result<Option<DefinitionFile>, WriteError> {
        match (self.read_policy(name)?, revision) {
            (Some(_), None) => Err(WriteError::Exists(name.file())),
            (None, Some(_)) => Err(WriteError::Missing(name.0.clone())),
            (Some(now), Some(expected)) if now.revision != expected => Err(WriteError::Changed(now.file)),
            (now, _) => Ok(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_lead_to_no_other_folder() {
        for name in ["prod.cedar", "10-team_a.v2.cedar", "0.cedar"] {
            assert_eq!(PolicyFileName::new(name).unwrap().as_str(), name);
        }
        for name in ["", ".cedar", "..cedar", "a/b.cedar", "../x.cedar", "A.cedar", "a.yaml", "a cedar", "-a.cedar"] {
            assert_eq!(PolicyFileName::new(name), None, "{name}");
        }
        assert_eq!(PolicyFileName::new(&format!("{}.cedar", "a".repeat(NAME_MAX))), None);
    }

    #[test]
    fn a_file_of_policies_is_written_once_it_was_seen_and_undone() {
        let folder = tempfile::tempdir().unwrap();
        let (files, name) = (Files::new(folder.path()), PolicyFileName::new("a.cedar").unwrap());
        let path = folder.path().join("policies/a.cedar");
        let first = files.write_policy(&name, "// one\n", None).unwrap();
        assert!(matches!(files.write_policy(&name, "// two\n", None), Err(WriteError::Exists(_))));
        assert!(matches!(files.write_policy(&name, "// two\n", Some("x")), Err(WriteError::Changed(_))));
        files.write_policy(&name, "// two\n", Some(&first.revision)).unwrap();
        let newest = files.writes().into_iter().next().unwrap();
        let record = files.write_record(&newest.id).unwrap();
        assert_eq!(record.files[0].difference(), "-// one\n+// two\n");
        files.undo(&newest.id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "// one\n");
        let large = format!("//{}\n", " ".repeat(POLICY_MAX as usize));
        fs::write(&path, large).unwrap();
        assert!(matches!(files.read_policy(&name), Err(WriteError::Bad(_))), "it is not read whole");
        fs::write(&path, [b'/', b'/', 0xFF]).unwrap();
        assert!(matches!(files.read_policy(&name), Err(WriteError::Bad(_))), "it is no text");
        fs::write(&path, "// one\n").unwrap();
        files.remove_policy(&name, &first.revision).unwrap();
        assert!(!path.exists() && matches!(files.remove_policy(&name, "x"), Err(WriteError::Missing(_))));
    }
}
