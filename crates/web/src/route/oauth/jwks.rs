//! `GET /oauth/jwks`: the keys that check our tokens.

use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Response, StatusCode};
use toolcrib_authorization::AuthorizationServer;
use toolcrib_transport::http::body::Body;

use crate::respond;

/// For how long the set may be kept: the next key is in it long before it signs.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=300");

pub(super) fn answer(server: &AuthorizationServer) -> Response<Body> {
    let mut response = respond::json(StatusCode::OK, Body::full(server.key_set().to_string()));
    response.headers_mut().insert(CACHE_CONTROL, KEPT);
    response
}
