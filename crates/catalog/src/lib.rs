//! Definitions on disk: servers and profiles; validate, watch, import.
//!
//! [`load`] reads everything once, [`reload`] again with the last good version of what became bad, [`watch`] whenever
//! something changes. One bad file never stops the others: what is wrong is a [`DefinitionProblem`] with its place.

mod catalogue;
mod define;
mod endpoint;
mod folder;
mod nearest;
mod period;
pub mod pin;
mod problem;
mod profile;
mod reader;
mod secret;
mod server;
mod tree;
mod watch;

pub use catalogue::{Changes, Delta, Loaded, load, reload};
pub use define::Kept;
pub use endpoint::{Endpoint, EndpointError};
pub use period::{Period, PeriodError};
pub use problem::{DefinitionProblem, Position};
pub use profile::{ActiveSet, ChangedTools, Dialect, Exposure, Group, Prefix, ProfileDefinition, ToolRules};
pub use secret::{LocalSecrets, ResolveSecret, SecretError, SecretRef, SecretRefError};
pub use server::{
    Ask, Program, Remote, ServerDefinition, SessionScope, Start, Timeouts, ToolText, Transport, TransportKind,
};
pub use watch::watch;
