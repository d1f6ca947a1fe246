//! The rules for files that are no Rust code: links that lead somewhere, lines that are wrapped, decision records with
//! their own numbers, guides that need one program only, and no path of the machine on which something was written.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Finding, Report, scan};
use crate::picture::{self, recording};
use crate::workspace::TextFile;

/// Folders of the machines that we write on, in two parts so that the rule does not find itself.
const MACHINE_PATHS: [(&str, &str); 3] = [("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/")];

/// Programs of this repository that a reader of a guide does not have.
const UNINSTALLED: [&str; 4] = ["fake-server", "toolcrib-testkit", "toolcrib-testgateway", "toolcrib-bench"];

/// Documents wrap here. Free are tables, blocks of code, and what cannot be broken: a link, a piece of code.
const DOCUMENT_COLUMNS: usize = 120;

pub fn check(root: &Path, files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(machine_paths(file));
        findings.extend(uninstalled_programs(file));
        if file.path.ends_with(".md") {
            findings.extend(long_lines(file));
            let folder = root.join(&file.path);
            let folder = folder.parent().unwrap_or(root);
            findings.extend(links(file, |target| {
                let from = if target.starts_with('/') { root } else { folder };
                from.join(target.trim_start_matches('/')).exists()
            }));
        }
    }
    findings.extend(decisions(files));
    findings.extend(picture_of_the_readme(files));
    findings
}

fn machine_paths(file: &TextFile) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    for (first, second) in MACHINE_PATHS {
        let path = format!("{first}{second}");
        for (offset, _) in file.text.match_indices(&path) {
            let before = file.text[..offset].chars().next_back();
            let after = file.text[offset + path.len()..].chars().next();
            // `a/wo…` and `$X/wo…` are other paths; a placeholder such as `<name>` or `$USER` is no one's.
            let begins = before.is_none_or(|letter| !scan::is_word(letter) && !"./-}~>".contains(letter));
            if begins && (second != "me/" || after.is_some_and(char::is_alphanumeric)) {
                let what = format!("`{path}…` is a path of one machine");
                let fix = "write it relative to the project, or with a variable or a placeholder";
                report.add("machine-path", scan::line(&file.text, offset), what, fix);
            }
        }
    }
    report.findings
}

/// The guides are for people who have `toolcrib` and nothing else of ours.
fn uninstalled_programs(file: &TextFile) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    let is_guide = file.path == "README.md" || file.path.starts_with("docs/guides/");
    for (index, line) in file.text.lines().enumerate().filter(|_| is_guide) {
        if let Some(program) = UNINSTALLED.iter().find(|program| line.contains(**program)) {
            let what = format!("`{program}` is not installed with `toolcrib`");
            report.add("guides", index + 1, what, "use a server of `toolcrib example`");
        }
    }
    report.findings
}

fn links(file: &TextFile, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line) {
            let path = target.split(['#', '?']).next().unwrap_or_default();
            let elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !elsewhere && !exists(&path.replace("%20", " ")) {
                report.add("links", index + 1, format!("`{target}` leads nowhere"), "fix the link or remove it");
            }
        }
    }
    report.findings
}

fn long_lines(file: &TextFile) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        let text = line.trim_start();
        in_code ^= text.starts_with("```");
        let columns = line.chars().count();
        if in_code || text.starts_with('|') || columns <= DOCUMENT_COLUMNS || pieces(text) < 2 {
            continue;
        }
        let what = format!("{columns} columns, {DOCUMENT_COLUMNS} is the limit");
        report.add("wrap", index + 1, what, "break the line");
    }
    report.findings
}

/// Into how many pieces a line of Markdown can be broken: not within code and links, nor after the mark of a list.
fn pieces(text: &str) -> usize {
    let text = text.trim_start_matches(['-', '*', '>', ' ']);
    let (mut in_code, mut in_target, mut count) = (false, false, 1);
    for (at, letter) in text.char_indices() {
        match letter {
            '`' => in_code = !in_code,
            '(' if text[..at].ends_with(']') => in_target = !in_code,
            ')' => in_target = false,
            ' ' if !in_code && !in_target => count += 1,
            _ => {}
        }
    }
    count
}

/// What the links of a document point to, outside of code.
pub fn link_targets(text: &str) -> Vec<String> {
    let mut in_code = false;
    let outside = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    outside.flat_map(targets).collect()
}

/// What the links of one line of Markdown point to: `[text](target)` and `[name]: target`, outside of code.
fn targets(line: &str) -> Vec<String> {
    // Between backticks is code: every other piece of the line.
    let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut targets = Vec::new();
    for (offset, _) in line.match_indices("](") {
        let rest = &line[offset + 2..];
        let target = rest.split(')').next().unwrap_or_default().split_whitespace().next().unwrap_or_default();
        targets.push(target.trim_matches(['<', '>']).to_owned());
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.push(target.split_whitespace().next().unwrap_or_default().to_owned());
    }
    targets
}

