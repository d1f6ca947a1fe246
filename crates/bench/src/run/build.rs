//! How much there is to compile: locked packages, and with `--compile` what it takes from an empty target folder to the
//! last line of the demo, as a person meets it first.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::machine::{cargo, output};
use crate::process::cpu_time_of_children;
use crate::report::Table;

use super::{Findings, Run};

pub(super) fn measure(run: &Run, findings: &mut Findings) -> anyhow::Result<()> {
    let mut table = Table::new(&["build", "figure"]);
    let cargo_path = cargo();
    let cargo_name = cargo_path.to_string_lossy();
    let manifest = output(&cargo_name, &["locate-project", "--workspace", "--message-format", "plain"])
        .context("find the workspace with `cargo locate-project`")?;
    let lock = std::path::Path::new(&manifest).with_file_name("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).with_context(|| format!("read `{}`", lock.display()))?;
    table.row(&["packages in Cargo.lock, for all platforms and tests".to_owned(), locked(&lock).to_string()]);
    let tree = ["tree", "--locked", "-p", "toolcrib", "-e", "normal,build", "--prefix", "none", "--no-dedupe"];
    if let Some(tree) = output(&cargo_name, &tree) {
        let figure = distinct(&tree).to_string();
        table.row(&["packages compiled for `toolcrib` on this platform".to_owned(), figure]);
    }
    if run.compile {
        first_answer(&cargo_path, &mut table)?;
    }
    findings.section("Build", table.markdown());
    Ok(())
}

/// The README's first command in an empty target folder, until the demo has ended.
fn first_answer(cargo: &OsStr, table: &mut Table) -> anyhow::Result<()> {
    let target = tempfile::tempdir()?;
    eprintln!("compiling the gateway from cold and running its demo");
    let before = cpu_time_of_children();
    let started = Instant::now();
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--locked", "-p", "toolcrib", "--target-dir"])
        .arg(target.path())
        .args(["--", "demo", "--once"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(output.status.success() && !output.stdout.is_empty(), "the demo of a fresh build does not run");
    let command = "`cargo run --release -- demo --once` in an empty target folder";
    table.row(&[format!("{command}, to its last line"), format!("{seconds:.0} s")]);
    if let (Some(before), Some(after)) = (before, cpu_time_of_children()) {
        table.row(&[format!("{command}, CPU time"), format!("{:.0} s", (after - before).as_secs_f64())]);
    }
    let size = std::fs::metadata(target.path().join("release").join("toolcrib"))?.len();
    table.row(&["size of the program, profile `release`".to_owned(), format!("{} KiB", size / 1024)]);
    Ok(())
}

/// Packages of a lock file that come from elsewhere.
fn locked(lock: &str) -> usize {
    lock.split("[[package]]").skip(1).filter(|package| package.contains("\nsource = ")).count()
}

fn distinct(tree: &str) -> usize {
    let packages = tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    packages.collect::<std::collections::BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_from_elsewhere_count_as_locked() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"registry\"\n\n[[package]]\nname = \"mine\"\nversion = \"1\"\n";
        assert_eq!(locked(lock), 1);
    }

    #[test]
    fn a_package_counts_once_however_often_the_tree_names_it() {
        assert_eq!(distinct("a v1\nb v1\na v1 (*)\n\nb v1\n"), 2);
    }
}
