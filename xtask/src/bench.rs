//! `cargo xtask bench`: builds the gateway and the benchmarks with one profile, builds the earlier gateway that `ratios`
//! measures beside it, and runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{self, Workspace};

/// The build that ratios are formed to unless `--before` names another: the last one before the call path was rebuilt.
const BEFORE: &str = "04859e2";
/// The profile of the benchmarks: the fastest.
const PROFILE: &str = "dist";
/// The profile for a commit that has no profile of the wanted name.
const OLD_PROFILE: &str = "release";

/// What `bench` was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    profile: String,
    before: EarlierBuild,
    /// For the program of the benchmarks.
    rest: Vec<String>,
}

/// The earlier build.
#[derive(Debug, PartialEq, Eq)]
enum EarlierBuild {
    None,
    Program(PathBuf),
    Commit(String),
}

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let Request { profile, before, rest } = read(arguments)?;
    let mut build = workspace.cargo();
    build.args(["build", "--profile", &profile, "--package", "toolcrib", "--package", "toolcrib-bench"]);
    let before = match before {
        EarlierBuild::None => None,
        EarlierBuild::Program(file) => {
            Some(fs::canonicalize(&file).with_context(|| format!("there is no program `{}`", file.display()))?)
        }
        EarlierBuild::Commit(commit) => Some(OldBuild::find(workspace, &commit, &profile)?.program()?),
    };
    if !build.status()?.success() {
        return Ok(false);
    }
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--profile", &profile, "--package", "toolcrib-bench", "--"]).args(rest);
    if let Some(before) = before {
        command.arg("--before").arg(before);
    }
    // The person watches the table grow, so the terminal is handed through and there is no deadline.
    Ok(command.status()?.success())
}

/// Options of this command stand first; without anything else all is measured.
fn read(arguments: &[String]) -> Result<Request> {
    let (mut profile, mut before) = (PROFILE.to_owned(), None);
    let mut rest = arguments;
    while let [flag, more @ ..] = rest
        && matches!(flag.as_str(), "--profile" | "--before")
    {
        let [value, more @ ..] = more else { bail!("`{flag}` needs a value") };
        match flag.as_str() {
            "--profile" => profile.clone_from(value),
            _ => before = Some(value.as_str()),
        }
        rest = more;
    }
    let mut rest = rest.to_vec();
    if rest.is_empty() {
        rest.push("run".to_owned());
    }
    let before = match before {
        Some("none") => EarlierBuild::None,
        Some(value) if value.contains(std::path::is_separator) || Path::new(value).is_file() => {
            EarlierBuild::Program(PathBuf::from(value))
        }
        Some(commit) => EarlierBuild::Commit(commit.to_owned()),
        None if measures_ratios(&rest) => EarlierBuild::Commit(BEFORE.to_owned()),
        None => EarlierBuild::None,
    };
    Ok(Request { profile, before, rest })
}

/// Whether the earlier build is needed for what the benchmarks are asked for.
fn measures_ratios(rest: &[String]) -> bool {
    let is_run = rest.first().is_some_and(|command| command == "run");
    let only = rest.iter().position(|argument| argument == "--only" || argument.starts_with("--only="));
    let has = |name: &str| rest.iter().any(|argument| argument == name || argument.starts_with(&format!("{name}=")));
    let wanted = only.is_none_or(|at| rest[at..].iter().take(2).any(|value| value.contains("ratios")));
    is_run && wanted && !has("--before") && !has("--no-gateway") && !has("--help") && !has("-h")
}

/// A build of a commit of this repository, below the target folder.
#[derive(Debug)]
struct OldBuild {
    root: PathBuf,
    commit: String,
    profile: String,
    /// Sources and build products while it is built.
    work: PathBuf,
    /// Where the program is kept.
    kept: PathBuf,
}

// === impl OldBuild ===

