//! The audit log: list and verify.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::Raw;
use toolcrib_store::{AuditFilter, AuditOrder, StoreError, Verification};

use crate::gateway::Gateway;
use crate::meta::{number, text};

pub(super) const LIST: &str = r#"{"type":"object","properties":{"target":{"type":"string","description":"Glob on the target, such as files/*"},"principal":{"type":"string"},"profile":{"type":"string"},"outcome":{"type":"string","description":"ok, tool_error, error:*, cancelled, denied"},"since":{"type":"integer","description":"Milliseconds since 1970"},"until":{"type":"integer"},"before":{"type":"integer","description":"Only events with a smaller seq"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50}},"additionalProperties":false}"#;

/// How many events are listed when nobody says.
const LIMIT: u64 = 50;

pub(super) async fn list(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let moment = |key| {
        let millis = number(arguments, key)?;
        Ok::<_, Problem>(millis.map(|millis| Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))))
    };
    let filter = AuditFilter {
        target: text(arguments, "target")?,
        principal: text(arguments, "principal")?,
        profile: text(arguments, "profile")?,
        outcome: text(arguments, "outcome")?,
        since: moment("since")?,
        until: moment("until")?,
        order: AuditOrder::NewestFirst { before: number(arguments, "before")? },
        limit: usize::try_from(number(arguments, "limit")?.unwrap_or(LIMIT)).unwrap_or(LIMIT as usize),
    };
    // What happened a moment ago is listed too.
    let _ = gateway.store.audit().flush().await;
    let log = gateway.store.audit().clone();
    let events = blocking(move || log.list(&filter)).await?;
    let events: Vec<Value> = events.iter().map(|event| shown(&json!(event))).collect();
    Ok(json!({ "events": events, "total": events.len() }))
}

/// Times as people read them.
fn shown(event: &Value) -> Value {
    let mut event = event.clone();
    if let Some(millis) = event["at"].as_i64() {
        event["at"] = Timestamp(millis).to_string().into();
    }
    event
}

pub(super) async fn verify(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let _ = gateway.store.audit().flush().await;
    let log = gateway.store.audit().clone();
    let verification = blocking(move || log.verify(None)).await?;
    Ok(match verification {
        Verification::Intact(verified) => {
            let mut value = json!(verified);
            value["intact"] = true.into();
            value
        }
        Verification::Broken(broken) => json!({ "intact": false, "broken": broken }),
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Problem::from),
        Err(error) => Err(Problem::new(Kind::Internal, error.to_string())),
    }
}
