//! One example question, made from a tool that is really there, and tried: a search for it finds the tool first.

use serde_json::Value;

use crate::client::{Rest, encoded};

/// Begins of names whose tools look rather than change.
const LOOKING: [&str; 14] = [
    "search", "find", "read", "get", "list", "query", "lookup", "fetch", "show", "describe", "convert", "compute",
    "count", "compare",
];
/// How many tools are tried.
const TRIES: usize = 24;
/// How many words a question may have: enough to tell a tool, few enough to type.
const WORDS: usize = 8;

/// A question, and the tool that answers it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Letters, digits and single blanks: fit to stand in quotes.
    pub(super) question: String,
    pub(super) tool: String,
}

/// The first tool that its own words find; those that look come first.
pub(super) async fn pick(rest: &Rest) -> Option<Sample> {
    let tools = rest.get("/tools").await.ok()?.to_value();
    let mut tools: Vec<&Value> = tools["tools"].as_array()?.iter().collect();
    tools.sort_by_key(|tool| !looks(tool["id"].as_str().unwrap_or_default()));
    for tool in tools.into_iter().take(TRIES) {
        let (Some(id), Some(name)) = (tool["id"].as_str(), tool["name"].as_str()) else { continue };
        let Some(question) = question(id, tool["description"].as_str().unwrap_or_default()) else { continue };
        let Ok(found) = rest.get(&format!("/search?limit=1&query={}", encoded(&question))).await else { continue };
        if found.to_value()["tools"][0]["id"] == id {
            return Some(Sample { question, tool: name.to_owned() });
        }
    }
    None
}

fn tool_of(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, tool)| tool)
}

fn looks(id: &str) -> bool {
    words(tool_of(id)).first().is_some_and(|word| LOOKING.contains(&word.as_str()))
}

/// What a person would ask for: how the description begins, else the words of the name. `None` where neither says
/// anything.
fn question(id: &str, description: &str) -> Option<String> {
    let end = description.find(['.', ',', ';', ':', '(', '\n', '–', '—']).unwrap_or(description.len());
    let mut told = words(&description[..end]);
    told.truncate(WORDS);
    let chosen = if told.len() >= 2 { told } else { words(tool_of(id)) };
    (chosen.len() >= 2).then(|| chosen.join(" "))
}

/// The words of a text or of a name such as `listFiles` or `list_files`, in small letters. Nothing else is left, so
/// that nothing that a server says can end a quotation.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in text.chars().take(200) {
        if c.is_alphanumeric() {
            let begins = !before.is_alphanumeric() || (before.is_lowercase() && c.is_uppercase());
            match words.last_mut() {
                Some(word) if !begins => word.extend(c.to_lowercase()),
                _ => words.push(c.to_lowercase().collect()),
            }
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_made_of_words_only() {
        let check = |id: &str, description: &str, expected: Option<&str>| {
            assert_eq!(question(id, description).as_deref(), expected, "{id}: {description}");
        };
        check("a/convert_length", "Convert a length or distance. Units…", Some("convert a length or distance"));
        check("a/listFiles", "", Some("list files"));
        check("a/x", "", None);
        check("a/read_file", "Reads", Some("read file"));
        check("a/x", "Say \"hi\"; rm -rf $(HOME) `id`", Some("say hi"));
        check(
            "a/x",
            "one two three four five six seven eight nine ten",
            Some("one two three four five six seven eight"),
        );
        assert!(looks("a/listFiles") && looks("a/read_file") && !looks("a/delete_file"));
    }
}
