//! `docs/SUMMARY.md`, the order of the documents as pages: every document is in it once, and nothing else is.

use super::promises::resolve_below;
use super::texts::link_targets;
use super::{Finding, Report};
use crate::workspace::TextFile;

/// The order of the pages, as people read it in the repository.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// Documents of the root that are pages. Others are for those who read the sources.
const OF_ROOT: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// Where the guides say which documents they run.
const RUN_BY: &str = "crates/toolcrib/tests/it/guides.rs";

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut report = Report::new(SUMMARY);
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let Some(summary) = text(SUMMARY) else {
        report.add("summary", 1, "there is no such file", "write it: a link to every document");
        return report.findings;
    };
    let listed: Vec<String> = link_targets(summary).iter().map(|target| resolve_below("docs", target)).collect();
    for (index, path) in listed.iter().enumerate() {
        if listed[..index].contains(path) {
            report.add("summary", 1, format!("`{path}` stands in it twice"), "keep one of them");
        }
    }
    let is_page = |path: &str| path.starts_with("docs/") && path.ends_with(".md") && path != SUMMARY;
    for file in files.iter().filter(|file| is_page(&file.path) || OF_ROOT.contains(&file.path.as_str())) {
        if !listed.contains(&file.path) {
            report.add("summary", 1, format!("`{}` is not in it", file.path), "add a line where a reader looks for it");
        }
    }
    let mut findings = report.findings;
    findings.extend(files.iter().filter(|file| is_page(&file.path)).flat_map(|file| commands(file, text(RUN_BY))));
    findings
}

/// A document with commands and their output is one that a test runs.
fn commands(file: &TextFile, run_by: Option<&str>) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    let is_run = run_by.is_some_and(|text| text.contains(&format!("\"{}\"", file.path)));
    let blocks = file.text.lines().zip(1..).filter(|(line, _)| line.trim_end() == "```console");
    for (_, line) in blocks.filter(|_| !is_run) {
        let fix = "name the document in `crates/toolcrib/tests/it/guides.rs`, or show it as `text`";
        report.add("summary", line, "commands with their output that no test runs", fix);
    }
    report.findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(files: &[TextFile]) -> Vec<String> {
        check(files).iter().map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.what)).collect()
    }

    #[test]
    fn every_document_is_listed_once() {
        let pages =
            || [file("README.md", ""), file("docs/a.md", ""), file("docs/b/c.md", ""), file("acceptance/x.md", "")];
        let with = |summary: &str| {
            let files: Vec<TextFile> = pages().into_iter().chain([file(SUMMARY, summary)]).collect();
            found(&files)
        };
        assert_eq!(with("[R](../README.md)\n- [A](a.md)\n- [C](b/c.md)\n"), [""; 0]);
        assert_eq!(with("[R](../README.md)\n- [A](a.md)\n"), ["docs/SUMMARY.md:1 `docs/b/c.md` is not in it"]);
        let twice = with("[R](../README.md)\n- [A](a.md)\n- [A](a.md)\n- [C](b/c.md)\n");
        assert_eq!(twice, ["docs/SUMMARY.md:1 `docs/a.md` stands in it twice"]);
        assert_eq!(found(&pages()), ["docs/SUMMARY.md:1 there is no such file"]);
    }

    #[test]
    fn commands_are_run_by_a_test() {
        let summary = file(SUMMARY, "- [A](a.md)\n");
        let page = || file("docs/a.md", "text\n```console\n$ toolcrib version\n```\n");
        let finding = ["docs/a.md:2 commands with their output that no test runs"];
        assert_eq!(found(&[page(), file(SUMMARY, &summary.text)]), finding);
        let tests = file(RUN_BY, "[\n    \"docs/a.md\",\n]");
        assert_eq!(found(&[page(), summary, tests]), [""; 0]);
    }
}
