//! The bounds on what others may send us. Every one can be configured; these are the values without configuration.

use std::time::Duration;

/// Bounds that the wire applies to clients and servers alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a client's request body, in bytes.
    pub request_bytes: usize,
    /// How many bytes the bodies of all requests may take in memory together.
    pub bodies_bytes: usize,
    /// Maximum size of a message from a server: an answer's body, a line on stdout, or one event of a stream, in bytes.
    pub message_bytes: usize,
    /// How deep arrays and objects may nest in a message.
    pub depth: usize,
    /// How many legacy sessions may be open at a time.
    pub sessions: usize,
    /// After how long without a request or an open stream a legacy session ends.
    pub session_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 4 * 1024 * 1024,
            bodies_bytes: 256 * 1024 * 1024,
            message_bytes: 32 * 1024 * 1024,
            depth: 64,
            sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
        }
    }
}
