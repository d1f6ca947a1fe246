//! How a copy of the program was installed, known by its place and by what package managers wrote down, and the command
//! that updates it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::home::Environment;

/// Where the system's package manager keeps what it installed, on systems with RPM.
const RPM: [&str; 2] = ["var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite"];

/// How a copy came to its place, and what updates it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installation {
    pub(super) by: String,
    /// The command, or what to do.
    pub(super) update: String,
    /// Whether it was unpacked by hand, so that no one else replaces it.
    pub(super) is_archive: bool,
}

/// `root` is the root of the file system.
pub(super) fn installed(program: &Path, environment: &Environment, root: &Path) -> Installation {
    let said = Installation::by;
    let path = program.to_string_lossy();
    let has = |part: &str| has(program, part);
    let known = by_cargo(program, environment).or_else(|| by_npm(program)).or_else(|| by_python(program));
    if let Some(installed) = known {
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
        let update = format!("sudo apt-get update && sudo apt-get install --only-upgrade {package}");
        return said(&format!("the Debian package `{package}`"), &update);
    }
    if has("target") && (has("release") || has("debug")) {
        let checkout: PathBuf = program.components().take_while(|part| part.as_os_str() != "target").collect();
        let update = format!("cd {} && git pull && cargo build --release", checkout.display());
        return said(&format!("a build in `{}`", checkout.display()), &update);
    }
    let in_container = root.join(".dockerenv").exists() || root.join("run/.containerenv").exists();
    // What someone put elsewhere later is no part of the image.
    let of_image = ["/usr/", "/opt/", "/app/", "/bin/", "/toolcrib"].iter().any(|place| path.starts_with(place));
    if in_container && of_image {
        return said("the image of this container", "pull the newer image and restart the container");
    }
    if path.starts_with("/usr/bin/") || path.starts_with("/usr/sbin/") {
        return match RPM.iter().any(|database| root.join(database).exists()) {
            true => said("an RPM package", "sudo dnf upgrade toolcrib, or `sudo zypper update toolcrib`"),
            false => said("the system's package manager", "your package manager, such as `sudo dnf upgrade toolcrib`"),
        };
    }
    let update = format!("toolcrib self-update, which replaces `{path}`");
    Installation { is_archive: true, ..said("hand, from an archive", &update) }
}

fn has(program: &Path, part: &str) -> bool {
    program.components().any(|component| component.as_os_str() == part)
}

/// The folder above the first part of this name.
fn above(program: &Path, part: &str) -> PathBuf {
    program.components().take_while(|component| component.as_os_str() != part).collect()
}

/// npm puts programs into `node_modules`: for a project, for a person, or for one start.
fn by_npm(program: &Path) -> Option<Installation> {
    if !has(program, "node_modules") {
        return None;
    }
    let folder = above(program, "node_modules");
    let update = match folder.file_name().and_then(|name| name.to_str()) {
        Some("lib") => "npm install --global toolcrib@latest".to_owned(),
        _ if has(&folder, "_npx") => "npx toolcrib@latest".to_owned(),
        _ => format!("cd {} && npm install toolcrib@latest", folder.display()),
    };
    Some(Installation::by("npm", &update))
}

/// pip and its like put the program into `bin` and a record of it into `lib/python…/site-packages`.
fn by_python(program: &Path) -> Option<Installation> {
    let folder = program.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"))?;
    let prefix = folder.parent()?;
    let inside = ["site-packages", "dist-packages"].iter().any(|name| has(program, name));
    if !inside && !has_python_record(prefix) {
        return None;
    }
    let update = if has(prefix, "uv") && has(prefix, "tools") {
        "uv tool upgrade toolcrib".to_owned()
    } else if has(prefix, "uv") {
        "uvx toolcrib@latest".to_owned()
    } else if has(prefix, "pipx") {
        "pipx upgrade toolcrib".to_owned()
    } else if prefix.join("pyvenv.cfg").exists() {
        format!("{} -m pip install --upgrade toolcrib", folder.join("python").display())
    } else {
        "python3 -m pip install --upgrade toolcrib".to_owned()
    };
    Some(Installation::by("a Python package", &update))
}

fn has_python_record(prefix: &Path) -> bool {
    let named = |folder: PathBuf, is_it: fn(&str) -> bool| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(move |entry| entry.file_name().to_str().is_some_and(is_it)).map(|entry| entry.path())
    };
    let record = |name: &str| name.starts_with("toolcrib-") && name.ends_with(".dist-info");
    named(prefix.join("lib"), |name| name.starts_with("python"))
        .flat_map(|python| [python.join("site-packages"), python.join("dist-packages")])
        .any(|packages| named(packages, record).next().is_some())
}

