//! One folder of definitions: which files count, what they say now, and what they last said when they were right.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::define::{self, Definition};
use crate::pending_writes::PendingWrites;
use crate::problem::{DefinitionProblem, Position, Sink};

/// The largest file that is read, in bytes.
pub(crate) const FILE_MAX: u64 = 1024 * 1024;
/// How many files of a folder are read; the first ones by name.
pub(crate) const FILES_MAX: usize = 10_000;
/// What definitions are called. When two files have one stem, the earlier of these counts.
pub(crate) const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// What is known of one folder.
#[derive(Debug)]
pub(crate) struct Folder<D> {
    /// By path relative to the home folder.
    files: BTreeMap<PathBuf, FileState<D>>,
    problems: Vec<DefinitionProblem>,
    /// Whether it was ever looked into, or seen not to exist.
    is_known: bool,
}

#[derive(Debug)]
struct FileState<D> {
    stem: String,
    /// Of the bytes it was read from; `None` when it could not be read.
    digest: Option<u64>,
    /// What it says, or what it last said when it was right.
    good: Option<Arc<D>>,
    problems: Vec<DefinitionProblem>,
    warnings: Vec<DefinitionProblem>,
    /// Where what was right said its name.
    name_at: Option<Position>,
    /// Whether another file of the same stem counts instead.
    is_shadowed: bool,
}

impl<D> Clone for Folder<D> {
    fn clone(&self) -> Self {
        Self { files: self.files.clone(), problems: self.problems.clone(), is_known: self.is_known }
    }
}

impl<D> Clone for FileState<D> {
    fn clone(&self) -> Self {
        Self {
            stem: self.stem.clone(),
            digest: self.digest,
            good: self.good.clone(),
            problems: self.problems.clone(),
            warnings: self.warnings.clone(),
            name_at: self.name_at,
            is_shadowed: self.is_shadowed,
        }
    }
}

impl<D> Default for Folder<D> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), problems: Vec::new(), is_known: false }
    }
}

/// All folders of one kind, in the order of the table of kinds.
#[derive(Debug)]
pub(crate) struct Folders<D>(Vec<Folder<D>>);

/// What the folders of one kind say together.
#[derive(Debug)]
pub(crate) struct Contents<N, D> {
    pub(crate) definitions: BTreeMap<N, Arc<D>>,
    pub(crate) problems: Vec<DefinitionProblem>,
    pub(crate) warnings: Vec<DefinitionProblem>,
}

/// What folders say of which each name stands in one only.
pub(crate) fn combine<D: Definition>(folders: &[Folder<D>]) -> Contents<D::Name, D> {
    Contents {
        definitions: folders.iter().flat_map(Folder::definitions).collect(),
        problems: folders.iter().flat_map(Folder::problems).cloned().collect(),
        warnings: folders.iter().flat_map(Folder::warnings).cloned().collect(),
    }
}

impl<D> Clone for Folders<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D> Default for Folders<D> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

// === impl Folders ===

impl<D: Definition> Folders<D> {
    /// Looks into every folder of the kind; see [`Folder::read`].
    pub(crate) fn read(home: &Path, previous: &Self, writing: &PendingWrites) -> Self {
        let unread = Folder::default();
        let folders = D::KIND.row().folders.iter().enumerate().map(|(index, folder)| {
            Folder::read(home, Path::new(folder), previous.0.get(index).unwrap_or(&unread), writing)
        });
        Self(folders.collect())
    }

    /// Files that are wrong now while what they said before still counts.
    pub(crate) fn stale(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().flat_map(Folder::stale)
    }
}

impl<D> Deref for Folders<D> {
    type Target = [Folder<D>];

    fn deref(&self) -> &[Folder<D>] {
        &self.0
    }
}

// === impl Folder ===

impl<D: Definition> Folder<D> {
    /// Looks into the folder. A file that became bad or is being written keeps what it said in `previous`; so do all
    /// files of a folder that cannot be listed any more.
    fn read(home: &Path, relative: &Path, previous: &Self, writing: &PendingWrites) -> Self {
        let (paths, problems) = match list(home, relative) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), Vec::new()),
            Err(error) => {
                let problem = DefinitionProblem::of_file(relative, format!("cannot be listed: {error}"))
                    .hint("give toolcrib permission to read the folder");
                return Self { problems: vec![problem], ..previous.clone() };
            }
        };
        let mut files = BTreeMap::new();
        let mut first_of_stem: BTreeMap<String, PathBuf> = BTreeMap::new();
        for path in paths {
            let mut state = FileState::read(home, &path, previous.files.get(&path), writing);
            match first_of_stem.get(&state.stem) {
                Some(first) => state.shadow(&path, first),
                None => {
                    first_of_stem.insert(state.stem.clone(), path.clone());
                }
            }
            files.insert(path, state);
        }
        Self { files, problems, is_known: true }
    }

    /// Everything that counts, by name.
    fn definitions(&self) -> BTreeMap<D::Name, Arc<D>> {
        let counting = self.files.values().filter(|file| !file.is_shadowed).filter_map(|file| file.good.as_ref());
        counting.map(|definition| (definition.name().clone(), definition.clone())).collect()
    }

    /// Whether it is certain that no file, good or bad, is meant to define `stem`.
    pub(crate) fn lacks(&self, stem: &str) -> bool {
        self.is_known && self.files.values().all(|file| file.stem != stem)
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = &DefinitionProblem> {
        self.problems.iter().chain(self.files.values().flat_map(|file| &file.problems))
    }

    pub(crate) fn warnings(&self) -> impl Iterator<Item = &DefinitionProblem> {
        self.files.values().filter(|file| !file.is_shadowed).flat_map(|file| &file.warnings)
    }

    /// The files that count, what they say, and where they say its name.
    pub(crate) fn counting(&self) -> impl Iterator<Item = (&Path, &Arc<D>, Option<Position>)> {
        let counting = self.files.iter().filter(|(_, file)| !file.is_shadowed);
        counting.filter_map(|(path, file)| Some((path.as_path(), file.good.as_ref()?, file.name_at)))
    }

    /// The files that are wrong and never were right, with their stems.
    pub(crate) fn bad(&self) -> impl Iterator<Item = (&Path, &str)> {
        let bad = self.files.iter().filter(|(_, file)| file.good.is_none() && !file.is_shadowed);
        bad.map(|(path, file)| (path.as_path(), file.stem.as_str()))
    }

    /// Files that are wrong now while what they said before still counts.
    fn stale(&self) -> BTreeSet<PathBuf> {
        let stale = |file: &FileState<D>| !file.problems.is_empty() && file.good.is_some() && !file.is_shadowed;
        self.files.iter().filter(|(_, file)| stale(file)).map(|(path, _)| path.clone()).collect()
    }
}

