//! Why a call has no answer from its server, and whether it may have run.

use std::fmt;

use toolcrib_base::{Kind, ServerName};
use toolcrib_transport::LinkError;

use crate::status::{State, Status};

/// Why a server cannot be called: which, since when, what failed, when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUnavailable {
    /// The server.
    pub server: ServerName,
    /// How it is.
    pub status: Status,
}

impl fmt::Display for ServerUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server `{}` is {} since {}", self.server, self.status.state.as_str(), self.status.since)?;
        if let Some(note) = &self.status.note {
            write!(f, ", {note}")?;
        }
        if let Some(error) = &self.status.last_error {
            write!(f, ", last error: {error}")?;
        }
        if let Some(next) = self.status.next_retry {
            write!(f, ", next attempt at {next}")?;
        }
        Ok(())
    }
}

/// Why a call has no answer from the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no connection; the call has not run.
    #[error("{0}")]
    Unavailable(Box<ServerUnavailable>),
    /// The connection gave no answer; see [`LinkError`] for whether the call may have run.
    #[error("server `{server}`: {error}")]
    Link {
        /// The server.
        server: ServerName,
        /// What happened.
        error: LinkError,
    },
    /// The server wants a login of the principal who calls; the call has not run.
    #[error("server `{0}` requires a login")]
    NeedsLogin(ServerName),
    /// There is no room for a connection of the client's own; the call has not run.
    #[error("server `{server}`: {why}")]
    Full {
        /// The server.
        server: ServerName,
        /// What there is no more room for.
        why: String,
    },
    /// The conversation that the call belongs to is over; the call has not run.
    #[error("this session with server `{0}` has ended")]
    Ended(ServerName),
}

impl CallError {
    /// Whether there was no credential for it: then nothing was sent.
    pub fn is_unproven(&self) -> bool {
        matches!(self, Self::Link { error: LinkError::Unproven(_), .. })
    }

    /// Whether a login of the caller is what is missing; gives the server.
    pub fn needs_login(&self) -> Option<&ServerName> {
        match self {
            CallError::NeedsLogin(server) => Some(server),
            CallError::Unavailable(away) if away.status.state == State::NeedsLogin => Some(&away.server),
            _ => None,
        }
    }

    /// The kind of error, for its code and its record.
    pub fn kind(&self) -> Kind {
        match self {
            CallError::Unavailable(_) | CallError::NeedsLogin(_) => Kind::Unavailable,
            CallError::Full { .. } => Kind::Busy,
            CallError::Ended(_) => Kind::NotFound,
            CallError::Link { error, .. } => link_kind(error),
        }
    }
}

/// The kind of error of a connection that gave no answer.
pub(crate) fn link_kind(error: &LinkError) -> Kind {
    match error {
        LinkError::Timeout(_) => Kind::Timeout,
        LinkError::NotMcp(_) | LinkError::Status { .. } => Kind::BadServer,
        LinkError::Unproven(_) | LinkError::NeedsLogin => Kind::Unavailable,
        LinkError::Closed | LinkError::Unreachable(_) | LinkError::Broken(_) | LinkError::SessionLost => {
            Kind::Unavailable
        }
    }
}
