//! `toolcrib-<version>-<target>.tar.gz`: the binary with its man pages, completions and licence, for everybody whose
//! package manager has no Toolcrib.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::dist::Dist;
use crate::dist::tools::must;
use crate::dist::trial::Trials;

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let name = format!("toolcrib-{}-{}", dist.version, dist.target);
    let stage = dist.stage("archive")?;
    let root = stage.join(&name);
    fs::create_dir_all(&root)?;
    fs::copy(&dist.binary, root.join("toolcrib")).context("failed to copy the program")?;
    fs::copy(dist.workspace.root.join("LICENSE"), root.join("LICENSE")).context("failed to copy the licence")?;
    let file = dist.folder.join(format!("{name}.tar.gz"));
    pack(dist, &stage, &name, &file)?;
    Ok(vec![file])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let name = format!("toolcrib-{}-{}", dist.version, dist.target);
    let folder = dist.stage("archive-test")?;
    let file = dist.folder.join(format!("{name}.tar.gz"));
    must(Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&folder), "tar")?;
    trials.run("the program of the archive says its version", || {
        let output = Command::new(folder.join(&name).join("toolcrib")).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(text.contains(&dist.version), "it said `{}`", text.trim());
        Ok(())
    });
    Ok(())
}

/// An archive whose bytes depend on the names and contents of the files alone.
pub fn pack(dist: &Dist<'_>, folder: &Path, name: &str, file: &Path) -> Result<()> {
    let tar = file.with_extension("");
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    pack.arg(format!("--mtime=@{}", dist.epoch)).arg("-C").arg(folder).arg("-cf").arg(&tar).arg(name);
    must(&mut pack, "tar")?;
    must(Command::new("gzip").args(["-9", "-n", "-f"]).arg(&tar), "gzip")
}
