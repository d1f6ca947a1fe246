//! The words every part of Toolcrib shares: ids, secrets, the clock, limits and error kinds.
//!
//! Feature `rt` adds what the crates with I/O need: task scopes and backoff.
//!
//! Knows no protocol, no file format and no other crate of Toolcrib.

mod address;
#[cfg(feature = "rt")]
pub mod backoff;
pub mod clock;
pub mod error;
pub mod glob;
mod hidden;
pub mod id;
pub mod identity;
pub mod limits;
pub mod nearest;
pub mod own_secret;
pub mod random;
pub mod secret;
#[cfg(feature = "rt")]
pub mod task;
pub mod trace;

pub use address::address_owner;
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use error::{Kind, Problem};
pub use glob::{Glob, GlobError};
pub use hidden::is_hidden;
pub use id::{IdError, PrincipalId, ProfileName, ServerName, SessionName, ToolId};
pub use identity::{CallChain, CredentialName, Identity, Proof, Role};
pub use limits::Limits;
pub use secret::{Mask, Secret};
pub use trace::{RequestId, SpanId, TraceId};
