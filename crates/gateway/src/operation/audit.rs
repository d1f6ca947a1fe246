//! The audit log: list and verify.

use std::sync::Arc;

use serde_json::{Value, json as value};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::{Raw, json};
use toolcrib_store::{AuditFilter, AuditOrder, Verification};
use toolcrib_view::Operation;

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;
use toolcrib_view::arguments::{number, text};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(list(gateway, arguments))),
        Operation {
            tool: "core_audit_list",
            path: "/audit",
            tag: "audit",
            summary: "List audit events",
            description: "List audit events, newest first.",
            input: LIST,
            output: EVENTS,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(verify(gateway))),
        Operation {
            tool: "core_audit_verify",
            path: "/audit/verify",
            tag: "audit",
            summary: "Verify the audit log",
            description: "Verify that no audit event was changed or removed.",
            slow: true,
            output: VERIFIED,
            ..ROW
        },
    ),
];

const LIST: &str = r#"{"type":"object","properties":{"target":{"type":"string","description":"Glob on the target, such as files/*"},"principal":{"type":"string"},"profile":{"type":"string"},"outcome":{"type":"string","description":"ok, tool_error, error:*, cancelled, denied"},"since":{"type":["string","integer"],"description":"RFC 3339, a date, or milliseconds since 1970"},"until":{"type":["string","integer"]},"before":{"type":"integer","description":"Only events with a smaller seq"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50}},"additionalProperties":false}"#;

const EVENTS: &str = r#"{"type":"object","properties":{"events":{"type":"array","items":{"type":"object"}},"total":{"type":"integer"},"truncated":{"type":"boolean"}},"required":["events","total","truncated"]}"#;
const VERIFIED: &str =
    r#"{"type":"object","properties":{"intact":{"type":"boolean"},"broken":{"type":"object"}},"required":["intact"]}"#;

/// How many events are listed when no one says.
const LIMIT: usize = 50;

async fn list(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let moment = |key: &str| {
        let Some(raw) = arguments.get(key) else { return Ok(None) };
        let written = json::text(raw.as_str()).unwrap_or_else(|| raw.as_str().into());
        let wrong =
            || Problem::new(Kind::InvalidParams, format!("`{key}` must be a time such as 2026-11-20T12:00:00Z"));
        Timestamp::parse(&written).map(Some).ok_or_else(wrong)
    };
    let limit = number(arguments, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIMIT);
    let filter = AuditFilter {
        target: text(arguments, "target")?,
        principal: text(arguments, "principal")?,
        profile: text(arguments, "profile")?,
        outcome: text(arguments, "outcome")?,
        since: moment("since")?,
        until: moment("until")?,
        order: AuditOrder::NewestFirst { before: number(arguments, "before")? },
        limit,
    };
    // What happened a moment ago is listed too.
    let _ = gateway.path.store.audit().flush().await;
    let log = gateway.path.store.audit().clone();
    let events = blocking(move || Ok(log.list(&filter)?)).await?;
    let events: Vec<Value> = events.iter().map(|event| shown(&value!(event))).collect();
    // Counting all that match would read the whole log; whether there are more is enough.
    let truncated = events.len() >= limit;
    Ok(value!({ "events": events, "total": events.len(), "truncated": truncated }))
}

/// Times as people read them.
fn shown(event: &Value) -> Value {
    let mut event = event.clone();
    if let Some(millis) = event["at"].as_i64() {
        event["at"] = Timestamp(millis).to_string().into();
    }
    event
}

async fn verify(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let _ = gateway.path.store.audit().flush().await;
    let log = gateway.path.store.audit().clone();
    let verification = blocking(move || Ok(log.verify(None)?)).await?;
    Ok(match verification {
        Verification::Intact(verified) => {
            let mut value = value!(verified);
            value["intact"] = true.into();
            value
        }
        Verification::Broken(broken) => value!({ "intact": false, "broken": broken }),
    })
}
