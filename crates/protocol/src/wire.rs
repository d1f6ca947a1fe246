//! Observing the messages of one request between the gateway and a server. Only a request that someone looks at has an
//! observer; every other one pays for an empty field.

use core::fmt::Debug;

/// Sees the messages of the calls that are made in the course of one request. Called where messages are sent and read,
/// so it must not block. Messages are as they are sent, without headers: what an observer keeps of them it redacts.
pub trait WireObserver: Debug + Send + Sync {
    /// A message to or from a server, or why none came.
    fn observe(&self, message: WireMessage<'_>);
}

/// A message between the gateway and a server.
#[derive(Debug, Clone, Copy)]
pub struct WireMessage<'a> {
    /// The server.
    pub server: &'a str,
    /// Whether the server sent it.
    pub is_received: bool,
    /// The JSON text; where nothing came, the reason in words.
    pub text: &'a str,
}
