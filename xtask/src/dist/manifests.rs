//! Manifests of package managers that fetch an archive: Homebrew, Scoop, winget and Nix, each made from
//! [`TARGETS`] and the hashes of the archives that are there. What `cargo binstall` reads stands in the manifest of the
//! binary's crate, and a test holds it against the same table.

mod linters;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::dist::targets::{TARGETS, Target, repository};
use crate::dist::trial::Trials;
use crate::dist::{Dist, sha256};

/// What every one of them says about the program.
const ABOUT: &str = "One MCP endpoint in front of every MCP server that a person or a company uses";
const LICENCE: &str = "Apache-2.0";

/// One package manager.
struct Manager {
    name: &'static str,
    files: &'static [ManifestFile],
}

/// One file of a package manager.
struct ManifestFile {
    name: &'static str,
    /// Why nothing but its form was checked, as a sentence that stands in it.
    untested: &'static str,
    /// Its text, or nothing where no archive fits.
    text: fn(&Release) -> Option<String>,
}

const MANAGERS: [Manager; 4] = [
    Manager {
        name: "Homebrew",
        files: &[ManifestFile {
            name: "toolcrib.rb",
            untested: "`brew audit` and `brew install` have not run: the release machine has no Homebrew",
            text: homebrew,
        }],
    },
    Manager {
        name: "Scoop",
        files: &[ManifestFile { name: "toolcrib.json", untested: "Scoop has not run: it needs Windows", text: scoop }],
    },
    Manager {
        name: "winget",
        files: &[
            ManifestFile { name: "Toolcrib.Toolcrib.yaml", untested: WINGET, text: winget_version },
            ManifestFile { name: "Toolcrib.Toolcrib.installer.yaml", untested: WINGET, text: winget_installer },
            ManifestFile { name: "Toolcrib.Toolcrib.locale.en-US.yaml", untested: WINGET, text: winget_locale },
        ],
    },
    Manager {
        name: "Nix",
        files: &[ManifestFile {
            name: "flake.nix",
            untested: "`nix build` has not run: it fetches nixpkgs, and the archive from its release",
            text: nix,
        }],
    },
];

const WINGET: &str = "`winget validate` has not run: it needs Windows";

/// What manifests are made of.
#[derive(Debug)]
struct Release {
    version: String,
    repository: String,
    archives: Vec<Archive>,
    /// The sentence for the file that is being made.
    untested: &'static str,
}

/// An archive that is there.
#[derive(Debug)]
struct Archive {
    target: &'static Target,
    sha256: String,
}

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let mut archives = Vec::new();
    for target in &TARGETS {
        let file = dist.folder.join(target.file(&dist.version));
        if file.is_file() {
            archives.push(Archive { target, sha256: sha256(&file)? });
        }
    }
    let mut release = Release { version: dist.version.clone(), repository: repository(), archives, untested: "" };
    let mut made = Vec::new();
    for manager in &MANAGERS {
        for file in manager.files {
            let path = dist.folder.join(file.name);
            release.untested = file.untested;
            if let Some(text) = (file.text)(&release) {
                fs::write(&path, text).with_context(|| format!("failed to write `{}`", path.display()))?;
                made.push(path);
            } else {
                // One of an earlier run would name archives that are gone.
                let _ = fs::remove_file(&path);
                println!("no `{}`: no archive for {}", file.name, manager.name);
            }
        }
    }
    Ok(made)
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let stage = dist.stage("manifests-test")?;
    // Of all targets, whether they were built here or not.
    let mut release = Release::of_all(&dist.version);
    for file in MANAGERS.iter().flat_map(|manager| manager.files) {
        release.untested = file.untested;
        let text = (file.text)(&release).with_context(|| format!("no `{}` for all targets", file.name))?;
        fs::write(stage.join(file.name), text)?;
    }
    linters::archive(dist, &stage, trials);
    linters::homebrew(&stage, &release, trials);
    linters::nix(&stage, &release, trials);
    linters::yaml(dist, &stage, trials);
    linters::workflow(dist, trials);
    for manager in &MANAGERS {
        trials.skipped(&format!("{} installs it", manager.name), manager.files[0].untested);
    }
    trials.skipped("cargo binstall installs it", "it fetches the archive from its release");
    Ok(())
}

// === impl Release ===

impl Release {
    /// A release with an archive for every target and hashes that are made up.
    fn of_all(version: &str) -> Self {
        let archives = TARGETS.iter().zip(1..).map(|(target, number)| {
            let number: usize = number;
            Archive { target, sha256: format!("{number:064x}") }
        });
        let repository = "https://example.invalid/toolcrib".to_owned();
        Self { version: version.to_owned(), repository, archives: archives.collect(), untested: "" }
    }

    fn address(&self, target: &Target) -> String {
        format!("{}/releases/download/v{}/{}", self.repository, self.version, target.file(&self.version))
    }

    fn windows(&self) -> Option<(&Archive, (&'static str, &'static str))> {
        self.archives.iter().find_map(|archive| Some((archive, archive.target.windows?)))
    }

