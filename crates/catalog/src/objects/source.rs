//! Where objects come from: a text of one or more documents, a file, a folder.

use std::path::{Component, Path, PathBuf};

use super::object::{DocumentDefaults, Reader};
use super::{ObjectPlace, ObjectProblem, Objects, SkippedObject, kind};
use crate::folder::{EXTENSIONS, not_text, read_bytes};
use crate::kind::DefinitionKind;
use crate::problem::{DefinitionProblem, Position, Sink, shown};
use crate::yaml;

/// How many documents a file may have, and how many files a folder.
const DOCUMENTS_MAX: usize = 1_000;
const FILES_MAX: usize = 1_000;
/// How deep folders are followed.
const DEPTH_MAX: usize = 8;
/// Folders of muster that hold no definitions: tokens, records of runs, events.
const NO_DEFINITIONS: [&str; 3] = ["tokens", "workflow_executions", "events"];
/// Files of muster that are its settings.
const SETTINGS: [&str; 4] = ["config.yaml", "config.yml", "contexts.yaml", "contexts.yml"];

/// The objects of a file, or of all files below a folder. `kind` is what documents are that do not say it themselves.
/// Reads files: not for the thread of an async runtime.
pub fn objects_at(path: &Path, kind: Option<DefinitionKind>) -> Objects {
    let mut objects = Objects::default();
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let mut files = Vec::new();
            below(path, 0, &mut files, &mut objects);
            files.iter().for_each(|file| add_file(file, kind.or_else(|| of_parent(file)), &mut objects));
        }
        // What is no file, and what is not there, says so when it is read.
        _ => add_file(path, kind.or_else(|| of_parent(&whole)), &mut objects),
    }
    objects.refuse_twins();
    objects
}

/// The objects of a text; `file` is named in what is said of them.
pub fn objects_of_text(text: &str, file: &Path, kind: Option<DefinitionKind>, name: Option<&str>) -> Objects {
    let mut objects = Objects::default();
    add_text(text, file, &DocumentDefaults { kind, name }, &mut objects);
    objects.refuse_twins();
    objects
}

/// The kind that the folder of a file says.
fn of_parent(file: &Path) -> Option<DefinitionKind> {
    match file.parent()?.components().next_back()? {
        Component::Normal(name) => kind::of_folder(name.to_str()?),
        _ => None,
    }
}

/// The files of a folder, in the order of their names.
fn below(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, objects: &mut Objects) {
    let failed =
        |message: String| ObjectProblem { document: None, problem: DefinitionProblem::of_file(folder, message) };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return objects.problems.push(failed(format!("cannot be listed: {error}"))),
    };
    let mut inner: Vec<(PathBuf, bool)> = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        // A link may lead anywhere, also back here.
        let Some(kind) = entry.file_type().ok().filter(|kind| !kind.is_symlink() && !is_hidden) else { continue };
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if kind.is_dir() || extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
            inner.push((path, kind.is_dir()));
        }
    }
    inner.sort();
    for (path, is_folder) in inner {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let place = || ObjectPlace { file: path.clone(), at: Position::START, document: None };
        if files.len() >= FILES_MAX {
            return objects.problems.push(failed(format!("expected at most {FILES_MAX} files, got more")));
        } else if is_folder && NO_DEFINITIONS.contains(&name) {
            let (what, why) = (format!("folder `{name}`"), "it holds no definitions".to_owned());
            objects.skipped.push(SkippedObject { place: place(), what, why });
        } else if is_folder && depth < DEPTH_MAX {
            below(&path, depth + 1, files, objects);
        } else if !is_folder && SETTINGS.contains(&name) {
            let (what, why) = (format!("file `{name}`"), "it holds settings and no definitions".to_owned());
            objects.skipped.push(SkippedObject { place: place(), what, why });
        } else if !is_folder {
            files.push(path);
        }
    }
}

fn add_file(file: &Path, kind: Option<DefinitionKind>, objects: &mut Objects) {
    let mut failed = |problem| objects.problems.push(ObjectProblem { document: None, problem });
    let bytes = match read_bytes(file) {
        Ok(bytes) => bytes,
        Err(message) => return failed(DefinitionProblem::of_file(file, message)),
    };
    match String::from_utf8(bytes) {
        Ok(text) => {
            objects.files.push(file.to_owned());
            add_text(&text, file, &DocumentDefaults { kind, name: None }, objects);
        }
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            failed(not_text(file, &error.into_bytes()[..valid]));
        }
    }
}

fn add_text(text: &str, file: &Path, said: &DocumentDefaults<'_>, objects: &mut Objects) {
    let is_blank = |part: &str| part.lines().all(|line| line.trim_start().starts_with('#') || line.trim().is_empty());
    let mut parts = crate::yaml::parts(text);
    parts.retain(|(_, part)| !is_blank(part));
    if parts.len() > DOCUMENTS_MAX {
        let message = format!("expected at most {DOCUMENTS_MAX} documents, got {}", parts.len());
        let problem = DefinitionProblem::of_file(file, message);
        return objects.problems.push(ObjectProblem { document: None, problem });
    }
    let several = parts.len() > 1;
    for (number, (lines, part)) in parts.into_iter().enumerate() {
        let document = several.then_some(number + 1);
        let sink = Sink::new(file);
        let root = yaml::parse_into(part, &sink);
        let mut problems = sink.finish();
        // Places count from the beginning of the whole text.
        let below = u32::try_from(lines).unwrap_or(u32::MAX);
        let mut reader = Reader { file, document, text: part, objects: Objects::default() };
        if let Some(root) = root.filter(|_| problems.is_empty()) {
            reader.document(&root, said);
        }
        let found = reader.objects;
        problems.iter_mut().for_each(|problem| problem.at = problem.at.map(|at| at.below(below)));
        objects.problems.extend(problems.into_iter().map(|problem| ObjectProblem { document, problem }));
        objects.problems.extend(found.problems.into_iter().map(|mut it| {
            it.problem.at = it.problem.at.map(|at| at.below(below));
            it
        }));
        objects.warnings.extend(found.warnings.into_iter().map(|mut it| {
            it.problem.at = it.problem.at.map(|at| at.below(below));
            it
        }));
        objects.objects.extend(found.objects.into_iter().map(|mut it| {
            it.place.at = it.place.at.below(below);
            it
        }));
        objects.skipped.extend(found.skipped.into_iter().map(|mut it| {
            it.place.at = it.place.at.below(below);
            it
        }));
    }
}

/// What an object is called, for people.
pub(super) fn called(kind: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("`{}` `{}`", shown(kind), shown(name)),
        None => format!("`{}`", shown(kind)),
    }
}
