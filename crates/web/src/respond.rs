//! Writing answers: JSON-RPC, problems, plain texts.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::error::{CAPABILITY_MISSING, HEADER_MISMATCH, METHOD_NOT_FOUND, REVISION_UNSUPPORTED};
use toolcrib_protocol::{Answer, Era};
use toolcrib_transport::http::body::{Body, Feed};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer in one JSON body. The status follows the rules of the client's era.
pub fn answer(answer: &Answer, era: Era) -> Response<Body> {
    let status = match (&answer.outcome, era) {
        (Ok(_), _) | (Err(_), Era::Legacy) => StatusCode::OK,
        (Err(error), Era::Modern) => match error.code {
            HEADER_MISMATCH | CAPABILITY_MISSING | REVISION_UNSUPPORTED => StatusCode::BAD_REQUEST,
            METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        },
    };
    json(status, Body::pieces(answer.to_parts()))
}

/// A request that is wrong before anything can be asked of the gateway.
pub fn bad_request(answer: &Answer) -> Response<Body> {
    json(StatusCode::BAD_REQUEST, Body::pieces(answer.to_parts()))
}

/// A JSON body.
pub fn json(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A stream of events.
pub fn events(feed: impl Feed + 'static) -> Response<Body> {
    let mut response = Response::new(Body::events(feed));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Nothing but a status.
pub fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// The answer as no page of another site can use it: neither as an image or a script, nor by guessing what it is.
pub fn shielded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    response
}

/// A method that the route does not have; `allow` names those that it has.
pub fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// A plain text.
pub fn text(status: StatusCode, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A method that a route of the control API does not have.
pub fn wrong_method(allow: &str) -> Response<Body> {
    let detail = Problem::new(Kind::UnknownMethod, "this route does not support the method");
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", &detail);
    // The words of methods always fit a header.
    if let Ok(allow) = HeaderValue::try_from(allow) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// A body of the control API that is not JSON.
pub fn wrong_media() -> Response<Body> {
    let detail =
        Problem::new(Kind::InvalidRequest, "the body must be JSON").hint("Send `Content-Type: application/json`.");
    problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", &detail)
}

/// A problem as RFC 9457 JSON.
pub fn refusal(what: &Problem) -> Response<Body> {
    let row = what.kind.row();
    let status = StatusCode::from_u16(row.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = problem(status, row.name, what);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// The memory for the bodies of requests is used up.
pub fn no_room() -> Response<Body> {
    let detail = Problem::new(Kind::Busy, "the memory limit for request bodies is reached");
    let detail = detail.hint("Try again in a second, or raise `bodies_bytes` in config.toml.");
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "busy", &detail);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// `code` is the stable name of the kind of problem; `type` is the same as a URI, `title` the same for people.
fn problem(status: StatusCode, code: &str, what: &Problem) -> Response<Body> {
    let mut value = serde_json::json!({
        "type": format!("urn:toolcrib:problem:{code}"), "title": code.replace('-', " "),
        "status": status.as_u16(), "detail": what.message, "code": code,
    });
    if let Some(hint) = &what.hint {
        value["hint"] = hint.as_str().into();
    }
    let mut response = json(status, Body::full(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}
