//! Clean roots of Debian in folders, to install packages in: made once by `mmdebstrap`, kept below the target folder and
//! unpacked for each use. A root has processes, a network and mounts of its own, which all end with it; its network has
//! no way out.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child;
use crate::dist::Dist;
use crate::dist::tools::must;

/// The programs that make and enter roots, with the package that brings each.
const PROGRAMS: [(&str, &str); 4] =
    [("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux"), ("nsenter", "util-linux"), ("ip", "iproute2")];
/// How long a command in a root may take. A machine may be busy with other things.
pub const DEADLINE: Duration = Duration::from_secs(10 * 60);
/// How long systemd may take to start in a root.
const BOOT: Duration = Duration::from_secs(180);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What is done in the namespaces of a root before their first process starts.
const FIRST: &str = r#"
set -e
root=$1
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/dev"
mkdir -p "$root/dev/pts" "$root/dev/shm"
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666,mode=620
mount -t tmpfs tmpfs "$root/dev/shm"
for node in null zero full random urandom tty; do
    touch "$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mkdir "$root/.old"
cd "$root"
pivot_root . .old
umount -l /.old
rmdir /.old
echo ready
case "$2" in
systemd) exec env -i container=toolcrib PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --log-target=null ;;
# It takes in what is orphaned.
*) exec env --ignore-signal=CHLD sleep infinity ;;
esac
"#;

/// A release of Debian with some packages.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    pub name: &'static str,
    /// What is installed beside the essential packages and `apt`. With `systemd` among them, that runs in the root.
    pub packages: &'static str,
}

/// A root that runs.
#[derive(Debug)]
pub struct Root {
    pub folder: PathBuf,
    outer: Child,
    /// The first process in its namespaces, as this machine counts.
    first: String,
}

/// As whom a command runs.
#[derive(Debug, Clone, Copy)]
pub enum RootUser<'a> {
    Administrator,
    /// A user of the root; see [`Root::add_person`].
    Person(&'a str),
}

/// Why no root can be made here, if none can.
pub fn missing() -> Option<String> {
    if child::answer("id", &["-u"]).as_deref() != Some("0") {
        return Some("clean roots need root".to_owned());
    }
    let is_there = |program: &str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    let (program, package) = PROGRAMS.iter().find(|(program, _)| !is_there(program))?;
    Some(format!("`{program}` is missing: apt-get install {package}"))
}

/// The mirror of Debian that this machine's apt uses.
fn mirror() -> Result<String> {
    let format = "$(REPO_URI) $(ORIGIN) $(COMPONENT)";
    let targets = child::answer("apt-get", &["indextargets", "--format", format, "Created-By: Packages"]);
    let targets = targets.context("`apt-get indextargets` failed; run `apt-get update`")?;
    let debian = targets.lines().find_map(|line| line.strip_suffix(" Debian main"));
    Ok(debian.context("apt on this machine has no archive of Debian")?.to_owned())
}

// === impl Suite ===

impl Suite {
    /// What its first process is.
    fn first(self) -> &'static str {
        let has_systemd = self.packages.split(',').any(|package| package == "systemd");
        if has_systemd { "systemd" } else { "sleep" }
    }

    /// Its packed root, made when it is not there.
    fn packed(self, dist: &Dist<'_>) -> Result<PathBuf> {
        let folder = dist.work.join("roots");
        fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
        let name = format!("{}-{}.tar", self.name, self.packages.replace(',', "-"));
        let file = folder.join(name);
        if file.is_file() {
            return Ok(file);
        }
        println!("    making a root of Debian {} with {}", self.name, self.packages);
        let part = file.with_extension("part.tar");
        let mut make = Command::new("mmdebstrap");
        make.arg("--variant=apt").arg(format!("--include={}", self.packages)).arg(self.name).arg(&part).arg(mirror()?);
        must(&mut make, "mmdebstrap")?;
        fs::rename(&part, &file).with_context(|| format!("failed to rename `{}`", part.display()))?;
        Ok(file)
    }
}

// === impl Root ===

