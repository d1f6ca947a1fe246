//! The legal texts that each package carries.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::dist::Dist;

/// Copies them into the folder and returns their names.
pub fn copy(dist: &Dist<'_>, folder: &Path) -> Result<Vec<&'static str>> {
    let name = "LICENSE";
    fs::copy(dist.workspace.root.join(name), folder.join(name)).context("failed to copy the licence")?;
    Ok(vec![name])
}
