//! Writing the discovered tools into a server's text: comments, order and everything else stay as they are.

use std::path::Path;

use serde_json::{Value, json};

use super::ServerDefinition;
use crate::define;
use crate::problem::{DefinitionProblem, Sink};
use crate::yaml;

/// Why a server's text was not edited.
#[derive(Debug, thiserror::Error)]
pub enum ToolsEditError {
    /// It is wrong as it is.
    #[error("the definition has problems: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Wrong(Vec<DefinitionProblem>),
    /// Its keys are not at the beginnings of lines, or a tool is one that no file can hold.
    #[error("the tools cannot be added without changing other parts of the file")]
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
    let says = |text: &str| Some(yaml::parse_into(text, &Sink::new(file))?.value());
    let was = says(text).and_then(|value| value.as_object().cloned()).ok_or(ToolsEditError::Form)?;
    let mut meant = was.clone();
    meant.insert("tools".to_owned(), json!(tools));
    meant.insert("verified_at".to_owned(), verified_at.into());
    let text = yaml::amend(text, &was, &meant, &says).ok_or(ToolsEditError::Form)?;
    let read: ServerDefinition = define::read(file, stem, &text).map_err(|_| ToolsEditError::Form)?;
    let written: Option<Vec<Value>> = read.tools.iter().map(|tool| serde_json::from_str(&tool.json).ok()).collect();
    let is_as_meant = written.as_deref() == Some(tools) && read.verified_at.as_deref() == Some(verified_at);
    let rest = ServerDefinition { tools: before.tools.clone(), verified_at: before.verified_at.clone(), ..read };
    if is_as_meant && rest == before { Ok(text) } else { Err(ToolsEditError::Form) }
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
        assert!(text.starts_with("name: a\ntools:\n  - name: b\n"), "{text}");
        assert!(text.contains("\n\n# the end\ncommand: run\nverified_at:"), "{text}");
    }

    #[test]
    fn what_cannot_be_edited_is_left_alone() {
        let tool = json!({"name": "b", "inputSchema": {"type": "object"}});
        for text in ["{name: a, command: run}", "{\n  \"name\": \"a\",\n  \"command\": \"run\"\n}", "name: a", "? a"] {
            assert!(written(text, std::slice::from_ref(&tool)).is_err(), "{text}");
        }
    }
}
