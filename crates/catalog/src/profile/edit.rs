//! Writing keys into a profile's text: comments, order and everything else stay as they are.
//!
//! The text is edited by lines, and what came of it is read again: unless it says exactly what was meant, nothing is
//! changed.

use std::path::Path;

use super::{GatewayKey, ProfileDefinition};
use crate::define;
use crate::problem::DefinitionProblem;

/// Why a profile's text was not edited.
#[derive(Debug, thiserror::Error)]
pub enum KeyEditError {
    /// It is wrong as it is.
    #[error("the profile has problems: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Wrong(Vec<DefinitionProblem>),
    /// Its keys are written in a form that is only for people to edit.
    #[error("`keys` is not written as a list with a line for each key")]
    Form,
}

/// Reads the text of the profile `stem`, which lies in `file`.
///
/// # Errors
/// What is wrong with it.
pub fn read_profile(file: &Path, stem: &str, text: &str) -> Result<ProfileDefinition, Vec<DefinitionProblem>> {
    define::read(file, stem, text)
}

/// The text with one more key, as the last.
///
/// # Errors
/// The profile is wrong, or its keys are in one line.
pub fn add_key(file: &Path, stem: &str, text: &str, key: &GatewayKey) -> Result<String, KeyEditError> {
    let before = read_profile(file, stem, text).map_err(KeyEditError::Wrong)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match before.keys.as_deref() {
        None => lines.extend(["keys:".to_owned(), format!("  {}", line(key))]),
        Some([]) => {
            let at = opened(&mut lines).ok_or(KeyEditError::Form)?;
            lines.insert(at + 1, format!("  {}", line(key)));
        }
        Some(_) => {
            let items = items(&lines).ok_or(KeyEditError::Form)?;
            let last = items.last().ok_or(KeyEditError::Form)?;
            lines.insert(last.end, format!("{}{}", " ".repeat(last.indent), line(key)));
        }
    }
    let mut keys = before.keys.clone().unwrap_or_default();
    keys.push(key.clone());
    checked(file, stem, &lines, &ProfileDefinition { keys: Some(keys), ..before })
}

