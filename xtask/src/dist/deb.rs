//! `toolcrib_<version>_<architecture>.deb`, made by `cargo-deb` and tried in clean roots of Debian: installed, used,
//! upgraded, removed, purged, and installed where something else is in its way.

mod life;
mod mishaps;
mod papers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dist::Dist;
use crate::dist::package::{CRATE, Packer, TargetFolder};
use crate::dist::root::{self, Suite};
use crate::dist::tools::must;
use crate::dist::trial::Trials;

const CARGO_DEB: Packer = Packer { name: "cargo-deb", version: "3.8.0" };
const ARCHITECTURE: &str = "amd64";
/// Made up: what a package of the next version is called in the trials. Its program is the same.
const LATER: &str = "~later";

/// Debian with systemd as the first process, as on a laptop or a server.
const WITH_SYSTEMD: [Suite; 2] = [
    Suite { name: "stable", packages: "ca-certificates,dbus,libpam-systemd,nodejs,python3,systemd" },
    Suite { name: "oldstable", packages: "ca-certificates,dbus,libpam-systemd,systemd" },
];
/// Debian as in a container.
const BARE: Suite = Suite { name: "stable", packages: "adduser,ca-certificates,mount" };

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    Ok(vec![pack(dist, &dist.version, &dist.folder, &[])?])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let package = dist.folder.join(file_name(&dist.version));
    let folder = dist.stage("deb-later")?;
    papers::run(dist, &package, &folder, trials)?;
    if let Some(why) = root::missing() {
        trials.skipped("in clean roots of Debian", &why);
        return Ok(());
    }
    // It is compressed for seconds, not for years.
    let later = pack(dist, &later(&dist.version), &folder, &["--fast"])?;
    let packages = Packages { now: &package, later: &later };
    for suite in WITH_SYSTEMD {
        life::run(dist, suite, packages, trials)?;
    }
    mishaps::run(dist, BARE, packages, trials)
}

/// The package under trial, and the one that an upgrade brings.
#[derive(Debug, Clone, Copy)]
struct Packages<'a> {
    now: &'a Path,
    later: &'a Path,
}

/// `0.1.0` → `0.1.1~later`, which sorts after the former.
fn later(version: &str) -> String {
    let (begin, last) = version.rsplit_once('.').unwrap_or(("0.0", version));
    let next = last.parse::<u64>().map_or(1, |number| number + 1);
    format!("{begin}.{next}{LATER}")
}

fn file_name(version: &str) -> String {
    format!("{CRATE}_{version}_{ARCHITECTURE}.deb")
}

/// Makes a package of this version in `folder`.
fn pack(dist: &Dist<'_>, version: &str, folder: &Path, more: &[&str]) -> Result<PathBuf> {
    let target = TargetFolder::fill(dist, "deb", version)?;
    let file = folder.join(file_name(version));
    let mut command = CARGO_DEB.command(dist, &target)?;
    command.args(["--package", CRATE, "--no-build", "--no-strip", "--locked", "--deb-version", version]);
    must(command.args(more).arg("--output").arg(&file), CARGO_DEB.name)?;
    ensure!(file.is_file(), "`{}` was not made", file.display());
    fs::remove_dir_all(&target.path).with_context(|| format!("failed to remove `{}`", target.path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    /// The guide tells people to type nothing that no trial types: its commands, and how a trial has them.
    #[test]
    fn each_command_of_the_guide_is_run_by_a_trial() {
        let life = include_str!("deb/life.rs");
        let rows = [
            ("sudo apt-get install ./toolcrib_0.1.0_amd64.deb", "apt-get install --yes /srv/now.deb"),
            ("sudo apt-get install ./toolcrib_0.1.1_amd64.deb", "apt-get install --yes /srv/later.deb"),
            ("systemctl --user enable --now toolcrib", "order(\"enable --now\")"),
            ("toolcrib service install", "toolcrib service install"),
            ("sudo systemctl enable --now toolcrib", "systemctl enable --now toolcrib"),
            (
                "sudo -u toolcrib TOOLCRIB_HOME=/var/lib/toolcrib toolcrib status",
                "runuser -u toolcrib -- env TOOLCRIB_HOME=/var/lib/toolcrib toolcrib status",
            ),
            ("sudo apt-get remove toolcrib", "apt-get remove --yes toolcrib"),
            ("sudo apt-get purge toolcrib", "apt-get purge --yes toolcrib"),
        ];
        let guide = Workspace::find().root.join("docs/guides/install-linux.md");
        let guide = fs::read_to_string(guide).unwrap();
        let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        // There is no archive of an rpm distribution to try `dnf` with, as the guide says.
        let commands = blocks.flat_map(str::lines).filter(|line| !line.starts_with("sudo dnf "));
        let commands: Vec<&str> = commands.map(|line| line.split(" #").next().unwrap().trim()).collect();
        assert!(commands.len() >= rows.len(), "{commands:?}");
        for command in commands {
            let row = rows.iter().find(|(typed, _)| *typed == command);
            let (_, trial) = row.unwrap_or_else(|| panic!("no trial runs `{command}`"));
            assert!(life.contains(trial), "no trial runs `{trial}`");
        }
    }

    #[test]
    fn a_later_version_follows() {
        assert_eq!(later("0.1.0"), "0.1.1~later");
        assert_eq!(later("2.9"), "2.10~later");
    }
}
