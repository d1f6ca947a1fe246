//! What may stand in the way of a package: a copy that was installed by hand, before it or over it, a home of another
//! user, a root file system that cannot be written, no home at all, a language that is not in UTF-8.

use anyhow::{Result, ensure};

use super::Packages;
use crate::dist::Dist;
use crate::dist::root::{Root, RootUser, Suite};
use crate::dist::trial::Trials;

const PERSON: &str = "ada";
/// Runs a command as the unit of the shared gateway would, and ends it when it should have failed by then.
const AS_UNIT: &str = "cd /var/lib/toolcrib && TOOLCRIB_HOME=/var/lib/toolcrib setpriv --reuid toolcrib --regid toolcrib \
                       --init-groups timeout --signal=KILL 120 ";

pub fn run(dist: &Dist<'_>, suite: Suite, packages: Packages<'_>, trials: &mut Trials) -> Result<()> {
    let root = match Root::start(dist, suite, "bare") {
        Ok(root) => root,
        Err(error) => {
            trials.skipped(&format!("Debian {} as in a container", suite.name), &format!("{error:#}"));
            return Ok(());
        }
    };
    root.add_person(PERSON)?;
    root.put(packages.now, "/srv/now.deb")?;
    root.put(packages.later, "/srv/later.deb")?;
    trials.run("a root that cannot be written refuses the package and stays as it is", || {
        root.run(RootUser::Administrator, "mount -o remount,bind,ro /")?;
        let said = root.refuse(RootUser::Administrator, "dpkg --install /srv/now.deb");
        root.run(RootUser::Administrator, "mount -o remount,bind,rw /")?;
        ensure!(said?.contains("Read-only file system"), "the reason is missing");
        ensure!(!root.has("/usr/bin/toolcrib") && !root.has("/etc/toolcrib"), "half of it is there");
        Ok(())
    });
    copies(&root, dist, trials);
    homes(&root, trials);
    trials.run("without systemd it is removed and purged", || {
        root.run(RootUser::Administrator, "apt-get remove --yes toolcrib")?;
        ensure!(root.has("/var/lib/toolcrib") && root.has("/etc/toolcrib/config.toml"), "a removal keeps both");
        root.run(RootUser::Administrator, "apt-get purge --yes toolcrib")?;
        ensure!(!root.has("/var/lib/toolcrib") && !root.has("/etc/toolcrib"), "a purge takes both");
        Ok(())
    });
    Ok(())
}

/// Copies of the program from an archive, and the package.
fn copies(root: &Root, dist: &Dist<'_>, trials: &mut Trials) {
    trials.run("over a copy from an archive: it is kept and named, and so is one that comes first in PATH", || {
        root.write("/usr/bin/toolcrib", "#!/bin/sh\necho by hand\n")?;
        root.put(&dist.binary, "/usr/local/bin/toolcrib")?;
        root.run(RootUser::Administrator, "chmod 755 /usr/bin/toolcrib")?;
        let said = root.run(RootUser::Administrator, "dpkg --install /srv/now.deb")?;
        for part in [
            "it is kept as /usr/bin/toolcrib.by-hand",
            "/usr/local/bin/toolcrib comes before /usr/bin/toolcrib in PATH",
            "rm /usr/local/bin/toolcrib",
        ] {
            ensure!(said.contains(part), "no `{part}` in:\n{said}");
        }
        let kept = root.run(RootUser::Administrator, "/usr/bin/toolcrib.by-hand")?;
        ensure!(kept.trim() == "by hand", "what is kept says `{kept}`");
        root.run(RootUser::Administrator, "/usr/bin/toolcrib --version")?;
        root.run(RootUser::Administrator, "rm /usr/bin/toolcrib.by-hand /usr/local/bin/toolcrib").map(drop)
    });
    trials.run("under a copy from an archive: dpkg names it, and the next package repairs it", || {
        root.write("/usr/bin/toolcrib", "#!/bin/sh\necho by hand\n")?;
        let said = root.run(RootUser::Administrator, "dpkg --verify toolcrib || true")?;
        ensure!(said.contains("/usr/bin/toolcrib"), "dpkg says `{said}`");
        let said = root.run(RootUser::Administrator, "dpkg --install /srv/later.deb")?;
        ensure!(!said.contains("by-hand"), "the file of the package is none of someone else:\n{said}");
        let version = root.run(RootUser::Administrator, "/usr/bin/toolcrib --version")?;
        ensure!(version.contains(&dist.version), "it says `{version}`");
        let said = root.run(RootUser::Administrator, "dpkg --verify toolcrib")?;
        ensure!(said.trim().is_empty(), "dpkg says `{said}`");
        Ok(())
    });
}

