//! The wheel as people install it: by pip into environments of the oldest and a new Python, by uv and uvx from an index
//! and offline from uv's cache; and what the programs that check wheels say about it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{PACKAGE, machine, made, pack, tools};
use crate::child;
use crate::dist::launch::Launcher;
use crate::dist::registry::Registry;
use crate::dist::tools::must;
use crate::dist::trial::Trials;
use crate::dist::{Dist, archive, sha256};

/// The oldest Python that still gets fixes, and a new one.
const PYTHONS: [&str; 2] = ["3.9", "3.13"];
/// What the name of the wheel promises.
const GLIBC: &str = "manylinux_2_17";

/// One Python, and folders of its own for all that is installed.
struct Python<'a> {
    dist: &'a Dist<'a>,
    label: String,
    program: PathBuf,
    tools: PathBuf,
    wheel: &'a Path,
    folder: PathBuf,
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let wheels = made(dist)?;
    ensure!(wheels.len() == 1, "there are {} wheels", wheels.len());
    let wheel = &wheels[0];
    let folder = dist.stage("wheel-test")?;
    checks(dist, wheel, &folder, trials)?;
    for version in PYTHONS {
        let label = format!("Python {version}");
        let Some(program) = python(version) else {
            trials.skipped(&label, &format!("there is no Python {version} on this machine"));
            continue;
        };
        let folder = folder.join(version);
        fs::create_dir_all(&folder)?;
        let python = Python { dist, label, program, tools: tools(dist)?, wheel, folder };
        python.pip(trials)?;
        python.uv(trials)?;
    }
    Ok(())
}

/// What other programs say about the file.
fn checks(dist: &Dist<'_>, wheel: &Path, folder: &Path, trials: &mut Trials) -> Result<()> {
    let tools = tools(dist)?;
    let tool = |name: &str, words: &[&str]| must(Command::new(tools.join(name)).args(words).arg(wheel), name);
    trials.run("twine takes it", || tool("twine", &["check", "--strict"]));
    // W007: there is no Python code, and none is meant to be.
    trials.run("check-wheel-contents finds nothing", || tool("check-wheel-contents", &["--ignore", "W007"]));
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let tag = name.trim_end_matches(".whl").rsplit("-none-").next().unwrap_or_default().to_owned();
    trials.run("its name says the glibc that it needs", || {
        let output = Command::new(tools.join("auditwheel")).arg("show").arg(wheel).output()?;
        let said = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        // A platform may have an older name, too, such as `manylinux2014`.
        let is_said = |one: &str| said.contains(&format!("the following platform tag: \"{one}\""));
        ensure!(tag.split('.').any(is_said), "auditwheel says: {said}");
        Ok(())
    });
    let wanted = format!("{GLIBC}_{}", machine(dist.target));
    if tag.contains(&wanted) || dist.is_built_here() {
        trials.run("it is for every system with glibc 2.17", || {
            ensure!(tag.contains(&wanted), "it is for `{tag}`");
            Ok(())
        });
    } else {
        trials.skipped("it is for every system with glibc 2.17", &format!("the given program is for `{tag}`"));
    }
    trials.run("it has the program, byte for byte, and no Python code", || {
        archive::unpack(wheel, folder)?;
        let inside = folder.join(format!("{PACKAGE}-{}.data/scripts/{PACKAGE}", dist.version));
        ensure!(sha256(&inside)? == sha256(&dist.binary)?, "it has another program");
        let mut unpacked = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
        unpacked.sort();
        let expected = ["data", "dist-info"].map(|kind| OsString::from(format!("{PACKAGE}-{}.{kind}", dist.version)));
        ensure!(unpacked == expected, "it has {unpacked:?}");
        Ok(())
    });
    trials.run("packed again, the bytes are the same", || {
        let again = pack(dist, &dist.stage("wheel-again")?)?;
        ensure!(sha256(&again)? == sha256(wheel)?, "the hashes differ");
        Ok(())
    });
    Ok(())
}

// === impl Python ===

