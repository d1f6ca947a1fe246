//! The programs that make packages: from the Python registry into an environment of their own, from the Rust registry
//! below the target folder. Each is pinned; one that is there is used at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::workspace::Workspace;

/// Long enough to compile one of them on two busy cores.
const DEADLINE: Duration = Duration::from_secs(20 * 60);

/// `bin` of an environment with these Python packages, each pinned as `name==version`.
pub fn python(workspace: &Workspace, name: &str, pins: &[&str]) -> Result<PathBuf> {
    let home = workspace.target()?.join("dist-tools").join(format!("python-{name}"));
    let stamp = home.join("pins");
    let wanted = pins.join("\n");
    let bin = home.join("bin");
    if std::fs::read_to_string(&stamp).is_ok_and(|pins| pins == wanted) {
        return Ok(bin);
    }
    println!("installing {}", pins.join(", "));
    must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home), "python3 -m venv")?;
    let mut pip = Command::new(bin.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(pins);
    must(&mut pip, "pip install")?;
    std::fs::write(&stamp, wanted).with_context(|| format!("failed to write `{}`", stamp.display()))?;
    Ok(bin)
}

/// A cargo command, installed from the Rust registry; the folder that it is in belongs on PATH.
pub fn cargo(workspace: &Workspace, name: &str, version: &str) -> Result<PathBuf> {
    let home = workspace.target()?.join("dist-tools").join(format!("{name}-{version}"));
    let bin = home.join("bin");
    if bin.join(name).is_file() {
        return Ok(bin);
    }
    println!("installing {name} {version}");
    let mut install = workspace.cargo();
    // Its own target folder: the tools share none of our features.
    install.args(["install", "--locked", "--version", version, "--root"]).arg(&home).arg(name);
    install.env("CARGO_TARGET_DIR", home.join("build")).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    must(&mut install, "cargo install")?;
    std::fs::remove_dir_all(home.join("build")).with_context(|| format!("failed to remove the build of {name}"))?;
    Ok(bin)
}

/// PATH with these folders in front.
pub fn path(folders: &[&Path]) -> Result<OsString> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&own));
    std::env::join_paths(all).context("a folder's name does not fit into PATH")
}

/// Runs a program that must end well; what it printed is shown when it does not.
pub fn must(command: &mut Command, name: &str) -> Result<()> {
    let outcome = child::quiet(command, DEADLINE)?;
    ensure!(outcome.success, "`{name}` failed:\n{}", outcome.lines.join("\n"));
    Ok(())
}
