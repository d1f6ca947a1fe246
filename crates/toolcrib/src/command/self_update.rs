//! `toolcrib self-update`: tells how this copy was installed and the command that updates it. Nothing is downloaded:
//! who replaces a program that holds people's tools is their package manager, or they themselves.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_protocol::Raw;

use crate::home::Environment;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The format of the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
}

/// How a copy came to its place, and what updates it.
#[derive(Debug, PartialEq, Eq)]
struct Installation {
    by: String,
    update: String,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let output = Output { format: arguments.output, headers: true, quiet: false };
    let program = std::env::current_exe().context("find this program's own file")?;
    let program = program.canonicalize().unwrap_or(program);
    let installed = installed(&program, environment, Path::new("/"));
    if output.is_for_programs() {
        let whole = json!({
            "version": env!("CARGO_PKG_VERSION"), "file": program, "installed_by": installed.by, "update": installed.update,
        });
        return Ok(output.answer(&Raw::from_value(&whole))?);
    }
    let text = format!(
        "toolcrib {} at {}\ninstalled by: {}\nupdate with:  {}\nnothing was changed",
        env!("CARGO_PKG_VERSION"),
        program.display(),
        installed.by,
        installed.update
    );
    Ok(output.text(&text)?)
}

/// `root` is the root of the file system.
fn installed(program: &Path, environment: &Environment, root: &Path) -> Installation {
    let said = |by: &str, update: &str| Installation { by: by.to_owned(), update: update.to_owned() };
    let path = program.to_string_lossy();
    let has = |part: &str| program.components().any(|component| component.as_os_str() == part);
    if let Some(installed) = by_cargo(program, environment) {
        return installed;
    }
    if has("Cellar") || has("homebrew") || has(".linuxbrew") {
        return said("Homebrew", "brew upgrade toolcrib");
    }
    if path.starts_with("/nix/store/") {
        return said("Nix", "nix profile upgrade toolcrib, or update your system configuration");
    }
    if path.starts_with("/snap/") {
        return said("snap", "sudo snap refresh toolcrib");
    }
    if let Some(package) = by_dpkg(program, root) {
        return Installation {
            by: format!("the Debian package `{package}`"),
            update: format!("sudo apt-get update && sudo apt-get install --only-upgrade {package}"),
        };
    }
    if has("target") && (has("release") || has("debug")) {
        let checkout: PathBuf = program.components().take_while(|part| part.as_os_str() != "target").collect();
        return Installation {
            by: format!("a build in `{}`", checkout.display()),
            update: format!("cd {} && git pull && cargo build --release", checkout.display()),
        };
    }
    let in_container = root.join(".dockerenv").exists() || root.join("run/.containerenv").exists();
    // What someone put elsewhere later is no part of the image.
    let of_image = ["/usr/", "/opt/", "/app/", "/bin/", "/toolcrib"].iter().any(|place| path.starts_with(place));
    if in_container && of_image {
        return said("the image of this container", "pull the newer image and restart the container");
    }
    if path.starts_with("/usr/bin/") || path.starts_with("/usr/sbin/") {
        return said("the system's package manager", "your package manager, such as `sudo dnf upgrade toolcrib`");
    }
    said("hand", &format!("replace `{path}` with the newer program, then run `toolcrib version`"))
}

