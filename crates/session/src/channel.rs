//! The way back to the client during one request: progress, log messages, questions, what a subscription hears.

use std::fmt;

use bytes::Bytes;
use tokio::sync::mpsc;
use toolcrib_protocol::Notification;

/// Where everything goes that belongs to one request and comes before its answer. Clones lead to the same place.
#[derive(Clone)]
pub struct Channel(mpsc::Sender<Bytes>);

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

impl Channel {
    /// Messages go into this queue, one JSON text each.
    pub fn new(queue: mpsc::Sender<Bytes>) -> Self {
        Self(queue)
    }

    /// Sends a notification; a client that does not keep up misses it.
    pub fn send(&self, notification: &Notification) {
        let _ = self.0.try_send(notification.to_bytes());
    }

    /// Sends a message that must not be lost: waits until there is room. `false` when the client disconnected.
    ///
    /// Cancel-safe: when the future is dropped, the message was not sent. The wait is as long as the client likes, so
    /// callers put a deadline on it.
    pub async fn deliver(&self, message: Bytes) -> bool {
        self.0.send(message).await.is_ok()
    }

    /// Waits until the client disconnected. Cancel-safe.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}
