//! YAML texts that are no definitions of a home, as values: settings of commands, and files that are sent to a gateway.
//! Read with the same reader and the same bounds as definitions.

use std::path::Path;

use serde_json::Value;

use super::tree::parse_into;
use crate::problem::{DefinitionProblem, Sink};

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// Its own text, comments included.
    pub text: String,
    /// Its first line in the whole text, counted from 1.
    pub line: u32,
}

/// The documents of a YAML or JSON text; those that say nothing are left out.
pub fn documents(text: &str, file: &Path) -> Result<Vec<Document>, DefinitionProblem> {
    let mut documents = Vec::new();
    for (line, part) in parts(text) {
        if part.lines().all(|line| line.trim_start().starts_with('#') || line.trim().is_empty()) {
            continue;
        }
        // Places count from the beginning of the whole text.
        let padded = "\n".repeat(line) + part;
        let sink = Sink::new(file);
        let value = parse_into(&padded, &sink).map(|node| node.value());
        if let Some(problem) = sink.finish().into_iter().next() {
            return Err(problem);
        }
        if let Some(value) = value {
            let line = u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1);
            documents.push(Document { value, text: part.to_owned(), line });
        }
    }
    Ok(documents)
}

/// What stands between the lines `---` (YAML 1.2 §9.1.2), each with the number of lines before it.
pub(crate) fn parts(text: &str) -> Vec<(usize, &str)> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let (mut parts, mut from, mut first) = (Vec::new(), 0, 0);
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let end = at + line.len();
        if matches!(line.trim_end(), "---" | "...") {
            parts.push((first, &text[from..at]));
            (from, first) = (end, number + 1);
        }
        at = end;
    }
    parts.push((first, &text[from..]));
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_distinguished_and_keep_their_lines() {
        let text = "---\n# one\na: 1\n---\n---\n# nothing\n---\nb: [x, 'y']\ntext: |\n  ---\n...\n";
        let found = documents(text, Path::new("f")).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].line, &found[0].value, &*found[0].text), (2, &json!({"a": 1}), "# one\na: 1\n"));
        assert_eq!((found[1].line, &found[1].value), (8, &json!({"b": ["x", "y"], "text": "---\n"})));
        assert_eq!(documents(r#"{"a": [1.5, null, true]}"#, Path::new("f")).unwrap()[0].value["a"][0], json!(1.5));
        assert!(documents("", Path::new("f")).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_yaml_is_reported_with_its_place() {
        let problem = documents("a: 1\n---\nb: [\n", Path::new("x.yaml")).unwrap_err();
        assert!(problem.to_string().starts_with("x.yaml:4:"), "{problem}");
        let problem = documents("a: 1\na: 2\n", Path::new("x.yaml")).unwrap_err();
        assert!(problem.to_string().starts_with("x.yaml:2:1"), "{problem}");
        let bomb = (0..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
            text + &format!("a{}: &a{} [{}]\n", n + 1, n + 1, vec![format!("*a{n}"); 9].join(", "))
        });
        documents(&bomb, Path::new("x")).unwrap_err();
    }
}
