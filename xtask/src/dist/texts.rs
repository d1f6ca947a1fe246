//! The legal texts that each package carries.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::dist::{Dist, files};

/// Copies them into the folder and returns their names.
pub fn copy(dist: &Dist<'_>, folder: &Path) -> Result<Vec<String>> {
    let texts = [dist.workspace.root.join("LICENSE"), files::notices(dist)?];
    let copy = |text: &Path| {
        let name = text.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::copy(text, folder.join(&name)).with_context(|| format!("failed to copy `{name}`"))?;
        Ok(name)
    };
    texts.iter().map(|text| copy(text)).collect()
}
