//! A mock server over HTTP in this process: Streamable HTTP at `/mcp`, HTTP+SSE of 2024-11-05 at `/sse`.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use toolcrib_base::random;
use toolcrib_base::task::Scope;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::{Body, Feed};
use toolcrib_transport::http::server;

use super::{Guard, Live, Mock, speak};
use crate::speak::largest;

/// How many messages may wait on one stream.
const WAITING: usize = 64;

/// A mock server that listens on a port which the system chose. It ends with its scope.
#[derive(Debug)]
pub(crate) struct HttpMock {
    address: SocketAddr,
    live: Arc<Live>,
}

/// What connections share.
#[derive(Debug)]
struct Door {
    live: Arc<Live>,
    /// Who looks at the tokens of callers, where some are asked for.
    guard: Option<Guard>,
    scope: Scope,
    /// The streams of HTTP+SSE by the number in the URL for messages.
    streams: Mutex<HashMap<String, mpsc::Sender<Bytes>>>,
}

// === impl HttpMock ===

impl HttpMock {
    /// Starts to listen. `guard` makes who looks at tokens, for the origin of the server.
    pub(crate) async fn start(
        mock: Mock,
        guard: impl FnOnce(String) -> Option<Guard>,
        scope: &Scope,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (live, guard) = (Arc::new(Live::new(mock)), guard(format!("http://{address}")));
        let door = Door { live: Arc::clone(&live), guard, scope: scope.clone(), streams: Mutex::default() };
        let door = Arc::new(door);
        scope.spawn(server::serve(listener, scope.clone(), move |_, request| {
            let door = Arc::clone(&door);
            async move { door.answer(request).await }
        }));
        Ok(Self { address, live })
    }

    /// The URL for Streamable HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The URL for HTTP+SSE.
    pub(crate) fn sse_url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }
}

// === impl Door ===

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        // No page of the web may drive a test.
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !host.starts_with("127.0.0.1") || head.headers.contains_key(ORIGIN) {
            return status(StatusCode::FORBIDDEN);
        }
        let claims = match &self.guard {
            None => None,
            Some(guard) => {
                if let Some(metadata) = guard.metadata(head.uri.path()).filter(|_| head.method == Method::GET) {
                    return json(Body::full(metadata.to_string()));
                }
                match guard.admit(&head.headers) {
                    Ok(claims) => Some(claims),
                    Err(refusal) => return refusal,
                }
            }
        };
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/mcp") => self.changes(),
            (&Method::POST, "/mcp") => match server::read_body(body, largest()).await {
                Ok(body) => match speak::answer(&self.live, &body, claims.as_ref()).await {
                    Some(answer) => json(Body::pieces(answer.to_parts())),
                    None => status(StatusCode::ACCEPTED),
                },
                Err(_) => status(StatusCode::PAYLOAD_TOO_LARGE),
            },
            (&Method::GET, "/sse") => self.stream(),
            (&Method::POST, "/message") => {
                let Ok(body) = server::read_body(body, largest()).await else {
                    return status(StatusCode::PAYLOAD_TOO_LARGE);
                };
                let number = head.uri.query().and_then(|query| query.strip_prefix("session=")).unwrap_or_default();
                let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(stream) = streams.get(number).cloned() else { return status(StatusCode::NOT_FOUND) };
                drop(streams);
                let live = Arc::clone(&self.live);
                self.scope.spawn(async move {
                    if let Some(answer) = speak::answer(&live, &body, claims.as_ref()).await {
                        // The client has gone when this fails.
                        let _ = stream.send(answer.to_bytes()).await;
                    }
                });
                status(StatusCode::ACCEPTED)
            }
            (_, "/mcp" | "/sse" | "/message") => status(StatusCode::METHOD_NOT_ALLOWED),
            _ => status(StatusCode::NOT_FOUND),
        }
    }

    /// The stream on which a client of Streamable HTTP learns of changes.
    fn changes(&self) -> Response<Body> {
        let (sender, messages) = mpsc::channel(WAITING);
        self.tell_changes(sender);
        events(Stream { first: None, messages })
    }

    /// The stream of HTTP+SSE: first the URL for messages, then every message.
    fn stream(&self) -> Response<Body> {
        let (sender, messages) = mpsc::channel(WAITING);
        let number = random::hex_128();
        let event =
            Event { event: Some("endpoint".to_owned()), ..Event::data(format!("/message?session={number}").into()) };
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|_, stream| !stream.is_closed());
        streams.insert(number, sender.clone());
        drop(streams);
        self.tell_changes(sender);
        events(Stream { first: Some(event), messages })
    }

    fn tell_changes(&self, stream: mpsc::Sender<Bytes>) {
        let mut changes = self.live.changes();
        let mut stop = self.scope.stop_signal();
        self.scope.spawn(async move {
            loop {
                tokio::select! {
                    changed = changes.changed() => {
                        if changed.is_err() || stream.send(speak::changed()).await.is_err() {
                            return;
                        }
                    }
                    () = stream.closed() => return,
                    () = stop.stopped() => return,
                }
            }
        });
    }
}

/// The events of one stream. It ends when its connection does.
struct Stream {
    first: Option<Event>,
    messages: mpsc::Receiver<Bytes>,
}

impl Feed for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        match self.first.take() {
            Some(event) => Poll::Ready(Some(event)),
            None => self.messages.poll_event(cx),
        }
    }
}

pub(super) fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn events(feed: impl Feed + 'static) -> Response<Body> {
    let mut response = Response::new(Body::events(feed));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}
