//! `toolcrib-<version>-1.<architecture>.rpm`, made by `cargo-generate-rpm` and tried with `rpm` in a root of Debian with
//! systemd: no archive of an rpm distribution is among the registries, so what `dnf` resolves is not tried.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::child;
use crate::dist::package::{CRATE, Packer, TargetFolder};
use crate::dist::root::{self, Root, RootUser, Suite};
use crate::dist::session::ClientSession;
use crate::dist::tools::must;
use crate::dist::trial::Trials;
use crate::dist::{Dist, sha256};

const CARGO_GENERATE_RPM: Packer = Packer { name: "cargo-generate-rpm", version: "0.21.1" };
const ARCHITECTURE: &str = "x86_64";
/// Made up, and after the version that is made.
const LATER: &str = "^later";
const ROOT: Suite = Suite { name: "stable", packages: "ca-certificates,dbus,rpm,systemd" };
const PERSON: &str = "ada";

/// What rpmlint misses and cargo-generate-rpm does not write. rpm needs none of it; a signature is made of all products.
const NOT_WRITTEN: [&str; 5] =
    ["no-signature", "no-packager-tag", "no-group-tag", "no-changelogname-tag", "no-buildhost-tag"];

/// Some of what must be in it.
const FILES: [&str; 7] = [
    "/usr/bin/toolcrib",
    "/usr/share/man/man1/toolcrib.1.gz",
    "/usr/share/bash-completion/completions/toolcrib",
    "/usr/share/zsh/site-functions/_toolcrib",
    "/usr/share/fish/vendor_completions.d/toolcrib.fish",
    "/usr/lib/systemd/system/toolcrib.service",
    "/usr/lib/systemd/user/toolcrib.service",
];

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    Ok(vec![pack(dist, &dist.version, &dist.folder)?])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let package = dist.folder.join(file_name(&dist.version));
    let folder = dist.stage("rpm-later")?;
    trials.run("two packages of one program have the same bytes", || {
        let again = pack(dist, &dist.version, &folder)?;
        ensure!(sha256(&again)? == sha256(&package)?, "`{}` differs", again.display());
        Ok(())
    });
    papers(&package, trials);
    trials.skipped("in a root of Fedora or openSUSE", "their archives are not among the registries of this machine");
    if let Some(why) = root::missing() {
        trials.skipped("in a root with rpm", &why);
        return Ok(());
    }
    let later = pack(dist, &format!("{}{LATER}", dist.version), &folder)?;
    let root = match Root::start(dist, ROOT, "rpm").and_then(|root| root.booted().map(|()| root)) {
        Ok(root) => root,
        Err(error) => {
            trials.skipped("in a root with rpm and systemd", &format!("{error:#}"));
            return Ok(());
        }
    };
    root.add_person(PERSON)?;
    root.put(&package, "/srv/now.rpm")?;
    root.put(&later, "/srv/later.rpm")?;
    life(&root, trials);
    Ok(())
}

fn file_name(version: &str) -> String {
    format!("{CRATE}-{version}-1.{ARCHITECTURE}.rpm")
}

/// Makes a package of this version in `folder`.
fn pack(dist: &Dist<'_>, version: &str, folder: &Path) -> Result<PathBuf> {
    let target = TargetFolder::fill(dist, "rpm", version)?;
    let file = folder.join(file_name(version));
    let mut command = CARGO_GENERATE_RPM.command(dist, &target)?;
    command.args(["--package", &format!("crates/{CRATE}"), "--arch", ARCHITECTURE]);
    command.arg("--target-dir").arg(&target.path).arg("--set-metadata").arg(format!("version = \"{version}\""));
    // Not what this machine's rpm would add, and what rpm reads since long ago.
    command.args(["--auto-req", "builtin", "--payload-compress", "gzip"]);
    must(command.arg("--output").arg(&file), CARGO_GENERATE_RPM.name)?;
    ensure!(file.is_file(), "`{}` was not made", file.display());
    fs::remove_dir_all(&target.path).with_context(|| format!("failed to remove `{}`", target.path.display()))?;
    Ok(file)
}

