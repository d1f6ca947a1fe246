//! `THIRD-PARTY-NOTICES.txt`: the packages that are linked into the program for one target, the standard library and
//! what our sources embed, each with its licence; each text stands there once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::child;
use crate::workspace::Workspace;

/// How files that hold a licence are called, in any letters.
const BEGINNINGS: [&str; 7] = ["licence", "license", "copying", "copyright", "notice", "unlicense", "authors"];

/// Packages whose sources bring code of others that carries no licence file.
const BROUGHT: [(&str, &str); 1] = [("libsqlite3-sys", "SQLite, which its authors have placed in the public domain")];

/// Where the standard library's notices lie below the sysroot.
const LIBRARY: &str = "share/doc/rust/COPYRIGHT-library.html";

const RULE: &str = "==============================================================================";

/// The MIT licence, for packages that name it and bring no text.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated \
documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the \
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit \
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the \
Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE \
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR \
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR \
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
";

/// A package of a registry that is linked into the program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedPackage {
    pub name: String,
    pub version: String,
    licence: String,
    folder: PathBuf,
    licence_file: Option<PathBuf>,
    authors: Vec<String>,
}

/// The texts, each with those who stand under it, by the text without its line breaks.
#[derive(Debug, Default)]
struct Texts {
    texts: BTreeMap<String, Text>,
}

#[derive(Debug)]
struct Text {
    text: String,
    owners: BTreeSet<String>,
}

pub fn text(workspace: &Workspace, target: &str) -> Result<String> {
    let packages = linked(workspace, target)?;
    let apache = fs::read_to_string(workspace.root.join("LICENSE")).context("failed to read `LICENSE`")?;
    let mut texts = Texts::default();
    let mut out = String::from("Toolcrib contains software of others. This is what, and under which terms.\n\n");
    out.push_str("Rust packages:\n\n");
    for package in &packages {
        out.push_str(&format!("  {} {}: {}\n", package.name, package.version, package.licence));
        for (_, what) in BROUGHT.iter().filter(|(name, _)| *name == package.name) {
            out.push_str(&format!("    with {what}\n"));
        }
        let own = package.texts(&apache)?;
        own.iter().for_each(|text| texts.add(&format!("{} {}", package.name, package.version), text));
    }
    let (release, library) = standard_library()?;
    out.push_str(&format!("\nThe Rust standard library ({release}): MIT OR Apache-2.0, and packages within it\n"));
    library.iter().for_each(|(owner, text)| texts.add(owner, text));
    out.push_str("\nEmbedded files:\n\n");
    let embedded = embedded(workspace)?;
    ensure!(!embedded.is_empty(), "no notice of an embedded file was found below `crates/*/assets`");
    for (path, text) in &embedded {
        out.push_str(&format!("  {path}\n"));
        texts.add(path, text);
    }
    texts.write(&mut out);
    Ok(out)
}

/// The packages of registries that are linked into the program, sorted. What only builds it is not among them.
pub fn linked(workspace: &Workspace, target: &str) -> Result<Vec<LinkedPackage>> {
    let mut tree = workspace.cargo();
    tree.args(["tree", "--locked", "--package", "toolcrib", "--edges", "normal,no-proc-macro", "--target", target]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    let tree = output(&mut tree, "cargo tree")?;
    let wanted = tree.lines().filter_map(name_and_version).collect::<BTreeSet<String>>();
    let mut metadata = workspace.cargo();
    metadata.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&output(&mut metadata, "cargo metadata")?)?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let of_registries = packages.iter().filter(|package| !package["source"].is_null());
    let mut linked = of_registries.map(LinkedPackage::read).collect::<Result<Vec<LinkedPackage>>>()?;
    linked.retain(|package| wanted.contains(&format!("{} {}", package.name, package.version)));
    linked.sort();
    ensure!(!linked.is_empty(), "`cargo tree` names no package of a registry");
    Ok(linked)
}

// === impl LinkedPackage ===

