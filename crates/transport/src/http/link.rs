//! A server over Streamable HTTP, of either era: every message is a POST. A legacy server has a session that is named
//! in a header, and one GET stream for what it says on its own; a modern one has neither.

mod exchange;
mod handlers;
mod listen;
mod mode;
mod resume;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderValue};
use tokio::sync::Semaphore;
use toolcrib_base::task::Scope;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Id, Notification, Raw, Request, Revision, RpcError, header, method};

use crate::call::{CallOptions, Inbox, LinkError, cancelled};
use crate::http::client::{Endpoint, HttpClient, PostResponse, Reply as Body, RequestTemplate, joined};
use crate::http::refusal::Refusal;

use exchange::Exchange;
use handlers::CallHandlers;
use mode::Mode;

/// How long a message may take that no call waits for.
const UNAWAITED: Duration = Duration::from_secs(10);
/// How many requests of the server may be unanswered at a time, those parked until a person decides among them. One
/// that asks without end must not make us open connections and hold questions without end.
const ANSWERS: usize = 64;

/// How many cancellations may be under way to one server at a time. One that hangs does not take them either; it sees the
/// closed connections.
const CANCELLATIONS: usize = 64;

/// One connection, or rather one session.
pub struct HttpLink {
    client: HttpClient,
    endpoint: Endpoint,
    /// A POST before it is known how the server is spoken to.
    opening: RequestTemplate,
    inbox: Arc<dyn Inbox>,
    scope: Scope,
    next: AtomicU64,
    mode: OnceLock<Mode>,
    rules: Rules,
    limit: usize,
    answers: Arc<Semaphore>,
    cancellations: Arc<Semaphore>,
    /// Who learns of the progress of running calls: many servers tell it on the stream that belongs to no call.
    handlers: CallHandlers,
}

/// Bounds on what the server may answer.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The largest body or event, in bytes.
    pub bytes: usize,
    /// How deep JSON may nest.
    pub depth: usize,
    /// Whether the other end is a gateway of ours: then the keys of `_meta` that only we set mean what they say.
    pub is_own: bool,
}

/// How a server answered the question which revisions it speaks.
#[derive(Debug)]
pub struct ProbeResponse {
    /// The HTTP status.
    pub status: u16,
    /// The JSON-RPC answer, under whatever status; `None` when the body is none, and with 401 and 403.
    pub outcome: Option<Result<Raw, RpcError>>,
    /// Without an answer: the beginning of the body, or what is wrong with it.
    pub body: String,
    /// The server's `WWW-Authenticate` headers, joined by commas.
    pub challenge: Option<String>,
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink").field("uri", &self.endpoint.uri).finish_non_exhaustive()
    }
}

// === impl HttpLink ===

impl HttpLink {
    /// A connection of which it is not known yet how the server is spoken to. Its tasks belong to `scope`.
    pub fn new(
        client: HttpClient,
        endpoint: Endpoint,
        inbox: Arc<dyn Inbox>,
        scope: Scope,
        bounds: Bounds,
    ) -> Arc<Self> {
        let opening = client.template(Method::POST, &endpoint.uri, endpoint.post_headers());
        Arc::new(Self {
            client,
            opening,
            endpoint,
            inbox,
            scope,
            next: AtomicU64::new(1),
            mode: OnceLock::new(),
            rules: if bounds.is_own { Rules::relayed(bounds.depth) } else { Rules::foreign(bounds.depth) },
            limit: bounds.bytes,
            answers: Arc::new(Semaphore::new(ANSWERS)),
            cancellations: Arc::new(Semaphore::new(CANCELLATIONS)),
            handlers: CallHandlers::default(),
        })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks `server/discover` as a modern client would, before any mode is set. `params` carry the `_meta` that names
    /// `revision`. Whatever the server answers is for the caller to judge; an error means that nothing came back.
    pub async fn probe(
        self: &Arc<Self>,
        id: u64,
        params: Raw,
        revision: Revision,
        deadline: Duration,
    ) -> Result<ProbeResponse, LinkError> {
        let mode = Mode::modern(&self.client, &self.endpoint, &self.opening, revision);
        let request = Request { id: Id::from_number(id), method: method::DISCOVER.to_owned(), params };
        let mirrors = mode.mirrors(&request);
        let exchange = async {
            let posted = self.client.post_as(mode.template(false), &[&mirrors], request.to_bytes(), self.limit).await?;
            let status = posted.status.as_u16();
            let exchange = Exchange { link: self, id, handler: None, headers: &HeaderMap::new(), is_modern: true };
            Ok(match exchange.outcome(posted.reply).await {
                Ok(outcome) => ProbeResponse { status, outcome: Some(outcome), body: String::new(), challenge: None },
                Err(LinkError::Status { body, challenge, .. }) => {
                    ProbeResponse { status, outcome: None, body, challenge }
                }
                Err(LinkError::NotMcp(body)) => ProbeResponse { status, outcome: None, body, challenge: None },
                Err(error) => return Err(error),
            })
        };
        match tokio::time::timeout(deadline, exchange).await {
            // A page in place of an answer.
            Ok(Err(LinkError::NotMcp(body))) => Ok(ProbeResponse { status: 200, outcome: None, body, challenge: None }),
            Ok(probed) => probed,
            Err(_) => Err(LinkError::Timeout(deadline)),
        }
    }

    /// Sends `initialize`; gives the answer and the session that its headers name.
    pub async fn initialize(
        self: &Arc<Self>,
        id: u64,
        params: Raw,
        deadline: Duration,
    ) -> Result<(Result<Raw, RpcError>, Option<HeaderValue>), LinkError> {
        let request = Request { id: Id::from_number(id), method: method::INITIALIZE.to_owned(), params };
        let none = HeaderMap::new();
        let exchange = async {
            let mut posted = self.post(&[], request.to_bytes()).await?;
            let exchange = Exchange { link: self, id, handler: None, headers: &none, is_modern: false };
            let outcome = exchange.outcome(posted.reply).await?;
            Ok((outcome, posted.headers.remove(header::SESSION_ID)))
        };
        tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(LinkError::Timeout(deadline)))
    }

