//! How a step of the tests ends, who runs it, and how long its programs may take. What the steps are is `steps.rs`.

use std::ops::AddAssign;
use std::time::Duration;

use anyhow::Result;

use crate::tally::Tally;

/// No single program of a step runs longer: a cold build on two cores fits several times.
pub const STEP_DEADLINE: Duration = Duration::from_secs(40 * 60);

/// Who runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Person,
    Machine,
}

/// How a step ended. `failed` and the tally are apart because a lint that fails is not a test.
#[derive(Debug)]
pub struct Verdict {
    pub failed: bool,
    pub tally: Tally,
    /// Said again at the end: what was skipped or what to do.
    pub remarks: Vec<String>,
}

// === impl Verdict ===

impl Verdict {
    /// For steps that only succeed or fail.
    pub fn plain(success: bool) -> Self {
        Self { failed: !success, tally: Tally::default(), remarks: Vec::new() }
    }

    /// For test runners: they fail when their program fails, also when it counted nothing.
    pub fn counted(success: bool, tally: Tally) -> Self {
        Self { failed: !success || tally.failed > 0, tally, remarks: Vec::new() }
    }

    /// Runs `suite` of other people's programs, and once more when it fails: they have their own races, and a shared
    /// machine stalls. What passes only then is named, not hidden; `suite` gives the names of what failed.
    pub fn repeated(name: &str, mut suite: impl FnMut() -> Result<(Self, Vec<String>)>) -> Result<Self> {
        let (first, failed) = suite()?;
        if !first.failed {
            return Ok(first);
        }
        println!("--> `{name}` failed and is run once more");
        let (mut second, _) = suite()?;
        if !second.failed {
            let failed = if failed.is_empty() { name.to_owned() } else { failed.join(", ") };
            second.remarks.push(format!("{failed} passed only when `{name}` was repeated"));
        }
        Ok(second)
    }
}

impl AddAssign for Verdict {
    fn add_assign(&mut self, other: Self) {
        self.failed |= other.failed;
        self.tally += other.tally;
        self.remarks.extend(other.remarks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_run_once_more_and_named() {
        let mut runs = 0;
        let mut suite = |bad: usize| {
            runs = 0;
            let verdict = Verdict::repeated("cell", || {
                runs += 1;
                let tally = if runs <= bad { Tally::FAILED } else { Tally::PASSED };
                Ok((Verdict::counted(true, tally), vec!["a::b".to_owned()]))
            });
            (verdict.unwrap(), runs)
        };
        let (verdict, runs) = suite(0);
        assert!(!verdict.failed && verdict.remarks.is_empty() && runs == 1);
        let (verdict, runs) = suite(1);
        assert!(!verdict.failed && runs == 2);
        assert_eq!(verdict.remarks, ["a::b passed only when `cell` was repeated"]);
        let (verdict, runs) = suite(2);
        assert!(verdict.failed && verdict.remarks.is_empty() && runs == 2);
    }
}
