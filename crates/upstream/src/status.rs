//! How a server is, in words that are true: ready means that its tools were listed on this connection.

use toolcrib_base::Timestamp;

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not started, because nobody has called it yet, or not for long.
    Idle,
    /// Being started, or listed for the first time.
    Starting,
    /// Its tools answer.
    Ready,
    /// It failed and is tried again later.
    Failed,
    /// Stopped on request or `start: manual`.
    Stopped,
}

impl State {
    /// The state as users read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Starting => "starting",
            State::Ready => "ready",
            State::Failed => "failed",
            State::Stopped => "stopped",
        }
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
    /// When it is tried again.
    pub next_retry: Option<Timestamp>,
    /// How often it was started again since the gateway runs.
    pub restarts: u32,
    /// Whether the first listing has ended, well or badly.
    pub listed: bool,
}
