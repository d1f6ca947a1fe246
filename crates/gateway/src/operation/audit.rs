//! The audit log: list, verify, prove; the checkpoints and the key that signs them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json as value};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::Raw;
use toolcrib_store::{
    AuditLog, AuditOrder, CHECKPOINTS_MAX, Checkpoint, CheckpointError, CheckpointKey, ReadCheckpoints, Verification,
};
use toolcrib_view::{Effect, Method, Operation};

use super::audit_export::filter;
use super::progress::ProgressReport;
use super::{OperationContext, ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;
use toolcrib_view::arguments::{number, text};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(checkpoints(gateway, arguments))),
        Operation {
            tool: "core_audit_checkpoints",
            path: "/audit/checkpoints",
            tag: "audit",
            summary: "List checkpoints of the audit log",
            description: "List the signed checkpoints of the audit log, oldest first. Kept elsewhere, the newest shows later whether the log was cut or replaced.",
            input: CHECKPOINTS,
            output: r#"{"type":"object","properties":{"checkpoints":{"type":"array","items":{"type":"object"}},"total":{"type":"integer"},"truncated":{"type":"boolean"}},"required":["checkpoints","total","truncated"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(key(gateway))),
        Operation {
            tool: "core_audit_key",
            path: "/audit/key",
            tag: "audit",
            summary: "Show the key of the audit log",
            description: "Show the public key that signs the checkpoints of the audit log, and those that signed before.",
            problems: &[Kind::Unavailable],
            output: KEYS,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(rotate(gateway))),
        Operation {
            tool: "core_audit_key_rotate",
            method: Method::Post,
            path: "/audit/key/rotate",
            tag: "audit",
            summary: "Rotate the key of the audit log",
            description: "Sign the checkpoints of the audit log with a new key from now on. The last checkpoint of the old key names the new one.",
            problems: &[Kind::Unavailable],
            effect: Effect::Changes { idempotent: false },
            output: KEYS,
            ..ROW
        },
    ),
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
        Run::Global(|gateway, arguments| Box::pin(prove(gateway, arguments))),
        Operation {
            tool: "core_audit_prove",
            path: "/audit/proof",
            tag: "audit",
            summary: "Prove an audit event",
            description: "Give the proof that an event is in the audit log: the event, its place under a signed checkpoint, and that checkpoint. `toolcrib audit verify --proof FILE --key KEY` checks it without the log.",
            problems: &[Kind::NotFound, Kind::InvalidParams],
            input: r#"{"type":"object","properties":{"seq":{"type":"integer","minimum":1}},"required":["seq"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"seq":{"type":"integer"},"event":{"type":"object"},"checkpoint":{"type":"object"}},"required":["seq","event"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Long(|gateway, context, arguments| Box::pin(verify(gateway, context, arguments))),
        Operation {
            tool: "core_audit_verify",
            path: "/audit/verify",
            tag: "audit",
            summary: "Verify the audit log",
            description: "Verify that no audit event was changed or removed, and that the checkpoints are signed for what is there. With `key`, that they are signed with this key, one that it named, or one before it; with `kept`, that the log still has that checkpoint.",
            slow: true,
            problems: &[Kind::InvalidParams],
            input: r#"{"type":"object","properties":{"key":{"type":"string","description":"A public key that is known from elsewhere, 64 hexadecimal digits"},"kept":{"type":"string","description":"A checkpoint that was kept elsewhere, as JSON; the newest speaks for all before"}},"additionalProperties":false}"#,
            output: VERIFIED,
            ..ROW
        },
    ),
];

const LIST: &str = r#"{"type":"object","properties":{"target":{"type":"string","description":"Glob on the target, such as files/*"},"principal":{"type":"string"},"profile":{"type":"string"},"outcome":{"type":"string","description":"ok, tool_error, error:*, cancelled, denied"},"since":{"type":["string","integer"],"description":"RFC 3339, a date, or milliseconds since 1970"},"until":{"type":["string","integer"]},"before":{"type":"integer","description":"Only events with a smaller seq"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50}},"additionalProperties":false}"#;

const EVENTS: &str = r#"{"type":"object","properties":{"events":{"type":"array","items":{"type":"object"}},"total":{"type":"integer"},"truncated":{"type":"boolean"}},"required":["events","total","truncated"]}"#;
const VERIFIED: &str =
    r#"{"type":"object","properties":{"intact":{"type":"boolean"},"broken":{"type":"object"}},"required":["intact"]}"#;

const CHECKPOINTS: &str = r#"{"type":"object","properties":{"after":{"type":"integer","description":"Only checkpoints with a larger number"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":1000}},"additionalProperties":false}"#;
const KEYS: &str = r#"{"type":"object","properties":{"key":{"type":"string","description":"The Ed25519 key that signs, 64 hexadecimal digits"},"earlier":{"type":"array","items":{"type":"object","properties":{"key":{"type":"string"},"until":{"type":"integer","description":"The last event that it signed"}}}}},"required":["key","earlier"]}"#;

