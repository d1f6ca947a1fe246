//! Writing keys into a profile's text: comments, order and everything else stay as they are.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib_base::{Role, Timestamp};

use super::{GatewayKey, KeyName, ProfileDefinition};
use crate::define;
use crate::problem::{DefinitionProblem, Sink};
use crate::yaml;

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
    let mut keys = before.keys.clone().unwrap_or_default();
    keys.push(key.clone());
    edited(file, stem, text, &ProfileDefinition { keys: Some(keys), ..before }, |written| written.push(value_of(key)))
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
    let hashes: Vec<String> = gone.iter().map(|key| key.hash.to_string()).collect();
    edited(file, stem, text, &ProfileDefinition { keys: Some(kept), ..before }, |written| {
        written.retain(|key| !hashes.iter().any(|hash| key["hash"] == hash.as_str()));
    })
}

/// The text in which the keys of a name end at a moment, unless they end before.
///
/// # Errors
/// The profile is wrong, or its keys are in one line.
pub fn expire_keys(
    file: &Path,
    stem: &str,
    text: &str,
    name: &KeyName,
    expires: Timestamp,
) -> Result<String, KeyEditError> {
    let before = read_profile(file, stem, text).map_err(KeyEditError::Wrong)?;
    let mut keys = before.keys.clone().unwrap_or_default();
    let mut hashes = Vec::new();
    for key in keys.iter_mut().filter(|key| key.name == *name && key.lasts(expires)) {
        key.expires = Some(expires);
        hashes.push(key.hash.to_string());
    }
    edited(file, stem, text, &ProfileDefinition { keys: Some(keys), ..before }, |written| {
        for key in written.iter_mut().filter(|key| hashes.iter().any(|hash| key["hash"] == hash.as_str())) {
            key["expires"] = expires.to_string().into();
        }
    })
}

/// A key as it is written.
fn value_of(key: &GatewayKey) -> Value {
    let mut value = json!({ "name": key.name.as_str(), "hash": key.hash.to_string() });
    if let Some(created) = &key.created {
        value["created"] = created.as_str().into();
    }
    if key.role != Role::Member {
        value["role"] = key.role.as_str().into();
    }
    if let Some(expires) = key.expires {
        value["expires"] = expires.to_string().into();
    }
    if let Some(user) = &key.user {
        value["user"] = user.as_str().into();
    }
    value
}

/// The text with its keys changed, which must then say exactly what is meant.
fn edited(
    file: &Path,
    stem: &str,
    text: &str,
    expected: &ProfileDefinition,
    change: impl FnOnce(&mut Vec<Value>),
) -> Result<String, KeyEditError> {
    let says = |text: &str| Some(yaml::parse_into(text, &Sink::new(file))?.value());
    let was = says(text).and_then(|value| value.as_object().cloned()).ok_or(KeyEditError::Form)?;
    let mut now = was.clone();
    let mut keys = now.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
    change(&mut keys);
    now.insert("keys".to_owned(), keys.into());
    let text = yaml::amend(text, &was, &now, &says).ok_or(KeyEditError::Form)?;
    match read_profile(file, stem, &text) {
        Ok(read) if read == *expected => Ok(text),
        _ => Err(KeyEditError::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyHash;
    use super::*;

    const FILE: &str = "profiles/a.yaml";

    fn key(name: &str, text: &str) -> GatewayKey {
        GatewayKey {
            name: KeyName::new(name).unwrap(),
            hash: KeyHash::of(text),
            created: Some("2026-01-31".into()),
            role: Role::Member,
            expires: None,
            user: None,
        }
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
    fn the_keys_of_a_name_end_at_a_moment_and_no_later_than_before() {
        let (soon, late) = (Timestamp::parse("2027-01-31").unwrap(), Timestamp::parse("2027-02-01T10:00:00Z").unwrap());
        let text = added(&added("name: a\n", &key("ci", "1")), &GatewayKey { role: Role::Viewer, ..key("bob", "2") });
        let ended = expire_keys(Path::new(FILE), "a", &text, &KeyName::new("ci").unwrap(), late).unwrap();
        assert!(
            ended.contains("expires: \"2027-02-01T10:00:00.000Z\"")
                || ended.contains("expires: 2027-02-01T10:00:00.000Z")
        );
        assert!(ended.contains("role: viewer") && ended.matches("expires").count() == 1, "{ended}");
        let sooner = expire_keys(Path::new(FILE), "a", &ended, &KeyName::new("ci").unwrap(), soon).unwrap();
        let keys = |text: &str| read_profile(Path::new(FILE), "a", text).unwrap().keys.unwrap();
        assert_eq!((keys(&sooner)[0].expires, keys(&sooner)[1].expires), (Some(soon), None));
        let again = expire_keys(Path::new(FILE), "a", &sooner, &KeyName::new("ci").unwrap(), late).unwrap();
        assert_eq!(again, sooner);
    }

    #[test]
    fn keys_that_people_wrote_are_edited_in_their_way() {
        let (old, new) = (KeyHash::of("old"), KeyHash::of("new"));
        let text = format!(
            "name: a\nkeys: # who may\n# for ci\n- name: ci\n  # the old one\n  hash: {old}\n\n# bob's\n- hash: '{new}'\n  name: bob\n\n# the end\nread_only: true\n"
        );
        let more = added(&text, &key("eve", "3"));
        assert!(more.contains("  name: bob\n- name: eve\n  hash: \"sha256:"), "{more}");
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
