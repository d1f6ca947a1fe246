//! The program of a release: built with the profile `dist`.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::workspace::Workspace;

/// The profile of releases.
const PROFILE: &str = "dist";

/// Builds the program for a target and returns its path.
pub fn program(workspace: &Workspace, target: &str) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--locked", "--package", "toolcrib", "--profile", PROFILE, "--target", target]);
    ensure!(cargo.status()?.success(), "the program does not build");
    Ok(workspace.target()?.join(target).join(PROFILE).join("toolcrib"))
}
