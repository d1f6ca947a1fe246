//! The sources once more in another folder: for the second build, and for tools that write beside what they read.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::dist::tools::must;
use crate::workspace::Workspace;

/// Copies the checkout, with its commit and with what is not committed, to `folder`.
pub fn copy(workspace: &Workspace, folder: &Path) -> Result<Workspace> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove `{}`", folder.display()))?;
    }
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--shared", "--no-tags"]).arg(&workspace.root).arg(folder);
    must(&mut clone, "git clone")?;
    // Also what is in the index and in no commit yet.
    let changed = listed(workspace, &["diff", "--name-only", "-z", "HEAD"])?
        + &listed(workspace, &["ls-files", "-z", "--others", "--exclude-standard"])?;
    for name in changed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (workspace.root.join(name), folder.join(name));
        if !from.exists() {
            // Also listed as modified: what was removed.
            fs::remove_file(&to).with_context(|| format!("failed to remove `{}`", to.display()))?;
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).with_context(|| format!("failed to create `{}`", parent.display()))?;
        }
        fs::copy(&from, &to).with_context(|| format!("failed to copy `{}`", from.display()))?;
    }
    Ok(Workspace { root: folder.to_path_buf() })
}

/// Whether anything differs from the commit that the program will name.
pub fn differ(workspace: &Workspace) -> Result<bool> {
    Ok(!listed(workspace, &["status", "--porcelain"])?.trim().is_empty())
}

fn listed(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(&workspace.root).args(arguments).output();
    let output = output.context("failed to start `git`")?;
    ensure!(output.status.success(), "`git {}` failed: {}", arguments[0], String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("git listed a name that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "core.hooksPath=none"];
        must(Command::new("git").current_dir(folder).args(who).args(arguments), "git").unwrap();
    }

    #[test]
    fn a_copy_has_the_commit_and_what_is_not_committed() {
        let home = std::env::temp_dir().join(format!("toolcrib-sources-{}", std::process::id()));
        let (from, to) = (home.join("from"), home.join("to"));
        fs::create_dir_all(&from).unwrap();
        git(&from, &["init", "--quiet"]);
        for name in ["kept", "changed", "removed", "staged"] {
            fs::write(from.join(name), "old").unwrap();
        }
        fs::write(from.join(".gitignore"), "built\n").unwrap();
        git(&from, &["add", "."]);
        git(&from, &["commit", "--quiet", "--message", "first"]);
        let workspace = Workspace { root: from.clone() };
        assert!(!differ(&workspace).unwrap());
        fs::write(from.join("changed"), "new").unwrap();
        fs::write(from.join("staged"), "new").unwrap();
        git(&from, &["add", "staged"]);
        fs::remove_file(from.join("removed")).unwrap();
        fs::create_dir(from.join("folder")).unwrap();
        fs::write(from.join("folder/added"), "new").unwrap();
        fs::write(from.join("built"), "not ours").unwrap();
        assert!(differ(&workspace).unwrap());

        copy(&workspace, &to).unwrap();
        let read = |name: &str| fs::read_to_string(to.join(name)).ok();
        assert_eq!(read("kept").as_deref(), Some("old"));
        assert_eq!(read("changed").as_deref(), Some("new"));
        assert_eq!(read("staged").as_deref(), Some("new"));
        assert_eq!(read("folder/added").as_deref(), Some("new"));
        assert_eq!((read("removed"), read("built")), (None, None));
        let commit = |folder: &Path| listed(&Workspace { root: folder.to_path_buf() }, &["rev-parse", "HEAD"]).unwrap();
        assert_eq!(commit(&from), commit(&to));
        fs::remove_dir_all(&home).unwrap();
    }
}