/// The picture shows the block that the tests run.
fn picture_of_the_readme(files: &[TextFile]) -> Vec<Finding> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let mut report = Report::new(picture::PATH);
    if text(picture::SOURCE).and_then(picture::draw).as_deref() != text(picture::PATH) {
        let what = format!("not what the console block of `{}` says", picture::SOURCE);
        report.add("picture", 1, what, "run `cargo xtask picture`");
    }
    let mut findings = report.findings;
    let mut report = Report::new(recording::PATH);
    let recorded = text(recording::PATH).unwrap_or_default();
    if let Some(problem) = recording::problem(recorded, text(picture::SOURCE).unwrap_or_default()) {
        report.add("picture", 1, problem, "run `cargo xtask picture --record target/debug/toolcrib`");
    }
    findings.append(&mut report.findings);
    findings
}

fn decisions(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeMap::new();
    for file in files {
        let Some(name) = file.path.strip_prefix("docs/adr/").filter(|name| name.ends_with(".md")) else { continue };
        let mut report = Report::new(&file.path);
        let number = name.split('-').next().unwrap_or_default();
        if name == "README.md" {
            continue;
        } else if number.len() != 4 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            let what = "a decision record without a number";
            report.add("decisions", 1, what, "call it `NNNN-what-was-decided.md` with the next free number");
        } else if let Some(other) = seen.insert(number, name) {
            let what = format!("`{other}` has the same number");
            report.add("decisions", 1, what, "give the younger one the next free number");
        }
        findings.extend(report.findings);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn links_must_lead_somewhere() {
        let text = "[a](there.md#part) [b](gone.md)\n[c](https://example.com) [d](#here) `[e](gone.md)`\n\
                    ```\n[f](gone.md)\n```\n[g]: gone.md\n![h](gone.png \"title\")";
        let found = found(&links(&file("x.md", text), |target| target == "there.md"));
        assert_eq!(found, ["x.md:1", "x.md:6", "x.md:7"]);
    }

    #[test]
    fn documents_are_wrapped() {
        let long = "word ".repeat(25);
        let check = |text: &str, lines: &[&str]| assert_eq!(found(&long_lines(&file("x.md", text))), lines, "{text}");
        check(&format!("short\n{long}"), &["x.md:2"]);
        check(&format!("- {long}"), &["x.md:1"]);
        check(&format!("| {long} |\n```text\n{long}\n```\n{}", "é".repeat(120)), &[]);
        check(&format!("- `{long}`\n[one]({}),\n  <!-- {} -->", "a/".repeat(70), "x".repeat(120)), &["x.md:3"]);
        check(&format!("{} [two words](x)", "y".repeat(110)), &["x.md:1"]);
    }

    #[test]
    fn guides_need_no_program_of_the_tests() {
        let text = "one\n$ toolcrib server add try -- fake-server\n";
        assert_eq!(found(&uninstalled_programs(&file("docs/guides/x.md", text))), ["docs/guides/x.md:2"]);
        assert_eq!(found(&uninstalled_programs(&file("docs/testing.md", text))), [""; 0]);
    }

    #[test]
    fn the_picture_follows_its_text() {
        let text = "## Find, describe, call from the shell\n```console\n$ a\n```\n";
        let readme = || file(picture::SOURCE, text);
        let recorded = || file(recording::PATH, "{\"version\":2,\"width\":9,\"height\":9}\n[1.0,\"o\",\"$ a\"]\n");
        let found_with = |files: Vec<TextFile>| found(&picture_of_the_readme(&files));
        assert_eq!(found_with(vec![readme(), recorded()]), ["docs/terminal.svg:1"]);
        let old = file(picture::PATH, "old");
        assert_eq!(found_with(vec![readme(), recorded(), old]), ["docs/terminal.svg:1"]);
        let drawn = || file(picture::PATH, &picture::draw(text).unwrap());
        assert_eq!(found_with(vec![readme(), recorded(), drawn()]), [""; 0]);
        assert_eq!(found_with(vec![readme(), drawn()]), ["docs/terminal.cast:1"]);
        let old = file(recording::PATH, &recorded().text.replace("$ a", "$ b"));
        assert_eq!(found_with(vec![readme(), old, drawn()]), ["docs/terminal.cast:1"]);
    }

    #[test]
    fn paths_of_a_machine() {
        let check = |text: String, count: usize| {
            assert_eq!(machine_paths(&file("x", &text)).len(), count, "{text}");
        };
        check(format!("see {}{}main", "/wo", "rk/"), 1);
        check(format!("\"{}{}.ssh\"", "/ro", "ot/"), 1);
        check(format!("{}{}ada/x", "/ho", "me/"), 1);
        check(format!("{}{}<name>/x", "/ho", "me/"), 0);
        check(format!("https://example.com{}{}", "/wo", "rk/"), 0);
    }

    #[test]
    fn decisions_have_numbers_of_their_own() {
        let files = ["0001-a.md", "0002-b.md", "0002-c.md", "d.md", "README.md"]
            .map(|name| file(&format!("docs/adr/{name}"), ""));
        assert_eq!(found(&decisions(&files)), ["docs/adr/0002-c.md:1", "docs/adr/d.md:1"]);
    }
}
