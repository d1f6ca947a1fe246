//! Servers through their life: verify, what changed, approve, reject; why a tool is not there, and what ails a server.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName, Timestamp};
use toolcrib_call::pins::offer_of;
use toolcrib_catalog::{DefinitionId, with_tools};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::{Effect, Method, Operation};

use super::definition::writing;
use super::servers::NAMED;
use super::{ROW, Row, Run, blocking, row};
use crate::approval::{self, Judgement};
use crate::gateway::Gateway;
use crate::verification::Verification;
use toolcrib_view::arguments::{flag, required, text, texts};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(decide(gateway, Judgement::Approve, caller, arguments))),
        Operation {
            tool: "core_mcpserver_approve",
            method: Method::Post,
            path: "/servers/{name}/approve",
            tag: "servers",
            summary: "Approve what changed",
            description: "Approve what of a server differs from what was approved before, so that profiles that hold it show it. Without `tools` all that differs.",
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::InvalidParams, Kind::NotFound],
            input: DECIDE,
            output: DECIDED,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| {
            Box::pin(async { gateway.changes(&required(arguments, "name")?, caller) })
        }),
        Operation {
            tool: "core_mcpserver_changes",
            path: "/servers/{name}/changes",
            tag: "servers",
            summary: "Show what changed",
            description: "Show what a server offers that differs from what was approved, and who rejected which \
                          changes.",
            problems: &[Kind::NotFound],
            input: NAMED,
            output: r#"{"type":"object","properties":{"server":{"type":"string"},"digest":{"type":"string"},"approved":{"type":"boolean"},"summary":{"type":"string"},"text":{"type":"string"},"difference":{"type":"object"},"rejected":{"type":"array"}},"required":["server","digest","approved","summary","text","rejected"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(async { gateway.doctor(text(arguments, "name")?.as_deref()) })),
        Operation {
            tool: "core_mcpserver_doctor",
            path: "/doctor",
            tag: "status",
            summary: "Examine servers",
            description: "Tell how servers are, since when, what failed, the end of their stderr, and what to do.",
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The server; all without it"}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"servers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"state":{"type":"string"},"since":{"type":"string"},"ok":{"type":"boolean"},"advice":{"type":"string"},"unanswered":{"type":"object","description":"How many calls of each tool were given up and never answered","additionalProperties":{"type":"integer"}},"limited":{"type":"object","description":"How many calls met which limit","additionalProperties":{"type":"integer"}}},"required":["name","state","since","ok","advice"]}},"total":{"type":"integer"},"well":{"type":"integer"},"problems":{"type":"array"},"warnings":{"type":"array","description":"What is wrong, or soon will be, with the settings of the gateway itself"}},"required":["servers","total","well","problems","warnings"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(decide(gateway, Judgement::Reject, caller, arguments))),
        Operation {
            tool: "core_mcpserver_reject",
            method: Method::Post,
            path: "/servers/{name}/reject",
            tag: "servers",
            summary: "Turn down what changed",
            description: "Turn down what of a server differs from what was approved; it stays held. Without `tools` all that differs.",
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::InvalidParams, Kind::NotFound],
            input: DECIDE,
            output: DECIDED,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(repair(gateway, arguments))),
        Operation {
            tool: "core_mcpserver_repair",
            method: Method::Post,
            path: "/servers/{name}/repair",
            tag: "servers",
            summary: "Repair the installation of a server",
            description: "Remove what the installation of a server's program left half written in the cache of its package runner, and nothing else; then start the server again.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Unavailable],
            input: NAMED,
            output: r#"{"type":"object","properties":{"server":{"type":"string"},"removed":{"type":["string","null"],"description":"The folder that was removed"},"why":{"type":"string"}},"required":["server","removed","why"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(write_verified(gateway, arguments))),
        Operation {
            tool: "core_mcpserver_tools_write",
            method: Method::Post,
            path: "/servers/{name}/tools-write",
            tag: "servers",
            summary: "Write the verified tools into the file",
            description: "Write the tools of the last verification and its time into the definition's file, which \
                          stays as it is otherwise. `core_write_preview` shows the lines. Refused where the server \
                          offers something else by now, or was never verified.",
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
            input: NAMED,
            output: r#"{"type":"object","properties":{"server":{"type":"string"},"file":{"type":"string"},"tools":{"type":"integer"}},"required":["server","file","tools"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(verify(gateway, caller, arguments))),
        Operation {
            tool: "core_mcpserver_verify",
            method: Method::Post,
            path: "/servers/{name}/verify",
            tag: "servers",
            summary: "Verify a server",
            description: "Start a second instance of a server, list everything that it offers, compare it with what \
                          was approved, and save it as the snapshot. The first verification approves everything.",
            effect: Effect::Changes { idempotent: true },
            slow: true,
            problems: &[
                Kind::NotFound,
                Kind::Conflict,
                Kind::Stale,
                Kind::BadServer,
                Kind::Unavailable,
                Kind::Timeout,
                Kind::Cancelled,
                Kind::Definition,
            ],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"write":{"type":"boolean","default":false,"description":"Also write the tools and the time into the definition's file"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"server":{"type":"string"},"first":{"type":"boolean"},"summary":{"type":"string"},"text":{"type":"string"},"tools":{"type":"integer"},"tookMs":{"type":"integer"},"warnings":{"type":"array"}},"required":["server","first","summary","text","tools","tookMs"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(explain(gateway, caller, arguments))),
        Operation {
            tool: "core_tool_explain",
            path: "/explain",
            tag: "tools",
            summary: "Explain why a tool is there or not",
            description: "Walk from a tool's definition to the profile, and name the rule, the file and the line that hides it.",
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"tool":{"type":"string","description":"The tool's id server/tool, or a name in the profile"},"profile":{"type":"string","description":"The profile; the caller's without it"}},"required":["tool"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"tool":{"type":"string"},"profile":{"type":"string"},"visible":{"type":"boolean"},"hiddenBy":{"type":["string","null"]},"rule":{"type":["object","null"],"description":"Where the rule stands that hides it: `key`, `file`, `line`"},"steps":{"type":"array"},"nearest":{"type":"array"}},"required":["tool","profile","visible","steps","nearest"]}"#,
            ..ROW
        },
    ),
];

