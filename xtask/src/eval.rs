//! `cargo xtask eval-search DIR`: how well and how fast the search finds. The program is an example of the search
//! crate, because nothing else may be built for it and this crate uses no other.

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Optimised: times of any other build say nothing, and a hundred thousand searches would take minutes.
pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let mut cargo = workspace.cargo();
    if let Ok(here) = std::env::current_dir() {
        // Folders in the arguments are relative to where the person is.
        cargo.current_dir(here);
    }
    cargo.args(["run", "--quiet", "--release", "--manifest-path"]).arg(workspace.root.join("Cargo.toml"));
    cargo.args(["--package", "toolcrib-search", "--example", "eval-search", "--"]).args(arguments);
    Ok(cargo.status().context("failed to start `cargo`")?.success())
}