impl OldBuild {
    /// Finds the commit and the profile that it is built with: its own of that name, else its `release`.
    fn find(workspace: &Workspace, name: &str, profile: &str) -> Result<Self> {
        let root = workspace.root.clone();
        let commit = git(&root, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]);
        let Some(commit) = commit else {
            let shallow = git(&root, &["rev-parse", "--is-shallow-repository"]).is_some_and(|answer| answer == "true");
            let reason = if shallow {
                "this clone is shallow; fetch the history with `git fetch --unshallow`"
            } else {
                "this repository has no such commit"
            };
            bail!("cannot build commit `{name}` to compare with: {reason}, or leave it out with `--before none`");
        };
        let manifest =
            git(&root, &["show", &format!("{commit}:Cargo.toml")]).context("the commit has no Cargo.toml")?;
        let profile = if has_profile(&manifest, profile) { profile } else { OLD_PROFILE }.to_owned();
        let short = commit.get(..10).unwrap_or(&commit);
        let folder = workspace.target()?.join("before");
        let kept = folder.join(format!("toolcrib-{short}-{profile}"));
        Ok(Self { root, work: folder.join(short), commit, profile, kept })
    }

    /// The program, built now if it was not built before.
    fn program(&self) -> Result<PathBuf> {
        if self.kept.is_file() {
            return Ok(self.kept.clone());
        }
        println!("--> building commit {} with the profile `{}`, once", self.commit, self.profile);
        let (sources, target) = (self.work.join("sources"), self.work.join("target"));
        self.check_out(&sources)?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        workspace::clean(&mut cargo);
        cargo.current_dir(&sources).args(["build", "--locked", "--package", "toolcrib", "--profile", &self.profile]);
        cargo.arg("--target-dir").arg(&target);
        let built = cargo.status().context("failed to start `cargo`")?.success();
        ensure!(built, "commit {} does not build; its sources are in `{}`", self.commit, sources.display());
        // Cargo's folder of the profile `dev` is called otherwise.
        let folder = if self.profile == "dev" { "debug" } else { &self.profile };
        fs::copy(target.join(folder).join("toolcrib"), &self.kept).context("failed to keep the program")?;
        // Only the program is needed from now on; the rest is a gigabyte.
        git(&self.root, &["worktree", "remove", "--force", &sources.to_string_lossy()]);
        fs::remove_dir_all(&self.work).with_context(|| format!("failed to remove `{}`", self.work.display()))?;
        Ok(self.kept.clone())
    }

    /// A work tree of the commit; one that an interrupted build left is used again.
    fn check_out(&self, sources: &Path) -> Result<()> {
        let is_there = sources.join(".git").is_file();
        if is_there && git(sources, &["rev-parse", "HEAD"]).is_some_and(|head| head == self.commit) {
            return Ok(());
        }
        if sources.exists() {
            fs::remove_dir_all(sources).with_context(|| format!("failed to remove `{}`", sources.display()))?;
        }
        git(&self.root, &["worktree", "prune"]);
        let added = git(&self.root, &["worktree", "add", "--detach", &sources.to_string_lossy(), &self.commit]);
        added.with_context(|| format!("`git worktree add` failed for commit {}", self.commit))?;
        Ok(())
    }
}

/// `None` when git fails; what it says on stderr goes to the person.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.current_dir(folder).args(arguments).stderr(Stdio::inherit()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn has_profile(manifest: &str, profile: &str) -> bool {
    let header = format!("[profile.{profile}]");
    profile == OLD_PROFILE || manifest.lines().any(|line| line.trim() == header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Request {
        read(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn without_arguments_all_is_measured_beside_the_earlier_build() {
        let request = request(&[]);
        assert_eq!((request.profile.as_str(), request.rest.as_slice()), (PROFILE, &["run".to_owned()][..]));
        assert_eq!(request.before, EarlierBuild::Commit(BEFORE.to_owned()));
    }

    #[test]
    fn the_earlier_build_is_only_made_when_it_is_measured() {
        let before = |arguments: &[&str]| request(arguments).before;
        let default = || EarlierBuild::Commit(BEFORE.to_owned());
        assert_eq!(before(&["run", "--only", "ratios", "--quick"]), default());
        assert_eq!(before(&["run", "--only=calls,ratios"]), default());
        assert_eq!(before(&["run", "--only", "calls", "--rounds", "5"]), EarlierBuild::None);
        assert_eq!(before(&["soak", "--minutes", "30"]), EarlierBuild::None);
        assert_eq!(before(&["run", "--before", "toolcrib"]), EarlierBuild::None);
        assert_eq!(before(&["--before", "none"]), EarlierBuild::None);
        assert_eq!(before(&["--before", "./toolcrib", "run"]), EarlierBuild::Program(PathBuf::from("./toolcrib")));
        assert_eq!(before(&["--profile", "release", "--before", "v1"]), EarlierBuild::Commit("v1".to_owned()));
        assert!(read(&["--before".to_owned()]).is_err());
    }

    #[test]
    fn a_commit_without_the_profile_is_built_as_it_was_released() {
        let manifest = "[workspace]\n\n[profile.release]\nlto = \"thin\"\n\n[profile.small]\n";
        assert!(has_profile(manifest, "release"));
        assert!(has_profile(manifest, "small"));
        assert!(!has_profile(manifest, "dist"));
    }

    #[test]
    fn a_commit_that_is_not_there_is_named_with_the_next_step() {
        let error = OldBuild::find(&Workspace::find(), "no-such-commit", PROFILE).unwrap_err().to_string();
        assert!(error.contains("`no-such-commit`") && error.contains("--before none"), "{error}");
    }
}
