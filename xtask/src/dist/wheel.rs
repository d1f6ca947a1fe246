//! The wheel of PyPI: the program as a script of the package, without Python code. `maturin` makes it, and would compile
//! the program with cargo; the `cargo` that it finds here answers with the program that is there.

mod trials;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::dist::tools::{self, must};
use crate::dist::{Dist, texts};
use crate::workspace;

pub use trials::test;

/// Where what is packed comes from.
const SOURCES: &str = "packaging/python";
const PACKAGE: &str = "toolcrib";
/// What makes, checks and installs wheels.
const PINS: [&str; 5] =
    ["auditwheel==6.8.2", "check-wheel-contents==0.6.3", "maturin==1.16.0", "twine==7.0.0", "uv==0.13.9"];

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    for old in made(dist)? {
        fs::remove_file(&old).with_context(|| format!("failed to remove `{}`", old.display()))?;
    }
    let wheel = pack(dist, &dist.stage("wheel")?)?;
    let file = dist.folder.join(wheel.file_name().context("the wheel has no name")?);
    fs::copy(&wheel, &file).context("failed to copy the wheel")?;
    Ok(vec![file])
}

/// The wheels of this version and machine that are there. Their names say which glibc they need, which is seen when they
/// are made.
fn made(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let (begin, end) = (format!("{PACKAGE}-{}-py3-", dist.version), format!("{}.whl", machine(dist.target)));
    let is_ours = |name: &str| name.starts_with(&begin) && name.ends_with(&end);
    let entries = fs::read_dir(&dist.folder).context("failed to list the products")?;
    let files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    Ok(files.into_iter().filter(|file| file.file_name().is_some_and(|name| is_ours(&name.to_string_lossy()))).collect())
}

/// `x86_64` of `x86_64-unknown-linux-gnu`.
fn machine(target: &str) -> &str {
    target.split('-').next().unwrap_or(target)
}

fn tools(dist: &Dist<'_>) -> Result<PathBuf> {
    tools::python(dist.workspace, "wheel", &PINS)
}

/// Makes the wheel in an empty folder.
fn pack(dist: &Dist<'_>, stage: &Path) -> Result<PathBuf> {
    let (project, cargo, out) = (stage.join("project"), stage.join("cargo"), stage.join("out"));
    for folder in [&project, &cargo] {
        fs::create_dir_all(folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    }
    write_project(dist, &project)?;
    let program = stage.join(PACKAGE);
    fs::copy(&dist.binary, &program).context("failed to copy the program")?;
    write_cargo(dist, &cargo, &program)?;

    let mut maturin = Command::new(tools(dist)?.join("maturin"));
    workspace::clean(&mut maturin);
    maturin.args(["build", "--locked", "--target", dist.target, "--out"]).arg(&out).current_dir(&project);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(cargo).chain(std::env::split_paths(&path));
    // A cargo that is named there would be taken in place of the one in PATH.
    maturin.env("PATH", std::env::join_paths(folders)?).env_remove("CARGO");
    maturin.env("SOURCE_DATE_EPOCH", dist.epoch.to_string());
    must(&mut maturin, "maturin build")?;

    let entries = fs::read_dir(&out).context("maturin made nothing")?;
    let wheels = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    ensure!(wheels.len() == 1, "maturin made {} files", wheels.len());
    wheels.into_iter().next().context("maturin made no file")
}

/// The project with its texts, which name no folder of the repository.
fn write_project(dist: &Dist<'_>, folder: &Path) -> Result<()> {
    let sources = dist.workspace.root.join(SOURCES);
    fs::copy(sources.join("README.md"), folder.join("README.md")).context("failed to copy `README.md`")?;
    let texts = texts::copy(dist, folder)?;
    let settings = fs::read_to_string(sources.join("pyproject.toml")).context("failed to read `pyproject.toml`")?;
    let mut settings: toml::Table = settings.parse().context("`pyproject.toml` is no TOML")?;
    settings["project"]["license-files"] = toml::Value::from(texts);
    let manifest = dist.workspace.root.join("crates/toolcrib/Cargo.toml");
    settings["tool"]["maturin"]["manifest-path"] = manifest.to_string_lossy().into_owned().into();
    fs::write(folder.join("pyproject.toml"), settings.to_string()).context("failed to write `pyproject.toml`")
}

/// A `cargo` that compiles nothing: what it would have compiled is the program.
fn write_cargo(dist: &Dist<'_>, folder: &Path, program: &Path) -> Result<()> {
    let metadata = dist.workspace.metadata()?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let package =
        packages.iter().find(|package| package["name"] == PACKAGE).context("there is no package `toolcrib`")?;
    let targets = package["targets"].as_array().context("the package has no targets")?;
    let target = targets.iter().find(|target| target["name"] == PACKAGE && target["kind"] == json!(["bin"]));
    let artifact = json!({
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": package["manifest_path"],
        "target": target.context("the package has no program")?,
        "profile": {
            "opt_level": "3", "debuginfo": 0, "debug_assertions": false, "overflow_checks": false, "test": false,
        },
        "features": [],
        "filenames": [program],
        "executable": program,
        "fresh": true,
    });
    let finished = json!({ "reason": "build-finished", "success": true });
    let messages = folder.join("messages");
    fs::write(&messages, format!("{artifact}\n{finished}\n")).context("failed to write the answer of cargo")?;
    let real = dist.workspace.cargo().get_program().to_string_lossy().into_owned();
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\nrustc) exec cat {} ;;\n*) exec {} \"$@\" ;;\nesac\n",
        quoted(&messages.to_string_lossy()),
        quoted(&if real.contains('/') { real } else { which(&real)? }),
    );
    let file = folder.join("cargo");
    fs::write(&file, script).context("failed to write the stand-in of cargo")?;
    fs::set_permissions(&file, Permissions::from_mode(0o755)).context("failed to make the stand-in executable")
}

/// The path of a program, before another one of its name is put before it.
fn which(name: &str) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    Ok(found.with_context(|| format!("no `{name}` in PATH"))?.to_string_lossy().into_owned())
}
