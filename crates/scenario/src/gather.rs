//! Finds scenario files, and chooses which are run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toolcrib_base::Glob;

use crate::document;
use crate::outcome::{Outcome, Verdict};
use crate::scenario::{self, Scenario};
use crate::wrong::Wrong;

/// How deep folders are searched.
const DEPTH: usize = 16;
/// How many files are read.
const FILES: usize = 10_000;

/// What was found.
#[derive(Debug, Default)]
pub struct ScenarioSet {
    /// In the order of their paths.
    pub scenarios: Vec<Scenario>,
    /// Files that are none, with everything that is wrong with them.
    pub wrong: Vec<(PathBuf, Vec<Wrong>)>,
}

/// Which scenarios are wanted; nothing said is all.
#[derive(Debug, Default, Clone)]
pub struct Select {
    /// Names or patterns of names.
    pub names: Vec<Glob>,
    /// One of these categories.
    pub categories: Vec<String>,
    /// One of these concepts.
    pub concepts: Vec<String>,
    /// Any of these tags.
    pub tags: Vec<String>,
}

/// Reads a file, or every `.yaml` and `.yml` below a folder.
///
/// # Errors
/// When the path cannot be read, or holds no such file.
pub fn gather(path: &Path) -> io::Result<ScenarioSet> {
    let mut found = ScenarioSet::default();
    let mut search = Search { files: Vec::new(), most: FILES, seen: BTreeSet::new() };
    if fs::metadata(path)?.is_dir() {
        // The folder that was named has to be readable; one below that is not is told beside what was found.
        fs::read_dir(path)?;
        search.folder(path, 0, &mut found.wrong)?;
        search.files.sort();
    } else {
        search.files.push(path.to_owned());
    }
    if search.files.is_empty() && found.wrong.is_empty() {
        return Err(io::Error::other("there is no `.yaml` file in it"));
    }
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in search.files {
        let text = bounded(&file).map_err(|message| wrong(&file, message));
        match text.and_then(|text| scenario::read(&file, &text)) {
            Ok(mut scenario) => {
                // muster's own suite has such pairs, so this is not a fault.
                if let Some(other) = names.get(&scenario.name) {
                    scenario.remarks.push(format!("`{}` has the same name", other.display()));
                }
                names.entry(scenario.name.clone()).or_insert_with(|| file.clone());
                found.scenarios.push(scenario);
            }
            Err(faults) => found.wrong.push((file, faults)),
        }
    }
    Ok(found)
}

/// The text of a file. One that is too large is not read to its end.
fn bounded(file: &Path) -> Result<String, String> {
    let most = document::BYTES as u64;
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("the file has more than {most} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

fn wrong(file: &Path, message: String) -> Vec<Wrong> {
    vec![Wrong { file: file.to_owned(), line: 1, path: String::new(), message, hint: None }]
}

/// The search through folders.
struct Search {
    files: Vec<PathBuf>,
    /// How many files are taken.
    most: usize,
    /// Folders as they are without links, so that a link to a folder above ends.
    seen: BTreeSet<PathBuf>,
}

// === impl Search ===

impl Search {
    fn folder(&mut self, folder: &Path, depth: usize, faults: &mut Vec<(PathBuf, Vec<Wrong>)>) -> io::Result<()> {
        if depth > DEPTH {
            return Err(io::Error::other(format!("folders deeper than {DEPTH}")));
        }
        let listed = fs::canonicalize(folder).and_then(|plain| {
            let is_new = self.seen.insert(plain);
            let entries = if is_new { fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()? } else { Vec::new() };
            Ok(entries)
        });
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                faults.push((folder.to_owned(), wrong(folder, format!("the folder cannot be read: {error}"))));
                return Ok(());
            }
        };
        for path in entries.into_iter().map(|entry| entry.path()) {
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
            if is_hidden {
                continue;
            }
            if path.is_dir() {
                self.folder(&path, depth + 1, faults)?;
            } else if is_yaml {
                if self.files.len() == self.most {
                    return Err(io::Error::other(format!("more than {} files", self.most)));
                }
                self.files.push(path);
            }
        }
        Ok(())
    }
}

// === impl ScenarioSet ===

impl ScenarioSet {
    /// Files that are no scenarios, as outcomes.
    pub fn unread(&self) -> Vec<Outcome> {
        let outcome = |(file, faults): &(PathBuf, Vec<Wrong>)| {
            let reason: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            Outcome::bare(&name, file, Verdict::Error, reason.join("\n"))
        };
        self.wrong.iter().map(outcome).collect()
    }
}

// === impl Select ===

impl Select {
    /// Whether everything is wanted.
    pub fn is_everything(&self) -> bool {
        self.names.is_empty() && self.categories.is_empty() && self.concepts.is_empty() && self.tags.is_empty()
    }

    /// Whether this one is wanted.
    pub fn takes(&self, scenario: &Scenario) -> bool {
        let among = |wanted: &[String], is: &Option<String>| {
            wanted.is_empty() || is.as_ref().is_some_and(|is| wanted.contains(is))
        };
        (self.names.is_empty() || self.names.iter().any(|name| name.matches(&scenario.name)))
            && among(&self.categories, &scenario.category)
            && among(&self.concepts, &scenario.concept)
            && (self.tags.is_empty() || scenario.tags.iter().any(|tag| self.tags.contains(tag)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_so_deep_and_for_so_many_files() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = root.path().to_owned();
        for depth in 0..=DEPTH {
            fs::write(folder.join("s.yaml"), "").unwrap();
            let search = |most| {
                let mut search = Search { files: Vec::new(), most, seen: BTreeSet::new() };
                let mut faults = Vec::new();
                let searched = search.folder(root.path(), 0, &mut faults);
                assert!(faults.is_empty());
                searched.map(|()| search.files.len()).map_err(|error| error.to_string())
            };
            assert_eq!(search(depth + 1), Ok(depth + 1));
            assert_eq!(search(depth), Err(format!("more than {depth} files")));
            folder.push("f");
            fs::create_dir(&folder).unwrap();
        }
        assert_eq!(gather(root.path()).unwrap_err().to_string(), "folders deeper than 16");
    }

    #[test]
    fn a_file_may_have_so_many_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.yaml");
        fs::write(&file, "x".repeat(document::BYTES)).unwrap();
        assert_eq!(bounded(&file).map(|text| text.len()), Ok(document::BYTES));
        fs::write(&file, "x".repeat(document::BYTES + 1)).unwrap();
        assert!(bounded(&file).unwrap_err().contains("bytes"));
    }
}
