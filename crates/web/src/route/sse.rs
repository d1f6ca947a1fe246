//! HTTP+SSE of revision 2024-11-05: a stream that is the session, and a place where its client posts.
//!
//! `GET /sse` opens the stream; its first event names the place. Everything that is said to the client, answers
//! included, comes on the stream; when it ends, the session does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, ProfileName, random};
use toolcrib_gateway::Duplex;
use toolcrib_gateway::duplex::{OUT, Terms};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::sse::Event;
use toolcrib_session::{Principal, ShareKey};
use toolcrib_transport::http::body::{Body, Feed};

use super::mcp::{is_json, read};
use crate::{Site, Visitor, respond};

/// How many streams may be open: each is a session, and holds a connection.
const OPEN: usize = 1_000;
/// How many an administrator may open beyond these.
const RESERVE: usize = 16;
/// How long a posted message may wait for the client to read what was said before.
const ROOM: Duration = Duration::from_secs(60);

/// The open streams by their ids, which are credentials.
#[derive(Debug, Clone)]
pub(crate) struct SseClients {
    open: Arc<Mutex<HashMap<String, SseClient>>>,
    most: usize,
}

/// A client whose stream is open.
#[derive(Debug)]
struct SseClient {
    client: Arc<Duplex>,
    share: ShareKey,
    /// Until its client has posted something, the stream makes room for others.
    is_used: bool,
    opened: Instant,
}

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
    visitor: Visitor,
    profile: &ProfileName,
    request: &Request<Incoming>,
) -> Response<Body> {
    // A newer client that tries to post here learns that this is the older door.
    if request.method() != Method::GET {
        return respond::not_allowed("GET");
    }
    let Visitor { principal, snapshot, address, .. } = visitor;
    let Some(snapshot) = snapshot else {
        return respond::refusal(&site.no_profile(&principal, profile));
    };
    let (out, queue) = mpsc::channel(OUT);
    let rules = Rules::strict(site.limits.depth);
    let terms = Terms { principal, snapshot, is_owner: false, rules, takes_modern: false };
    let share = ShareKey::new(&terms.principal, Some(address));
    let client = Arc::new(Duplex::new(Arc::clone(&site.gateway), terms, out));
    match site.sse_clients.add(client, share) {
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
pub(super) async fn post(site: &Arc<Site>, visitor: &Visitor, request: Request<Incoming>) -> Response<Body> {
    if request.method() != Method::POST {
        return respond::not_allowed("POST");
    }
    let id = posted_to(request.uri().query());
    let client = site.sse_clients.get(id, &visitor.principal).filter(|_| !visitor.is_barred);
    let Some(client) = client else {
        let problem = Problem::new(Kind::NotFound, "the session does not exist or its stream has ended");
        return respond::refusal(
            &problem.hint("Open a stream with `GET /sse`; its first event contains the URL to post to."),
        );
    };
    if !is_json(request.headers()) {
        return respond::status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let key = ShareKey::new(&visitor.principal, Some(visitor.address));
    let body = match read(site, request.into_body(), key).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    if tokio::time::timeout(ROOM, client.take(&body, visitor.trace.clone())).await.is_err() {
        let problem = Problem::new(Kind::Busy, format!("{OUT} messages on the stream are unread"));
        return respond::refusal(&problem.hint("Read them before sending more."));
    }
    respond::status(StatusCode::ACCEPTED)
}

// === impl SseClients ===

impl SseClients {
    /// None; at most so many sessions at a time, and no more than these have streams.
    pub(crate) fn new(sessions: usize) -> Self {
        Self { open: Arc::default(), most: OPEN.min(sessions) }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, SseClient>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client. Where there are too many, the oldest unused stream ends: one of the client itself
    /// when it has its share, else one of the client that has most.
    fn add(&self, client: Arc<Duplex>, share: ShareKey) -> Result<String, Problem> {
        let mut open = self.open();
        let own = open.values().filter(|connected| connected.share == share).count();
        // Others have a quarter that no client can take.
        let over_share = !share.is_admin && own >= (self.most - self.most / 4).max(1);
        if over_share || open.len() >= self.most {
            let unused = oldest_unused(&open, over_share.then_some(&share));
            let reserve = if share.is_admin { RESERVE } else { 0 };
            // Dropped with its last handle, the client's end closes its stream.
            let has_room = unused.is_some_and(|id| open.remove(&id).is_some());
            if !has_room && (over_share || open.len() >= self.most + reserve) {
                let problem = Problem::new(Kind::Busy, format!("the limit of {} open streams is reached", open.len()));
                return Err(problem.hint("Close unused clients, or use /mcp."));
            }
        }
        let id = random::hex_128();
        open.insert(id.clone(), SseClient { client, share, is_used: false, opened: Instant::now() });
        Ok(id)
    }

    /// Ends every stream as soon as the requests that run on it are answered.
    pub(crate) fn finish(&self, scope: &Scope) {
        let open: Vec<_> =
            self.open().iter().map(|(id, connected)| (id.clone(), Arc::clone(&connected.client))).collect();
        for (id, client) in open {
            let clients = self.clone();
            scope.spawn(async move {
                client.finish().await;
                // The stream ends when the last handle to its client is gone, after what is still queued.
                clients.open().remove(&id);
            });
        }
    }

    /// The profile of an open stream.
    fn profile(&self, id: &str) -> Option<ProfileName> {
        self.open().get(id).map(|connected| connected.client.profile().clone())
    }

    /// For its own principal in the role in which it was opened; to others it does not exist.
    fn get(&self, id: &str, principal: &Principal) -> Option<Arc<Duplex>> {
        let mut open = self.open();
        let is_own = |own: &Principal| own.id == principal.id && own.role == principal.role;
        let connected = open.get_mut(id).filter(|connected| is_own(connected.client.principal()))?;
        connected.is_used = true;
        Some(Arc::clone(&connected.client))
    }
}

/// The oldest unused stream: of this client, or of the client that has most of them.
fn oldest_unused(open: &HashMap<String, SseClient>, share: Option<&ShareKey>) -> Option<String> {
    let mut clients: HashMap<&ShareKey, Vec<(Instant, &String)>> = HashMap::new();
    for (id, connected) in open {
        if !connected.is_used && share.is_none_or(|share| connected.share == *share) {
            clients.entry(&connected.share).or_default().push((connected.opened, id));
        }
    }
    let most = clients.into_values().max_by_key(Vec::len)?;
    most.into_iter().min().map(|(_, id)| id.clone())
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
        let connected = self.clients.open().remove(&self.id);
        if let Some(connected) = connected {
            connected.client.end();
        }
    }
}
