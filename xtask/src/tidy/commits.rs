//! The rule for the subjects of commits: short, and of something finished. `.githooks/commit-msg` says the same before
//! a commit is made; `cargo xtask setup` switches it on.

use std::path::Path;
use std::process::Command;

use super::Finding;

/// Older commits have subjects of every length.
const AFTER: &str = "55b239d5d";
const COLUMNS: usize = 72;
/// What git calls a commit that is to be melted into another one.
const UNFINISHED: [&str; 3] = ["fixup!", "squash!", "amend!"];
const FIX: &str = "reword it with `git rebase --interactive`: what is different now, the reason below a blank line";

/// The findings, or why there is nothing to look at: an archive has no history, a shallow copy only its end.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    if git(root, &["cat-file", "-e", &format!("{AFTER}^{{commit}}")]).is_none() {
        return Err(format!("no history from commit {AFTER} on"));
    }
    let range = format!("{AFTER}..HEAD");
    let log = git(root, &["log", "--no-merges", "--format=%h %s", &range]).ok_or("`git log` failed")?;
    Ok(of_log(&log))
}

/// What a git command of the repository prints, if it is there and ends well.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `hash subject`, line by line.
fn of_log(log: &str) -> Vec<Finding> {
    let faulty = log.lines().filter_map(|line| {
        let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
        Some((hash, subject, fault(subject)?))
    });
    let finding = |(hash, subject, fault): (&str, &str, String)| Finding {
        check: "commits",
        path: format!("commit {hash}"),
        line: 1,
        item: None,
        what: format!("`{subject}`: {fault}"),
        fix: FIX,
    };
    faulty.map(finding).collect()
}

/// What is wrong with a subject.
fn fault(subject: &str) -> Option<String> {
    let columns = subject.chars().count();
    let begins = subject.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    if subject.trim().is_empty() {
        Some("it says nothing".to_owned())
    } else if columns > COLUMNS {
        Some(format!("{columns} characters, {COLUMNS} is the limit"))
    } else if begins.eq_ignore_ascii_case("wip") {
        Some("work in progress has no place in the history".to_owned())
    } else {
        let mark = UNFINISHED.iter().find(|mark| subject.starts_with(**mark))?;
        Some(format!("`{mark}` is to be melted into another commit"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Workspace;

    /// Subjects, and whether they are good.
    fn subjects() -> Vec<(String, bool)> {
        let row = |subject: &str, good| (subject.to_owned(), good);
        vec![
            row("Bound schema checks", true),
            row("Wipe the state", true),
            row(&"é".repeat(72), true),
            row(&"x".repeat(73), false),
            row("wip", false),
            row("WIP: views", false),
            row("wip views", false),
        ]
    }

    #[test]
    fn subjects_are_short_and_finished() {
        for (subject, good) in subjects() {
            assert_eq!(fault(&subject).is_none(), good, "{subject}");
        }
        assert!(fault("").is_some() && fault("fixup! Bound schema checks").is_some());
        let found = of_log("abc Fine\ndef wip\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].path == "commit def" && found[0].what.contains("`wip`"), "{found:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_hook_says_the_same() {
        let file = std::env::temp_dir().join(format!("xtask-commit-msg-{}", std::process::id()));
        let hook = Workspace::find().root.join(".githooks/commit-msg");
        for (subject, good) in subjects() {
            fs::write(&file, format!("\n# a comment of git's\n{subject}\n\nThe reason, {}.\n", "long ".repeat(30)))
                .unwrap();
            let output = Command::new(&hook).arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), good, "{subject}: {said}");
            assert_eq!(said.contains("72"), !good && subject.len() > 72, "{said}");
        }
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn an_archive_without_history_is_no_fault() {
        let folder = std::env::temp_dir().join(format!("xtask-no-history-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(check(&folder).unwrap_err().contains("no history"));
        fs::remove_dir(folder).unwrap();
    }
}
