//! Where the time of a run went: how long each step took, and which packages cargo compiled more than once in it.

use std::collections::BTreeMap;
use std::time::Duration;

/// More names than this say no more.
const NAMES_SHOWN: usize = 12;

/// One step that has ended.
#[derive(Debug)]
struct Entry {
    step: &'static str,
    took: Duration,
    /// `Compiling name v1.0` and `Checking name v1.0`, as cargo printed them.
    compiled: Vec<String>,
}

/// The steps of a run so far.
#[derive(Debug, Default)]
pub struct Account {
    entries: Vec<Entry>,
}

// === impl Account ===

impl Account {
    pub fn add(&mut self, step: &'static str, took: Duration, compiled: Vec<String>) {
        self.entries.push(Entry { step, took, compiled });
    }

    /// A line for each step, and one for what was compiled more than once for the same purpose.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.entries.iter().map(Entry::line).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for compiled in self.entries.iter().flat_map(|entry| &entry.compiled) {
            *counts.entry(compiled).or_default() += 1;
        }
        let twice: Vec<&str> = counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
        if !twice.is_empty() {
            let shown: Vec<&str> = twice.iter().take(NAMES_SHOWN).copied().collect();
            let more = if twice.len() > shown.len() { ", …" } else { "" };
            lines.push(format!("compiled more than once: {} packages: {}{more}", twice.len(), shown.join(", ")));
        }
        lines
    }
}

impl Entry {
    fn line(&self) -> String {
        let compiled = match self.compiled.len() {
            0 => String::new(),
            count => format!("  {count} packages compiled or checked"),
        };
        format!("{:11} {:7.1} s{compiled}", self.step, self.took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_a_line_and_repeated_work_is_named() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut account = Account::default();
        account.add("lint", Duration::from_millis(1_500), names(&["Checking a v1", "Checking b v1"]));
        assert_eq!(account.lines(), ["lint            1.5 s  2 packages compiled or checked"]);
        account.add("doc", Duration::from_secs(2), Vec::new());
        account.add("real", Duration::from_secs(60), names(&["Checking b v1", "Compiling a v1"]));
        assert_eq!(
            account.lines()[1..],
            [
                "doc             2.0 s",
                "real           60.0 s  2 packages compiled or checked",
                "compiled more than once: 1 packages: Checking b v1",
            ]
        );
    }
}
