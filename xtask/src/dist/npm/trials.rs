//! The packages of npm as people install them: from the files, from a registry, offline from npm's cache, with each Node
//! that is supported; and what the script says where the program cannot be started.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Platform, built, packed, platforms, read};
use crate::child;
use crate::dist::launch::Launcher;
use crate::dist::registry::Registry;
use crate::dist::tools::must;
use crate::dist::trial::Trials;
use crate::dist::{Dist, archive};
use crate::need;

/// One Node with npm, and folders of its own for all that they write.
struct Npm<'a> {
    dist: &'a Dist<'a>,
    label: String,
    node: PathBuf,
    /// The folder of `npm-cli.js` and `npx-cli.js`.
    scripts: PathBuf,
    path: OsString,
    folder: PathBuf,
    registry: String,
}

/// What is wrong with an installation: the value of a key of our platform, or the mode of the program.
struct Defect<'a> {
    key: &'a str,
    value: &'a str,
    mode: u32,
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let folder = dist.stage("npm-test")?;
    let platforms = platforms(&dist.workspace.root)?;
    let ours = built(&platforms, dist.target)?;
    trials.run("the package of the platform has the program, byte for byte", || {
        let unpacked = folder.join("unpacked");
        fs::create_dir_all(&unpacked)?;
        archive::unpack(&packed(dist, &ours.package), &unpacked)?;
        let same = fs::read(unpacked.join("package/bin/toolcrib"))? == fs::read(&dist.binary)?;
        ensure!(same, "it has another program");
        Ok(())
    });
    for node in need::nodes(dist.workspace)? {
        let registry = registry(dist, &platforms, ours, &folder)?;
        let npm = Npm::new(dist, &node, &folder, &registry.url)?;
        let named = |name: &str| format!("{}: {name}", npm.label);
        let installed = npm.folder.join("files");
        trials.run(&named("installed from the files, offline"), || npm.install_files(&installed, ours));
        npm.launch(&installed, trials)?;
        trials.run(&named("`npx toolcrib demo` from a registry"), || npm.demo(&[]));
        // From here on npm has its cache only.
        drop(registry);
        trials.run(&named("`npx toolcrib demo` offline, from npm's cache"), || {
            fs::remove_dir_all(npm.folder.join("cache/_npx")).context("npx left no folder")?;
            npm.demo(&["--offline"])
        });
        trials.run(&named("a project's installation offline, from npm's cache"), || {
            let project = npm.empty("project")?;
            npm.run(&project, &["install", "--offline", "toolcrib"])?;
            npm.says_version(&project)
        });
        trials.run(&named("without optional dependencies it says what to do"), || {
            let project = npm.empty("omitted")?;
            npm.run(&project, &["install", "--offline", "--omit=optional", "toolcrib"])?;
            npm.fails(&project, &["`@toolcrib/linux-x64-gnu` is not installed", "without `--no-optional`"])
        });
        npm.broken(trials)?;
    }
    Ok(())
}

// === impl Npm ===

impl<'a> Npm<'a> {
    fn new(dist: &'a Dist<'a>, node: &Path, folder: &Path, registry: &str) -> Result<Self> {
        let version = child::answer(&node.to_string_lossy(), &["--version"]).context("node does not start")?;
        let folder = folder.join(format!("node-{version}"));
        let bin = folder.join("bin");
        fs::create_dir_all(&bin)?;
        symlink(node, bin.join("node"))?;
        let place = child::answer("sh", &["-c", "readlink -f \"$(command -v npm)\""]).context("there is no npm")?;
        let scripts = Path::new(&place).parent().context("npm is in no folder")?.to_path_buf();
        let path = std::env::join_paths([&bin, Path::new("/usr/bin"), Path::new("/bin")])?;
        let label = format!("Node {}", version.trim_start_matches('v'));
        Ok(Self { dist, label, node: node.to_path_buf(), scripts, path, folder, registry: registry.to_owned() })
    }

    fn empty(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
        Ok(folder)
    }