/// Homes that cannot be used, and surroundings that are odd.
fn homes(root: &Root, trials: &mut Trials) {
    trials.run("a home of another user: the package names it, and the gateway does not start", || {
        root.run(RootUser::Administrator, "chown -R ada: /var/lib/toolcrib; chmod 700 /var/lib/toolcrib")?;
        let said = root.run(RootUser::Administrator, "dpkg --install /srv/now.deb")?;
        let next = "chown -R toolcrib:toolcrib /var/lib/toolcrib";
        ensure!(said.contains("belongs to the user ada") && said.contains(next), "it says:\n{said}");
        let said = root.refuse(
            RootUser::Administrator,
            &format!("{} toolcrib serve", AS_UNIT.replace("cd /var/lib/toolcrib", "cd /")),
        )?;
        ensure!(said.contains("error: ") && said.contains("/var/lib/toolcrib"), "it says:\n{said}");
        println!("             {}", said.lines().collect::<Vec<_>>().join(" | "));
        root.run(RootUser::Administrator, next)?;
        ensure!(said.contains("check its owner and permissions"), "the next step is missing:\n{said}");
        let serve = format!("{AS_UNIT} toolcrib serve --listen 127.0.0.1:0 --ready-file ready");
        let ready = "/var/lib/toolcrib/ready";
        let wait = format!("while [ ! -e {ready} ]; do kill -0 $! || exit 1; sleep 0.1; done");
        let end = format!("kill $(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/' {ready}); rm {ready}; wait");
        root.run(RootUser::Administrator, &format!("({serve}) & {wait}; {end}")).map(drop)
    });
    trials.run("a home that cannot be written: the gateway names it and does not start", || {
        root.run(RootUser::Administrator, "mount -o remount,bind,ro /")?;
        let said = root.refuse(RootUser::Administrator, &format!("{AS_UNIT} toolcrib serve --listen 127.0.0.1:0"));
        let demo = root.refuse(RootUser::Person(PERSON), "toolcrib demo --once");
        let elsewhere = root.run(RootUser::Person(PERSON), "TMPDIR=/dev/shm toolcrib demo --once");
        root.run(RootUser::Administrator, "mount -o remount,bind,rw /")?;
        let (said, demo) = (said?, demo?);
        println!("             {}", said.lines().collect::<Vec<_>>().join(" | "));
        println!("             {}", demo.lines().collect::<Vec<_>>().join(" | "));
        ensure!(said.contains("/var/lib/toolcrib/state"), "it says:\n{said}");
        ensure!(demo.contains("error: ") && demo.contains("/tmp"), "it says:\n{demo}");
        ensure!(elsewhere?.contains("26.2 mile = 42.16"), "the demo needs more than a temporary folder");
        Ok(())
    });
    trials.run("no home at all: the demo works, and `serve` says what to set", || {
        let said = root.run(RootUser::Person(PERSON), "unset HOME; toolcrib demo --once")?;
        ensure!(said.contains("26.2 mile = 42.16"), "it says:\n{said}");
        let said = root.refuse(RootUser::Person(PERSON), "unset HOME; toolcrib serve")?;
        ensure!(said.contains("neither `HOME` nor `TOOLCRIB_HOME` is set") && said.contains("--home"), "{said}");
        Ok(())
    });
    trials.run("a language that is not in UTF-8: the package and the program work", || {
        let said = root.run(RootUser::Administrator, "LANG=de_DE.ISO-8859-1 LC_ALL=C dpkg --install /srv/later.deb")?;
        ensure!(said.contains("Setting up toolcrib"), "it says:\n{said}");
        for language in ["LC_ALL=C", "LC_ALL=POSIX", "LANG=de_DE.ISO-8859-1"] {
            let said = root.run(RootUser::Person(PERSON), &format!("unset LANG; {language} toolcrib demo --once"))?;
            ensure!(said.contains("26.2 mile = 42.16"), "with {language} it says:\n{said}");
        }
        Ok(())
    });
}
