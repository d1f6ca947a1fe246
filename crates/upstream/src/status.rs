//! The status of a server. Ready means that its tools were listed on this connection.

use toolcrib_base::Timestamp;

use crate::install::HalfWritten;

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not started, because no one has called it yet, or not for long.
    Idle,
    /// Being started, or listed for the first time.
    Starting,
    /// Being started for the first time by a program that downloads it, which may take minutes.
    Installing,
    /// Its tools answer.
    Ready,
    /// It failed and is tried again later.
    Failed,
    /// It wants a login by OAuth. It is not tried again until its definition or a credential changes.
    NeedsLogin,
    /// Stopped on request or `start: manual`.
    Stopped,
}

impl State {
    /// The state as users read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Starting => "starting",
            State::Installing => "installing",
            State::Ready => "ready",
            State::Failed => "failed",
            State::NeedsLogin => "needs-login",
            State::Stopped => "stopped",
        }
    }

    /// Whether it is on the way to another state by itself.
    pub const fn is_starting(self) -> bool {
        matches!(self, State::Starting | State::Installing)
    }

    /// Whether it is away, and no call brings it back.
    pub const fn is_away(self) -> bool {
        matches!(self, State::Failed | State::NeedsLogin | State::Stopped)
    }

    /// Whether a start has ended, well or badly.
    pub const fn has_settled(self) -> bool {
        self.is_away() || matches!(self, State::Ready)
    }
}

/// A server's state with what a person wants to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// What went wrong last; cleared when it is ready.
    pub last_error: Option<String>,
    /// Whether what went wrong last is that it did not answer in time.
    pub timed_out: bool,
    /// When it is tried again.
    pub next_retry: Option<Timestamp>,
    /// How often it was started again since the gateway runs.
    pub restarts: u32,
    /// Whether the first listing has ended, well or badly.
    pub listed: bool,
    /// What it is doing while it starts: the latest line that says something.
    pub note: Option<String>,
    /// What its installation left half written, so that it cannot start.
    pub half_written: Option<HalfWritten>,
}