/// How long who asks for the key waits while the vault is opened.
const OPENING: Duration = Duration::from_secs(5);

/// How many events are listed when no one says.
const LIMIT: usize = 50;

async fn list(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let limit = number(arguments, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIMIT);
    let filter = filter(arguments, AuditOrder::NewestFirst { before: number(arguments, "before")? }, limit)?;
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

async fn verify(gateway: &Arc<Gateway>, context: OperationContext<'_>, arguments: &Raw) -> Result<Value, Problem> {
    let wrong = |what: &str| Problem::new(Kind::InvalidParams, what.to_owned());
    let key = text(arguments, "key")?.map(|key| key.parse::<CheckpointKey>()).transpose();
    let key = key.map_err(|error| wrong(&format!("`key` is no key: {error}")))?;
    let kept = text(arguments, "kept")?.map(|kept| serde_json::from_str::<Checkpoint>(&kept)).transpose();
    let kept = kept.map_err(|error| wrong(&format!("`kept` is no checkpoint: {error}")))?;
    let _ = gateway.path.store.audit().flush().await;
    let log = gateway.path.store.audit().clone();
    // Who takes the operation back ends the reading, too.
    let (report, _end) = ProgressReport::new(&context);
    let verification = blocking(move || {
        if key.is_some() {
            sign_now(&log);
        }
        Ok(log.verify_watched(key, kept, &mut |read, total| report.say(read, total))?)
    });
    let verification = verification.await?;
    let ended = || Problem::new(Kind::Cancelled, "the verification was cancelled");
    Ok(match verification.ok_or_else(ended)? {
        Verification::Intact(verified) => {
            let mut value = value!(verified);
            value["intact"] = true.into();
            value
        }
        Verification::Broken(broken) => value!({ "intact": false, "broken": broken }),
    })
}

async fn checkpoints(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let after = number(arguments, "after")?.unwrap_or(0);
    let limit = number(arguments, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(CHECKPOINTS_MAX);
    let log = gateway.path.store.audit().clone();
    let _ = log.flush().await;
    let found = blocking(move || {
        sign_now(&log);
        Ok(log.checkpoints(after, limit)?)
    });
    let found = found.await?;
    let is_truncated = found.len() >= limit.clamp(1, CHECKPOINTS_MAX);
    Ok(value!({ "checkpoints": found, "total": found.len(), "truncated": is_truncated }))
}

async fn prove(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let seq = number(arguments, "seq")?.unwrap_or(0);
    let _ = gateway.path.store.audit().flush().await;
    let log = gateway.path.store.audit().clone();
    let proof = blocking(move || {
        let proof = log.prove(seq)?;
        if proof.as_ref().is_none_or(|proof| proof.checkpoint.is_some()) {
            return Ok(proof);
        }
        // Nobody waits a minute for a proof.
        log.sign().map_err(|error| unsigned(&error))?;
        Ok(log.prove(seq)?)
    });
    let unknown = || Problem::new(Kind::NotFound, format!("there is no audit event `{seq}`"));
    Ok(value!(proof.await?.ok_or_else(unknown)?))
}

async fn key(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let log = gateway.path.store.audit().clone();
    // The vault is opened while the gateway starts. Where no one opens it, the answer comes at once.
    let opened = tokio::time::timeout(OPENING, log.opened_key()).await;
    let current = opened.ok().flatten().ok_or_else(|| unsigned(&CheckpointError::NoKey))?;
    blocking(move || keys(&log, current)).await
}

async fn rotate(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let _ = gateway.path.store.audit().flush().await;
    let log = gateway.path.store.audit().clone();
    blocking(move || {
        let new = log.rotate_key().map_err(|error| unsigned(&error))?;
        keys(&log, new)
    })
    .await
}

/// Signs what is there, so that no one waits a minute for it. Without a key, what was signed before counts.
fn sign_now(log: &AuditLog) {
    if let Err(error) = log.sign() {
        tracing::debug!(%error, "nothing more of the audit log is signed");
    }
}

/// The key, and those that gave way to it, with the last event that each signed.
fn keys(log: &AuditLog, current: CheckpointKey) -> Result<Value, Problem> {
    let earlier = log.key_changes()?;
    let earlier = earlier.iter().map(|change| value!({ "key": change.key, "until": change.seq }));
    Ok(value!({ "key": current, "earlier": earlier.collect::<Vec<_>>() }))
}

/// Why nothing is signed, for people.
fn unsigned(error: &CheckpointError) -> Problem {
    let problem = Problem::new(Kind::Unavailable, error.to_string());
    match error {
        CheckpointError::NoKey | CheckpointError::BadKey => {
            problem.hint("the gateway's log says why; `toolcrib secret list` shows whether the vault opens")
        }
        CheckpointError::Changed | CheckpointError::Store(_) => problem,
    }
}
