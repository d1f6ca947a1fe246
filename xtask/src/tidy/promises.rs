//! The rules for sentences that can become false: a document that says that something is missing names the test that
//! would notice its arrival, and every promise of `SECURITY.md` names the test that keeps it.
//!
//! A test is named by a link whose text is the name of the function, in backticks, and whose target is the file:
//! `` [`refuses_foreign_hosts`](crates/web/src/guard.rs) ``. Where no reader needs to see it, the same link stands in a
//! comment: `<!-- missing: [`no_login_command`](crates/toolcrib/tests/it/missing.rs) -->`.

use std::path::Path;

use super::scan::{is_word, words};
use super::{Finding, Report};
use crate::workspace::TextFile;

/// What a sentence says when it reports something that is not there.
const MISSING: [&str; 8] =
    ["yet", "later work", "for now", "is planned", "no effect", "no operation that", "no command that", "no way to"];

/// Where these words are history or a decision of their day.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/adr/"];

/// The document whose promises are checked, and the sections that promise.
const CONTRACT: &str = "SECURITY.md";
const PROMISED: &str = "## Promised";

/// A paragraph, an item of a list or a row of a table, with the line where it begins.
#[derive(Debug, PartialEq, Eq)]
struct Block<'a> {
    line: usize,
    text: &'a str,
}

/// A test that a document names.
#[derive(Debug, PartialEq, Eq)]
struct NamedTest<'a> {
    function: &'a str,
    path: &'a str,
}

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let mut findings = Vec::new();
    for file in documents.filter(|file| !HISTORY.iter().any(|path| file.path.starts_with(path))) {
        findings.extend(missing_things(file, files));
        if file.path == CONTRACT {
            findings.extend(promises(file, files));
        }
    }
    findings
}

fn missing_things(file: &TextFile, files: &[TextFile]) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    for block in blocks(&file.text) {
        let text = block.text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let Some(phrase) = MISSING.iter().find(|phrase| !words(&text, phrase).is_empty()) else { continue };
        let marker = block.text.split_once("<!-- missing:").map(|(_, marker)| marker);
        let tests = marker.map(named_tests).unwrap_or_default();
        if tests.is_empty() {
            let what = format!("`{phrase}` without the test that notices when it is there");
            let fix = "say what is there, or add `<!-- missing: [`test`](file.rs) -->` to this paragraph";
            report.add("missing", block.line, what, fix);
        }
        unknown_tests(&mut report, &block, &tests, files);
    }
    report.findings
}

fn promises(file: &TextFile, files: &[TextFile]) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    let mut promising = false;
    for block in blocks(&file.text) {
        if block.text.starts_with("## ") {
            promising = block.text.trim() == PROMISED;
        }
        if !promising || !block.text.starts_with("- ") {
            continue;
        }
        let tests = named_tests(block.text);
        if tests.is_empty() && !block.text.starts_with("- Not promised:") {
            let fix = "end it with the test that keeps it: [`test`](path/of/file.rs)";
            report.add("promise", block.line, "a promise that names no test", fix);
        }
        unknown_tests(&mut report, &block, &tests, files);
    }
    report.findings
}

