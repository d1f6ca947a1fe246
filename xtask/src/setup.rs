//! `cargo xtask setup`: what a person does once after cloning. So far git gets the path of the hooks.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// Where the hooks lie, from the root.
const HOOKS: &str = ".githooks";

pub fn command(workspace: &Workspace) -> Result<bool> {
    let mut git = Command::new("git");
    git.arg("-C").arg(&workspace.root).args(["config", "core.hooksPath", HOOKS]);
    let status = git.status().context("failed to start `git`; install it")?;
    ensure!(status.success(), "`git config` failed; its reason is above");
    println!("git runs the hooks in {HOOKS} from now on");
    Ok(true)
}
