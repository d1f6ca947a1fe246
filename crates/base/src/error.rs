//! The table of error kinds: one row gives the stable name, the JSON-RPC code, the HTTP status and the exit code.
//!
//! To add a kind, add a variant and its row; the match makes the compiler ask for it.

use std::fmt;

/// What went wrong, in the terms of what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The bytes are not the JSON that was expected.
    Parse,
    /// JSON, but not a request.
    InvalidRequest,
    /// A method that no one here answers.
    UnknownMethod,
    /// The request's parameters are wrong.
    InvalidParams,
    /// No such tool for this caller.
    UnknownTool,
    /// No such server, profile, resource, prompt or other named thing for this caller.
    NotFound,
    /// The caller may not do this.
    Forbidden,
    /// The caller has not proven who it is.
    Unauthenticated,
    /// The server behind is away: not started, stopped, crashed or unreachable.
    Unavailable,
    /// The server behind did not answer in time.
    Timeout,
    /// The server behind answered something that is not MCP.
    BadServer,
    /// The caller or the gateway took the request back.
    Cancelled,
    /// Too large, too deep or too many.
    TooLarge,
    /// A quota or a bound on concurrency is used up.
    Busy,
    /// A file of definitions or settings is wrong.
    Definition,
    /// A listening address cannot be had.
    Address,
    /// It is there already, or is not ours to change.
    Conflict,
    /// It has changed since the caller read it.
    Stale,
    /// A fault of our own.
    Internal,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The stable name in logs, records and RFC 9457 bodies.
    pub name: &'static str,
    /// The JSON-RPC code. Our own codes are outside -32768..-32000, which JSON-RPC and MCP reserve.
    pub code: i64,
    /// The HTTP status.
    pub status: u16,
    /// The exit code of a command.
    pub exit: u8,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 19] = [
        Self::Parse,
        Self::InvalidRequest,
        Self::UnknownMethod,
        Self::InvalidParams,
        Self::UnknownTool,
        Self::NotFound,
        Self::Forbidden,
        Self::Unauthenticated,
        Self::Unavailable,
        Self::Timeout,
        Self::BadServer,
        Self::Cancelled,
        Self::TooLarge,
        Self::Busy,
        Self::Definition,
        Self::Address,
        Self::Conflict,
        Self::Stale,
        Self::Internal,
    ];

    /// The kind's row.
    pub const fn row(self) -> Row {
        let (name, code, status, exit) = match self {
            Kind::Parse => ("parse-error", -32_700, 400, 1),
            Kind::InvalidRequest => ("invalid-request", -32_600, 400, 1),
            Kind::UnknownMethod => ("unknown-method", -32_601, 404, 1),
            Kind::InvalidParams => ("invalid-params", -32_602, 400, 1),
            Kind::UnknownTool => ("unknown-tool", -32_602, 404, 1),
            Kind::NotFound => ("not-found", -32_602, 404, 1),
            Kind::Forbidden => ("forbidden", -31_001, 403, 3),
            Kind::Unauthenticated => ("unauthenticated", -31_002, 401, 2),
            Kind::Unavailable => ("server-unavailable", -31_003, 503, 1),
            Kind::Timeout => ("server-timeout", -31_004, 504, 1),
            Kind::BadServer => ("bad-server", -31_005, 502, 1),
            Kind::Cancelled => ("cancelled", -31_006, 499, 1),
            Kind::TooLarge => ("too-large", -32_600, 413, 1),
            Kind::Busy => ("busy", -31_007, 429, 1),
            Kind::Definition => ("bad-definition", -31_008, 422, 1),
            Kind::Address => ("address-taken", -31_009, 500, 1),
            Kind::Conflict => ("conflict", -31_010, 409, 1),
            Kind::Stale => ("stale", -31_011, 412, 1),
            Kind::Internal => ("internal", -32_603, 500, 1),
        };
        Row { name, code, status, exit }
    }

    /// The stable name.
    pub const fn name(self) -> &'static str {
        self.row().name
    }
}

/// An error on its way to a person or a model: what went wrong, and apart from it the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The row of the table.
    pub kind: Kind,
    /// A lower-case fragment without a final dot that names the thing in backticks.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The same problem with the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_codes_stay_out_of_the_reserved_range() {
        let kinds = [Kind::Forbidden, Kind::Unauthenticated, Kind::Unavailable, Kind::Timeout, Kind::BadServer];
        let rest = [Kind::Cancelled, Kind::Busy, Kind::Definition, Kind::Address, Kind::Conflict, Kind::Stale];
        for kind in kinds.into_iter().chain(rest) {
            assert!(!(-32_768..=-32_000).contains(&kind.row().code), "{kind:?}");
        }
    }

    #[test]
    fn a_problem_shows_its_hint_apart() {
        let problem = Problem::new(Kind::NotFound, "no server `x`").hint("see `toolcrib list servers`");
        assert_eq!(problem.to_string(), "no server `x` (see `toolcrib list servers`)");
    }
}
