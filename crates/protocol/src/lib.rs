//! JSON-RPC and MCP of every revision, without I/O: bytes in, checked messages out.
//!
//! Raw JSON stays raw. [`json`] checks a text once (grammar, depth, duplicate keys) and finds the members of an object;
//! [`raw`] holds such a text as a slice of the bytes it arrived in; [`message`] is the JSON-RPC envelope around it.
//! What the gateway must understand is peeked from the members, everything else travels untouched.
//!
//! Only this crate and the negotiation of `upstream` compare revisions; everyone else asks [`Revision`] what it can do.

pub mod ask;
pub mod broken;
pub mod capability;
pub mod convert;
pub mod cursor;
pub mod downgrade;
pub mod error;
pub mod event_id;
pub mod header;
pub mod http1;
pub mod id;
pub mod inventory;
pub mod json;
pub mod level;
pub mod message;
pub mod meta;
pub mod method;
pub mod own_meta;
pub mod param_header;
pub mod park;
pub mod raw;
pub mod revision;
pub mod rounds;
pub mod seal;
pub mod sse;
pub mod subscription;
pub mod task;
pub mod trace;
pub mod uris;
pub mod wire;

pub use capability::Capabilities;
pub use error::RpcError;
pub use id::Id;
pub use message::{Answer, Message, Notification, Request};
pub use raw::Raw;
pub use revision::{Era, Revision};
pub use trace::{RequestTrace, TraceContext};
