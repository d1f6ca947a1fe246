//! How a service is, as a value: what each thing that happens to it makes of its state and its health. No time passes
//! here and nothing is called.

use serde_json::{Map, Value};
use toolcrib_base::Timestamp;

/// What a service is doing, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// It may run or not: anyone who started it before can be asked no more.
    Unknown,
    /// It is to be started or examined once its tools are there.
    Waiting,
    Starting,
    Running,
    Stopping,
    Stopped,
    /// Its start, its stop or its restart failed; what is left of it no one has said.
    Failed,
}

/// Whether it does what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Health {
    Unknown,
    Healthy,
    /// A check failed, not yet often enough to be sure.
    Degraded,
    Unhealthy,
    /// It is being examined for the first time.
    Checking,
}

/// How a service is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Life {
    pub(super) state: State,
    pub(super) health: Health,
    /// What went wrong last; cleared by what goes well.
    pub(super) error: Option<String>,
    /// What was taken out of the answers of its tools, by tool: `start`, `stop`, `restart`, `status`, `healthCheck`.
    pub(super) kept: Map<String, Value>,
    /// The outputs of its class.
    pub(super) outputs: Map<String, Value>,
    /// When its state changed last.
    pub(super) updated: Timestamp,
    /// When it was examined last.
    pub(super) checked: Option<Timestamp>,
    /// In a row.
    pub(super) failures: u32,
    /// In a row.
    pub(super) successes: u32,
}

/// After how many checks in a row its health is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thresholds {
    pub(super) failure: u32,
    pub(super) success: u32,
}

/// Something that happens to a service.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Turn {
    /// Someone wants it to run; its tools are not there yet.
    Awaits(String),
    Starts,
    Started {
        kept: Map<String, Value>,
        outputs: Map<String, Value>,
    },
    Restarts,
    Restarted {
        kept: Map<String, Value>,
        outputs: Map<String, Value>,
    },
    Stops,
    Stopped {
        kept: Map<String, Value>,
    },
    /// Its start or restart did not succeed.
    Failed {
        what: &'static str,
        error: String,
    },
    /// Its stop did not succeed; `runs` is what its own tool says of it since, where there is one.
    StopFailed {
        error: String,
        runs: Option<bool>,
    },
    /// It is examined for the first time since it is not known how it is.
    Examining,
    /// A check has ended, well or badly.
    Examined {
        with: &'static str,
        found: Result<Map<String, Value>, String>,
    },
    /// It is not known how it is.
    Lost(String),
}

/// Something to emit: the reason of an event and what follows the service's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) warning: bool,
}

// === impl State ===

impl State {
    const ALL: [Self; 7] =
        [Self::Unknown, Self::Waiting, Self::Starting, Self::Running, Self::Stopping, Self::Stopped, Self::Failed];

    /// The word for it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// The state of a word.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether something of it may be there, so that what it depends on is needed.
    pub(super) const fn needs_others(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping)
    }
}

impl Health {
    /// The word for it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
            Self::Checking => "checking",
        }
    }
}

// === impl Life ===

