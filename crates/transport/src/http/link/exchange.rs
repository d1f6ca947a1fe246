//! One request and what its response carries: the answer, among whatever else the server says on the way.

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use toolcrib_protocol::broken::answered_id;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Message, Raw, Request, RpcError, method};

use crate::call::{CallHandler, LinkError, Reply};
use crate::http::client::Reply as Body;
use crate::http::events::{EventStream, Place, is_message};
use crate::http::refusal::Refusal;

use super::{ANSWERS, HttpLink, UNAWAITED};

type Outcome = Result<Raw, RpcError>;

/// What one exchange of messages waits for.
pub(super) struct Exchange<'a> {
    pub(super) link: &'a Arc<HttpLink>,
    pub(super) id: u64,
    pub(super) handler: Option<&'a dyn CallHandler>,
    /// The call's own headers, which whatever is sent in its course carries too.
    pub(super) headers: &'a HeaderMap,
    pub(super) is_modern: bool,
}

impl Exchange<'_> {
    /// The answer to the request.
    pub(super) async fn outcome(&self, body: Body) -> Result<Outcome, LinkError> {
        match body {
            Body::Json(body) => {
                let answer = self.matching(&body)?;
                answer.ok_or_else(|| LinkError::NotMcp("the body holds no answer to the request".into()))
            }
            Body::Accepted => Err(LinkError::NotMcp("a request was accepted without an answer".into())),
            // Boxed, so that the future of a call that is answered in one body, as most are, stays small.
            Body::Stream(stream) => Box::pin(self.streamed(*stream)).await,
            Body::Refused(refusal) => self.refused(refusal),
        }
    }

    /// Reads a stream up to the answer. A legacy one that ends too early is taken up again where its events have ids.
    async fn streamed(&self, mut stream: EventStream) -> Result<Outcome, LinkError> {
        let mut place = Place::default();
        let mut fruitless = 0;
        loop {
            let early = loop {
                let event = match stream.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break LinkError::Broken("the stream ended without the answer".into()),
                    // What was cut off in the middle of an event is not an event.
                    Err(error @ LinkError::Broken(_)) => break error,
                    Err(error) => return Err(error),
                };
                if !self.is_modern && place.note(&event) {
                    fruitless = 0;
                }
                if !is_message(&event) {
                    continue;
                }
                match self.matching(&event.data) {
                    Ok(Some(outcome)) => return Ok(outcome),
                    Ok(None) => {}
                    // It was meant to be the answer.
                    Err(error) if answered_id(&event.data, &event.data) == Some(self.id) => return Err(error),
                    // As a log line on a stdout: odd, but the answer may still come.
                    Err(error) => self.link.inbox.oddity(&error.to_string()),
                }
            };
            if place.last().is_none() {
                return Err(early);
            }
            stream = self.taken_up(&place, &mut fruitless).await?;
        }
    }

    /// Takes one body or event; `Some` when it holds the answer that is waited for.
    fn matching(&self, data: &Bytes) -> Result<Option<Outcome>, LinkError> {
        let rules = self.link.rules;
        let not_mcp = |error: BadMessage| LinkError::NotMcp(error.to_string());
        match Message::parse(data, rules) {
            Ok(message) => Ok(self.take(message)),
            // Servers of 2025-03-26 may send several at once.
            Err(BadMessage::Batch) => {
                let mut found = None;
                for message in Message::parse_batch(data, rules).map_err(not_mcp)? {
                    match message {
                        Ok(message) => match self.take(message) {
                            Some(_) if found.is_some() => {
                                self.link.inbox.oddity(&format!("a second answer to {}", self.id));
                            }
                            answer => found = found.or(answer),
                        },
                        Err(error) => self.link.inbox.oddity(&error.to_string()),
                    }
                }
                Ok(found)
            }
            Err(error) => Err(not_mcp(error)),
        }
    }

    fn take(&self, message: Message) -> Option<Outcome> {
        match message {
            Message::Answer(answer) => {
                // An error without an id can only belong to the one request of this exchange.
                let is_ours = match &answer.id {
                    Some(id) => id.number() == Some(self.id),
                    None => answer.outcome.is_err(),
                };
                if is_ours {
                    return Some(answer.outcome);
                }
                let id = answer.id.as_ref().map_or("null", |id| id.as_str());
                self.link.inbox.oddity(&format!("an answer with the id {id} on the stream of {}", self.id));
            }
            Message::Notification(notification) => match self.handler {
                Some(handler) => handler.notification(notification),
                // No one listens to this call; in the inbox it would be taken for another one's.
                None if matches!(notification.method.as_str(), method::PROGRESS | method::MESSAGE) => {}
                None => self.link.inbox.notification(notification),
            },
            Message::Request(request) if self.is_modern => {
                let what = format!("a request `{}` of the server, which this revision does not know", request.method);
                self.link.inbox.oddity(&what);
            }
            Message::Request(request) => self.link.asked(request, self.handler, self.headers),
        }
        None
    }

    /// A status that is no success: a JSON-RPC error to our request is an answer all the same.
    fn refused(&self, refusal: Refusal) -> Result<Outcome, LinkError> {
        let answer = if self.link.is_session_lost(&refusal) { None } else { refusal.answer(self.id, self.link.rules) };
        if let Some((id, error)) = answer {
            let is_unheard = refusal.status.as_u16() == 400 && id.is_none();
            let is_lost = is_unheard && self.link.has_session() && names_session(&error);
            return if is_lost { Err(LinkError::SessionLost) } else { Ok(Err(error)) };
        }
        Err(self.link.refused(refusal))
    }
}

/// Whether an error without an id is about our session. Servers built on the examples of the official TypeScript SDK
/// answer a session that they do not know with 400 and such an error in place of 404.
fn names_session(error: &RpcError) -> bool {
    error.message.to_ascii_lowercase().contains("session")
}

impl HttpLink {
    /// A request of the server; its answer is a POST of its own.
    pub(super) fn asked(self: &Arc<Self>, request: Request, handler: Option<&dyn CallHandler>, headers: &HeaderMap) {
        let Ok(place) = Arc::clone(&self.answers).try_acquire_owned() else {
            return self
                .inbox
                .oddity(&format!("a request `{}` beyond {ANSWERS} at a time is not answered", request.method));
        };
        // Anyone who parks the question must not keep the connection.
        let (link, headers) = (Arc::downgrade(self), headers.clone());
        let reply = Reply::new(move |answer: Answer| {
            let Some(link) = link.upgrade() else { return };
            let scope = link.scope.clone();
            scope.spawn(async move {
                let _place = place;
                let headers = [&headers];
                let posting = link.post(&headers, answer.to_bytes());
                // Whether it arrives is not known to us; the server times out by itself.
                let _ = tokio::time::timeout(UNAWAITED, posting).await;
            });
        });
        match handler {
            Some(handler) => handler.request(request, reply),
            None => self.inbox.request(request, reply),
        }
    }
}
