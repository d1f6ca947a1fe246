//! The program of a release: built once with the profile `dist` for the glibc of [`GLIBC`], with the list of its
//! dependencies inside, in a way that gives the same bytes in every folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::child;
use crate::dist::{TARGET, elf, sha256, targets, tools};
use crate::workspace::Workspace;

/// The profile of releases.
const PROFILE: &str = "dist";
/// The oldest glibc that the program runs with: that of the oldest systems that are still in use.
pub const GLIBC: &str = "2.17";
/// zig brings the headers and symbols of every glibc.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];
const AUDITABLE: &str = "0.7.7";

/// Paths of this machine that compilers would write into the program, and what they write in their place.
const ROOT: &str = "/toolcrib";
const CARGO: &str = "/cargo";
const BUILT: &str = "/target";
const LIBRARY: &str = "/rustc/library";

/// Digits of a build id: as many as the linker makes room for.
const BUILD_ID: usize = 40;

/// What a person may have set for other builds and what would get into this one.
const NOT_OURS: [&str; 9] = [
    "RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_INCREMENTAL",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CFLAGS",
    "TARGET_CFLAGS",
    "CC",
];

/// The folders of one build.
#[derive(Debug)]
pub struct Place {
    pub root: PathBuf,
    pub target: PathBuf,
    pub cargo_home: PathBuf,
    /// Whether cargo leaves out which package it compiles.
    pub is_quiet: bool,
}

/// What a build gives.
#[derive(Debug)]
pub struct Program {
    pub binary: PathBuf,
    /// The symbols, which debuggers find by the build id.
    pub debug: PathBuf,
    /// In hex: of the bytes of the program.
    pub build_id: String,
}

// === impl Place ===

impl Place {
    /// That of an ordinary build of this checkout.
    pub fn ordinary(workspace: &Workspace) -> Result<Self> {
        Ok(Self {
            root: workspace.root.clone(),
            target: workspace.target()?,
            cargo_home: cargo_home()?,
            is_quiet: false,
        })
    }

    /// `from=to` of each path that does not get into the program.
    fn replaced(&self) -> Result<Vec<String>> {
        let sysroot = child::answer("rustc", &["--print", "sysroot"]).context("`rustc` names no sysroot")?;
        let library = Path::new(&sysroot).join("lib/rustlib/src/rust");
        let registry = self.cargo_home.join("registry");
        let own = [
            (&self.cargo_home, CARGO.to_owned()),
            (&registry, format!("{CARGO}/registry")),
            (&self.root, ROOT.to_owned()),
            (&self.target, BUILT.to_owned()),
            (&library, LIBRARY.to_owned()),
        ];
        // The last one that fits counts: folders that lie in others come after them. Compilers are started in the folder
        // of a package and name it as the system does, so where a link leads is replaced, too.
        let mut pairs = Vec::new();
        for (from, to) in own {
            let real = fs::canonicalize(from).ok().filter(|real| real != from);
            pairs.extend(real.map(|real| (real, to.clone())));
            pairs.push((from.clone(), to));
        }
        // The flags of C compilers are cut at blanks.
        let has_blank = |(from, _): &&(PathBuf, String)| from.to_string_lossy().contains(char::is_whitespace);
        if let Some((from, _)) = pairs.iter().find(has_blank) {
            bail!("`{}` has a blank in its name; move it to a folder without", from.display());
        }
        Ok(pairs.iter().map(|(from, to)| format!("{}={to}", from.display())).collect())
    }
}

/// Builds the program in `place` and puts it and its symbols into `folder`. The tools are those of `workspace`.
pub fn program(workspace: &Workspace, place: &Place, epoch: u64, folder: &Path) -> Result<Program> {
    let zig = tools::python(workspace, "zig", &ZIG)?;
    let auditable = tools::cargo(workspace, "cargo-auditable", AUDITABLE)?;
    let cache = workspace.target()?.join("dist-tools");
    let replaced = place.replaced()?;
    let flags = |option: &str| -> Vec<String> { replaced.iter().map(|pair| format!("{option}={pair}")).collect() };
    let mut rust = flags("--remap-path-prefix");
    rust.push("-Clink-arg=-Wl,--build-id=sha1".to_owned());

    let mut cargo = workspace.cargo();
    NOT_OURS.iter().for_each(|name| _ = cargo.env_remove(name));
    cargo.current_dir(&place.root).env("PATH", tools::path(&[&zig, &auditable])?);
    cargo.args(["auditable", "zigbuild", "--locked", "--package", "toolcrib", "--profile", PROFILE]);
    cargo.arg("--target").arg(format!("{TARGET}.{GLIBC}"));
    if place.is_quiet {
        cargo.arg("--quiet");
    }
    cargo.env("CARGO_TARGET_DIR", &place.target).env("CARGO_HOME", &place.cargo_home);
    cargo.env("SOURCE_DATE_EPOCH", epoch.to_string());
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"));
    let c_flags = format!("CFLAGS_{}", TARGET.replace('-', "_"));
    cargo.env(c_flags, flags("-ffile-prefix-map").join(" "));
    cargo.env("CARGO_ZIGBUILD_CACHE_DIR", cache.join("zigbuild"));
    cargo.env("ZIG_GLOBAL_CACHE_DIR", cache.join("zig")).env("ZIG_LOCAL_CACHE_DIR", cache.join("zig"));
    // The symbols come out of the linker in one file and are taken apart below: what the profile does by itself
    // leaves nothing in the program by which a debugger could find them.
    cargo.env("CARGO_PROFILE_DIST_STRIP", "none").env("CARGO_PROFILE_DIST_SPLIT_DEBUGINFO", "off");
    ensure!(cargo.status().context("failed to start cargo")?.success(), "the program does not build");

    let built = place.target.join(TARGET).join(PROFILE).join("toolcrib");
    let program = apart(&built, folder)?;
    elf::check(&program.binary, GLIBC)?;
    Ok(program)
}

