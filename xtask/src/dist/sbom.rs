//! `toolcrib-<version>-<target>.cdx.json`: the packages that the program is made of, as CycloneDX.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::dist::trial::Trials;
use crate::dist::{Dist, notices, sources, tools};

const TOOL: &str = "cargo-cyclonedx";
const TOOL_VERSION: &str = "0.5.9";
/// Of the format.
const SPECIFICATION: &str = "1.5";
/// What stands for the folder of the sources.
const ROOT: &str = "/toolcrib";

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let bin = tools::cargo(dist.workspace, TOOL, TOOL_VERSION)?;
    // The tool writes beside each manifest, so it gets sources of its own.
    let copied = sources::copy(dist.workspace, &dist.stage("sbom")?.join("sources"))?;
    let crate_folder = copied.root.join("crates/toolcrib");
    let mut cargo = copied.cargo();
    cargo.args(["cyclonedx", "--format", "json", "--spec-version", SPECIFICATION, "--no-build-deps"]);
    cargo.args(["--target", dist.target, "--override-filename", "toolcrib", "--manifest-path"]);
    cargo.arg(crate_folder.join("Cargo.toml")).env("PATH", tools::path(&[&bin])?);
    cargo.env("SOURCE_DATE_EPOCH", dist.epoch.to_string());
    tools::must(&mut cargo, TOOL)?;
    let written = crate_folder.join("toolcrib.json");
    let text = fs::read_to_string(&written).with_context(|| format!("`{TOOL}` wrote no `{}`", written.display()))?;
    let text = text.replace(&*copied.root.to_string_lossy(), ROOT);
    let file = file(dist);
    fs::write(&file, text).with_context(|| format!("failed to write `{}`", file.display()))?;
    fs::remove_dir_all(&copied.root).context("failed to remove the copy of the sources")?;
    Ok(vec![file])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let text = fs::read_to_string(file(dist)).context("there is no SBOM")?;
    trials.run("the SBOM names every package that is linked, and its licence", || {
        let sbom: Value = serde_json::from_str(&text).context("it is no JSON")?;
        ensure!(sbom["bomFormat"] == "CycloneDX" && sbom["specVersion"] == SPECIFICATION, "it is no CycloneDX");
        let components = sbom["components"].as_array().context("it has no components")?;
        for package in notices::linked(dist.workspace, dist.target)? {
            let is_it = |entry: &&Value| entry["name"] == *package.name && entry["version"] == *package.version;
            let entry = components.iter().find(is_it);
            let entry = entry.with_context(|| format!("it lacks `{} {}`", package.name, package.version))?;
            let licences = entry["licenses"].as_array().is_some_and(|licences| !licences.is_empty());
            ensure!(licences, "`{} {}` has no licence in it", package.name, package.version);
        }
        Ok(())
    });
    trials.run("the SBOM names no folder of this machine", || {
        let root = dist.workspace.root.to_string_lossy();
        ensure!(!text.contains(&*root), "it names `{root}`");
        Ok(())
    });
    Ok(())
}

fn file(dist: &Dist<'_>) -> PathBuf {
    dist.folder.join(format!("toolcrib-{}-{}.cdx.json", dist.version, dist.target))
}