impl Python<'_> {
    /// A program without the settings of whoever runs this.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.folder).current_dir(&self.folder);
        command
    }

    fn pip(&self, trials: &mut Trials) -> Result<()> {
        let environment = self.folder.join("environment");
        let python = environment.join("bin/python");
        let program = environment.join("bin").join(PACKAGE);
        trials.run(&format!("{}: pip installs it from the file, offline", self.label), || {
            must(self.command(&self.program).args(["-m", "venv"]).arg(&environment), "python -m venv")?;
            let mut pip = self.command(&python);
            must(pip.args(["-m", "pip", "install", "--no-index"]).arg(self.wheel), "pip install")?;
            ensure!(sha256(&program)? == sha256(&self.dist.binary)?, "it installed another program");
            Ok(())
        });
        let folder = self.folder.join("home");
        fs::create_dir_all(&folder)?;
        let launcher = Launcher {
            label: self.label.clone(),
            program: program.clone(),
            first: Vec::new(),
            path: "/usr/bin:/bin".into(),
            folder,
            direct: &self.dist.binary,
        };
        launcher.trials(trials);
        launcher.print_figures()?;
        trials.run(&format!("{}: pip uninstalls it", self.label), || {
            must(self.command(&python).args(["-m", "pip", "uninstall", "--yes", PACKAGE]), "pip uninstall")?;
            ensure!(!program.exists(), "the program is still there");
            Ok(())
        });
        Ok(())
    }

    fn uv_command(&self, name: &str) -> Command {
        let mut command = self.command(&self.tools.join(name));
        command.env("UV_CACHE_DIR", self.folder.join("cache")).env("UV_PYTHON", &self.program);
        command.env("UV_PYTHON_DOWNLOADS", "never").env("UV_NO_CONFIG", "1");
        command.env("UV_TOOL_DIR", self.folder.join("uv-tools")).env("UV_TOOL_BIN_DIR", self.folder.join("uv-bin"));
        command
    }

    fn uv(&self, trials: &mut Trials) -> Result<()> {
        let index = index(self.wheel, &self.folder.join("index"))?;
        let named = |name: &str| format!("{}: {name}", self.label);
        let address = format!("{}/simple", index.url);
        trials.run(&named("`uvx toolcrib demo` from an index"), || self.demo(&["--default-index", &address]));
        // From here on uv has its cache only.
        drop(index);
        trials.run(&named("`uvx toolcrib demo` offline, from uv's cache"), || {
            self.demo(&["--offline", "--default-index", &address])
        });
        trials.run(&named("`uv tool install` offline, from a folder"), || {
            let mut uv = self.uv_command("uv");
            uv.args(["tool", "install", "--offline", "--no-index", "--find-links"]);
            must(uv.arg(&self.dist.folder).arg(PACKAGE), "uv tool install")?;
            let program = fs::canonicalize(self.folder.join("uv-bin").join(PACKAGE))?;
            ensure!(sha256(&program)? == sha256(&self.dist.binary)?, "it installed another program");
            Ok(())
        });
        Ok(())
    }

    fn demo(&self, flags: &[&str]) -> Result<()> {
        let begun = Instant::now();
        let output = self.uv_command("uvx").args(flags).args([PACKAGE, "demo", "--once"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.contains("find_tools"), "it said {output:?}");
        println!("    figure   {}: `uvx toolcrib demo --once` took {:.1} s", self.label, begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// An index of packages with the wheel.
fn index(wheel: &Path, folder: &Path) -> Result<Registry> {
    fs::create_dir_all(folder)?;
    let index = Registry::start(folder)?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    index.write(&format!("files/{name}"), &fs::read(wheel)?)?;
    let link = format!("<!DOCTYPE html><a href=\"../../files/{name}#sha256={}\">{name}</a>\n", sha256(wheel)?);
    index.write(&format!("simple/{PACKAGE}/index.html"), link.as_bytes())?;
    Ok(index)
}

/// A Python of this version: in PATH, or one of pyenv's.
fn python(version: &str) -> Option<PathBuf> {
    let name = format!("python{version}");
    let is_one = |program: &Path| child::answers(&program.to_string_lossy(), &["-c", "import venv, ensurepip"]);
    let home = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".pyenv")));
    let installed = home.and_then(|home| fs::read_dir(home.join("versions")).ok()).into_iter().flatten().flatten();
    let installed = installed.map(|entry| entry.path().join("bin").join(&name));
    let found = installed.chain([PathBuf::from(&name)]).find(|program| is_one(program))?;
    child::answer(&found.to_string_lossy(), &["-c", "import sys; print(sys.executable)"])
        .map(PathBuf::from)
        .context("it does not say where it is")
        .ok()
}
