//! Servers through their life: verify, what changed, approve, reject; why a tool is not there, and what ails a server.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::{self, Outline};

use crate::approval::{Judgement, Which};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::meta::{required, text};

pub(super) const SERVER: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"The server"}},"required":["name"],"additionalProperties":false}"#;
pub(super) const DOCTOR: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"The server; all without it"}},"additionalProperties":false}"#;
pub(super) const DECIDE: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"The server"},"tools":{"type":"array","items":{"type":"string"},"description":"Names of tools, prompt:<name>, template:<uri>, instructions; without it all that differs"},"digest":{"type":"string","description":"Only if the server still offers what has this digest"}},"required":["name"],"additionalProperties":false}"#;
pub(super) const EXPLAIN: &str = r#"{"type":"object","properties":{"tool":{"type":"string","description":"server/tool, or a name in the profile"},"profile":{"type":"string","description":"The profile; this one without it"}},"required":["tool"],"additionalProperties":false}"#;

pub(super) async fn verify(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let verified = gateway.verify(&required(arguments, "name")?, &by.principal.id).await?;
    Ok(verified.to_value())
}

pub(super) fn changes(gateway: &Gateway, arguments: &Raw) -> Result<Value, Problem> {
    gateway.changes(&required(arguments, "name")?)
}

pub(super) async fn decide(
    gateway: &Arc<Gateway>,
    judgement: Judgement,
    by: &Caller,
    arguments: &Raw,
) -> Result<Value, Problem> {
    let wrong = || Problem::new(Kind::InvalidParams, "`tools` must be a list of names");
    let names = match arguments.get("tools") {
        None => Vec::new(),
        Some(list) => match list.outline() {
            // An empty list means nothing, and must not come to mean everything.
            Outline::Array(items) if items.is_empty() => return Err(wrong()),
            Outline::Array(items) => {
                let texts = items.into_iter().map(|item| json::text(item).map(std::borrow::Cow::into_owned));
                texts.collect::<Option<Vec<_>>>().ok_or_else(wrong)?
            }
            Outline::Object(_) | Outline::Scalar(_) => return Err(wrong()),
        },
    };
    let which = Which { names, digest: text(arguments, "digest")? };
    gateway.decide(&required(arguments, "name")?, which, judgement, by).await
}

pub(super) fn explain(gateway: &Gateway, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let profile = text(arguments, "profile")?.unwrap_or_else(|| by.profile.to_string());
    gateway.explain(&profile, &required(arguments, "tool")?)
}

pub(super) fn doctor(gateway: &Gateway, arguments: &Raw) -> Result<Value, Problem> {
    gateway.doctor(text(arguments, "name")?.as_deref())
}
