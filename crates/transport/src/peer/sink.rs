//! Where the messages of an ordered connection go.

use bytes::Bytes;
use http::header::HeaderMap;
use tokio::sync::{mpsc, oneshot};

use crate::call::LinkError;
use crate::process::{Process, Sender};

use super::Outcome;
use super::events::Posts;

/// Where messages go.
pub(super) enum MessageSink {
    Process(Process, Sender),
    Memory(mpsc::Sender<Bytes>),
    Posts(Box<Posts>),
}

impl MessageSink {
    pub(super) async fn send(&self, line: Bytes) -> Result<(), LinkError> {
        match self {
            MessageSink::Process(_, sender) => sender.send(line).await.map_err(|_| LinkError::Closed),
            MessageSink::Memory(queue) => queue.send(line).await.map_err(|_| LinkError::Closed),
            MessageSink::Posts(posts) => posts.send(line).await,
        }
    }

    /// Sends a request and waits for what answers it.
    pub(super) async fn exchange(
        &self,
        id: u64,
        line: Bytes,
        headers: &HeaderMap,
        answered: oneshot::Receiver<Result<Outcome, LinkError>>,
    ) -> Result<Outcome, LinkError> {
        if let MessageSink::Posts(posts) = self {
            return posts.exchange(id, line, headers, answered).await;
        }
        self.send(line).await?;
        answered.await.unwrap_or(Err(LinkError::Closed))
    }

    /// Sends if there is room: for what no one waits for, from places that cannot wait.
    pub(super) fn send_or_drop(&self, line: Bytes) {
        match self {
            MessageSink::Process(_, sender) => drop(sender.try_send(line)),
            MessageSink::Memory(queue) => drop(queue.try_send(line)),
            MessageSink::Posts(posts) => posts.send_or_drop(line),
        }
    }
}