/// The text without the keys that `goes` says. The profile stays shut, also without any key.
///
/// # Errors
/// The profile is wrong, or its keys are in one line.
pub fn remove_keys(
    file: &Path,
    stem: &str,
    text: &str,
    goes: impl Fn(&GatewayKey) -> bool,
) -> Result<String, KeyEditError> {
    let before = read_profile(file, stem, text).map_err(KeyEditError::Wrong)?;
    let (gone, kept): (Vec<_>, Vec<_>) = before.keys.clone().unwrap_or_default().into_iter().partition(goes);
    if gone.is_empty() {
        return Ok(text.to_owned());
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for key in &gone {
        let hash = key.hash.to_string();
        let items = items(&lines).ok_or(KeyEditError::Form)?;
        let holds = |item: &&Item| lines[item.start..item.end].iter().any(|line| line.contains(&hash));
        let Some((start, end)) = items.iter().find(holds).map(|item| (item.start, item.end)) else {
            return Err(KeyEditError::Form);
        };
        lines.drain(start..end);
    }
    if kept.is_empty() {
        let at = lines.iter().position(|line| is_key_line(line)).ok_or(KeyEditError::Form)?;
        lines[at] = lines[at].replacen("keys:", "keys: []", 1);
    }
    checked(file, stem, &lines, &ProfileDefinition { keys: Some(kept), ..before })
}

/// One item of the list: its lines, and how far it is indented.
struct Item {
    start: usize,
    end: usize,
    indent: usize,
}

fn line(key: &GatewayKey) -> String {
    let created = key.created.as_ref().map(|created| format!(", created: \"{created}\"")).unwrap_or_default();
    format!("- {{name: {}, hash: \"{}\"{created}}}", key.name, key.hash)
}

fn is_key_line(line: &str) -> bool {
    let rest = line.strip_prefix("keys:").map(str::trim_start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Makes `keys: []` a list with a line for each. The number of its line.
fn opened(lines: &mut [String]) -> Option<usize> {
    let at = lines.iter().position(|line| line.starts_with("keys:"))?;
    let rest = lines[at].strip_prefix("keys:")?.trim_start();
    let after = rest.strip_prefix('[')?.trim_start().strip_prefix(']')?;
    lines[at] = format!("keys:{after}");
    Some(at)
}

/// The items under `keys:`. Comments and blank lines after the last word of an item are not its own.
fn items(lines: &[String]) -> Option<Vec<Item>> {
    let first = lines.iter().position(|line| is_key_line(line))? + 1;
    let mut items: Vec<Item> = Vec::new();
    for (number, line) in lines.iter().enumerate().skip(first) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let begins = text.starts_with("- ") && items.first().is_none_or(|item| item.indent == indent);
        if begins {
            items.push(Item { start: number, end: number + 1, indent });
        } else {
            match items.last_mut() {
                Some(item) if indent > item.indent => item.end = number + 1,
                // The next key of the profile.
                _ => break,
            }
        }
    }
    Some(items)
}

fn checked(file: &Path, stem: &str, lines: &[String], meant: &ProfileDefinition) -> Result<String, KeyEditError> {
    let text = lines.join("\n") + "\n";
    match read_profile(file, stem, &text) {
        Ok(read) if read == *meant => Ok(text),
        _ => Err(KeyEditError::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KeyHash, KeyName};
    use super::*;

    const FILE: &str = "profiles/a.yaml";

    fn key(name: &str, text: &str) -> GatewayKey {
        GatewayKey { name: KeyName::new(name).unwrap(), hash: KeyHash::of(text), created: Some("2026-01-31".into()) }
    }

    fn added(text: &str, key: &GatewayKey) -> String {
        add_key(Path::new(FILE), "a", text, key).unwrap()
    }

    fn removed(text: &str, name: &str) -> String {
        remove_keys(Path::new(FILE), "a", text, |key| key.name.as_str() == name).unwrap()
    }

    #[test]
    fn keys_come_and_go_and_everything_else_stays() {
        let begin = "# mine\nname: a   # the name\n\n# last\nread_only: true\n";
        let one = added(begin, &key("ci", "1"));
        assert!(one.starts_with(begin), "{one}");
        let three = added(&added(&one, &key("bob", "2")), &key("ci", "3"));
        let bob = removed(&three, "ci");
        assert_eq!(bob, added(begin, &key("bob", "2")));
        let none = removed(&bob, "bob");
        assert_eq!(none, format!("{begin}keys: []\n"), "it stays shut");
        assert_eq!(added(&none, &key("ci", "1")), one);
        assert_eq!(removed(&one, "nobody"), one);
    }

    #[test]
    fn keys_that_people_wrote_are_edited_in_their_way() {
        let (old, new) = (KeyHash::of("old"), KeyHash::of("new"));
        let text = format!(
            "name: a\nkeys: # who may\n# for ci\n- name: ci\n  # the old one\n  hash: {old}\n\n# bob's\n- hash: '{new}'\n  name: bob\n\n# the end\nread_only: true\n"
        );
        let more = added(&text, &key("eve", "3"));
        assert!(more.contains("  name: bob\n- {name: eve, hash: \"sha256:"), "{more}");
        assert!(more.ends_with("\n\n# the end\nread_only: true\n"), "{more}");
        let fewer = removed(&text, "ci");
        assert_eq!(
            fewer,
            format!(
                "name: a\nkeys: # who may\n# for ci\n\n# bob's\n- hash: '{new}'\n  name: bob\n\n# the end\nread_only: true\n"
            )
        );
        assert!(removed(&fewer, "bob").starts_with("name: a\nkeys: [] # who may\n"));
    }

    #[test]
    fn what_cannot_be_edited_is_left_alone() {
        let hash = KeyHash::of("1");
        for text in [
            format!("name: a\nkeys: [{{name: ci, hash: '{hash}'}}]\n"),
            format!("{{name: a, keys: [{{name: ci, hash: '{hash}'}}]}}\n"),
            format!("name: a\n\"keys\":\n  - {{name: ci, hash: '{hash}'}}\n"),
            "{\"name\": \"a\"}\n".to_owned(),
            "name: a\ndescription: |\n  x\n  keys:\n\n...\n".to_owned(),
        ] {
            let edited = add_key(Path::new(FILE), "a", &text, &key("bob", "2"));
            assert!(matches!(edited, Err(KeyEditError::Form)), "{text}: {edited:?}");
        }
        for text in ["name: b\n", "name: a\nkeys: 7\n", "name: [\n", ""] {
            let edited = add_key(Path::new(FILE), "a", text, &key("bob", "2"));
            assert!(matches!(edited, Err(KeyEditError::Wrong(_))), "{text}: {edited:?}");
        }
        let twice = format!("name: a\nkeys:\n  - {{name: ci, hash: '{hash}'}}\n");
        assert!(add_key(Path::new(FILE), "a", &twice, &key("bob", "1")).is_err(), "no key twice");
    }
}
