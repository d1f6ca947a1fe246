//! How a request reaches a model: the composition root supplies it, which has the connections and the keys. Nothing here
//! knows a key.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use toolcrib_catalog::ModelDefinition;
use toolcrib_model::Wire;

/// Sends requests to models.
#[async_trait]
pub trait SendRequest: fmt::Debug + Send + Sync {
    /// Posts `body` to the definition's address, with its key and headers. Dropping the future takes it back.
    ///
    /// # Errors
    /// It did not leave, or no response began.
    async fn send(&self, model: &Arc<ModelDefinition>, wire: Wire, body: Bytes) -> Result<ModelResponse, SendError>;

    /// What the definition's server answers at a path of its own, such as Ollama's `/api/ps`; nothing where it has no such
    /// path.
    async fn look(&self, model: &Arc<ModelDefinition>, path: &'static str) -> Option<Bytes>;
}

/// What a model's server answers.
pub struct ModelResponse {
    /// The status.
    pub status: u16,
    /// Whether the body is a stream of events.
    pub is_stream: bool,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The body as it arrives.
    pub body: Box<dyn ModelBody>,
}

impl fmt::Debug for ModelResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The body of a response.
#[async_trait]
pub trait ModelBody: Send {
    /// The next bytes; `None` at its end.
    ///
    /// # Errors
    /// The connection broke.
    async fn chunk(&mut self) -> Result<Option<Bytes>, String>;
}

/// Why no response began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// There is no connection, or it broke.
    Network(String),
    /// The key cannot be had, or the address cannot be used: asking again does not help.
    Unusable(String),
}
