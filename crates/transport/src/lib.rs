//! Bytes to messages, in both directions: child processes, Streamable HTTP, memory.
//!
//! [`link`] is one connection to one server whatever carries it, [`call`] what every connection shares; [`peer`] matches
//! answers on ordered connections (a [`process`], memory), [`http::link`] on HTTP. [`http::server`] is the edge towards
//! clients; [`stream`] opens connections for protocols that are not HTTP.
//!
//! Knows no lists and no restarts: `upstream` decides what is said on a connection and when to open one.

pub mod call;
pub mod http;
pub mod link;
pub mod peer;
pub mod process;
pub mod stream;

pub use call::{CallHandler, CallOptions, Inbox, LinkError, Reply};
pub use link::Link;
