//! What bridging cannot do: one file for each cell that may have it, in the format of the suite's own baselines.
//!
//! ```yaml
//! server:
//!   # why it cannot be
//!   - scenario
//!   # why only this check
//!   - scenario:check-id
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::cell::Cell;
use super::judge::Scenario;

/// Failures that a cell may have, and has to have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExpectedFailures {
    entries: Vec<Entry>,
}

/// A scenario, or one check of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub scenario: String,
    pub check: Option<String>,
}

// === impl Entry ===

impl Entry {
    pub fn covers(&self, scenario: &str, check: &str) -> bool {
        self.scenario == scenario && self.check.as_ref().is_none_or(|own| own == check)
    }

    pub fn text(&self) -> String {
        match &self.check {
            Some(check) => format!("{}:{check}", self.scenario),
            None => self.scenario.clone(),
        }
    }
}

// === impl ExpectedFailures ===

impl ExpectedFailures {
    /// The cell's file; an absent one expects nothing. A cell within one era may not have one.
    pub fn read(folder: &Path, cell: &Cell) -> Result<Self> {
        let path = folder.join(format!("{}.yaml", cell.name));
        if !path.exists() {
            return Ok(Self::default());
        }
        ensure!(cell.may_expect_failures(), "`{}` may not be: nothing may fail in that cell", path.display());
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
        Self::parse(&text).with_context(|| format!("`{}` is wrong", path.display()))
    }

    /// Only the entries of these scenarios.
    pub fn only(mut self, scenarios: &[Scenario]) -> Self {
        self.entries.retain(|entry| scenarios.iter().any(|scenario| scenario.name == entry.scenario));
        self
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn parse(text: &str) -> Result<Self> {
        let mut entries = Vec::new();
        let mut reason = false;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || matches!(line, "server:" | "server: []" | "client:") {
                reason = false;
            } else if line.starts_with('#') {
                reason = true;
            } else if let Some(entry) = line.strip_prefix("- ") {
                ensure!(reason, "line {}: the entry has no comment above it that says why", index + 1);
                let (scenario, check) = match entry.trim().split_once(':') {
                    Some((scenario, check)) => (scenario, Some(check.to_owned())),
                    None => (entry.trim(), None),
                };
                entries.push(Entry { scenario: scenario.to_owned(), check });
            } else {
                bail!("line {}: `{line}` is neither `server:` nor `client:` nor a comment nor an entry", index + 1);
            }
        }
        Ok(Self { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_need_a_reason() {
        let text = "# About the file.\n\nserver:\n  # the old era has no code for it\n  - ping\n  - caching:ttl\n";
        let expected = ExpectedFailures::parse(text).unwrap();
        let texts: Vec<String> = expected.entries().iter().map(Entry::text).collect();
        assert_eq!(texts, ["ping", "caching:ttl"]);
        assert!(expected.entries()[0].covers("ping", "any") && !expected.entries()[1].covers("caching", "other"));
        assert!(ExpectedFailures::parse("server:\n  - ping\n").unwrap_err().to_string().contains("line 2"));
        assert!(ExpectedFailures::parse("clients:\n").is_err());
    }
}
