//! HTTP+SSE of revision 2024-11-05: a stream that is the session, and a place where its client posts.
//!
//! `GET /sse` opens the stream; its first event names the place. Everything that is said to the client, answers
//! included, comes on the stream; when it ends, the session does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem, ProfileName, random};
use toolcrib_gateway::duplex::{OUT, Terms};
use toolcrib_gateway::{Duplex, Principal, front};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::{Body, Feed};

use super::mcp::{is_json, read};
use crate::{Site, respond};

/// How many streams may be open: each is a session, and holds a connection.
const OPEN: usize = 1_000;
/// How long a posted message may wait for the client to read what was said before.
const ROOM: Duration = Duration::from_secs(60);

/// The open streams by their ids, which are credentials.
#[derive(Debug, Clone, Default)]
pub(crate) struct SseClients(Arc<Mutex<HashMap<String, Arc<Duplex>>>>);

/// What the client reads. Dropped with its connection, and then the session ends.
struct Stream {
    clients: SseClients,
    id: String,
    endpoint: Option<Bytes>,
    queue: mpsc::Receiver<Bytes>,
}

/// `/sse` and `/sse/p/<profile>`.
pub(super) fn open(
    site: &Arc<Site>,
    principal: Principal,
    profile: ProfileName,
    request: &Request<Incoming>,
) -> Response<Body> {
    // A newer client that tries to post here learns that this is the older door.
    if request.method() != Method::GET {
        return respond::not_allowed("GET");
    }
    if site.gateway.view(profile.as_str()).is_none() {
        return respond::refusal(&front::no_profile(&site.gateway, &profile));
    }
    let (out, queue) = mpsc::channel(OUT);
    let terms = Terms { principal, profile, rules: Rules::strict(site.limits.depth), takes_modern: false };
    let client = Arc::new(Duplex::new(Arc::clone(&site.gateway), terms, out));
    match site.sse_clients.add(client) {
        Ok(id) => {
            let endpoint = Some(format!("/messages?session={id}").into());
            respond::events(Stream { clients: site.sse_clients.clone(), id, endpoint, queue })
        }
        Err(problem) => respond::refusal(&problem),
    }
}

/// The profile whose client posts to `/messages`, where there is such a client.
pub(super) fn profile_of(clients: &SseClients, query: Option<&str>) -> Option<ProfileName> {
    clients.profile(posted_to(query))
}

fn posted_to(query: Option<&str>) -> &str {
    query.and_then(|query| query.strip_prefix("session=")).unwrap_or_default()
}

/// `/messages?session=<id>`.
pub(super) async fn post(site: &Arc<Site>, principal: &Principal, request: Request<Incoming>) -> Response<Body> {
    if request.method() != Method::POST {
        return respond::not_allowed("POST");
    }
    let id = posted_to(request.uri().query());
    let Some(client) = site.sse_clients.get(id, principal) else {
        let problem = Problem::new(Kind::NotFound, "the session does not exist or its stream has ended");
        return respond::refusal(&problem.hint("Open a stream with `GET /sse`; its first event says where to post."));
    };
    if !is_json(request.headers()) {
        return respond::status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let body = match read(site, request.into_body()).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    if tokio::time::timeout(ROOM, client.take(&body)).await.is_err() {
        let problem = Problem::new(Kind::Busy, format!("{OUT} messages wait on the stream to be read"));
        return respond::refusal(&problem.hint("Read them before sending more."));
    }
    respond::status(StatusCode::ACCEPTED)
}

// === impl SseClients ===

impl SseClients {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Arc<Duplex>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, client: Arc<Duplex>) -> Result<String, Problem> {
        let mut open = self.open();
        if open.len() >= OPEN {
            let problem = Problem::new(Kind::Busy, format!("{OPEN} streams are open, which is the limit"));
            return Err(problem.hint("Close unused clients, or use /mcp."));
        }
        let id = random::hex_128();
        open.insert(id.clone(), client);
        Ok(id)
    }

    /// The profile of an open stream.
    fn profile(&self, id: &str) -> Option<ProfileName> {
        self.open().get(id).map(|client| client.profile().clone())
    }

    /// For its own principal; to others it does not exist.
    fn get(&self, id: &str, principal: &Principal) -> Option<Arc<Duplex>> {
        self.open().get(id).filter(|client| client.principal().id == principal.id).cloned()
    }
}

// === impl Stream ===

impl Feed for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(endpoint) = self.endpoint.take() {
            return Poll::Ready(Some(Event { event: Some("endpoint".into()), data: endpoint, ..Event::default() }));
        }
        // Old clients are seen to hear only events with their name.
        self.queue
            .poll_recv(cx)
            .map(|message| message.map(|data| Event { event: Some("message".into()), data, ..Event::default() }))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let client = self.clients.open().remove(&self.id);
        if let Some(client) = client {
            client.end();
        }
    }
}