    /// `npm` or `npx` in a folder, without the settings of whoever runs this.
    fn command(&self, script: &str, folder: &Path) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.scripts.join(script)).current_dir(folder).env_clear().env("PATH", &self.path);
        command.env("HOME", &self.folder).env("npm_config_cache", self.folder.join("cache"));
        command.env("npm_config_registry", &self.registry).env("npm_config_update_notifier", "false");
        command.env("npm_config_audit", "false").env("npm_config_fund", "false");
        command
    }

    fn run(&self, folder: &Path, words: &[&str]) -> Result<()> {
        must(self.command("npm-cli.js", folder).args(words), "npm")
    }

    fn install_files(&self, folder: &Path, platform: &Platform) -> Result<()> {
        fs::create_dir_all(folder)?;
        let mut npm = self.command("npm-cli.js", folder);
        npm.args(["install", "--offline"]).arg(packed(self.dist, "toolcrib")).arg(packed(self.dist, &platform.package));
        must(&mut npm, "npm install")?;
        for package in ["toolcrib", &platform.package] {
            let manifest = read(&folder.join("node_modules").join(package).join("package.json"))?;
            ensure!(manifest.get("scripts").is_none(), "`{package}` has scripts");
        }
        self.says_version(folder)
    }

    fn says_version(&self, folder: &Path) -> Result<()> {
        let output = self.program(folder)?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.contains(&self.dist.version), "it said {output:?}");
        Ok(())
    }

    /// `toolcrib --version` as installed in the folder.
    fn program(&self, folder: &Path) -> Result<Output> {
        let mut program = Command::new(folder.join("node_modules/.bin/toolcrib"));
        program.arg("--version").env_clear().env("PATH", &self.path).env("HOME", &self.folder);
        program.output().context("failed to start what npm installed")
    }

    fn demo(&self, flags: &[&str]) -> Result<()> {
        let folder = self.empty("npx")?;
        let begun = Instant::now();
        let mut npx = self.command("npx-cli.js", &folder);
        let output = npx.args(flags).args(["--yes", "toolcrib", "demo", "--once"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.contains("find_tools"), "it said {output:?}");
        println!("    figure   {}: `npx toolcrib demo --once` took {:.1} s", self.label, begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// Tries the command that npm installed, which is a script of the shell, and the part of it for Node.
    fn launch(&self, installed: &Path, trials: &mut Trials) -> Result<()> {
        let modules = installed.join("node_modules");
        let command = Launcher {
            label: self.label.clone(),
            program: modules.join(".bin/toolcrib"),
            first: Vec::new(),
            path: self.path.clone(),
            folder: self.empty("home")?,
            direct: &self.dist.binary,
        };
        command.trials(trials);
        command.print_figures()?;
        let script = Launcher {
            label: format!("{}, script started by Node", self.label),
            program: self.node.clone(),
            first: vec![modules.join("toolcrib/bin/toolcrib.js")],
            ..command
        };
        script.trials(trials);
        script.print_figures()
    }

    /// What is installed in the folder fails with these words and a hint.
    fn fails(&self, folder: &Path, words: &[&str]) -> Result<()> {
        let output = self.program(folder)?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "it ended with {}: {text}", output.status);
        ensure!(output.stdout.is_empty(), "it printed something to stdout");
        for word in words.iter().chain(&["error: ", "\nhint: "]) {
            ensure!(text.contains(word), "`{word}` is missing in: {text}");
        }
        Ok(())
    }

    /// Installations on systems that the program does not fit, and with a program that does not start.
    fn broken(&self, trials: &mut Trials) -> Result<()> {
        let mut case = |name: &str, installation: &Defect<'_>, words: &[&str]| {
            trials.run(&format!("{}: {name} it says what to do", self.label), || {
                let folder = self.empty(&name.replace(' ', "-"))?;
                self.install_broken(&folder, installation)?;
                self.fails(&folder, words)
            });
        };
        let loader = Defect { key: "loader", value: "/lib/nowhere.so", mode: 0o755 };
        case("without glibc", &loader, &["needs glibc", "`/lib/nowhere.so`", "container image"]);
        let system = Defect { key: "os", value: "plan9", mode: 0o644 };
        case("on another system", &system, &["no package of toolcrib for linux-", "cargo"]);
        let mode = Defect { key: "os", value: "linux", mode: 0o644 };
        case("with a program that may not be executed", &mode, &["cannot be executed", "chmod +x"]);
        Ok(())
    }

    /// A copy of the script with a changed row of its table, and a program that only ends.
    fn install_broken(&self, folder: &Path, defect: &Defect<'_>) -> Result<()> {
        let modules = folder.join("node_modules");
        fs::create_dir_all(modules.join(".bin"))?;
        let original = self.folder.join("files/node_modules/toolcrib");
        must(Command::new("cp").arg("-r").arg(&original).arg(&modules), "cp")?;
        symlink("../toolcrib/bin/toolcrib.js", modules.join(".bin/toolcrib"))?;
        let (table, script) = (modules.join("toolcrib/platforms.json"), modules.join("toolcrib/bin/toolcrib.js"));
        let mut platforms = read(&table)?;
        let rows = platforms["platforms"].as_array_mut().context("the table has no rows")?;
        let ours = rows.iter_mut().find(|row| row["target"] == self.dist.target).context("our row is missing")?;
        let program = modules.join(ours["package"].as_str().unwrap_or_default()).join("bin/toolcrib");
        let before = ours[defect.key].as_str().unwrap_or_default().to_owned();
        ours[defect.key] = defect.value.into();
        fs::write(&table, platforms.to_string())?;
        if defect.key == "loader" {
            // The part of the shell has it, too.
            let text = fs::read_to_string(&script)?;
            ensure!(text.contains(&before), "the script does not look for `{before}`");
            fs::write(&script, text.replace(&before, defect.value))?;
        }
        fs::create_dir_all(program.parent().unwrap_or(folder))?;
        fs::write(&program, "#!/bin/sh\n")?;
        fs::set_permissions(&program, fs::Permissions::from_mode(defect.mode))?;
        Ok(())
    }
}

/// A registry with the packages of all platforms, of which the other ones cannot be loaded: npm must not try.
fn registry(dist: &Dist<'_>, platforms: &[Platform], ours: &Platform, folder: &Path) -> Result<Registry> {
    let folder = folder.join("registry");
    fs::create_dir_all(&folder)?;
    let registry = Registry::start(&folder)?;
    let add = |manifest: Value| {
        let name = manifest["name"].as_str().unwrap_or_default().to_owned();
        let mut version = manifest;
        let file = packed(dist, &name);
        let tarball = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        version["dist"] = json!({ "tarball": format!("{}/-/{tarball}", registry.url) });
        if name == "toolcrib" || name == ours.package {
            let sum = child::answer("sha1sum", &[&file.to_string_lossy()]).context("failed to run `sha1sum`")?;
            version["dist"]["shasum"] = sum.split(' ').next().into();
            registry.write(&format!("-/{tarball}"), &fs::read(&file)?)?;
        }
        let latest = json!({ "latest": dist.version });
        let mut versions = json!({});
        versions[&dist.version] = version;
        let packument = json!({ "name": name, "dist-tags": latest, "versions": versions });
        registry.write(&name, packument.to_string().as_bytes())
    };
    add(super::main_manifest(&dist.workspace.root, &dist.version, platforms)?)?;
    for platform in platforms {
        add(platform.manifest(&dist.version))?;
    }
    Ok(registry)
}
