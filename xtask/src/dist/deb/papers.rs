//! What can be said of the package without installing it: its bytes, what lintian says, and its units.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::pack;
use crate::child;
use crate::dist::build::GLIBC;
use crate::dist::tools::must;
use crate::dist::trial::Trials;
use crate::dist::{Dist, root, sha256};

/// The largest exposure that `systemd-analyze security` may give the unit of the shared gateway, of 10.
const EXPOSURE: f64 = 3.0;

pub fn run(dist: &Dist<'_>, package: &Path, folder: &Path, trials: &mut Trials) -> Result<()> {
    trials.run("two packages of one program have the same bytes", || {
        let again = pack(dist, &dist.version, folder, &[])?;
        ensure!(sha256(&again)? == sha256(package)?, "`{}` differs", again.display());
        Ok(())
    });
    let unpacked = dist.stage("deb-unpacked")?;
    must(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&unpacked), "dpkg-deb")?;
    trials.run("it asks for no newer C library than the program does", || {
        let depends = child::answer("dpkg-deb", &["--field", &package.to_string_lossy(), "Depends"]);
        let depends = depends.context("`dpkg-deb` shows no dependencies")?;
        println!("             {depends}");
        let wanted = format!("libc6 (>= {GLIBC})");
        ensure!(depends.contains(&wanted) && depends.matches("libc6").count() == 1, "no `{wanted}` in `{depends}`");
        Ok(())
    });
    completions(&unpacked, trials);
    if child::answers("man", &["--version"]) {
        trials.run("its man page is rendered", || {
            let page = unpacked.join("usr/share/man/man1/toolcrib.1.gz");
            let text = child::answer("man", &["--local-file", &page.to_string_lossy()]).context("`man` failed")?;
            ensure!(text.contains("toolcrib") && text.contains("SYNOPSIS"), "it says `{text}`");
            Ok(())
        });
    } else {
        trials.skipped("its man page is rendered", "`man` is missing");
    }
    if child::answers("lintian", &["--version"]) {
        trials.run("lintian finds nothing", || {
            let mut lintian = Command::new("lintian");
            lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]).arg(package);
            must(&mut lintian, "lintian")
        });
    } else {
        trials.skipped("lintian finds nothing", "`lintian` is missing: apt-get install lintian");
    }
    units(&unpacked, trials);
    fs::remove_dir_all(&unpacked).with_context(|| format!("failed to remove `{}`", unpacked.display()))
}

/// Each shell reads its completion without an error, from where it looks for it.
fn completions(unpacked: &Path, trials: &mut Trials) {
    let rows = [
        ("bash", "-n", "usr/share/bash-completion/completions/toolcrib"),
        ("zsh", "-n", "usr/share/zsh/vendor-completions/_toolcrib"),
        ("fish", "--no-execute", "usr/share/fish/vendor_completions.d/toolcrib.fish"),
    ];
    for (shell, check, place) in rows {
        let name = format!("{shell} reads its completion");
        if !child::answers(shell, &["--version"]) {
            trials.skipped(&name, &format!("`{shell}` is missing"));
            continue;
        }
        trials.run(&name, || {
            let text = fs::read_to_string(unpacked.join(place)).with_context(|| format!("no `/{place}`"))?;
            ensure!(text.contains("toolcrib"), "`/{place}` does not name the program");
            must(Command::new(shell).arg(check).arg(unpacked.join(place)), shell)
        });
    }
}

/// systemd takes both units, and the shared gateway may do little.
fn units(unpacked: &Path, trials: &mut Trials) {
    if !child::answers("systemd-analyze", &["--version"]) {
        trials.skipped("systemd takes its units", "`systemd-analyze` is missing: apt-get install systemd");
        return;
    }
    let root_option = format!("--root={}", unpacked.display());
    trials.run("systemd takes the unit of a person", || {
        let unit = unpacked.join("usr/lib/systemd/user/toolcrib.service");
        let text = fs::read_to_string(&unit)?;
        // The program of the unit is where this machine may have none.
        let program = unpacked.join("usr/bin/toolcrib").display().to_string();
        let here = unpacked.join("toolcrib.service");
        fs::write(&here, text.replace("/usr/bin/toolcrib", &program))?;
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["--user", "--man=no", "verify"]).arg(&here);
        must(analyze.env("XDG_RUNTIME_DIR", unpacked).env("HOME", unpacked), "systemd-analyze verify")
    });
    trials.run("systemd takes the unit of the shared gateway, and gives it little exposure", || {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=yes", "--no-pager", &root_option, "toolcrib.service"]);
        let outcome = child::quiet(&mut analyze, root::DEADLINE)?;
        let text = outcome.lines.join("\n");
        let line = outcome.lines.iter().find(|line| line.contains("Overall exposure level"));
        let line = line.with_context(|| format!("systemd-analyze gave no exposure:\n{text}"))?;
        let number = line.rsplit(": ").next().and_then(|rest| rest.split(' ').next());
        let exposure: f64 = number.and_then(|text| text.parse().ok()).context("no number of exposure")?;
        println!("             exposure {exposure} of 10, {EXPOSURE} are allowed");
        ensure!(exposure <= EXPOSURE, "{line}");
        Ok(())
    });
}