/// The files that count, in the order of their stems and then of [`EXTENSIONS`], relative to `home`.
fn list(home: &Path, folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<DefinitionProblem>)> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(home.join(folder))? {
        let name = PathBuf::from(entry?.file_name());
        let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        let extension = name.extension().and_then(|extension| extension.to_str());
        let rank = EXTENSIONS.iter().position(|known| extension.is_some_and(|found| found == *known));
        if let (false, Some(rank)) = (is_hidden, rank) {
            names.push((name.with_extension(""), rank, name));
        }
    }
    names.sort();
    let mut problems = Vec::new();
    if names.len() > FILES_MAX {
        let message = format!("expected at most {FILES_MAX} definitions, got {}: the rest is left out", names.len());
        problems.push(DefinitionProblem::of_file(folder, message));
        names.truncate(FILES_MAX);
    }
    Ok((names.into_iter().map(|(_, _, name)| folder.join(name)).collect(), problems))
}

// === impl FileState ===

impl<D: Definition> FileState<D> {
    fn read(home: &Path, path: &Path, previous: Option<&Self>, writing: &PendingWrites) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let last_good = previous.and_then(|file| file.good.clone());
        let bad = |digest, problem| Self {
            stem: stem.clone(),
            digest,
            good: last_good.clone(),
            problems: vec![problem],
            warnings: Vec::new(),
            name_at: previous.and_then(|file| file.name_at),
            is_shadowed: false,
        };
        if writing.has(&home.join(path)) {
            let unfinished = || {
                let message = "is still being written; it is loaded once closed".to_owned();
                bad(None, DefinitionProblem::of_file(path, message))
            };
            return previous.filter(|file| !file.is_shadowed).cloned().unwrap_or_else(unfinished);
        }
        let bytes = match read_bytes(&home.join(path)) {
            Ok(bytes) => bytes,
            Err(message) => return bad(None, DefinitionProblem::of_file(path, message)),
        };
        let digest = digest(&bytes);
        if let Some(same) = previous.filter(|file| file.digest == Some(digest) && !file.is_shadowed) {
            return same.clone();
        }
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => return bad(Some(digest), not_text(path, &bytes[..error.valid_up_to()])),
        };
        let (definition, findings) = define::read_all::<D>(path, &stem, text);
        let good = match (definition, last_good) {
            (Some(now), Some(same)) if *same == now => Some(same),
            (Some(now), _) => Some(Arc::new(now)),
            (None, last_good) => last_good,
        };
        Self {
            stem,
            digest: Some(digest),
            good,
            problems: findings.problems,
            warnings: findings.warnings,
            name_at: findings.name_at.or(previous.and_then(|file| file.name_at)),
            is_shadowed: false,
        }
    }

    /// Sets the file aside because `first` has the same stem.
    fn shadow(&mut self, path: &Path, first: &Path) {
        self.is_shadowed = true;
        let message = format!("ignored: `{}` is already defined by `{}`", self.stem, first.display());
        self.problems.push(DefinitionProblem::of_file(path, message).hint("remove one of the two"));
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The content of a file, links followed, or what is wrong with it.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, FILE_MAX)
}

/// The same of a file that may have so many bytes.
pub(crate) fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    // Looked at before it is opened: opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("expected a file, got something else".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(format!("expected a file of at most {most} bytes, got a larger one"));
    }
    Ok(bytes)
}

/// The problem of a file that is text only up to the end of `valid`.
pub(crate) fn not_text(path: &Path, valid: &[u8]) -> DefinitionProblem {
    let valid = String::from_utf8_lossy(valid);
    let line = valid.matches('\n').count();
    let column = valid.rsplit('\n').next().unwrap_or_default().chars().count();
    let one_based = |zero_based| u32::try_from(zero_based).unwrap_or(u32::MAX).saturating_add(1);
    let sink = Sink::new(path);
    let at = Position { line: one_based(line), column: one_based(column) };
    sink.add(at, "", "expected UTF-8 text, got other bytes", Some("save the file as UTF-8".to_owned()));
    sink.finish().remove(0)
}
