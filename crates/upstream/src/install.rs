//! Programs that download what they run at their first start: how long that may take, whether it gets on, and what it
//! leaves in the runner's cache when it is ended half way.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolcrib_transport::process::StderrTail;

use crate::stderr::latest;

/// How long a program that is ended while it installs may take to clean up after SIGTERM.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(10);
/// How long it may take before SIGTERM: an installer does not end because stdin was closed.
pub(crate) const CLOSING: Duration = Duration::from_millis(200);
/// How many lines of stderr are looked at.
pub(crate) const LINES: usize = 200;

/// What is known of a program that installs what it runs.
#[derive(Debug, Clone)]
pub struct Installer {
    /// The program that installs, as people call it: `npx`.
    pub runner: String,
    /// How long it may take in any case.
    pub least: Duration,
    /// After that: how long nothing may happen.
    pub quiet: Duration,
    /// How long it may take at most.
    pub most: Duration,
    /// How often is looked whether something happens.
    pub look: Duration,
    /// Where it installs to.
    pub cache: Arc<dyn InstallCache>,
}

/// The cache of a package runner. The functions read the disk.
pub trait InstallCache: fmt::Debug + Send + Sync {
    /// A number that changes when something is written into the cache.
    fn stamp(&self) -> u64;

    /// The entry that an installation which has ended left half written. `stderr` is what it wrote last.
    fn half_written(&self, stderr: &[String]) -> Option<HalfWritten>;
}

/// An entry of a runner's cache from which no program can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HalfWritten {
    /// The folder of the entry.
    pub path: PathBuf,
    /// What is wrong with it, as a fragment.
    pub why: String,
}

impl Installer {
    /// The usual times: two minutes, as long as something happens each minute, a quarter of an hour at most.
    pub fn new(runner: impl Into<String>, cache: Arc<dyn InstallCache>) -> Self {
        Self {
            runner: runner.into(),
            least: Duration::from_secs(120),
            quiet: Duration::from_secs(60),
            most: Duration::from_secs(15 * 60),
            look: Duration::from_secs(1),
            cache,
        }
    }

    /// The same with a time that someone wrote down: no more and no less.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { least: time, quiet: Duration::ZERO, most: time, ..self }
    }

    /// Ends when the program has had its time, and gives how long that was. What it says in the meantime goes to
    /// `tell`.
    pub(crate) async fn out_of_time(&self, stderr: &StderrTail, tell: impl Fn(String)) -> Duration {
        let begun = Instant::now();
        let (mut progress, mut seen) = (begun, (0, 0));
        loop {
            sleep(self.look.min(self.most.saturating_sub(begun.elapsed()))).await;
            let cache = Arc::clone(&self.cache);
            let stamp = tokio::task::spawn_blocking(move || cache.stamp()).await.unwrap_or(seen.1);
            let now = (stderr.written(), stamp);
            if now != seen {
                (progress, seen) = (Instant::now(), now);
            }
            if let Some(line) = latest(&stderr.last(LINES)) {
                tell(line.to_owned());
            }
            let took = begun.elapsed();
            if took >= self.most || (took >= self.least && progress.elapsed() >= self.quiet) {
                return took;
            }
        }
    }
}

/// A variable that the programs we start inherit from us; `more` are the names of those that one of them gets beside.
pub fn inherited_variable(name: &str, more: &[String]) -> Option<String> {
    let mut inherited = toolcrib_transport::process::inherited(std::env::vars_os(), more);
    inherited.find(|(inherited, _)| inherited == name).and_then(|(_, value)| value.into_string().ok())
}

/// What is said of an entry after what failed.
pub(crate) fn told(half: &HalfWritten) -> String {
    format!("; `{}` in the cache is incomplete: {}", half.path.display(), half.why)
}
