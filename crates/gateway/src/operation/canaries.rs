//! Canaries: mint, list, remove. Whoever sends one is halted; see `operation/halts.rs`.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_store::CanaryRecord;
use toolcrib_view::arguments::text;
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, _| Box::pin(list(gateway))),
        Operation {
            tool: "core_canary_list",
            path: "/canaries",
            tag: "canaries",
            summary: "List canaries",
            description: "List the canaries that calls are looked through for, without their tokens.",
            output: r#"{"type":"object","properties":{"canaries":{"type":"array","items":{"type":"object"}}},"required":["canaries"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(mint(gateway, caller, arguments))),
        Operation {
            tool: "core_canary_mint",
            method: Method::Post,
            path: "/canaries",
            tag: "canaries",
            summary: "Mint a canary",
            description: "Make a token that no one has reason to send anywhere, to be put where only someone who looks around finds it. Whoever sends it through the gateway, or is sent it, is halted. The token is told once.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            problems: &[Kind::InvalidParams, Kind::Unavailable],
            input: r#"{"type":"object","properties":{"kind":{"type":"string","enum":["url","aws","email","text"]},"profile":{"type":"string","minLength":1,"maxLength":64,"description":"For which profile it is put out; it is looked for in every one"}},"required":["kind"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"id":{"type":"string"},"kind":{"type":"string"},"profile":{"type":"string"},"token":{"type":"string"},"mintedBy":{"type":"string"},"mintedAt":{"type":"string"}},"required":["id","kind","token","mintedBy","mintedAt"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(remove(gateway, arguments))),
        Operation {
            tool: "core_canary_remove",
            method: Method::Delete,
            path: "/canaries/{id}",
            tag: "canaries",
            summary: "Remove a canary",
            description: "Forget a canary: it is looked for no longer. Halts that came of it stay.",
            effect: Effect::Destroys { idempotent: false },
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"id":{"type":"string","minLength":1,"maxLength":64,"description":"Such as `can_0f3a5c7e9b1d`"}},"required":["id"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"id":{"type":"string"},"removed":{"type":"boolean"}},"required":["id","removed"]}"#,
            ..ROW
        },
    ),
];

async fn mint(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let kind = text(arguments, "kind")?.unwrap_or_default();
    let profile = text(arguments, "profile")?.map(|name| ProfileName::new(&name)).transpose();
    let profile = profile.map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
    let (gateway, by) = (Arc::clone(gateway), caller.principal.id.clone());
    blocking(move || {
        let minted = gateway.mint_canary(&kind, profile, &by)?;
        let mut value = shown(&minted.record);
        value["token"] = minted.token.expose().into();
        Ok(value)
    })
    .await
}

async fn list(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let records = gateway.path.store.canaries().all()?;
        let looked_for = gateway.path.canaries.ids();
        let rows = records.iter().map(|record| {
            let mut value = shown(record);
            value["lookedFor"] = looked_for.iter().any(|id| **id == *record.id).into();
            value
        });
        Ok(json!({ "canaries": rows.collect::<Vec<_>>() }))
    })
    .await
}

async fn remove(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let id = text(arguments, "id")?.unwrap_or_default();
    let gateway = Arc::clone(gateway);
    blocking(move || {
        gateway.remove_canary(&id)?;
        Ok(json!({ "id": id, "removed": true }))
    })
    .await
}

fn shown(record: &CanaryRecord) -> Value {
    let mut value = json!({
        "id": record.id, "kind": record.kind, "mintedBy": record.minted_by.as_str(),
        "mintedAt": record.minted_at.to_string(),
    });
    if let Some(profile) = &record.profile {
        value["profile"] = profile.as_str().into();
    }
    value
}
