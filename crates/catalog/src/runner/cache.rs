//! The caches of package runners: where they are, whether they grow, which entry an installation left half written, and
//! how such an entry is removed without touching anything else. Reads the disk: not for the thread of an async runtime.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha512};

/// How much of a cache is looked at to see whether it grows.
const WATCHED_ENTRIES: usize = 4_000;
const WATCHED_DEPTH: usize = 3;
/// The largest list of files that is read, in bytes.
const LIST_BYTES: u64 = 8 << 20;
/// How many folders of packages, and how many files of one, are checked.
const PACKAGES: usize = 2_000;
const FILES: usize = 5_000;
/// npm touches the lock of an entry that it installs into each second.
const LOCK_IS_HELD: Duration = Duration::from_secs(5);
/// npm's lock of an entry.
const NPM_LOCK: &str = "concurrency.lock";
/// What npm writes last.
const NPM_LIST: &str = "node_modules/.package-lock.json";
/// Words of errors that mean that a file of an installed package is missing.
const MISSING: [&str; 6] = [
    "MODULE_NOT_FOUND",
    "Cannot find module",
    "Cannot find package",
    "ModuleNotFoundError",
    "No module named",
    "ENOTEMPTY",
];

/// How a runner keeps what it installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `_npx/<hash of the packages>` with `node_modules`, whose list of files is written last.
    Npm,
    /// Unpacked wheels and environments, each with lists of their files.
    Uv,
    Bun,
    Pnpm,
    Pipx,
    /// Files that are written whole: nothing is ever half written.
    Deno,
    /// Nothing that breaks is kept: images of containers are pulled in layers, `yarn dlx` cleans up.
    Unkept,
}

/// The cache of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageCache {
    layout: Layout,
    /// Folders whose direct children are entries.
    roots: Vec<PathBuf>,
    /// The entry of this installation, where its name is known before.
    entry: Option<PathBuf>,
    /// What grows while it downloads, beside the roots.
    downloads: Vec<PathBuf>,
}

/// An entry that an installation left half written: the program cannot start from it, with Toolcrib or without.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HalfWritten {
    /// The folder of the entry.
    pub path: PathBuf,
    /// How that is known, as a fragment.
    pub why: String,
}