impl LinkedPackage {
    fn read(package: &Value) -> Result<Self> {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let manifest = PathBuf::from(text("manifest_path"));
        let folder = manifest.parent().context("a manifest lies in no folder")?.to_path_buf();
        let authors = package["authors"].as_array().into_iter().flatten();
        Ok(Self {
            name: text("name"),
            version: text("version"),
            licence: text("license").replace('/', " OR "),
            licence_file: package["license_file"].as_str().map(|file| folder.join(file)),
            authors: authors.filter_map(|author| Some(author.as_str()?.to_owned())).collect(),
            folder,
        })
    }

    /// Its own texts; that of its licence where it brings none.
    fn texts(&self, apache: &str) -> Result<Vec<String>> {
        let mut files = BTreeSet::new();
        licence_files(&self.folder, &mut files)?;
        files.extend(self.licence_file.clone());
        let read = |file: &PathBuf| fs::read(file).with_context(|| format!("failed to read `{}`", file.display()));
        let texts = files.iter().map(|file| Ok(String::from_utf8_lossy(&read(file)?).into_owned()));
        let texts = texts.collect::<Result<Vec<String>>>()?;
        if texts.is_empty() { Ok(vec![self.usual_text(apache)?]) } else { Ok(texts) }
    }

    fn usual_text(&self, apache: &str) -> Result<String> {
        let choices: Vec<&str> = self.licence.split(" OR ").map(str::trim).collect();
        if choices.contains(&"Apache-2.0") {
            return Ok(apache.to_owned());
        }
        if choices.contains(&"MIT") {
            let holders =
                if self.authors.is_empty() { format!("the authors of {}", self.name) } else { self.authors.join(", ") };
            return Ok(format!("Copyright (c) {holders}\n\n{MIT}"));
        }
        bail!(
            "`{} {}` brings no licence file, and the text of its licence `{}` is not known; add it to `{}`",
            self.name,
            self.version,
            self.licence,
            file!()
        )
    }
}

// === impl Texts ===

impl Texts {
    fn add(&mut self, owner: &str, text: &str) {
        let key = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        if key.is_empty() {
            return;
        }
        let owners = BTreeSet::new();
        let text = self.texts.entry(key).or_insert_with(|| Text { text: text.to_owned(), owners });
        text.owners.insert(owner.to_owned());
    }

    /// Writes all of them, in the order of those who stand under them.
    fn write(&self, out: &mut String) {
        let mut texts: Vec<&Text> = self.texts.values().collect();
        texts.sort_by(|a, b| (&a.owners, &a.text).cmp(&(&b.owners, &b.text)));
        for text in texts {
            let owners: Vec<&str> = text.owners.iter().map(String::as_str).collect();
            out.push_str(&format!("\n{RULE}\n{}\n{RULE}\n\n", owners.join(", ")));
            for line in text.text.trim_matches(['\n', '\r', '\u{feff}']).lines() {
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
    }
}

/// `serde v1.0.2 (somewhere) (*)` → `serde 1.0.2`.
fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?);
    Some(format!("{name} {}", version.strip_prefix('v')?))
}

/// The files below `folder` whose name says that they hold a licence.
fn licence_files(folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to list `{}`", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            licence_files(&path, files)?;
        } else if kind.is_file() && is_licence(&entry.file_name().to_string_lossy()) {
            files.insert(path);
        }
    }
    Ok(())
}

