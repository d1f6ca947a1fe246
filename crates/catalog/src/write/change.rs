//! A file before and after a write: what of it is shown, and the patch that makes the change elsewhere.

use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::policies::POLICIES;
use super::{DefinitionFile, settings};
use crate::clients::difference as lines_that_differ;
use crate::definition_id::DefinitionId;
use crate::kind::DefinitionKind;
use crate::private::{MASK, has_secret_word};
use crate::yaml;

/// Unchanged lines around a change of a patch.
const AROUND: usize = 3;

/// A file before and after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the home folder.
    pub file: PathBuf,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Option<Vec<u8>>,
}

// === impl FileChange ===

impl FileChange {
    pub(super) fn new(file: &Path, before: Option<Vec<u8>>, after: Option<&str>) -> Self {
        Self { file: file.to_owned(), before, after: after.map(|text| text.as_bytes().to_vec()) }
    }

    /// The change that takes this one back.
    pub(super) fn reversed(&self) -> Self {
        Self { file: self.file.clone(), before: self.after.clone(), after: self.before.clone() }
    }

    /// `added`, `changed` or `removed`.
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(_), Some(_)) => "changed",
        }
    }

    /// The lines that change, secrets as `****`; empty where there are none.
    pub fn difference(&self) -> String {
        difference(&self.file, self.before.as_deref(), self.after.as_deref())
    }

    /// What the file said before, secrets as `****`.
    pub fn shown_before(&self) -> String {
        let text = self.before.as_ref().map(|bytes| String::from_utf8_lossy(bytes));
        text.map_or_else(String::new, |text| {
            shown(&self.file, &text).map_or_else(|| masked(&self.file, &text), Into::into)
        })
    }

    /// The change as `patch -p1` and `git apply` take it in the home folder; `None` where something in the file may be a
    /// secret, or it is no text.
    pub fn patch(&self) -> Option<String> {
        let read = |bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => {
                let text = String::from_utf8(bytes.clone()).ok()?;
                shown(&self.file, &text)?;
                Some(Some(text))
            }
            None => Some(None),
        };
        unified(self.file.to_str()?, read(&self.before)?.as_deref(), read(&self.after)?.as_deref())
    }

    pub(super) fn to_value(&self) -> Value {
        let encoded = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
        json!({ "file": self.file.to_string_lossy(), "before": encoded(&self.before), "after": encoded(&self.after) })
    }

    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let decoded = |key: &str| match value.get(key) {
            Some(Value::String(text)) => STANDARD.decode(text).ok().map(Some),
            _ => Some(None),
        };
        let file = PathBuf::from(value["file"].as_str()?);
        is_below_home(&file).then_some(Self { file, before: decoded("before")?, after: decoded("after")? })
    }

    pub(super) fn size(&self) -> usize {
        [&self.before, &self.after].into_iter().flatten().map(Vec::len).sum()
    }
}

/// Whether a path of a record leads to no place but one below the home folder.
pub(super) fn is_below_home(file: &Path) -> bool {
    file.components().all(|part| matches!(part, Component::Normal(_)))
}

/// The lines that differ in two texts of a file, secrets as `****`.
pub(super) fn difference(file: &Path, before: Option<&[u8]>, after: Option<&[u8]>) -> String {
    let both = [before, after].map(|bytes| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
    let has_secret = both.iter().flatten().any(|text| shown(file, text).is_none());
    let text = |text: &Option<String>| match text {
        Some(text) if has_secret => masked(file, text),
        Some(text) => text.clone(),
        None => String::new(),
    };
    lines_that_differ(&text(&both[0]), &text(&both[1]), &str::to_owned)
}

/// The definition that a file is of.
fn definition(file: &Path) -> Option<DefinitionId> {
    let folder = file.parent()?.to_str()?;
    let kind = DefinitionKind::ALL.iter().copied().find(|kind| kind.folder() == folder)?;
    DefinitionId::new(kind, file.file_stem()?.to_str()?).ok()
}

/// The text as it is, where nothing in it may be a secret.
fn shown<'a>(file: &Path, text: &'a str) -> Option<&'a str> {
    if file == Path::new(settings::FILE) {
        return (settings::masked(text) == text).then_some(text);
    }
    // Policies have no place for secrets.
    let is_policy = file.parent() == Some(Path::new(POLICIES));
    let says_all = || {
        let which = definition(file)?;
        let written = DefinitionFile::new(file, text.to_owned());
        Some(written.value(&which)? == written.shown(&which)?)
    };
    let is_open = (is_policy || says_all()?) && !has_secret_word(text);
    is_open.then_some(text)
}

