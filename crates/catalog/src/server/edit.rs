//! Writing the discovered tools into a server's text: comments, order and everything else stay as they are.
//!
//! The text is edited by lines, and what came of it is read again: unless it says exactly what was meant, nothing is
//! changed.

use std::path::Path;

use serde_json::{Value, json};

use super::ServerDefinition;
use crate::problem::DefinitionProblem;
use crate::{define, yaml};

/// Why a server's text was not edited.
#[derive(Debug, thiserror::Error)]
pub enum ToolsEditError {
    /// It is wrong as it is.
    #[error("the definition has problems: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Wrong(Vec<DefinitionProblem>),
    /// Its keys are not at the beginnings of lines, or a tool is one that no file can hold.
    #[error("the tools cannot be written into it without changing what else it says")]
    Form,
}

/// The text of the server `stem`, which lies in `file`, with these tools and this time in the place of those it had.
///
/// # Errors
/// The definition is wrong, or written in a form that is only for people to edit.
pub fn with_tools(
    file: &Path,
    stem: &str,
    text: &str,
    tools: &[Value],
    verified_at: &str,
) -> Result<String, ToolsEditError> {
    let before: ServerDefinition = define::read(file, stem, text).map_err(ToolsEditError::Wrong)?;
    let mut lines: Vec<&str> = text.lines().collect();
    for key in ["tools", "verified_at"] {
        if let Some(block) = block_of(&lines, key) {
            lines.drain(block);
        }
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let added = yaml::render(&json!({ "tools": tools, "verified_at": verified_at }));
    let text = format!("{}\n{added}", lines.join("\n"));
    let read: ServerDefinition = define::read(file, stem, &text).map_err(|_| ToolsEditError::Form)?;
    let written: Option<Vec<Value>> = read.tools.iter().map(|tool| serde_json::from_str(&tool.json).ok()).collect();
    let is_as_meant = written.as_deref() == Some(tools) && read.verified_at.as_deref() == Some(verified_at);
    let rest = ServerDefinition { tools: before.tools.clone(), verified_at: before.verified_at.clone(), ..read };
    if is_as_meant && rest == before { Ok(text) } else { Err(ToolsEditError::Form) }
}

/// The lines of a key of the whole definition: its own, and those below that are indented, are items of its list, or
/// nothing. Comments and blank lines after the last of them are not its own.
pub(crate) fn block_of<L: AsRef<str>>(lines: &[L], key: &str) -> Option<std::ops::Range<usize>> {
    let mut lines = lines.iter().map(AsRef::as_ref).enumerate();
    let (first, _) = lines.find(|(_, line)| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))?;
    let mut end = first + 1;
    for (number, line) in lines {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if line.len() == text.len() && !text.starts_with("- ") && text != "-" {
            break;
        }
        end = number + 1;
    }
    Some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, tools: &[Value]) -> Result<String, ToolsEditError> {
        with_tools(Path::new("servers/a.yaml"), "a", text, tools, "2026-11-20T00:00:00Z")
    }

    #[test]
    fn tools_are_written_and_written_again_and_everything_else_stays() {
        let begin = "# mine\nname: a # it\n\ncommand: run\n# why\nargs: [one]\n";
        let odd = json!({"name": "say: \"hi\"\n#", "description": "- no\n  'list' \u{e4}\u{202e}", "inputSchema": {"type": "object", "x": [1.5, null, true, "true", "1e3", {}, []]}});
        let one = written(begin, std::slice::from_ref(&odd)).unwrap();
        assert!(one.starts_with(begin) && one.contains("verified_at"), "{one}");
        let plain = json!({"name": "b", "inputSchema": {"type": "object"}});
        let two = written(&one, &[plain.clone(), odd]).unwrap();
        assert!(two.starts_with(begin) && two.matches("verified_at:").count() == 1, "{two}");
        let none = written(&two, &[]).unwrap();
        assert!(none.starts_with(begin) && none.contains("tools: []"), "{none}");
        let people = "name: a\ntools:\n- name: old\n  inputSchema: {type: object}\n\n# the end\ncommand: run\nverified_at: then\n";
        let text = written(people, &[plain]).unwrap();
        assert!(text.starts_with("name: a\n\n# the end\ncommand: run\ntools:"), "{text}");
    }

    #[test]
    fn what_cannot_be_edited_is_left_alone() {
        let tool = json!({"name": "b", "inputSchema": {"type": "object"}});
        for text in ["{name: a, command: run}", "{\n  \"name\": \"a\",\n  \"command\": \"run\"\n}", "name: a", "? a"] {
            assert!(written(text, std::slice::from_ref(&tool)).is_err(), "{text}");
        }
    }
}