/// Why an entry was not removed.
#[derive(Debug, thiserror::Error)]
pub enum CacheEntryError {
    /// It is not an entry of the cache, or no longer half written.
    #[error("`{path}` is not an incomplete entry of the cache", path = .0.display())]
    NotHalfWritten(PathBuf),
    /// A symbolic link stands where the entry or its folder was expected.
    #[error("`{path}` is outside of the cache", path = .0.display())]
    Escapes(PathBuf),
    /// It could not be removed.
    #[error("remove `{path}`: {source}", path = .path.display())]
    Io {
        /// The entry.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

// === impl PackageCache ===

impl PackageCache {
    pub(super) fn new(layout: Layout, packages: &[String], variable: impl Fn(&str) -> Option<String>) -> Self {
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = folder("HOME").or_else(|| folder("USERPROFILE"));
        let below = |path: &str| home.as_ref().map(|home| home.join(path));
        let caches = folder("XDG_CACHE_HOME").or_else(|| below(".cache"));
        let in_caches = |name: &str| caches.as_ref().map(|caches| caches.join(name));
        let (mut roots, mut downloads, mut entry) = (Vec::new(), Vec::new(), None);
        match layout {
            Layout::Npm => {
                let named = folder("npm_config_cache").or_else(|| folder("NPM_CONFIG_CACHE"));
                let windows = folder("LOCALAPPDATA").map(|folder| folder.join("npm-cache")).filter(|_| cfg!(windows));
                if let Some(cache) = named.or(windows).or_else(|| below(".npm")) {
                    entry = (!packages.is_empty()).then(|| cache.join("_npx").join(npx_hash(packages)));
                    roots.push(cache.join("_npx"));
                    downloads.push(cache.join("_cacache"));
                }
            }
            Layout::Uv => {
                if let Some(cache) = folder("UV_CACHE_DIR").or_else(|| in_caches("uv")) {
                    roots.extend(["archive-v0", "environments-v2"].map(|part| cache.join(part)));
                    downloads.push(cache);
                }
            }
            Layout::Bun => {
                let installed = folder("BUN_INSTALL").or_else(|| below(".bun"));
                let cache = folder("BUN_INSTALL_CACHE_DIR")
                    .or_else(|| installed.map(|folder| folder.join("install").join("cache")));
                roots.extend(cache);
            }
            Layout::Pnpm => roots.extend(in_caches("pnpm").map(|cache| cache.join("dlx"))),
            Layout::Pipx => {
                roots.extend(folder("PIPX_HOME").map(|home| home.join(".cache")));
                roots.extend(in_caches("pipx"));
                roots.extend([".local/share/pipx/.cache", ".local/pipx/.cache"].into_iter().filter_map(below));
            }
            Layout::Deno => downloads.extend(folder("DENO_DIR").or_else(|| in_caches("deno"))),
            Layout::Unkept => {}
        }
        Self { layout, roots, entry, downloads }
    }

    /// The folder that holds the entry of this installation, where there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.entry.as_deref().or(self.roots.first().map(PathBuf::as_path))
    }

    /// A number that is another one when something was written into the cache meanwhile.
    pub fn stamp(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut left = WATCHED_ENTRIES;
        let own = self.entry.iter().chain(self.roots.iter().filter(|_| self.entry.is_none()));
        for folder in own.chain(&self.downloads) {
            watch(folder, WATCHED_DEPTH, &mut left, &mut hasher);
        }
        hasher.finish()
    }

    /// The entry that an installation left half written, if any: the one of this installation, or one that the program
    /// names in what it wrote to stderr. One that is being installed into at this moment is not half written; `ended` says
    /// that the program which did so last was ours and has ended.
    pub fn half_written(&self, stderr: &[String], ended: bool) -> Option<HalfWritten> {
        let named = || {
            let is_missing = stderr.iter().any(|line| MISSING.iter().any(|word| line.contains(word)));
            stderr.iter().filter(|_| is_missing).find_map(|line| self.entry_in(line))
        };
        let mut candidates: Vec<PathBuf> = self.entry.iter().cloned().collect();
        candidates.extend(named());
        candidates.into_iter().find_map(|path| {
            let why = self.fault(&path, ended, !stderr.is_empty())?;
            Some(HalfWritten { path, why })
        })
    }

    /// Removes an entry that is half written, and nothing else.
    ///
    /// # Errors
    /// It is no entry of this cache, nothing is wrong with it, someone installs into it, it is reached by a symbolic
    /// link, or the system refuses.
    pub fn remove(&self, entry: &HalfWritten) -> Result<(), CacheEntryError> {
        let path = &entry.path;
        let not_that = || CacheEntryError::NotHalfWritten(path.clone());
        let root = self.roots.iter().find(|root| path.parent() == Some(root.as_path())).ok_or_else(not_that)?;
        let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !is_plain || !self.is_name(path) {
            return Err(not_that());
        }
        let io = |source| CacheEntryError::Io { path: path.clone(), source };
        let is_folder = |metadata: Metadata| metadata.is_dir();
        // The links of folders above the cache are the person's own; below it nothing may lead elsewhere.
        let above = root.parent().unwrap_or(root);
        for place in [root.as_path(), path.as_path()] {
            if !fs::symlink_metadata(place).map(is_folder).map_err(io)? {
                return Err(CacheEntryError::Escapes(path.clone()));
            }
        }
        let (real, real_above) = (path.canonicalize().map_err(io)?, above.canonicalize().map_err(io)?);
        let expected = path.strip_prefix(above).map(|below| real_above.join(below)).map_err(|_| not_that())?;
        if real != expected {
            return Err(CacheEntryError::Escapes(path.clone()));
        }
        if self.fault(path, false, true).is_none() {
            return Err(not_that());
        }
        // It does not follow links, also such as are made meanwhile.
        fs::remove_dir_all(path).map_err(io)
    }

    /// Whether a folder is called as entries of this cache are.
    fn is_name(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        match self.layout {
            Layout::Npm => name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit()),
            _ => !name.starts_with('.') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@+".contains(&b)),
        }
    }

