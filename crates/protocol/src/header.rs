//! HTTP headers that MCP gives a meaning, and the rule that they must agree with the body (2026-07-28, SEP-2243).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{HEADER_MISMATCH, RpcError};
use crate::message::Request;
use crate::method;

/// The session of a legacy client.
pub const SESSION_ID: &str = "mcp-session-id";
/// The revision of a request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Mirrors `method`.
pub const METHOD: &str = "mcp-method";
/// Mirrors `params.name` or `params.uri`.
pub const NAME: &str = "mcp-name";
/// Where a broken stream of a legacy session is taken up again.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// A program of ours that passes on the messages of a client, and its version.
pub const BRIDGE: &str = "toolcrib-bridge";

/// The proof that who presents a token has the key that it is bound to (RFC 9449).
pub const DPOP: &str = "dpop";
/// What the next of these proofs has to name.
pub const DPOP_NONCE: &str = "dpop-nonce";

const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// The single value of a header as text; a header given twice, or with bytes that are not visible ASCII, is an error.
pub fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("the header `{name}` stands twice")));
    }
    let text = value.to_str().map_err(|_| mismatch(format!("the header `{name}` has characters outside of ASCII")))?;
    Ok(Some(text.trim()))
}

/// Writes a value so that it fits a header: as it is, or as `=?base64?…?=`.
pub fn encode_value(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with(SENTINEL.0);
    if plain { value.to_owned() } else { format!("{}{}{}", SENTINEL.0, STANDARD.encode(value), SENTINEL.1) }
}

/// Reads what [`encode_value`] wrote.
pub fn decode_value(value: &str) -> Result<String, RpcError> {
    let Some(inner) = value.strip_prefix(SENTINEL.0).and_then(|rest| rest.strip_suffix(SENTINEL.1)) else {
        return Ok(value.to_owned());
    };
    let bytes = STANDARD.decode(inner).map_err(|_| mismatch("a header value is not valid base64".into()))?;
    String::from_utf8(bytes).map_err(|_| mismatch("a header value is not UTF-8".into()))
}

/// The headers that a modern request of ours must carry beside its body: revision, method and name.
///
/// `date` is the revision that the body names in its `_meta`. What does not fit a header is encoded, so each is there.
pub fn standard(request: &Request, date: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    let mut add = |name: &'static str, value: &str| {
        let value = HeaderValue::try_from(encode_value(value)).expect("an encoded value is visible ASCII");
        headers.insert(HeaderName::from_static(name), value);
    };
    add(PROTOCOL_VERSION, date);
    add(METHOD, &request.method);
    if let Some(name) = method::named_by(&request.method).and_then(|parameter| request.params.text(parameter)) {
        add(NAME, &name);
    }
    headers
}

/// Checks that the mirroring headers of any request are true where they are there: anyone who stands before us may have
/// decided by them. Errors carry [`HEADER_MISMATCH`], HTTP status 400.
pub fn check_present(headers: &HeaderMap, request: &Request) -> Result<(), RpcError> {
    if single(headers, METHOD)?.is_some_and(|method| method != request.method) {
        return Err(mismatch(format!("the header `{METHOD}` must be `{}` as in the body", request.method)));
    }
    let Some(given) = single(headers, NAME)?.map(decode_value).transpose()? else { return Ok(()) };
    let wanted = method::named_by(&request.method).and_then(|parameter| request.params.text(parameter));
    if wanted.is_some_and(|wanted| wanted != given) {
        return Err(mismatch(format!("the header `{NAME}` must mirror the body")));
    }
    Ok(())
}

/// Checks the headers of a modern request against its body.
///
/// `date` is the revision that the body names in its `_meta`. Errors carry [`HEADER_MISMATCH`], HTTP status 400.
pub fn check_modern(headers: &HeaderMap, request: &Request, date: &str) -> Result<(), RpcError> {
    let version = single(headers, PROTOCOL_VERSION)?;
    if version != Some(date) {
        return Err(mismatch(format!("the header `{PROTOCOL_VERSION}` must be `{date}` as in the body")));
    }
    if single(headers, METHOD)? != Some(&request.method) {
        return Err(mismatch(format!("the header `{METHOD}` must be `{}` as in the body", request.method)));
    }
    let Some(parameter) = method::named_by(&request.method) else { return Ok(()) };
    let Some(wanted) = request.params.text(parameter) else {
        // The missing parameter is its own error, found where the method is understood.
        return Ok(());
    };
    let given = single(headers, NAME)?.map(decode_value).transpose()?;
    if given != Some(wanted) {
        return Err(mismatch(format!("the header `{NAME}` must mirror `params.{parameter}`")));
    }
    Ok(())
}