/// What cargo wrote down about what it installed.
fn by_cargo(program: &Path, environment: &Environment) -> Option<Installation> {
    let folder = program.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"))?;
    let home = folder.parent()?;
    let named = environment.get("CARGO_HOME").map(PathBuf::from);
    let is_cargo = home.file_name().is_some_and(|name| name == ".cargo") || named.is_some_and(|named| named == home);
    let records = std::fs::read_to_string(home.join(".crates2.json")).ok();
    let records: Value = records.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    // `toolcrib 0.1.0 (git+https://…#commit)`
    let sources = records["installs"].as_object().into_iter().flatten();
    let source = sources
        .filter_map(|(key, _)| key.strip_prefix("toolcrib ").and_then(|rest| rest.split_once(" (")))
        .map(|(_, source)| source.trim_end_matches(')').to_owned())
        .next();
    let update = match source.as_deref() {
        Some(source) if source.starts_with("registry+") => "cargo install toolcrib --locked".to_owned(),
        Some(source) if source.starts_with("git+") => {
            let url = source.trim_start_matches("git+").split(['#', '?']).next().unwrap_or_default();
            format!("cargo install --git {url} toolcrib --locked")
        }
        Some(source) if source.starts_with("path+file://") => {
            let path = source.trim_start_matches("path+file://").split('#').next().unwrap_or_default();
            format!("cd {path} && git pull && cargo install --path . --locked")
        }
        _ if is_cargo => "cargo install --path crates/toolcrib --locked, in an updated checkout".to_owned(),
        _ => return None,
    };
    Some(Installation { by: "cargo".to_owned(), update })
}

/// The Debian package that owns a file, by its lists.
fn by_dpkg(program: &Path, root: &Path) -> Option<String> {
    let wanted = program.to_str()?;
    let lists = std::fs::read_dir(root.join("var/lib/dpkg/info")).ok()?;
    lists.flatten().map(|file| file.path()).find_map(|path| {
        let package = path.file_name()?.to_str()?.strip_suffix(".list")?.split(':').next()?.to_owned();
        // Only lists of our own name are read: there are thousands.
        let text = package.contains("toolcrib").then(|| std::fs::read_to_string(&path).ok()).flatten()?;
        text.lines().any(|line| line == wanted).then_some(package)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &Path, root: &Path, by: &str, update: &str) {
        let found = installed(program, &Environment::default(), root);
        assert!(found.by.contains(by) && found.update.contains(update), "{found:?} for {}", program.display());
    }

    #[test]
    fn the_way_of_a_copy_is_known_by_its_place() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (program, by, update) in [
            ("/opt/homebrew/bin/toolcrib", "Homebrew", "brew upgrade"),
            ("/nix/store/x-toolcrib/bin/toolcrib", "Nix", "nix"),
            ("/snap/toolcrib/1/toolcrib", "snap", "snap refresh"),
            ("/src/toolcrib/target/release/toolcrib", "a build in `/src/toolcrib`", "cd /src/toolcrib && git pull"),
            ("/usr/bin/toolcrib", "package manager", "upgrade"),
            ("/data/bin/toolcrib", "hand", "`/data/bin/toolcrib`"),
        ] {
            check(Path::new(program), root, by, update);
        }
        let lists = root.join("var/lib/dpkg/info");
        std::fs::create_dir_all(&lists).unwrap();
        std::fs::write(lists.join("toolcrib-cli:amd64.list"), "/.\n/usr/bin/toolcrib\n").unwrap();
        check(Path::new("/usr/bin/toolcrib"), root, "`toolcrib-cli`", "--only-upgrade toolcrib-cli");
        std::fs::write(root.join(".dockerenv"), "").unwrap();
        check(Path::new("/app/toolcrib"), root, "container", "pull");
    }

    #[test]
    fn cargo_says_where_it_took_it_from() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join(".cargo/bin/toolcrib");
        std::fs::create_dir_all(bin.parent().unwrap()).unwrap();
        let root = home.path();
        check(&bin, root, "cargo", "in an updated checkout");
        for (source, update) in [
            ("registry+https://x", "cargo install toolcrib --locked"),
            ("git+https://x/y.git?branch=main#abc", "cargo install --git https://x/y.git toolcrib"),
            ("path+file:///src/crates/toolcrib", "cd /src/crates/toolcrib && git pull"),
        ] {
            let records =
                json!({ "installs": { format!("toolcrib 0.1.0 ({source})"): {}, "other 1.0.0 (registry+z)": {} } });
            std::fs::write(home.path().join(".cargo/.crates2.json"), records.to_string()).unwrap();
            check(&bin, root, "cargo", update);
        }
    }
}