const DECIDE: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"tools":{"type":"array","items":{"type":"string"},"minItems":1,"description":"Names of tools, prompt:<name>, template:<uri>, instructions; without it all that differs"},"digest":{"type":"string","description":"Only if the server still offers what has this digest"}},"required":["name"],"additionalProperties":false}"#;
const DECIDED: &str = r#"{"type":"object","properties":{"server":{"type":"string"},"decided":{"type":"array","items":{"type":"object","properties":{"kind":{"type":"string"},"name":{"type":"string"}},"required":["kind","name"]}},"total":{"type":"integer"},"by":{"type":"string"}},"required":["server","decided","total","by"]}"#;

async fn verify(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    // A person who has just changed the file means what it says now.
    if let Ok(gateway) = writing(gateway) {
        blocking(move || {
            gateway.take_in();
            Ok(())
        })
        .await?;
    }
    let verified = gateway.verify(&required(arguments, "name")?, &by.principal.id).await?;
    let mut value = verified.to_value();
    if flag(arguments, "write")?.unwrap_or(false) {
        let Verification { server, tools, verified_at: at, .. } = (*verified).clone();
        value["file"] = write(gateway, VerifiedTools { server, tools, at }).await?.into();
    }
    Ok(value)
}

async fn repair(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (gateway, name) = (Arc::clone(gateway), required(arguments, "name")?);
    blocking(move || gateway.repair(&name)).await
}

/// What is written of a verification.
struct VerifiedTools {
    server: ServerName,
    tools: Vec<Raw>,
    at: Timestamp,
}

/// Writes what was verified into the definition's file, which stays as it is otherwise. Gives its name.
async fn write(gateway: &Arc<Gateway>, verified: VerifiedTools) -> Result<String, Problem> {
    let gateway = writing(gateway)?;
    blocking(move || {
        let which = DefinitionId::Server(verified.server.clone());
        let Some(written) = gateway.files.read(&which)? else {
            return Err(Problem::new(Kind::NotFound, format!("server `{}` has no file", verified.server)));
        };
        let tools: Vec<Value> = verified.tools.iter().map(Raw::to_value).collect();
        let file = written.file.display().to_string();
        let text = with_tools(&written.file, which.name(), written.text(), &tools, &verified.at.to_string());
        let text = text.map_err(|error| {
            Problem::new(Kind::Definition, format!("`{file}`: {error}"))
                .hint("the verified lists are saved as the snapshot anyway")
        })?;
        gateway.files.replace(&which, &text, &written.revision)?;
        gateway.take_in();
        Ok(file)
    })
    .await
}

async fn write_verified(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let name = required(arguments, "name")?;
    let running = gateway.running(&name)?;
    let pin = gateway.path.pins.of(&running.definition);
    let verified = pin.as_ref().and_then(|pin| pin.verified_at.zip(pin.verified_digest.as_deref()));
    let again = format!("verify it with `toolcrib verify {name}`");
    let Some((at, digest)) = verified else {
        return Err(Problem::new(Kind::Conflict, format!("server `{name}` was never verified")).hint(again));
    };
    let inventory = running.server.inventory();
    if offer_of(&inventory).digest().to_string() != digest {
        let message = format!("server `{name}` offers something else than when it was verified");
        return Err(Problem::new(Kind::Stale, message).hint(again));
    }
    let tools: Vec<Raw> = inventory.tools.iter().map(|tool| tool.raw.clone()).collect();
    let count = tools.len();
    let file = write(gateway, VerifiedTools { server: running.definition.name.clone(), tools, at }).await?;
    Ok(json!({ "server": name, "file": file, "tools": count }))
}

async fn decide(gateway: &Arc<Gateway>, judgement: Judgement, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let names = match arguments.get("tools") {
        None => Vec::new(),
        Some(_) => texts(arguments, "tools")
            .ok_or_else(|| Problem::new(Kind::InvalidParams, "`tools` must be a list of names"))?,
    };
    let which = approval::Selection { names, digest: text(arguments, "digest")? };
    gateway.decide(&required(arguments, "name")?, which, judgement, by).await
}

async fn explain(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let profile = text(arguments, "profile")?.unwrap_or_else(|| by.profile.to_string());
    let (gateway, tool) = (Arc::clone(gateway), required(arguments, "tool")?);
    blocking(move || gateway.explain(&profile, &tool)).await
}
