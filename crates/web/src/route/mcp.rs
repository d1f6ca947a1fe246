//! MCP over Streamable HTTP: both eras on one endpoint.
//!
//! An answer is one JSON body unless the request asked for progress and some came first; then it becomes a stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_gateway::front::{self, Opening};
use toolcrib_gateway::session::STREAM_QUEUE;
use toolcrib_gateway::{Caller, Channel, Principal, Session};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Era, Id, Message, Revision, RpcError, header, meta};
use toolcrib_store::Door;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::{BodyError, read_body};

use crate::{Site, respond};

/// How long a client may take to make room for the answer on its stream.
const LAST_WORD: Duration = Duration::from_secs(60);
/// How many messages one batch may have.
const BATCH: usize = 50;

/// Where a message came from.
#[derive(Debug)]
struct Origin {
    principal: Principal,
    profile: ProfileName,
    headers: HeaderMap,
}

pub(super) async fn answer(
    site: &Arc<Site>,
    principal: Principal,
    profile: ProfileName,
    request: Request<Incoming>,
) -> Response<Body> {
    if site.gateway.view(profile.as_str()).is_none() {
        return respond::refusal(&front::no_profile(&site.gateway, &profile));
    }
    let (head, body) = request.into_parts();
    let origin = Origin { principal, profile, headers: head.headers };
    match head.method {
        Method::POST => post(site, origin, body).await,
        Method::GET => get(site, &origin),
        Method::DELETE => delete(site, &origin),
        _ => not_allowed(),
    }
}

fn not_allowed() -> Response<Body> {
    respond::not_allowed("POST, GET, DELETE")
}

async fn post(site: &Arc<Site>, origin: Origin, body: Incoming) -> Response<Body> {
    if let Some(refused) = refused_media(&origin.headers) {
        return respond::status(refused);
    }
    let body = match read_body(body, site.limits.request_bytes).await {
        Ok(body) => body,
        Err(BodyError::TooLarge(limit)) => {
            let problem = Problem::new(Kind::TooLarge, format!("the body has more than {limit} bytes"))
                .hint("Raise `request_bytes` in config.toml if this is meant.");
            return respond::refusal(&problem);
        }
        Err(BodyError::Incomplete) => return respond::status(StatusCode::REQUEST_TIMEOUT),
    };
    let rules = Rules::strict(site.limits.depth);
    match Message::parse(&body, rules) {
        Ok(Message::Request(request)) => one_request(site, origin, request).await,
        Ok(other) => aside(site, &origin, &other),
        Err(BadMessage::Batch) => batch(site, &origin, &body, rules).await,
        Err(bad) => respond::bad_request(&bad.to_answer()),
    }
}

fn refused_media(headers: &HeaderMap) -> Option<StatusCode> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let sent = text(CONTENT_TYPE).unwrap_or_default();
    if !sent.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Some(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    // Clients must accept both forms; those that name only one of them, or say nothing, are served all the same.
    let wanted = text(ACCEPT).unwrap_or("*/*");
    let fits = ["application/json", "text/event-stream", "*/*", "application/*", "text/*"];
    (!fits.iter().any(|kind| wanted.contains(kind))).then_some(StatusCode::NOT_ACCEPTABLE)
}

