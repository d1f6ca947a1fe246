//! HTTP, both directions: a client on one shared pool, a server, and the bodies both write.

pub mod body;
pub mod checked;
pub mod client;
pub mod events;
pub mod link;
pub(crate) mod origin;
pub mod possession;
pub mod refusal;
pub mod server;
pub mod tls;
pub mod workers;
