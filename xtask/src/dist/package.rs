//! What the Debian package and the RPM package have in common: the folder that they are made from, and the programs
//! that make them. What goes where in a package is said in `crates/toolcrib/Cargo.toml`, its other files are in
//! `packaging/`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::dist::Dist;
use crate::dist::files;
use crate::dist::tools::{self, must};

/// Whose metadata the packages are made from.
pub const CRATE: &str = "toolcrib";

/// A folder that looks to the programs that make packages like the target folder of cargo.
#[derive(Debug)]
pub struct TargetFolder {
    pub path: PathBuf,
}

/// A program that makes packages.
#[derive(Debug)]
pub struct Packer {
    pub name: &'static str,
    pub version: &'static str,
}

// === impl TargetFolder ===

impl TargetFolder {
    /// Fills one for a package of this version.
    pub fn fill(dist: &Dist<'_>, name: &str, version: &str) -> Result<Self> {
        let path = dist.stage(name)?;
        let release = path.join("release");
        let package = release.join("package");
        fs::create_dir_all(&package).with_context(|| format!("failed to create `{}`", package.display()))?;
        fs::copy(&dist.binary, release.join(CRATE)).context("failed to copy the program")?;
        made_by_the_program(dist, &package)?;
        let changelog = package.join("changelog");
        fs::write(&changelog, debian_changelog(version, dist.epoch)?).context("failed to write the changelog")?;
        must(Command::new("gzip").args(["-9", "-n"]).arg(&changelog), "gzip")?;
        Ok(Self { path })
    }
}

// === impl Packer ===

impl Packer {
    /// A call of it in the root of the workspace, with the target folder in place of cargo's.
    pub fn command(&self, dist: &Dist<'_>, target: &TargetFolder) -> Result<Command> {
        let bin = tools::cargo(dist.workspace, self.name, self.version)?;
        let mut command = Command::new(bin.join(self.name));
        command.current_dir(&dist.workspace.root);
        crate::workspace::clean(&mut command);
        command.env("SOURCE_DATE_EPOCH", dist.epoch.to_string()).env("CARGO_TARGET_DIR", &target.path);
        Ok(command)
    }
}

/// Man pages, completions and notices.
fn made_by_the_program(dist: &Dist<'_>, folder: &Path) -> Result<()> {
    let man = folder.join("man");
    files::man_pages(dist, &man)?;
    must(Command::new("gzip").args(["-9", "-n", "-r"]).arg(&man), "gzip")?;
    files::completions(dist, &folder.join("completions"))?;
    let notices = files::notices(dist)?;
    let name = notices.file_name().context("the notices have no name")?;
    fs::copy(&notices, folder.join(name)).context("failed to copy the notices")?;
    Ok(())
}

/// A changelog in Debian's form. What changed is in the project's own changelog.
fn debian_changelog(version: &str, epoch: u64) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--rfc-email", "--date"]).arg(OsString::from(format!("@{epoch}"))).env("LC_ALL", "C");
    let output = date.output().context("failed to start `date`")?;
    ensure!(output.status.success(), "`date` knows no time {epoch}");
    let time = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(format!("{CRATE} ({version}) stable; urgency=medium\n\n  * Release {version}.\n\n -- {MAINTAINER}  {time}\n"))
}

/// As in `crates/toolcrib/Cargo.toml`, which a test compares.
const MAINTAINER: &str = "The Toolcrib contributors <maintainers@toolcrib.invalid>";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn metadata() -> toml::Table {
        let manifest = fs::read_to_string(Workspace::find().root.join("crates/toolcrib/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        manifest["package"]["metadata"].as_table().unwrap().clone()
    }

    /// Where each file of a package goes.
    fn destinations(assets: &toml::Value) -> Vec<String> {
        let text = |value: &toml::Value| value.as_str().unwrap().trim_start_matches('/').to_owned();
        let places = assets.as_array().unwrap().iter().map(|asset| match asset {
            toml::Value::Array(row) => (text(&row[0]), text(&row[1])),
            table => (text(&table["source"]), text(&table["dest"])),
        });
        places
            .map(|(source, place)| match place.strip_suffix('/') {
                Some(folder) => format!("{folder}/{}", source.rsplit('/').next().unwrap()),
                None => place,
            })
            .collect()
    }

    #[test]
    fn both_packages_have_the_same_files() {
        let metadata = metadata();
        // Each distribution has places of its own for these.
        let own = ["usr/share/zsh/", "usr/share/doc/", "usr/share/licenses/", "usr/share/lintian/"];
        let shared = |package: &str| {
            let mut places = destinations(&metadata[package]["assets"]);
            places.retain(|place| own.iter().all(|own| !place.starts_with(own)));
            places.sort();
            places
        };
        assert_eq!(shared("deb"), shared("generate-rpm"));
        assert!(shared("deb").contains(&"usr/lib/systemd/system/toolcrib.service".to_owned()), "{:?}", shared("deb"));
    }

    #[test]
    fn the_changelog_is_in_debian_s_form_and_names_the_maintainer() {
        let text = debian_changelog("1.2.3", 0).unwrap();
        let expect = format!(" -- {MAINTAINER}  Thu, 01 Jan 1970 00:00:00 +0000\n");
        assert!(text.starts_with("toolcrib (1.2.3) stable; ") && text.ends_with(&expect), "{text}");
        assert_eq!(metadata()["deb"]["maintainer"].as_str(), Some(MAINTAINER));
    }
}
