//! `/.well-known/…`: what clients read before they have a credential, and what issuers read of us. Public, and the same
//! for a profile that exists and for one that does not.

use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, Response, StatusCode};
use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::body::Body;

use crate::guard::{CALLBACK, Front, RESOURCE_METADATA};
use crate::respond;

/// Where such paths begin.
pub(super) const ROOT: &str = "/.well-known/";
/// What the gateway is as a client of other authorization servers. Its URL is the client's id.
pub const CLIENT: &str = "/.well-known/oauth-client.json";
/// What our own authorization server says of itself: where RFC 8414 and OpenID Connect Discovery put it.
pub(crate) const SERVERS: [&str; 2] = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
/// For how long an answer may be kept: it changes with the settings, which are read at the start.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=300");

pub(super) fn answer(front: &Front, method: &Method, path: &str) -> Response<Body> {
    let document = match path.strip_prefix(RESOURCE_METADATA) {
        Some(resource) => front.metadata(resource),
        // An issuer fetches it over https only.
        None if path == CLIENT && front.origin().starts_with("https:") => Some(client_document(front.origin())),
        None if SERVERS.contains(&path) => front.server().map(toolcrib_authorization::AuthorizationServer::metadata),
        None => None,
    };
    match document {
        Some(_) if method != Method::GET => respond::not_allowed("GET"),
        Some(document) => {
            let mut response = respond::json(StatusCode::OK, Body::full(document.to_string()));
            response.headers_mut().insert(CACHE_CONTROL, KEPT);
            response
        }
        None => respond::refusal(&Problem::new(Kind::NotFound, "no such path")),
    }
}

/// The gateway as a public client (OAuth Client ID Metadata Document).
fn client_document(origin: &str) -> serde_json::Value {
    json!({
        "client_id": format!("{origin}{CLIENT}"),
        "client_name": "Toolcrib",
        "client_uri": origin,
        "redirect_uris": [format!("{origin}{CALLBACK}")],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    })
}
