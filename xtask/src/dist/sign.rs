//! `SHA256SUMS` over all products and `index.json` for `toolcrib self-update`, both signed with minisign. Comes last: what
//! is made later is not in them. The key is `--key FILE` or that of `TOOLCRIB_MINISIGN_KEY`; without one it is the test key
//! of the repository, which proves nothing.

mod update;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use crate::child;
use crate::dist::trial::Trials;
use crate::dist::{Dist, product_names, sha256};

pub use update::test;

const SUMS: &str = "SHA256SUMS";
const INDEX: &str = "index.json";
/// The end of a signature's name.
const SIGNATURE: &str = ".minisig";
/// The key that everyone has.
const TEST_KEY: &str = "packaging/keys/test.key";
/// The variable that names the key.
const KEY_VARIABLE: &str = "TOOLCRIB_MINISIGN_KEY";
/// For how long an index counts after its release, in seconds: 400 days. A copy that sees none for longer should say so.
const INDEX_LIFE: u64 = 400 * 24 * 60 * 60;
/// How the targets end whose archives are in the index.
const SYSTEMS: [&str; 3] = ["-linux-gnu", "-linux-musl", "-apple-darwin"];

/// What an index is made of.
struct IndexRequest<'a> {
    /// Where the archives are, and the index goes.
    folder: &'a Path,
    version: &'a str,
    /// When it is released, in seconds since 1970.
    epoch: u64,
}

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    ensure!(child::answers("minisign", &["-v"]), "`minisign` is missing; install it: `apt-get install minisign`");
    let key = key(dist);
    if key == test_key(dist) {
        println!(
            "WARNING: signed with the TEST KEY of the repository, whose secret half everyone has. Not for a release:"
        );
        println!("WARNING: name the key of the release with `--key FILE` or {KEY_VARIABLE}.");
    }
    ensure!(key.is_file(), "there is no key `{}`", key.display());
    write_sums(&dist.folder)?;
    write_index(&IndexRequest { folder: &dist.folder, version: &dist.version, epoch: dist.epoch })?;
    let mut made = Vec::new();
    for (name, what) in [(SUMS, "sums"), (INDEX, "index")] {
        let file = dist.folder.join(name);
        let signature = sign(&key, &file, &format!("toolcrib {what} version:{}", dist.version))?;
        made.extend([file, signature]);
    }
    Ok(made)
}

fn key(dist: &Dist<'_>) -> PathBuf {
    let named = dist.key.clone().or_else(|| std::env::var_os(KEY_VARIABLE).map(PathBuf::from));
    named.unwrap_or_else(|| test_key(dist))
}

fn test_key(dist: &Dist<'_>) -> PathBuf {
    dist.workspace.root.join(TEST_KEY)
}

/// The hashes of all products, as `sha256sum --check` reads them.
fn write_sums(folder: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for name in product_names(folder)? {
        if !name.ends_with(SIGNATURE) && ![SUMS, INDEX].contains(&name.as_str()) {
            lines.push(format!("{}  {name}\n", sha256(&folder.join(&name))?));
        }
    }
    fs::write(folder.join(SUMS), lines.concat()).with_context(|| format!("failed to write `{SUMS}`"))
}

/// The index of the archives that are there.
fn write_index(request: &IndexRequest<'_>) -> Result<()> {
    let IndexRequest { folder, version, epoch } = request;
    let mut archives = Map::new();
    for name in product_names(folder)? {
        if let Some(target) = target(&name, version) {
            let file = folder.join(&name);
            let size = fs::metadata(&file).with_context(|| format!("failed to read `{}`", file.display()))?.len();
            archives.insert(target.to_owned(), json!({ "file": name, "size": size, "sha256": sha256(&file)? }));
        }
    }
    if archives.is_empty() {
        bail!("there is no archive of {version} in `{}`; make one with `--only archive`", folder.display());
    }
    let index = json!({
        "format": 1, "version": version, "released": time(*epoch)?, "expires": time(epoch + INDEX_LIFE)?,
        "archives": Value::Object(archives),
    });
    let text = serde_json::to_string_pretty(&index)? + "\n";
    fs::write(folder.join(INDEX), text).with_context(|| format!("failed to write `{INDEX}`"))
}

/// The target of an archive, if it has a program for one.
fn target<'a>(name: &'a str, version: &str) -> Option<&'a str> {
    let target = name.strip_prefix("toolcrib-")?.strip_prefix(version)?.strip_prefix('-')?.strip_suffix(".tar.gz")?;
    SYSTEMS.iter().any(|system| target.ends_with(system)).then_some(target)
}

/// RFC 3339 in UTC.
fn time(epoch: u64) -> Result<String> {
    let time = child::answer("date", &["--utc", "--date", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    time.with_context(|| format!("`date` cannot tell the time of {epoch}"))
}

/// Signs a file with a comment, and returns the file with the signature. A key with a password asks for it.
fn sign(key: &Path, file: &Path, comment: &str) -> Result<PathBuf> {
    let signature = PathBuf::from(format!("{}{SIGNATURE}", file.display()));
    let mut minisign = Command::new("minisign");
    minisign.arg("-S").arg("-s").arg(key).arg("-m").arg(file).arg("-x").arg(&signature);
    let status = minisign.args(["-t", comment, "-c", "signature of toolcrib"]).stdout(Stdio::null()).status();
    let status = status.context("failed to start `minisign`")?;
    ensure!(status.success(), "`minisign` did not sign `{}`", file.display());
    Ok(signature)
}

/// What anyone can check who has the public half of the key.
fn check_signatures(dist: &Dist<'_>, trials: &mut Trials) {
    trials.run("the sums are those of the files", || {
        let status = Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(&dist.folder).status()?;
        ensure!(status.success(), "`sha256sum --check` found another file");
        Ok(())
    });
    let public = key(dist).with_extension("pub");
    if !public.is_file() {
        return trials.skipped("minisign verifies sums and index", "the public key is not beside the secret one");
    }
    for name in [SUMS, INDEX] {
        trials.run(&format!("minisign verifies {name}"), || {
            let file = dist.folder.join(name);
            let output = Command::new("minisign").arg("-V").arg("-p").arg(&public).arg("-m").arg(file).output()?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(output.status.success() && said.contains(&format!("version:{}", dist.version)), "it said: {said}");
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_archives_of_programs_of_this_version_are_in_the_index() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(target(name, "0.1.0"), expect, "{name}");
        check("toolcrib-0.1.0-x86_64-unknown-linux-gnu.tar.gz", Some("x86_64-unknown-linux-gnu"));
        check("toolcrib-0.1.0-aarch64-apple-darwin.tar.gz", Some("aarch64-apple-darwin"));
        check("toolcrib-0.1.0-x86_64-unknown-linux-gnu.debug.tar.gz", None);
        check("toolcrib-0.1.0-x86_64-unknown-linux-gnu-symbols.tar.gz", None);
        check("toolcrib-0.1.1-x86_64-unknown-linux-gnu.tar.gz", None);
        check("toolcrib-0.1.0.tgz", None);
    }
}
