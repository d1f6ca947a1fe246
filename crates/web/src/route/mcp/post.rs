//! What a client posts: one message, dispatched by its era, or a batch.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem};
use toolcrib_gateway::front::{self, Opening};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Era, Message, Request, Revision, RpcError, header, meta};
use toolcrib_session::{Caller, ShareKey};
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::BodyError;

use super::accept::Accept;
use super::{Origin, batch, exchange, session};
use crate::{Site, respond};

pub(super) async fn answer(site: &Arc<Site>, origin: Origin, body: Incoming) -> Response<Body> {
    if !is_json(&origin.headers) {
        return respond::status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let accept = Accept::read(&origin.headers);
    if !accept.fits() {
        return respond::status(StatusCode::NOT_ACCEPTABLE);
    }
    let body = match read(site, body, origin.share()).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let rules = Rules::strict(site.limits.depth);
    match Message::parse(&body, rules) {
        Ok(Message::Request(request)) => one_request(site, origin, accept, request).await,
        Ok(other) => aside(site, &origin, other),
        Err(BadMessage::Batch) => batch::answer(site, &origin, accept, &body).await,
        Err(bad) => respond::bad_request(&bad.to_answer()),
    }
}

/// The body of a request, within its bounds and the budget of all.
pub(crate) async fn read(site: &Arc<Site>, body: Incoming, key: ShareKey) -> Result<Bytes, Box<Response<Body>>> {
    site.bodies.read(body, site.limits.request_bytes, key).await.map_err(|error| {
        Box::new(match error {
            BodyError::TooLarge(limit) => {
                let problem = Problem::new(Kind::TooLarge, format!("the body has more than {limit} bytes"))
                    .hint("To allow larger requests, raise `request_bytes` in config.toml.");
                respond::refusal(&problem)
            }
            BodyError::Incomplete => respond::status(StatusCode::REQUEST_TIMEOUT),
            BodyError::NoRoom => respond::no_room(),
        })
    })
}

/// Whether the body says that it is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

async fn one_request(site: &Arc<Site>, origin: Origin, accept: Accept, request: Request) -> Response<Body> {
    let caller = match caller(site, &origin, &request) {
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    // The headers are read: what they stand in is memory of the connection, which it uses again for the next request.
    let Origin { snapshot, .. } = origin;
    exchange::one(site, snapshot, caller, request, accept).await
}

/// Who asks, by the rules of the era that the request is of; or the answer, where it has none further on.
fn caller(site: &Arc<Site>, origin: &Origin, request: &Request) -> Result<Caller, Box<Response<Body>>> {
    let wrong = |error: RpcError| Box::new(respond::bad_request(&Answer::error(Some(request.id.clone()), error)));
    let named = header::single(&origin.headers, header::PROTOCOL_VERSION).map_err(wrong)?;
    let session_id = origin.session_id().map_err(wrong)?;
    header::check_present(&origin.headers, request).map_err(wrong)?;
    // A session speaks for itself, whatever the version header of a sloppy client says.
    let opening = match session_id {
        Some(_) if meta::declared_date(&request.params).is_none() => front::classify(request, None),
        _ => front::classify(request, named),
    };
    match opening.map_err(wrong)? {
        Opening::Initialize => Err(Box::new(initialize(site, origin, request))),
        Opening::Modern(declared) => {
            header::check_modern(&origin.headers, request, &declared.date).map_err(wrong)?;
            let caller = Caller::modern(origin.principal.clone(), origin.profile.clone(), declared);
            let caller = caller.traced(origin.trace.clone());
            site.gateway.check_headers(&origin.snapshot, &caller, request, &origin.headers).map_err(wrong)?;
            Ok(caller)
        }
        Opening::Legacy => Ok(origin.caller(&session(site, origin, session_id, Some(&request.id))?)),
    }
}

fn initialize(site: &Arc<Site>, origin: &Origin, request: &Request) -> Response<Body> {
    let (answer, session) = site.gateway.initialize(&origin.snapshot, request, &origin.principal, Some(origin.address));
    let mut response = respond::answer(&answer, Era::Legacy);
    match session {
        Some(session) => {
            let id = HeaderValue::from_str(session.id.as_str()).expect("hexadecimal digits fit a header");
            response.headers_mut().insert(HeaderName::from_static(header::SESSION_ID), id);
        }
        None => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}

/// Notifications and answers: accepted without a body.
fn aside(site: &Arc<Site>, origin: &Origin, message: Message) -> Response<Body> {
    let id = match origin.session_id() {
        Ok(id) => id,
        Err(error) => return respond::bad_request(&Answer::error(None, error)),
    };
    if id.is_none() && is_modern(origin, &message) {
        // A modern client cancels by closing its stream; what else it tells means nothing over HTTP.
        return respond::status(StatusCode::ACCEPTED);
    }
    let session = match session(site, origin, id, None) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    match message {
        Message::Notification(notification) => site.gateway.notification(&origin.caller(&session), &notification),
        Message::Answer(answer) => site.gateway.take_answer(&session, answer),
        Message::Request(_) => {}
    }
    respond::status(StatusCode::ACCEPTED)
}

fn is_modern(origin: &Origin, message: &Message) -> bool {
    let named = header::single(&origin.headers, header::PROTOCOL_VERSION).ok().flatten();
    let told = match message {
        Message::Notification(notification) => meta::declared_date(&notification.params),
        Message::Request(_) | Message::Answer(_) => None,
    };
    named.or(told.as_deref()).is_some_and(Revision::is_modern_date)
}
