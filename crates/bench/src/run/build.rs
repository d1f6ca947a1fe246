//! How much there is to compile: locked packages, and the time of a release build from cold.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::machine::{cargo, output};
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
        let target = tempfile::tempdir()?;
        eprintln!("compiling the gateway from cold");
        let started = Instant::now();
        let status = Command::new(&cargo_path)
            .args(["build", "--release", "--locked", "-p", "toolcrib", "--target-dir"])
            .arg(target.path())
            .stdout(Stdio::null())
            .status()?;
        ensure!(status.success(), "the gateway does not compile");
        let seconds = format!("{:.0} s", started.elapsed().as_secs_f64());
        table.row(&["`cargo build --release -p toolcrib` from cold".to_owned(), seconds]);
        let size = std::fs::metadata(target.path().join("release").join("toolcrib"))?.len();
        table.row(&["size of the program".to_owned(), format!("{} KiB", size / 1024)]);
    }
    findings.section("Build", table.markdown());
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