    /// After `initialize`: keeps session and revision for all later messages.
    pub fn set_session(&self, session: Option<HeaderValue>, revision: Revision) {
        // A link is opened once; a new session is a new link.
        let _ = self.mode.set(Mode::legacy(&self.client, &self.opening, session, revision));
    }

    /// After a probe, or where the era is known: every message names revision, method and name in its headers, there
    /// is no session, and closing a call's stream cancels it.
    pub fn set_modern(&self, revision: Revision) {
        let _ = self.mode.set(Mode::modern(&self.client, &self.endpoint, &self.opening, revision));
    }

    fn is_modern(&self) -> bool {
        self.mode.get().is_some_and(Mode::is_modern)
    }

    /// Whether the server gave this connection a session of its own.
    pub fn has_session(&self) -> bool {
        self.mode.get().is_some_and(|mode| mode.has_session)
    }

    /// A POST without the headers that belong to one message, which may prove by itself for whom it is.
    fn template(&self, proves: bool) -> &RequestTemplate {
        self.mode.get().map_or(&self.opening, |mode| mode.template(proves))
    }

    /// The headers of a message that mirrors nothing, with those of the call that it belongs to.
    fn headers(&self, more: &HeaderMap) -> HeaderMap {
        joined(self.template(false).headers(), more)
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        id: u64,
        method: &str,
        params: Raw,
        options: CallOptions,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        let request = Request { id: Id::from_number(id), method: method.to_owned(), params };
        let mirrors = self.mirrors(&request);
        let body = request.to_bytes();
        let is_modern = self.is_modern();
        let mut pending = PendingCall { link: self, id, options: &options, answered: false };
        let _heard = options.handler.as_ref().map(|handler| self.handlers.register(id, handler));
        let exchange = async {
            let template = self.template(options.proves);
            let posted = self.client.post_as(template, &[&options.headers, &mirrors], body, self.limit).await?;
            if let Some(seen) = &options.status {
                seen.store(posted.status.as_u16(), Ordering::Relaxed);
            }
            let handler = options.handler.as_deref();
            Exchange { link: self, id, handler, headers: &options.headers, is_modern }.outcome(posted.reply).await
        };
        let outcome = match tokio::time::timeout(options.deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                options.cancel_on_drop.store(true, Ordering::Relaxed);
                return Err(LinkError::Timeout(options.deadline));
            }
        };
        pending.answered = true;
        outcome
    }

    fn mirrors(&self, request: &Request) -> HeaderMap {
        self.mode.get().map(|mode| mode.mirrors(request)).unwrap_or_default()
    }

    /// Posts one message with headers of its own, the later of which win.
    async fn post(&self, headers: &[&HeaderMap], body: Bytes) -> Result<PostResponse, LinkError> {
        self.client.post_as(self.template(false), headers, body, self.limit).await
    }

    pub(crate) async fn notify(&self, notification: &Notification) -> Result<(), LinkError> {
        self.notify_with(notification, &HeaderMap::new()).await
    }

    async fn notify_with(&self, notification: &Notification, more: &HeaderMap) -> Result<(), LinkError> {
        let Notification { method, params } = notification.clone();
        let mirrors = self.mirrors(&Request { id: Id::from_number(0), method, params });
        let headers = [more, &mirrors];
        let posting = self.post(&headers, notification.to_bytes());
        match tokio::time::timeout(UNAWAITED, posting).await.unwrap_or(Err(LinkError::Timeout(UNAWAITED))) {
            Ok(PostResponse { reply: Body::Refused(refusal), .. }) => Err(self.refused(refusal)),
            // Taken, with a body that no one reads: the status should have been 202, and often is 200.
            Ok(_) | Err(LinkError::NotMcp(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn refused(&self, refusal: Refusal) -> LinkError {
        if self.is_session_lost(&refusal) { LinkError::SessionLost } else { refusal.into_error() }
    }

    fn is_session_lost(&self, refusal: &Refusal) -> bool {
        refusal.status.as_u16() == 404 && self.has_session()
    }

    pub(crate) async fn close(&self, grace: Duration) {
        if self.has_session() {
            let headers = self.headers(&HeaderMap::new());
            let delete = self.client.send(Method::DELETE, &self.endpoint.uri, headers, Bytes::new());
            // A server that does not take the farewell keeps its session until it idles out.
            let _ = tokio::time::timeout(grace, delete).await;
        }
        self.inbox.closed();
    }
}

/// A call in flight; its drop before the answer takes the call back.
struct PendingCall<'a> {
    link: &'a Arc<HttpLink>,
    id: u64,
    options: &'a CallOptions,
    answered: bool,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        // To a modern server the closed stream says it, and a notification would be none that it knows.
        if self.answered || !self.options.cancels() || self.link.is_modern() {
            return;
        }
        let Ok(place) = Arc::clone(&self.link.cancellations).try_acquire_owned() else { return };
        let (link, id, headers) = (Arc::clone(self.link), self.id, self.options.headers.clone());
        self.link.scope.spawn(async move {
            let _place = place;
            let _ = link.notify_with(&cancelled(id), &headers).await;
        });
    }
}
