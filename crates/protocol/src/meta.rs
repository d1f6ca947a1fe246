//! `_meta`: what a modern request says in it, and stripping and stamping the reserved keys at each hop.

use crate::error::{INVALID_PARAMS, REVISION_UNSUPPORTED, RpcError};
use crate::json;
use crate::raw::{Edit, Raw, Writer};
use crate::revision::{Era, Revision};
use crate::trace::{self, TraceContext};

/// The prefix of the keys that only the two ends of one hop may set.
pub const RESERVED: &str = "io.modelcontextprotocol/";
/// The revision of the request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client can be asked.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the client says that it is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Who the server says that it is, on results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// From which level on the client wants to hear log messages during the request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The subscription that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The token that ties progress to a request.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// What a modern request declares of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMeta {
    /// The revision, one that is spoken here.
    pub revision: Revision,
    /// The date as it was written.
    pub date: String,
    /// The client's capabilities, an object.
    pub capabilities: Raw,
    /// Name and version of the client, if given.
    pub client_info: Option<Raw>,
    /// From which level on the client wants to hear log messages, as it was written.
    pub log_level: Option<Raw>,
    /// The client's progress token, a string or a number.
    pub progress_token: Option<Raw>,
}

/// The revision date that a request names in its `_meta`, if any: this alone makes a request a modern one.
pub fn declared_date(params: &Raw) -> Option<String> {
    params.get("_meta")?.text(PROTOCOL_VERSION)
}

/// Reads what a modern request declares.
///
/// Errors: [`INVALID_PARAMS`] for a missing key, [`REVISION_UNSUPPORTED`] with `{supported, requested}` as data.
pub fn read_request(params: &Raw) -> Result<RequestMeta, RpcError> {
    read(params.get("_meta"))
}

/// [`read_request`] of a `_meta` that is known already.
///
/// # Errors
/// See [`read_request`].
pub fn read(meta: Option<Raw>) -> Result<RequestMeta, RpcError> {
    let missing = |key: &str| RpcError::new(INVALID_PARAMS, format!("`params._meta` lacks `{key}`"));
    let meta = meta.filter(Raw::is_object).ok_or_else(|| missing(PROTOCOL_VERSION))?;
    let members = meta.members();
    let given = |key: &str| json::find(&members, key);
    let date = given(PROTOCOL_VERSION).and_then(json::text).ok_or_else(|| missing(PROTOCOL_VERSION))?.into_owned();
    let revision = Revision::parse(&date).filter(|revision| *revision == Revision::LATEST);
    let Some(revision) = revision else {
        return Err(unsupported(&date));
    };
    let part = |value| meta.part(value);
    let capabilities = given(CLIENT_CAPABILITIES).map(part).filter(Raw::is_object);
    let capabilities = capabilities.ok_or_else(|| missing(CLIENT_CAPABILITIES))?;
    let [client_info, log_level] = [CLIENT_INFO, LOG_LEVEL].map(|key| given(key).map(part));
    let progress_token = given(PROGRESS_TOKEN).map(part).filter(is_token);
    Ok(RequestMeta { revision, date, capabilities, client_info, log_level, progress_token })
}

/// The error for a revision that is not spoken here.
pub fn unsupported(date: &str) -> RpcError {
    let dates = |of: fn(&Revision) -> bool| -> Vec<&str> {
        Revision::ALL.iter().rev().copied().filter(of).map(Revision::as_str).collect()
    };
    // What can be named in `_meta`, as `server/discover` tells it; the others need `initialize`.
    let modern = dates(|revision| revision.era() == Era::Modern);
    let message = format!(
        "revision `{date}` is not supported; supported are {}, and after `initialize` {}",
        modern.join(", "),
        dates(|revision| revision.era() == Era::Legacy).join(", ")
    );
    let date: String = date.chars().take(100).collect();
    RpcError::new(REVISION_UNSUPPORTED, message)
        .with_data(&serde_json::json!({ "supported": modern, "requested": date }))
}

/// The error for a client that names a revision of `_meta` to who speaks revisions with a handshake only.
pub fn wants_handshake(date: &str) -> RpcError {
    let legacy: Vec<&str> = Revision::ALL
        .iter()
        .rev()
        .copied()
        .filter(|revision| revision.era() == Era::Legacy)
        .map(Revision::as_str)
        .collect();
    let message = format!("only revisions with `initialize` are supported: {}", legacy.join(", "));
    let date: String = date.chars().take(100).collect();
    RpcError::new(REVISION_UNSUPPORTED, message)
        .with_data(&serde_json::json!({ "supported": legacy, "requested": date }))
}