fn unknown_tests(report: &mut Report<'_>, block: &Block<'_>, tests: &[NamedTest<'_>], files: &[TextFile]) {
    let folder = Path::new(report.path()).parent().unwrap_or(Path::new(""));
    for test in tests {
        let path = resolve(folder, test.path);
        let text = files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
        if !text.is_some_and(|text| is_test(text, test.function)) {
            let what = format!("no test `{}` in `{path}`", test.function);
            report.add("promise", block.line, what, "name the test that is there, or write it");
        }
    }
}

/// `target`, a link of a document in `folder`, as a path from the root.
fn resolve(folder: &Path, target: &str) -> String {
    resolve_below(folder.to_str().unwrap_or_default(), target)
}

/// The same for a folder that is a path from the root.
pub fn resolve_below(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether `text` has a test function of this name: Rust with a test attribute before it, or Python.
fn is_test(text: &str, function: &str) -> bool {
    words(text, &format!("fn {function}")).into_iter().any(|offset| {
        let start = text[..offset].rfind('\n').map_or(0, |end| end + 1);
        let mut above = text[..start].lines().rev().map(str::trim_start);
        let attached = above.by_ref().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        attached.into_iter().any(|line| line.starts_with("#[") && line.contains("test"))
    }) || text.contains(&format!("def {function}("))
}

/// The links to tests of one block: `` [`function`](path.rs) ``.
fn named_tests(text: &str) -> Vec<NamedTest<'_>> {
    text.match_indices("[`")
        .filter_map(|(offset, _)| {
            let (function, rest) = text[offset + 2..].split_once("`](")?;
            let (path, _) = rest.split_once(')')?;
            let is_test = function.chars().all(is_word) && [".rs", ".py"].iter().any(|end| path.ends_with(end));
            is_test.then_some(NamedTest { function, path })
        })
        .collect()
}

/// The blocks of a Markdown text outside of code: headings, paragraphs, items of lists, rows of tables.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut start, mut first, mut offset) = (0, 1, 0);
    let mut in_code = false;
    let mut close = |start: usize, end: usize, line: usize| {
        let text = text[start..end].trim();
        if !text.is_empty() {
            blocks.push(Block { line, text });
        }
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let begins = line.trim_start();
        let fence = begins.starts_with("```");
        let item = begins.starts_with("- ") || begins.starts_with("* ") || begins.starts_with('|');
        if fence || in_code || begins.is_empty() || begins.starts_with('#') || item {
            close(start, offset, first);
            (start, first) = (offset, index + 1);
        }
        offset += line.len();
        if fence || in_code {
            in_code ^= fence;
            (start, first) = (offset, index + 2);
        } else if begins.starts_with('#') {
            close(start, offset, first);
            (start, first) = (offset, index + 2);
        }
    }
    close(start, text.len(), first);
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(document: &str, text: &str) -> Vec<String> {
        let code =
            file("a/tests.rs", "#[test]\nfn there() {}\n\n#[tokio::test]\nasync fn waits() {}\n\nfn plain() {}\n");
        let python = file("b/test_x.py", "def test_it(door):\n");
        let findings = check(&[file(document, text), code, python]);
        findings.iter().map(|finding| format!("{} {} {}", finding.line, finding.check, finding.what)).collect()
    }

    #[test]
    fn what_is_missing_names_the_test_that_notices_its_arrival() {
        let said = |text| found("docs/x.md", text);
        assert_eq!(said("Users are later\nwork.").len(), 1, "a phrase over two lines");
        assert_eq!(
            said("Users are later work."),
            ["1 missing `later work` without the test that notices when it is there"]
        );
        assert_eq!(
            said("Fine.\n\n- one\n- it is Not yet here\n"),
            ["4 missing `yet` without the test that notices when it is there"]
        );
        assert_eq!(said("```text\nnot yet\n```\n\nnotyet"), Vec::<String>::new());
        assert_eq!(
            said("Users are not yet here. <!-- missing: [`there`](../a/tests.rs) -->"),
            Vec::<String>::new(),
            "a marker with a test"
        );
        assert_eq!(
            said("Not yet. <!-- missing: [`gone`](../a/tests.rs) -->"),
            ["1 promise no test `gone` in `a/tests.rs`"]
        );
        assert_eq!(
            said("Not yet. <!-- missing: [`plain`](../a/tests.rs) -->"),
            ["1 promise no test `plain` in `a/tests.rs`"]
        );
        assert_eq!(found("CHANGELOG.md", "Users are later work."), Vec::<String>::new());
    }

    #[test]
    fn every_promise_names_a_test_that_exists() {
        let contract = "# Security\n\n- Free.\n\n## Promised\n\n### The door\n\n\
                        - Kept: [`there`](a/tests.rs),\n  [`waits`](a/tests.rs), [`test_it`](b/test_x.py).\n\
                        - Empty.\n- Wrong [`gone`](a/tests.rs).\n- Not promised: the moon.\n\n## Out of scope\n\n- Free.\n";
        assert_eq!(
            found("SECURITY.md", contract),
            ["11 promise a promise that names no test", "12 promise no test `gone` in `a/tests.rs`"]
        );
        assert_eq!(found("docs/y.md", contract), Vec::<String>::new());
    }

    #[test]
    fn a_document_is_cut_into_blocks() {
        let cut: Vec<(usize, String)> =
            blocks("# A\ntext\nmore\n\n- one\n  two\n- three\n```\ncode\n```\n| a |\n| b |\nend")
                .into_iter()
                .map(|block| (block.line, block.text.to_owned()))
                .collect();
        let expected =
            [(1, "# A"), (2, "text\nmore"), (5, "- one\n  two"), (7, "- three"), (11, "| a |"), (12, "| b |\nend")];
        assert_eq!(cut, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