/// What cargo wrote down about what it installed.
fn by_cargo(program: &Path, environment: &Environment) -> Option<Installation> {
    let folder = program.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"))?;
    let home = folder.parent()?;
    let named = environment.get("CARGO_HOME").map(PathBuf::from);
    let is_cargo = home.file_name().is_some_and(|name| name == ".cargo") || named.is_some_and(|named| named == home);
    let records = fs::read_to_string(home.join(".crates2.json")).ok();
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
    Some(Installation::by("cargo", &update))
}

/// The Debian package that owns a file, by its lists.
fn by_dpkg(program: &Path, root: &Path) -> Option<String> {
    let wanted = program.to_str()?;
    let lists = fs::read_dir(root.join("var/lib/dpkg/info")).ok()?;
    lists.flatten().map(|file| file.path()).find_map(|path| {
        let package = path.file_name()?.to_str()?.strip_suffix(".list")?.split(':').next()?.to_owned();
        // Only lists of our own name are read: there are thousands.
        let text = package.contains("toolcrib").then(|| fs::read_to_string(&path).ok()).flatten()?;
        text.lines().any(|line| line == wanted).then_some(package)
    })
}

// === impl Installation ===

impl Installation {
    /// By something that replaces it itself.
    fn by(by: &str, update: &str) -> Self {
        Self { by: by.to_owned(), update: update.to_owned(), is_archive: false }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            ("/usr/local/bin/toolcrib", "hand", "`/usr/local/bin/toolcrib`"),
            ("/n/lib/node_modules/toolcrib/node_modules/t/bin/toolcrib", "npm", "npm install --global toolcrib@latest"),
            ("/h/.npm/_npx/1/node_modules/t/bin/toolcrib", "npm", "npx toolcrib@latest"),
            ("/src/web/node_modules/t/bin/toolcrib", "npm", "cd /src/web && npm install"),
        ] {
            check(Path::new(program), root, by, update);
        }
        std::fs::create_dir_all(root.join("var/lib/rpm")).unwrap();
        std::fs::write(root.join("var/lib/rpm/rpmdb.sqlite"), "").unwrap();
        check(Path::new("/usr/bin/toolcrib"), root, "RPM", "dnf upgrade");
        let lists = root.join("var/lib/dpkg/info");
        std::fs::create_dir_all(&lists).unwrap();
        std::fs::write(lists.join("toolcrib-cli:amd64.list"), "/.\n/usr/bin/toolcrib\n").unwrap();
        check(Path::new("/usr/bin/toolcrib"), root, "`toolcrib-cli`", "--only-upgrade toolcrib-cli");
        std::fs::write(root.join(".dockerenv"), "").unwrap();
        check(Path::new("/app/toolcrib"), root, "container", "pull");
    }

    #[test]
    fn only_what_no_package_manager_put_there_is_ours_to_replace() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let is_archive = |path: &str| installed(Path::new(path), &Environment::default(), root).is_archive;
        assert!(is_archive("/data/ada/.local/bin/toolcrib") && is_archive("/usr/local/bin/toolcrib"));
        assert!(is_archive("/opt/toolcrib/toolcrib"));
        // A package whose list names the path owns it, also after an archive was unpacked over it.
        let lists = root.join("var/lib/dpkg/info");
        std::fs::create_dir_all(&lists).unwrap();
        std::fs::write(lists.join("toolcrib.list"), "/.\n/opt/toolcrib/toolcrib\n").unwrap();
        assert!(!is_archive("/opt/toolcrib/toolcrib"));
        // Without its list the archive is all that is there.
        std::fs::remove_file(lists.join("toolcrib.list")).unwrap();
        assert!(is_archive("/opt/toolcrib/toolcrib"));
        for path in ["/usr/bin/toolcrib", "/nix/store/x/bin/toolcrib", "/x/node_modules/toolcrib/toolcrib"] {
            assert!(!is_archive(path), "{path}");
        }
    }

    #[test]
    fn python_is_known_by_its_record_of_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (prefix, update) in [
            ("share/uv/tools/toolcrib", "uv tool upgrade toolcrib"),
            ("cache/uv/archive-v0/x", "uvx toolcrib@latest"),
            ("pipx/venvs/toolcrib", "pipx upgrade toolcrib"),
            (".local", "python3 -m pip install --upgrade"),
        ] {
            let bin = root.join(prefix).join("bin/toolcrib");
            check(&bin, root, "hand", "self-update");
            let record = root.join(prefix).join("lib/python3.13/site-packages/toolcrib-0.1.0.dist-info");
            std::fs::create_dir_all(record).unwrap();
            check(&bin, root, "Python", update);
        }
        let own = root.join("venv");
        std::fs::create_dir_all(own.join("lib/python3.9/site-packages/toolcrib-1.dist-info")).unwrap();
        std::fs::write(own.join("pyvenv.cfg"), "").unwrap();
        check(&own.join("bin/toolcrib"), root, "Python", "venv/bin/python -m pip install --upgrade toolcrib");
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
