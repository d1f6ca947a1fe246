//! Tells the program of which sources it was made: the commit and its time, for `toolcrib version`, and for which target,
//! for `toolcrib self-update`. Sources that come without git are no hindrance, and the same sources give the same program,
//! whenever they are built.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What is known of the sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) commit: Option<String>,
    /// Seconds since 1970.
    pub(crate) time: Option<u64>,
    /// The files that change when this does.
    pub(crate) watched: Vec<PathBuf>,
}

#[allow(clippy::print_stdout, reason = "cargo reads it")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let sources = Sources::of(&folder, std::env::var("SOURCE_DATE_EPOCH").ok().as_deref());
    for file in &sources.watched {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    println!("cargo::rustc-env=TOOLCRIB_BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    if let Some(commit) = &sources.commit {
        println!("cargo::rustc-env=TOOLCRIB_BUILD_COMMIT={commit}");
    }
    if let Some(time) = sources.time {
        println!("cargo::rustc-env=TOOLCRIB_BUILD_TIME={time}");
    }
}

// === impl Sources ===

impl Sources {
    /// The sources in a folder. `epoch` is SOURCE_DATE_EPOCH (reproducible-builds.org), which goes before the commit's
    /// time.
    pub(crate) fn of(folder: &Path, epoch: Option<&str>) -> Self {
        let mut sources = of_archive(folder).or_else(|| of_git(folder)).unwrap_or_default();
        sources.time = epoch.and_then(|epoch| epoch.trim().parse().ok()).or(sources.time);
        sources
    }
}

/// `cargo package` writes down of which commit an archive was made.
fn of_archive(folder: &Path) -> Option<Sources> {
    let text = std::fs::read_to_string(folder.join(".cargo_vcs_info.json")).ok()?;
    let after = text.split_once("\"sha1\"")?.1;
    let commit = after.split('"').nth(1).and_then(commit);
    commit.map(|commit| Sources { commit: Some(commit), ..Sources::default() })
}

fn of_git(folder: &Path) -> Option<Sources> {
    // An archive that was unpacked in someone's repository is not of that repository.
    git(folder, &["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let said = git(folder, &["log", "-1", "--format=%H %ct"])?;
    let (hash, time) = said.split_once(' ')?;
    let watched = ["HEAD", "logs/HEAD"].into_iter().filter_map(|name| git(folder, &["rev-parse", "--git-path", name]));
    // A file that is not there would count as changed in every build.
    let watched = watched.map(|path| folder.join(path)).filter(|path| path.exists()).collect();
    Some(Sources { commit: Some(commit(hash)?), time: time.parse().ok(), watched })
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

/// The name of a commit, SHA-1 or SHA-256.
fn commit(text: &str) -> Option<String> {
    let is_one = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}
