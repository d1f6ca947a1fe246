//! Looks thoroughly at definitions that no one loads yet: every file below some folders, schemas of tools included.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use toolcrib_base::{Kind, Problem};

use crate::catalog::load;
use crate::define;
use crate::folder::{EXTENSIONS, FILES_MAX, not_text, read_bytes};
use crate::kind::DefinitionKind;
use crate::problem::{DefinitionProblem, Findings, Sink, shown};
use crate::readers::reader;

/// How deep folders are followed.
const DEPTH_MAX: usize = 16;

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub home: PathBuf,
    /// Files and folders; without any, the folders of definitions under `home`.
    pub paths: Vec<PathBuf>,
    /// What the files are. Without it the nearest folder called `registry`, `servers` … says so, and what
    /// lies in none of them is an entry.
    pub kind: Option<DefinitionKind>,
}

/// What was found in one file.
#[derive(Debug, Clone)]
pub struct FileReport {
    /// As it was named; relative to the home folder when nothing was named.
    pub file: PathBuf,
    pub kind: DefinitionKind,
    /// `None` where it could not be read.
    pub name: Option<String>,
    /// In the order of their places.
    pub problems: Vec<DefinitionProblem>,
    pub warnings: Vec<DefinitionProblem>,
    /// What is right and still good to know, such as which entry it hides.
    pub notes: Vec<String>,
}

/// Why nothing was validated.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    #[error("no definition to validate in {0}")]
    NoFiles(String),
    #[error("cannot read `{path}`: {source}", path = .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("more than {FILES_MAX} files or {DEPTH_MAX} nested folders in `{path}`", path = .path.display())]
    TooMany { path: PathBuf },
}

impl From<&ValidateError> for Problem {
    fn from(error: &ValidateError) -> Self {
        let hint = match error {
            ValidateError::NoFiles(_) => "name files ending in `.yaml`, `.yml` or `.json`, or folders with such files",
            ValidateError::Unreadable { .. } => "name files and folders that are there",
            ValidateError::TooMany { .. } => "name the folder with the definitions",
        };
        Problem { kind: Kind::Definition, message: error.to_string(), hint: Some(hint.to_owned()) }
    }
}

