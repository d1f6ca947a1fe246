//! `cargo xtask dist`: everything that a release carries, made from one build into `target/dist`, and tried out. One
//! module a product; [`PRODUCTS`] lists them in the order in which they are made, for a later one may use an earlier one.
//! To add one: a module with `make` and `test`, and a row of the table.

mod archive;
mod build;
mod deb;
mod elf;
mod files;
mod image;
mod launch;
mod manifests;
mod notes;
mod notices;
mod npm;
mod package;
mod program;
mod provenance;
mod registry;
mod root;
mod rpm;
mod sbom;
mod session;
mod sign;
mod sources;
mod targets;
mod texts;
pub mod tools;
mod trial;
mod wheel;
mod workflow;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::child;
use crate::workspace::Workspace;
use build::{Place, Program};
use trial::Trials;

/// The target that is built without `--target`; the others are built by the same command in the release workflow.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// One kind of thing that a release carries.
struct Product {
    name: &'static str,
    about: &'static str,
    /// Makes its files and returns them.
    make: fn(&Dist<'_>) -> Result<Vec<PathBuf>>,
    /// Tries them as a user would.
    test: fn(&Dist<'_>, &mut Trials) -> Result<()>,
}

const PRODUCTS: [Product; 11] = [
    Product {
        name: "program",
        about: "the symbols of the program as .tar.gz; a second build gives the same bytes",
        make: program::make,
        test: program::test,
    },
    Product { name: "sbom", about: "what the program is made of as CycloneDX", make: sbom::make, test: sbom::test },
    Product {
        name: "archive",
        about: "binary, man pages, completions, licence, notices as .tar.gz, for Windows as .zip",
        make: archive::make,
        test: archive::test,
    },
    Product {
        name: "npm",
        about: "packages for `npx toolcrib`: one that starts the program, one a platform with it",
        make: npm::make,
        test: npm::test,
    },
    Product {
        name: "wheel",
        about: "package for `uvx toolcrib`: a wheel with the program",
        make: wheel::make,
        test: wheel::test,
    },
    Product {
        name: "image",
        about: "what `docker build` makes the images of, with and without Node and Python",
        make: image::make,
        test: image::test,
    },
    Product {
        name: "deb",
        about: "the Debian package, with units for a person and for a machine",
        make: deb::make,
        test: deb::test,
    },
    Product { name: "rpm", about: "the same for Fedora, openSUSE and others", make: rpm::make, test: rpm::test },
    Product {
        name: "manifests",
        about: "Homebrew, Scoop, winget and Nix, for the archives that are there",
        make: manifests::make,
        test: manifests::test,
    },
    // After all that it speaks of.
    Product {
        name: "provenance",
        about: "which files were made of which commit, as an in-toto statement",
        make: provenance::make,
        test: provenance::test,
    },
    Product {
        name: "sign",
        about: "SHA256SUMS and the index of `self-update`, signed; comes last",
        make: sign::make,
        test: sign::test,
    },
];

/// What all products are made of.
#[derive(Debug)]
pub struct Dist<'a> {
    pub workspace: &'a Workspace,
    /// Where the products go.
    pub folder: PathBuf,
    /// For what is unpacked, staged and tried out. Each product has a folder of its own in it.
    pub work: PathBuf,
    pub version: String,
    pub target: &'static str,
    /// The program that all products carry.
    pub binary: PathBuf,
    /// What was built; nothing where the program was given with `--binary`.
    pub symbols: Option<Program>,
    /// Seconds since 1970 that stand for the time of every file: that of the commit.
    pub epoch: u64,
    /// The secret key that signs, if one was named.
    pub key: Option<PathBuf>,
}

/// What the command was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    only: Vec<String>,
    binary: Option<PathBuf>,
    target: Option<&'static str>,
    key: Option<PathBuf>,
    test: bool,
    list: bool,
}

// === impl Dist ===

impl Dist<'_> {
    /// Whether the program is that of a release, and not one that was given.
    pub fn is_built_here(&self) -> bool {
        self.symbols.is_some()
    }

    /// An empty folder for one product.
    pub fn stage(&self, name: &str) -> Result<PathBuf> {
        let folder = self.work.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("failed to remove `{}`", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
        Ok(folder)
    }
}

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    if let [flag, version] = arguments
        && flag == "--notes"
    {
        return notes::command(workspace, version);
    }
    let request = read(arguments)?;
    if request.list {
        for product in &PRODUCTS {
            println!("{:<10} {}", product.name, product.about);
        }
        return Ok(true);
    }
    let is_wanted =
        |product: &&Product| request.only.is_empty() || request.only.iter().any(|name| name == product.name);
    let wanted: Vec<&Product> = PRODUCTS.iter().filter(is_wanted).collect();
    let target = workspace.target()?;
    let (folder, work) = (target.join("dist"), target.join("dist-work"));
    fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    let epoch = epoch(workspace)?;
    if sources::differ(workspace)? {
        println!("note: the sources differ from the commit that the program names; commit before you make a release");
    }
    let triple = request.target.unwrap_or(TARGET);
    let (binary, symbols) = match request.binary {
        Some(binary) => {
            let found = fs::canonicalize(&binary);
            (found.with_context(|| format!("there is no program `{}`", binary.display()))?, None)
        }
        None => {
            let start = Instant::now();
            let built = match triple {
                TARGET => {
                    let built = build::program(workspace, &Place::ordinary(workspace)?, epoch, &work.join("program"))?;
                    (built.binary.clone(), Some(built))
                }
                other => (build::elsewhere(workspace, other)?, None),
            };
            println!("the program was built in {}", seconds(start));
            built
        }
    };
    let dist = Dist {
        workspace,
        folder,
        work,
        version: version(workspace)?,
        target: triple,
        binary,
        symbols,
        epoch,
        key: request.key,
    };
    let mut made = vec![dist.binary.clone()];
    for product in &wanted {
        println!("==> {}: {}", product.name, product.about);
        let start = Instant::now();
        let files = (product.make)(&dist).with_context(|| format!("failed to make `{}`", product.name))?;
        made.extend(files);
        println!("    made in {}", seconds(start));
    }
    print_files(&made)?;
    if !request.test {
        return Ok(true);
    }
    Ok(tried(&dist, &wanted).print())
}

