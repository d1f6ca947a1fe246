//! The program itself: its symbols in an archive of their own, the checks of its file, and a second build elsewhere that
//! must give the same bytes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::dist::build::{self, GLIBC, Place, Program};
use crate::dist::trial::Trials;
use crate::dist::{Dist, archive, elf, notices, sources};

/// The sections of the symbols in which two builds differ: the few files that zig compiles by itself name the folders that
/// zig lies in and was started in.
const DEBUG_OF_ZIG: [&str; 4] = [".debug_aranges", ".debug_info", ".debug_line", ".debug_str"];
const SAME: &str = "a second build in another folder gives the same bytes";

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let Some(symbols) = &dist.symbols else {
        println!("    no symbols: the program was given");
        return Ok(Vec::new());
    };
    let name = archive_name(dist);
    let stage = dist.stage("symbols")?;
    let root = stage.join(&name);
    archive::copy(&[&symbols.debug, &dist.workspace.root.join("LICENSE")], &root)?;
    // Where debuggers look for it.
    let (folder, rest) = symbols.build_id.split_at(2);
    let folder = root.join(".build-id").join(folder);
    fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    std::os::unix::fs::symlink("../../toolcrib.debug", folder.join(format!("{rest}.debug")))
        .context("failed to link the symbols")?;
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
    if dist.symbols.is_some() {
        debugger(dist, trials);
    }
    Ok(())
}

/// Takes what [`again`] gave as a trial.
pub fn compare(outcome: Option<Result<()>>, trials: &mut Trials) {
    trials.product("program");
    match outcome {
        Some(outcome) => trials.run(SAME, || outcome),
        None => trials.skipped(SAME, "the program was given, not built"),
    }
}

/// A debugger that is told where the archive of symbols was unpacked knows the lines of the program.
fn debugger(dist: &Dist<'_>, trials: &mut Trials) {
    let name = "a debugger finds the symbols";
    if !child::answers("gdb", &["--version"]) {
        return trials.skipped(name, "`gdb` is not installed");
    }
    trials.run(name, || {
        let folder = dist.stage("symbols-test")?;
        let file = dist.folder.join(format!("{}.tar.gz", archive_name(dist)));
        archive::unpack(&file, &folder)?;
        let mut gdb = Command::new("gdb");
        gdb.args(["-batch", "-nx", "-iex"]);
        gdb.arg(format!("set debug-file-directory {}", folder.join(archive_name(dist)).display()));
        gdb.args(["-ex", "info line sqlite3_open", "-ex", "info line crates/toolcrib/src/main.rs:1"]);
        let said = child::quiet(gdb.arg(&dist.binary), Duration::from_secs(120))?.lines.join("\n");
        ensure!(said.contains("sqlite3.c\" starts at address"), "it knows no line of C: {said}");
        ensure!(said.contains("toolcrib/src/main.rs\""), "it knows no line of Rust: {said}");
        Ok(())
    });
}

fn archive_name(dist: &Dist<'_>) -> String {
    format!("toolcrib-{}-{}-debug", dist.version, dist.target)
}

/// Builds once more from a copy of the sources, with another target folder and another home of cargo, and compares.
/// Nothing where the program was given.
pub fn again(dist: &Dist<'_>) -> Option<Result<()>> {
    dist.symbols.as_ref().map(|symbols| build_again(dist, symbols))
}

fn build_again(dist: &Dist<'_>, symbols: &Program) -> Result<()> {
    let folder = dist.stage("second-build")?;
    let cargo_home = folder.join("home-of-cargo");
    fs::create_dir(&cargo_home).with_context(|| format!("failed to create `{}`", cargo_home.display()))?;
    // The same packages under another path: what was fetched once is not fetched again.
    let registry = build::cargo_home()?.join("registry");
    std::os::unix::fs::symlink(&registry, cargo_home.join("registry")).context("failed to link the registry")?;
    let copied = sources::copy(dist.workspace, &folder.join("a/copy/of/the/sources"))?;
    let place = Place { root: copied.root, target: folder.join("built"), cargo_home, is_quiet: true };
    let other = build::program(dist.workspace, &place, dist.epoch, &folder.join("program"))?;
    elf::compare(&dist.binary, &other.binary, &[])?;
    elf::compare(&symbols.debug, &other.debug, &DEBUG_OF_ZIG)?;
    // What was built is as large as a target folder.
    fs::remove_dir_all(&folder).with_context(|| format!("failed to remove `{}`", folder.display()))
}