    /// The entry that a line of text names a file of.
    fn entry_in(&self, line: &str) -> Option<PathBuf> {
        self.roots.iter().find_map(|root| {
            let shown = root.to_str()?;
            let (_, rest) = line.split_once(shown)?;
            let name = rest.strip_prefix('/')?.split(['/', '\'', '"', ':', ' ', ')']).next()?;
            let path = root.join(name);
            self.is_name(&path).then_some(path)
        })
    }

    /// What is wrong with an entry, if something is.
    fn fault(&self, path: &Path, ended: bool, is_named: bool) -> Option<String> {
        if !path.is_dir() {
            return None;
        }
        match self.layout {
            Layout::Npm => npm_fault(path, ended),
            Layout::Uv => uv_fault(path),
            // Nothing in the entry shows it; the program reported a missing file.
            Layout::Bun | Layout::Pnpm | Layout::Pipx if is_named => Some("a file of it is missing".to_owned()),
            Layout::Bun | Layout::Pnpm | Layout::Pipx | Layout::Deno | Layout::Unkept => None,
        }
    }
}

/// The name of npm's entry for these packages (libnpmexec: the packages as written, sorted, a line each).
fn npx_hash(packages: &[String]) -> String {
    let mut sorted: Vec<&str> = packages.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let digest = Sha512::digest(sorted.join("\n").as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// An entry is whole once `node_modules/.package-lock.json` is there and every package that it lists.
fn npm_fault(entry: &Path, ended: bool) -> Option<String> {
    let touched = fs::symlink_metadata(entry.join(NPM_LOCK)).and_then(|lock| lock.modified()).ok();
    if let Some(touched) = touched {
        let is_held = SystemTime::now().duration_since(touched).is_ok_and(|age| age < LOCK_IS_HELD);
        // The lock of a program that was killed makes the next one wait for a minute.
        return (ended || !is_held).then(|| format!("the lock `{NPM_LOCK}` was left in it"));
    }
    if !entry.join("node_modules").is_dir() {
        return None;
    }
    let Some(list) = read(&entry.join(NPM_LIST)) else {
        return Some(format!("`{NPM_LIST}`, which npm writes last, is missing"));
    };
    let Ok(list) = serde_json::from_str::<serde_json::Value>(&list) else {
        return Some(format!("`{NPM_LIST}` is cut off"));
    };
    let packages = list["packages"].as_object()?;
    let required = packages.iter().filter(|(place, about)| {
        place.starts_with("node_modules/")
            && about["optional"] != true
            && about["peer"] != true
            && about["link"] != true
    });
    let mut missing = required.take(PACKAGES).filter(|(place, _)| !entry.join(place).join("package.json").exists());
    missing.next().map(|(place, _)| format!("`{place}` is missing"))
}

/// A wheel is whole when the files are there that its `RECORD` lists.
fn uv_fault(entry: &Path) -> Option<String> {
    let mut folders = vec![entry.to_owned()];
    for lib in children(&entry.join("lib")) {
        folders.push(lib.join("site-packages"));
    }
    for site in folders {
        let about = children(&site).into_iter().filter(|path| path.extension().is_some_and(|it| it == "dist-info"));
        for about in about.take(PACKAGES) {
            let name = about.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(record) = read(&about.join("RECORD")) else {
                return Some(format!("`{name}/RECORD` is missing"));
            };
            let files = record.lines().take(FILES).filter_map(|line| line.split(',').next());
            let required = files.filter(|file| !file.starts_with(['"', '/', '.']) && !file.ends_with(".pyc"));
            // Scripts and data go elsewhere at the installation.
            let mut required = required.filter(|file| !file.contains("..") && !file.contains(".data/"));
            if let Some(missing) = required.find(|file| !site.join(file).exists()) {
                return Some(format!("`{missing}` is missing"));
            }
        }
    }
    None
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(PACKAGES);
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LIST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Takes the names and times of what lies below a folder into account.
fn watch(folder: &Path, depth: usize, left: &mut usize, hasher: &mut DefaultHasher) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(about) = entry.metadata() else { continue };
        // npm touches its lock whether it gets on or not.
        if entry.file_name() == NPM_LOCK {
            continue;
        }
        entry.file_name().hash(hasher);
        (about.modified().ok(), about.len()).hash(hasher);
        if about.is_dir() && depth > 1 {
            watch(&entry.path(), depth - 1, left, hasher);
        }
    }
}

#[cfg(test)]
mod tests;
