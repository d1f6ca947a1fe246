//! A legacy server over Streamable HTTP: every message is a POST, the session is a header, and one GET stream is held
//! open for what the server says on its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Semaphore;
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::Scope;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::sse::Event;
use toolcrib_protocol::{Answer, Id, Message, Notification, Raw, Request, Revision, RpcError, header, method};

use crate::http::client::{Endpoint, EventStream, HttpClient, Reply as Posted};
use crate::link::{Aside, CallOptions, Inbox, LinkError, Reply};
use crate::peer::cancelled;

/// How long a message that nobody waits for may take.
const ASIDE: Duration = Duration::from_secs(10);
/// How many requests of the server are being answered at a time. It asks rarely; one that asks without end must not
/// make us open connections without end.
const ANSWERS: usize = 16;

/// One connection, or rather one session.
pub struct HttpLink {
    client: HttpClient,
    endpoint: Endpoint,
    inbox: Arc<dyn Inbox>,
    scope: Scope,
    next: AtomicU64,
    /// Session and revision, known once `initialize` was answered.
    session: OnceLock<HeaderMap>,
    rules: Rules,
    limit: usize,
    answers: Arc<Semaphore>,
}

/// Bounds on what the server may answer.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The largest body or event, in bytes.
    pub bytes: usize,
    /// How deep JSON may nest.
    pub depth: usize,
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink").field("uri", &self.endpoint.uri).finish_non_exhaustive()
    }
}

/// What one exchange of messages waits for.
struct Expected<'a> {
    id: u64,
    aside: Option<&'a dyn Aside>,
}

// === impl HttpLink ===

