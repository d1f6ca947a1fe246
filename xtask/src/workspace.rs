//! Where things are: the root of the workspace, the target folder, the sources, and what cargo knows of the packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Folders that hold nothing of ours: build products, installed packages, the repository itself.
const NOT_OURS: [&str; 7] = [".git", "node_modules", "__pycache__", ".pytest_cache", "corpus", "artifacts", ".venv"];

/// What `cargo run` sets for this program and what would make build scripts below believe that they changed.
const SET_BY_CARGO_RUN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

#[derive(Debug)]
pub struct Workspace {
    pub root: PathBuf,
}

/// One package of the workspace as `cargo metadata` tells it.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    pub manifest: PathBuf,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub struct Dependency {
    pub name: String,
    pub development: bool,
    pub features: Vec<String>,
}

/// A text file of ours; `path` is relative to the root with forward slashes.
#[derive(Debug)]
pub struct TextFile {
    pub path: String,
    pub text: String,
}

// === impl Workspace ===

impl Workspace {
    pub fn find() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { root: here.parent().unwrap_or(here).to_path_buf() }
    }

    /// A cargo call in the root, without the traces of the cargo call that started us.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        clean(&mut command);
        command
    }

    pub fn metadata(&self) -> Result<Value> {
        let output = self
            .cargo()
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .context("failed to start `cargo metadata`")?;
        ensure!(output.status.success(), "`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("`cargo metadata` did not answer JSON")
    }

    pub fn target(&self) -> Result<PathBuf> {
        let metadata = self.metadata()?;
        let target = metadata["target_directory"].as_str().context("`cargo metadata` names no target folder")?;
        Ok(PathBuf::from(target))
    }

    /// The folder for programs of ours that cargo installs; it is added to PATH where they are used.
    pub fn tools(&self) -> Result<PathBuf> {
        Ok(self.target()?.join("tools"))
    }

    pub fn packages(&self) -> Result<Vec<Package>> {
        let metadata = self.metadata()?;
        let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
        Ok(packages.iter().map(Package::read).collect())
    }

    /// All text files of ours, sorted by path. Files that are not UTF-8 are left out.
    pub fn files(&self) -> Result<Vec<TextFile>> {
        let mut files = Vec::new();
        collect(&self.root, &self.root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

// === impl Package ===

impl Package {
    fn read(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let dependencies = list(&value["dependencies"])
            .iter()
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                development: dependency["kind"] == "dev",
                features: list(&dependency["features"]).iter().map(text).collect(),
            })
            .collect();
        let manifest = PathBuf::from(text(&value["manifest_path"]));
        Self { name: text(&value["name"]), manifest, dependencies }
    }
}

/// Removes what `cargo run` added to the environment of this program.
pub fn clean(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if SET_BY_CARGO_RUN.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&key);
        }
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<TextFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to list `{}`", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !name.starts_with("target") {
                collect(root, &entry.path(), files)?;
            }
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            let path = entry.path();
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push(TextFile { path, text });
        }
    }
    Ok(())
}
