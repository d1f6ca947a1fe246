//! The text of a definition for people who edit it: what may be a secret stands as `****`, and what is sent back with
//! `****` in it gets the values that are in the file. A secret itself leaves the gateway in neither direction.

mod broken;

use serde_json::Value;

use super::DefinitionFile;
use crate::definition_id::DefinitionId;
use crate::private::{MASK, has_secret_word};
use crate::yaml;

impl DefinitionFile {
    /// The text, with `****` for what may be a secret. Comments stay, unless something beside the values looks like a
    /// secret, too. Of a text that is no YAML each line is shown as far as it is known to hold none. `None` where the file
    /// says something that is no definition, and so may be anything.
    pub fn shown_text(&self, which: &DefinitionId) -> Option<String> {
        let Some(value) = self.value(which) else { return Some(broken::shown(self.text())) };
        let shown = self.shown(which)?;
        if !shown.is_object() {
            return None;
        }
        let text = if value == shown { self.text().to_owned() } else { which.amended(self.text(), &shown) };
        Some(if has_secret_word(&text) { yaml::render(&shown) } else { text })
    }

    /// A text that was shown, with the values of the file in the place of each `****` that still stands where it stood.
    pub fn revealed(&self, which: &DefinitionId, text: &str) -> String {
        let revealed = || {
            let (given, value, shown) = (which.value(text)?, self.value(which)?, self.shown(which)?);
            let whole = put_back(&given, &shown, &value);
            (whole != given).then(|| which.amended(text, &whole))
        };
        match text.contains(MASK) {
            true if self.value(which).is_none() => broken::revealed(self.text(), text),
            true => revealed().unwrap_or_else(|| text.to_owned()),
            false => text.to_owned(),
        }
    }
}

/// What is given, where it is what is shown: what is there.
fn put_back(given: &Value, shown: &Value, there: &Value) -> Value {
    match (given, shown, there) {
        _ if given == shown => there.clone(),
        (Value::Object(given), Value::Object(shown), Value::Object(there)) => {
            let member = |(key, value): (&String, &Value)| {
                let value = match (shown.get(key), there.get(key)) {
                    (Some(shown), Some(there)) => put_back(value, shown, there),
                    _ => value.clone(),
                };
                (key.clone(), value)
            };
            given.iter().map(member).collect()
        }
        (Value::Array(given), Value::Array(shown), Value::Array(there)) => {
            let is_masked = |item: &Value| item.to_string().contains(MASK);
            let item = |(index, item): (usize, &Value)| {
                if !is_masked(item) {
                    return item.clone();
                }
                let mut places = (0..shown.len()).filter(|place| shown[*place] == *item);
                match (places.next(), places.next()) {
                    // One alone, wherever it stands now.
                    (Some(place), None) => there.get(place).unwrap_or(item).clone(),
                    _ if given.len() == shown.len() && shown[index] == *item => {
                        there.get(index).unwrap_or(item).clone()
                    }
                    _ => item.clone(),
                }
            };
            given.iter().enumerate().map(item).collect()
        }
        _ => given.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::kind::DefinitionKind;

    const FILE: &str = "name: a # it\ncommand: run\nargs: [--token=hunter2, -v]\n# where\nenv:\n  KEY: hunter3 # old\n  OTHER: \"env:OTHER\"\n";

    fn file(text: &str) -> (DefinitionFile, DefinitionId) {
        let which = DefinitionId::new(DefinitionKind::Server, "a").unwrap();
        (DefinitionFile::new(Path::new("servers/a.yaml"), text.to_owned()), which)
    }

    #[test]
    fn secrets_are_hidden_and_come_back_where_they_were() {
        let (file, which) = file(FILE);
        let shown = file.shown_text(&which).unwrap();
        assert!(!shown.contains("hunter") && shown.contains("# where") && shown.contains("name: a # it"), "{shown}");
        assert!(shown.contains("env:OTHER"), "{shown}");
        let value = |text: &str| which.value(text).unwrap();
        assert_eq!(value(&file.revealed(&which, &shown)), value(FILE));
        // A value that moved on its own keeps what it was; one that is new stays what it is, and is refused.
        let moved = shown.replace("\"-v\"]", "\"-v\", \"-q\"]").replace("command: run", "command: other");
        let revealed = file.revealed(&which, &moved);
        assert_eq!(value(&revealed)["args"], serde_json::json!(["--token=hunter2", "-v", "-q"]), "{revealed}");
        assert!(revealed.contains("# where"), "{revealed}");
        let new = shown.replace("  OTHER: \"env:OTHER\"", "  NEW: \"****\"");
        assert!(which.check(&file.revealed(&which, &new)).is_err());
        assert_eq!(file.revealed(&which, "no: {"), "no: {");
    }

    #[test]
    fn a_comment_that_holds_a_secret_is_not_shown() {
        let token = ["ghp", "0123456789abcdefghij"].join("_");
        let (file, which) = file(&format!("# was {token}\nname: a\ncommand: run # kept\n"));
        let shown = file.shown_text(&which).unwrap();
        assert!(!shown.contains("0123456789") && shown.contains("command: run"), "{shown}");
        let (link, which) = self::file("hunter2\n");
        assert_eq!(link.shown_text(&which), None);
    }

    #[test]
    fn a_text_that_is_no_yaml_is_shown_and_repaired_without_its_secrets() {
        let (file, which) = file("name: a\ncommand: [run\nenv:\n  KEY: hunter3 # old\n");
        let shown = file.shown_text(&which).unwrap();
        assert!(!shown.contains("hunter3") && shown.contains("command: [run"), "{shown}");
        let repaired = file.revealed(&which, &shown.replace("[run", "run"));
        assert_eq!(repaired, "name: a\ncommand: run\nenv:\n  KEY: hunter3 # old\n");
        assert!(which.check(&repaired).is_ok());
    }
}
