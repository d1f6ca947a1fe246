//! `cargo xtask tidy`: the walls between the crates and the house rules that no compiler checks. A rule for one Rust
//! file goes to `tidy/rules.rs`, one for other texts to `tidy/texts.rs`, one for what documents promise to
//! `tidy/promises.rs`, about the order of documents to `tidy/summary.rs`; `tidy/map.rs` is about the modules of each
//! crate, `tidy/type_names.rs` about its types, `tidy/seams.rs` about code for some platforms only, `tidy/commits.rs`
//! about the history.

mod allowed;
mod commits;
mod map;
mod pages;
mod promises;
mod rules;
mod scan;
mod seams;
mod summary;
mod texts;
mod type_names;
mod walls;

use std::{fmt, fs};

use anyhow::{Context, Result, bail};

use crate::verdict::{Setting, Verdict};
use crate::workspace::{TextFile, Workspace};
use scan::{Function, Source};

pub use promises::resolve_below as resolve;
pub use summary::SUMMARY;
pub use texts::link_targets;

/// One broken rule: where, what and how to fix it.
#[derive(Debug)]
pub struct Finding {
    pub check: &'static str,
    pub path: String,
    pub line: usize,
    /// The function that it is about, where the rule is about functions.
    pub item: Option<String>,
    pub what: String,
    pub fix: &'static str,
}

/// The findings of one file.
#[derive(Debug)]
pub struct Report<'a> {
    path: &'a str,
    pub findings: Vec<Finding>,
}

// === impl Report ===

impl<'a> Report<'a> {
    pub fn new(path: &'a str) -> Self {
        Self { path, findings: Vec::new() }
    }

    pub fn path(&self) -> &'a str {
        self.path
    }

    pub fn add(&mut self, check: &'static str, line: usize, what: impl Into<String>, fix: &'static str) {
        self.findings.push(Finding { check, path: self.path.to_owned(), line, item: None, what: what.into(), fix });
    }

    /// A finding about one function, which an exception can name.
    pub fn add_function(&mut self, check: &'static str, function: &Function, what: String, fix: &'static str) {
        self.add(check, function.first, what, fix);
        if let Some(finding) = self.findings.last_mut() {
            finding.item = Some(function.name.clone());
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}\n    fix: {}", self.path, self.line, self.check, self.what, self.fix)
    }
}

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    match arguments {
        [] => {}
        [flag] if flag == "--map" => return print_map(workspace),
        [flag] if flag == "--shrink" => return shrink(workspace),
        [flag] if flag == "--cfg" => {
            seams::print(&workspace.files()?);
            return Ok(true);
        }
        [other, ..] => bail!("unknown argument `{other}`; `tidy` knows --map, --cfg and --shrink"),
    }
    let findings = findings(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(findings.is_empty())
}

pub fn step(workspace: &Workspace, _: Setting) -> Result<Verdict> {
    command(workspace, &[]).map(Verdict::plain)
}

/// Prints how large each crate is and which of its modules import each other in a circle.
fn print_map(workspace: &Workspace) -> Result<bool> {
    let files = workspace.files()?;
    let (findings, map) = map::check(&files, exceptions(&files))?;
    map.iter().for_each(|row| println!("{row}"));
    Ok(findings.is_empty())
}

/// Takes the exceptions out that are not needed any more.
fn shrink(workspace: &Workspace) -> Result<bool> {
    let findings = findings(workspace)?;
    let path = workspace.root.join(allowed::PATH);
    let list = fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", allowed::PATH))?;
    let shrunk = allowed::shrink(&list, &findings);
    if shrunk != list {
        fs::write(&path, &shrunk).with_context(|| format!("failed to write `{}`", allowed::PATH))?;
    }
    println!("{}: {} lines less", allowed::PATH, list.lines().count() - shrunk.lines().count());
    Ok(true)
}

fn exceptions(files: &[TextFile]) -> &str {
    files.iter().find(|file| file.path == allowed::PATH).map_or("", |file| &file.text)
}

fn findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let files = workspace.files()?;
    let mut findings = walls::check(workspace, &workspace.packages()?);
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let sources: Vec<Source> = rust.map(|file| Source::new(&file.path, &file.text)).collect();
    findings.extend(sources.iter().flat_map(rules::check));
    findings.extend(sources.iter().flat_map(seams::check));
    findings.extend(type_names::check(&sources, exceptions(&files))?);
    findings.extend(texts::check(&workspace.root, &files));
    findings.extend(promises::check(&files));
    findings.extend(pages::check(&files));
    findings.extend(summary::check(&files));
    match commits::check(&workspace.root) {
        Ok(found) => findings.extend(found),
        Err(reason) => println!("tidy: subjects of commits are not checked: {reason}"),
    }
    findings.extend(map::check(&files, exceptions(&files))?.0);
    let mut findings = allowed::apply(exceptions(&files), findings)?;
    findings.sort_by(|a, b| (&a.path, a.line, a.check).cmp(&(&b.path, b.line, b.check)));
    Ok(findings)
}