impl Life {
    /// One that was never started.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            state: State::Stopped,
            health: Health::Unknown,
            error: None,
            kept: Map::new(),
            outputs: Map::new(),
            updated: now,
            checked: None,
            failures: 0,
            successes: 0,
        }
    }

    /// What is known of one after the gateway was started again: of what ran then it is not known how it is now.
    pub(super) fn after_restart(mut self) -> Self {
        match self.state {
            State::Stopped | State::Failed => {}
            _ => (self.state, self.health) = (State::Unknown, Health::Unknown),
        }
        (self.failures, self.successes) = (0, 0);
        self
    }

    /// Takes what happened; gives what there is to tell of it.
    pub(super) fn take(&mut self, turn: Turn, thresholds: Thresholds, now: Timestamp) -> Vec<Note> {
        let before = (self.state, self.health);
        let mut notes = match turn {
            Turn::Awaits(why) => {
                (self.state, self.health, self.error) = (State::Waiting, Health::Unknown, Some(why.clone()));
                vec![note("StateChanged", format!("waits: {why}"))]
            }
            Turn::Starts => {
                self.state = State::Starting;
                vec![note("Starting", "is being started")]
            }
            Turn::Started { kept, outputs } => {
                self.runs("start", kept, outputs, thresholds);
                vec![note("Started", "runs")]
            }
            Turn::Restarts => {
                self.state = State::Starting;
                vec![note("Restarting", "is being restarted")]
            }
            Turn::Restarted { kept, outputs } => {
                self.runs("restart", kept, outputs, thresholds);
                vec![note("Restarted", "runs again")]
            }
            Turn::Stops => {
                self.state = State::Stopping;
                vec![note("Stopping", "is being stopped")]
            }
            Turn::Stopped { kept } => {
                (self.state, self.health, self.error) = (State::Stopped, Health::Unknown, None);
                (self.failures, self.successes) = (0, 0);
                self.keep("stop", kept);
                vec![note("Stopped", "is stopped")]
            }
            Turn::Failed { what, error } => {
                let message = format!("failed to {what}: {error}");
                (self.state, self.health, self.error) = (State::Failed, Health::Unhealthy, Some(message.clone()));
                vec![warning("Failed", message)]
            }
            Turn::StopFailed { error, runs } => {
                let message = format!("failed to stop: {error}");
                self.error = Some(message.clone());
                if runs == Some(true) {
                    self.state = State::Running;
                } else {
                    (self.state, self.health) = (State::Failed, Health::Unhealthy);
                }
                vec![warning("Failed", message)]
            }
            Turn::Examining => {
                self.health = Health::Checking;
                Vec::new()
            }
            Turn::Examined { with, found } => self.after_check(with, found, thresholds, now),
            Turn::Lost(why) => {
                (self.state, self.health, self.error) = (State::Unknown, Health::Unknown, Some(why.clone()));
                vec![warning("StateChanged", format!("cannot tell whether it is running: {why}"))]
            }
        };
        if before.0 != self.state {
            self.updated = now;
            if notes.is_empty() {
                notes.push(note("StateChanged", format!("was {} and is {}", before.0.as_str(), self.state.as_str())));
            }
        }
        notes
    }

    fn runs(
        &mut self,
        tool: &'static str,
        kept: Map<String, Value>,
        outputs: Map<String, Value>,
        thresholds: Thresholds,
    ) {
        (self.state, self.health, self.error) = (State::Running, Health::Healthy, None);
        (self.failures, self.successes) = (0, thresholds.success);
        self.keep(tool, kept);
        self.outputs = outputs;
    }

    fn keep(&mut self, tool: &'static str, kept: Map<String, Value>) {
        if !kept.is_empty() {
            self.kept.insert(tool.to_owned(), kept.into());
        }
    }

    fn after_check(
        &mut self,
        with: &'static str,
        found: Result<Map<String, Value>, String>,
        thresholds: Thresholds,
        now: Timestamp,
    ) -> Vec<Note> {
        self.checked = Some(now);
        let was_sure = self.state == State::Running;
        match found {
            Ok(kept) => {
                self.keep(with, kept);
                (self.failures, self.successes) = (0, self.successes.saturating_add(1));
                self.state = State::Running;
                if !was_sure {
                    self.successes = self.successes.max(thresholds.success);
                }
                if self.health == Health::Healthy || self.successes < thresholds.success {
                    return Vec::new();
                }
                let was_bad = matches!(self.health, Health::Unhealthy | Health::Degraded);
                (self.health, self.error) = (Health::Healthy, None);
                let healthy = note("Healthy", "is healthy");
                if was_bad { vec![note("HealthCheckRecovered", "is healthy again"), healthy] } else { vec![healthy] }
            }
            Err(error) => {
                (self.successes, self.failures) = (0, self.failures.saturating_add(1));
                self.error = Some(format!("failed the health check: {error}"));
                let failed = warning("HealthCheckFailed", format!("check {} in a row failed: {error}", self.failures));
                if !was_sure {
                    // Whatever it was, it is not what it should be.
                    (self.state, self.health) = (State::Failed, Health::Unhealthy);
                    return vec![failed, warning("Unhealthy", "differs from its state before the gateway stopped")];
                }
                if self.failures < thresholds.failure {
                    if self.health != Health::Unhealthy {
                        self.health = Health::Degraded;
                    }
                    return vec![failed];
                }
                let is_new = self.health != Health::Unhealthy;
                self.health = Health::Unhealthy;
                let unhealthy =
                    is_new.then(|| warning("Unhealthy", format!("{} checks in a row failed", self.failures)));
                [failed].into_iter().chain(unhealthy).collect()
            }
        }
    }
}

fn note(reason: &'static str, message: impl Into<String>) -> Note {
    Note { reason, message: message.into(), warning: false }
}

fn warning(reason: &'static str, message: impl Into<String>) -> Note {
    Note { warning: true, ..note(reason, message) }
}

#[cfg(test)]
mod tests;