impl HttpLink {
    /// A connection without a session yet. Its tasks belong to `scope`.
    pub fn new(
        client: HttpClient,
        endpoint: Endpoint,
        inbox: Arc<dyn Inbox>,
        scope: Scope,
        bounds: Bounds,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            endpoint,
            inbox,
            scope,
            next: AtomicU64::new(1),
            session: OnceLock::new(),
            rules: Rules::relayed(bounds.depth),
            limit: bounds.bytes,
            answers: Arc::new(Semaphore::new(ANSWERS)),
        })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends `initialize`; gives the answer and the session that its headers name.
    pub async fn initialize(
        &self,
        id: u64,
        params: Raw,
        deadline: Duration,
    ) -> Result<(Result<Raw, RpcError>, Option<HeaderValue>), LinkError> {
        let request = Request { id: Id::from_number(id), method: method::INITIALIZE.to_owned(), params };
        let exchange = async {
            let (headers, posted) =
                self.client.post(&self.endpoint, HeaderMap::new(), request.to_bytes(), self.limit).await?;
            let outcome = self.outcome(posted, &Expected { id, aside: None }).await?;
            Ok((outcome, headers.get(header::SESSION_ID).cloned()))
        };
        tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(LinkError::Timeout(deadline)))
    }

    /// After `initialize`: keeps session and revision for all later requests.
    pub fn set_session(&self, session: Option<HeaderValue>, revision: Revision) {
        let mut headers = HeaderMap::new();
        if let Some(session) = session {
            headers.insert(HeaderName::from_static(header::SESSION_ID), session);
        }
        if revision.has_version_header() {
            let version = HeaderValue::from_static(revision.as_str());
            headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), version);
        }
        // A link is opened once; a new session is a new link.
        let _ = self.session.set(headers);
    }

    fn headers(&self) -> HeaderMap {
        self.session.get().cloned().unwrap_or_default()
    }

    fn has_session(&self) -> bool {
        self.session.get().is_some_and(|headers| headers.contains_key(header::SESSION_ID))
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        id: u64,
        method: &str,
        params: Raw,
        options: CallOptions,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        let request = Request { id: Id::from_number(id), method: method.to_owned(), params };
        let body = request.to_bytes();
        let mut pending = Pending { link: self, id, options: &options, answered: false };
        let exchange = async {
            let (_, posted) = self.post(body, &options.headers).await?;
            self.outcome(posted, &Expected { id, aside: options.aside.as_deref() }).await
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

    async fn post(&self, body: Bytes, more: &HeaderMap) -> Result<(HeaderMap, Posted), LinkError> {
        let mut headers = self.headers();
        headers.extend(more.clone());
        let posted = self.client.post(&self.endpoint, headers, body, self.limit).await;
        match posted {
            Err(LinkError::Status { status: 404, .. }) if self.has_session() => Err(LinkError::SessionLost),
            other => other,
        }
    }

    pub(crate) async fn notify(&self, notification: &Notification) -> Result<(), LinkError> {
        let sent = tokio::time::timeout(ASIDE, self.post(notification.to_bytes(), &HeaderMap::new())).await;
        match sent.unwrap_or(Err(LinkError::Timeout(ASIDE))) {
            // Taken, with a body that nobody reads: the status should have been 202, and often is 200.
            Ok(_) | Err(LinkError::NotMcp(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn close(&self, grace: Duration) {
        if self.has_session() {
            let delete = self.client.send(Method::DELETE, &self.endpoint, self.headers(), Bytes::new());
            // A server that does not take the farewell keeps its session until it idles out.
            let _ = tokio::time::timeout(grace, delete).await;
        }
        self.inbox.closed();
    }

    /// The answer to one request among whatever else its response carries.
    async fn outcome(
        self: &HttpLink,
        posted: Posted,
        expected: &Expected<'_>,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        match posted {
            Posted::Json(body) => {
                let answer = self.matching(&body, expected)?;
                answer.ok_or_else(|| LinkError::NotMcp("the body holds no answer to the request".into()))
            }
            Posted::Accepted => Err(LinkError::NotMcp("a request was accepted without an answer".into())),
            Posted::Stream(mut stream) => {
                while let Some(event) = stream.next().await? {
                    if !is_message(&event) {
                        continue;
                    }
                    match self.matching(&event.data, expected) {
                        Ok(Some(outcome)) => return Ok(outcome),
                        Ok(None) => {}
                        // As a log line on a stdout: odd, but the answer may still come.
                        Err(error) => self.inbox.oddity(&error.to_string()),
                    }
                }
                Err(LinkError::Broken("the stream ended without the answer".into()))
            }
        }
    }

    /// Takes one message of a response; `Some` when it is the answer that is waited for.
    fn matching(
        self: &HttpLink,
        data: &Bytes,
        expected: &Expected<'_>,
    ) -> Result<Option<Result<Raw, RpcError>>, LinkError> {
        match self.read(data)? {
            Message::Answer(answer) => {
                // An error without an id can only belong to the one request of this exchange.
                let ours = match &answer.id {
                    Some(id) => id.number() == Some(expected.id),
                    None => answer.outcome.is_err(),
                };
                if ours {
                    return Ok(Some(answer.outcome));
                }
                self.inbox.oddity(&format!("an answer with the id {:?} on the stream of {}", answer.id, expected.id));
            }
            Message::Notification(notification) => match expected.aside {
                Some(aside) => aside.notification(notification),
                None if notification.method == method::PROGRESS => {}
                None => self.inbox.notification(notification),
            },
            Message::Request(request) => self.asked(request, expected.aside),
        }
        Ok(None)
    }

    fn read(&self, data: &Bytes) -> Result<Message, LinkError> {
        Message::parse(data, self.rules).map_err(|error: BadMessage| LinkError::NotMcp(error.to_string()))
    }

    /// A request of the server; its answer is a POST of its own.
    fn asked(self: &HttpLink, request: Request, aside: Option<&dyn Aside>) {
        let (client, endpoint, headers) = (self.client.clone(), self.endpoint.clone(), self.headers());
        let (scope, limit) = (self.scope.clone(), self.limit);
        let Ok(place) = Arc::clone(&self.answers).try_acquire_owned() else {
            return self
                .inbox
                .oddity(&format!("a request `{}` beyond {ANSWERS} at a time is not answered", request.method));
        };
        let reply = Reply::new(move |answer: Answer| {
            scope.spawn(async move {
                let _place = place;
                // Whether it arrives is not known to us; the server times out by itself.
                let _ = tokio::time::timeout(ASIDE, client.post(&endpoint, headers, answer.to_bytes(), limit)).await;
            });
        });
        match aside {
            Some(aside) => aside.request(request, reply),
            None => self.inbox.request(request, reply),
        }
    }

    /// Holds the stream open on which the server speaks on its own, until the scope ends or the session is lost.
    pub fn listen(self: &Arc<Self>) {
        let link = Arc::clone(self);
        let mut stop = self.scope.stop_signal();
        self.scope.spawn(async move {
            let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
            loop {
                let opened = tokio::select! {
                    opened = link.client.open_stream(&link.endpoint, link.headers(), link.limit) => opened,
                    () = stop.stopped() => return,
                };
                match opened {
                    Ok(Some(stream)) => {
                        backoff.reset();
                        tokio::select! {
                            () = link.drain(stream) => {}
                            () = stop.stopped() => return,
                        }
                    }
                    // The server has nothing to say on its own, or has forgotten us: the next call will find out.
                    Ok(None) | Err(LinkError::Status { status: 400..=499, .. }) => return,
                    Err(_) => {}
                }
                tokio::select! {
                    () = tokio::time::sleep(backoff.next_wait()) => {}
                    () = stop.stopped() => return,
                }
            }
        });
    }

    async fn drain(&self, mut stream: EventStream) {
        while let Ok(Some(event)) = stream.next().await {
            if !is_message(&event) {
                continue;
            }
            match self.read(&event.data) {
                Ok(Message::Notification(notification)) => self.inbox.notification(notification),
                Ok(Message::Request(request)) => self.asked(request, None),
                Ok(Message::Answer(_)) => self.inbox.oddity("an answer on the stream of notifications"),
                Err(error) => self.inbox.oddity(&error.to_string()),
            }
        }
    }
}

/// Whether an event carries a message: others, such as pings of the server's own making, are not for us.
fn is_message(event: &Event) -> bool {
    !event.data.is_empty() && event.event.as_deref().is_none_or(|kind| kind == "message")
}

/// A call in flight; its drop before the answer takes the call back.
struct Pending<'a> {
    link: &'a Arc<HttpLink>,
    id: u64,
    options: &'a CallOptions,
    answered: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.answered || !self.options.cancels() {
            return;
        }
        let (link, id) = (Arc::clone(self.link), self.id);
        self.link.scope.spawn(async move {
            let _ = link.notify(&cancelled(id)).await;
        });
    }
}
