//! `cargo xtask dist --notes VERSION`: what `CHANGELOG.md` says about one version, as the notes of its release.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// What the notes are taken from.
const SOURCE: &str = "CHANGELOG.md";

pub fn command(workspace: &Workspace, version: &str) -> Result<bool> {
    let text = fs::read_to_string(workspace.root.join(SOURCE)).with_context(|| format!("failed to read `{SOURCE}`"))?;
    println!("{}", notes(&text, version)?);
    Ok(true)
}

/// The text below the heading of `version`, up to the next version. A `v` before the version, as in a tag, is no part
/// of it; `unreleased` is what comes with the next one.
fn notes<'a>(text: &'a str, version: &str) -> Result<&'a str> {
    let wanted = version.strip_prefix('v').unwrap_or(version);
    let mut start = None;
    let mut end = text.len();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let heading = heading(line);
        if start.is_some() && (heading.is_some() || is_reference(line)) {
            end = offset;
            break;
        }
        offset += line.len();
        if heading.is_some_and(|name| name.eq_ignore_ascii_case(wanted)) {
            start = Some(offset);
        }
    }
    let Some(start) = start else {
        let known: Vec<&str> = text.lines().filter_map(heading_of).collect();
        bail!(
            "`{SOURCE}` has no section `## [{wanted}]`, only {}; rename `## [Unreleased]` to `## [{wanted}] - YYYY-MM-DD`",
            known.join(", ")
        );
    };
    let section = text[start..end].trim();
    if section.is_empty() {
        bail!("the section `## [{wanted}]` of `{SOURCE}` is empty; write what changed, or do not release it");
    }
    Ok(section)
}

/// The version that a heading of Keep a Changelog names: `## [1.2.3] - 2026-01-31`.
fn heading(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("## [")?.split_once(']')?;
    Some(name)
}

fn heading_of(line: &str) -> Option<&str> {
    heading(line).map(|name| &line[3..3 + name.len() + 2])
}

/// A target of links at the end of the file: `[1.2.3]: …`.
fn is_reference(line: &str) -> bool {
    line.starts_with('[') && line.contains("]: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-02-01\n\n### Added\n\n- Two.\n\n\
                        ## [1.0.0] - 2026-01-01\n\n- One,\n  [more](x.md).\n\n[1.0.0]: x\n";

    #[test]
    fn the_notes_of_a_version_end_where_the_next_one_begins() {
        assert_eq!(notes(TEXT, "1.1.0").unwrap(), "### Added\n\n- Two.");
        assert_eq!(notes(TEXT, "v1.1.0").unwrap(), "### Added\n\n- Two.");
        assert_eq!(notes(TEXT, "1.0.0").unwrap(), "- One,\n  [more](x.md).");
    }

    #[test]
    fn a_version_without_notes_is_no_release() {
        let error = notes(TEXT, "2.0.0").unwrap_err().to_string();
        assert!(error.contains("no section `## [2.0.0]`") && error.contains("[1.1.0], [1.0.0]"), "{error}");
        let error = notes(TEXT, "1.0").unwrap_err().to_string();
        assert!(error.contains("no section `## [1.0]`"), "{error}");
        let error = notes(TEXT, "unreleased").unwrap_err().to_string();
        assert!(error.contains("is empty"), "{error}");
    }

    #[test]
    fn our_own_changelog_can_be_read() {
        let workspace = Workspace::find();
        let text = fs::read_to_string(workspace.root.join(SOURCE)).unwrap();
        let notes = notes(&text, "Unreleased").unwrap();
        assert!(notes.starts_with("### ") && !notes.contains("\n## "), "{}", &notes[..200]);
    }
}