/// The error for a header that says something other than the body.
pub fn contradicts(header: &str, body: &str) -> RpcError {
    let body: String = body.chars().take(100).collect();
    mismatch(format!("the header `{header}` must be `{body}` as in the body"))
}

fn mismatch(message: String) -> RpcError {
    RpcError::new(HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::{Id, Raw};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn check(method: &str, name: &str, pairs: &[(&'static str, &str)], part: Option<&str>) {
        let params = Raw::from_value(&serde_json::json!({ "name": name }));
        let request = Request { id: Id::from_number(1), method: method.into(), params };
        match (check_modern(&headers(pairs), &request, "2026-07-28"), part) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => {
                assert_eq!(error.code, HEADER_MISMATCH);
                assert!(error.message.contains(part), "{}", error.message);
            }
            (got, part) => panic!("{pairs:?}: {got:?}, expected {part:?}"),
        }
    }

    #[test]
    fn headers_must_mirror_the_body() {
        let version = (PROTOCOL_VERSION, "2026-07-28");
        let list = (METHOD, "tools/list");
        let call = (METHOD, "tools/call");
        check("tools/list", "", &[version, list], None);
        check("tools/list", "", &[list], Some(PROTOCOL_VERSION));
        check("tools/list", "", &[version, version, list], Some("twice"));
        check("tools/list", "", &[version, call], Some(METHOD));
        check("tools/call", "a", &[version, call], Some(NAME));
        check("tools/call", "a", &[version, call, (NAME, "b")], Some(NAME));
        check("tools/call", "a", &[version, call, (NAME, "a")], None);
        check("tools/call", "ä", &[version, call, (NAME, "=?base64?w6Q=?=")], None);
        check("tools/call", "ä", &[version, call, (NAME, "=?base64?!!?=")], Some("base64"));
    }

    #[test]
    fn headers_of_any_request_must_be_true_where_they_are_there() {
        let params = Raw::from_value(&serde_json::json!({ "name": "a" }));
        let request = Request { id: Id::from_number(1), method: "tools/call".into(), params };
        for (pairs, fits) in [
            (vec![], true),
            (vec![(METHOD, "tools/call"), (NAME, "a")], true),
            (vec![(METHOD, "tools/list")], false),
            (vec![(NAME, "b")], false),
        ] {
            assert_eq!(check_present(&headers(&pairs), &request).is_ok(), fits, "{pairs:?}");
        }
    }

    #[test]
    fn tasks_are_named_by_their_id() {
        let params = Raw::from_value(&serde_json::json!({"taskId": "t 1"}));
        let request = Request { id: Id::from_number(1), method: "tasks/get".into(), params };
        let pairs = [(PROTOCOL_VERSION, "2026-07-28"), (METHOD, "tasks/get"), (NAME, "t 1")];
        assert_eq!(standard(&request, "2026-07-28"), headers(&pairs));
        assert!(check_modern(&headers(&pairs), &request, "2026-07-28").is_ok());
        assert!(check_modern(&headers(&pairs[..2]), &request, "2026-07-28").is_err());
    }

    proptest! {
        #[test]
        fn our_own_headers_pass_the_check(name in ".{0,20}", known: bool) {
            let method = if known { "prompts/get" } else { "x/unknown" };
            let params = Raw::from_value(&serde_json::json!({ "name": name }));
            let request = Request { id: Id::from_number(1), method: method.into(), params };
            let headers = standard(&request, "2026-07-28");
            prop_assert_eq!(headers.len(), if known { 3 } else { 2 });
            prop_assert!(check_modern(&headers, &request, "2026-07-28").is_ok());
        }

        #[test]
        fn values_survive_a_round_trip(value in ".{0,40}") {
            let written = encode_value(&value);
            prop_assert!(HeaderValue::from_str(&written).is_ok());
            prop_assert_eq!(decode_value(&written).unwrap(), value);
        }
    }
}
