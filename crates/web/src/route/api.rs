//! `/api/v1/…`: the control API. One route for each operation of the gateway's table, the OpenAPI document that is made
//! of the same table, the events, and the doors of agents.
//!
//! To add a route, add an operation (`gateway/src/operation.rs`); only what is no operation gets a file here.

mod agents;
mod arguments;
mod events;
mod openapi;

use std::sync::Arc;

use http::header::{AUTHORIZATION, ETAG, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem, Proof};
use toolcrib_call::ProfileSnapshot;
use toolcrib_protocol::{Raw, RequestTrace, Revision};
use toolcrib_session::{Caller, Principal, ShareKey};
use toolcrib_store::Door;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::tls::ClientCertificate;
use toolcrib_view::{Operation, OperationTable, Permission, RoutedOperation};

pub(crate) use agents::socket::{SocketPlaces, lift_credential};

use super::mcp::read;
use crate::guard::{Admission, KnownToken, ProfileKeys};
use crate::{Site, Visitor, respond};

/// Where the control API begins.
const ROOT: &str = "/api/v1";

pub(super) async fn answer(site: &Arc<Site>, visitor: Visitor, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().strip_prefix(ROOT).unwrap_or_default();
    match (head.method.as_str(), path) {
        ("GET", "/openapi.json") => return openapi::answer(site),
        ("POST", "/ui/codes") => return super::ui::code(site, &visitor, &head),
        (_, "/ui/codes") => return respond::wrong_method("POST"),
        ("GET", "/events") => return events::answer(site, &visitor.principal, &head),
        (_, "/openapi.json" | "/events") => return respond::wrong_method("GET"),
        _ => {}
    }
    if let Some(door) = agents::Door::of(path) {
        return Box::pin(agents::answer(site, visitor, head, body, door)).await;
    }
    match site.gateway.operations.find(head.method.as_str(), path) {
        RoutedOperation::Nothing => respond::refusal(&unknown(&site.gateway.operations, path)),
        RoutedOperation::OtherMethods(methods) => {
            let words: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
            respond::wrong_method(&words.join(", "))
        }
        RoutedOperation::Operation(operation, values) => {
            let is_admin = visitor.principal.is_admin();
            let done = operate(site, visitor, &head, body, OperationRoute { operation, values: &values }).await;
            match done {
                Ok(result) => success(operation, &head, &result),
                Err(RouteError::Problem(problem)) => respond::refusal(&for_caller(problem, is_admin, &head)),
                Err(RouteError::Response(response)) => *response,
            }
        }
    }
}

/// What ends a request before its result.
enum RouteError {
    Problem(Problem),
    Response(Box<Response<Body>>),
}

impl From<Problem> for RouteError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// An operation and what its path says of its arguments.
struct OperationRoute<'a> {
    operation: &'static Operation,
    values: &'a [(&'static str, &'a str)],
}

async fn operate(
    site: &Arc<Site>,
    visitor: Visitor,
    head: &Parts,
    body: Incoming,
    route: OperationRoute<'_>,
) -> Result<Raw, RouteError> {
    let OperationRoute { operation, values } = route;
    let Visitor { principal, token, is_barred, snapshot, address, trace } = visitor;
    let mut caller = newcomer(principal, trace);
    if is_barred {
        let asked = super::profile_of(site, &head.uri);
        let profile = asked.as_ref().unwrap_or(&caller.profile);
        return Err(site.no_profile(&caller.principal, profile).into());
    }
    if operation.permission == Permission::Admin && !operation.allows(caller.principal.role) {
        // Refused and recorded before anything that was sent is looked at.
        return Ok(site.gateway.operate(operation, snapshot.as_ref(), &caller, Raw::empty_object()).await?);
    }
    let query = arguments::query(head.uri.query().unwrap_or_default())?;
    if let Some(profile) = arguments::profile(operation, &query)? {
        caller.profile = profile;
    }
    let snapshot = enter(site, &mut caller, token, snapshot, head)?;
    if snapshot.is_none() && operation.is_in_profile() {
        return Err(site.no_profile(&caller.principal, &caller.profile).into());
    }
    let body = if operation.method.has_body() {
        let key = ShareKey::new(&caller.principal, Some(address));
        let body = read(site, body, key).await.map_err(RouteError::Response)?;
        if arguments::is_not_json(&head.headers, &body) {
            return Err(RouteError::Response(Box::new(respond::wrong_media())));
        }
        body
    } else {
        bytes::Bytes::new()
    };
    let given = arguments::RequestParts { values, query, headers: &head.headers, body, depth: site.limits.depth };
    let arguments = given.gather(operation)?;
    Ok(site.gateway.operate(operation, snapshot.as_ref(), &caller, arguments).await?)
}

