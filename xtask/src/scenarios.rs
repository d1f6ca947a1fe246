//! The step `scenarios`: our own behaviour scenarios and those of the acceptance folder, through `toolcrib test`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Context, Result};

use crate::tally::Tally;
use crate::verdict::{STEP_DEADLINE, Setting, Verdict};
use crate::workspace::Workspace;
use crate::{build, child};

/// Names the folder of the acceptance files.
const VARIABLE: &str = "TOOLCRIB_ACCEPTANCE";
/// Where it lies without that, seen from the root.
const DEFAULT: &str = "../shared/acceptance";
/// The scenarios in it.
const SCENARIOS: &str = "muster-scenarios";
/// Scenarios that pin a fault, each with its reason.
const EXPECTED: &str = "acceptance/expected-failures.yaml";

pub fn step(workspace: &Workspace, setting: Setting) -> Result<Verdict> {
    let built = build::build(workspace, setting)?;
    if built.failed {
        return Ok(built);
    }
    let binary = workspace.target()?.join("debug/toolcrib");
    let mut verdict = run(workspace, &binary, &workspace.root.join("scenarios"), None)?;
    let folder = acceptance(workspace, std::env::var_os(VARIABLE)).join(SCENARIOS);
    if folder.is_dir() {
        let more = run(workspace, &binary, &folder, Some(&workspace.root.join(EXPECTED)))?;
        verdict += more;
    } else {
        let remark =
            format!("SKIPPED: there are no scenarios at `{}`; name their folder with {VARIABLE}", folder.display());
        println!("{remark}");
        verdict.tally += Tally::SKIPPED;
        verdict.remarks.push(remark);
    }
    Ok(verdict)
}

fn acceptance(workspace: &Workspace, named: Option<OsString>) -> PathBuf {
    match named.filter(|named| !named.is_empty()) {
        Some(named) => PathBuf::from(named),
        None => workspace.root.join(DEFAULT),
    }
}

fn run(workspace: &Workspace, binary: &Path, folder: &Path, expected: Option<&Path>) -> Result<Verdict> {
    let cores = available_parallelism().context("count the cores")?.get();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let report = workspace.target()?.join(format!("{name}.json"));
    let mut command = std::process::Command::new(binary);
    // A scenario mostly waits, so there may be more of them than cores.
    command.args(["test", "--parallel", &(cores * 4).min(50).to_string(), "--config"]).arg(folder);
    command.arg("--report").arg(report);
    if let Some(expected) = expected.filter(|expected| expected.is_file()) {
        command.arg("--expected-failures").arg(expected);
    }
    Verdict::repeated(&name, || {
        let outcome = child::run(&mut command, STEP_DEADLINE)?;
        let verdict = Verdict::counted(outcome.success, Tally::from_scenarios(&outcome.lines));
        Ok((verdict, Vec::new()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_acceptance_folder_is_named_or_beside_the_project() {
        let workspace = Workspace { root: PathBuf::from("/a/project") };
        assert_eq!(acceptance(&workspace, Some("/x".into())), Path::new("/x"));
        for unset in [None, Some(OsString::new())] {
            assert_eq!(acceptance(&workspace, unset), Path::new("/a/project/../shared/acceptance"));
        }
    }
}
