//! Who calls, and how it is answered: principals, the sessions of legacy clients with their streams and questions, the
//! channel back to the client of one request, and the tools that a session has loaded.
//!
//! Knows no gateway, no view, no server: anyone who composes it decides what is sent.

mod browser;
mod caller;
mod channel;
mod cookies;
mod loaded;
mod principal;
mod request_span;
mod session;

pub use browser::{BrowserSessions, SignedInBrowser};
pub use caller::Caller;
pub use channel::Channel;
pub use cookies::{CookieLimits, CookieSession, CookieSessions};
pub use loaded::{LoadChange, LoadRule, LoadedTools, Moment, NotLoaded};
pub use principal::{Principal, ShareKey};
pub use request_span::RequestSpan;
pub use session::{
    DetachPermit, Introduction, QuestionError, Reader, RunningRequest, STREAM_QUEUE, Session, SessionId, Sessions,
    Stream,
};