/// A caller that is in no profile yet but the default one.
fn newcomer(principal: Principal, trace: RequestTrace) -> Caller {
    Caller {
        principal,
        profile: crate::route::default_profile().clone(),
        door: Door::REST,
        revision: Revision::LATEST_LEGACY,
        session: None,
        meta: None,
        trace,
        chain: None,
    }
}

/// Brings a caller into its profile, and gives what decides there.
fn enter(
    site: &Site,
    caller: &mut Caller,
    token: Option<Arc<KnownToken>>,
    mut snapshot: Option<ProfileSnapshot>,
    head: &Parts,
) -> Result<Option<ProfileSnapshot>, Problem> {
    if snapshot.as_ref().is_none_or(|snapshot| snapshot.profile().name != caller.profile) {
        snapshot = site.gateway.snapshot(&caller.profile).ok();
    }
    // Who was let in by the keys of one profile is in this one only by its own, and the role is that of this profile.
    caller.principal = match token {
        Some(token) => match Admission::of_token(token, &caller.profile) {
            Admission { principal, is_barred: true, .. } => {
                return Err(site.no_profile(&principal, &caller.profile));
            }
            Admission { principal, .. } => principal,
        },
        None => opened(site, caller.principal.clone(), snapshot.as_ref(), head)?,
    };
    Ok(snapshot)
}

/// Who the caller is in a profile: its own keys decide, as at its own address.
fn opened(
    site: &Site,
    principal: Principal,
    snapshot: Option<&ProfileSnapshot>,
    head: &Parts,
) -> Result<Principal, Problem> {
    match snapshot.and_then(ProfileKeys::of) {
        Some(keys) if !principal.is_admin() => site.guard.prove(&head.headers, keys),
        // A key opens its own profile only, and that one has keys. Whether this one exists is not told.
        None if principal.identity.proof == Proof::Key && !principal.is_admin() => {
            Err(Problem::new(Kind::Unauthenticated, "the token or key is not valid here")
                .hint("Send a key of the profile, or the gateway's token (`state/token` in the home folder)."))
        }
        _ => Ok(principal),
    }
}

fn success(operation: &Operation, head: &Parts, result: &Raw) -> Response<Body> {
    let status = if operation.creates { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = respond::json(status, Body::full(result.bytes().clone()));
    if operation.is_call() {
        // What a tool says is its own, whatever it calls its parts.
        return response;
    }
    if let Some(revision) = result.text("revision")
        && let Ok(tag) = HeaderValue::try_from(format!("\"{revision}\""))
    {
        response.headers_mut().insert(ETAG, tag);
    }
    if let (true, Some(name)) = (operation.creates, result.text("name"))
        && let Ok(place) = HeaderValue::try_from(format!("{}/{name}", head.uri.path()))
    {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// Whether a request says who sent it.
fn says_who(head: &Parts) -> bool {
    head.headers.contains_key(AUTHORIZATION) || head.extensions.get::<Arc<ClientCertificate>>().is_some()
}

/// The problem as this caller may read it.
fn for_caller(problem: Problem, is_admin: bool, head: &Parts) -> Problem {
    match problem.kind {
        // Anyone who has not said who he is may say so.
        Kind::Forbidden if !is_admin && !says_who(head) => Problem { kind: Kind::Unauthenticated, ..problem }
            .hint("Send `Authorization: Bearer` with the gateway's token (`state/token` in the home folder)."),
        Kind::Internal if !is_admin => {
            tracing::error!(%problem, "an operation failed");
            Problem::new(Kind::Internal, "internal error of the gateway; see its log")
        }
        _ => problem,
    }
}

fn unknown(operations: &OperationTable, path: &str) -> Problem {
    let problem = Problem::new(Kind::NotFound, "no operation has this route");
    let known = operations.iter().map(|operation| operation.path);
    let shown: String = path.chars().take(100).collect();
    match toolcrib_base::nearest::similar(&shown, known).first() {
        Some(path) => {
            problem.hint(format!("Did you mean `{ROOT}{path}`? All routes are listed in `{ROOT}/openapi.json`."))
        }
        None => problem.hint(format!("All routes are listed in `{ROOT}/openapi.json`.")),
    }
}
