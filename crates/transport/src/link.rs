//! One connection to one server, whatever carries it: calls go out and are matched with their answers.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_protocol::{Notification, Raw, RpcError};

use crate::call::{CallOptions, LinkError};
use crate::http::link::HttpLink;
use crate::peer::Peer;

/// A connection that calls can be made on.
#[derive(Debug)]
pub enum Link {
    /// Messages both ways in order: a child process, memory, or HTTP+SSE of 2024-11-05.
    Peer(Arc<Peer>),
    /// Streamable HTTP.
    Http(Arc<HttpLink>),
}

// === impl Link ===

impl Link {
    /// A number for the next call: its id and its progress token.
    pub fn next_id(&self) -> u64 {
        match self {
            Link::Peer(peer) => peer.next_id(),
            Link::Http(http) => http.next_id(),
        }
    }

    /// Makes a call and waits for its answer: a result, or the server's error.
    ///
    /// Dropping the future takes the call back; the server is told when [`CallOptions::cancel_on_drop`] is set. Over
    /// HTTP the call's stream is closed in any case, which to a modern server is the cancellation.
    pub async fn call(
        &self,
        id: u64,
        method: &str,
        params: Raw,
        options: CallOptions,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        match self {
            Link::Peer(peer) => peer.call(id, method, params, options).await,
            Link::Http(http) => http.call(id, method, params, options).await,
        }
    }

    /// Whether all messages share one stream each way. Then nothing shows in the course of which call the server asks
    /// something; over Streamable HTTP it does so on the call's own stream.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Link::Peer(_))
    }

    /// Whether each call is a request over HTTP, which may prove for whom it is made.
    pub fn is_http(&self) -> bool {
        match self {
            Link::Peer(peer) => peer.is_over_events(),
            Link::Http(_) => true,
        }
    }

    /// Sends a notification. Whether it arrived is not known.
    pub async fn notify(&self, notification: Notification) -> Result<(), LinkError> {
        match self {
            Link::Peer(peer) => peer.notify(&notification).await,
            Link::Http(http) => http.notify(&notification).await,
        }
    }

    /// Ends the connection in good manners: a process's stdin is closed, a session is deleted.
    pub async fn close(&self, grace: Duration) {
        match self {
            Link::Peer(peer) => peer.close(grace).await,
            Link::Http(http) => http.close(grace).await,
        }
    }
}
