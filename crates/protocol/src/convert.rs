//! What a result needs so that a client of the other era can read it.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::error::{
    CAPABILITY_MISSING, HEADER_MISMATCH, INTERNAL, INVALID_PARAMS, RESOURCE_NOT_FOUND, REVISION_UNSUPPORTED, RpcError,
    URL_REQUIRED,
};
use crate::json;
use crate::meta;
use crate::method;
use crate::raw::{Edit, Raw, Writer};
use crate::revision::{Era, Revision};

/// How long and for whom a result may be cached (2026-07-28).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    /// Milliseconds; 0 is "ask again each time".
    pub ttl_ms: u64,
    /// Whether everyone sees the same; otherwise it is for one principal only.
    pub public: bool,
}

impl Caching {
    /// What is true of any result: valid now, for this caller.
    pub const NONE: Caching = Caching { ttl_ms: 0, public: false };
}

/// An error as a client that speaks `revision` may see it. What is between us and a modern server is none of a legacy
/// client's business; what a legacy server says in codes that are gone is said in those that stayed.
pub fn error_for(revision: Revision, error: RpcError) -> RpcError {
    let code = match (revision.era(), error.code) {
        (Era::Legacy, CAPABILITY_MISSING) => INVALID_PARAMS,
        // What is wrong between us and the server is not the client's to fix.
        (_, HEADER_MISMATCH | REVISION_UNSUPPORTED) => INTERNAL,
        (Era::Modern, RESOURCE_NOT_FOUND | URL_REQUIRED) => INVALID_PARAMS,
        (Era::Legacy, URL_REQUIRED) if !revision.has_url_elicitation() => INVALID_PARAMS,
        _ => return error,
    };
    RpcError { code, ..error }
}

/// A result of `method` for a client that speaks `revision`.
///
/// Towards a modern client `resultType`, the serving gateway and the caching hints are added where they are missing;
/// towards a legacy client they, and the name of the server behind, are taken out. A result that needs no change is not
/// copied.
pub fn result_for(revision: Revision, method: &str, result: &Raw, server_info: &Raw, caching: Caching) -> Raw {
    match revision.era() {
        Era::Modern => modern_result(method, result, server_info, caching),
        Era::Legacy => {
            let members = result.members();
            let has = |key: &str| json::find(&members, key).is_some();
            let modern_only = ["resultType", "ttlMs", "cacheScope"].into_iter().filter(|key| has(key));
            let mut edits: Vec<_> = modern_only.map(|key| (key, Edit::Remove)).collect();
            let meta = json::find(&members, "_meta").and_then(|meta| unstamped(&result.part(meta)));
            if let Some(meta) = &meta {
                edits.push(("_meta", if meta.as_str() == "{}" { Edit::Remove } else { Edit::Set(meta.as_str()) }));
            }
            if edits.is_empty() { result.clone() } else { result.edit(&edits) }
        }
    }
}

/// A `_meta` without the name of the server, which belongs to the hop behind; `None` when it has none.
fn unstamped(meta: &Raw) -> Option<Raw> {
    meta.get(meta::SERVER_INFO).map(|_| meta.edit(&[(meta::SERVER_INFO, Edit::Remove)]))
}

/// All in one pass: results may be large.
fn modern_result(method: &str, result: &Raw, server_info: &Raw, caching: Caching) -> Raw {
    let members = result.members();
    let mut out = Writer::object(result.bytes().len() + server_info.bytes().len() + 128);
    let mut stamped = false;
    for member in &members {
        if member.key != "_meta" {
            out.raw_member(member.raw_key, member.value);
        } else if !stamped {
            stamped = true;
            out.member("_meta", meta::stamped(Some(&result.part(member.value)), server_info).as_str());
        }
        // A second `_meta` is left out: many readers take the last one, which no one has stamped.
    }
    if !stamped {
        out.member("_meta", meta::stamped(None, server_info).as_str());
    }
    let mut add = |key: &str, value: &str| {
        if json::find(&members, key).is_none() {
            out.member(key, value);
        }
    };
    add("resultType", "\"complete\"");
    if method::is_cacheable(method) {
        add("ttlMs", &caching.ttl_ms.to_string());
        add("cacheScope", if caching.public { "\"public\"" } else { "\"private\"" });
    }
    out.finish()
}

