//! What every connection shares of one call: how it is made, why it failed, and who takes what the server says in its
//! course ([`CallHandler`]) or on its own ([`Inbox`]). Knows no connection.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use http::HeaderMap;
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::{Answer, Notification, Raw, Request, RpcError, method};

/// Why a call has no answer from the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The connection is closed; the call may have run.
    #[error("the connection was closed")]
    Closed,
    /// Nothing could be sent; the call has not run.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The connection broke after the call was sent; it may have run.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// No answer in time; the call may still run.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// There is no credential for the request; the call has not run.
    #[error("no credential for this request: {0}")]
    Unproven(String),
    /// The server wants a login of the principal in whose name the request is made; the call has not run.
    #[error("it requires a login")]
    NeedsLogin,
    /// The server no longer knows our session; the call has not run.
    #[error("the server has forgotten the session")]
    SessionLost,
    /// An HTTP status that is no answer to a call.
    #[error("HTTP status {status}: {body}")]
    Status {
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
        /// What the server wants to be shown first: its `WWW-Authenticate` headers, joined by commas.
        challenge: Option<String>,
    },
    /// The answer is not MCP.
    #[error("the answer is not MCP: {0}")]
    NotMcp(String),
}

/// How one call is made.
#[derive(Default)]
pub struct CallOptions {
    /// How long to wait for the answer; [`Duration::MAX`] is for ever, for a subscription.
    pub deadline: Duration,
    /// Takes what the server says in the course of this call; without it, that goes to the [`Inbox`].
    pub handler: Option<Arc<dyn CallHandler>>,
    /// Whether dropping the call before its answer tells the server to cancel it. May be set while the call runs.
    pub cancel_on_drop: Arc<AtomicBool>,
    /// Headers of this call alone, such as mirrored parameters or a credential; HTTP only.
    pub headers: HeaderMap,
    /// Whether these headers are all that proves for whom the call is: then what proves whose connection it is stays
    /// away from it. Only where each request stands alone, as in the modern era.
    pub proves: bool,
    /// Where the status of the answer goes, for anyone who wants to see it; HTTP only.
    pub status: Option<Arc<AtomicU16>>,
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl CallOptions {
    /// A call that is cancelled when it is dropped.
    pub fn within(deadline: Duration) -> Self {
        Self { deadline, cancel_on_drop: Arc::new(AtomicBool::new(true)), ..Self::default() }
    }

    pub(crate) fn cancels(&self) -> bool {
        self.cancel_on_drop.load(Ordering::Relaxed)
    }
}

/// What a server says in the course of one call: over HTTP all that comes on the call's own stream, on ordered
/// connections progress (known by its token) and what is tagged with the subscription that the call is.
/// Called in the task that reads: must not block.
pub trait CallHandler: Send + Sync {
    /// A notification; progress still has our token.
    fn notification(&self, notification: Notification);
    /// A request of the server; answer through `reply`, now or later.
    fn request(&self, request: Request, reply: Reply);
    /// What hears the messages that come after the answer, because they took another stream; keeps nothing of the call.
    fn afterwards(&self) -> Option<Arc<dyn CallHandler>> {
        None
    }
}

/// A function takes the notifications; what the server asks is refused.
impl<F: Fn(Notification) + Send + Sync> CallHandler for F {
    fn notification(&self, notification: Notification) {
        self(notification);
    }

    fn request(&self, request: Request, reply: Reply) {
        reply.send_default(&request);
    }
}

/// What a server says on its own, and what is odd about what it says. Called in the task that reads: must not block.
pub trait Inbox: Send + Sync + fmt::Debug {
    /// A notification that belongs to no running call.
    fn notification(&self, notification: Notification);
    /// A request of the server; answer through `reply`, now or later.
    fn request(&self, request: Request, reply: Reply);
    /// An answer to a call that does not run; `true` when it is one that was given up, so that there is nothing odd
    /// about it.
    fn late_answer(&self, id: u64) -> bool {
        let _ = id;
        false
    }
    /// Something that is not a message, or a response without a request.
    fn oddity(&self, what: &str);
    /// The connection has ended.
    fn closed(&self);
}

/// The way back for the answer to a server's request.
pub struct Reply(Box<dyn FnOnce(Answer) + Send>);

impl Reply {
    /// A way back.
    pub fn new(send: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Sends the answer.
    pub fn send(self, answer: Answer) {
        (self.0)(answer);
    }

    /// Answers what every client must: `ping` is answered, anything else is an unknown method.
    pub fn send_default(self, request: &Request) {
        let outcome = if request.method == method::PING {
            Ok(Raw::empty_object())
        } else {
            Err(RpcError::new(METHOD_NOT_FOUND, format!("this client does not answer `{}`", request.method)))
        };
        self.send(Answer { id: Some(request.id.clone()), outcome });
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// `notifications/cancelled` for a call of ours.
pub(crate) fn cancelled(id: u64) -> Notification {
    Notification::new(method::CANCELLED, Raw::from_value(&serde_json::json!({ "requestId": id })))
}
