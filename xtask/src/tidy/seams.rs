//! The code that is for some platforms only. `cargo xtask tidy --cfg` prints where it is; the rule `platform` lets it be
//! only in the files that `xtask/tidy.toml` lists with a reason, which says how its logic is tested on Linux.

use super::scan::{Source, words};
use super::{Finding, Report};
use crate::workspace::TextFile;

/// By what a condition is about the platform.
const PLATFORM: [&str; 7] =
    ["target_os", "target_family", "target_env", "target_arch", "target_vendor", "unix", "windows"];

/// Where conditions stand.
const FORMS: [&str; 3] = ["cfg(", "cfg!(", "cfg_attr("];

/// One condition on the platform.
#[derive(Debug, PartialEq, Eq)]
pub struct Seam {
    pub line: usize,
    /// As it is written, on one line: `not(target_os = "linux")`.
    pub condition: String,
    /// Whether only tests are built by it.
    pub is_test: bool,
}

/// The conditions on the platform of one file, from top to bottom.
pub fn seams(source: &Source) -> Vec<Seam> {
    let mut seams = Vec::new();
    for form in FORMS {
        for offset in words(&source.code, form) {
            let open = offset + form.len();
            let end = condition_end(&source.code[open..], form == "cfg_attr(");
            let code = &source.code[open..open + end];
            if PLATFORM.iter().all(|word| words(code, word).is_empty()) {
                continue;
            }
            let condition = source.quoted[open..open + end].split_whitespace().collect::<Vec<_>>().join(" ");
            seams.push(Seam { line: source.line(offset), condition, is_test: source.is_test(offset) });
        }
    }
    seams.sort_by_key(|seam| seam.line);
    seams
}

/// Conditions on the platform outside of tests, each a finding.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut report = Report::new(&source.path);
    for seam in seams(source).into_iter().filter(|seam| !seam.is_test) {
        let what = format!("code for `{}` only", seam.condition);
        let fix = "decide by a value that a test can choose, in a file that `xtask/tidy.toml` lists as a seam";
        report.add("platform", seam.line, what, fix);
    }
    report.findings
}

/// What `--cfg` prints: a row for each condition, dependencies for some platforms, and the counts.
pub fn print(files: &[TextFile]) {
    let (mut places, mut of_tests) = (0, 0);
    for file in files {
        if file.path.ends_with(".rs") {
            for seam in seams(&Source::new(&file.path, &file.text)) {
                let mark = if seam.is_test { "  (test)" } else { "" };
                println!("{}:{}: {}{mark}", file.path, seam.line, seam.condition);
                *(if seam.is_test { &mut of_tests } else { &mut places }) += 1;
            }
        } else if file.path.ends_with("Cargo.toml") {
            for (line, number) in file.text.lines().zip(1..).filter(|(line, _)| line.starts_with("[target.")) {
                println!("{}:{number}: {line}", file.path);
            }
        }
    }
    println!("tidy: {places} places for some platforms only, and {of_tests} in tests");
}

/// How long the condition is: up to the bracket that closes it, of `cfg_attr` up to the first comma beside brackets.
fn condition_end(code: &str, ends_at_comma: bool) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in code.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            ',' if depth == 0 && ends_at_comma => return at,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let seams = seams(&Source::new(path, text));
        let row = |seam: Seam| format!("{} {}{}", seam.line, seam.condition, if seam.is_test { " test" } else { "" });
        seams.into_iter().map(row).collect()
    }

    #[test]
    fn every_form_of_a_condition_is_found() {
        let text = "#[cfg(all(\n    target_os = \"linux\",\n    feature = \"x\"\n))]\nfn a() {}\n\
                    fn b() -> bool { cfg!(windows) }\n\
                    #[cfg_attr(not(unix), path = \"x(\")]\nmod c;\n";
        let expected = ["1 all( target_os = \"linux\", feature = \"x\" )", "6 windows", "7 not(unix)"];
        assert_eq!(found("a/src/x.rs", text), expected);
    }

    #[test]
    fn what_is_no_condition_on_the_platform_is_left_alone() {
        let text = "#[cfg(feature = \"windows\")]\nfn a() { let s = \"cfg(unix)\"; } // cfg(windows)\n\
                    #[cfg(debug_assertions)]\nfn unix(cfg: windows) {}\n";
        assert_eq!(found("a/src/x.rs", text), [""; 0]);
    }

    #[test]
    fn tests_may_be_for_one_platform_and_other_code_is_a_finding() {
        let text = "#![cfg(target_os = \"linux\")]\n";
        assert_eq!(found("a/tests/it/x.rs", text), ["1 target_os = \"linux\" test"]);
        assert!(check(&Source::new("a/tests/it/x.rs", text)).is_empty());
        let found = check(&Source::new("a/src/x.rs", text));
        assert_eq!((found.len(), found[0].check), (1, "platform"));
    }
}
