//! Finds scenario files, and chooses which are run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toolcrib_base::Glob;

use crate::outcome::{Outcome, Verdict};
use crate::scenario::{self, Scenario};
use crate::wrong::Wrong;

/// How deep folders are searched.
const DEPTH: usize = 16;
/// How many files are read.
const FILES: usize = 10_000;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
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
pub fn gather(path: &Path) -> io::Result<Found> {
    let mut files = Vec::new();
    if fs::metadata(path)?.is_dir() {
        collect(path, 0, &mut files)?;
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    if files.is_empty() {
        return Err(io::Error::other("there is no `.yaml` file in it"));
    }
    let mut found = Found::default();
    for file in files {
        let wrong =
            |message: String| vec![Wrong { file: file.clone(), line: 1, path: String::new(), message, hint: None }];
        let text = fs::read(&file).map_err(|error| wrong(format!("cannot be read: {error}")));
        let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8".to_owned())));
        match text.and_then(|text| scenario::read(&file, &text)) {
            Ok(scenario) => found.scenarios.push(scenario),
            Err(faults) => found.wrong.push((file, faults)),
        }
    }
    Ok(found)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > DEPTH || files.len() > FILES {
        return Err(io::Error::other(format!("more than {FILES} files, or folders deeper than {DEPTH}")));
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if is_hidden {
            continue;
        }
        if path.is_dir() {
            collect(&path, depth + 1, files)?;
        } else if is_yaml {
            files.push(path);
        }
    }
    Ok(())
}

// === impl Found ===

impl Found {
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