/// What rpm and rpmlint say of it.
fn papers(package: &Path, trials: &mut Trials) {
    let file = package.to_string_lossy();
    if !child::answers("rpm", &["--version"]) {
        trials.skipped("what rpm says of it", "`rpm` is missing: apt-get install rpm");
        return;
    }
    trials.run("rpm finds its files, its settings and the libraries that it needs", || {
        let ask = |question: &[&str]| {
            let answer = child::answer("rpm", &[&["--query", "--package"], question, &[&file]].concat());
            answer.with_context(|| format!("`rpm --query {}` failed", question.join(" ")))
        };
        let listed = ask(&["--list"])?;
        for wanted in FILES {
            ensure!(listed.lines().any(|line| line == wanted), "no `{wanted}` in:\n{listed}");
        }
        let settings = ask(&["--configfiles"])?;
        ensure!(settings.trim() == "/etc/toolcrib/config.toml", "its settings are `{settings}`");
        let needs = ask(&["--requires"])?;
        ensure!(needs.contains("libc.so.6(GLIBC_2."), "it needs:\n{needs}");
        Ok(())
    });
    if child::answers("rpmlint", &["--version"]) {
        trials.run("rpmlint finds no error", || {
            let outcome = child::quiet(Command::new("rpmlint").arg(package), root::DEADLINE)?;
            let is_error =
                |line: &&String| line.split_once(": E: ").is_some_and(|(_, tag)| !NOT_WRITTEN.contains(&tag.trim()));
            let errors: Vec<&String> = outcome.lines.iter().filter(is_error).collect();
            ensure!(outcome.lines.iter().any(|line| line.contains("1 packages and")), "it did not run: {outcome:?}");
            ensure!(errors.is_empty(), "{errors:#?}");
            Ok(())
        });
    } else {
        trials.skipped("rpmlint finds no error", "`rpmlint` is missing: apt-get install rpmlint");
    }
}

/// From its installation to its removal. Debian knows none of the names that it requires, hence `--nodeps`.
fn life(root: &Root, trials: &mut Trials) {
    let run = |script: &str| root.run(RootUser::Administrator, script);
    let pid = || run("systemctl show --property=MainPID --value toolcrib").map(|pid| pid.trim().to_owned());
    let client = || ClientSession::open(root, PERSON, "toolcrib bridge http://127.0.0.1:8700/mcp --no-token");
    let mile = json!({ "value": 26.2, "from": "mile", "to": "kilometre" });
    trials.run("rpm installs it over a copy from an archive, which is kept, and starts nothing", || {
        root.write("/usr/bin/toolcrib", "#!/bin/sh\necho by hand\n")?;
        let said = run("rpm --install --nodeps /srv/now.rpm")?;
        ensure!(said.contains("it is kept as /usr/bin/toolcrib.by-hand"), "it says:\n{said}");
        ensure!(pid()? == "0", "the shared gateway runs");
        let said = root.run(RootUser::Person(PERSON), "toolcrib demo --once")?;
        ensure!(said.contains("26.2 mile = 42.16"), "the demo says:\n{said}");
        Ok(())
    });
    trials.run("the shared gateway of the rpm starts and answers", || {
        let server = "name: units\ncommand: toolcrib\nargs: [example, units]\n";
        root.write("/var/lib/toolcrib/servers/units.yaml", server)?;
        run("systemctl enable --now toolcrib")?;
        let answer = client()?.call_in_the_end("units/convert_length", &mile)?;
        ensure!(answer.contains("42.16"), "it was answered with `{answer}`");
        Ok(())
    });
    trials.run("an upgrade of the rpm restarts what runs and keeps settings and sessions", || {
        run("echo 'log = \"debug\"' >> /etc/toolcrib/config.toml")?;
        let (mut session, before) = (client()?, pid()?);
        session.call("units/convert_length", &mile)?;
        run("rpm --upgrade --nodeps /srv/later.rpm")?;
        ensure!(pid()? != before, "it was not restarted");
        ensure!(run("cat /etc/toolcrib/config.toml")?.contains("log = \"debug\""), "the settings are others");
        session.call_in_the_end("units/convert_length", &mile).context("the session is lost")?;
        run("systemctl stop toolcrib && rpm --upgrade --nodeps --oldpackage /srv/now.rpm")?;
        ensure!(pid()? == "0", "an upgrade starts what did not run");
        run("systemctl start toolcrib").map(drop)
    });
    trials.run("a removal of the rpm stops it and keeps settings and data", || {
        run("rpm --erase toolcrib")?;
        ensure!(pid()? == "0" && !root.has("/usr/bin/toolcrib"), "it is still there");
        ensure!(root.has("/etc/toolcrib/config.toml.rpmsave"), "the settings are gone");
        ensure!(root.has("/var/lib/toolcrib/servers/units.yaml"), "the definitions are gone");
        let link = "/etc/systemd/system/multi-user.target.wants/toolcrib.service";
        ensure!(!root.has(link), "`{link}` is left");
        Ok(())
    });
}