async fn one_request(site: &Arc<Site>, origin: Origin, request: toolcrib_protocol::Request) -> Response<Body> {
    let wrong = |error: RpcError| respond::bad_request(&Answer::error(Some(request.id.clone()), error));
    let named = match header::single(&origin.headers, header::PROTOCOL_VERSION) {
        Ok(named) => named,
        Err(error) => return wrong(error),
    };
    let session_id = match session_id(&origin.headers) {
        Ok(id) => id,
        Err(error) => return wrong(error),
    };
    if let Err(error) = header::check_present(&origin.headers, &request) {
        return wrong(error);
    }
    // A session speaks for itself, whatever the version header of a sloppy client says.
    let opening = match session_id {
        Some(_) if meta::declared_date(&request.params).is_none() => front::classify(&request, None),
        _ => front::classify(&request, named),
    };
    match opening {
        Err(error) => wrong(error),
        Ok(Opening::Initialize) => initialize(site, &origin, &request),
        Ok(Opening::Modern(declared)) => {
            if let Err(error) = header::check_modern(&origin.headers, &request, &declared.date) {
                return wrong(error);
            }
            let caller = Caller {
                principal: origin.principal,
                profile: origin.profile,
                door: Door::MCP,
                revision: declared.revision,
                session: None,
            };
            run(site, caller, request).await
        }
        Ok(Opening::Legacy) => match session(site, &origin, session_id, Some(&request.id)) {
            Ok(session) => {
                let revision = session.revision;
                let caller = Caller {
                    principal: origin.principal,
                    profile: origin.profile,
                    door: Door::MCP,
                    revision,
                    session: Some(session),
                };
                run(site, caller, request).await
            }
            Err(response) => *response,
        },
    }
}

