//! Images and containers of a folder of their own, made by `buildah` and started by `podman`, apart from those of
//! whoever runs this. No registry is asked: the base is put together of Debian's packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::dist::Dist;
use crate::dist::tools::must;

/// How long a gateway in a container may take to start.
const DEADLINE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// How an image is made to run: nothing can be written but its volume and `/tmp`, and it may do nothing special.
pub const STRICT: [&str; 6] = [
    "--read-only",
    "--read-only-tmpfs=false",
    "--tmpfs=/tmp",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--rm",
];

/// The limits are those that a machine without rights of its own can set.
const SETTINGS: &str = "\
[containers]
default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]
[engine]
runtime = \"runc\"
cgroup_manager = \"cgroupfs\"
events_logger = \"file\"
";

#[derive(Debug)]
pub struct Containers {
    settings: PathBuf,
    storage: PathBuf,
}

// === impl Containers ===

impl Containers {
    pub fn new(folder: &Path) -> Result<Self> {
        let containers = Self { settings: folder.join("containers.conf"), storage: folder.join("storage.conf") };
        fs::write(&containers.settings, SETTINGS)?;
        let (images, running) = (folder.join("images"), folder.join("running"));
        let storage = format!("[storage]\ndriver = \"overlay\"\ngraphroot = {images:?}\nrunroot = {running:?}\n");
        fs::write(&containers.storage, storage)?;
        Ok(containers)
    }

    /// `podman`, `buildah`, or what starts them.
    pub fn command(&self, program: impl AsRef<Path>, words: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command.args(words).env("CONTAINERS_CONF", &self.settings).env("CONTAINERS_STORAGE_CONF", &self.storage);
        command
    }

    pub fn must(&self, program: &str, words: &[&str]) -> Result<()> {
        must(&mut self.command(program, words), program)
    }

    /// Takes `tar` for the image `name`.
    pub fn import(&self, tar: &Path, name: &str) -> Result<()> {
        self.must("podman", &["import", "--quiet", &tar.to_string_lossy(), name])
    }

    /// Makes an image of a recipe in `context`.
    pub fn build(&self, context: &Path, recipe: &str, base: &str, name: &str) -> Result<()> {
        let mut buildah = self.command("buildah", &["build", "--isolation=chroot", "--format=docker", "--pull-never"]);
        buildah.arg(format!("--build-arg=BASE={base}")).arg(format!("--tag={name}"));
        // What pip loads may come through a proxy with an authority that only this machine knows.
        if let Ok(authorities) = std::env::var("PIP_CERT") {
            buildah
                .arg(format!("--volume={authorities}:{authorities}:ro"))
                .arg(format!("--build-arg=PIP_CERT={authorities}"));
        }
        buildah.arg("--file").arg(context.join(recipe)).arg(context);
        must(&mut buildah, "buildah build")
    }

    /// How many bytes a registry would send of the image.
    pub fn compressed_size(&self, image: &str, folder: &Path) -> Result<u64> {
        self.must("buildah", &["push", "--quiet", image, &format!("oci:{}:latest", folder.display())])?;
        let blobs = fs::read_dir(folder.join("blobs/sha256")).context("the image has no parts")?;
        blobs.map(|blob| Ok(blob?.metadata()?.len())).sum()
    }

    /// Runs a program of an image to its end.
    pub fn run(&self, flags: &[&str], image: &str, words: &[&str]) -> Result<Output> {
        let mut podman = self.command("podman", &["run", "--network=none"]);
        podman.args(STRICT).args(flags).arg(image).args(words);
        podman.output().context("failed to start `podman`")
    }

    /// Whether a container can be started on this machine; if not, the reason.
    pub fn obstacle(&self, image: &str) -> Option<String> {
        let output = match self.run(&[], image, &["--version"]) {
            Ok(output) if output.status.success() => return None,
            Ok(output) => output,
            Err(error) => return Some(format!("{error:#}")),
        };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = text.lines().rfind(|line| line.starts_with("Error")).unwrap_or(text.trim());
        Some(format!("podman starts no container here: {last}"))
    }

    /// Waits until a command in terms of a container succeeds.
    pub fn eventually(&self, words: &[&str]) -> Result<()> {
        let end = Instant::now() + DEADLINE;
        loop {
            let output = self.command("podman", words).output()?;
            if output.status.success() {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(Instant::now() < end, "`podman {}` does not succeed: {text}", words.join(" "));
            std::thread::park_timeout(POLL);
        }
    }

    /// What `podman` prints.
    pub fn answer(&self, words: &[&str]) -> Result<String> {
        let output = self.command("podman", words).output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "`podman {}` failed: {error}", words.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The packages as a file system, made once. The release of Debian is that of this machine, whose settings say where its
/// packages are.
pub fn debian(dist: &Dist<'_>, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let release = child::answer("sh", &["-c", ". /etc/os-release && echo \"$ID-$VERSION_CODENAME\""]);
    let release = release.unwrap_or_default();
    let release = release.strip_prefix("debian-").context("the base of the image is made on Debian only")?;
    let folder = dist.workspace.target()?.join("dist-tools");
    fs::create_dir_all(&folder)?;
    let (tar, part) = (folder.join(format!("{name}-{release}.tar")), folder.join(format!("{name}-part.tar")));
    if !tar.is_file() {
        println!("putting together {release} with {}", packages.join(", "));
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--variant=minbase", &format!("--include={}", packages.join(",")), release]).arg(&part);
        must(&mut mmdebstrap, "mmdebstrap")?;
        fs::rename(&part, &tar)?;
    }
    Ok(tar)
}
