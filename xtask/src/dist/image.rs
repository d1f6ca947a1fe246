//! The container image: an archive with the program and the recipes, of which `docker build` makes the image without a
//! shell, or the one with Node and Python, and `docker compose` starts a gateway with a server and a client.

mod containers;
mod trials;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::tools::must;
use crate::dist::{Dist, archive, texts};

pub use trials::test;

/// Where what is packed comes from.
const SOURCES: &str = "packaging/image";

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let name = name(dist);
    let stage = dist.stage("image")?;
    let root = stage.join(&name);
    must(Command::new("cp").arg("-r").arg(dist.workspace.root.join(SOURCES)).arg(&root), "cp")?;
    texts::copy(dist, &root)?;
    fs::copy(&dist.binary, root.join("toolcrib")).context("failed to copy the program")?;
    let file = file(dist);
    archive::pack(dist, &stage, &name, &file)?;
    Ok(vec![file])
}

fn name(dist: &Dist<'_>) -> String {
    format!("toolcrib-{}-{}-image", dist.version, dist.target)
}

fn file(dist: &Dist<'_>) -> PathBuf {
    dist.folder.join(format!("{}.tar.gz", name(dist)))
}
