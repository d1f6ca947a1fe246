//! `config.toml`: written like definitions, so that a change is shown first and can be undone.

use std::cmp::Reverse;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use toml_edit::{Document, Item, Value};

use super::change::FileChange;
use super::{Files, WriteError, text_of};
use crate::folder::FILE_MAX;
use crate::private::{MASK, has_secret_word, is_harmless, is_secret_name, looks_secret};
use crate::secret::SecretRef;

/// Its path below the home folder.
pub(super) const FILE: &str = "config.toml";

impl Files {
    /// Gives `config.toml` the text that `change` makes of the one that is there; of an empty one where there is no file.
    ///
    /// # Errors
    /// What `change` says; the file is not an ordinary one, or cannot be read or written.
    pub fn change_settings<E: From<WriteError>>(
        &self,
        change: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<PathBuf, E> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file = Path::new(FILE);
        let before = self.ordinary(file, FILE_MAX)?;
        let text = text_of(file, before.as_deref().unwrap_or_default())?;
        let after = change(text)?;
        if before.as_deref() == Some(after.as_bytes()) {
            return Ok(file.to_owned());
        }
        let mode = before.as_ref().map(|_| self.mode(file));
        let changes = [FileChange::new(file, before, Some(&after))];
        self.make(&changes, || self.put(file, &after, mode))?;
        Ok(file.to_owned())
    }
}

/// The text with `****` for what may be a secret; nothing else where it cannot be read.
pub(super) fn masked(text: &str) -> String {
    let everything = || format!("{MASK}\n");
    let Ok(document) = Document::parse(text) else { return if text.is_empty() { String::new() } else { everything() } };
    let mut secrets = Vec::<Option<Range<usize>>>::new();
    for (key, item) in document.as_table().iter() {
        collect(item, is_secret_name(key), &mut secrets);
    }
    let Some(mut secrets) = secrets.into_iter().collect::<Option<Vec<_>>>() else { return everything() };
    // From the end, so that places before stay where they are.
    secrets.sort_by_key(|place| Reverse(place.start));
    let mut masked = text.to_owned();
    for place in secrets {
        masked.replace_range(place, &format!("\"{MASK}\""));
    }
    // A setting that was commented out is no less a secret.
    let is_secret = |line: &str| {
        let setting = line.trim_start().strip_prefix('#').and_then(|comment| comment.split_once('='));
        setting.is_some_and(|(key, value)| is_secret_name(key.trim()) && !is_harmless(value.trim()))
    };
    if masked.lines().any(is_secret) || has_secret_word(&masked) {
        return everything();
    }
    masked
}

/// The places of texts that may be secrets; `None` of one whose place is not known. `is_named` says that a key on the way is named like one.
fn collect(item: &Item, is_named: bool, secrets: &mut Vec<Option<Range<usize>>>) {
    match item {
        Item::None => {}
        Item::Value(value) => collect_value(value, is_named, secrets),
        Item::Table(table) => {
            for (key, item) in table.iter() {
                collect(item, is_named || is_secret_name(key), secrets);
            }
        }
        Item::ArrayOfTables(tables) => {
            for (key, item) in tables.iter().flat_map(toml_edit::Table::iter) {
                collect(item, is_named || is_secret_name(key), secrets);
            }
        }
    }
}

fn collect_value(value: &Value, is_named: bool, secrets: &mut Vec<Option<Range<usize>>>) {
    match value {
        Value::String(string) => {
            let text = string.value();
            let is_reference = text.parse().is_ok_and(|parsed| !matches!(parsed, SecretRef::Literal(_)));
            if !is_reference && !is_harmless(text) && (is_named || looks_secret(text)) {
                secrets.push(string.span());
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_value(value, is_named, secrets)),
        Value::InlineTable(table) => {
            for (key, value) in table.iter() {
                collect_value(value, is_named || is_secret_name(key), secrets);
            }
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn settings_are_shown_without_what_may_be_a_secret() {
        let shaped = ["sk", "0123456789"].join("-");
        for (text, shown) in [
            ("", String::new()),
            ("# mine\nlisten = '127.0.0.1:1'\n", "# mine\nlisten = '127.0.0.1:1'\n".to_owned()),
            (
                "hook = {token = 'env:HOOK', key = 'hunter2'}\n",
                "hook = {token = 'env:HOOK', key = \"****\"}\n".to_owned(),
            ),
            ("[a.secrets]\nb = ['hunter2']\n", "[a.secrets]\nb = [\"****\"]\n".to_owned()),
            ("token = 'a\\b'\n", "token = \"****\"\n".to_owned()),
            ("token = \"hun\\u0074er2\"\nb = 1\n", "token = \"****\"\nb = 1\n".to_owned()),
            (&format!("x = '{shaped}'\n"), "x = \"****\"\n".to_owned()),
            (&format!("# was {shaped}\nx = 1\n"), "****\n".to_owned()),
            ("# token = 'hunter2'\n", "****\n".to_owned()),
            ("token =", "****\n".to_owned()),
        ] {
            assert_eq!(masked(text), shown, "{text}");
        }
    }

    #[test]
    fn settings_are_written_as_they_are_seen_and_undone() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path());
        let path = home.path().join(FILE);
        let add = |text: &str| Ok::<_, WriteError>(format!("{text}depth = 3\n"));
        files.change_settings(add).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "depth = 3\n");
        files.undo(&files.writes()[0].id).unwrap();
        assert!(!path.exists());
        fs::write(&path, "# mine\n").unwrap();
        files.change_settings(add).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\ndepth = 3\n");
        let written = &files.writes()[0];
        assert_eq!((written.files[0].file.as_path(), written.files[0].change), (Path::new(FILE), "changed"));
        files.undo(&written.id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\n");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(files.change_settings(add), Err(WriteError::NotOurs(_))));
    }
}
