//! What came of trying the products: passed, failed with why, or skipped by name with what the machine lacks.

use anyhow::Result;

/// How one trial ended.
#[derive(Debug, PartialEq, Eq)]
enum TrialEnd {
    Passed,
    Failed(String),
    Skipped(String),
}

/// All trials of one run.
#[derive(Debug, Default)]
pub struct Trials {
    product: &'static str,
    ended: Vec<(&'static str, String, TrialEnd)>,
}

// === impl Trials ===

impl Trials {
    /// The trials that follow belong to this product.
    pub fn product(&mut self, name: &'static str) {
        self.product = name;
    }

    /// Runs a trial, and says how it ended.
    pub fn run(&mut self, name: &str, trial: impl FnOnce() -> Result<()>) {
        match trial() {
            Ok(()) => self.end(name, TrialEnd::Passed),
            Err(error) => self.failed(name, &format!("{error:#}")),
        }
    }

    pub fn failed(&mut self, name: &str, why: &str) {
        self.end(name, TrialEnd::Failed(why.to_owned()));
    }

    /// What this machine cannot do.
    pub fn skipped(&mut self, name: &str, why: &str) {
        self.end(name, TrialEnd::Skipped(why.to_owned()));
    }

    fn end(&mut self, name: &str, end: TrialEnd) {
        match &end {
            TrialEnd::Passed => println!("    ok       {name}"),
            TrialEnd::Failed(why) => println!("    FAILED   {name}: {why}"),
            TrialEnd::Skipped(why) => println!("    skipped  {name}: {why}"),
        }
        self.ended.push((self.product, name.to_owned(), end));
    }

    /// Prints what was skipped and what failed once more, and the counts. Whether nothing failed.
    pub fn print(&self) -> bool {
        let count = |is: fn(&TrialEnd) -> bool| self.ended.iter().filter(|(_, _, end)| is(end)).count();
        let passed = count(|end| *end == TrialEnd::Passed);
        let failed = count(|end| matches!(end, TrialEnd::Failed(_)));
        let skipped = count(|end| matches!(end, TrialEnd::Skipped(_)));
        for (product, name, end) in &self.ended {
            match end {
                TrialEnd::Passed => {}
                TrialEnd::Failed(_) => println!("FAILED: {product}: {name}"),
                TrialEnd::Skipped(why) => println!("skipped: {product}: {name}: {why}"),
            }
        }
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        failed == 0 && passed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_good_when_something_passed_and_nothing_failed() {
        let mut trials = Trials::default();
        trials.skipped("one", "no rpm here");
        assert!(!trials.print());
        trials.run("two", || Ok(()));
        assert!(trials.print());
        trials.run("three", || anyhow::bail!("broken"));
        assert!(!trials.print());
    }
}