fn initialize(site: &Arc<Site>, origin: &Origin, request: &toolcrib_protocol::Request) -> Response<Body> {
    let (answer, session) = site.gateway.initialize(request, &origin.principal, &origin.profile);
    let mut response = respond::answer(&answer, Era::Legacy);
    match session {
        Some(session) => {
            let id = HeaderValue::from_str(&session.id).expect("hexadecimal digits fit a header");
            response.headers_mut().insert(HeaderName::from_static(header::SESSION_ID), id);
        }
        None => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}

fn session_id(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    header::single(headers, header::SESSION_ID)
}

/// The session of a legacy message: 400 when it names none, 404 when it is not (or no longer) its own. `request` is the
/// id of a request, which its error carries.
fn session(
    site: &Arc<Site>,
    origin: &Origin,
    id: Option<&str>,
    request: Option<&Id>,
) -> Result<Arc<Session>, Box<Response<Body>>> {
    let Some(id) = id else {
        let supported: Vec<_> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
        let message = format!(
            "this request belongs to no session: send `initialize` first, or a stateless request of {}; supported are {}",
            Revision::LATEST,
            supported.join(", ")
        );
        let answer = Answer::error(request.cloned(), RpcError::new(-32_600, message));
        return Err(Box::new(respond::bad_request(&answer)));
    };
    site.gateway.sessions.get(id, &origin.principal, &origin.profile).ok_or_else(|| {
        let problem =
            Problem::new(Kind::NotFound, "the session does not exist or has ended").hint("Send `initialize` again.");
        let answer = Answer::error(request.cloned(), RpcError::from(&problem));
        Box::new(respond::json(StatusCode::NOT_FOUND, Body::pieces(answer.to_parts())))
    })
}

/// Answers a request as JSON, or as a stream once progress came first.
async fn run(site: &Arc<Site>, caller: Caller, request: toolcrib_protocol::Request) -> Response<Body> {
    let era = caller.revision.era();
    if meta::progress_token(&request.params).is_none() {
        let answer = site.gateway.request(&caller, request, None).await;
        return answered_whole(answer.as_ref(), era);
    }
    let (progress, mut messages) = mpsc::channel(STREAM_QUEUE);
    let gateway = Arc::clone(&site.gateway);
    let mut running = Box::pin(async move { gateway.request(&caller, request, Some(Channel::new(progress))).await });
    let first = tokio::select! {
        biased;
        Some(message) = messages.recv() => message,
        answer = &mut running => return answered_whole(answer.as_ref(), era),
    };
    let (out, stream) = mpsc::channel(STREAM_QUEUE);
    site.scope.spawn(async move {
        // Progress may be missed by a client that does not read; the call itself must go on to its end or deadline.
        let tell = |message: Bytes| !matches!(out.try_send(message), Err(TrySendError::Closed(_)));
        let mut open = tell(first);
        let mut ended = None;
        while open && ended.is_none() {
            tokio::select! {
                biased;
                Some(message) = messages.recv() => open = tell(message),
                answer = &mut running => ended = Some(answer),
                // The client went away; dropping the request decides by its era whether the server hears of it.
                () = out.closed() => open = false,
            }
        }
        if let Some(Some(answer)) = ended {
            // What came just before the answer goes out before it.
            while let Ok(message) = messages.try_recv() {
                tell(message);
            }
            // A client that never reads loses the answer in the end.
            let _ = tokio::time::timeout(LAST_WORD, out.send(answer.to_bytes())).await;
        }
    });
    respond::events(stream)
}

/// An answer in one body. A request that its client has cancelled gets none; the exchange still has to end.
fn answered_whole(answer: Option<&Answer>, era: Era) -> Response<Body> {
    answer.map_or_else(|| respond::status(StatusCode::ACCEPTED), |answer| respond::answer(answer, era))
}

/// Notifications and answers: accepted without a body.
fn aside(site: &Arc<Site>, origin: &Origin, message: &Message) -> Response<Body> {
    let id = match session_id(&origin.headers) {
        Ok(id) => id,
        Err(error) => return respond::bad_request(&Answer::error(None, error)),
    };
    let modern = header::single(&origin.headers, header::PROTOCOL_VERSION).ok().flatten();
    if id.is_none() && modern.is_some_and(Revision::is_modern_date) {
        return respond::status(StatusCode::ACCEPTED);
    }
    let session = match session(site, origin, id, None) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    if let Message::Notification(notification) = message {
        let caller = legacy(origin, session);
        site.gateway.notification(&caller, notification);
    }
    respond::status(StatusCode::ACCEPTED)
}

fn legacy(origin: &Origin, session: Arc<Session>) -> Caller {
    Caller {
        principal: origin.principal.clone(),
        profile: origin.profile.clone(),
        door: Door::MCP,
        revision: session.revision,
        session: Some(session),
    }
}

/// A batch, for the one revision that has them.
async fn batch(site: &Arc<Site>, origin: &Origin, body: &Bytes, rules: Rules) -> Response<Body> {
    let refuse = || respond::bad_request(&BadMessage::Batch.to_answer());
    let Ok(Some(id)) = session_id(&origin.headers) else { return refuse() };
    let session = match session(site, origin, Some(id), None) {
        Ok(session) if session.revision.has_batches() => session,
        Ok(_) => return refuse(),
        Err(response) => return *response,
    };
    let messages = match Message::parse_batch(body, rules) {
        Ok(messages) if messages.len() <= BATCH => messages,
        Ok(_) => {
            let problem = Problem::new(Kind::TooLarge, format!("a batch of more than {BATCH} messages"));
            return respond::refusal(&problem);
        }
        Err(bad) => return respond::bad_request(&bad.to_answer()),
    };
    let caller = legacy(origin, session);
    let mut answers = Vec::new();
    for message in messages {
        match message {
            Ok(Message::Request(request)) => answers.extend(site.gateway.request(&caller, request, None).await),
            Ok(Message::Notification(notification)) => site.gateway.notification(&caller, &notification),
            Ok(Message::Answer(_)) => {}
            Err(bad) => answers.push(bad.to_answer()),
        }
    }
    if answers.is_empty() {
        return respond::status(StatusCode::ACCEPTED);
    }
    let texts: Vec<Bytes> = answers.iter().map(Answer::to_bytes).collect();
    let mut out = vec![b'['];
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(text);
    }
    out.push(b']');
    respond::json(StatusCode::OK, Body::full(out))
}

/// The stream on which a legacy client hears what the gateway says on its own.
fn get(site: &Arc<Site>, origin: &Origin) -> Response<Body> {
    let Ok(Some(id)) = session_id(&origin.headers) else { return not_allowed() };
    let session = match session(site, origin, Some(id), None) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    match session.open_stream() {
        Ok(stream) => respond::events(stream),
        Err(problem) => respond::refusal(&problem),
    }
}

/// Ends a session.
fn delete(site: &Arc<Site>, origin: &Origin) -> Response<Body> {
    let Ok(Some(id)) = session_id(&origin.headers) else { return not_allowed() };
    match session(site, origin, Some(id), None) {
        Ok(session) => {
            site.gateway.sessions.close(&session);
            respond::status(StatusCode::NO_CONTENT)
        }
        Err(response) => *response,
    }
}