    /// The lines at the top of a file.
    fn head(&self) -> String {
        format!("# Made by `cargo xtask dist --only manifests`.\n# untested: {}\n", self.untested)
    }
}

fn homebrew(release: &Release) -> Option<String> {
    let mut blocks = String::new();
    for system in ["macos", "linux"] {
        let mut inner = String::new();
        for archive in &release.archives {
            let Some((_, processor)) = archive.target.homebrew.filter(|(named, _)| *named == system) else { continue };
            let address = release.address(archive.target);
            let hash = &archive.sha256;
            inner += &format!("    on_{processor} do\n      url \"{address}\"\n      sha256 \"{hash}\"\n    end\n");
        }
        if !inner.is_empty() {
            blocks += &format!("  on_{system} do\n{inner}  end\n\n");
        }
    }
    if blocks.is_empty() {
        return None;
    }
    let (head, repository, version) = (release.head(), &release.repository, &release.version);
    Some(format!(
        "{head}class Toolcrib < Formula\n  \
           desc \"{ABOUT}\"\n  homepage \"{repository}\"\n  version \"{version}\"\n  license \"{LICENCE}\"\n\n\
         {blocks}  \
           def install\n    \
             bin.install \"toolcrib\"\n    \
             man1.install Dir[\"man/*.1\"]\n    \
             bash_completion.install \"completions/toolcrib.bash\" => \"toolcrib\"\n    \
             zsh_completion.install \"completions/_toolcrib\"\n    \
             fish_completion.install \"completions/toolcrib.fish\"\n  \
           end\n\n  \
           test do\n    \
             assert_match version.to_s, shell_output(\"#{{bin}}/toolcrib --version\")\n  \
           end\n\
         end\n"
    ))
}

fn scoop(release: &Release) -> Option<String> {
    let (archive, (architecture, _)) = release.windows()?;
    let (target, version) = (archive.target, &release.version);
    let next = format!(
        "{}/releases/download/v$version/toolcrib-$version-{}.{}",
        release.repository, target.triple, target.archive
    );
    let manifest = json!({
        "##": [format!("untested: {}", release.untested)],
        "version": version,
        "description": ABOUT,
        "homepage": release.repository,
        "license": LICENCE,
        "architecture": {
            architecture: {
                "url": release.address(target),
                "hash": archive.sha256,
                "extract_dir": target.folder(version),
            },
        },
        "bin": "toolcrib.exe",
        "checkver": {"url": format!("{}/releases/latest", release.repository), "regex": "v([\\d.]+)"},
        "autoupdate": {"architecture": {architecture: {"url": next, "extract_dir": target.folder("$version")}}},
    });
    pretty(&manifest)
}

fn pretty(value: &Value) -> Option<String> {
    serde_json::to_string_pretty(value).ok().map(|text| text + "\n")
}

/// What all three files of winget begin with. Its schemas have the version of the manifests.
fn winget(release: &Release, kind: &str, body: &str) -> String {
    let (head, version) = (release.head(), &release.version);
    format!(
        "{head}PackageIdentifier: Toolcrib.Toolcrib\nPackageVersion: \"{version}\"\n{body}\
         ManifestType: {kind}\nManifestVersion: \"1.6.0\"\n"
    )
}

fn winget_version(release: &Release) -> Option<String> {
    release.windows()?;
    Some(winget(release, "version", "DefaultLocale: en-US\n"))
}

fn winget_installer(release: &Release) -> Option<String> {
    let (archive, (_, architecture)) = release.windows()?;
    let body = format!(
        "InstallerType: zip\nNestedInstallerType: portable\nNestedInstallerFiles:\n  \
           - RelativeFilePath: {}\\toolcrib.exe\n    PortableCommandAlias: toolcrib\n\
         Installers:\n  - Architecture: {architecture}\n    InstallerUrl: \"{}\"\n    InstallerSha256: {}\n",
        archive.target.folder(&release.version),
        release.address(archive.target),
        archive.sha256.to_uppercase(),
    );
    Some(winget(release, "installer", &body))
}

fn winget_locale(release: &Release) -> Option<String> {
    release.windows()?;
    let body = format!(
        "PackageLocale: en-US\nPublisher: Toolcrib\nPackageName: Toolcrib\nPackageUrl: \"{}\"\n\
         License: {LICENCE}\nShortDescription: \"{ABOUT}\"\n",
        release.repository
    );
    Some(winget(release, "defaultLocale", &body))
}

fn nix(release: &Release) -> Option<String> {
    let mut archives = String::new();
    for archive in &release.archives {
        let Some(system) = archive.target.nix else { continue };
        let (address, hash) = (release.address(archive.target), &archive.sha256);
        archives += &format!(
            "        {system} = {{\n          url = \"{address}\";\n          sha256 = \"{hash}\";\n        }};\n"
        );
    }
    if archives.is_empty() {
        return None;
    }
    let template = include_str!("manifests/flake.nix.in");
    Some(
        template
            .replace("@head@\n", &release.head())
            .replace("@about@", ABOUT)
            .replace("@version@", &release.version)
            .replace("@archives@\n", &archives),
    )
}

#[cfg(test)]
mod tests;
