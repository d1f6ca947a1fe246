//! The list of expected failures: a scenario that is on it must fail, and says why it may.

use std::path::Path;

use crate::document;
use crate::outcome::{Outcome, Verdict};
use crate::wrong::Wrong;

/// Names and reasons.
#[derive(Debug, Clone, Default)]
pub struct Expectations(Vec<(String, String)>);

// === impl Expectations ===

impl Expectations {
    /// Reads a list of `{name, reason}`.
    ///
    /// # Errors
    /// What is wrong with the first entry that is wrong.
    pub fn read(file: &Path, text: &str) -> Result<Self, Wrong> {
        let wrong = |line, message: &str| {
            let hint = Some("a list of `{name: …, reason: …}`".to_owned());
            Wrong { file: file.to_owned(), line, path: String::new(), message: message.to_owned(), hint }
        };
        let root = document::parse(file, text).map_err(|found| wrong(found.line, &found.message))?;
        if !root.is_null() && !root.is_list() {
            return Err(wrong(root.at.line, "expected a list"));
        }
        let mut entries = Vec::new();
        for item in root.items() {
            let value = item.value();
            let word = |key: &str| value[key].as_str().filter(|word| !word.trim().is_empty()).map(str::to_owned);
            let (Some(name), Some(reason)) = (word("name"), word("reason")) else {
                return Err(wrong(item.at.line, "expected a name and a reason"));
            };
            if value.as_object().map_or(0, serde_json::Map::len) != 2 {
                return Err(wrong(item.at.line, "expected nothing but a name and a reason"));
            }
            entries.push((name, reason));
        }
        Ok(Self(entries))
    }

    /// Names on the list that no scenario has.
    pub fn unknown<'a>(&'a self, names: &[&str]) -> Vec<&'a str> {
        self.0.iter().map(|(name, _)| name.as_str()).filter(|name| !names.contains(name)).collect()
    }

    /// A failure that was expected is skipped with its reason, a success that was not expected fails.
    pub(crate) fn judge(&self, outcome: Outcome) -> Outcome {
        let Some((_, reason)) = self.0.iter().find(|(name, _)| *name == outcome.name) else { return outcome };
        let (verdict, reason) = match outcome.verdict {
            Verdict::Failed => {
                let failure = outcome.reason.as_deref().unwrap_or_default();
                (Verdict::Skipped, format!("fails as expected ({reason}): {failure}"))
            }
            Verdict::Passed => (Verdict::Failed, format!("passes, but is on the list of expected failures: {reason}")),
            Verdict::Skipped | Verdict::Error => return outcome,
        };
        Outcome { verdict, reason: Some(reason), ..outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, verdict: Verdict) -> Outcome {
        Outcome::bare(name, Path::new("x.yaml"), verdict, "why")
    }

    #[test]
    fn an_expected_failure_is_skipped_and_an_unexpected_success_fails() {
        let list = Expectations::read(Path::new("e.yaml"), "- {name: a, reason: pins a fault}\n").unwrap();
        let judged = list.judge(outcome("a", Verdict::Failed));
        assert_eq!(judged.verdict, Verdict::Skipped);
        assert_eq!(judged.reason.unwrap(), "fails as expected (pins a fault): why");
        assert_eq!(list.judge(outcome("a", Verdict::Passed)).verdict, Verdict::Failed);
        assert_eq!(list.judge(outcome("a", Verdict::Error)).verdict, Verdict::Error);
        assert_eq!(list.judge(outcome("b", Verdict::Failed)).verdict, Verdict::Failed);
        assert_eq!(list.unknown(&["b"]), ["a"]);
        assert!(list.unknown(&["a"]).is_empty());
    }

    #[test]
    fn an_entry_without_a_reason_is_wrong() {
        for (text, line) in
            [("- {name: a}", 1), ("- {name: a, reason: b}\n- a\n", 2), ("a: b", 1), ("- {name: a, reason: b, x: 1}", 1)]
        {
            assert_eq!(Expectations::read(Path::new("e.yaml"), text).unwrap_err().line, line, "{text}");
        }
        assert!(Expectations::read(Path::new("e.yaml"), "").is_ok());
    }
}
