//! What a call of a server is made with, beside its method and parameters.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::HeaderMap;
use toolcrib_protocol::RequestTrace;
use toolcrib_transport::CallHandler;

use crate::client::Client;

/// One call.
#[derive(Default)]
pub struct Call {
    /// For whom it is made.
    pub client: Client,
    /// Takes what the server says during the call; progress has our token still in it.
    pub handler: Option<Arc<dyn CallHandler>>,
    /// Whether the caller wants progress: then a token is stamped on the request.
    pub wants_progress: bool,
    /// Whether dropping the call tells the server to cancel it. May be set while the call runs.
    pub cancel_on_drop: Arc<AtomicBool>,
    /// Headers for a modern server: what of the arguments is mirrored in them.
    pub headers: HeaderMap,
    /// How much of the time that a call may take is used up already, in the queue for a place.
    pub waited: Duration,
    /// In the course of which request it is made.
    pub trace: RequestTrace,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("wants_progress", &self.wants_progress).finish_non_exhaustive()
    }
}