/// Tries the products, while the program is built once more: linking it takes minutes of one core.
fn tried(dist: &Dist<'_>, wanted: &[&Product]) -> Trials {
    let mut trials = Trials::default();
    thread::scope(|scope| {
        let is_compared = wanted.iter().any(|product| product.name == "program");
        let again = is_compared.then(|| scope.spawn(|| program::again(dist)));
        for product in wanted {
            println!("==> trying {}", product.name);
            let start = Instant::now();
            trials.product(product.name);
            // A product that cannot be tried at all does not keep the others from it.
            if let Err(error) = (product.test)(dist, &mut trials) {
                trials.failed("tried", &format!("{error:#}"));
            }
            println!("    tried in {}", seconds(start));
        }
        if let Some(again) = again {
            println!("==> waiting for the second build of the program");
            program::compare(again.join().unwrap_or_else(|_| Some(Err(anyhow!("it panicked")))), &mut trials);
        }
    });
    trials
}

fn read(arguments: &[String]) -> Result<Request> {
    let mut request = Request::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().with_context(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--only" => request.only.push(value()?),
            "--binary" => request.binary = Some(PathBuf::from(value()?)),
            "--target" => request.target = Some(targets::find(&value()?)?.triple),
            "--key" => request.key = Some(PathBuf::from(value()?)),
            "--test" => request.test = true,
            "--list" => request.list = true,
            _ => bail!("`{argument}` is no option of `dist`; `cargo xtask help` lists them"),
        }
    }
    let unknown = request.only.iter().find(|name| PRODUCTS.iter().all(|product| product.name != **name));
    if let Some(name) = unknown {
        bail!("there is no product `{name}`; `cargo xtask dist --list` lists them");
    }
    Ok(request)
}

/// The version of the workspace.
fn version(workspace: &Workspace) -> Result<String> {
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse().context("`Cargo.toml` is no TOML")?;
    let version = manifest["workspace"]["package"]["version"].as_str().context("the workspace has no version")?;
    Ok(version.to_owned())
}

/// `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn epoch(workspace: &Workspace) -> Result<u64> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return text.parse().with_context(|| format!("SOURCE_DATE_EPOCH `{text}` is no number of seconds"));
    }
    let root = workspace.root.to_string_lossy();
    let time = child::answer("git", &["-C", &root, "log", "-1", "--format=%ct"]);
    let time = time.context("there is no commit to take the time of; set SOURCE_DATE_EPOCH")?;
    time.parse().with_context(|| format!("git said `{time}` as the time of the last commit"))
}

/// The names of the files of a folder of products, sorted. Cargo has a folder of the same name for the profile `dist`: what
/// it puts there, each program with a list of its sources beside it, is no product.
pub fn product_names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list `{}`", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_of_cargo = name.starts_with('.') || name.ends_with(".d") || folder.join(format!("{name}.d")).exists();
        if entry.file_type()?.is_file() && !is_of_cargo {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Sizes and hashes; the latter are also in `SHA256SUMS`.
fn print_files(files: &[PathBuf]) -> Result<()> {
    for file in files {
        let size = fs::metadata(file).with_context(|| format!("`{}` was not made", file.display()))?.len();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("{:>10}  {}  {name}", size_text(size), sha256(file)?);
    }
    Ok(())
}

fn seconds(start: Instant) -> String {
    format!("{:.1} s", start.elapsed().as_secs_f64())
}

/// Bytes as people read them.
fn size_text(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{} KB", bytes.div_ceil(1 << 10))
    } else {
        format!("{:.1} MB", bytes as f64 / (1 << 20) as f64)
    }
}

/// The hash of a file in hex.
pub fn sha256(file: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(file).output().context("failed to start `sha256sum`")?;
    ensure!(output.status.success(), "`sha256sum` failed for `{}`", file.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.trim_start_matches('\\').split(' ').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, expect: std::result::Result<Request, &str>) {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        match (read(&arguments), expect) {
            (Ok(request), Ok(expect)) => assert_eq!(request, expect),
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
            (request, expect) => panic!("{arguments:?}: {request:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn what_cargo_puts_into_the_folder_is_no_product() {
        let folder = std::env::temp_dir().join(format!("toolcrib-products-{}", std::process::id()));
        fs::create_dir_all(folder.join("deps")).unwrap();
        for name in ["toolcrib_0.1.0_amd64.deb", ".cargo-lock", "toolcrib", "toolcrib.d", "a.tar.gz"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(product_names(&folder).unwrap(), ["a.tar.gz", "toolcrib_0.1.0_amd64.deb"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn options_are_read_and_what_is_unknown_is_named() {
        check("", Ok(Request::default()));
        check(
            "--only archive --binary x --key y --test",
            Ok(Request {
                only: vec!["archive".into()],
                binary: Some("x".into()),
                key: Some("y".into()),
                test: true,
                ..Request::default()
            }),
        );
        check(
            "--target aarch64-apple-darwin",
            Ok(Request { target: Some("aarch64-apple-darwin"), ..Request::default() }),
        );
        check("--target pony", Err("`pony` is no target"));
        check("--only pony", Err("no product `pony`"));
        check("--only", Err("needs a value"));
        check("--fast", Err("`--fast` is no option"));
    }
}
