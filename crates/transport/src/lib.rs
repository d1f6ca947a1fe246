//! Bytes to messages, in both directions: child processes, Streamable HTTP, memory.
//!
//! [`link`] is one connection to one server whatever carries it, [`call`] what every connection shares; [`peer`] matches
//! answers on ordered connections (a [`process`], memory), [`http::link`] on HTTP. [`http::server`] is the edge towards
//! clients.

pub mod call;
pub mod http;
pub mod link;
pub mod peer;
pub mod process;

pub use call::{CallHandler, CallOptions, Inbox, LinkError, Reply};
pub use link::Link;
