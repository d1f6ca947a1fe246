//! What can go wrong with a login, each with what to do next. No text holds a token, a code, a state or a ticket; what
//! comes from servers is shortened and free of control characters.

use toolcrib_base::{Kind, Problem, ServerName};

/// The longest text of a server that is shown, in characters.
const SHOWN: usize = 200;

/// Why a login, its renewal or its end failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The definition has no URL that a login could be for.
    #[error("`{server}` has no `http` or `https` URL to log in to")]
    NoUrl {
        /// The server.
        server: ServerName,
    },
    /// There is no such server here.
    #[error("no server `{server}` that could need a login")]
    UnknownServer {
        /// The server.
        server: ServerName,
    },
    /// A request to the server or to its authorization server failed.
    #[error("{what} at `{host}` failed: {reason}")]
    Request {
        /// What was asked for.
        what: &'static str,
        /// Which host.
        host: String,
        /// Why, as a fragment.
        reason: String,
    },
    /// What was found out about the login cannot be used.
    #[error("the login of `{server}` is not offered in a way that can be used: {reason}")]
    Discovery {
        /// The server.
        server: ServerName,
        /// Why, as a fragment.
        reason: String,
    },
    /// Someone has to register a client by hand.
    #[error(
        "`{issuer}` wants its clients registered by hand{reason}: register one there with the redirect URL `{redirect}`, then set `auth: {{client_id: …}}` in the definition of `{server}`"
    )]
    NeedsClient {
        /// The server.
        server: ServerName,
        /// Where to register.
        issuer: String,
        /// What to enter as redirect URL.
        redirect: String,
        /// What the registration was refused with: empty, or ` (…)`.
        reason: String,
    },
    /// A URL of the authorization server that nobody should open.
    #[error("the {what} of `{server}` is refused: {reason}")]
    UnsafeUrl {
        /// The server.
        server: ServerName,
        /// Which URL.
        what: &'static str,
        /// Why, as a fragment.
        reason: &'static str,
    },
    /// There are too many logins that nobody has finished.
    #[error("too many logins wait for someone to finish them; they end by themselves within 10 minutes")]
    TooMany,
    /// The link to begin a login is not known (any more).
    #[error("this link is not valid any more: it was used, replaced by a newer one or is older than 10 minutes")]
    Ticket,
    /// The one who opens the link is not the one who asked for it.
    #[error("this link belongs to someone else")]
    Opener,
    /// The redirect URL of the definition is not the gateway's.
    #[error("the answer to the login of `{server}` goes to `{redirect}`, where this gateway does not listen")]
    Elsewhere {
        /// The server.
        server: ServerName,
        /// The redirect URL.
        redirect: String,
    },
    /// The answer of the authorization server belongs to no login that was begun here.
    #[error(
        "this answer belongs to no login that waits for one: it was used before, or the login was replaced or is older than 10 minutes"
    )]
    State,
    /// The answer came by another browser than the one in which the login was begun.
    #[error("this answer came by another browser than the one in which the login was begun")]
    Browser,
    /// The answer is not one.
    #[error("the address holds no answer of an authorization server: {reason}")]
    Callback {
        /// Why, as a fragment.
        reason: &'static str,
    },
    /// Another authorization server has answered than the one that was asked (RFC 9207).
    #[error("the answer for `{server}` names the authorization server `{received}`, expected `{expected}`")]
    Issuer {
        /// The server.
        server: ServerName,
        /// Who was asked.
        expected: String,
        /// Who has answered.
        received: String,
    },
    /// The authorization server says no.
    #[error("`{issuer}` has refused the login of `{server}`: {reason}")]
    Refused {
        /// The server.
        server: ServerName,
        /// The authorization server.
        issuer: String,
        /// What it says.
        reason: String,
    },
    /// The server wants ever more scopes.
    #[error("`{server}` still wants more scopes after {rounds} logins in a row: {scopes}")]
    ScopeRounds {
        /// The server.
        server: ServerName,
        /// How many logins there were.
        rounds: u32,
        /// What it wants.
        scopes: String,
    },
    /// What is remembered of logins cannot be read or written.
    #[error("logins cannot be read or stored: {reason}")]
    Rows {
        /// Why, as a fragment.
        reason: String,
    },
}

impl LoginError {
    /// The kind, for status and exit codes.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoUrl { .. } | Self::NeedsClient { .. } | Self::Elsewhere { .. } => Kind::Definition,
            Self::UnknownServer { .. } | Self::Ticket | Self::State => Kind::NotFound,
            Self::Request { .. } => Kind::Unavailable,
            Self::Discovery { .. } | Self::UnsafeUrl { .. } => Kind::BadServer,
            Self::TooMany => Kind::Busy,
            Self::Opener | Self::Browser | Self::Issuer { .. } => Kind::Forbidden,
            Self::Callback { .. } => Kind::InvalidParams,
            Self::Refused { .. } | Self::ScopeRounds { .. } => Kind::Unauthenticated,
            Self::Rows { .. } => Kind::Internal,
        }
    }

    /// The next step as a command, where there is one.
    fn hint(&self) -> Option<String> {
        let again = |server: &ServerName| Some(format!("try again: `toolcrib login {server}`"));
        match self {
            Self::Ticket | Self::State | Self::Browser | Self::Callback { .. } => {
                Some("begin again: `toolcrib login SERVER`".to_owned())
            }
            Self::Opener => Some("begin your own: `toolcrib login SERVER`".to_owned()),
            Self::Issuer { server, .. } | Self::Refused { server, .. } | Self::ScopeRounds { server, .. } => {
                again(server)
            }
            Self::NeedsClient { server, .. } => {
                Some(format!("the definition is `servers/{server}.yaml`; then: `toolcrib login {server}`"))
            }
            Self::NoUrl { server } => Some(format!("see how it is defined: `toolcrib get server {server}`")),
            Self::Elsewhere { server, .. } => {
                Some(format!("paste the address where the browser ends: `toolcrib login --no-browser {server}`"))
            }
            Self::UnknownServer { .. } => Some("see `toolcrib list servers`".to_owned()),
            _ => None,
        }
    }

    /// The same for people.
    pub fn problem(&self) -> Problem {
        let problem = Problem::new(self.kind(), self.to_string());
        match self.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// A text of a server for people: short, on one line.
pub(crate) fn shown(text: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut short: String = text.trim().chars().take(SHOWN).map(plain).collect();
    if text.trim().chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}