/// Reads every file and says what is wrong with it. That no file was found is an error, and so is each named path
/// without one: what was not looked at has not passed. Reads files: not for the thread of an async runtime.
pub fn validate(scope: &Scope) -> Result<Vec<FileReport>, ValidateError> {
    let mut files = Vec::new();
    if scope.paths.is_empty() {
        for kind in DefinitionKind::ALL {
            match find(&scope.home, Path::new(kind.folder()), 0, &mut files) {
                Err(ValidateError::Unreadable { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                found => found?,
            }
        }
        if files.is_empty() {
            return Err(ValidateError::NoFiles(format!("`{}`", scope.home.display())));
        }
    }
    for path in &scope.paths {
        let before = files.len();
        find(Path::new(""), path, 0, &mut files)?;
        if files.len() == before {
            return Err(ValidateError::NoFiles(format!("`{}`", path.display())));
        }
    }
    let is_home = scope.paths.is_empty();
    let base = if is_home { scope.home.as_path() } else { Path::new("") };
    let mut places = BTreeMap::new();
    let mut checked: Vec<FileReport> = Vec::with_capacity(files.len());
    for file in files {
        let kind = scope.kind.unwrap_or_else(|| kind_of(&base.join(&file)));
        let mut one = check(base, &file, kind);
        report_duplicates(&mut one, &mut places);
        checked.push(one.checked);
    }
    note_hidden_entries(&mut checked, is_home.then_some(&scope.home));
    Ok(checked)
}

/// The files of a path, in order.
fn find(base: &Path, path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ValidateError> {
    let unreadable = |source| ValidateError::Unreadable { path: path.to_owned(), source };
    let whole = base.join(path);
    if files.len() >= FILES_MAX || depth > DEPTH_MAX {
        return Err(ValidateError::TooMany { path: path.to_owned() });
    }
    if !std::fs::metadata(&whole).map_err(unreadable)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut inner = Vec::new();
    for entry in std::fs::read_dir(&whole).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = PathBuf::from(entry.file_name());
        let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        let extension = name.extension().and_then(|extension| extension.to_str());
        // A link to a folder may lead back here.
        let counts = is_folder || EXTENSIONS.iter().any(|known| extension == Some(known)) && !entry.path().is_dir();
        if counts && !is_hidden {
            inner.push(path.join(name));
        }
    }
    inner.sort();
    inner.iter().try_for_each(|path| find(base, path, depth + 1, files))
}

fn kind_of(file: &Path) -> DefinitionKind {
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folders = whole.parent().into_iter().flat_map(Path::components).rev();
    let kind_of_folder = |folder: Component<'_>| match folder {
        Component::Normal(name) => DefinitionKind::ALL.iter().find(|kind| name == kind.folder()).copied(),
        _ => None,
    };
    folders.filter_map(kind_of_folder).next().unwrap_or(DefinitionKind::Entry)
}

/// One file with the place of its name.
struct CheckedFile {
    checked: FileReport,
    place: String,
    at: Option<crate::Position>,
}

fn check(base: &Path, file: &Path, kind: DefinitionKind) -> CheckedFile {
    let (name, findings) = match read(base, file) {
        Err(problem) => (None, Findings { problems: vec![problem], ..Findings::default() }),
        Ok(text) => {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            define::read_into(Sink::thorough(file), &stem, &text, reader(kind))
        }
    };
    let Findings { problems, warnings, name_at: at } = findings;
    let shown = shown(&file.to_string_lossy());
    let place = at.map_or_else(|| shown.clone(), |at| format!("{shown}:{}:{}", at.line, at.column));
    CheckedFile {
        checked: FileReport { file: file.to_owned(), kind, name, problems, warnings, notes: Vec::new() },
        place,
        at,
    }
}

fn read(base: &Path, file: &Path) -> Result<String, DefinitionProblem> {
    let bytes = read_bytes(&base.join(file)).map_err(|message| DefinitionProblem::of_file(file, message))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        not_text(file, &error.into_bytes()[..valid])
    })
}

type Places = BTreeMap<(PathBuf, &'static str, String), String>;

/// Two definitions of one name in one folder: both places are named.
fn report_duplicates(one: &mut CheckedFile, places: &mut Places) {
    let checked = &mut one.checked;
    let Some(name) = checked.name.clone() else { return };
    let folder = checked.file.parent().unwrap_or(Path::new("")).to_owned();
    let key = (folder, checked.kind.as_str(), name.clone());
    if let Some(first) = places.get(&key) {
        let message = format!("expected one {} `{name}`, got this one beside `{first}`", checked.kind);
        let problem = DefinitionProblem::of_file(&checked.file, message).hint("remove one of the two");
        checked.problems.push(DefinitionProblem { at: one.at, field: "name".to_owned(), ..problem });
    } else {
        places.insert(key, one.place.clone());
    }
}

/// Entries that stand in front of others.
fn note_hidden_entries(checked: &mut [FileReport], home: Option<&PathBuf>) {
    let loaded = home.map(|home| load(home).registry);
    for one in checked.iter_mut().filter(|one| one.kind == DefinitionKind::Entry) {
        let Some(name) = one.name.as_deref() else { continue };
        let hidden: Vec<String> = match &loaded {
            Some(registry) => {
                let here = crate::Origin::File(one.file.clone());
                let available = registry.get(name).filter(|available| available.origin == here);
                available
                    .map(|available| available.shadows.iter().map(ToString::to_string).collect())
                    .unwrap_or_default()
            }
            None => crate::built_in().get(name).map(|built_in| built_in.origin.to_string()).into_iter().collect(),
        };
        one.notes.extend(hidden.iter().map(|hidden| format!("overrides the entry `{name}` ({hidden})")));
    }
}

#[cfg(test)]
mod tests;
