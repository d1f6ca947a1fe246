//! The heart: active sets, meta-tools, operations, and the one path that every call takes.
//!
//! Read in this order: [`gateway`] holds the parts; the crate `view` is what one profile shows; [`request`] is the path
//! (resolve, decide, dispatch, audit); `passage` makes a call without a permit and an audit event impossible;
//! `meta/` and `operation/` hold one file for each thing that the gateway itself can do.

pub mod active;
mod advice;
pub mod approval;
mod checks;
mod configure;
mod conversation;
mod dispatch;
pub mod duplex;
mod economy;
mod embed;
mod environment;
pub mod events;
mod examples;
mod exchange;
mod explain;
pub mod front;
pub mod gateway;
pub mod happening;
mod install;
mod learning;
mod listen;
mod meta;
mod operate;
mod operation;
mod parking;
mod passage;
mod pins;
pub mod request;
mod resolve;
pub mod scope;
mod search;
pub mod servers;
pub mod source;
pub mod task;
mod throttle;
pub mod verify;

pub use duplex::Duplex;
pub use events::{Events, Kind as EventKind, Lost, Told};
pub use gateway::{Gateway, Parts};
pub use happening::Happening;
pub use operation::secrets::{KeepSecrets, KeptSecret};
pub use operation::{KeepSettings, ServerOrder};
pub use scope::Scope;
pub use source::{Errand, Source, Sources};