/// Builds the program for a target that zig is not used for, and returns its path.
pub fn elsewhere(workspace: &Workspace, target: &str) -> Result<PathBuf> {
    let target = targets::find(target)?;
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--locked", "--package", "toolcrib", "--profile", PROFILE, "--target", target.triple]);
    ensure!(cargo.status()?.success(), "the program does not build for `{}`", target.triple);
    Ok(workspace.target()?.join(target.triple).join(PROFILE).join(target.program()))
}

/// The program without symbols, and the symbols.
fn apart(built: &Path, folder: &Path) -> Result<Program> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove `{}`", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    let (binary, debug) = (folder.join("toolcrib"), folder.join("toolcrib.debug"));
    tools::must(Command::new("objcopy").arg("--only-keep-debug").arg(built).arg(&debug), "objcopy")?;
    tools::must(Command::new("objcopy").arg("--strip-all").arg(built).arg(&binary), "objcopy")?;
    // The linker's id is a hash of the symbols, too, and those name the folder that zig is in.
    stamp(&binary, &"0".repeat(BUILD_ID), folder)?;
    let build_id = sha256(&binary)?[..BUILD_ID].to_owned();
    stamp(&binary, &build_id, folder)?;
    stamp(&debug, &build_id, folder)?;
    Ok(Program { binary, debug, build_id })
}

/// Writes a build id, in hex, to the place that the linker made for one.
fn stamp(file: &Path, build_id: &str, folder: &Path) -> Result<()> {
    let note = folder.join("note");
    fs::write(&note, note_of(build_id)?).with_context(|| format!("failed to write `{}`", note.display()))?;
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--update-section").arg(format!(".note.gnu.build-id={}", note.display())).arg(file);
    tools::must(&mut objcopy, "objcopy")?;
    fs::remove_file(&note).with_context(|| format!("failed to remove `{}`", note.display()))
}

/// The section of a build id: the sizes of name and content, the type `NT_GNU_BUILD_ID`, both.
fn note_of(build_id: &str) -> Result<Vec<u8>> {
    let digits = build_id.as_bytes().chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    let content = digits.collect::<Result<Vec<u8>>>().with_context(|| format!("`{build_id}` is no build id"))?;
    let mut note = Vec::new();
    for number in [4, u32::try_from(content.len())?, 3] {
        note.extend(number.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(content);
    Ok(note)
}

/// Where cargo keeps the sources of packages.
pub fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(home));
    }
    let home = std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set; set one of them")?;
    Ok(PathBuf::from(home).join(".cargo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &str) -> Place {
        Place { root: root.into(), target: "/a/built".into(), cargo_home: "/b".into(), is_quiet: true }
    }

    #[test]
    fn inner_folders_are_replaced_after_those_that_they_lie_in() {
        let replaced = place("/a").replaced().unwrap();
        let of = |pair: &str| replaced.iter().position(|replaced| replaced == pair).unwrap();
        assert!(of("/a=/toolcrib") < of("/a/built=/target"), "{replaced:?}");
        assert!(replaced.contains(&"/b=/cargo".to_owned()), "{replaced:?}");
    }

    #[test]
    fn where_a_link_leads_is_replaced_as_the_link_is() {
        let folder = std::env::temp_dir().join(format!("toolcrib-place-{}", std::process::id()));
        let home = folder.join("home");
        fs::create_dir_all(folder.join("elsewhere")).unwrap();
        fs::create_dir_all(&home).unwrap();
        std::os::unix::fs::symlink(folder.join("elsewhere"), home.join("registry")).unwrap();
        let place = Place { cargo_home: home.clone(), ..place("/a") };
        let replaced = place.replaced().unwrap();
        let real = fs::canonicalize(folder.join("elsewhere")).unwrap();
        for from in [home.join("registry"), real] {
            let pair = format!("{}=/cargo/registry", from.display());
            assert!(replaced.contains(&pair), "{pair} of {replaced:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_build_id_is_a_note() {
        let note = note_of("00ff10").unwrap();
        assert_eq!(note, *b"\x04\0\0\0\x03\0\0\0\x03\0\0\0GNU\0\x00\xff\x10");
        assert!(note_of("pony").is_err());
    }

    #[test]
    fn a_folder_with_a_blank_is_named() {
        let error = place("/my sources").replaced().unwrap_err().to_string();
        assert!(error.contains("`/my sources`") && error.contains("move it"), "{error}");
    }
}
