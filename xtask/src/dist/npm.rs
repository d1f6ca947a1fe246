//! The packages of npm: `toolcrib` with the script that starts the program, and one package for each platform with the
//! program, of which `toolcrib` depends on all as optional ones. npm installs the one that fits; no script runs then.

mod trials;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::dist::tools::must;
use crate::dist::{Dist, texts};

pub use trials::test;

/// Where what is packed comes from.
const SOURCES: &str = "packaging/npm";

/// A row of `platforms.json`, which the script reads, too.
#[derive(Debug)]
struct Platform {
    package: String,
    target: String,
    os: String,
    cpu: String,
    libc: Option<String>,
}

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let platforms = platforms(&dist.workspace.root)?;
    let platform = built(&platforms, dist.target)?;
    let stage = dist.stage("npm")?;
    let sources = dist.workspace.root.join(SOURCES);

    let main = stage.join("main");
    fs::create_dir_all(main.join("bin"))?;
    for name in ["README.md", "platforms.json", "bin/toolcrib.js"] {
        fs::copy(sources.join(name), main.join(name)).with_context(|| format!("failed to copy `{name}`"))?;
    }
    texts::copy(dist, &main)?;
    write(&main, &main_manifest(&dist.workspace.root, &dist.version, &platforms)?)?;

    let program = stage.join("program");
    fs::create_dir_all(program.join("bin"))?;
    fs::copy(&dist.binary, program.join("bin/toolcrib")).context("failed to copy the program")?;
    texts::copy(dist, &program)?;
    write(&program, &platform.manifest(&dist.version))?;

    for folder in [&main, &program] {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--ignore-scripts", "--pack-destination"]).arg(&dist.folder).current_dir(folder);
        must(&mut npm, "npm pack")?;
    }
    Ok(vec![packed(dist, "toolcrib"), packed(dist, &platform.package)])
}

// === impl Platform ===

impl Platform {
    fn read(row: &Value) -> Result<Self> {
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        let must = |key: &str| text(key).with_context(|| format!("a platform has no `{key}`"));
        let (package, target) = (must("package")?, must("target")?);
        Ok(Self { package, target, os: must("os")?, cpu: must("cpu")?, libc: text("libc") })
    }

    fn manifest(&self, version: &str) -> Value {
        let mut manifest = json!({
            "name": self.package,
            "version": version,
            "description": format!("The program of toolcrib for {} on {}.", self.os, self.cpu),
            "license": "Apache-2.0",
            "os": [self.os],
            "cpu": [self.cpu],
        });
        if let Some(libc) = &self.libc {
            manifest["libc"] = json!([libc]);
        }
        // A program cannot be run out of an archive, in which some package managers leave packages.
        manifest["preferUnplugged"] = true.into();
        manifest
    }
}

fn platforms(root: &Path) -> Result<Vec<Platform>> {
    let table = read(&root.join(SOURCES).join("platforms.json"))?;
    table["platforms"].as_array().context("`platforms.json` lists no platforms")?.iter().map(Platform::read).collect()
}

/// The platform of what is built here.
fn built<'a>(platforms: &'a [Platform], target: &str) -> Result<&'a Platform> {
    let found = platforms.iter().find(|platform| platform.target == target);
    found.with_context(|| format!("`{SOURCES}/platforms.json` has no platform for `{target}`"))
}

/// That of `toolcrib`, which names the packages of all platforms in its own version.
fn main_manifest(root: &Path, version: &str, platforms: &[Platform]) -> Result<Value> {
    let mut manifest = read(&root.join(SOURCES).join("package.json"))?;
    let packages = platforms.iter().map(|platform| (platform.package.clone(), Value::from(version)));
    manifest["version"] = version.into();
    manifest["optionalDependencies"] = packages.collect::<Map<String, Value>>().into();
    Ok(manifest)
}

/// The file that `npm pack` makes of a package.
fn packed(dist: &Dist<'_>, package: &str) -> PathBuf {
    let name = package.trim_start_matches('@').replace('/', "-");
    dist.folder.join(format!("{name}-{}.tgz", dist.version))
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read `{}`", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("`{}` is no JSON", file.display()))
}

fn write(folder: &Path, manifest: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(manifest)? + "\n";
    fs::write(folder.join("package.json"), text).context("failed to write `package.json`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn the_package_depends_on_that_of_each_platform_and_runs_no_script() {
        let root = Workspace::find().root;
        let platforms = platforms(&root).unwrap();
        let manifest = main_manifest(&root, "1.2.3", &platforms).unwrap();
        let optional = manifest["optionalDependencies"].as_object().unwrap();
        assert_eq!(optional.len(), platforms.len());
        assert_eq!(optional["@toolcrib/linux-x64-gnu"], "1.2.3");
        assert_eq!(manifest["version"], "1.2.3");
        assert!(manifest.get("scripts").is_none() && manifest.get("dependencies").is_none());
    }

    /// The shell cannot read the table.
    #[test]
    fn the_script_of_the_shell_knows_every_platform() {
        let root = Workspace::find().root;
        let script = fs::read_to_string(root.join(SOURCES).join("bin/toolcrib.js")).unwrap();
        let table = read(&root.join(SOURCES).join("platforms.json")).unwrap();
        for row in table["platforms"].as_array().unwrap() {
            let system = if row["os"] == "darwin" { "Darwin" } else { "Linux" };
            let machine = match (system, row["cpu"].as_str()) {
                (_, Some("x64")) => "x86_64",
                ("Linux", _) => "aarch64",
                _ => "arm64",
            };
            let name = row["package"].as_str().unwrap().trim_start_matches("@toolcrib/");
            let loader = row["loader"].as_str().unwrap_or("/");
            let line = format!("'{system} {machine}') crib_name={name} crib_loader={loader} ;;");
            assert!(script.contains(&line), "no line `{line}`");
        }
    }

    #[test]
    fn a_package_says_where_it_fits() {
        let platforms = platforms(&Workspace::find().root).unwrap();
        let manifest = built(&platforms, "x86_64-unknown-linux-gnu").unwrap().manifest("1.2.3");
        assert_eq!(manifest["os"], json!(["linux"]));
        assert_eq!(manifest["cpu"], json!(["x64"]));
        assert_eq!(manifest["libc"], json!(["glibc"]));
        assert!(manifest.get("scripts").is_none());
        assert!(built(&platforms, "aarch64-apple-darwin").unwrap().manifest("1.2.3").get("libc").is_none());
        let error = built(&platforms, "mips-unknown-linux-musl").unwrap_err().to_string();
        assert!(error.contains("has no platform for `mips-unknown-linux-musl`"), "{error}");
    }
}