impl Root {
    /// Unpacks a fresh one and starts its namespaces.
    pub fn start(dist: &Dist<'_>, suite: Suite, name: &str) -> Result<Self> {
        let packed = suite.packed(dist)?;
        let folder = dist.stage(&format!("root-{name}"))?;
        must(Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(&folder), "tar")?;
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "--propagation", "private", "--net", "--ipc", "--uts", "--cgroup"]);
        outer.args(["--pid", "--fork", "--kill-child", "sh", "-c", FIRST, "sh"]).arg(&folder).arg(suite.first());
        outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut outer = outer.spawn().context("failed to start `unshare`")?;
        let mut line = String::new();
        let said = outer.stdout.take().context("`unshare` has no output")?;
        BufReader::new(said).read_line(&mut line).context("failed to read from `unshare`")?;
        if line.trim() != "ready" {
            bail!("no namespaces for a root: `unshare` ended with {}", outer.wait()?);
        }
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let children = fs::read_to_string(&children).with_context(|| format!("failed to read `{children}`"))?;
        let first = children.split_whitespace().next().context("`unshare` has no child")?.to_owned();
        Ok(Self { folder, outer, first })
    }

    /// Waits until systemd has started what it starts.
    pub fn booted(&self) -> Result<()> {
        let end = Instant::now() + BOOT;
        loop {
            // It says `degraded` where a unit failed, such as one that loads modules of the kernel. It cannot be asked
            // from its first moment on.
            let state = self.run(RootUser::Administrator, "systemctl is-system-running 2>&1 || true")?;
            let state = state.trim();
            if ["running", "degraded"].contains(&state) {
                return Ok(());
            }
            ensure!(Instant::now() < end, "systemd does not start here: it is `{state}`");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    /// A user with a home folder and a group of its own.
    pub fn add_person(&self, name: &str) -> Result<()> {
        let script = format!(
            "mkdir -p /people; echo '{name}:x:1000:1000::/people/{name}:/bin/sh' >> /etc/passwd; \
             echo '{name}:x:1000:' >> /etc/group; echo '{name}:*:20000:0:99999:7:::' >> /etc/shadow; install -d -o 1000 -g 1000 /people/{name}"
        );
        self.run(RootUser::Administrator, &script).map(drop)
    }

    /// Copies a file of this machine to a place in it.
    pub fn put(&self, file: &Path, place: &str) -> Result<()> {
        let to = self.folder.join(place.trim_start_matches('/'));
        fs::copy(file, &to).with_context(|| format!("failed to copy `{}` into the root", file.display()))?;
        Ok(())
    }

    /// Writes a file in it.
    pub fn write(&self, place: &str, text: &str) -> Result<()> {
        let to = self.folder.join(place.trim_start_matches('/'));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&to, text).with_context(|| format!("failed to write `{place}` in the root"))
    }

    pub fn has(&self, place: &str) -> bool {
        self.folder.join(place.trim_start_matches('/')).symlink_metadata().is_ok()
    }

    /// A command line of the shell, in a plain environment.
    pub fn command(&self, who: RootUser<'_>, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first]);
        command.args(["--mount", "--net", "--ipc", "--uts", "--cgroup", "--pid", "--root", "--wd"]);
        match who {
            RootUser::Administrator => command.args(["env", "-i", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"]),
            RootUser::Person(name) => {
                let home = format!("/people/{name}");
                command.args(["setpriv", "--reuid", name, "--regid", name, "--init-groups"]);
                command.args(["env", "-i", "-C", &home]).arg(format!("HOME={home}")).arg(format!("USER={name}"))
            }
        };
        command.arg(format!("PATH={PATH}")).args(["LANG=C.UTF-8", "sh", "-c", script]);
        command
    }

    /// Runs a command that must end well; what it printed.
    pub fn run(&self, who: RootUser<'_>, script: &str) -> Result<String> {
        let outcome = child::quiet(&mut self.command(who, script), DEADLINE)?;
        ensure!(outcome.success, "`{script}` failed:\n{}", outcome.lines.join("\n"));
        Ok(outcome.lines.join("\n"))
    }

    /// Runs a command that must fail; what it printed.
    pub fn refuse(&self, who: RootUser<'_>, script: &str) -> Result<String> {
        let outcome = child::quiet(&mut self.command(who, script), DEADLINE)?;
        let lines = outcome.lines.join("\n");
        ensure!(!outcome.success, "`{script}` should have failed:\n{lines}");
        Ok(lines)
    }

    /// Every file and folder in it but for what is mounted, sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        let listed = self
            .run(RootUser::Administrator, "find / -xdev ! -path '/proc/*' ! -path '/tmp/*' ! -path '/srv/*' | sort")?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // Ending the first process ends everything in the root. An error has been reported by then.
        Command::new("kill").args(["-s", "KILL", &self.first]).status().ok();
        self.outer.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}
