//! What became of scenarios.

use std::path::PathBuf;
use std::time::Duration;

/// How a scenario or a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as expected.
    Passed,
    /// Something is not.
    Failed,
    /// It was not run.
    Skipped,
    /// It could not be run: its file is wrong, the gateway did not start.
    Error,
}

/// One scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its name; the file's where it could not be read.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// How it ended.
    pub verdict: Verdict,
    /// Why, unless it passed.
    pub reason: Option<String>,
    /// The steps that were run, cleanups included.
    pub steps: Vec<StepOutcome>,
    /// What went wrong without counting.
    pub warnings: Vec<String>,
    /// How long it took.
    pub took: Duration,
    /// The last lines that the gateway logged, where something went wrong.
    pub log: Vec<String>,
    /// The home, where it was kept.
    pub home: Option<PathBuf>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct StepOutcome {
    /// Its id.
    pub id: String,
    /// The tool or the action.
    pub tool: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What is not as expected.
    pub reason: Option<String>,
    /// How often it was tried.
    pub tries: u32,
    /// How long it took.
    pub took: Duration,
}

/// How many ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// [`Verdict::Passed`]
    pub passed: usize,
    /// [`Verdict::Failed`]
    pub failed: usize,
    /// [`Verdict::Skipped`]
    pub skipped: usize,
    /// [`Verdict::Error`]
    pub errors: usize,
}

// === impl Verdict ===

impl Verdict {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Skipped => "skipped",
            Verdict::Error => "error",
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// One that has no steps.
    pub fn bare(name: &str, file: &std::path::Path, verdict: Verdict, reason: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            file: file.to_owned(),
            verdict,
            reason: Some(reason.into()),
            steps: Vec::new(),
            warnings: Vec::new(),
            took: Duration::ZERO,
            log: Vec::new(),
            home: None,
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Counts.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
        Self {
            passed: count(Verdict::Passed),
            failed: count(Verdict::Failed),
            skipped: count(Verdict::Skipped),
            errors: count(Verdict::Error),
        }
    }

    /// Whether nothing failed and everything could be run.
    pub fn is_good(self) -> bool {
        self.failed + self.errors == 0
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { passed, failed, skipped, errors } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped, {errors} errors")
    }
}
