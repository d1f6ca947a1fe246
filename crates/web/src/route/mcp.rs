//! MCP over Streamable HTTP: both eras on one endpoint.
//!
//! `post` dispatches messages, `exchange` answers requests, `batch` takes several at a time; what is here belongs to
//! sessions: their streams, and their end.

mod accept;
mod batch;
mod exchange;
mod post;

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HeaderMap;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_call::ProfileSnapshot;
use toolcrib_protocol::{Answer, Id, RequestTrace, Revision, RpcError, header};
use toolcrib_session::{Caller, Principal, Reader, Session, ShareKey};
use toolcrib_transport::http::body::Body;

use crate::{Site, Visitor, respond};

pub(super) use post::{is_json, read};

/// Where a message came from.
#[derive(Debug)]
struct Origin {
    principal: Principal,
    profile: ProfileName,
    /// What decides about the request.
    snapshot: ProfileSnapshot,
    headers: HeaderMap,
    address: IpAddr,
    trace: RequestTrace,
}

impl Origin {
    fn session_id(&self) -> Result<Option<&str>, RpcError> {
        header::single(&self.headers, header::SESSION_ID)
    }

    fn share(&self) -> ShareKey {
        ShareKey::new(&self.principal, Some(self.address))
    }

    fn caller(&self, session: &Arc<Session>) -> Caller {
        Caller::legacy(self.principal.clone(), session).traced(self.trace.clone())
    }
}

pub(super) async fn answer(
    site: &Arc<Site>,
    visitor: Visitor,
    profile: ProfileName,
    request: Request<Incoming>,
) -> Response<Body> {
    let Visitor { principal, snapshot, address, trace, .. } = visitor;
    let Some(snapshot) = snapshot else {
        return respond::refusal(&site.no_profile(&principal, &profile));
    };
    let (Parts { method, headers, .. }, body) = request.into_parts();
    let origin = Origin { principal, profile, snapshot, headers, address, trace };
    match method {
        Method::POST => post::answer(site, origin, body).await,
        Method::GET => get(site, &origin),
        Method::DELETE => delete(site, &origin),
        _ => not_allowed(),
    }
}

fn not_allowed() -> Response<Body> {
    respond::not_allowed("POST, GET, DELETE")
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
            "this request has no session: send `initialize` first, or a stateless request of {}; supported are {}",
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

/// The stream on which a legacy client hears what the gateway says on its own, or one that is taken up again.
fn get(site: &Arc<Site>, origin: &Origin) -> Response<Body> {
    let session = match of_session(site, origin) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    match header::single(&origin.headers, header::LAST_EVENT_ID) {
        Ok(None | Some("")) => match session.open_stream() {
            Ok(reader) => events(reader),
            Err(problem) => respond::refusal(&problem),
        },
        Ok(Some(event)) => match session.resume_stream(event) {
            Ok(reader) => events(reader),
            Err(problem) => respond::bad_request(&Answer::error(None, RpcError::from(&problem))),
        },
        Err(error) => respond::bad_request(&Answer::error(None, error)),
    }
}

fn events(reader: Reader) -> Response<Body> {
    respond::events(exchange::SessionBody(reader))
}

/// Ends a session.
fn delete(site: &Arc<Site>, origin: &Origin) -> Response<Body> {
    match of_session(site, origin) {
        Ok(session) => {
            site.gateway.sessions.close(&session);
            respond::status(StatusCode::NO_CONTENT)
        }
        Err(response) => *response,
    }
}

/// The session of a request without a body: 405 when it names none.
fn of_session(site: &Arc<Site>, origin: &Origin) -> Result<Arc<Session>, Box<Response<Body>>> {
    match origin.session_id() {
        Ok(Some(id)) => session(site, origin, Some(id), None),
        Ok(None) => Err(Box::new(not_allowed())),
        Err(error) => Err(Box::new(respond::bad_request(&Answer::error(None, error)))),
    }
}