/// The client's progress token, a string or a number, as raw JSON.
pub fn progress_token(params: &Raw) -> Option<Raw> {
    params.get("_meta")?.get(PROGRESS_TOKEN).filter(is_token)
}

fn is_token(token: &Raw) -> bool {
    matches!(token.as_str().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// Whether a client says in `_meta` in which trace it makes the request.
pub fn has_trace(params: &Raw) -> bool {
    params.get("_meta").is_some_and(|meta| meta.get(trace::TRACEPARENT).is_some())
}

/// Whether a key of a client's `_meta` goes on to the next hop: not what belongs to one hop, and no trace context where
/// ours takes its place.
fn goes_on(key: &str, trace: Option<&TraceContext>) -> bool {
    !key.starts_with(RESERVED) && key != PROGRESS_TOKEN && (trace.is_none() || !trace::KEYS.contains(&key))
}

/// `params` for the next hop towards a legacy server: reserved keys are stripped, the progress token is replaced or
/// taken out, trace context is replaced where there is one of ours, all else stays. An empty `_meta` is left out.
pub fn for_legacy_server(params: &Raw, progress_token: Option<u64>, trace: Option<&TraceContext>) -> Raw {
    if !params.may_have("_meta") && progress_token.is_none() && trace.is_none() {
        return params.clone();
    }
    let members = params.members();
    let meta = json::find(&members, "_meta").and_then(json::object);
    if meta.is_none() && progress_token.is_none() && trace.is_none() {
        return params.clone();
    }
    let mut out = Writer::object(64);
    let mut any = trace.is_some();
    for member in meta.into_iter().flatten() {
        if goes_on(&member.key, trace) {
            out.raw_member(member.raw_key, member.value);
            any = true;
        }
    }
    if let Some(trace) = trace {
        trace.write(&mut out);
    }
    if let Some(token) = progress_token {
        out.member(PROGRESS_TOKEN, &token.to_string());
        any = true;
    }
    if !any {
        return params.edited(&members, &[("_meta", Edit::Remove)]);
    }
    params.edited(&members, &[("_meta", Edit::Set(out.finish().as_str()))])
}

/// What we say of ourselves in each request to a modern server.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// The revision that is spoken with the server.
    pub revision: Revision,
    /// Our name and version, an object.
    pub client_info: &'a str,
    /// What can be asked during this request, an object.
    pub capabilities: &'a str,
    /// From which level on log messages are wanted.
    pub log_level: Option<&'a str>,
    /// Our token, where progress is wanted.
    pub progress_token: Option<u64>,
    /// The trace context of the request where it is not the client's own.
    pub trace: Option<&'a TraceContext>,
}

/// `params` for the next hop towards a modern server: reserved keys are stripped and our own are set, the progress
/// token is replaced or taken out, trace context is replaced where there is one of ours, all else stays.
pub fn for_modern_server(params: &Raw, stamp: &Stamp<'_>) -> Raw {
    let meta = params.get("_meta").filter(Raw::is_object);
    let mut out = Writer::object(256);
    for member in meta.iter().flat_map(Raw::members) {
        if goes_on(&member.key, stamp.trace) {
            out.raw_member(member.raw_key, member.value);
        }
    }
    if let Some(trace) = stamp.trace {
        trace.write(&mut out);
    }
    out.text(PROTOCOL_VERSION, stamp.revision.as_str());
    out.member(CLIENT_INFO, stamp.client_info);
    out.member(CLIENT_CAPABILITIES, stamp.capabilities);
    if let Some(level) = stamp.log_level {
        out.text(LOG_LEVEL, level);
    }
    if let Some(token) = stamp.progress_token {
        out.member(PROGRESS_TOKEN, &token.to_string());
    }
    params.edit(&[("_meta", Edit::Set(out.finish().as_str()))])
}

/// The `_meta` of a result for a modern client: it says which server answers, whatever the one behind said.
pub fn stamped(meta: Option<&Raw>, server_info: &Raw) -> Raw {
    match meta.filter(|meta| meta.is_object()) {
        Some(meta) => meta.edit(&[(SERVER_INFO, Edit::Set(server_info.as_str()))]),
        None => {
            let mut out = Writer::object(64 + server_info.bytes().len());
            out.member(SERVER_INFO, server_info.as_str());
            out.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &serde_json::Value) -> Raw {
        Raw::from_value(value)
    }

    #[test]
    fn a_modern_request_must_declare_itself() {
        let full = serde_json::json!({"_meta": {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}});
        assert_eq!(read_request(&raw(&full)).unwrap().revision, Revision::LATEST);
        for (meta, code) in [
            (serde_json::json!({}), INVALID_PARAMS),
            (serde_json::json!({PROTOCOL_VERSION: "2026-07-28"}), INVALID_PARAMS),
            (serde_json::json!({PROTOCOL_VERSION: "2027-01-01", CLIENT_CAPABILITIES: {}}), REVISION_UNSUPPORTED),
            (serde_json::json!({PROTOCOL_VERSION: "2025-11-25", CLIENT_CAPABILITIES: {}}), REVISION_UNSUPPORTED),
            (serde_json::json!({PROTOCOL_VERSION: 7}), INVALID_PARAMS),
        ] {
            let error = read_request(&raw(&serde_json::json!({ "_meta": meta }))).unwrap_err();
            assert_eq!(error.code, code, "{meta}");
        }
    }

    #[test]
    fn reserved_keys_do_not_reach_a_legacy_server() {
        let params = raw(&serde_json::json!({
            "name": "x",
            "_meta": {PROTOCOL_VERSION: "2026-07-28", "traceparent": "00-1", "progressToken": "mine", "other/key": 1}
        }));
        let kept = for_legacy_server(&params, Some(9), None);
        assert_eq!(kept.as_str(), r#"{"name":"x","_meta":{"traceparent":"00-1","other/key":1,"progressToken":9}}"#);
        let only_reserved = raw(&serde_json::json!({"_meta": {CLIENT_CAPABILITIES: {}}, "a": 1}));
        assert_eq!(for_legacy_server(&only_reserved, None, None).as_str(), r#"{"a":1}"#);
        let none = raw(&serde_json::json!({"a": 1}));
        assert_eq!(for_legacy_server(&none, None, None), none);
        assert_eq!(for_legacy_server(&none, Some(3), None).as_str(), r#"{"a":1,"_meta":{"progressToken":3}}"#);
    }

    #[test]
    fn a_modern_server_hears_who_asks_it() {
        let params = raw(&serde_json::json!({
            "name": "x",
            "_meta": {CLIENT_INFO: "forged", "traceparent": "00-1", "progressToken": "mine"}
        }));
        let stamp = Stamp {
            revision: Revision::LATEST,
            client_info: "{}",
            capabilities: r#"{"roots":{}}"#,
            log_level: Some("info"),
            progress_token: Some(4),
            trace: None,
        };
        let expect = serde_json::json!({
            "name": "x",
            "_meta": {
                "traceparent": "00-1", PROTOCOL_VERSION: "2026-07-28", CLIENT_INFO: {}, LOG_LEVEL: "info",
                CLIENT_CAPABILITIES: {"roots": {}}, "progressToken": 4,
            },
        });
        assert_eq!(for_modern_server(&params, &stamp).to_value(), expect);
    }

    #[test]
    fn trace_context_of_ours_takes_the_place_of_the_clients() {
        let ours = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::of_text(ours).unwrap();
        let params = raw(&serde_json::json!({"_meta": {"traceparent": "00-1", "tracestate": "a=b", "k": 1}}));
        let expect = serde_json::json!({"_meta": {"k": 1, "traceparent": ours}});
        assert_eq!(for_legacy_server(&params, None, Some(&context)).to_value(), expect);
        let none = for_legacy_server(&Raw::empty_object(), None, Some(&context));
        assert_eq!(none.to_value(), serde_json::json!({"_meta": {"traceparent": ours}}));
        let stamp = Stamp {
            revision: Revision::LATEST,
            client_info: "{}",
            capabilities: "{}",
            log_level: None,
            progress_token: None,
            trace: Some(&context),
        };
        let meta = for_modern_server(&params, &stamp).get("_meta").unwrap().to_value();
        assert_eq!((&meta["traceparent"], meta.get("tracestate"), &meta["k"]), (&ours.into(), None, &1.into()));
    }

    #[test]
    fn results_name_the_gateway() {
        let info = raw(&serde_json::json!({"name": "toolcrib"}));
        let forged = raw(&serde_json::json!({SERVER_INFO: "forged", "k": 1}));
        let expect = serde_json::json!({SERVER_INFO: {"name": "toolcrib"}, "k": 1});
        assert_eq!(stamped(Some(&forged), &info).to_value(), expect);
        assert_eq!(stamped(None, &info).to_value(), serde_json::json!({SERVER_INFO: {"name": "toolcrib"}}));
    }
}
