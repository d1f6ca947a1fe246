//! The ledger of what agents did, from the audit log: for operators the whole, for everyone else their own.

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_store::{ActivityFilter, AuditRecord};

use super::OperationCall;
use crate::agent::source::blocking;

/// How many events are listed by default.
const LIMIT: u32 = 50;

/// What an event of the audit log is in the ledger.
struct ActivityName {
    /// The method in the audit log.
    method: &'static str,
    /// The kind, as Valinor names it.
    kind: &'static str,
    status: &'static str,
}

const fn name(method: &'static str, kind: &'static str, status: &'static str) -> ActivityName {
    ActivityName { method, kind, status }
}

const NAMES: &[ActivityName] = &[
    name("approval.denied", "approval.resolved", "blocked"),
    name("approval.granted", "approval.resolved", "allowed"),
    name("approval.requested", "approval.requested", "approval_required"),
    name("connector.write.approval_requested", "approval.requested", "approval_required"),
    name("connector.write.approved", "approval.resolved", "allowed"),
    name("connector.write.blocked", "connector.blocked", "blocked"),
    name("connector.write.denied", "approval.resolved", "blocked"),
    name("connector.write.executed", "connector.called", "completed"),
    name("connector.write.failed", "connector.called", "failed"),
    name("message.blocked", "security.flagged", "blocked"),
    name("message.quarantined", "security.flagged", "pending"),
    name("message.refused", "security.flagged", "blocked"),
    name("message.released", "security.flagged", "allowed"),
    name("message.sent", "prompt.received", "sent"),
    name("model.called", "runtime.event", "completed"),
    name("model.changed", "runtime.event", "completed"),
    name("model.failed", "runtime.event", "failed"),
    name("run.cancelled", "run.failed", "failed"),
    name("run.completed", "run.completed", "completed"),
    name("run.continued", "runtime.event", "allowed"),
    name("run.failed", "run.failed", "failed"),
    name("run.paused", "run.yielded", "pending"),
    name("run.raised", "runtime.event", "allowed"),
    name("run.resumed", "runtime.event", "allowed"),
    name("run.started", "run.started", "allowed"),
    name("run.waiting", "run.yielded", "pending"),
    name("security.flagged", "security.flagged", "flagged"),
    name("session.halted", "run.failed", "halted"),
    name("tool.answered", "runtime.event", "completed"),
    name("tool.asked", "runtime.event", "pending"),
    name("tool.blocked", "tool.blocked", "blocked"),
    name("tool.executed", "tool.called", "completed"),
    name("tool.failed", "tool.called", "failed"),
    name("tool.settled", "tool.called", "completed"),
    name("tool.unknown", "tool.called", "failed"),
];

pub(super) async fn list(asking: &OperationCall) -> Result<Value, Problem> {
    let given = &asking.given;
    let text = |key: &str| given.get(key).and_then(Value::as_str).map(str::to_owned);
    let (kind, status, action) = (text("kind"), text("status"), text("action"));
    let is_wanted = |name: &&ActivityName| {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        fits(&kind, name.kind) && fits(&status, name.status) && fits(&action, name.method)
    };
    let visibility = asking.invocation.visibility();
    let owner = visibility.owner();
    let limit = given.number("limit", LIMIT) as usize;
    let filter = ActivityFilter {
        methods: NAMES.iter().filter(is_wanted).map(|name| name.method).collect(),
        agent: text("agent"),
        run: text("run"),
        principal: owner.map(|(principal, _)| principal.to_string()).or_else(|| text("principal")),
        profile: owner.map(|(_, profile)| profile.to_string()).or_else(|| text("profile")),
        tool: text("tool"),
        connector: text("connector"),
        risk_class: text("risk_class"),
        since: moment(given.get("since"), "since")?,
        until: moment(given.get("until"), "until")?,
        before: given.get("before").and_then(Value::as_u64),
        // One more says whether there are more.
        limit: limit + 1,
    };
    let gateway = asking.inner.bridge.gateway().ok_or_else(toolcrib_call::admission::closing_problem)?;
    // What happened a moment ago is listed too.
    let _ = gateway.path.store.audit().flush().await;
    let log = gateway.path.store.audit().clone();
    let mut rows = blocking(move || log.activity(&filter)).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|row| row.seq);
    let events: Vec<Value> = rows.iter().map(shown).collect();
    let mut answer = json!({"count": events.len(), "events": events, "has_more": has_more});
    if let Some(next) = next {
        answer["next_before"] = next.into();
    }
    Ok(answer)
}

fn moment(given: Option<&Value>, key: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(given) = given else { return Ok(None) };
    let written = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    let wrong = || Problem::new(Kind::InvalidParams, format!("`{key}` must be a time such as 2026-11-20T12:00:00Z"));
    Timestamp::parse(&written).map(Some).ok_or_else(wrong)
}

/// An event with all that its details say.
fn shown(row: &AuditRecord) -> Value {
    let details = row.arguments.as_deref().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let mut shown = details.unwrap_or_default();
    let known = NAMES.iter().find(|name| name.method == row.method);
    let (kind, status) = known.map_or(("runtime.event", ""), |name| (name.kind, name.status));
    let agent = row.target.strip_prefix("agent/").unwrap_or(&row.target);
    for (key, text) in [
        ("action", row.method.as_str()),
        ("kind", kind),
        ("status", status),
        ("agent", agent),
        ("principal", &row.principal),
        ("source", &row.door),
        ("outcome", &row.outcome),
    ] {
        shown.insert(key.to_owned(), text.into());
    }
    shown.insert("seq".to_owned(), row.seq.into());
    shown.insert("occurred_at".to_owned(), row.at.to_string().into());
    if !row.request_id.is_empty() {
        shown.insert("run".to_owned(), row.request_id.as_str().into());
    }
    if row.duration_us > 0 {
        shown.insert("duration_ms".to_owned(), (row.duration_us / 1_000).into());
    }
    for (key, text) in [
        ("profile", &row.profile),
        ("approval", &row.approval),
        ("halt", &row.halt),
        ("canary", &row.canary),
        ("client", &row.client),
        ("user", &row.user),
        ("actor", &row.actor),
    ] {
        if let Some(text) = text {
            shown.insert(key.to_owned(), text.as_str().into());
        }
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted_and_each_stands_once() {
        assert!(NAMES.windows(2).all(|pair| pair[0].method < pair[1].method));
    }
}
