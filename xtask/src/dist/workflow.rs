//! The release workflow of the forge, held against the table of targets and against the command that it calls. Nothing
//! is made here: the workflow is a file that people read.

/// Where the forge looks for it.
pub const PATH: &str = ".github/workflows/release.yml";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::PATH;
    use crate::dist::read;
    use crate::dist::targets::TARGETS;
    use crate::workspace::Workspace;

    fn text() -> String {
        fs::read_to_string(Workspace::find().root.join(PATH)).unwrap()
    }

    /// What stands behind `key: ` of the workflow, in order.
    fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
        let lines = text.lines().map(|line| line.trim_start().trim_start_matches("- "));
        lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
    }

    #[test]
    fn the_matrix_is_the_table_of_targets() {
        let text = text();
        let of_table = |value: fn(usize) -> String| (0..TARGETS.len()).map(value).collect::<Vec<_>>();
        let only = |index: usize| if index == 0 { "\"\"" } else { "archive" }.to_owned();
        let matrix = text.split_once("include:").unwrap().1.split_once("steps:").unwrap().0;
        assert_eq!(values(matrix, "target"), of_table(|index| TARGETS[index].triple.to_owned()));
        assert_eq!(values(matrix, "runner"), of_table(|index| TARGETS[index].runner.to_owned()));
        assert_eq!(values(matrix, "experimental"), of_table(|index| TARGETS[index].experimental.to_string()));
        assert_eq!(values(matrix, "only"), of_table(only));
    }

    #[test]
    fn every_call_of_dist_is_one_that_it_understands() {
        let text = text().replace("\\\n", " ");
        let mut calls = 0;
        for line in text.lines() {
            let Some((_, call)) = line.split_once("cargo xtask dist ") else { continue };
            calls += 1;
            let call = call.split('>').next().unwrap_or_default().replace("\"$TARGET\"", TARGETS[0].triple);
            let call = call.replace("${ONLY:+--only \"$ONLY\"}", "--only archive");
            let words: Vec<String> = call.split_whitespace().map(str::to_owned).collect();
            if words[0] == "--notes" {
                assert_eq!(words.len(), 2, "{line}");
                continue;
            }
            read(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        assert_eq!(calls, 4);
    }

    #[test]
    fn the_page_of_platforms_has_a_row_for_each_target() {
        let page = fs::read_to_string(Workspace::find().root.join("docs/guides/platforms.md")).unwrap();
        let table = page.split("\n## ").next().unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        assert_eq!(rows.collect::<Vec<_>>(), TARGETS.map(|target| target.triple));
    }

    #[test]
    fn the_supported_rust_is_that_of_the_manifest() {
        let root = Workspace::find().root;
        let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
        let rust = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
        let page = fs::read_to_string(root.join("docs/guides/releases.md")).unwrap();
        assert!(page.contains(&format!("builds with Rust {rust} and newer")), "{rust}");
    }

    #[test]
    fn only_actions_of_the_forge_itself_are_used_and_secrets_are_no_part_of_a_command() {
        let text = text();
        let actions = values(&text, "uses");
        assert!(actions.len() >= 5, "{actions:?}");
        assert!(actions.iter().all(|action| action.starts_with("actions/")), "{actions:?}");
        // What is put into a command by the forge could hold a command of its own.
        for command in values(&text, "run") {
            assert!(!command.contains("${{"), "{command}");
        }
        assert_eq!(text.matches("contents: write").count(), 1, "only the job that drafts the release may write");
    }
}
