//! The handshake of a WebSocket (RFC 6455, section 4), and the credential of a page, which cannot send `Authorization`:
//! it stands among the subprotocols, as `bearer.TOKEN`, and goes through the guard like every other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::body::Body;

use crate::respond;

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
/// What is hashed with the client's key (section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The subprotocol that is spoken.
const SUBPROTOCOL: &str = "toolcrib";
/// What stands before a credential among the subprotocols.
const BEARER: &str = "bearer.";

/// Moves a credential among the subprotocols of a handshake to where the guard looks.
pub(crate) fn lift_credential<B>(mut request: Request<B>) -> Request<B> {
    let path = request.uri().path();
    let is_door = path.starts_with("/api/v1/agents/") && path.ends_with("/ws");
    if !is_door || !request.headers().contains_key(PROTOCOL) {
        return request;
    }
    let headers = request.headers_mut();
    let offered: Vec<String> = protocols(headers).map(str::to_owned).collect();
    headers.remove(PROTOCOL);
    for name in &offered {
        match name.strip_prefix(BEARER) {
            Some(token) => {
                if let Ok(mut value) = HeaderValue::try_from(format!("Bearer {token}")) {
                    value.set_sensitive(true);
                    // Two credentials stay two, which the guard refuses.
                    headers.append(AUTHORIZATION, value);
                }
            }
            None => drop(HeaderValue::try_from(name).map(|value| headers.append(PROTOCOL, value))),
        }
    }
    request
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty())
}

/// The answer to a handshake, or why it is none.
///
/// # Errors
/// It asks for no WebSocket, or not as RFC 6455 says.
pub(super) fn answer(head: &Parts) -> Result<Response<Body>, Box<Response<Body>>> {
    let headers = &head.headers;
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(word))
    };
    if !has(CONNECTION, "upgrade") || !has(UPGRADE, "websocket") || !has(VERSION, "13") {
        let problem = Problem::new(Kind::InvalidRequest, "this is a WebSocket of version 13")
            .hint("Connect with a WebSocket client, or use `POST …/stream` for server-sent events.");
        let mut response = respond::refusal(&problem);
        *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        response.headers_mut().insert(VERSION, HeaderValue::from_static("13"));
        return Err(Box::new(response));
    }
    let mut keys = headers.get_all(KEY).iter();
    let key = keys.next().filter(|_| keys.next().is_none()).and_then(|key| key.to_str().ok()).map(str::trim);
    let Some(key) = key.filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)) else {
        let problem = Problem::new(Kind::InvalidRequest, "`Sec-WebSocket-Key` must be 16 bytes in base64");
        return Err(Box::new(respond::refusal(&problem)));
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::try_from(accept(key)) {
        headers.insert(ACCEPT, accept);
    }
    if protocols(&head.headers).any(|name| name == SUBPROTOCOL) {
        headers.insert(PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Ok(response)
}

fn accept(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_accepted_as_the_rfc_shows_it() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    fn lifted(path: &str, protocols: &str) -> HeaderMap {
        let request = Request::get(path).header(PROTOCOL, protocols).body(()).unwrap();
        lift_credential(request).headers().clone()
    }

    #[test]
    fn a_credential_among_the_subprotocols_reaches_the_guard_and_nothing_else() {
        let headers = lifted("/api/v1/agents/clerk/ws", "toolcrib, bearer.tcb_x");
        assert_eq!(
            (headers[AUTHORIZATION].as_bytes(), headers[PROTOCOL].as_bytes()),
            (&b"Bearer tcb_x"[..], &b"toolcrib"[..])
        );
        assert_eq!(lifted("/api/v1/agents/clerk/ws", "bearer.a, bearer.b").get_all(AUTHORIZATION).iter().count(), 2);
        for path in ["/mcp", "/api/v1/agents/clerk/stream", "/api/v1/servers"] {
            assert!(!lifted(path, "toolcrib, bearer.tcb_x").contains_key(AUTHORIZATION), "{path}");
        }
    }
}
