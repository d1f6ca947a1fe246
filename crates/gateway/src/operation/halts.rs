//! Halts: who may do nothing until an administrator says otherwise.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::{Halt, HaltCause, HaltSubject};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_store::HaltRecord;
use toolcrib_view::arguments::{flag, text};
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;

/// How many lifted halts are listed.
const LIFTED: usize = 100;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(add(gateway, caller, arguments))),
        Operation {
            tool: "core_halt_add",
            method: Method::Post,
            path: "/halts",
            tag: "halts",
            summary: "Halt a principal, client, session, profile or run",
            description: "Halt a principal, an OAuth client, a session, a profile or a run: its streams, calls, tasks and runs end, what was granted to it is revoked, and everything that it asks for is refused until the halt is lifted. Halting twice is as good as once.",
            effect: Effect::Destroys { idempotent: true },
            creates: true,
            problems: &[Kind::InvalidParams],
            input: r#"{"type":"object","properties":{"kind":{"type":"string","enum":["principal","client","session","profile","run"]},"subject":{"type":"string","minLength":1,"maxLength":512,"description":"Such as `user:acme/ann`, an OAuth client, the name of a session in the audit log, a profile, the id of a run"},"reason":{"type":"string","minLength":1,"maxLength":512,"description":"Why, for other administrators"}},"required":["kind","subject","reason"],"additionalProperties":false}"#,
            output: HALT,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(lift(gateway, caller, arguments))),
        Operation {
            tool: "core_halt_lift",
            method: Method::Delete,
            path: "/halts/{id}",
            tag: "halts",
            summary: "Lift a halt",
            description: "Lift a halt. Tokens that were revoked stay revoked: clients log in again. Only the holder of the token file lifts the halt of `admin`, by the command line on the machine of the gateway.",
            effect: Effect::Changes { idempotent: false },
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"id":{"type":"string","minLength":1,"maxLength":64,"description":"Such as `hlt_0f3a5c7e9b1d`"}},"required":["id"],"additionalProperties":false}"#,
            output: HALT,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(list(gateway, arguments))),
        Operation {
            tool: "core_halt_list",
            path: "/halts",
            tag: "halts",
            summary: "List halts",
            description: "List the halts in force, the oldest first; with `lifted` also those that were lifted, the newest first.",
            input: r#"{"type":"object","properties":{"lifted":{"type":"boolean","default":false}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"halts":{"type":"array","items":{"type":"object"}}},"required":["halts"]}"#,
            ..ROW
        },
    ),
];

const HALT: &str = r#"{"type":"object","properties":{"id":{"type":"string"},"kind":{"type":"string"},"subject":{"type":"string"},"reason":{"type":"string"},"canary":{"type":"string"},"addedBy":{"type":"string"},"addedAt":{"type":"string"},"new":{"type":"boolean","description":"Whether it was not halted before"}},"required":["id","kind","subject","reason","addedBy","addedAt"]}"#;

async fn add(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let required = |key: &str| Ok::<_, Problem>(text(arguments, key)?.unwrap_or_default());
    let subject = HaltSubject::new(&required("kind")?, &required("subject")?)?;
    let cause = HaltCause { reason: required("reason")?, canary: None, by: caller.principal.id.clone() };
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let (halt, is_new) = gateway.path.halts.add(subject, cause)?;
        let mut value = shown(&halt);
        value["new"] = is_new.into();
        Ok(value)
    })
    .await
}

async fn lift(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let id = text(arguments, "id")?.unwrap_or_default();
    let (gateway, caller) = (Arc::clone(gateway), caller.clone());
    blocking(move || Ok(shown(&*gateway.path.halts.lift(&id, &caller)?))).await
}

async fn list(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let with_lifted = flag(arguments, "lifted")?.unwrap_or(false);
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let mut halts: Vec<Value> = gateway.path.halts.list().iter().map(|halt| shown(halt)).collect();
        if with_lifted {
            halts.extend(gateway.path.halts.lifted(LIFTED)?.iter().map(lifted));
        }
        Ok(json!({ "halts": halts }))
    })
    .await
}

fn shown(halt: &Halt) -> Value {
    let mut value = json!({
        "id": &*halt.id, "kind": halt.subject.kind(), "subject": halt.subject.name(), "reason": &*halt.reason,
        "addedBy": halt.added_by.as_str(), "addedAt": halt.added_at.to_string(),
    });
    if let Some(canary) = &halt.canary {
        value["canary"] = (**canary).into();
    }
    value
}

fn lifted(halt: &HaltRecord) -> Value {
    let mut value = json!({
        "id": halt.id, "kind": halt.kind, "subject": halt.subject, "reason": halt.reason,
        "addedBy": halt.added_by.as_str(), "addedAt": halt.added_at.to_string(),
    });
    if let Some(canary) = &halt.canary {
        value["canary"] = canary.as_str().into();
    }
    if let Some((by, at)) = &halt.lifted {
        (value["liftedBy"], value["liftedAt"]) = (by.as_str().into(), at.to_string().into());
    }
    value
}