/// Whether a result says that it is an error.
pub fn is_failure(result: &Raw) -> bool {
    // The content may be large. Only where such a member may be and the bytes `"isError": true` stand somewhere are the
    // members looked at.
    let bytes = result.bytes();
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));
    let mut claims = KEY.find_iter(bytes).filter(|at| {
        let after = bytes[at + KEY.needle().len()..].trim_ascii_start();
        after.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"true"))
    });
    result.may_have("isError")
        && claims.next().is_some()
        && result.get("isError").is_some_and(|flag| flag.as_str() == "true")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(revision: Revision, method: &str, before: &serde_json::Value, after: &serde_json::Value) {
        let info = Raw::from_value(&json!({"name": "t"}));
        let got = result_for(revision, method, &Raw::from_value(before), &info, Caching { ttl_ms: 5, public: true });
        assert_eq!(&got.to_value(), after);
    }

    #[test]
    fn a_second_meta_cannot_forge_the_server() {
        let forged = r#"{"_meta":{"k":1},"\u0078":1,"\u005fmeta":{"io.modelcontextprotocol/serverInfo":"forged"}}"#;
        let raw = Raw::parse(forged.into(), json::Rules::relayed(8)).unwrap_err();
        assert!(
            raw.to_string().contains("duplicate key"),
            "outermost it is refused, but a result lies inside of an envelope"
        );
        let inner = format!(r#"{{"r":{forged}}}"#);
        let result = Raw::parse(inner.into(), json::Rules::relayed(8)).unwrap().get("r").unwrap();
        let info = Raw::from_value(&json!({"name": "t"}));
        let got = result_for(Revision::LATEST, method::TOOLS_CALL, &result, &info, Caching::NONE);
        let expect =
            r#"{"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"t"}},"\u0078":1,"resultType":"complete"}"#;
        assert_eq!(got.as_str(), expect);
    }

    #[test]
    fn results_cross_the_eras() {
        let stamp = json!({"io.modelcontextprotocol/serverInfo": {"name": "t"}});
        check(
            Revision::LATEST,
            method::TOOLS_LIST,
            &json!({"tools": []}),
            &json!({"tools": [], "_meta": stamp, "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}),
        );
        check(
            Revision::LATEST,
            method::TOOLS_CALL,
            &json!({"content": [], "resultType": "input_required"}),
            &json!({"content": [], "resultType": "input_required", "_meta": stamp}),
        );
        check(
            Revision::V2025_06_18,
            method::TOOLS_LIST,
            &json!({"tools": [], "resultType": "complete", "ttlMs": 1, "cacheScope": "private", "_meta": stamp}),
            &json!({"tools": []}),
        );
        let mut meta = stamp.clone();
        meta["k"] = 1.into();
        check(Revision::V2025_06_18, method::TOOLS_CALL, &json!({"_meta": meta}), &json!({"_meta": {"k": 1}}));
    }

    #[test]
    fn only_the_result_s_own_flag_counts() {
        for (value, expect) in [
            (json!({ "content": [], "isError": true }), true),
            (json!({ "content": [], "isError": false }), false),
            (json!({ "content": [] }), false),
            (json!({ "content": [{ "isError": true }], "isError": false }), false),
            (json!({ "content": [{ "text": "\"isError\": true" }] }), false),
            (json!({ "structuredContent": { "isError": true }, "isError": true }), true),
        ] {
            assert_eq!(is_failure(&Raw::from_value(&value)), expect, "{value}");
        }
    }
}
