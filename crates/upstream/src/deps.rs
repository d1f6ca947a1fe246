//! What all servers share: the pool of HTTP connections, the clock, where events go, and the limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use toolcrib_base::{Clock, Limits};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::process::GuardCommand;

use crate::credentials::Credentials;
use crate::event::Event;
use crate::starts::StartPlaces;

/// What servers share.
#[derive(Debug, Clone)]
pub struct ServerDeps {
    /// The pool of HTTP connections.
    pub client: HttpClient,
    /// Tells the time of changes.
    pub clock: Arc<dyn Clock>,
    /// Takes what happens. Must be read at all times.
    pub events: mpsc::Sender<Event>,
    /// How child processes are guarded; `None` in tests.
    pub guard: Option<GuardCommand>,
    /// What requests over HTTP prove, for each principal; `None` where the definitions say it all.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Bounds on what servers may send.
    pub limits: Limits,
    /// How long a server may take to end by itself.
    pub grace: Duration,
    /// How many start at a time.
    pub starts: StartPlaces,
}