/// What a text says, without its comments and with `****` for what may be a secret.
fn masked(file: &Path, text: &str) -> String {
    if file == Path::new(settings::FILE) {
        return settings::masked(text);
    }
    let value = definition(file).and_then(|which| DefinitionFile::new(file, text.to_owned()).shown(&which));
    value.filter(Value::is_object).map_or_else(|| format!("{MASK}\n"), |value| yaml::render(&value))
}

/// A patch of one hunk; `None` where nothing changes.
fn unified(file: &str, before: Option<&str>, after: Option<&str>) -> Option<String> {
    if before == after {
        return None;
    }
    let lines = |text: Option<&'_ str>| -> Vec<String> {
        text.unwrap_or_default().split_inclusive('\n').map(str::to_owned).collect()
    };
    let (old, new) = (lines(before), lines(after));
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let from = same.saturating_sub(AROUND);
    let after_change = tail.min(AROUND);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => format!("{side}/{file}"),
        None => "/dev/null".to_owned(),
    };
    // A range without lines names the line before it.
    let range = |end: usize| match end + after_change - from {
        0 => format!("{from},0"),
        count => format!("{},{count}", from + 1),
    };
    let mut patch =
        format!("--- {}\n+++ {}\n@@ -{} +{} @@\n", name("a", before), name("b", after), range(old_end), range(new_end));
    let mut put = |mark: char, lines: &[String]| {
        for line in lines {
            patch.push(mark);
            patch.push_str(line);
            if !line.ends_with('\n') {
                patch.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    put(' ', &old[from..same]);
    put('-', &old[same..old_end]);
    put('+', &new[same..new_end]);
    put(' ', &old[old_end..old_end + after_change]);
    Some(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a text becomes by a patch of one hunk, which must fit it.
    fn applied(before: &str, patch: &str) -> String {
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        let mut rest = patch.split_inclusive('\n').skip(2);
        let range = rest.next().unwrap().strip_prefix("@@ -").unwrap();
        let (start, count) = range.split(' ').next().unwrap().split_once(',').unwrap();
        let (start, count): (usize, usize) = (start.parse().unwrap(), count.parse().unwrap());
        let from = if count == 0 { start } else { start - 1 };
        let mut after: Vec<String> = lines[..from].iter().map(|line| (*line).to_owned()).collect();
        let mut at = from;
        let mut rest = rest.peekable();
        while let Some(line) = rest.next() {
            let mut text = line[1..].to_owned();
            if rest.next_if(|next| next.starts_with('\\')).is_some() {
                text.pop();
            }
            if !line.starts_with('+') {
                assert_eq!(lines[at], text, "it fits");
                at += 1;
            }
            if !line.starts_with('-') {
                after.push(text);
            }
        }
        assert_eq!(at, from + count);
        after.extend(lines[at..].iter().map(|line| (*line).to_owned()));
        after.concat()
    }

    fn text() -> impl Strategy<Value = String> {
        let line = prop_oneof![Just("a\n"), Just("b\n"), Just("\n"), Just("c\r\n"), Just("- \\ +\n")];
        (prop::collection::vec(line, 0..12), prop_oneof![Just(""), Just("end"), Just("\r")])
            .prop_map(|(lines, end)| lines.concat() + end)
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_change(before in text(), after in text()) {
            let patch = unified("a.yaml", Some(&before), Some(&after));
            prop_assert_eq!(patch.is_none(), before == after);
            if let Some(patch) = patch {
                prop_assert_eq!(applied(&before, &patch), after);
            }
        }
    }

    #[test]
    fn files_that_come_and_go_are_named_so() {
        let added = unified("a.yaml", None, Some("x\n")).unwrap();
        assert_eq!(added, "--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1,1 @@\n+x\n");
        let removed = unified("a.yaml", Some("x"), None).unwrap();
        assert_eq!(removed, "--- a/a.yaml\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n\\ No newline at end of file\n");
        assert_eq!(applied("x", &removed), "");
    }

    #[test]
    fn what_may_be_a_secret_is_in_no_patch() {
        let change = |text: &str| FileChange::new(Path::new("servers/a.yaml"), None, Some(text));
        assert!(change("name: a\ncommand: x\n").patch().is_some());
        assert_eq!(change("name: a\ncommand: x\nenv: {API_KEY: hunter2}\n").patch(), None);
        let binary = FileChange { after: Some(vec![0xFF]), ..change("") };
        assert_eq!(binary.patch(), None);
    }
}
