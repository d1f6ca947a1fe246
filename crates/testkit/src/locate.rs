//! Finds the binaries of this crate for the tests of other crates, and builds them when they are missing or stale.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The path of the binary `fake-server`.
///
/// Cargo tells binaries only to tests of their own crate, so this looks beside the running test and otherwise asks
/// cargo to build it once, into the same folder and with the same profile.
///
/// # Panics
/// When the binary cannot be built: the test that asked cannot run.
pub fn fake_server() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| locate("fake-server")).clone()
}

fn locate(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let mut folder = test.parent().expect("a test lies in a folder");
    if folder.ends_with("deps") || folder.ends_with("examples") {
        folder = folder.parent().expect("`deps` lies in a profile's folder");
    }
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !is_fresh(&path) {
        build(name, folder);
    }
    assert!(path.is_file(), "no `{}`: run `cargo build -p toolcrib-testkit --bin {name}`", path.display());
    path
}

/// Whether the binary is newer than every source of this crate.
fn is_fresh(path: &Path) -> bool {
    let built = path.metadata().and_then(|metadata| metadata.modified());
    built.is_ok_and(|built| {
        newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).is_none_or(|newest| newest < built)
    })
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => newest(&entry.path()),
            _ => entry.metadata().and_then(|metadata| metadata.modified()).ok(),
        })
        .max()
}

fn build(name: &str, folder: &Path) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = folder.parent().expect("a profile's folder lies in the target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "toolcrib-testkit", "--bin", name, "--profile", profile])
        .arg("--no-default-features")
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "cargo builds `{name}`: {status:?}");
}
