//! The program itself: its symbols in an archive of their own, the checks of its file, and a second build elsewhere that
//! must give the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dist::build::{self, GLIBC, Place};
use crate::dist::trial::Trials;
use crate::dist::{Dist, archive, elf, notices, sources};

const SAME: &str = "a second build in another folder gives the same bytes";

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let Some(debug) = &dist.debug else {
        println!("    no symbols: the program was given");
        return Ok(Vec::new());
    };
    let name = format!("toolcrib-{}-{}-debug", dist.version, dist.target);
    let stage = dist.stage("symbols")?;
    archive::copy(&[debug, &dist.workspace.root.join("LICENSE")], &stage.join(&name))?;
    let file = dist.folder.join(format!("{name}.tar.gz"));
    archive::pack(dist, &stage, &name, &file)?;
    Ok(vec![file])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    trials.run(&format!("it needs nothing but glibc {GLIBC}"), || elf::check(&dist.binary, GLIBC));
    trials.run("the list of dependencies inside names every package that is linked", || {
        let recorded = elf::recorded(dist.workspace, &dist.binary)?;
        let linked = notices::linked(dist.workspace, dist.target)?;
        let names = linked.iter().map(|package| format!("{} {}", package.name, package.version));
        let missing: Vec<String> = names.filter(|name| !recorded.contains(name)).collect();
        ensure!(missing.is_empty(), "it lacks {}", missing.join(", "));
        ensure!(recorded.contains(&format!("toolcrib {}", dist.version)), "it lacks toolcrib itself");
        Ok(())
    });
    match &dist.debug {
        Some(debug) => trials.run(SAME, || again(dist, debug)),
        None => trials.skipped(SAME, "the program was given, not built"),
    }
    Ok(())
}

/// Builds once more from a copy of the sources, with another target folder and another home of cargo.
fn again(dist: &Dist<'_>, debug: &Path) -> Result<()> {
    let folder = dist.stage("second-build")?;
    let cargo_home = folder.join("home-of-cargo");
    fs::create_dir(&cargo_home).with_context(|| format!("failed to create `{}`", cargo_home.display()))?;
    // The same packages under another path: what was fetched once is not fetched again.
    let registry = build::cargo_home()?.join("registry");
    std::os::unix::fs::symlink(&registry, cargo_home.join("registry")).context("failed to link the registry")?;
    let copied = sources::copy(dist.workspace, &folder.join("a/copy/of/the/sources"))?;
    let place = Place { root: copied.root, target: folder.join("built"), cargo_home };
    let other = build::program(dist.workspace, &place, dist.epoch, &folder.join("program"))?;
    elf::compare(&dist.binary, &other.binary)?;
    elf::compare(debug, &other.debug)?;
    // What was built is as large as a target folder.
    fs::remove_dir_all(&folder).with_context(|| format!("failed to remove `{}`", folder.display()))
}
