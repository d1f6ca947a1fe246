//! The endpoints of the built-in authorization server, one file each: `authorize` and `consent` are pages for people,
//! `token`, `revoke`, `register` and `jwks` are for clients; its metadata is among `well_known`. To add one, add its file,
//! its path in `guard/page.rs` and its arm in [`answer`], or in [`client_answer`] for one that takes a body.
//!
//! Everything about OAuth is in `toolcrib-authorization`; here are requests, pages and cookies.

mod authorize;
mod consent;
mod jwks;
mod page;
mod register;
mod revoke;
mod token;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use toolcrib_authorization::{AuthorizationServer, OAuthError, OAuthErrorCode, TokenRequest};
use toolcrib_base::{Kind, Problem};
use toolcrib_session::ShareKey;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::BodyError;

use crate::guard::{AUTHORIZE, Front, KEYS, REGISTER, REVOKE, TOKEN};
use crate::route::form;
use crate::{Site, Visitor, respond};

/// The largest body, in bytes.
const BODY: usize = 64 * 1024;

/// What the endpoints need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages<'a> {
    pub(super) front: &'a Front,
    pub(super) server: &'a AuthorizationServer,
}

/// Answers a request to one of the endpoints.
pub(super) async fn answer(
    site: &Arc<Site>,
    pages: Pages<'_>,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let (method, path) = (request.method(), request.uri().path());
    match (method, path) {
        (&Method::GET, AUTHORIZE) => authorize::answer(pages, &request).await,
        (&Method::GET, KEYS) => jwks::answer(pages.server),
        (_, REGISTER) if !pages.server.registers() => {
            respond::refusal(&Problem::new(Kind::NotFound, "clients cannot register themselves here").hint(
                "Use a client metadata document, or ask the gateway's administrator to add the client to the settings.",
            ))
        }
        (&Method::POST, TOKEN | REVOKE | REGISTER) => client_answer(site, pages.server, visitor, request).await,
        (_, AUTHORIZE | KEYS) => respond::not_allowed("GET"),
        (_, TOKEN | REVOKE | REGISTER) => respond::not_allowed("POST"),
        _ => consent::answer(site, pages, visitor, request).await,
    }
}

/// Answers a client at one of the endpoints that take a body.
async fn client_answer(
    site: &Site,
    server: &AuthorizationServer,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let authorization = authorization(request.headers());
    let answered = async {
        let media_type = if path == REGISTER { "application/json" } else { form::TYPE };
        let body = body(site, visitor, request, media_type).await?;
        let sent = TokenRequest { authorization: authorization.as_deref(), body: &body };
        match path.as_str() {
            TOKEN => token::answer(server, sent).await,
            REVOKE => revoke::answer(server, sent).await,
            _ => register::answer(server, sent.body).await,
        }
    };
    answered.await.unwrap_or_else(|error| error_answer(&error))
}

/// The body of a request, where it is of this type.
async fn body(
    site: &Site,
    visitor: &Visitor,
    request: Request<Incoming>,
    media_type: &str,
) -> Result<Bytes, OAuthError> {
    let wrong = |why: &str| OAuthError { code: OAuthErrorCode::InvalidRequest, description: why.to_owned() };
    if !form::is_of_type(request.headers(), media_type) {
        return Err(wrong(&format!("the body must be {media_type}")));
    }
    let key = ShareKey::new(&visitor.principal, Some(visitor.address));
    site.bodies.read(request.into_body(), BODY, key).await.map_err(|error| match error {
        BodyError::TooLarge(limit) => wrong(&format!("the body has more than {limit} bytes")),
        BodyError::Incomplete => wrong("the body did not arrive"),
        BodyError::NoRoom => OAuthError {
            code: OAuthErrorCode::TemporarilyUnavailable,
            description: "the memory limit for request bodies is reached".to_owned(),
        },
    })
}

/// The one `Authorization` of a request; `None` for one that is no text, too, which proves no client.
fn authorization(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values.next()?;
    let text = first.to_str().ok().filter(|_| values.next().is_none());
    Some(text.unwrap_or_default().to_owned())
}

/// An answer that no cache keeps (RFC 6749, section 5.1).
fn json_answer(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    let mut response = respond::json(status, Body::full(value.to_string()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An error for a client (RFC 6749, section 5.2).
fn error_answer(error: &OAuthError) -> Response<Body> {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let value = json!({ "error": error.code.as_str(), "error_description": error.description });
    let mut response = json_answer(status, &value);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"toolcrib\""));
    }
    response
}