fn is_licence(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_code = [".rs", ".html", ".yml", ".toml", ".py", ".json"].iter().any(|end| name.ends_with(end));
    !is_code && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The release of Rust, and the notices of its standard library, each with whose it is.
fn standard_library() -> Result<(String, Vec<(String, String)>)> {
    let release = child::answer("rustc", &["--version"]).context("`rustc --version` did not answer")?;
    let root = child::answer("rustc", &["--print", "sysroot"]).context("`rustc --print sysroot` did not answer")?;
    let page = fs::read_to_string(Path::new(&root).join(LIBRARY));
    let page = page.with_context(|| {
        format!("rustc brings no `{LIBRARY}`, which has the notices of the standard library; install it with rustup")
    })?;
    let notices = of_page(&page);
    ensure!(!notices.is_empty(), "`{LIBRARY}` has no notices where they are looked for");
    Ok((release, notices))
}

/// The texts of the standard library's page: each `<pre>`, with the package of the heading above it.
fn of_page(page: &str) -> Vec<(String, String)> {
    let mut notices = Vec::new();
    let mut owner = String::from("the Rust standard library");
    for part in page.split("<h3>") {
        if let Some((heading, _)) = part.split_once("</h3>") {
            let name: String = heading.chars().filter(char::is_ascii).collect();
            owner = format!("{} (in the Rust standard library)", name.trim());
        }
        for text in part.split("<pre").skip(1) {
            let text = text.split_once('>').map_or(text, |(_, text)| text);
            let text = text.split_once("</pre>").map_or(text, |(text, _)| text);
            notices.push((owner.clone(), unescaped(text)));
        }
    }
    notices
}

fn unescaped(text: &str) -> String {
    let pairs = [("&#60;", "<"), ("&lt;", "<"), ("&#62;", ">"), ("&gt;", ">"), ("&#34;", "\""), ("&quot;", "\"")];
    let text = pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&#39;", "'").replace("&#38;", "&").replace("&amp;", "&")
}

/// The notices that lie beside the files which our sources embed.
fn embedded(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let is_notice = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        path.starts_with("crates/")
            && path.contains("/assets/")
            && (name.contains("LICENSE") || name.contains("NOTICE"))
    };
    let files = workspace.files()?.into_iter().filter(|file| is_notice(&file.path));
    Ok(files.map(|file| (file.path, file.text)).collect())
}

fn output(command: &mut std::process::Command, name: &str) -> Result<String> {
    let output = command.output().with_context(|| format!("failed to start `{name}`"))?;
    ensure!(output.status.success(), "`{name}` failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).with_context(|| format!("`{name}` did not print UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(licence: &str) -> LinkedPackage {
        let folder = PathBuf::from("nowhere");
        let (name, version) = (String::from("pony"), String::from("1.0.0"));
        LinkedPackage {
            name,
            version,
            licence: licence.into(),
            folder,
            licence_file: None,
            authors: vec!["Ann".into()],
        }
    }

    #[test]
    fn each_text_stands_there_once_with_all_who_are_under_it() {
        let mut texts = Texts::default();
        texts.add("b 1", "Do as\nyou like.");
        texts.add("a 2", "Do as you\n  like.\n");
        texts.add("c 3", "Do nothing.");
        texts.add("d 4", " \n");
        let mut out = String::new();
        texts.write(&mut out);
        assert_eq!(out.matches("like.").count(), 1, "{out}");
        assert!(out.contains("a 2, b 1\n") && out.contains("c 3\n"), "{out}");
        assert!(!out.contains("d 4"), "{out}");
    }

    #[test]
    fn a_package_without_a_text_gets_that_of_its_licence_or_is_named() {
        assert_eq!(package("MIT OR Apache-2.0").usual_text("the Apache text").unwrap(), "the Apache text");
        assert!(package("MIT").usual_text("").unwrap().starts_with("Copyright (c) Ann\n\nPermission is hereby"));
        let error = package("Pony-1.0").usual_text("").unwrap_err().to_string();
        assert!(error.contains("`pony 1.0.0`") && error.contains("`Pony-1.0`"), "{error}");
    }

    #[test]
    fn lines_of_the_tree_and_names_of_files() {
        assert_eq!(name_and_version("serde v1.0.2 (*)").as_deref(), Some("serde 1.0.2"));
        assert_eq!(name_and_version(""), None);
        for name in ["LICENSE-MIT", "license.md", "COPYING", "NOTICE"] {
            assert!(is_licence(name), "{name}");
        }
        for name in ["README.md", "license.rs", "src"] {
            assert!(!is_licence(name), "{name}");
        }
    }

    #[test]
    fn the_page_of_the_standard_library_is_read() {
        let page = "<pre>first</pre><h3>\u{1f4e6} memchr-2.7</h3><pre id=x>A &#60;a@b&#62;</pre><pre>two</pre>";
        let read = of_page(page);
        let texts: Vec<&str> = read.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["first", "A <a@b>", "two"]);
        assert_eq!(read[2].0, "memchr-2.7 (in the Rust standard library)");
    }
}
