//! The files of policies, as texts: what they mean is the policy crate's. `policies/*.cedar`, in the order of their names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use crate::write::{Files, POLICIES, POLICY_EXTENSION, POLICY_MAX, WriteError};

/// Where the last good files are kept, under the home folder.
const KEPT: &str = "state/policies.json";
const KEPT_MODE: u32 = 0o600;
/// How many files are read; more are a reason to refuse all.
const FILES_MAX: usize = 1_000;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its name, such as `prod.cedar`.
    pub name: String,
    /// What is in it, else why it cannot be read.
    pub text: Result<String, String>,
}

/// Reads all files, in the order of their names. A folder that does not exist is empty; one that cannot be read is one
/// file that cannot be read, so that its policies are missed.
pub fn read_policies(home: &Path) -> Vec<PolicyFile> {
    read_policy_folder(&home.join(POLICIES))
}

/// The same, of any folder.
pub fn read_policy_folder(folder: &Path) -> Vec<PolicyFile> {
    let unreadable = |error: String| vec![PolicyFile { name: "policies".to_owned(), text: Err(error) }];
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return unreadable(format!("cannot read the folder: {error}")),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return unreadable(format!("cannot read the folder: {error}")),
        };
        let path = entry.path();
        let is_policy = path.extension().is_some_and(|it| it == POLICY_EXTENSION);
        let name = entry.file_name().to_string_lossy().into_owned();
        // What editors keep beside a file is not one.
        if !is_policy || name.starts_with('.') {
            continue;
        }
        if files.len() >= FILES_MAX {
            return unreadable(format!("there are more than {FILES_MAX} files"));
        }
        files.push(PolicyFile { name, text: read(&path) });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

fn read(path: &Path) -> Result<String, String> {
    // To open a pipe would wait for someone who writes.
    if !std::fs::metadata(path).is_ok_and(|it| it.is_file()) {
        return Err("it is no regular file".to_owned());
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| format!("cannot read the file: {error}"))?;
    // One more, to see that there is more.
    match file.take(POLICY_MAX + 1).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err("the file is not UTF-8".to_owned()),
        Err(error) => Err(format!("cannot read the file: {error}")),
    }
}

/// The texts of files that were good, as they were kept; `None` where none were.
pub fn kept_policies(home: &Path) -> Option<Vec<PolicyFile>> {
    let text = std::fs::read_to_string(home.join(KEPT)).ok()?;
    let kept: BTreeMap<String, String> = serde_json::from_str(&text).ok()?;
    Some(kept.into_iter().map(|(name, text)| PolicyFile { name, text: Ok(text) }).collect())
}

/// Keeps files that are good, in place of those before; with none, those before are deleted. Written whole or not at
/// all, and to the disk.
///
/// # Errors
/// The state folder takes no files.
pub fn keep_policies(home: &Path, files: &[PolicyFile]) -> Result<(), WriteError> {
    let path = home.join(KEPT);
    if files.is_empty() {
        return match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(WriteError::Io { file: KEPT.into(), source })
            }
            _ => Ok(()),
        };
    }
    let texts = files.iter().filter_map(|it| Some((it.name.as_str(), it.text.as_deref().ok()?)));
    let kept = serde_json::to_string(&texts.collect::<BTreeMap<_, _>>()).expect("texts become JSON");
    Files::new(home).put(Path::new(KEPT), &kept, Some(KEPT_MODE))
}

/// The same files as before where nothing differs, so that what was made of them can be kept.
pub(crate) fn reread(home: &Path, before: &Arc<[PolicyFile]>) -> Arc<[PolicyFile]> {
    let now = read_policies(home);
    if **before == *now { Arc::clone(before) } else { now.into() }
}
