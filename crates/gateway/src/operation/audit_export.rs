//! The audit log in formats of other systems, a page at a time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json as value};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::{Raw, json};
use toolcrib_sink::Entry;
use toolcrib_sink::format::{Format, Resource};
use toolcrib_store::{AuditFilter, AuditOrder};
use toolcrib_view::Operation;
use toolcrib_view::arguments::{number, text};

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[row(
    Run::Global(|gateway, arguments| Box::pin(export(gateway, arguments))),
    Operation {
        tool: EXPORT_TOOL,
        path: "/audit/export",
        tag: "audit",
        summary: "Export audit events",
        description: "Export audit events in a format of other systems, oldest first: JSON Lines, CEF, or OTLP log records as JSON. Continue with `after` from `next`.",
        input: EXPORT,
        output: EXPORTED,
        ..ROW
    },
)];

const EXPORT: &str = r#"{"type":"object","properties":{"format":{"enum":["jsonl","cef","otlp"],"default":"jsonl"},"target":{"type":"string","description":"Glob on the target, such as files/*"},"principal":{"type":"string"},"profile":{"type":"string"},"outcome":{"type":"string","description":"ok, tool_error, error:*, cancelled, denied"},"since":{"type":["string","integer"],"description":"RFC 3339, a date, or milliseconds since 1970"},"until":{"type":["string","integer"]},"after":{"type":"integer","minimum":0,"description":"Only events with a larger seq"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":500},"wait":{"type":"integer","minimum":0,"maximum":30,"default":0,"description":"While there is no event but exports, wait so many seconds for one"}},"additionalProperties":false}"#;

const EXPORTED: &str = r#"{"type":"object","properties":{"lines":{"type":"array","items":{"type":"string"},"description":"One for each event"},"next":{"type":"integer","description":"The seq of the last one"},"truncated":{"type":"boolean"}},"required":["lines","next","truncated"]}"#;

/// The tool that exports.
const EXPORT_TOOL: &str = "core_audit_export";
/// How many events are exported at a time when no one says.
const EXPORT_LIMIT: usize = 500;
/// The longest wait for an event: below what proxies allow an answer to take.
const WAIT_MOST: u64 = 30;

/// A moment, if the arguments name one.
pub(super) fn moment(arguments: &Raw, key: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(raw) = arguments.get(key) else { return Ok(None) };
    let written = json::text(raw.as_str()).unwrap_or_else(|| raw.as_str().into());
    let wrong = || Problem::new(Kind::InvalidParams, format!("`{key}` must be a time such as 2026-11-20T12:00:00Z"));
    Timestamp::parse(&written).map(Some).ok_or_else(wrong)
}

/// Which events the arguments want.
pub(super) fn filter(arguments: &Raw, order: AuditOrder, limit: usize) -> Result<AuditFilter, Problem> {
    Ok(AuditFilter {
        target: text(arguments, "target")?,
        principal: text(arguments, "principal")?,
        profile: text(arguments, "profile")?,
        outcome: text(arguments, "outcome")?,
        since: moment(arguments, "since")?,
        until: moment(arguments, "until")?,
        order,
        limit,
    })
}

/// Rows as lines of a format. An export is an event too: only events of others end a wait, or each export would bring the
/// next one.
async fn export(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let format = text(arguments, "format")?;
    let format = format.as_deref().map_or(Some(Format::Jsonl), Format::named);
    let format =
        format.ok_or_else(|| Problem::new(Kind::InvalidParams, "`format` must be `jsonl`, `cef` or `otlp`"))?;
    let limit = number(arguments, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(EXPORT_LIMIT);
    let after = number(arguments, "after")?.unwrap_or(0);
    let filter = filter(arguments, AuditOrder::OldestFirst { after }, limit)?;
    let wait = number(arguments, "wait")?.unwrap_or(0).min(WAIT_MOST);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(wait);
    let log = gateway.path.store.audit();
    let _ = log.flush().await;
    loop {
        // Before the list is read: what comes while it is read ends the wait.
        let head = log.health().head.seq;
        let (reading, wanted) = (log.clone(), filter.clone());
        let events = blocking(move || Ok(reading.list(&wanted)?)).await?;
        let is_enough = events.len() >= limit || events.iter().any(|event| event.target != EXPORT_TOOL);
        let waited = if is_enough { None } else { tokio::time::timeout_at(deadline, log.beyond(head)).await.ok() };
        if let Some(Ok(_)) = waited {
            continue;
        }
        let resource = Resource::program();
        let lines: Vec<String> = events.iter().map(|event| format.line(&Entry::from(event), &resource)).collect();
        let next = events.last().map_or(after, |event| event.seq);
        return Ok(value!({ "lines": lines, "next": next, "truncated": events.len() >= limit }));
    }
}
